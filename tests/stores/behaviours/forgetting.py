"""Behaviors of a store that forgets the past, or is given one that was kept elsewhere.

For `tests.stores.behaviours`.
"""

from abilities.declarations.refusals import Reason
from abilities.helpers.store.history import Entry, MemoryName, seal, verify_entry
from abilities.helpers.store.model import IncomingMemory, LinkRow, StoredMemory
from abilities.helpers.store.protocol import HistoryStore, ServableStore
from abilities.helpers.store.query import Query
from tests.stores.behaviours.steps import (
    LATER,
    NAMESPACE,
    OTHER_NAMESPACE,
    TIME,
    expect,
    expect_refused,
    expect_stored,
    list_keys,
    list_targets,
    plan,
    put,
    read_one,
    read_sources,
    read_totals,
    read_versions,
    rename,
)

END_OF_TIME = "9999-12-31T23:59:59.999Z"


async def what_is_purged_is_gone_for_good(store: HistoryStore) -> None:
    """Nothing of it is found, read or restored; its key is free, and links to it dangle."""
    await put(store, "s", links=[("a", 0.5)])
    memory = expect_stored(await put(store, "a", content="rose", links=[("s", 0.5)], tags=["t"]))
    memory_id = memory.row.id
    await put(store, "a", content="tulip")

    purged = await store.change(NAMESPACE, plan("purge", "a", caller="c"))

    expect((purged.stored, purged.version), (None, 4), "a purge gives a version, and no memory")
    expect(purged.id, memory_id, "it tells which memory it was")
    expect(await read_versions(store, "a"), ["memory_not_found"], "it is not read")
    for search in ("rose", "tulip"):
        found = await store.query(NAMESPACE, Query(search=(search,), archived=True))
        expect(found.total, 0, "it is not found by what it has or had")
    expect(await read_sources(store, "s"), [], "its links are gone")
    expect(await read_totals(store, "s"), (1, 0), "those of others stay")
    await _expect_forgotten(store, MemoryName(id=memory_id), "id_not_found")
    await _expect_forgotten(store, MemoryName(key="a"), "memory_not_found")
    restore = plan("restore", id=memory_id, to_version=memory.row.version)
    await expect_refused(store.change(NAMESPACE, restore), "purged", "nobody brings it back")

    page = await store.read_changes(NAMESPACE, memory.row.version, 9)
    told = [(change.version, change.id, change.action) for change in page.changes]
    expect(told, [(4, memory_id, "purged")], "followers learn of it")
    other = expect_stored(await put(store, "a"))
    expect(other.row.id != memory_id, True, "another memory may have its key")


async def what_had_the_key_before_is_purged_too(store: HistoryStore) -> None:
    """Whoever purges a key means all that was deleted under it; what exists has one of its own."""
    first = expect_stored(await put(store, "a", content="forerunner"))
    await put(store, "a", kind="delete")
    renamed = expect_stored(await put(store, "a", content="renamed since"))
    await rename(store, renamed.row.id, "b")
    await put(store, "a", content="present")

    purged = await store.change(NAMESPACE, plan("purge", "a"))

    page = await store.read_changes(NAMESPACE, purged.version - 1, 9)
    expect([change.action for change in page.changes], ["purged"] * 2, "both have one version")
    await _expect_forgotten(store, MemoryName(id=first.row.id), "id_not_found")
    expect((await read_one(store, "b")).row.id, renamed.row.id, "what was renamed stays")


async def a_deleted_memory_can_be_purged(store: HistoryStore) -> None:
    """Its history goes too; what was never there is refused, and what has another key now."""
    memory = expect_stored(await put(store, "a"))
    other = expect_stored(await put(store, "b"))
    await rename(store, other.row.id, "c")
    rule = "a key that a memory no longer has does not destroy it"
    await expect_refused(store.change(NAMESPACE, plan("purge", "b")), "memory_not_found", rule)
    await put(store, "a", kind="delete")

    await store.change(NAMESPACE, plan("purge", id=memory.row.id))

    await _expect_forgotten(store, MemoryName(id=memory.row.id), "id_not_found")
    again = plan("purge", id="00000000-0000-4000-8000-000000000000")
    await expect_refused(store.change(NAMESPACE, again), "id_not_found", "an unknown id is refused")


async def no_import_brings_back_what_was_purged(store: ServableStore) -> None:
    """Neither the memory, whatever its key is, nor its history; others are imported."""
    memory = expect_stored(await put(store, "a"))
    entries = await read_all_entries(store)
    await store.change(NAMESPACE, plan("purge", "a"))
    kept = expect_stored(await put(store, "b"))

    expect(await store.import_entries(entries), 0, "its history is left out")
    other_key = memory._replace(row=memory.row._replace(key="c"))
    batch = [IncomingMemory(memory), IncomingMemory(other_key), IncomingMemory(kept)]
    for dry_run in (True, False):
        outcomes = await store.import_batch(batch, replace=True, dry_run=dry_run)
        told = list(map(str, outcomes))
        expect(told, ["purged", "purged", "unchanged"], "a purged id is refused by itself")

    expect(await read_versions(store, "a", "c"), ["memory_not_found"] * 2, "nothing came back")
    await _expect_forgotten(store, MemoryName(id=memory.row.id), "id_not_found")


