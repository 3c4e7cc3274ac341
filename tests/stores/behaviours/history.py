"""Behaviors of a store that keeps the past, for `tests.stores.behaviours`."""

from collections.abc import Sequence

from abilities.declarations.refusals import Reason
from abilities.helpers.store.history import MemoryName, list_changed
from abilities.helpers.store.model import LinkRow, Row
from abilities.helpers.store.protocol import HistoryStore
from abilities.helpers.store.query import Query
from tests.stores.behaviours.steps import (
    LATER,
    NAMESPACE,
    OTHER_NAMESPACE,
    TIME,
    expect,
    expect_refused,
    expect_stored,
    list_targets,
    plan,
    put,
    read_one,
    read_targets,
    read_totals,
    read_versions,
    rename,
)

UNKNOWN_ID = "00000000-0000-4000-8000-000000000000"

State = tuple[Row, set[LinkRow]]


async def every_version_comes_back(store: HistoryStore) -> None:
    """After changes of every kind, each version is read as it was, with all its links."""
    created = expect_stored(await put(store, "a", links=[("a", 0.5), ("b", 0.25)], tags=["t"]))
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
    await store.change(NAMESPACE, plan("delete", "c"))
    for name in (MemoryName(id=memory_id), MemoryName(key="c"), MemoryName(key="a")):
        await _expect_versions(store, name, states)

    for version in (0, versions[-1] + 1, versions[-1] + 2):
        await expect_refused(
            store.read_version(NAMESPACE, MemoryName(id=memory_id), version),
            "version_not_found",
            "a version that the memory never had is not found",
        )


async def a_memory_is_read_as_it_was_at_a_time(store: HistoryStore) -> None:
    """At the time of a change it is as that left it; before the first there was none."""
    days = [f"2026-01-0{day}T00:00:00.000Z" for day in range(1, 5)]
    name = MemoryName(key="a")
    for day in days[:3]:
        await put(store, "a", now=day, content=day)
    await put(store, "a", kind="delete", now=days[3])

    for day in days[:3]:
        for time in (day, day.replace("T00", "T23")):
            memory = await store.read_version(NAMESPACE, name, time)
            expect(memory.row.content, day, f"at {time} it is as the last change left it")
    for time in ("2025-12-31T23:59:59.999Z", days[3], "2026-02-01T00:00:00.000Z"):
        await expect_refused(
            store.read_version(NAMESPACE, name, time), "version_not_found", "there was none"
        )


async def a_history_tells_what_became_of_a_memory(store: HistoryStore) -> None:
    """It comes newest first in pages, with who made each change and which fields it replaced."""
    memory_id = expect_stored(await put(store, "a", links=[("b", 0.5)])).row.id
    for change in (
        plan("update", "a", fields={"summary": "s", "memory_score": 0.1}, caller="first"),
        plan("update", "a", fields={"summary": "s"}, caller="nobody"),
        plan("update", "a", new_key="b", now=LATER, caller="second"),
        plan("archive", "b"),
        plan("store", "b"),
        plan("delete", "b", caller="third"),
    ):
        await store.change(NAMESPACE, change)

    found = await store.read_history(NAMESPACE, MemoryName(key="a"), None, 10)

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

    for before, expected_versions, has_more in ((None, [6, 5], True), (3, [2, 1], False)):
        page = await store.read_history(NAMESPACE, MemoryName(id=memory_id), before, 2)
        versions = [entry.version for entry in page.entries]
        expect((versions, page.has_more), (expected_versions, has_more), "pages go back in time")


async def a_key_names_the_past_of_one_memory(store: HistoryStore) -> None:
    """A memory that is there comes first; then the last one that had the key."""
    first = expect_stored(await put(store, "a")).row.id
    await rename(store, first, "b")
    await _expect_id(store, "a", first)
    second = expect_stored(await put(store, "a")).row.id
    await _expect_id(store, "a", second)
    await put(store, "a", kind="delete")
    await _expect_id(store, "a", second)
    await _expect_id(store, "b", first)

    unknown: list[tuple[MemoryName, Reason]] = [
        (MemoryName(key="none"), "memory_not_found"),
        (MemoryName(id=UNKNOWN_ID), "id_not_found"),
    ]
    for name, reason in unknown:
        rule = "what was never there has no past"
        await expect_refused(store.read_history(NAMESPACE, name, None, 9), reason, rule)
        await expect_refused(store.read_version(NAMESPACE, name, 1), reason, rule)
    name = MemoryName(id=first)
    rule = "the past is known in its namespace alone"
    history = store.read_history(OTHER_NAMESPACE, name, None, 9)
    await expect_refused(history, "id_not_found", rule)


