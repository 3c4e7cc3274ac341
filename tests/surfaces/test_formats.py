"""`output_format` and `detail` on every surface; the `text` format, which no content can forge."""

import asyncio
import re
from collections import defaultdict
from copy import deepcopy
from typing import Any, get_args

import orjson
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from abilities import Abilities, Settings, parse_text, render
from abilities.declarations.fields import OutputFormat
from abilities.declarations.refusals import Fault
from abilities.declarations.values import JsonObject
from abilities.helpers.batch.items import ItemOffer, Leaf
from abilities.helpers.batch.sharing import fill_reply
from abilities.helpers.reply.budget import Bound, Counting
from abilities.helpers.reply.envelope import BulkRequest, FoundItem, format_item
from abilities.helpers.text import Piece
from abilities.server.telemetry import CallMetrics
from tests.support.catalog import BUILT_IN
from tests.support.detail_cases import CASES, Case, check_schema, fill, without_changing_values
from tests.support.file_cases import ROWS, Row
from tests.support.sample_files import SampleFiles
from tests.support.serving import serving_app
from tests.support.surfaces import FORMATTED, SURFACES, calls_through, python, with_changes
from tests.support.tier import size

FORMATS = get_args(OutputFormat)
MODEL_SURFACES = [name for name in SURFACES if name.startswith(("mcp", "langchain"))]
BOUND = 40_000

QUOTES = '"\\"\r\n' * 1_000
"""It takes twice as many bytes as JSON as it has."""
CALLS: dict[str, JsonObject] = {
    "file_read_bulk": {"paths": [*(f"{n}.txt" for n in range(9)), "none.txt", "0.txt#L2"]},
    "memory_read_bulk": {
        "targets": [{"type": "long_term"}, {"type": "stored", "key": "m3"}],
        "max_chars_per_item": 100_000,
    },
    "bulk_read_memory": {"key": "m0", "depth": 2, "breadth": 20, "total": 50},
    "query_memories": {"limit": 50},
    "file_list": {"pattern": "*.txt"},
    "read": {
        "items": [
            {"glob": "*.txt", "weight": 3},
            {"memory": "m0", "depth": 2, "breadth": 20},
            *("0.txt#L2", "none.txt", {"note": "long_term"}, {"recall": "7 8 9"}),
        ]
    },
    "memory_history": {"key": "m0"},
    "memory_changes": {"since": 3},
    "memory_list": {"prefix": "m"},
    "recall": {"queries": ["7 8 9", "10"], "max_tokens": 16_000, "detail": "full"},
    "memory_get": {"key": "m1"},  # last: its access is counted up to a second later
}


@pytest.fixture
async def full(roots: Settings) -> Settings:
    """More to read than one reply holds, most of which JSON escapes."""
    for n in range(9):
        (roots.workspace_dir / f"{n}.txt").write_bytes(f"{n}\r{QUOTES}".encode())

    (roots.agent_dir / "MEMORY.md").write_text(QUOTES * 9)
    settings = with_changes(roots, max_response_bytes=BOUND)

    async with Abilities.open(settings) as abilities:
        for n in range(12):
            links = [{"key": f"m{other}"} for other in range(1, 12)] if n == 0 else []
            memory = {"type": "core", "key": f"m{n}", "content": f"{n}{QUOTES}"[:4_900]}
            await abilities.call("store_memory", {**memory, "links": links})

    return settings


def test_every_reading_and_finding_ability_has_formats() -> None:
    assert {*CALLS, "remember"} == FORMATTED
    others = {ability.name for ability in BUILT_IN} - FORMATTED
    single = {"store_memory", "update_memory", "delete_memory", "memory_restore"}
    assert others == {*single, "get_memory_stats"}


