"""The contracts of the optional powers of stores, as behaviors of stores that have them."""

from abilities.helpers.store.model import IncomingMemory, LinkRow, StoredMemory
from abilities.helpers.store.protocol import (
    CheckableStore,
    MarkableStore,
    ServableStore,
    TransferableStore,
)
from tests.stores.behaviours.steps import (
    NAMESPACE,
    TIME,
    expect,
    expect_stored,
    list_keys,
    list_targets,
    put,
    rename,
)

NEW_ID = "11111111-1111-4111-8111-111111111111"


async def pages_hold_whole_memories_in_order(store: TransferableStore) -> None:
    """Pages are ordered by namespace and key, and hold each memory with all of its links."""
    memories = await _store_two(store)

    expect(list_keys(memories), ["a", "b"], "a page is ordered by key")
    expect(await store.count_memories(), 2, "count_memories counts all memories")

    first, *others = memories
    targets = sorted(list_targets(first.links))
    expect(targets, ["b", "none"], "a memory on a page has all of its links")

    next_page = await store.read_page((NAMESPACE, "a"), 10)
    expect(next_page, others, "a page starts after the given namespace and key")


async def importing_the_same_again_changes_nothing(store: TransferableStore) -> None:
    """A memory that equals the stored one is "unchanged"."""
    memories = await _store_two(store)

    batch = [IncomingMemory(memory) for memory in memories]
    outcomes = await store.import_batch(batch)

    expect(outcomes, ["unchanged", "unchanged"], "an equal memory is unchanged")
    expect(await _read_all(store), memories, "an unchanged memory is left as it is")


async def an_import_replaces_only_if_asked(store: TransferableStore) -> None:
    """A memory that differs is kept, or replaced with its links; a dry run changes nothing."""
    memories = await _store_two(store)
    different = _change_content_and_links(memories[0])
    batch = [IncomingMemory(different)]

    expect(await store.import_batch(batch), ["kept"], "a memory that differs is kept")

    outcomes = await store.import_batch(batch, replace=True, dry_run=True)
    expect(outcomes, ["replaced"], "a dry run returns the outcomes of a real one")
    expect(await _read_all(store), memories, "a dry run changes nothing")

    outcomes = await store.import_batch(batch, replace=True)
    expect(outcomes, ["replaced"], "a memory that differs is replaced if asked")
    replaced = (await _read_all(store))[0]
    expected = _change_version(different, replaced.row.version)
    expect(
        replaced,
        expected._replace(links_total=1),
        "a replaced memory is as it was imported, with its links alone",
    )


async def an_import_refuses_an_id_of_another_key(store: TransferableStore) -> None:
    """Such a memory is refused as key_taken, and the others of the batch are stored."""
    memories = await _store_two(store)
    moved = _rename(memories[1], "c")
    added = _change_id(moved)

    batch = [IncomingMemory(moved), IncomingMemory(added)]
    refused, outcome = await store.import_batch(batch)

    expect(str(refused), "key_taken", "an id that belongs to another key is refused")
    expect(outcome, "added", "a refused memory does not keep others out")
    expect(list_keys(await _read_all(store)), ["a", "b", "c"], "the other memory is stored")


async def an_import_gives_versions_of_this_store(store: TransferableStore) -> None:
    """A memory that is added or replaced gets the next version here, whatever it had elsewhere."""
    memories = await _store_two(store)
    expect([memory.row.version for memory in memories], [2, 1], "two changes give two versions")

    same = _change_version(memories[1], 77)
    replaced = _change_version(_change_content_and_links(memories[0]), 78)
    added = _change_version(_change_id(_rename(memories[1], "c")), 79)
    batch = [IncomingMemory(memory) for memory in (same, replaced, added)]

    outcomes = await store.import_batch(batch, replace=True)

    expect(outcomes, ["unchanged", "replaced", "added"], "another version alone is no difference")
    versions = [memory.row.version for memory in await _read_all(store)]
    expect(sorted(versions), [1, 3, 4], "each added or replaced memory has a version of its own")
    expect(versions[1], 1, "an unchanged memory keeps its version")


