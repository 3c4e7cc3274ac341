"""Behaviors of a store that keeps the past, forgets it, or is given one that was kept elsewhere."""

from abilities.declarations.refusals import Reason
from abilities.helpers.store.history import (
    Entry,
    MemoryName,
    seal,
)
from abilities.helpers.store.model import IncomingMemory, LinkRow, Query
from abilities.helpers.store.protocol import HistoryStore, ServableStore
from tests.stores.behaviours.powers import NEW_ID
from tests.stores.behaviours.steps import (
    LATER,
    NAMESPACE,
    OTHER_NAMESPACE,
    TIME,
    add,
    end,
    expect,
    expect_refused,
    expect_sound,
    find_keys,
    list_targets,
    plan,
    put,
    read_memories,
    read_one,
    read_versions,
    rename,
)
from tests.support.past_trial import PastTrial

END_OF_TIME = "9999-12-31T23:59:59.999Z"
A = MemoryName(key="a")


async def any_changes_are_remembered_as_a_model_remembers_them(store: ServableStore) -> None:
    """After random changes, alone and together: outcomes, versions, times, reads and followers."""
    await PastTrial(store, seed=1).run(80)


async def what_is_purged_is_gone_for_good(store: HistoryStore) -> None:
    """Nothing of it is found, read or restored; its key is free, and links to it dangle."""
    await put(store, "s", links=[("a", 0.5)])
    row = (await add(store, "a", content="rose", links=[("s", 0.5)], tags=["t"])).row
    await put(store, "a", content="tulip")

    purged = await store.change(NAMESPACE, plan("purge", "a", caller="c"))

    told = (purged.stored, purged.version, purged.id)
    expect(told, (None, 4, row.id), "a purge gives a version, and no memory")
    expect(await read_versions(store, "a"), ["memory_not_found"], "it is not read")
    for search in ("rose", "tulip"):
        query = Query(search=(search,), archived=True)
        expect(await find_keys(store, query), [], "it is not found by what it has or had")
    source = await read_one(store, "s")
    totals = (source.links_total, source.backlinks_total)
    expect(totals, (1, 0), "its links are gone, and those of others stay")
    await _expect_no_past(store, MemoryName(id=row.id), "id_not_found")
    await _expect_no_past(store, A, "memory_not_found")
    restore = store.change(NAMESPACE, plan("restore", id=row.id, to_version=row.version))
    await expect_refused(restore, "purged", "nobody brings it back")

    page = await store.read_changes(NAMESPACE, row.version, 9)
    told_changes = [(change.version, change.id, change.action) for change in page.changes]
    expect(told_changes, [(4, row.id, "purged")], "followers learn of it")
    other = await add(store, "a")
    expect(other.row.id != row.id, True, "another memory may have its key")


async def what_is_too_old_is_forgotten(store: HistoryStore) -> None:
    """Compacting forgets entries past the limits; memories stay, and versions go on."""
    await put(store, "a", content="old")
    await put(store, "a", content="new")
    await put(store, "b")
    await end(store, "delete", "b")
    before = await read_one(store, "a")

    for until, number in ((LATER, 0), (END_OF_TIME, 4), (END_OF_TIME, 0)):
        expect(await store.compact(until), number, "what is old is forgotten, once")

    expect(await read_one(store, "a"), before, "memories stay as they are")
    page = await store.read_history(NAMESPACE, A, None, 9)
    expect((page.entries, page.has_more, page.earliest), ((), False, 2), "their past is gone")
    forgotten = store.read_version(NAMESPACE, A, 1)
    await expect_refused(forgotten, "version_not_found", "a forgotten version is not found")
    changes = await store.read_changes(NAMESPACE, 0, 9)
    expect(changes.is_complete, False, "followers learn that they missed something")

    for _ in range(2):  # the present version is known all the same, also when it is a former one
        memory = await store.read_version(NAMESPACE, A, 2)
        expect(memory.row, before.row, "the past begins again with the version that was there")
        await put(store, "a", content="newer")
    expect(await read_versions(store, "a"), [5], "no version is given twice")


async def entries_are_read_in_pages(store: HistoryStore) -> None:
    """They come by namespace, id and version, each as it was written."""
    first = (await add(store, "a", links=[("b", 0.5)])).row.id
    second = (await add(store, "b")).row.id
    await rename(store, "b", "c")
    await store.change(OTHER_NAMESPACE, plan("store", "a"))

    entries = await _read_entries(store)

    places = [(entry.namespace, entry.id, entry.version) for entry in entries]
    ours = sorted([(first, 1), (second, 2), (first, 3), (second, 3)])
    expect(places[:4], [(NAMESPACE, *place) for place in ours], "each memory that was touched")
    expect([place[0] for place in places[4:]], [OTHER_NAMESPACE], "all namespaces are read")
    for number, place in enumerate(places):
        expect(entries[number].is_sound, True, "each is as it was written")
        page = await store.read_entries(place, 2)
        expect(page, entries[number + 1 : number + 3], "a page comes after a place")