async def what_is_too_old_is_forgotten(store: HistoryStore) -> None:
    """Compacting forgets entries past the limits; memories stay, and versions go on."""
    await put(store, "a", content="old")
    await put(store, "a", content="new")
    await put(store, "b")
    await put(store, "b", kind="delete")
    before = await read_one(store, "a")

    expect(await store.compact(LATER), 0, "what is young is kept")
    expect(await store.compact(END_OF_TIME), 4, "what is old is forgotten")
    expect(await store.compact(END_OF_TIME), 0, "once")

    expect(await read_one(store, "a"), before, "memories stay as they are")
    page = await store.read_history(NAMESPACE, MemoryName(key="a"), None, 9)
    expect((page.entries, page.has_more, page.earliest), ((), False, 2), "their past is gone")
    rule = "a forgotten version is not found"
    name = MemoryName(key="a")
    await expect_refused(store.read_version(NAMESPACE, name, 1), "version_not_found", rule)
    memory = await store.read_version(NAMESPACE, name, 2)
    expect(memory.row, before.row, "the present version is known all the same")
    changes = await store.read_changes(NAMESPACE, 0, 9)
    expect(changes.is_complete, False, "followers learn that they missed something")

    written = await put(store, "a", content="newer")
    expect(written.version, 5, "no version is given twice")
    memory = await store.read_version(NAMESPACE, name, 2)
    expect(memory.row, before.row, "and the past begins again with the version that was there")


async def entries_are_read_in_pages(store: HistoryStore) -> None:
    """They come by namespace, id and version, each as it was written."""
    first = expect_stored(await put(store, "a", links=[("b", 0.5)])).row.id
    second = expect_stored(await put(store, "b")).row.id
    await rename(store, second, "c")
    await store.change(OTHER_NAMESPACE, plan("store", "a"))

    entries = await read_all_entries(store)

    places = [(entry.namespace, entry.id, entry.version) for entry in entries]
    expect(places, sorted(places), "entries have an order")
    ours = sorted([(first, 1), (second, 2), (first, 3), (second, 3)])
    expect([place[1:] for place in places[:4]], ours, "each memory that a change touched has one")
    expect(places[4][0], OTHER_NAMESPACE, "all namespaces are read")
    for entry in entries:
        verify_entry(entry)
    for number, place in enumerate(places):
        page = await store.read_entries(place, 2)
        expect(page, entries[number + 1 : number + 3], "a page comes after a place")


async def a_past_is_imported(store: ServableStore) -> None:
    """With its history a memory has all its versions here too; a deleted one can be restored."""
    kept = expect_stored(
        await put(store, "a", content="one", links=[("a", 0.5), ("b", 0.5)])
    ).row.id
    gone = expect_stored(await put(store, "b", content="rose", links=[("a", 1.0)])).row.id
    await put(store, "a", content="two")
    await rename(store, gone, "c")
    await put(store, "c", kind="delete")
    await rename(store, kept, "d")

    entries = [_move(entry) for entry in await read_all_entries(store)]
    memories = [_move_memory(memory) for memory in await _read_all(store)]
    await store.change(OTHER_NAMESPACE, plan("store", "x", now=TIME))
    expect(await store.import_entries(entries), 7, "the history of new memories is stored")
    outcomes = await store.import_batch(memories)
    expect(outcomes, ["added"], "then the memory comes")
    imported = await read_all_entries(store)

    contents = await _list_contents(store, OTHER_NAMESPACE, kept)
    expect(contents, ["two", "one"], "its versions are known here")
    history = await store.read_history(OTHER_NAMESPACE, MemoryName(id=gone), None, 9)
    actions = [entry.action for entry in history.entries]
    expect(actions, ["deleted", "renamed", "created"], "a deleted memory has its history")
    restore = plan("restore", id=gone, to_version=history.entries[2].version)
    await store.change(OTHER_NAMESPACE, restore)
    restored = await store.read_linked(OTHER_NAMESPACE, "b", 0, 9)
    expect((restored.row.id, restored.row.content), (gone, "rose"), "and comes back")
    expect(list_targets(restored.links), ["a"], "with its links")

    expect(await store.import_entries(entries), 0, "memories that have a history keep it")
    outcomes = await store.import_batch(memories)
    expect(outcomes, ["unchanged"], "importing again changes nothing")
    remaining = [entry for entry in await read_all_entries(store) if entry.action != "restored"]
    expect(remaining, imported, "nor does it add to the history")
    page = await store.read_changes(OTHER_NAMESPACE, 0, 20)
    expect(len(page.changes), 3, "followers learn of all that was imported")
    for finding in await store.check(lambda _: None, full=True):
        expect(finding.state == "damaged", False, f"the store is sound: {finding.words}")