async def a_healthy_store_is_sound(store: CheckableStore) -> None:
    """After changes of every kind, a full check finds no damage; dangling links are none."""
    ids: list[str] = []
    for key in ("a", "b", "c"):
        written = await put(store, key, links=[("a", 0.5), ("none", 1.0)], tags=["t", key])
        ids.append(expect_stored(written).row.id)

    archived_id, updated_id, deleted_id = ids
    await put(store, "", kind="archive", id=archived_id)
    await put(store, "", kind="update", id=updated_id, content="new", memory_score=0.1)
    await put(store, "", kind="delete", id=deleted_id)
    await rename(store, archived_id, "d")

    await _expect_sound(store)


async def an_imported_store_is_sound(store: ServableStore) -> None:
    """After an import that adds and replaces, a full check finds nothing damaged."""
    memories = await _store_two(store)
    different = _change_content_and_links(memories[0])
    added = _change_id(_rename(memories[1], "c"))
    batch = [IncomingMemory(different), IncomingMemory(added)]

    outcomes = await store.import_batch(batch, replace=True)

    expect(outcomes, ["replaced", "added"], "an import adds new memories and replaces others")
    await _expect_sound(store)


async def a_mark_is_set_once_and_for_good(store: MarkableStore) -> None:
    """A new store has no mark; one that was set stays, and is no memory."""
    expect(await store.has_mark("tokens"), False, "a new store has no mark")

    await store.set_mark("tokens")
    await store.set_mark("tokens")

    expect(await store.has_mark("tokens"), True, "a mark stays once it is set")
    stats = await store.read_stats(NAMESPACE)
    expect(stats.total, 0, "a mark is no memory")


async def a_marked_store_is_sound(store: ServableStore) -> None:
    """The integrity check finds nothing wrong with a store that has a mark."""
    await store.set_mark("tokens")

    await _expect_sound(store)


async def _store_two(store: TransferableStore) -> list[StoredMemory]:
    """Store "b" and "a", each with two links, and return them as a page holds them."""
    for key in ("b", "a"):
        links = [("b", 0.25), ("none", 1.0)]
        await put(store, key, now=TIME, links=links, tags=["t"], metadata={"x": 1})

    return await _read_all(store)


async def _read_all(store: TransferableStore) -> list[StoredMemory]:
    """Return every memory of the store; fail if one is damaged."""
    memories: list[StoredMemory] = []
    for memory in await store.read_page(("", ""), 10):
        if not isinstance(memory, StoredMemory):
            raise AssertionError(f"a page of a healthy store holds no damage; got {memory!r}")
        memories.append(memory)

    return memories


def _rename(memory: StoredMemory, key: str) -> StoredMemory:
    """Return a memory under another key, with its links."""
    links: list[LinkRow] = []
    for link in memory.links:
        links.append(link._replace(source=key))

    row = memory.row._replace(key=key)
    return memory._replace(row=row, links=tuple(links))


def _change_id(memory: StoredMemory) -> StoredMemory:
    """Return a memory with an id that no other one has."""
    row = memory.row._replace(id=NEW_ID)
    return memory._replace(row=row)


def _change_version(memory: StoredMemory, version: int) -> StoredMemory:
    """Return a memory with another version."""
    row = memory.row._replace(version=version)
    return memory._replace(row=row)


def _change_content_and_links(memory: StoredMemory) -> StoredMemory:
    """Return a memory with another content, and with its first link alone."""
    row = memory.row._replace(content="other")
    first_link, *_ = memory.links
    return memory._replace(row=row, links=(first_link,))


async def _expect_sound(store: CheckableStore) -> None:
    findings = await store.check(lambda _: None, full=True)

    for finding in findings:
        if finding.state == "damaged":
            raise AssertionError(f"a check finds a healthy store sound: got {finding!r}")
