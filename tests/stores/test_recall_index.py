"""The recall index of a store: what is loaded, how many trips that takes, and the repair of damage.

The law of the past, in `test_law.py`, shows that it follows every change and that recall is exact.
"""

from typing import Any

import pytest

from abilities.declarations.refusals import Refused
from abilities.helpers.search import postings, selection, terms
from abilities.helpers.search.recall import Filters, RecallRequest
from abilities.helpers.store import recall_index
from abilities.helpers.store.changes import Change
from abilities.helpers.store.protocol import Recalled, ServableStore
from tests.stores.behaviours import NAMESPACE, put
from tests.stores.behaviours.steps import link_to, plan, put_many, read_memories
from tests.support.places import DatabasePlace, FilePlace, StorePlace, find_damage, list_cases
from tests.support.postgres import count_trips

ENGLISH = terms.Language()
LARGE_ROOM = 1 << 30


async def recall(store: ServableStore, request: RecallRequest) -> Recalled:
    """Return a recall that leaves out nothing."""
    return await store.recall(NAMESPACE, request, LARGE_ROOM, [0] * len(request.questions))


def ask(question: str) -> Any:
    return terms.split_question(question, ENGLISH)


async def test_memories_are_loaded_in_turns_until_there_is_no_room(place: StorePlace) -> None:
    async with place.open() as store:
        for letter, word in (("a", "river"), ("b", "lamp")):
            fields = {"type": "core", "content": f"{word} " + "x" * 900}
            keys = [f"{letter}{number:02}" for number in range(100)]
            await put_many(store, [plan("store", key, fields=fields) for key in keys])
        request = RecallRequest((ask("river"), ask("lamp")), hops=0)

        every = await store.recall(NAMESPACE, request, 1 << 20, [0, 0])
        few = await store.recall(NAMESPACE, request, 10, [3, 30])
        some = await store.recall(NAMESPACE, request, 20_000, [0, 90])

    first, second = ([entry.name for entry in ranking.entries] for ranking in every.rankings)
    assert len(every.memories) == 200
    turns = [name for pair in zip(first[3:], second[30:], strict=False) for name in pair]
    assert set(turns[:20]) <= set(few.memories) < set(first + second)
    assert {f"b{number}" for number in range(90, 100)} < some.memories.keys()
    assert "b89" not in some.memories
    assert {f"a{number:02}" for number in range(16)} < some.memories.keys()
    assert len(some.memories) < 100


async def test_a_damaged_memory_is_told_in_its_place_and_a_change_leaves_none_of_its_terms(
    place: StorePlace,
) -> None:
    async with place.open() as store:
        await put(store, "a", content="river")
        place.tamper("UPDATE memories SET content = 'lamp'")

        recalled = await recall(store, RecallRequest((ask("river"),)))

        assert [entry.name for entry in recalled.rankings[0].entries] == ["a"]
        error = recalled.memories["a"]
        assert isinstance(error, Refused) and error.reason == "checksum_mismatch"

        await put(store, "a", content="night")
        recalled = await recall(store, RecallRequest((ask("river lamp night"),)))

        assert recalled.rankings[0].unknown_words == ("river", "lamp")
        assert await find_damage(store) == []


async def test_the_language_is_that_of_the_index(place: StorePlace) -> None:
    async with place.open(language="german") as german:
        await put(german, "a", content="Die Häuser")

    async with place.open(language="english") as store:
        language = await store.read_language()
        await put(store, "b", content="Das Haus")
        recalled = await recall(store, RecallRequest((terms.split_question("Häuser", language),)))

    assert language == terms.Language("german")
    assert [entry.name for entry in recalled.rankings[0].entries] == ["a", "b"]


