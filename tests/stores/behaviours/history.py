"""Behaviors of a store that keeps the past, forgets it, or is given one that was kept elsewhere."""

from collections.abc import Sequence

from abilities.declarations.refusals import Reason
from abilities.helpers.store.history import (
    ChangePage,
    Entry,
    MemoryName,
    list_changed,
    seal,
)
from abilities.helpers.store.model import IncomingMemory, LinkRow, Row, StoredMemory
from abilities.helpers.store.protocol import HistoryStore, ServableStore
from abilities.helpers.store.query import Query
from tests.stores.behaviours.powers import NEW_ID, expect_sound, read_memories
from tests.stores.behaviours.steps import (
    LATER,
    NAMESPACE,
    OTHER_NAMESPACE,
    TIME,
    add,
    end,
    expect,
    expect_refused,
    expect_stored,
    find_keys,
    list_targets,
    plan,
    put,
    read_one,
    read_sources,
    read_targets,
    read_totals,
    read_versions,
    rename,
)

UNKNOWN_ID = "00000000-0000-4000-8000-000000000000"
END_OF_TIME = "9999-12-31T23:59:59.999Z"
A = MemoryName(key="a")

State = tuple[Row, set[LinkRow]]


async def every_version_comes_back(store: HistoryStore) -> None:
    """After changes of every kind, each version is read as it was, with all its links."""
    created = await add(store, "a", links=[("a", 0.5), ("b", 0.25)], tags=["t"])
    memory_id = created.row.id
    states = [await _read_state(store, "a")]

    for change in (
        plan("store", "a", fields={"content": "ß\n😀", "metadata": {"x": [None]}}),
        plan("append", "a", fields={"content": "more"}, caller="c"),
        plan("update", "a", fields={"importance": "low", "memory_score": 0.5}),
        plan("update", "a", links=[{"key": "b", "link_weight": 1.0, "type": "t", "term": "n"}]),
        plan("update", "a", remove_links=[{"key": "b", "type": "association"}]),
        plan("update", "a", new_key="c", fields={"summary": "s"}),
        plan("archive", "c"),
        plan("restore", id=memory_id, to_version=created.row.version),
        plan("store", "c", fields={"expires_at": "9999-01-01T00:00:00.000Z"}, now=LATER),
    ):
        written = await store.change(NAMESPACE, change)
        states.append(await _read_state(store, expect_stored(written).row.key))

    versions = [row.version for row, _ in states]
    expect(versions, [*range(versions[0], versions[0] + len(states))], "each change has one")
    await _expect_versions(store, MemoryName(id=memory_id), states)
    await end(store, "delete", "c")
    for name in (MemoryName(id=memory_id), MemoryName(key="c"), A):
        await _expect_versions(store, name, states)
    for version in (0, versions[-1] + 1, versions[-1] + 2):
        reading = store.read_version(NAMESPACE, MemoryName(id=memory_id), version)
        await expect_refused(reading, "version_not_found", "it never had such a version")


async def a_memory_is_read_as_it_was_at_a_time(store: HistoryStore) -> None:
    """At the time of a change it is as that left it; before the first there was none."""
    days = [f"2026-01-0{day}T00:00:00.000Z" for day in range(1, 5)]
    for day in days[:3]:
        await put(store, "a", now=day, content=day)
    await put(store, "a", kind="delete", now=days[3])

    for day in days[:3]:
        for time in (day, day.replace("T00", "T23")):
            memory = await store.read_version(NAMESPACE, A, time)
            expect(memory.row.content, day, f"at {time} it is as the last change left it")
    for time in ("2025-12-31T23:59:59.999Z", days[3], "2026-02-01T00:00:00.000Z"):
        reading = store.read_version(NAMESPACE, A, time)
        await expect_refused(reading, "version_not_found", "there was none")


