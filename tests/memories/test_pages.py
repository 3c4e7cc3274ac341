"""Pages of `query_memories`: each memory once in the stated order, while others write too."""

import random
from typing import Any

import pytest

from abilities import AbilityError, Settings, render
from abilities.helpers.store.model import IMPORTANCES
from tests.memories.calls import Payload, find_fault, follow, follow_pages, open_calls, store
from tests.support.places import StorePlace
from tests.support.surfaces import Call
from tests.support.tier import size

SORTED_BY = ("created_at", "updated_at", "accessed_at", "importance", "access_count")
FILTERS: tuple[Payload, ...] = (
    {},
    {"archived": True},
    {"type": "core", "importance": "high"},
    {"tags": ["even"]},
    {"search": "number", "category": "fact"},
)
MEMORIES = 30
TRIALS = size("ABILITIES_PAGE_TRIALS", quick=3, full=15)


async def fill(call: Call) -> dict[str, Payload]:
    """Store memories, and return them by their ids."""
    operations = [
        {
            "op": "store",
            "type": ("core", "task")[number % 4 == 3],
            "content": f"number {number}",
            "importance": IMPORTANCES[number % 3],
            "category": ("fact", "idea")[number % 5 == 4],
            "tags": [("even", "odd")[number % 2]],
        }
        for number in range(MEMORIES)
    ]
    await call("remember", operations=operations)

    return await read_all(call)


async def read_all(call: Call) -> dict[str, Payload]:
    """Return all memories by their ids."""
    page = await call("query_memories", archived=True, limit=100)
    return {memory["id"]: memory for memory in page["memories"]}


async def write_something(call: Call, ids: list[str], chance: random.Random) -> None:
    """Change, archive or delete one of the memories, or store another."""
    name, changes = chance.choice(
        (
            ("store_memory", {"type": "core", "content": "number new", "tags": ["even"]}),
            ("update_memory", {"content": f"number {chance.random()}"}),
            ("update_memory", {"importance": chance.choice(IMPORTANCES)}),
            ("delete_memory", {}),
            ("delete_memory", {"permanent": True}),
        )
    )
    named = {} if name == "store_memory" else {"id": chance.choice(ids)}
    try:
        await call(name, **named, **changes)
    except AbilityError as error:
        assert error.fault.reason == "not_found"  # it was deleted already


@pytest.mark.requirement(
    "R3.2.1", "R3.2.2", "R3.2.3", "R3.2.4", "R3.2.5", "R3.2.6", "R3.2.9", "R3.2.10", "R3.2.11"
)
async def test_what_stays_as_it_is_comes_once_and_in_order_while_others_write(
    place: StorePlace, roots: Settings
) -> None:
    async with open_calls(roots.model_copy(update={"store_url": place.url})) as call:
        for trial in range(TRIALS):
            await check_pages(call, random.Random(trial))


async def check_pages(call: Call, chance: random.Random) -> None:
    """Follow a query's pages while memories change, and compare with what did not change."""
    before = await fill(call)
    query = {
        **chance.choice(FILTERS),
        "sort_by": chance.choice(SORTED_BY),
        "sort_order": chance.choice(("asc", "desc")),
    }
    whole = await call("query_memories", **query, limit=100)
    assert not whole["has_more"]
    values = [find_place(memory, query["sort_by"]) for memory in whole["memories"]]
    assert values == sorted(values, reverse=query["sort_order"] == "desc")

    seen: list[str] = []
    request = {**query, "limit": chance.randint(1, 7)}
    async for page in follow_pages(call, "query_memories", request):
        assert page["offset"] == len(seen)

        seen += [memory["id"] for memory in page["memories"]]
        for _ in range(chance.randrange(4)):
            await write_something(call, list(before), chance)

    after = await read_all(call)
    expected = [memory["id"] for memory in whole["memories"]]
    unchanged = [one for one in expected if after.get(one) == before[one]]
    assert [one for one in seen if one in unchanged] == unchanged

    deletions = [{"op": "delete", "id": one, "permanent": True} for one in after]
    for begin in range(0, len(deletions), 50):
        await call("remember", operations=deletions[begin : begin + 50])


def find_place(memory: Payload, sort_by: str) -> Any:
    value = memory[sort_by]
    return IMPORTANCES.index(value) if sort_by == "importance" else value


async def test_a_cursor_counts_and_an_offset_beside_it_does_not(
    place: StorePlace, roots: Settings
) -> None:
    async with open_calls(roots.model_copy(update={"store_url": place.url})) as call:
        await fill(call)

        whole = await call("query_memories", limit=30)
        first = await call("query_memories", limit=4, offset=3)
        rest = await call("query_memories", **first["next_request"], offset=9)

    assert first["next_request"].keys() == {"limit", "after"}
    assert rest["offset"] == 7
    assert rest["memories"] == whole["memories"][7:11]


async def test_a_cursor_of_another_order_or_form_is_refused(call: Call) -> None:
    await fill(call)
    following: Payload = (await call("query_memories", limit=4))["next_request"]

    for change in ({"sort_by": "importance"}, {"after": following["after"][:-1]}, {"after": "0/1"}):
        fault = await find_fault(call, "query_memories", **{**following, **change})
        assert (fault.reason, fault.field) == ("invalid_format", "after")


async def test_a_page_that_does_not_fit_goes_on_where_it_ended(roots: Settings) -> None:
    contents = [f"{number:02}" + "x" * 4_900 for number in range(12)]
    query = {"limit": 100, "sort_by": "created_at", "sort_order": "asc"}
    async with open_calls(roots.model_copy(update={"max_response_bytes": 40_000})) as call:
        for content in contents:
            await store(call, content[:2], content)

        page = await call("query_memories", **query)
        assert page["limit"] == len(page["memories"]) < 12 and page["has_more"]
        assert len(render(page).encode()) <= 40_000
        found = await follow(call, "query_memories", query, "memories")

    assert sorted(memory["content"] for memory in found) == contents