async def a_restored_version_is_a_new_one(store: HistoryStore) -> None:
    """Fields and links are as they were; the key and the links of others stay."""
    memory_id = expect_stored(
        await put(store, "a", content="rose", links=[("a", 0.5), ("t", 1.0)], tags=["t"])
    ).row.id
    await put(store, "s", links=[("a", 0.5)])
    await rename(store, memory_id, "b")
    await put(store, "b", content="tulip", tags=[], links=[("u", 0.5)])

    written = await store.change(
        NAMESPACE, plan("restore", "b", to_version=1, now=LATER, caller="c")
    )

    memory = await store.read_linked(NAMESPACE, "b", 0, 9)
    expect((memory.row.content, memory.row.tags), ("rose", '["t"]'), "fields come back")
    expect(list_targets(memory.links), ["b", "t"], "links come back, to itself under its key")
    expect(await read_targets(store, "s"), ["b"], "links to it stay")
    expect(written.version, 5, "it is the next version")
    found = await store.query(NAMESPACE, Query(tags=("t",)))
    expect(found.total, 1, "it is found by what it has again")

    present = written.version
    same = await store.change(NAMESPACE, plan("restore", "b", to_version=present))
    expect((same.updated, same.version), ((), present), "what it is already changes nothing")
    undone = await store.change(NAMESPACE, plan("restore", "b"))
    memory = await store.read_linked(NAMESPACE, "b", 0, 9)
    expect((memory.row.content, undone.version), ("tulip", 6), "the last change can be undone")
    await expect_refused(
        store.change(NAMESPACE, plan("restore", "s")),
        "version_not_found",
        "a memory that was never changed has nothing to undo",
    )
    await expect_refused(
        store.change(NAMESPACE, plan("restore", "b", to_version=2)),
        "version_not_found",
        "a version of another memory is none of its own",
    )


async def a_deleted_memory_comes_back(store: HistoryStore) -> None:
    """It has its id, key, fields and links again, unless another memory has its key."""
    await put(store, "s", links=[("a", 0.5)])
    before = expect_stored(await put(store, "a", content="rose", links=[("s", 0.5), ("a", 1.0)]))
    await put(store, "a", kind="delete")
    await store.change(NAMESPACE, plan("restore", "a"))
    await put(store, "a", kind="delete")
    other = expect_stored(await put(store, "a", content="other")).row

    restore = plan("restore", id=before.row.id, to_version=before.row.version)
    rule = "a key belongs to one memory"
    await expect_refused(store.change(NAMESPACE, restore), "key_taken", rule)
    await put(store, "", kind="delete", id=other.id)
    written = await store.change(NAMESPACE, restore)

    row = (await read_one(store, "a")).row
    expect(row, before.row._replace(version=written.version), "all but its version is as it was")
    expect(await read_totals(store, "a"), (2, 2), "it has its links and those to it")
    found = await store.query(NAMESPACE, Query(search=("rose",)))
    expect(found.total, 1, "it is found")
    await put(store, "a", kind="delete")
    again = plan("restore", "a", to_version=written.version)
    await store.change(NAMESPACE, again)
    expect((await read_one(store, "a")).row.id, before.row.id, "as often as it was deleted")


async def links_that_followed_a_rename_come_back(store: HistoryStore) -> None:
    """Of two links that became one, an earlier version has both; no version is given for that."""
    memory_id = expect_stored(await put(store, "old")).row.id
    await put(store, "s", links=[("old", 0.9), ("new", 0.5)], term="n")
    version = (await read_one(store, "s")).row.version
    before = await _read_state(store, "s")
    await put(store, "s", summary="later")
    later = (await read_one(store, "s")).row.version

    await rename(store, memory_id, "new")
    expect(await read_versions(store, "s"), [later], "a memory that is relinked keeps its version")
    expect(await read_targets(store, "s"), ["new"], "its links follow")
    memory = await store.read_version(NAMESPACE, MemoryName(key="s"), later)
    expect(list_targets(memory.links), ["new"], "its version has the links that it has now")
    memory = await store.read_version(NAMESPACE, MemoryName(key="s"), version)
    expect((memory.row, set(memory.links)), before, "an earlier one those that it had")

    page = await store.read_history(NAMESPACE, MemoryName(key="s"), None, 1)
    (entry,) = page.entries
    expect((entry.action, entry.previous), ("relinked", later), "the history tells of it")

    await store.change(NAMESPACE, plan("restore", "s", to_version=version, now=LATER))
    memory = await store.read_linked(NAMESPACE, "s", 0, 9)
    expect(set(memory.links), before[1], "they can be restored")