async def no_import_brings_back_what_was_purged(store: ServableStore) -> None:
    """Neither the memory, whatever its key is, nor its history; others are imported."""
    memory = await add(store, "a")
    entries = await _read_entries(store)
    await end(store, "purge", "a")
    kept = await add(store, "b")

    expect(await store.import_entries(entries), 0, "its history is left out")
    other_key = memory._replace(row=memory.row._replace(key="c"))
    batch = [IncomingMemory(memory), IncomingMemory(other_key), IncomingMemory(kept)]
    for dry_run in (True, False):
        outcomes = await store.import_batch(batch, replace=True, dry_run=dry_run)
        told = list(map(str, outcomes))
        expect(told, ["purged", "purged", "unchanged"], "a purged id is refused by itself")

    expect(await read_versions(store, "a", "c"), ["memory_not_found"] * 2, "nothing came back")
    await _expect_no_past(store, MemoryName(id=memory.row.id), "id_not_found")


async def a_past_of_links_alone_is_imported(store: ServableStore) -> None:
    """All that is known of a memory may be that its links followed another one."""
    await put(store, "old")
    linking = (await add(store, "d", links=[("old", 0.5)])).row.id
    await store.compact(END_OF_TIME)
    await rename(store, "old", "new")
    await end(store, "delete", "new")

    entries, memories = await _move(store)
    await store.import_entries(entries)
    await store.import_batch(memories)

    name = MemoryName(id=linking)
    history = await store.read_history(OTHER_NAMESPACE, name, None, 9)
    memory = await store.read_version(OTHER_NAMESPACE, name, history.earliest)
    expect(list_targets(memory.links), ["new"], "its first version has the links that it had last")
    expect("relinked" in [entry.action for entry in history.entries], True, "the past is kept")
    await expect_sound(store)


async def an_import_can_be_undone(store: ServableStore) -> None:
    """What it replaced is kept as that of any change; what it added has a first version."""
    memory = await add(store, "a", content="mine", links=[("b", 0.5)])
    theirs = memory._replace(row=memory.row._replace(content="theirs"), links=())
    added = memory._replace(
        row=memory.row._replace(key="n", id=NEW_ID), links=(LinkRow("n", "a", "association", 0.5),)
    )
    outcomes = await store.import_batch(
        [IncomingMemory(theirs), IncomingMemory(added)], replace=True
    )
    expect(outcomes, ["replaced", "added"], "both are taken")

    entries = (await store.read_history(NAMESPACE, A, None, 9)).entries
    expect([entry.action for entry in entries], ["imported", "created"], "an import is told")
    await store.change(NAMESPACE, plan("restore", "a", to_version=memory.row.version))
    restored = await store.read_linked(NAMESPACE, "a", 0, 9)
    expect((restored.row.content, list_targets(restored.links)), ("mine", ["b"]), "it is undone")
    history = await store.read_history(NAMESPACE, MemoryName(key="n"), None, 9)
    first = (len(history.entries), history.earliest)
    expect(first, (1, (await read_one(store, "n")).row.version), "what was added begins with that")


async def _expect_no_past(store: HistoryStore, name: MemoryName, reason: Reason) -> None:
    rule = f"{name} has no past, or none any more"
    await expect_refused(store.read_history(NAMESPACE, name, None, 9), reason, rule)
    await expect_refused(store.read_version(NAMESPACE, name, TIME), reason, rule)


async def _read_entries(store: HistoryStore) -> list[Entry]:
    """Return the history of all namespaces; fail if some of it is damaged."""
    entries = await store.read_entries(("", "", 0), 100)
    sound = [entry for entry in entries if isinstance(entry, Entry)]
    expect(sound, entries, "a healthy store has no damaged history")
    return sound


async def _move(store: ServableStore) -> tuple[list[Entry], list[IncomingMemory]]:
    """Return all entries, and the one memory that is left, as those of the other namespace."""
    entries = await _read_entries(store)
    (memory,) = await read_memories(store)
    moved = memory._replace(row=memory.row._replace(namespace=OTHER_NAMESPACE))
    return [seal(e._replace(namespace=OTHER_NAMESPACE)) for e in entries], [IncomingMemory(moved)]