async def a_history_tells_what_became_of_a_memory(store: HistoryStore) -> None:
    """It comes newest first in pages, with who made each change and which fields it replaced."""
    memory_id = (await add(store, "a", links=[("b", 0.5)])).row.id
    for change in (
        plan("update", "a", fields={"summary": "s", "memory_score": 0.1}, caller="first"),
        plan("update", "a", fields={"summary": "s"}, caller="nobody"),
        plan("update", "a", new_key="b", now=LATER, caller="second"),
        plan("archive", "b"),
        plan("store", "b"),
        plan("delete", "b", caller="third"),
    ):
        await store.change(NAMESPACE, change)

    found = await store.read_history(NAMESPACE, A, None, 10)

    told = [(entry.version, entry.action, entry.caller) for entry in found.entries]
    expected = [
        (6, "deleted", "third"),
        (5, "revived", ""),
        (4, "archived", ""),
        (3, "renamed", "second"),
        (2, "changed", "first"),
        (1, "created", ""),
    ]
    expect(told, expected, "each change that changed something is told, the newest first")
    expect((found.row, found.has_more, found.earliest), (None, False, 1), "all of a past is known")
    expect({entry.id for entry in found.entries}, {memory_id}, "it is that of one memory")
    expect([entry.previous for entry in found.entries], [5, 4, 3, 2, 1, 0], "versions follow")
    expect(list_changed(found.entries[4]), ["memory_score", "summary"], "fields are named")
    expect(list_changed(found.entries[5]), [], "a new memory replaces nothing")
    expect(found.entries[3].made_at, LATER, "each has its time")
    for before, versions, has_more in ((None, [6, 5], True), (3, [2, 1], False)):
        page = await store.read_history(NAMESPACE, MemoryName(id=memory_id), before, 2)
        told_page = ([entry.version for entry in page.entries], page.has_more)
        expect(told_page, (versions, has_more), "pages go back in time")


async def a_key_names_the_past_of_one_memory(store: HistoryStore) -> None:
    """A memory that is there comes first; then the last one that had the key."""

    async def expect_id(key: str, memory_id: str) -> None:
        page = await store.read_history(NAMESPACE, MemoryName(key=key), None, 1)
        expect(page.entries[0].id, memory_id, f"{key} names the memory that has or last had it")

    first = (await add(store, "a")).row.id
    await rename(store, "a", "b")
    await expect_id("a", first)
    second = (await add(store, "a")).row.id
    await expect_id("a", second)
    await end(store, "delete", "a")
    await expect_id("a", second)
    await expect_id("b", first)

    await _expect_no_past(store, MemoryName(key="none"), "memory_not_found")
    await _expect_no_past(store, MemoryName(id=UNKNOWN_ID), "id_not_found")
    elsewhere = store.read_history(OTHER_NAMESPACE, MemoryName(id=first), None, 9)
    await expect_refused(elsewhere, "id_not_found", "the past is known in its namespace alone")


async def a_restored_version_is_a_new_one(store: HistoryStore) -> None:
    """Fields and links are as they were; the key and the links of others stay."""
    await put(store, "a", content="rose", links=[("a", 0.5), ("t", 1.0)], tags=["t"])
    await put(store, "s", links=[("a", 0.5)])
    await rename(store, "a", "b")
    await put(store, "b", content="tulip", tags=[], links=[("u", 0.5)])

    restoring = plan("restore", "b", to_version=1, now=LATER, caller="c")
    written = await store.change(NAMESPACE, restoring)

    memory = await store.read_linked(NAMESPACE, "b", 0, 9)
    expect((memory.row.content, memory.row.tags), ("rose", '["t"]'), "fields come back")
    expect(list_targets(memory.links), ["b", "t"], "links come back, to itself under its key")
    expect(await read_targets(store, "s"), ["b"], "links to it stay")
    expect(written.version, 5, "it is the next version")
    expect(await find_keys(store, Query(tags=("t",))), ["b"], "it is found by what it has again")

    same = await store.change(NAMESPACE, plan("restore", "b", to_version=5))
    expect((same.updated, same.version), ((), 5), "what it is already changes nothing")
    undone = expect_stored(await store.change(NAMESPACE, plan("restore", "b")))
    expect((undone.row.content, undone.row.version), ("tulip", 6), "the last change can be undone")
    for change in (plan("restore", "s"), plan("restore", "b", to_version=2)):
        work = store.change(NAMESPACE, change)
        await expect_refused(work, "version_not_found", "a version is one of its own, and earlier")