async def changes_are_followed_by_their_versions(store: HistoryStore) -> None:
    """A follower learns the last change of each memory, in pages, and misses none."""
    ids = [expect_stored(await put(store, key)).row.id for key in ("a", "b", "c")]
    await put(store, "a", content="x")
    await rename(store, ids[1], "d")
    await put(store, "c", kind="delete")
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

    since, seen = 0, set[str]()
    for _ in range(9):
        page = await store.read_changes(NAMESPACE, since, 1)
        seen |= {change.id for change in page.changes}
        since = page.next
        if not page.has_more:
            break
    expect((since, seen), (6, set(ids)), "pages lead to the same end")

    page = await store.read_changes(NAMESPACE, 6, 10)
    expect((page.changes, page.next, page.has_more), ((), 6, False), "then there is nothing new")
    page = await store.read_changes(NAMESPACE, 7, 10)
    expect((page.next, page.is_complete), (6, False), "who has seen more is told to begin anew")
    page = await store.read_changes(OTHER_NAMESPACE, 0, 10)
    expect(page.changes, (), "a namespace has changes of its own")


async def the_latest_changes_come_first(store: HistoryStore) -> None:
    """All changes are told, newest first and in pages, but not those of links that followed."""
    ids = [expect_stored(await put(store, key)).row.id for key in ("a", "b")]
    await put(store, "c", links=[("a", 0.5)])
    await rename(store, ids[0], "d")
    await put(store, "d", content="x")
    await put(store, "b", kind="delete")
    await store.change(OTHER_NAMESPACE, plan("store", "b", fields={"type": "core", "content": "b"}))

    told: list[tuple[int, str, str]] = []
    before: int | None = None
    for _ in range(9):
        changes = await store.read_latest_changes(NAMESPACE, before, 2)
        if not changes:
            break
        expect(len(changes), 2, "a page is as long as asked for")
        told += [(change.version, change.key, change.action) for change in changes]
        before = changes[-1].version

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
    expect(changes[0].id, ids[1], "a deleted memory is named too")


async def an_end_that_passes_is_a_change(store: HistoryStore) -> None:
    """The history says that a memory expired, and the version before can be read."""
    version = (await put(store, "a", now=TIME, expires_at="2026-01-01T12:00:00.000Z")).version

    page = await store.read_history(NAMESPACE, MemoryName(key="a"), None, 1)

    (entry,) = page.entries
    expect((entry.action, entry.caller), ("expired", "expiry"), "an end that passes is told")
    expect(entry.previous, version, "it replaced the version before")
    memory = await store.read_version(NAMESPACE, MemoryName(key="a"), version)
    expect(memory.row.archived, 0, "which was not archived")
    changes = await store.read_changes(NAMESPACE, version, 9)
    expect([change.action for change in changes.changes], ["expired"], "followers learn of it")


async def _read_state(store: HistoryStore, key: str) -> State:
    memory = await store.read_linked(NAMESPACE, key, 0, 100)
    return memory.row, set(memory.links)


async def _expect_versions(store: HistoryStore, name: MemoryName, states: Sequence[State]) -> None:
    for state in states:
        memory = await store.read_version(NAMESPACE, name, state[0].version)
        expect((memory.row, set(memory.links)), state, f"{name}: a version is as it was")
        expect(memory.links_total, len(state[1]), "and counts its links")


async def _expect_id(store: HistoryStore, key: str, memory_id: str) -> None:
    page = await store.read_history(NAMESPACE, MemoryName(key=key), None, 1)
    expect(page.entries[0].id, memory_id, f"{key} names the memory that has or last had it")