@pytest.mark.requirement("R1.7.2")
@pytest.mark.parametrize("chosen", ["text", "toon", "auto"])
@pytest.mark.parametrize("surface", SURFACES)
async def test_every_surface_answers_in_the_format_that_a_call_asks_for(
    surface: str, chosen: str, full: Settings
) -> None:
    for name, arguments in CALLS.items():
        asked = {**arguments, "output_format": chosen}
        payload = await SURFACES[surface](full, name, asked)
        if surface != "mcp_structured":
            assert payload == await python(full, name, asked)


@pytest.mark.parametrize("surface", SURFACES)
async def test_models_read_the_format_set_and_programs_json(surface: str, full: Settings) -> None:
    for chosen, name in zip(
        FORMATS, ("file_read_bulk", "recall", "bulk_read_memory", "file_list"), strict=True
    ):
        settings = with_changes(full, output_format=chosen)
        payload = await SURFACES[surface](settings, name, CALLS[name])
        if surface not in MODEL_SURFACES:
            assert payload == await python(full, name, CALLS[name])


@pytest.mark.parametrize("detail", ["full", "concise"])
@pytest.mark.parametrize("chosen", FORMATS)
async def test_a_reply_keeps_the_bound_in_the_format_that_is_sent(
    chosen: str, detail: str, full: Settings
) -> None:
    async with Abilities.open(full) as abilities:
        for name, arguments in CALLS.items():
            asked = {**arguments, "output_format": chosen, "detail": detail}

            reply = await abilities.reply(name, asked)
            both = await abilities.reply(name, asked, for_model=True, structured=True)

            assert len(reply.text.encode()) <= BOUND
            assert max(len(both.text.encode()), len(render(both.payload).encode())) <= BOUND
            if chosen == "text" and name in FILLING:  # what JSON escapes fills the room as text
                assert parse_text(reply.text) == reply.payload
                assert len(reply.text.encode()) > 0.85 * BOUND
                assert len(render(reply.payload).encode()) > 1.5 * BOUND


FILLING = ("file_read_bulk", "bulk_read_memory", "memory_read_bulk", "query_memories")


async def test_auto_is_the_smallest_of_the_three_and_fits_as_json(full: Settings) -> None:
    async with Abilities.open(full) as abilities:
        for name, arguments in CALLS.items():
            as_json = await abilities.call(name, {**arguments, "output_format": "json"})
            auto = await abilities.reply(name, {**arguments, "output_format": "auto"})

            # What is left repeats the format that was asked for.
            if "next_request" in auto.payload:
                as_json["next_request"]["output_format"] = "auto"
            for request in as_json.get("next_requests", []):
                request["output_format"] = "auto"
            assert auto.payload == as_json
            texts = [render(as_json), render(as_json, "text"), render(as_json, "toon")]
            assert auto.text == min(texts, key=lambda text: len(text.encode()))


async def test_the_rest_is_asked_for_in_the_same_format(full: Settings) -> None:
    contents: dict[str, str] = dict.fromkeys((f"{n}.txt" for n in range(9)), "")
    request: JsonObject | None = {"paths": list(contents), "output_format": "text"}

    async with Abilities.open(full) as abilities:
        given = {"output_format": "text", "detail": "concise"}
        walk = await abilities.call("bulk_read_memory", CALLS["bulk_read_memory"] | given)
        for rest in walk["next_requests"]:
            assert rest == {"targets": rest["targets"], **given}

        while request is not None:
            reply = await abilities.reply("file_read_bulk", request)
            assert reply.format == "text"

            payload = parse_text(reply.text)
            for record in payload["results"]:
                if record["success"]:
                    contents[record["data"]["path"]] += record["data"]["content"]
            request = payload.get("next_request")

    assert contents == {f"{n}.txt": f"{n}\r{QUOTES}" for n in range(9)}


pieces = st.builds(
    lambda text, times: text * times,
    st.text(st.sampled_from('ab"\\\n\x01é世🙂'), min_size=1, max_size=8),
    st.integers(0, 900),
)
countings: tuple[Counting, ...] = get_args(Counting)


