"""Items that are wrong, forged or disabled fail alone, say how to be right, and break nothing."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from abilities import Abilities, AbilityError, Settings
from tests.read.conftest import Opened
from tests.support.reading import write_files
from tests.support.surfaces import with_changes
from tests.support.tier import size

Payload = dict[str, Any]

KINDS = ["file", "glob", "search", "note", "memory", "recall"]
HUGE = "x" * 2_000
OK = {"file": "ok.txt"}

REFUSED: dict[tuple[str, str | None], list[Any]] = {
    ("invalid_item", None): [
        *(5, None, True, [], ["ok.txt"], 10**400, {}, {"fiel": "ok.txt"}, {"path": "ok.txt"}),
        *({"weight": 2}, {"file": None}, {"file": "ok.txt", "glob": "*"}),
        *(dict.fromkeys(KINDS, "x"), '{"file": "ok.txt"', '{"fiel": "ok.txt"}'),
    ],
    ("wrong_type", "file"): [{"file": 5}, {"file": ["ok.txt"]}],
    ("parent_traversal", None): [{"file": "../x"}],
    ("empty_path", None): [{"file": ""}],
    ("path_too_long", None): [{"file": HUGE}],
    ("unknown_argument", "depth"): [{**OK, "depth": 2}],
    ("unknown_argument", "after"): [{**OK, "after": "/"}],
    ("invalid_range", None): [{"file": "ok.txt#L9-L3"}],
    ("out_of_range", "weight"): [{**OK, "weight": weight} for weight in (0, 10, -1, 10**400)],
    ("wrong_type", "weight"): [{**OK, "weight": weight} for weight in ("x", 1.5, True)],
    ("wrong_type", "known"): [{**OK, "known": []}, {"memory": "tea", "known": 10**30}],
    ("too_long", "known"): [{**OK, "known": HUGE}],
    ("parent_traversal", "glob"): [{"glob": "../x"}],
    ("absolute_path", "glob"): [{"glob": "/etc/*"}],
    ("too_short", "glob"): [{"glob": ""}],
    ("too_long", "glob"): [{"glob": HUGE}],
    ("out_of_range", "limit"): [{"glob": "*", "limit": limit} for limit in (0, 101)],
    ("invalid_format", "note"): [
        *({"note": days} for days in ("last 99 days", "last 0 days", "someday")),
        *({"note": date} for date in ("2026-02-30", "20260101", "long_term\n")),
    ],
    ("wrong_type", "note"): [{"note": 7}],
    ("invalid_key", "memory"): [{"memory": ""}, {"memory": HUGE}],
    ("wrong_type", "memory"): [{"memory": 7}],
    ("out_of_range", "depth"): [{"memory": "tea", "depth": 7}],
    ("out_of_range", "breadth"): [{"memory": "tea", "breadth": 21}],
    ("out_of_range", "total"): [{"memory": "tea", "total": 51}],
    ("unknown_argument", "limit"): [{"memory": "tea", "limit": 5}],
    ("too_short", "recall"): [{"recall": ""}],
    ("too_long", "recall"): [{"recall": "x" * 1_001}],
    ("invalid_format", "recall"): [{"recall": "a\0b"}],
    # No surface but Python can carry these.
    ("invalid_unicode", None): ["\ud800", "ok\udcff", {"file": "\ud800"}],
    ("invalid_format", "glob"): [{"glob": "\ud800"}],
    ("invalid_format", "known"): [{**OK, "known": "\ud800"}],
}
"""What is sent, by the reason and the field of its refusal."""

NO_CURSORS = ["", "x", "5", "byte=", "byte=x/", "byte=5-3/", "L1-L2/", "L1/x", "byte=1@/", "../"]
CURSORS = [
    *("0:x", "byte=1/x/y@\u2603", "/\ud800", "/" + "9" * 500, "byte=" + "9" * 99 + "/", HUGE),
    *("/\0", "/x", "/1", "/-1.a", "/1.", "/1.x.y", "/9999999.x", "/\u0661.x", "/1.x.-1", "/:"),
    "/9999:x",
]
GOING_ON: list[Payload] = [
    *({"glob": "*"}, {"note": "long_term"}, {"note": "today"}, {"note": "last 7 days"}),
    *({"memory": "tea"}, {"memory": "tea", "depth": 2}, {"recall": "tea"}),
]


@pytest.fixture
async def filled(roots: Settings) -> Settings:
    write_files(roots.workspace_dir, {"ok.txt": "fine\n"})
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


@pytest.mark.parametrize(("reason", "field"), REFUSED)
async def test_a_wrong_item_fails_alone_and_says_how_to_be_right(
    reason: str, field: str | None, app: Abilities
) -> None:
    for item in REFUSED[reason, field]:
        request = {"items": ["ok.txt", item, {"memory": "tea"}]}
        answer = await app.call("read", request)
        plan = await app.call("read", {**request, "plan": True})
        sent = json.loads(json.dumps(plan["next_request"]).encode())
        came = (await app.call("read", sent))["results"]

        before, wrong, after = answer["results"]
        check_fault(wrong, reason, field)
        assert before["data"]["content"] == "fine\n"
        assert after["data"]["content"] == "of tea"
        assert plan["results"][1]["reason"] == reason
        assert [record["success"] for record in came] == [True, False, True]
        assert came[1]["error"]["code"] == "INVALID_INPUT"


@pytest.mark.parametrize(
    ("item", "meant"),
    [({"fiel": "ok.txt"}, "file"), ({"globs": "*"}, "glob"), ({"memry": "x"}, "memory")],
)
async def test_a_misspelt_kind_is_suggested(item: Payload, meant: str, app: Abilities) -> None:
    (record,) = (await app.call("read", {"items": [item]}))["results"]

    assert record["error"]["did_you_mean"] == meant
    assert record["error"]["expected"] == {"one_of": KINDS}


@pytest.mark.parametrize("item", GOING_ON, ids=str)
async def test_a_forged_cursor_breaks_nothing(item: Payload, app: Abilities) -> None:
    for cursor in (*NO_CURSORS, *CURSORS):
        answer = await app.call("read", {"items": [{**item, "after": cursor}, "ok.txt"]})

        record, other = answer["results"]
        code = record.get("error", {}).get("code")
        assert code == "INVALID_INPUT" if cursor in NO_CURSORS else code != "INTERNAL_ERROR", cursor
        assert other["data"]["content"] == "fine\n"


@pytest.mark.parametrize("days", ["0001-01-01:0001-01-01", "x:y", "2026-01-01", ":", "9:9"])
async def test_forged_days_break_nothing(days: str, app: Abilities) -> None:
    item = {"note": "last 7 days", "after": f"/{days}"}
    record, other = (await app.call("read", {"items": [item, "ok.txt"]}))["results"]

    assert other["data"]["content"] == "fine\n"
    if days.startswith("0001"):
        assert record["data"]["items"] == []
    else:
        check_fault(record, "invalid_format", "after")


async def test_a_cursor_reaches_no_more_than_a_path(app: Abilities, filled: Settings) -> None:
    write_files(filled.agent_dir.parent, {"secret.txt": "outside"})

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
    inner = await app.call("read", {"items": ["ok.txt", '{"memory":"tea","weight":"2"}']})

    assert as_text == expected
    assert inner["results"][1]["data"] == expected["results"][1]["data"]


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
names = [*KINDS, "in", "regex", "context", "limit", "depth", "breadth", "total", "weight", "known"]
objects = st.dictionaries(st.sampled_from([*names, "after"]), json_values, max_size=4)


@hypothesis_settings(max_examples=size("ABILITIES_EXAMPLES", quick=30, full=400))
@given(st.lists(st.one_of(json_values, objects), min_size=1, max_size=8))
def test_no_item_is_an_unexpected_error(opened: Opened, items: list[Any]) -> None:
    reply = opened.runner.run(opened.bounded.reply("read", {"items": items}, for_model=True))

    for record in reply.payload["results"]:
        assert record.get("error", {}).get("code") != "INTERNAL_ERROR", record


ITEMS_OF: dict[str, list[Any]] = {
    "file_read_bulk": ["a.txt", {"file": "a.txt"}, {"glob": "*"}, {"search": "a"}],
    "file_list": [{"glob": "*"}],
    "memory_read_bulk": [{"note": "today"}, {"memory": "k"}],
    "memory_list": [{"memory": "k*"}],
    "bulk_read_memory": [{"memory": "k", "depth": 1}],
    "recall": [{"recall": "a"}],
}
"""What stands for an ability: it is refused if this is disabled, whatever the profile."""

EVERY_ITEM = [item for items in ITEMS_OF.values() for item in items]


async def read_every_item(settings: Settings) -> list[str]:
    write_files(settings.workspace_dir, {"a.txt": "a\n"})
    async with Abilities.open(settings) as abilities:
        payload = await abilities.call("read", {"items": EVERY_ITEM})

    return [record.get("error", {}).get("reason", "found") for record in payload["results"]]


@pytest.mark.parametrize("name", ITEMS_OF)
async def test_items_of_a_disabled_ability_are_refused(name: str, roots: Settings) -> None:
    outcomes = await read_every_item(with_changes(roots, disabled=(name,)))

    for item, outcome in zip(EVERY_ITEM, outcomes, strict=True):
        assert (outcome == "disabled") == (item in ITEMS_OF[name]), item


@pytest.mark.parametrize("tools", ["lean", "read", "all"])
async def test_profiles_keep_nothing_from_it(tools: str, roots: Settings) -> None:
    outcomes = await read_every_item(with_changes(roots, tools=(tools,)))

    assert "disabled" not in outcomes
    assert outcomes[0] == "found"
