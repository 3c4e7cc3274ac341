"""Items that are wrong in every way fail alone, say how to be right, and break nothing."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from abilities import Abilities, AbilityError, Settings
from tests.read.conftest import Opened
from tests.support.surfaces import SURFACES, CannotCarry, python, refuse_uncarried
from tests.support.tier import size

Payload = dict[str, Any]

KINDS = ["file", "glob", "search", "note", "memory", "recall"]
HUGE = "x" * 2_000

WRONG: list[tuple[Any, str, str | None]] = [
    (5, "invalid_item", None),
    (None, "invalid_item", None),
    (True, "invalid_item", None),
    ([], "invalid_item", None),
    (["ok.txt"], "invalid_item", None),
    (10**400, "invalid_item", None),
    ({}, "invalid_item", None),
    ({"fiel": "ok.txt"}, "invalid_item", None),
    ({"path": "ok.txt"}, "invalid_item", None),
    ({"weight": 2}, "invalid_item", None),
    ({"file": None}, "invalid_item", None),
    ({"file": "ok.txt", "glob": "*"}, "invalid_item", None),
    (dict.fromkeys(KINDS, "x"), "invalid_item", None),
    ('{"file": "ok.txt"', "invalid_item", None),
    ('{"fiel": "ok.txt"}', "invalid_item", None),
    ({"file": 5}, "wrong_type", "file"),
    ({"file": ["ok.txt"]}, "wrong_type", "file"),
    ({"file": "../x"}, "parent_traversal", None),
    ({"file": ""}, "empty_path", None),
    ({"file": HUGE}, "path_too_long", None),
    ({"file": "ok.txt", "depth": 2}, "unknown_argument", "depth"),
    ({"file": "ok.txt", "after": "/"}, "unknown_argument", "after"),
    ({"file": "ok.txt#L9-L3"}, "invalid_range", None),
    *(({"file": "ok.txt", "weight": weight}, "out_of_range", "weight") for weight in (0, 10, -1)),
    ({"file": "ok.txt", "weight": 10**400}, "out_of_range", "weight"),
    *(({"file": "ok.txt", "weight": weight}, "wrong_type", "weight") for weight in ("x", 1.5)),
    ({"file": "ok.txt", "weight": True}, "wrong_type", "weight"),
    ({"file": "ok.txt", "known": []}, "wrong_type", "known"),
    ({"file": "ok.txt", "known": HUGE}, "too_long", "known"),
    ({"memory": "tea", "known": 10**30}, "wrong_type", "known"),
    ({"glob": "../x"}, "parent_traversal", "glob"),
    ({"glob": "/etc/*"}, "absolute_path", "glob"),
    ({"glob": ""}, "too_short", "glob"),
    ({"glob": HUGE}, "too_long", "glob"),
    ({"glob": "*", "limit": 0}, "out_of_range", "limit"),
    ({"glob": "*", "limit": 101}, "out_of_range", "limit"),
    ({"note": "last 99 days"}, "invalid_format", "note"),
    ({"note": "last 0 days"}, "invalid_format", "note"),
    ({"note": "someday"}, "invalid_format", "note"),
    ({"note": "2026-02-30"}, "invalid_format", "note"),
    ({"note": "20260101"}, "invalid_format", "note"),
    ({"note": "long_term\n"}, "invalid_format", "note"),
    ({"note": 7}, "wrong_type", "note"),
    ({"memory": ""}, "invalid_key", "memory"),
    ({"memory": 7}, "wrong_type", "memory"),
    ({"memory": HUGE}, "invalid_key", "memory"),
    ({"memory": "tea", "depth": 7}, "out_of_range", "depth"),
    ({"memory": "tea", "breadth": 21}, "out_of_range", "breadth"),
    ({"memory": "tea", "total": 51}, "out_of_range", "total"),
    ({"memory": "tea", "limit": 5}, "unknown_argument", "limit"),
    ({"recall": ""}, "too_short", "recall"),
    ({"recall": "x" * 1_001}, "too_long", "recall"),
    ({"recall": "a\0b"}, "invalid_format", "recall"),
]

# No surface can carry these.
UNSENDABLE: list[tuple[Any, str, str | None]] = [
    ("\ud800", "invalid_unicode", None),
    ("ok\udcff", "invalid_unicode", None),
    ({"file": "\ud800"}, "invalid_unicode", None),
    ({"glob": "\ud800"}, "invalid_format", "glob"),
    ({"file": "ok.txt", "known": "\ud800"}, "invalid_format", "known"),
]

CURSORS = [
    "",
    "x",
    "5",
    "byte=",
    "byte=x/",
    "byte=5-3/",
    "L1-L2/",
    "L1/x",
    "byte=1@/",
    "../",
    "0:x",
]
CURSORS += ["byte=1/x/y@\u2603", "/\ud800", "/" + "9" * 500, "byte=" + "9" * 99 + "/", HUGE, "/\0"]
PLACES = [
    "/x",
    "/1",
    "/-1.a",
    "/1.",
    "/1.x.y",
    "/9999999.x",
    "/\u0661.x",
    "/1.x.-1",
    "/:",
    "/9999:x",
]


@pytest.fixture
async def filled(roots: Settings) -> Settings:
    assert roots.workspace_dir is not None
    (roots.workspace_dir / "ok.txt").write_text("fine\n")
    async with Abilities.open(roots) as abilities:
        await abilities.call("store_memory", {"type": "core", "key": "tea", "content": "of tea"})

    return roots


@pytest.fixture
async def app(filled: Settings) -> AsyncIterator[Abilities]:
    async with Abilities.open(filled) as abilities:
        yield abilities


def check_fault(record: Payload, reason: str, field: str | None) -> None:
    error = record["error"]
    assert (error["code"], error["reason"]) == ("INVALID_INPUT", reason), error
    assert error.get("field") == field
    assert len(record["input"]) <= 200
    assert len(error["message"]) <= 200
    if reason in ("invalid_item", "out_of_range", "too_long", "wrong_type", "invalid_format"):
        assert error["expected"]


@pytest.mark.parametrize(
    ("item", "reason", "field"),
    [*WRONG, *UNSENDABLE],
    ids=range(len(WRONG) + len(UNSENDABLE)),
)
async def test_a_wrong_item_fails_alone_and_says_how_to_be_right(
    item: Any, reason: str, field: str | None, app: Abilities
) -> None:
    answer = await app.call("read", {"items": ["ok.txt", item, {"memory": "tea"}]})

    before, wrong, after = answer["results"]
    check_fault(wrong, reason, field)
    assert before["data"]["content"] == "fine\n"
    assert after["data"]["content"] == "of tea"


async def test_a_plan_of_wrong_items_can_be_sent(app: Abilities) -> None:
    for item, reason, _ in [*WRONG, *UNSENDABLE, ({"weight": 10**30}, "invalid_item", None)]:
        plan = await app.call("read", {"items": ["ok.txt", item], "plan": True})

        request = json.loads(json.dumps(plan["next_request"]).encode())
        answer = await app.call("read", request)
        planned, came = plan["results"][1], answer["results"][1]
        assert planned["reason"] == reason
        assert came["error"]["code"] == "INVALID_INPUT"
        assert answer["results"][0]["data"]["content"] == "fine\n"


@pytest.mark.parametrize("surface", SURFACES)
async def test_wrong_items_fail_alone_on_every_surface(surface: str, filled: Settings) -> None:
    for start in range(0, len(WRONG), 12):
        part: list[Any] = []
        for item, _, _ in WRONG[start : start + 12]:
            part += ["ok.txt", item]
        request = {"items": part}
        try:
            refuse_uncarried(request)
        except CannotCarry:
            continue

        answer = await SURFACES[surface](filled, "read", request)

        assert answer == await python(filled, "read", request)
        for place, (_, reason, field) in enumerate(WRONG[start : start + 12]):
            check_fault(answer["results"][2 * place + 1], reason, field)
            assert answer["results"][2 * place]["data"]["content"] == "fine\n"


@pytest.mark.parametrize(
    ("item", "meant"),
    [({"fiel": "ok.txt"}, "file"), ({"globs": "*"}, "glob"), ({"memry": "x"}, "memory")],
)
async def test_a_misspelt_kind_is_told_by_its_name(
    item: Payload, meant: str, app: Abilities
) -> None:
    (record,) = (await app.call("read", {"items": [item]}))["results"]

    assert record["error"]["did_you_mean"] == meant
    assert record["error"]["expected"] == {"one_of": KINDS}


@pytest.mark.parametrize("cursor", [*CURSORS, *PLACES])
@pytest.mark.parametrize(
    "item",
    [
        {"glob": "*"},
        {"note": "long_term"},
        {"note": "today"},
        {"note": "last 7 days"},
        {"memory": "tea"},
        {"memory": "tea", "depth": 2},
        {"recall": "tea"},
    ],
    ids=str,
)
async def test_a_forged_cursor_breaks_nothing(item: Payload, cursor: str, app: Abilities) -> None:
    answer = await app.call("read", {"items": [{**item, "after": cursor}, "ok.txt"]})

    record, other = answer["results"]
    assert record.get("error", {}).get("code") != "INTERNAL_ERROR", record
    assert other["data"]["content"] == "fine\n"
    if cursor in CURSORS[:10]:
        assert record["error"]["code"] == "INVALID_INPUT", record


@pytest.mark.parametrize("days", ["0001-01-01:0001-01-01", "x:y", "2026-01-01", ":", "9:9"])
async def test_forged_days_break_nothing(days: str, app: Abilities) -> None:
    item = {"note": "last 7 days", "after": f"/{days}"}
    record, other = (await app.call("read", {"items": [item, "ok.txt"]}))["results"]

    assert other["data"]["content"] == "fine\n"
    if days.startswith("0001"):
        assert record["data"]["items"] == []
    else:
        check_fault(record, "invalid_format", "after")


async def test_a_cursor_reaches_no_file_that_a_path_does_not(
    app: Abilities, filled: Settings
) -> None:
    (filled.agent_dir.parent / "secret.txt").write_text("outside")

    for path in ("../secret.txt", "/etc/passwd", ".env", "id_rsa"):
        item = {"glob": "*", "after": f"byte=0-9/1:{path}"}
        (record,) = (await app.call("read", {"items": [item]}))["results"]
        for inner in record.get("data", {}).get("items", []):
            assert inner["success"] is False or inner["data"]["path"] == "ok.txt"


@pytest.mark.parametrize("count", [0, 26])
async def test_the_number_of_items_is_bounded(count: int, app: Abilities) -> None:
    with pytest.raises(AbilityError) as caught:
        await app.call("read", {"items": ["ok.txt"] * count})

    assert caught.value.fault.reason == ("too_many" if count else "too_few")
    assert caught.value.fault.field == "items"


async def test_items_and_objects_may_be_strings_of_json(app: Abilities) -> None:
    expected = await app.call("read", {"items": ["ok.txt", {"memory": "tea", "weight": 2}]})

    as_text = await app.call("read", {"items": '["ok.txt", {"memory": "tea", "weight": 2}]'})
    (_, inner) = (await app.call("read", {"items": ["ok.txt", '{"memory":"tea","weight":"2"}']}))[
        "results"
    ]

    assert as_text == expected
    assert inner["data"] == expected["results"][1]["data"]


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
names = [*KINDS, "in", "regex", "context", "limit", "depth", "breadth", "total", "weight", "known"]
objects = st.dictionaries(st.sampled_from([*names, "after"]), json_values, max_size=4)


@hypothesis_settings(max_examples=size("ABILITIES_EXAMPLES", quick=60, full=500), deadline=None)
@given(st.lists(st.one_of(json_values, objects), min_size=1, max_size=8))
def test_no_item_is_an_unexpected_error(opened: Opened, items: list[Any]) -> None:
    reply = opened.runner.run(opened.bounded.reply("read", {"items": items}, for_model=True))

    for record in reply.payload["results"]:
        assert record.get("error", {}).get("code") != "INTERNAL_ERROR", record