@hypothesis_settings(max_examples=size("ABILITIES_EXAMPLES", quick=30, full=200))
@given(st.lists(st.one_of(pieces, st.none()), min_size=1, max_size=8), st.sampled_from(countings))
def test_a_bulk_reply_keeps_its_bound_however_it_is_counted(
    contents: list[str | None], counting: Counting
) -> None:
    items = [f"{n}.txt" for n in range(len(contents))]
    offers: list[ItemOffer] = []
    for item, content in zip(items, contents, strict=True):
        if content is None:
            offers.append(ItemOffer(item, item, fault=FileNotFoundError()))
        else:
            offers.append(ItemOffer(item, item, leaves=[Leaf(_find(item, content), len(content))]))

    request = BulkRequest("paths", items, {"paths": items})
    reply = asyncio.run(fill_reply(request, offers, Bound(6_000, counting)))

    assert [record["input"] for record in reply["results"]] == items
    if counting != "text":
        assert len(render(reply).encode()) <= 6_000
    if counting != "json":
        assert len(render(reply, "text").encode()) <= 6_000


def _find(item: str, content: str) -> FoundItem:
    data: dict[str, Any] = {"path": item, "content": ""}
    size = len(content.encode())
    return FoundItem(data, Piece(content), item, lambda point: f"{item}#{point}", size)


WITH_DETAIL = [ability.name for ability in BUILT_IN if "detail" in ability.input.model_fields]


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_a_concise_answer_has_few_fields(case: Case, settings: Settings) -> None:
    await fill(settings)

    answer = await python(settings, case.name, {**case.arguments, "detail": "concise"})

    assert without_changing_values(answer) == case.answer


@pytest.mark.parametrize("surface", SURFACES)
async def test_the_setting_decides_where_a_call_does_not(surface: str, settings: Settings) -> None:
    await fill(settings)
    concise = with_changes(settings, detail="concise")
    call = SURFACES[surface]

    for name, arguments, _ in CASES:
        if name == "recall":
            continue  # its records are concise whatever is set
        by_argument = await python(settings, name, {**arguments, "detail": "concise"})
        by_setting = await call(concise, name, arguments)
        full = await call(concise, name, {**arguments, "detail": "full"})

        # Only what was given is repeated.
        assert by_setting == without_detail(by_argument, "concise")
        assert without_detail(full, "full") == await python(settings, name, arguments)


def without_detail(payload: dict[str, Any], detail: str) -> dict[str, Any]:
    for request in (payload.get("next_request"), *payload.get("next_requests", [])):
        if request is not None:
            assert request.pop("detail") == detail

    return payload


@pytest.mark.parametrize("surface", SURFACES)
async def test_models_get_concise_answers_by_default_and_programs_full_ones(
    surface: str, roots: Settings
) -> None:
    (roots.workspace_dir / "tiny.txt").write_text("tiny")
    unset = with_changes(roots, detail=None)
    is_for_models = surface.startswith(("mcp", "langchain"))

    usual = await SURFACES[surface](unset, "file_read_bulk", {"paths": ["tiny.txt"]})
    full = await SURFACES[surface](
        unset, "file_read_bulk", {"paths": ["tiny.txt"], "detail": "full"}
    )

    assert ("data" in usual["results"][0]) is not is_for_models
    assert full["results"][0]["data"]["content"] == "tiny"


async def test_a_concise_write_sends_nothing_back(settings: Settings) -> None:
    call = calls_through("python")(settings)
    write = {"type": "core", "key": "k", "detail": "concise"}

    stored = await call("store_memory", **write, content="word " * 900)
    again = await call("store_memory", **write, content="x")
    name = stored["id"]
    updated = await call("update_memory", id=name, summary="new", detail="concise")
    archived = await call("delete_memory", id=name, detail="concise")
    deleted = await call("delete_memory", id=name, permanent=True, detail="concise")

    version = stored["version"]
    assert stored == {"id": name, "key": "k", "version": version, "created": True}
    replaced = {"created": False, "replaced": version}
    assert again == {"id": name, "key": "k", "version": version + 1, **replaced}
    assert updated == {"id": name, "key": "k", "version": version + 2}
    assert archived == {"id": name, "key": "k", "action": "archived", "version": version + 3}
    assert deleted == {"id": name, "action": "deleted", "version": version + 4}


