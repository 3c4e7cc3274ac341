"""A damaged recall index: recall answers, memories are changed, and a repair makes it sound."""

from pathlib import Path

import pytest

from abilities.helpers.search import postings, selection
from abilities.helpers.search.recall import Filters, RecallRequest
from abilities.helpers.search.terms import Language, split_question
from abilities.helpers.store import recall_index
from abilities.helpers.store.model import StoredMemory
from abilities.helpers.store.protocol import ServableStore
from tests.stores.behaviours import NAMESPACE, put
from tests.stores.behaviours.steps import expect_stored, rename
from tests.stores.test_recall_index import compare
from tests.stores.test_stores import open_store
from tests.stores.test_transfer import tamper
from tests.support.places import StorePlace, find_damage, list_cases
from tests.support.recall_damage import (
    BLOCKS,
    POSTGRES_BLOCKS,
    POSTGRES_RECENT,
    RECENT,
    SQLITE_BLOCKS,
    SQLITE_RECENT,
)

SMALL_BLOCK = 4
COUNT = 2 * SMALL_BLOCK + 2
"""Memories in two full blocks, and in one more."""


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each change merge those before, so that the last one alone is recent."""
    for module in (postings, selection):
        monkeypatch.setattr(module, "BLOCK_DOCS", SMALL_BLOCK)
    monkeypatch.setattr(recall_index, "MOST_RECENT", 0)


@pytest.mark.parametrize(
    ("place", "statement"),
    list_cases(
        [*RECENT, *BLOCKS],
        sqlite=[*SQLITE_RECENT, *SQLITE_BLOCKS],
        postgres=[*POSTGRES_RECENT, *POSTGRES_BLOCKS],
    ),
    indirect=["place"],
)
async def test_a_damaged_index_is_used_and_repaired(statement: str, place: StorePlace) -> None:
    async with place.open() as store:
        ids = await fill(store)
    place.tamper(statement)

    async with place.open() as store:
        assert await find_damage(store) == ["search"]
        await use(store, ids)

    await place.repair()

    async with place.open() as store:
        assert await find_damage(store) == []
        assert await recall(store, "content") == await list_keys(store)
        await compare(store, RecallRequest((split_question("content new", Language()),)))


async def test_a_damaged_memory_of_a_damaged_index_is_mended_by_a_change(
    tmp_path: Path,
) -> None:
    """What the index has of it is looked up in its whole block."""
    path = tmp_path / "m.db"
    async with open_store(path) as store:
        ids = await fill(store)
    tamper(
        path,
        "UPDATE memories SET content = 'other' WHERE key = 'k1'",
        "UPDATE recall_terms SET term = CAST(x'ff' AS TEXT) WHERE term = 'content'",
    )

    async with open_store(path) as store:
        changed = await put(store, "", kind="update", id=ids[1], summary="s")

    assert changed.mended == ()


async def fill(store: ServableStore) -> list[str]:
    """Store linked memories; return their ids."""
    ids: list[str] = []
    for number in range(COUNT):
        written = await put(store, f"k{number}", links=[(f"k{number + 1}", 0.5)], tags=["t"])
        ids.append(expect_stored(written).row.id)

    return ids


async def use(store: ServableStore, ids: list[str]) -> None:
    """Ask, change every memory in one way or another, and store new ones."""
    await recall(store, "content")

    for number, memory_id in enumerate(ids):
        if number % 5 == 0:
            await put(store, "", kind="delete", id=memory_id)
        elif number % 5 == 1:
            await rename(store, memory_id, f"renamed {number}")
        elif number % 5 == 2:
            await put(store, "", kind="archive", id=memory_id)
        else:
            await put(store, "", kind="update", id=memory_id, content=f"content {number}")
        await recall(store, "content")

    for number in range(SMALL_BLOCK + 1):
        await put(store, f"new{number}")
        await recall(store, "content")


async def recall(store: ServableStore, question: str) -> list[str]:
    """Return the keys that answer a question, archived ones too, sorted."""
    questions = (split_question(question, Language()),)
    request = RecallRequest(questions, Filters(archived=True, tags=()), hops=1)
    filtered = RecallRequest(questions, Filters(tags=("t",)), hops=2)

    await store.recall(NAMESPACE, filtered, 1 << 20, (0,))
    recalled = await store.recall(NAMESPACE, request, 1 << 20, (0,))
    return sorted(entry.name for entry in recalled.rankings[0].entries if entry.own)


async def list_keys(store: ServableStore) -> list[str]:
    """Return the keys of all memories, sorted."""
    memories = await store.read_page(("", ""), 1_000)
    return sorted(memory.row.key for memory in memories if isinstance(memory, StoredMemory))