@pytest.mark.parametrize("question", ["river", f"river {'x' * 140}"])
async def test_a_question_with_two_hops_takes_six_trips(
    question: str, database_place: DatabasePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with database_place.open() as store:
        changes: list[Change] = []
        for n in range(100):
            fields = {"type": "core", "content": f"{('river', 'lamp')[n % 2]} {'x' * 140}"}
            changes.append(plan("store", f"m{n}", fields=fields, links=link_to(f"m{n + 1}")))
        await put_many(store, changes)
        trips = count_trips(monkeypatch)
        recalled = await store.recall(NAMESPACE, RecallRequest((ask(question),)), 8_000, (0,))

    assert len(trips) == 6
    assert len(recalled.memories) == 64


SMALL_BLOCK = 4
COUNT = 2 * SMALL_BLOCK + 2
"""Memories in two full blocks, and in one more."""


DAMAGE = (
    "UPDATE shelf SET doc = 77 WHERE key = 'k1'",
    "UPDATE shelf SET doc = -1 WHERE key = 'k1'",
    "UPDATE shelf SET doc = 9000000000000000000 WHERE key = 'k1'",
    "DELETE FROM recall_recent",
    "UPDATE recall_recent SET doc = doc + 1024",
    "UPDATE recall_recent SET doc = -1",
    "UPDATE recall_recent SET doc = 9000000000000000000",
    "UPDATE recall_recent SET archived = 1",
    "UPDATE recall_recent SET namespace = 'other'",
    "UPDATE recall_recent SET terms = substr(terms, 1, length(terms) - 1)",
    "UPDATE recall_recent SET terms = substr(terms, 3)",
    "UPDATE recall_recent SET weights = substr(weights, 2)",
    "DELETE FROM recall_language",
    "INSERT INTO recall_language VALUES ('english')",
    "UPDATE recall_language SET name = 'klingon'",
    "UPDATE recall_terms SET part = 7",
    "UPDATE recall_terms SET namespace = 'other'",
    "DELETE FROM recall_terms WHERE block = 1",
    "UPDATE recall_terms SET block = -1 WHERE block = 1",
    "UPDATE recall_terms SET block = 7 WHERE block = 1",
    "DELETE FROM recall_terms",
    "DELETE FROM recall_terms WHERE term = 'content'",
    "UPDATE recall_terms SET docs = substr(docs, 2)",
    "UPDATE recall_terms SET docs = substr(docs, 3) WHERE term = 'content'",
    "UPDATE recall_terms SET archived = 1",
)
SQLITE_DAMAGE = (
    "UPDATE recall_recent SET namespace = CAST(x'ff' AS TEXT)",
    "UPDATE recall_recent SET terms = x''",
    "UPDATE recall_recent SET terms = CAST(terms || x'0a78' AS BLOB)",
    "UPDATE recall_recent SET terms = CAST(terms || x'ff' AS BLOB)",
    "UPDATE recall_recent SET terms = CAST(x'ff' || substr(terms, 2) AS BLOB)",
    "UPDATE recall_recent SET weights = x''",
    "UPDATE recall_recent SET weights = CAST(x'00ff' || substr(weights, 3) AS BLOB)",
    "INSERT INTO recall_terms VALUES ('conformance', 0, 0, 'content', 7, x'0041')",
    "INSERT INTO recall_terms VALUES ('conformance', -1, 0, 'content', -1, x'0041')",
    "UPDATE recall_language SET name = CAST(x'ff' AS TEXT)",
    "UPDATE recall_terms SET part = 1 << 60",
    "UPDATE recall_terms SET namespace = CAST(x'ff' AS TEXT)",
    "UPDATE recall_terms SET block = 1 << 60 WHERE block = 1",
    "UPDATE recall_terms SET docs = x''",
    "UPDATE recall_terms SET docs = CAST(docs || docs AS BLOB)",
    "UPDATE recall_terms SET docs = CAST(substr(docs, 1, 1) || x'01' || substr(docs, 3) AS BLOB)",
    "UPDATE recall_terms SET docs = zeroblob(9000)",
    "UPDATE recall_terms SET term = CAST(x'ff' AS TEXT) WHERE term = 'content'",
)
POSTGRES_DAMAGE = (
    "UPDATE recall_recent SET terms = ''",
    "UPDATE recall_recent SET terms = terms || '\\x0a78'",
    "UPDATE recall_recent SET terms = terms || '\\xff'",
    "UPDATE recall_recent SET terms = set_byte(terms, 0, 255)",
    "UPDATE recall_recent SET weights = ''",
    "UPDATE recall_recent SET weights = set_byte(weights, 0, 255)",
    "INSERT INTO recall_terms VALUES (0, 7, 0, 'conformance', 'content', '\\x0041')",
    "INSERT INTO recall_terms VALUES (-1, -1, 0, 'conformance', 'content', '\\x0041')",
    "UPDATE recall_terms SET docs = ''",
    "UPDATE recall_terms SET docs = docs || docs",
    "UPDATE recall_terms SET docs = set_byte(docs, 1, 1)",
)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each change merge those before, so that the last one alone is recent."""
    for module in (postings, selection):
        monkeypatch.setattr(module, "BLOCK_DOCS", SMALL_BLOCK)
    monkeypatch.setattr(recall_index, "MOST_RECENT", 0)


async def fill(store: ServableStore) -> None:
    """Store linked memories, one by one."""
    for number in range(COUNT):
        await put(store, f"k{number}", links=[(f"k{number + 1}", 0.5)], tags=["t"])


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    ("place", "statement"),
    list_cases(DAMAGE, sqlite=SQLITE_DAMAGE, postgres=POSTGRES_DAMAGE, sampled=5),
    indirect=["place"],
)
async def test_a_damaged_index_is_used_and_repaired(statement: str, place: StorePlace) -> None:
    """Whatever is asked and changed before the repair."""
    async with place.open() as store:
        await fill(store)
    place.tamper(statement)
    old = ask("content")

    async with place.open() as store:
        assert await find_damage(store) == ["search"]
        for number in range(COUNT):
            key = f"k{number}"
            change = [
                plan("delete", key),
                plan("update", key, new_key=f"renamed {number}"),
                plan("archive", key),
                plan("update", key, fields={"content": f"content {number}"}),
            ][min(number % 5, 3)]
            await store.change(NAMESPACE, change)
            await recall(store, RecallRequest((old,), Filters(tags=("t",)), hops=2))
            await recall(store, RecallRequest((old,), Filters(archived=True), hops=1))
        for number in range(SMALL_BLOCK + 1):
            await put(store, f"new{number}")
            await recall(store, RecallRequest((old,), Filters(archived=True), hops=1))

    await place.repair()

    async with place.open() as store:
        assert await find_damage(store) == []
        recalled = await recall(store, RecallRequest((old,), Filters(archived=True)))
        assert recalled.memories.keys() == {memory.row.key for memory in await read_memories(store)}


@pytest.mark.usefixtures("small_blocks")
async def test_a_damaged_memory_of_a_damaged_index_is_mended_by_a_change(
    file_place: FilePlace,
) -> None:
    """What the index has of it is looked up in its whole block."""
    async with file_place.open() as store:
        await fill(store)
    file_place.tamper(
        "UPDATE memories SET content = 'other' WHERE key = 'k1'",
        "UPDATE recall_terms SET term = CAST(x'ff' AS TEXT) WHERE term = 'content'",
    )

    async with file_place.open() as store:
        changed = await put(store, "k1", kind="update", summary="s")

    assert changed.mended == ()