async def test_an_address_takes_the_detail_in_its_query_or_body(settings: Settings) -> None:
    ids = await fill(settings)
    asked = {"detail": "concise"}

    async with serving_app(settings) as server:
        for path, name, arguments in (
            ("/api/memories/A", "memory_get", {"key": "A"}),
            ("/api/memories/A/bulk", "bulk_read_memory", {"key": "A"}),
            ("/api/memories", "query_memories", {}),
        ):
            answer = await server.ask("GET", path, params=asked)
            assert answer.text == render(await server.abilities.call(name, {**arguments, **asked}))

        memory = {"type": "core", "key": "A", "content": "new", **asked}
        of_one = f"/api/memories/by-id/{ids['A']}"
        stored = await server.ask("POST", "/api/memories", json=memory)
        updated = await server.ask("PATCH", of_one, json={"summary": "s", **asked})
        deleted = await server.ask("DELETE", of_one, params=asked)

    assert list(stored.json()) == ["id", "key", "version", "created", "replaced"]
    assert list(updated.json()) == ["id", "key", "version"]
    assert list(deleted.json()) == ["id", "key", "action", "version"]


@pytest.mark.parametrize("detail", ["full", "concise"])
async def test_every_answer_is_what_its_schema_says(
    detail: str, settings: Settings, world: SampleFiles, unprivileged: None
) -> None:
    ids = await fill(settings)
    calls: list[tuple[str, dict[str, Any]]] = [
        *((case.name, case.arguments) for case in CASES),
        *((row.name, row.arguments) for row in ROWS),
        ("store_memory", {"type": "core", "content": "x", "key": "A"}),
        ("update_memory", {"id": ids["B"], "content": "y"}),
        ("delete_memory", {"id": ids["C"]}),
        ("delete_memory", {"id": ids["D"], "permanent": True}),
        ("bulk_read_memory", {"key": "A", "depth": 1, "breadth": 1}),
    ]

    checked = set()
    async with Abilities.open(settings) as abilities:
        for name, arguments in calls:
            if name in WITH_DETAIL:
                reply = await abilities.reply(name, {**arguments, "detail": detail})
                if not reply.failed:
                    check_schema(name, reply.payload)
                    checked.add(name)

    assert len(checked) >= 8


@pytest.mark.parametrize("row", ROWS, ids=str)
async def test_concise_records_are_those_of_the_full_answer_with_fewer_fields(
    row: Row, settings: Settings, world: SampleFiles, unprivileged: None
) -> None:
    row_settings = settings.model_copy(update=row.settings)
    full = await python(row_settings, row.name, row.arguments)
    concise = await python(row_settings, row.name, {**row.arguments, "detail": "concise"})
    if "error" in full:
        assert concise == full or "detail" in row.arguments
        return

    assert concise["summary"]["requested"] == full["summary"]["requested"]
    for shown, record in zip(concise["results"], full["results"], strict=True):
        assert shown["success"] == record["success"]
        assert not any(isinstance(value, dict | list) for value in shown.values())

        if record["success"]:
            assert shown.get("source", "workspace") == record["data"].get("source", "workspace")
            # More fits beside shorter frames.
            assert shown["content"].startswith(record["data"]["content"])
            assert ("next" in shown) <= ("truncation" in record)
        elif record["error"]["reason"] != "response_budget":
            assert shown["input"] == record["input"]
            assert shown["reason"] == record["error"]["reason"]
            assert shown.get("message", record["error"]["message"]) == record["error"]["message"]


