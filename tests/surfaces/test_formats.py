"""`output_format`: the same payload and text from every surface, within the bound of the format."""

import asyncio
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from abilities import Abilities, Settings, parse_text, render
from abilities.declarations.fields import OutputFormat
from abilities.declarations.values import JsonObject
from abilities.helpers.batch.items import ItemOffer, Leaf
from abilities.helpers.batch.sharing import fill_reply
from abilities.helpers.reply.budget import Bound, Counting
from abilities.helpers.reply.envelope import BulkRequest, FoundItem
from abilities.helpers.text.pieces import Piece
from tests.support.catalog import BUILT_IN
from tests.support.surfaces import FORMATTED, SURFACES, python
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
    settings = roots.model_copy(update={"max_response_bytes": BOUND})

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
@pytest.mark.parametrize("chosen", FORMATS)
@pytest.mark.parametrize("surface", SURFACES)
async def test_every_surface_answers_in_the_format_that_a_call_asks_for(
    surface: str, chosen: str, full: Settings
) -> None:
    for name, arguments in CALLS.items():
        asked = {**arguments, "output_format": chosen}
        payload = await SURFACES[surface](full, name, asked)
        if surface != "mcp_structured":
            assert payload == await python(full, name, asked)


@pytest.mark.parametrize("chosen", FORMATS)
@pytest.mark.parametrize("surface", SURFACES)
async def test_models_read_the_format_of_the_settings_and_programs_json(
    surface: str, chosen: str, full: Settings
) -> None:
    settings = full.model_copy(update={"output_format": chosen})

    for name in ("file_read_bulk", "bulk_read_memory", "file_list", "recall"):
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


@pytest.mark.parametrize("detail", ["full", "concise"])
async def test_contents_that_json_escapes_fill_the_room_as_text(
    detail: str, full: Settings
) -> None:
    async with Abilities.open(full) as abilities:
        for name in ("file_read_bulk", "bulk_read_memory", "memory_read_bulk", "query_memories"):
            asked = {**CALLS[name], "output_format": "text", "detail": detail}
            reply = await abilities.reply(name, asked)

            assert parse_text(reply.text) == reply.payload
            assert len(reply.text.encode()) > 0.85 * BOUND
            assert len(render(reply.payload).encode()) > 1.5 * BOUND


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


async def test_what_has_no_contents_to_read_stays_json(full: Settings) -> None:
    calls: dict[str, JsonObject] = {
        "store_memory": {"type": "core", "key": "new", "content": "text"},
        "get_memory_stats": {},
        "file_list": {"pattern": "*.txt"},
        "file_read_bulk": {"paths": ["none.txt"]},
        "memory_get": {"key": "none"},
    }
    async with Abilities.open(full) as abilities:
        for name, arguments in calls.items():
            reply = await abilities.reply(name, arguments, for_model=True)
            assert (reply.format, reply.text) == ("json", render(reply.payload))


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