async def undoing_a_replacement_restores_both(store: HistoryStore) -> None:
    """The replaced memory is back, and the one that replaced it is what it was before."""
    await put(store, "old", content="before", links=[("x", 0.5)])
    await put(store, "kept", content="kept")
    for new_key, present in (("new", False), ("kept", True)):
        fields = {"content": "after"}
        await store.change(NAMESPACE, plan("supersede", "old", new_key=new_key, fields=fields))
        expect((await read_one(store, "old")).replaced_by, new_key, "it is replaced")
        history = await store.read_history(NAMESPACE, MemoryName(key="old"), None, 1)
        expect(history.entries[0].action, "superseded", "the history tells of it")

        await store.change(NAMESPACE, plan("restore", "old"))

        old = await read_one(store, "old")
        expect((old.row.archived, old.row.content), (0, "before"), "the replaced memory is back")
        expect(await read_targets(store, "old"), ["x"], "its link to the other one is gone")
        found = await store.read(NAMESPACE, [new_key])
        contents = [one.row.content for one in found if isinstance(one, StoredMemory)]
        expect(contents, ["kept"] if present else [], "the other one is as before")

    await store.change(NAMESPACE, plan("supersede", "old", new_key="kept"))
    await put(store, "kept", content="changed since")
    await store.change(NAMESPACE, plan("restore", "old"))
    expect((await read_one(store, "kept")).row.content, "changed since", "later changes stay")


async def a_deleted_memory_comes_back(store: HistoryStore) -> None:
    """It has its id, key, fields and links again, unless another memory has its key."""
    await put(store, "s", links=[("a", 0.5)])
    before = (await add(store, "a", content="rose", links=[("s", 0.5), ("a", 1.0)])).row
    await end(store, "delete", "a")
    await store.change(NAMESPACE, plan("restore", "a"))
    await end(store, "delete", "a")
    await put(store, "a", content="other")

    restore = plan("restore", id=before.id, to_version=before.version)
    await expect_refused(store.change(NAMESPACE, restore), "key_taken", "a key is of one memory")
    await end(store, "delete", "a")
    written = await store.change(NAMESPACE, restore)

    row = (await read_one(store, "a")).row
    expect(row, before._replace(version=written.version), "all but its version is as it was")
    expect(await read_totals(store, "a"), (2, 2), "it has its links and those to it")
    expect(await find_keys(store, Query(search=("rose",))), ["a"], "it is found")
    await end(store, "delete", "a")
    await store.change(NAMESPACE, plan("restore", "a", to_version=written.version))
    expect((await read_one(store, "a")).row.id, before.id, "as often as it was deleted")


async def links_that_followed_a_rename_come_back(store: HistoryStore) -> None:
    """Of two links that became one, an earlier version has both; no version is given for that."""
    await put(store, "old")
    version = (await put(store, "s", links=[("old", 0.9), ("new", 0.5)], term="n")).version
    before = await _read_state(store, "s")
    later = (await put(store, "s", summary="later")).version
    name = MemoryName(key="s")

    await rename(store, "old", "new")
    expect(await read_versions(store, "s"), [later], "a memory that is relinked keeps its version")
    expect(await read_targets(store, "s"), ["new"], "its links follow")
    memory = await store.read_version(NAMESPACE, name, later)
    expect(list_targets(memory.links), ["new"], "its version has the links that it has now")
    memory = await store.read_version(NAMESPACE, name, version)
    expect((memory.row, set(memory.links)), before, "an earlier one those that it had")
    (entry,) = (await store.read_history(NAMESPACE, name, None, 1)).entries
    expect((entry.action, entry.previous), ("relinked", later), "the history tells of it")

    await store.change(NAMESPACE, plan("restore", "s", to_version=version, now=LATER))
    memory = await store.read_linked(NAMESPACE, "s", 0, 9)
    expect(set(memory.links), before[1], "they can be restored")