async def test_metrics_count_concise_answers_as_full_ones(settings: Settings) -> None:
    await fill(settings)

    for name, arguments, _ in CASES:
        full = CallMetrics.from_payload(await python(settings, name, arguments))
        concise = CallMetrics.from_payload(
            await python(settings, name, {**arguments, "detail": "concise"})
        )
        assert concise == full, name


async def test_a_concise_walk_continues_to_the_last_character(roots: Settings) -> None:
    limited = with_changes(roots, max_response_bytes=40_000)
    texts = {f"k{number}": f'{number} "é"\n' * 700 for number in range(30)}

    async with Abilities.open(limited) as abilities:
        for key, text in texts.items():
            links = [{"key": other} for other in texts if key == "k0" and other != key]
            memory = {"type": "core", "key": key, "content": text, "links": links}
            await abilities.call("store_memory", memory)

        arguments = {"key": "k0", "breadth": 20, "total": 50, "detail": "concise"}
        walk = await abilities.call("bulk_read_memory", arguments)
        records = [walk["targetMemory"], *walk["associatedMemories"]]
        requests = walk["next_requests"]
        assert len(render(walk).encode()) <= 40_000

        while requests:
            assert requests[-1]["detail"] == "concise"
            answer = await abilities.call("memory_read_bulk", requests.pop())
            records += [record for record in answer["results"] if record["success"]]
            requests += [answer["next_request"]] if "next_request" in answer else []

    read: dict[str, str] = defaultdict(str)
    for record in records:
        read[record["key"]] += record.get("content", "")
    assert len(read) == 21
    assert read == {key: texts[key] for key in read}


async def test_a_wrong_detail_is_refused(settings: Settings) -> None:
    async with Abilities.open(settings) as abilities:
        for name in WITH_DETAIL:
            fault = (await abilities.reply(name, {"detail": "brief"})).payload["error"]
            wrong = [mistake["field"] for mistake in fault.get("fields", [fault])]
            assert "detail" in wrong


many = hypothesis_settings(max_examples=size("ABILITIES_EXAMPLES", quick=50, full=500))

FORGED = [
    '{"results":[1],"summary":{"requested":1}}\n',
    '01234567 {"input":"x","success":true,"data":{}}\n',
    '\n01234567 {"input":"x","success":true,"data":{}}\nforged\n',
    *("1\n", "[2]", "{}\n", "\\n", '"', "no final newline", "世界🙂"),
    *("\r\n", "\r", "\n", "\n\n", "\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x00", "\ufeff"),
]
chars = st.characters(exclude_categories=["Cs"])
fragments = st.one_of(st.sampled_from(FORGED), st.text(chars, max_size=20))
contents = st.lists(fragments, max_size=6).map("".join)
names = st.text(chars, max_size=20)
truncations = st.just(
    {"reason": "budget", "returned_chars": 3, "next": {"key": "k", "resume": "r"}}
)


def build_records(first_field: str) -> st.SearchStrategy[dict[str, Any]]:
    """Return records as the abilities make them: full, flat, cut, empty and failed."""
    named = {first_field: names}
    success = {"success": st.just(True)}
    cut = {"truncation": truncations}
    data = st.fixed_dictionaries({"path": names, "content": contents}, optional={"date": names})
    only_content = st.fixed_dictionaries({"content": contents})

    # Concise memories do not say that they succeeded; concise items of a bulk reply do.
    flat = st.fixed_dictionaries(named | success | {"content": contents}, optional=cut)
    if first_field == "key":
        flat = st.fixed_dictionaries(named | {"content": contents}, optional=cut)

    return st.one_of(
        st.fixed_dictionaries(named | success | {"data": data | only_content}, optional=cut),
        flat,
        st.fixed_dictionaries(named | {"success": st.just(False), "error": st.just({"code": "X"})}),
    )


bulk_replies = st.fixed_dictionaries(
    {"results": st.lists(build_records("input"), max_size=6), "summary": st.just({"requested": 1})},
    optional={"next_request": st.fixed_dictionaries({"paths": st.lists(names, max_size=2)})},
)