async def a_past_of_links_alone_is_imported(store: ServableStore) -> None:
    """All that is known of a memory may be that its links followed another one."""
    memory_id = expect_stored(await put(store, "old")).row.id
    linking = expect_stored(await put(store, "d", links=[("old", 0.5)])).row.id
    await store.compact(END_OF_TIME)
    await rename(store, memory_id, "new")
    await put(store, "new", kind="delete")

    await store.import_entries([_move(entry) for entry in await read_all_entries(store)])
    await store.import_batch([_move_memory(memory) for memory in await _read_all(store)])

    name = MemoryName(id=linking)
    history = await store.read_history(OTHER_NAMESPACE, name, None, 9)
    memory = await store.read_version(OTHER_NAMESPACE, name, history.earliest)
    expect(list_targets(memory.links), ["new"], "its first version has the links that it had last")
    expect("relinked" in [entry.action for entry in history.entries], True, "the past is kept")
    for finding in await store.check(lambda _: None, full=True):
        expect(finding.state == "damaged", False, f"the store is sound: {finding.words}")


async def an_import_can_be_undone(store: ServableStore) -> None:
    """What it replaced is kept as that of any change; what it added has a first version."""
    memory = expect_stored(await put(store, "a", content="mine", links=[("b", 0.5)]))
    incoming = memory._replace(row=memory.row._replace(content="theirs"), links=())
    added = memory._replace(
        row=memory.row._replace(key="n", id="11111111-1111-4111-8111-111111111111"),
        links=(LinkRow("n", "a", "association", 0.5),),
    )
    batch = [IncomingMemory(incoming), IncomingMemory(added)]
    expect(await store.import_batch(batch, replace=True), ["replaced", "added"], "both are taken")

    entries = (await store.read_history(NAMESPACE, MemoryName(key="a"), None, 9)).entries
    expect([entry.action for entry in entries], ["imported", "created"], "an import is told")
    await store.change(NAMESPACE, plan("restore", "a", to_version=memory.row.version))
    restored = await store.read_linked(NAMESPACE, "a", 0, 9)
    expect((restored.row.content, list_targets(restored.links)), ("mine", ["b"]), "it is undone")
    history = await store.read_history(NAMESPACE, MemoryName(key="n"), None, 9)
    expect(len(history.entries), 1, "what was added begins with that")
    expect(history.earliest, (await read_one(store, "n")).row.version, "and has that version")


async def read_all_entries(store: HistoryStore) -> list[Entry]:
    """Return the history of all namespaces; fail if some of it is damaged."""
    entries: list[Entry] = []
    for entry in await store.read_entries(("", "", 0), 100):
        if not isinstance(entry, Entry):
            raise AssertionError(f"a healthy store has no damaged history; got {entry!r}")
        entries.append(entry)

    return entries


async def _expect_forgotten(store: HistoryStore, name: MemoryName, reason: Reason) -> None:
    rule = f"{name} has no past any more"
    await expect_refused(store.read_history(NAMESPACE, name, None, 9), reason, rule)
    await expect_refused(store.read_version(NAMESPACE, name, TIME), reason, rule)


async def _read_all(store: ServableStore) -> list[StoredMemory]:
    memories: list[StoredMemory] = []
    for memory in await store.read_page(("", ""), 100):
        if not isinstance(memory, StoredMemory):
            raise AssertionError(f"a page of a healthy store holds no damage; got {memory!r}")
        memories.append(memory)

    expect(list_keys(memories), ["d"], "one memory is left")
    return memories


async def _list_contents(store: HistoryStore, namespace: str, memory_id: str) -> list[str]:
    """Return the different contents that a memory had, the last one first."""
    name = MemoryName(id=memory_id)
    contents: list[str] = []
    for entry in (await store.read_history(namespace, name, None, 9)).entries:
        if entry.action != "relinked":
            memory = await store.read_version(namespace, name, entry.version)
            contents.append(memory.row.content)

    return list(dict.fromkeys(contents))


def _move(entry: Entry) -> Entry:
    """Return an entry as one of the other namespace."""
    return seal(entry._replace(namespace=OTHER_NAMESPACE))


def _move_memory(memory: StoredMemory) -> IncomingMemory:
    return IncomingMemory(memory._replace(row=memory.row._replace(namespace=OTHER_NAMESPACE)))