async def changes_are_followed_by_their_versions(store: HistoryStore) -> None:
    """A follower learns the last change of each memory, in pages, and misses none."""
    ids = [(await add(store, key)).row.id for key in ("a", "b", "c")]
    await put(store, "a", content="x")
    await rename(store, "b", "d")
    await end(store, "delete", "c")
    await put(store, "a", content="x")

    page = await store.read_changes(NAMESPACE, 0, 10)
    told = [(change.version, change.id, change.key, change.action) for change in page.changes]
    expected = [
        (4, ids[0], "a", "changed"),
        (5, ids[1], "d", "renamed"),
        (6, ids[2], "c", "deleted"),
    ]
    expect(told, expected, "each memory is told once, with its last change, and its key now")
    expect((page.next, page.has_more, page.is_complete), (6, False, True), "and all are told")

    since, seen, has_more = 0, set[str](), True
    while has_more:
        page = await store.read_changes(NAMESPACE, since, 1)
        seen |= {change.id for change in page.changes}
        expect(page.next > since, True, "each page goes on")
        since, has_more = page.next, page.has_more
    expect((since, seen), (6, set(ids)), "pages lead to the same end")

    page = await store.read_changes(NAMESPACE, 6, 10)
    expect((page.changes, page.next, page.has_more), ((), 6, False), "then there is nothing new")
    page = await store.read_changes(NAMESPACE, 7, 10)
    expect((page.next, page.is_complete), (6, False), "who has seen more is told to begin anew")
    page = await store.read_changes(OTHER_NAMESPACE, 0, 10)
    expect(page.changes, (), "a namespace has changes of its own")


async def the_latest_changes_come_first(store: HistoryStore) -> None:
    """All changes are told, newest first and in pages, but not those of links that followed."""
    for key in ("a", "b"):
        await put(store, key)
    await put(store, "c", links=[("a", 0.5)])
    await rename(store, "a", "d")
    await put(store, "d", content="x")
    deleted = await end(store, "delete", "b")
    await store.change(OTHER_NAMESPACE, plan("store", "b"))

    told: list[tuple[int, str, str]] = []
    while changes := await store.read_latest_changes(NAMESPACE, told[-1][0] if told else None, 2):
        expect(len(changes), 2, "a page is as long as asked for")
        told += [(change.version, change.key, change.action) for change in changes]

    expected = [
        (6, "b", "deleted"),
        (5, "d", "changed"),
        (4, "d", "renamed"),
        (3, "c", "created"),
        (2, "b", "created"),
        (1, "d", "created"),
    ]
    expect(told, expected, "each change is told, with the memory's key now")
    changes = await store.read_latest_changes(NAMESPACE, None, 1)
    expect(changes[0].id, deleted.id, "a deleted memory is named too")


async def an_end_that_passes_is_a_change(store: HistoryStore) -> None:
    """The history says that a memory expired, and the version before can be read."""
    soon = "2026-01-01T12:00:00.000Z"
    version = (await put(store, "a", expires_at=soon)).version

    (entry,) = (await store.read_history(NAMESPACE, A, None, 1)).entries

    told = (entry.action, entry.caller, entry.previous)
    expect(told, ("expired", "expiry", version), "an end that passes is told")
    memory = await store.read_version(NAMESPACE, A, version)
    expect(memory.row.archived, 0, "the version before was not archived")
    version = (await put(store, "b", expires_at=soon)).version
    changes = await store.read_changes(NAMESPACE, version, 9)
    expect(_list_actions(changes), ["expired"], "followers learn of it")


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
    expect((await read_sources(store, "s"))[0], [], "its links are gone")
    expect(await read_totals(store, "s"), (1, 0), "those of others stay")
    await _expect_no_past(store, MemoryName(id=row.id), "id_not_found")
    await _expect_no_past(store, A, "memory_not_found")
    restore = store.change(NAMESPACE, plan("restore", id=row.id, to_version=row.version))
    await expect_refused(restore, "purged", "nobody brings it back")

    page = await store.read_changes(NAMESPACE, row.version, 9)
    told_changes = [(change.version, change.id, change.action) for change in page.changes]
    expect(told_changes, [(4, row.id, "purged")], "followers learn of it")
    other = await add(store, "a")
    expect(other.row.id != row.id, True, "another memory may have its key")