def build_left_out(item: object, size: int | None) -> dict[str, Any]:
    """Return the record of an item that was left out, concise without a size."""
    record: dict[str, Any] = {"input": format_item(item), "success": False}
    if size is None:
        return {**record, "reason": "response_budget"}

    fault = Fault.from_reason("response_budget").model_copy(update={"size_bytes": size})
    return {**record, "error": fault.to_payload()}


@st.composite
def long_batches(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a reply with items that were left out; now and then its next request has others."""
    targets = st.fixed_dictionaries({"type": st.just("stored"), "key": names})
    argument, items = draw(
        st.sampled_from([("paths", names), ("targets", targets), ("items", names | targets)])
    )
    sizes = st.none() if draw(st.booleans()) else st.integers(0, 2**53)
    records: list[dict[str, Any]] = []
    rest: list[object] = []

    for outcome in draw(st.lists(st.sampled_from(["whole", "cut", "failed", "out", "out"]))):
        item = draw(items)
        record: dict[str, Any] = {"input": format_item(item), "success": True}
        if outcome == "out":
            record = build_left_out(item, draw(sizes))
        elif outcome == "failed":
            error = {"code": "NOT_FOUND", "reason": "not_found"}
            record |= {"success": False, "error": error}
        else:
            record["content"] = draw(contents)
        if outcome == "cut":
            record["next"] = draw(names)
        if outcome in ("cut", "out"):
            rest.append(item)
        records.append(record)

    if draw(st.integers(0, 3)) == 0:
        rest = draw(st.permutations(rest))[: draw(st.integers(0, len(rest)))]
    return {"results": records, "summary": {}, "next_request": {"limit": 1, argument: rest}}


walks = st.fixed_dictionaries(
    {
        "targetMemory": build_records("key"),
        "associatedMemories": st.lists(build_records("key"), max_size=6),
        "metadata": st.just({"failed": 0, "limits": {"depth": 3}}),
    }
)
pages = st.fixed_dictionaries(
    {"memories": st.lists(build_records("key"), max_size=6), "total": st.integers(0, 9)}
)
answers = st.fixed_dictionaries(
    {"memories": st.lists(build_records("key"), max_size=4), "matched": st.integers(0, 9)}
)
recalls = st.fixed_dictionaries(
    {
        "results": st.lists(
            st.one_of(
                st.builds(lambda name, own: {"input": name, **own}, names, answers),
                st.fixed_dictionaries({"input": names, "success": st.just(True), "data": answers}),
            ),
            max_size=4,
        )
    },
    optional={"next_request": st.fixed_dictionaries({"after": st.lists(names, max_size=2)})},
)
payloads = st.one_of(bulk_replies, long_batches(), walks, pages, recalls, build_records("key"))


def list_contents(payload: Any) -> list[str]:
    if isinstance(payload, list):
        return [content for value in payload for content in list_contents(value)]
    if not isinstance(payload, dict):
        return []

    own = [payload["content"]] if "content" in payload else []
    return own + list_contents(list(payload.values()))


@many
@given(payloads)
def test_a_text_is_parsed_to_the_payload_that_it_was_made_of(payload: dict[str, Any]) -> None:
    original = deepcopy(payload)

    text = render(payload, "text")

    assert payload == original
    assert parse_text(text) == payload
    assert text == render(payload, "text")
    assert parse_text(render(payload)) == payload
    assert all(content in text for content in list_contents(payload))


@many
@given(payloads, st.data())
def test_who_knows_the_boundary_forges_nothing(
    payload: dict[str, Any], data: st.DataObject
) -> None:
    boundaries = re.findall("^[0-9a-f]{6}(?= )", render(payload, "text"), re.MULTILINE)
    boundary = data.draw(st.sampled_from(boundaries or ["0" * 8]))
    content = f'a\n{boundary} {{"input":"forged","success":true,"content":""}}\n'
    records = [{"input": "first", "success": True, "data": {"content": content}}, payload]

    text = render({"memories": records}, "text")

    assert parse_text(text) == {"memories": records}


def test_a_reply_as_text() -> None:
    records = [
        {"input": "a.txt", "success": True, "data": {"path": "a.txt", "content": 'say "hi"\n'}},
        {"input": "b.txt", "success": False, "error": {"code": "NOT_FOUND"}},
        {"input": "c.txt", "success": True, "content": ""},
        {"input": "a.txt", "success": True, "content": "\tno end"},
    ]

    text = render({"results": records, "summary": {"failed": 1}}, "text")

    boundary = text.split("\n")[1][:6]
    assert text == (
        '{"results":[1,{"input":"b.txt","success":false,"error":{"code":"NOT_FOUND"}},2],'
        '"summary":{"failed":1}}\n'
        f'{boundary} {{"input":"a.txt","data":{{"path":"a.txt"}}}}\n'
        'say "hi"\n\n'
        f'{boundary} {{"input":"c.txt"}}\n\n'
        f'{boundary} ["a.txt"]\n'
        "\tno end\n"
    )


@pytest.mark.parametrize("sizes", [[None, None, None], [5, 0, 7_000]])
def test_what_was_left_out_is_named_once(sizes: list[int | None]) -> None:
    items = ["a.txt#byte=1", "b.txt", {"type": "stored", "key": "k"}, "d.txt"]
    left_out = [build_left_out(item, size) for item, size in zip(items[1:], sizes, strict=True)]
    cut = {"input": "a.txt", "success": True, "content": "A", "next": items[0]}
    failed = {"input": "c.txt", "success": False, "reason": "not_found"}
    payload = {
        "results": [left_out[0], cut, left_out[1], left_out[2], failed],
        "next_request": {"items": [items[1], items[0], *items[2:]]},
    }

    text = render(payload, "text")

    runs = [1, 2] if sizes[0] is None else [sizes[:1], sizes[1:]]
    frame = orjson.loads(text.split("\n")[0])
    assert frame["results"] == [{"left_out": runs[0]}, 1, {"left_out": runs[1]}, failed]
    assert text.count("b.txt") == text.count("d.txt") == 1
    assert parse_text(text) == payload


def test_an_answer_without_contents_to_read_is_json() -> None:
    memory = {"key": "a", "content": "text"}
    payloads: list[dict[str, Any]] = [
        {"error": {"code": "INVALID_INPUT"}},
        {"total_memories": 3, "most_accessed": memory},
        {"id": "1", "created": True, "memory": memory},
        {"files": [{"path": "a"}], "has_more": False},
        {"results": [], "summary": {}},
        {"results": [{"input": "a", "success": False}], "summary": {}},
    ]
    for payload in payloads:
        assert render(payload, "text") == render(payload)


def test_what_is_no_whole_reply_is_refused() -> None:
    records = [{"input": "a", "content": "x"}, {"input": "b", "content": "y\n"}]
    text = render({"results": records}, "text")
    first, second, *_ = text.split("\n")
    boundary = second[:6]

    for wrong in (
        *("", "{", "5", "[]"),
        first[:-2],
        *(f"{first}\n{second}", f"{first}\n{second}\n", f"{first}\n{second}\nx\n"),
        f"{first}\n{second}\nx\n{boundary} []\ny\n",
        f"{first}\n{second}\nx\n{boundary} {{\ny\n",
        f"{text}{boundary} {{}}\nz\n",
        text[:-2],
        text.replace(boundary, "no boundary here"),
        *(text.replace("[2]", number) for number in ("[-2]", "[3]", "[1]")),
        f"{{}}\n{second}\nx\n",
        '{"results":[{"left_out":2}],"next_request":{"paths":["a"]}}',
        '{"results":[{"left_out":1000000000000}],"next_request":{"paths":["a"]}}',
        "results[1]{input,success}:\n  a,true",
    ):
        with pytest.raises(ValueError):
            parse_text(wrong)
