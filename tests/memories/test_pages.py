"""Pages of `query_memories`: each memory once in the stated order, while others write too."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from abilities import Abilities, AbilityError, Settings
from abilities.helpers.store.model import IMPORTANCES
from tests.support import postgres
from tests.support.tier import size

Payload = dict[str, Any]

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


@pytest.fixture(params=["sqlite", "postgresql"])
def app_settings(request: pytest.FixtureRequest, roots: Settings) -> Iterator[Settings]:
    """Settings with an empty store of either kind."""
    if request.param == "sqlite":
        yield roots
        return

    with postgres.database(request.getfixturevalue("server")) as url:
        yield roots.model_copy(update={"store_url": url})


async def fill(app: Abilities) -> dict[str, Payload]:
    """Store memories, read some of them, and return all as they are now, by their ids."""
    operations = []
    for number in range(MEMORIES):
        operation = {
            "op": "store",
            "type": ("core", "task")[number % 4 == 3],
            "content": f"number {number}",
            "importance": IMPORTANCES[number % 3],
            "category": ("fact", "idea")[number % 5 == 4],
            "tags": [("even", "odd")[number % 2]],
        }
        operations.append(operation)
    await app.call("remember", {"operations": operations})

    return await read_all(app)


async def read_all(app: Abilities) -> dict[str, Payload]:
    """Return all memories by their ids."""
    page = await app.call("query_memories", {"archived": True, "limit": 100})
    return {memory["id"]: memory for memory in page["memories"]}


async def write_something(app: Abilities, ids: list[str], chance: random.Random) -> None:
    """Change, archive, delete or read one of the memories, or store another."""
    one = chance.choice(ids)
    kind = chance.randrange(5)
    if kind == 0:
        await app.call("store_memory", {"type": "core", "content": "number new", "tags": ["even"]})
        return

    names = {1: "update_memory", 2: "delete_memory", 3: "delete_memory", 4: "update_memory"}
    changes: dict[int, Payload] = {
        1: {"content": f"number {chance.random()}"},
        2: {},
        3: {"permanent": True},
        4: {"importance": chance.choice(IMPORTANCES)},
    }
    try:
        await app.call(names[kind], {"id": one, **changes[kind]})
    except AbilityError as error:
        assert error.fault.reason == "not_found"  # it was deleted already


async def test_what_stays_as_it_is_comes_once_and_in_order_while_others_write(
    app_settings: Settings,
) -> None:
    async with Abilities.open(app_settings) as app:
        for trial in range(TRIALS):
            await check_pages(app, random.Random(trial))


async def check_pages(app: Abilities, chance: random.Random) -> None:
    """Follow a query's pages while memories change, and compare with what did not change."""
    before = await fill(app)
    sort_by = chance.choice(SORTED_BY)
    order = chance.choice(("asc", "desc"))
    first: Payload = {
        **chance.choice(FILTERS),
        "sort_by": sort_by,
        "sort_order": order,
        "limit": chance.randint(1, 7),
    }
    expected = await collect({**first, "limit": 100}, app)

    seen: list[str] = []
    request: Payload | None = first
    while request is not None:
        page = await app.call("query_memories", request)
        assert page["offset"] == len(seen)

        seen += [memory["id"] for memory in page["memories"]]
        request = page.get("next_request")
        for _ in range(chance.randrange(4)):
            await write_something(app, list(before), chance)

    after = await read_all(app)
    unchanged = [one for one in expected if after.get(one) == before[one]]
    assert [one for one in seen if one in unchanged] == unchanged

    deletions = [{"op": "delete", "id": one, "permanent": True} for one in after]
    for begin in range(0, len(deletions), 50):
        await app.call("remember", {"operations": deletions[begin : begin + 50]})


async def collect(request: Payload, app: Abilities) -> list[str]:
    """Return the ids of all that a query of one page finds."""
    page = await app.call("query_memories", request)
    assert not page["has_more"]
    return [memory["id"] for memory in page["memories"]]


async def test_a_cursor_counts_and_an_offset_beside_it_does_not(app_settings: Settings) -> None:
    async with Abilities.open(app_settings) as app:
        await fill(app)

        whole = await app.call("query_memories", {"limit": 30})
        first = await app.call("query_memories", {"limit": 4, "offset": 3})
        rest = await app.call("query_memories", {**first["next_request"], "offset": 9})

    assert first["next_request"].keys() == {"limit", "after"}
    assert rest["offset"] == 7
    assert rest["memories"] == whole["memories"][7:11]


async def test_a_cursor_of_another_order_or_form_is_refused(roots: Settings) -> None:
    async with Abilities.open(roots) as app:
        await fill(app)
        first = await app.call("query_memories", {"limit": 4})
        cursor: str = first["next_request"]["after"]

        for change in ({"sort_by": "importance"}, {"after": cursor[:-1]}, {"after": "0/1"}):
            with pytest.raises(AbilityError) as caught:
                await app.call("query_memories", {**first["next_request"], **change})
            assert caught.value.fault.reason == "invalid_format"
            assert caught.value.fault.field == "after"


async def test_a_page_that_does_not_fit_goes_on_where_it_ended(roots: Settings) -> None:
    settings = roots.model_copy(update={"max_response_bytes": 40_000})
    async with Abilities.open(settings) as app:
        for number in range(12):
            content = f"{number}" + "x" * 4_900
            await app.call("store_memory", {"type": "core", "content": content})

        pages = [await app.call("query_memories", {"limit": 100, "sort_by": "created_at"})]
        while "next_request" in pages[-1]:
            pages.append(await app.call("query_memories", pages[-1]["next_request"]))

    found = [memory["content"] for page in pages for memory in page["memories"]]
    assert len(pages) > 1
    assert sorted(found) == sorted(set(found)) and len(found) == 12