async def what_had_the_key_before_is_purged_too(store: HistoryStore) -> None:
    """Whoever purges a key means all that was deleted under it; what exists has one of its own."""
    first = await add(store, "a", content="forerunner")
    await end(store, "delete", "a")
    renamed = await add(store, "a", content="renamed since")
    await rename(store, "a", "b")
    await put(store, "a", content="present")

    purged = await end(store, "purge", "a")

    page = await store.read_changes(NAMESPACE, purged.version - 1, 9)
    expect(_list_actions(page), ["purged"] * 2, "both have one version")
    await _expect_no_past(store, MemoryName(id=first.row.id), "id_not_found")
    expect((await read_one(store, "b")).row.id, renamed.row.id, "what was renamed stays")


async def a_deleted_memory_can_be_purged(store: HistoryStore) -> None:
    """Its history goes too; what was never there is refused, and what has another key now."""
    memory_id = (await add(store, "a")).row.id
    await put(store, "b")
    await rename(store, "b", "c")
    rule = "a key that a memory no longer has does not destroy it"
    await expect_refused(end(store, "purge", "b"), "memory_not_found", rule)
    await end(store, "delete", "a")

    await store.change(NAMESPACE, plan("purge", id=memory_id))

    await _expect_no_past(store, MemoryName(id=memory_id), "id_not_found")
    unknown = store.change(NAMESPACE, plan("purge", id=UNKNOWN_ID))
    await expect_refused(unknown, "id_not_found", "an unknown id is refused")


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


async def a_past_is_imported(store: ServableStore) -> None:
    """With its history a memory has all its versions here too; a deleted one can be restored."""
    kept = (await add(store, "a", content="one", links=[("a", 0.5), ("b", 0.5)])).row.id
    gone = (await add(store, "b", content="rose", links=[("a", 1.0)])).row.id
    await put(store, "a", content="two")
    await rename(store, "b", "c")
    await end(store, "delete", "c")
    await rename(store, "a", "d")

    entries, memories = await _move(store)
    await store.change(OTHER_NAMESPACE, plan("store", "x"))
    expect(await store.import_entries(entries), 7, "the history of new memories is stored")
    expect(await store.import_batch(memories), ["added"], "then the memory comes")
    imported = await _read_entries(store)

    history = await store.read_history(OTHER_NAMESPACE, MemoryName(id=kept), None, 9)
    contents: list[str] = []
    for entry in history.entries:
        if entry.action != "relinked":
            name = MemoryName(id=kept)
            version = await store.read_version(OTHER_NAMESPACE, name, entry.version)
            contents.append(version.row.content)
    expect(list(dict.fromkeys(contents)), ["two", "one"], "its versions are known here")

    history = await store.read_history(OTHER_NAMESPACE, MemoryName(id=gone), None, 9)
    actions = [entry.action for entry in history.entries]
    expect(actions, ["deleted", "renamed", "created"], "a deleted memory has its history")
    restore = plan("restore", id=gone, to_version=history.entries[2].version)
    await store.change(OTHER_NAMESPACE, restore)
    restored = await store.read_linked(OTHER_NAMESPACE, "b", 0, 9)
    expect((restored.row.id, restored.row.content), (gone, "rose"), "and comes back")
    expect(list_targets(restored.links), ["a"], "with its links")

    expect(await store.import_entries(entries), 0, "memories that have a history keep it")
    expect(await store.import_batch(memories), ["unchanged"], "importing again changes nothing")
    remaining = [entry for entry in await _read_entries(store) if entry.action != "restored"]
    expect(remaining, imported, "nor does it add to the history")
    page = await store.read_changes(OTHER_NAMESPACE, 0, 20)
    expect(len(page.changes), 3, "followers learn of all that was imported")
    await expect_sound(store)


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
        row=memory.row._replace(key="n", id=NEW_ID),
        links=(LinkRow("n", "a", "association", 0.5),),
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


async def _read_state(store: HistoryStore, key: str) -> State:
    memory = await store.read_linked(NAMESPACE, key, 0, 100)
    return memory.row, set(memory.links)


async def _expect_versions(store: HistoryStore, name: MemoryName, states: Sequence[State]) -> None:
    for state in states:
        memory = await store.read_version(NAMESPACE, name, state[0].version)
        expect((memory.row, set(memory.links)), state, f"{name}: a version is as it was")
        expect(memory.links_total, len(state[1]), "and counts its links")


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


def _list_actions(page: ChangePage) -> list[str]:
    return [change.action for change in page.changes]
