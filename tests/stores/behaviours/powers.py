"""The contracts of the optional powers of stores, as behaviors of stores that have them."""

from typing import Any

from abilities.helpers.store.model import IncomingMemory, StoredMemory
from abilities.helpers.store.protocol import (
    CheckableStore,
    MarkableStore,
    ServableStore,
    TransferableStore,
)
from tests.stores.behaviours.steps import (
    LATER,
    NAMESPACE,
    add,
    end,
    expect,
    expect_sound,
    list_keys,
    list_targets,
    put,
    read_memories,
    rename,
)

NEW_ID = "11111111-1111-4111-8111-111111111111"


async def pages_hold_whole_memories_in_order(store: TransferableStore) -> None:
    """Pages are ordered by namespace and key, and hold each memory with all of its links."""
    memories = await _store_two(store)

    expect(list_keys(memories), ["a", "b"], "a page is ordered by key")
    expect(await store.count_memories(), 2, "count_memories counts all memories")
    targets = sorted(list_targets(memories[0].links))
    expect(targets, ["b", "none"], "a memory on a page has all of its links")
    next_page = await store.read_page((NAMESPACE, "a"), 10)
    expect(next_page, memories[1:], "a page starts after the given namespace and key")


async def importing_the_same_again_changes_nothing(store: TransferableStore) -> None:
    """A memory that equals the stored one is "unchanged"."""
    memories = await _store_two(store)

    outcomes = await store.import_batch([IncomingMemory(memory) for memory in memories])

    expect(outcomes, ["unchanged", "unchanged"], "an equal memory is unchanged")
    expect(await read_memories(store), memories, "an unchanged memory is left as it is")


async def an_import_replaces_only_if_asked(store: TransferableStore) -> None:
    """A memory that differs is kept, or replaced with its links; a dry run changes nothing."""
    memories = await _store_two(store)
    different = _change(memories[0], content="other")._replace(links=memories[0].links[:1])
    batch = [IncomingMemory(different)]

    expect(await store.import_batch(batch), ["kept"], "a memory that differs is kept")
    outcomes = await store.import_batch(batch, replace=True, dry_run=True)
    expect(outcomes, ["replaced"], "a dry run returns the outcomes of a real one")
    expect(await read_memories(store), memories, "a dry run changes nothing")

    outcomes = await store.import_batch(batch, replace=True)
    expect(outcomes, ["replaced"], "a memory that differs is replaced if asked")
    replaced = (await read_memories(store))[0]
    expected = _change(different, version=replaced.row.version)._replace(links_total=1)
    expect(replaced, expected, "it is as it was imported, with its links alone")


async def an_import_refuses_an_id_of_another_key(store: TransferableStore) -> None:
    """Such a memory is refused as key_taken, and the others of the batch are stored."""
    memories = await _store_two(store)
    moved = _change(memories[1], key="c")

    batch = [IncomingMemory(moved), IncomingMemory(_change(moved, id=NEW_ID))]
    refused, outcome = await store.import_batch(batch)

    expect(str(refused), "key_taken", "an id that belongs to another key is refused")
    expect(outcome, "added", "a refused memory does not keep others out")
    expect(list_keys(await read_memories(store)), ["a", "b", "c"], "the other memory is stored")


async def an_import_gives_versions_of_this_store(store: TransferableStore) -> None:
    """A memory that is added or replaced gets the next version here, whatever it had elsewhere."""
    first, second = await _store_two(store)
    expect((first.row.version, second.row.version), (2, 1), "two changes give two versions")
    same = _change(second, version=77)
    replaced = _change(first, version=78, content="other")
    added = _change(second, version=79, id=NEW_ID, key="c")

    batch = [IncomingMemory(memory) for memory in (same, replaced, added)]
    outcomes = await store.import_batch(batch, replace=True)

    expect(outcomes, ["unchanged", "replaced", "added"], "another version alone is no difference")
    versions = [memory.row.version for memory in await read_memories(store)]
    expect(sorted(versions), [1, 3, 4], "each added or replaced memory has a version of its own")
    expect(versions[1], 1, "an unchanged memory keeps its version")


async def a_healthy_store_is_sound(store: CheckableStore) -> None:
    """After changes of every kind, a full check finds no damage; dangling links are none."""
    for key in ("a", "b", "c"):
        await put(store, key, links=[("a", 0.5), ("none", 1.0)], tags=["t", key])
    await put(store, "b", kind="update", content="new", memory_score=0.1)
    await end(store, "archive", "a")
    await end(store, "delete", "c")
    await rename(store, "a", "d")

    await expect_sound(store)


async def a_mark_is_set_once_and_for_good(store: MarkableStore) -> None:
    """A new store has no mark; one that was set stays, and is no memory."""
    expect(await store.has_mark("tokens"), False, "a new store has no mark")

    await store.set_mark("tokens")
    await store.set_mark("tokens")

    expect(await store.has_mark("tokens"), True, "a mark stays once it is set")
    expect((await store.read_stats(NAMESPACE)).total, 0, "a mark is no memory")


async def accesses_before_a_rename_are_kept(store: ServableStore) -> None:
    """Those that are counted, and not yet written when a memory is renamed."""
    written = await add(store, "old")
    store.count_access(NAMESPACE, "old", LATER)
    await put(store, "new", kind="update", id=written.row.id)

    renamed = await store.read_linked(NAMESPACE, "new", 0, 1)
    expect((renamed.accessed_at, renamed.access_count), (LATER, 1), "accesses are kept")


async def _store_two(store: TransferableStore) -> list[StoredMemory]:
    """Store "b" and "a", each with two links, and return them as a page holds them."""
    for key in ("b", "a"):
        links = [("b", 0.25), ("none", 1.0)]
        await put(store, key, links=links, tags=["t"], metadata={"x": 1})

    return await read_memories(store)


def _change(memory: StoredMemory, **fields: Any) -> StoredMemory:
    """Return a memory with other fields, and with its links."""
    row = memory.row._replace(**fields)
    links = tuple(link._replace(source=row.key) for link in memory.links)
    return memory._replace(row=row, links=links)
