"""Behaviors of changes: together, on a condition, with an end; and of the list that they show in.

For `tests.stores.behaviours`.
"""

from collections.abc import Sequence

from abilities.declarations.limits import MAX_LONG_CONTENT_CHARS
from abilities.declarations.refusals import Refused
from abilities.helpers.search.recall import RecallRequest
from abilities.helpers.search.terms import split_question
from abilities.helpers.store.changes import Change
from abilities.helpers.store.protocol import MemoryStore, WriteResult
from abilities.helpers.store.query import MemoryLine, Query
from tests.stores.behaviours.steps import (
    LATER,
    NAMESPACE,
    OTHER_NAMESPACE,
    expect,
    expect_refused,
    expect_stored,
    list_keys,
    plan,
    put,
    read_one,
    read_sources,
    read_targets,
    read_versions,
    read_walk,
)

PAST = "2026-01-01T12:00:00.000Z"
"""Between the first change of a behavior and the next day's, and long before today."""

FUTURE = "9999-01-01T00:00:00.000Z"


async def changes_are_made_together_in_their_order(store: MemoryStore) -> None:
    """Each change of a batch sees those before it, and gets the next version."""
    for start, atomic in ((1, False), (7, True)):
        key = f"k{start}"
        outcomes = await _change_many(
            store,
            plan("store", key),
            plan("append", key, fields={"content": "!"}),
            plan("update", key, new_key=f"{key}2"),
            plan("archive", f"{key}2"),
            plan("delete", f"{key}2"),
            plan("store", key),
            atomic=atomic,
        )

        versions = [*range(start, start + 6)]
        expect(outcomes, versions, "each change gets a version")
        expect(await read_versions(store, key), versions[-1:], "what a batch made is there")

    expect(await _change_many(store, atomic=True), [], "no change at all is a batch too")


async def a_refused_change_leaves_the_others_alone(store: MemoryStore) -> None:
    """In a batch that is not atomic, an outcome says why one was not made; the others are."""
    await put(store, "taken")

    outcomes = await _change_many(
        store,
        plan("store", "a"),
        plan("update", "none", fields={"content": "x"}),
        plan("update", "a", new_key="taken", fields={"content": "x"}),
        plan("store", "b"),
        plan("store", "a", if_version=0),
        atomic=False,
    )

    reasons = ["memory_not_found", "key_taken", "version_conflict"]
    expect(outcomes, [2, *reasons[:2], 3, reasons[2]], "each change has its own outcome")
    expect(await read_versions(store, "a", "b"), [2, 3], "what is not refused is made")
    expect((await read_one(store, "a")).row.content, "content of a", "what is refused is not")


async def atomic_changes_are_all_made_or_none(store: MemoryStore) -> None:
    """A change that cannot be made undoes those before and after it, links and searches too."""
    await put(store, "a", content="rose", links=[("b", 0.5)])
    before = await read_one(store, "a")

    outcomes = await _change_many(
        store,
        plan("update", "a", new_key="c", fields={"content": "tulip"}),
        plan("store", "d", links=[{"key": "a", "link_weight": 0.5, "type": "association"}]),
        plan("delete", "none"),
        plan("store", "e"),
        atomic=True,
    )

    expected = ["rolled_back", "rolled_back", "memory_not_found", "rolled_back"]
    expect(outcomes, expected, "one outcome says what was refused")
    expect(await read_one(store, "a"), before, "a memory is as it was")
    missing = ["memory_not_found"] * 3
    expect(await read_versions(store, "c", "d", "e"), missing, "nothing was created")
    expect(await read_sources(store, "a"), [], "no link is left")
    found = await store.query(NAMESPACE, Query(search=("rose",)))
    expect(list_keys(found.memories), ["a"], "it is found as before")

    written = await put(store, "e")
    expect(await read_versions(store, "e"), [written.version], "the store goes on")


async def a_change_is_made_only_to_the_version_it_names(store: MemoryStore) -> None:
    """With another version it is refused, and the refusal tells the present one; 0 is none."""
    created = await store.change(NAMESPACE, plan("store", "a", if_version=0))
    expect(created.created, True, "version 0 is that of a memory that is not there")
    memory_id = expect_stored(created).row.id

    for kind in ("store", "update", "append", "archive", "delete"):
        for name in ({"key": "a"}, {"id": memory_id}):
            change = plan(kind, fields={"content": "x"}, if_version=created.version + 1, **name)
            await _expect_conflict(store, change, created.version)
    await _expect_conflict(store, plan("store", "a", if_version=0), created.version)
    await _expect_conflict(store, plan("store", "none", if_version=7), 0)

    same = plan("update", "a", fields={"content": "content of a"}, if_version=created.version)
    unchanged = await store.change(NAMESPACE, same)
    expect(unchanged.version, created.version, "what changes nothing keeps the version")

    changed = await store.change(
        NAMESPACE, plan("append", "a", fields={"content": "!"}, if_version=created.version)
    )
    expect(changed.version, created.version + 1, "a change gives the next one")
    deleted = await store.change(NAMESPACE, plan("delete", "a", if_version=changed.version))
    expect(deleted.version, created.version + 2, "a deletion too")
    expect(deleted.id, created.id, "a deletion tells which memory it was")
    expect(await read_versions(store, "a"), ["memory_not_found"], "and it is made")


async def an_addition_goes_to_the_end_of_a_content(store: MemoryStore) -> None:
    """What would be too long, and what is added to no memory, is refused."""
    await put(store, "a", content="ß", summary="s")

    written = await store.change(NAMESPACE, plan("append", "a", fields={"content": "\n😀"}))

    expect(written.updated, ("content",), "an addition changes the content")
    memory = await read_one(store, "a")
    expect((memory.row.content, memory.row.summary), ("ß\n😀", "s"), "and nothing else")
    full = plan("append", "a", fields={"content": "x" * (MAX_LONG_CONTENT_CHARS - 3)})
    await store.change(NAMESPACE, full)
    rule = "a content has a greatest length"
    for addition in (plan("append", "a", fields={"content": "x"}), full):
        await expect_refused(store.change(NAMESPACE, addition), "too_long", rule)
    await expect_refused(
        store.change(NAMESPACE, plan("append", "none", fields={"content": "x"})),
        "memory_not_found",
        "an addition creates no memory",
    )


async def a_store_says_which_version_it_replaced(store: MemoryStore) -> None:
    """Only a store that gives a memory other content replaces a version."""
    await put(store, "other")
    created = await put(store, "a", content="one")
    same = await put(store, "a", content="one", summary="s")
    replacing = await put(store, "a", content="two")
    updated = await put(store, "a", kind="update", content="three")
    archived = await put(store, "a", kind="archive")
    again = plan("store", "a", fields={"type": "core", "content": "four"})
    (reviving,) = await store.change_many(NAMESPACE, [again], atomic=True)

    results = (created, same, replacing, updated, archived, reviving)
    versions = [result.replaced for result in results if isinstance(result, WriteResult)]
    expect(versions, [0, 0, same.version, 0, 0, archived.version], "the version is the former one")

    restoring = plan("restore", "a", to_version=same.version)
    restored = expect_stored(await store.change(NAMESPACE, restoring))
    expect(restored.row.content, "one", "and it can be restored")


async def a_memory_is_renamed_by_its_key(store: MemoryStore) -> None:
    """An update may give another key to what it names by key; one in use is refused."""
    created = expect_stored(await put(store, "a", links=[("a", 0.5)]))
    await put(store, "b", links=[("a", 0.5)])

    await store.change(NAMESPACE, plan("update", "a", new_key="c"))

    expect((await read_one(store, "c")).row.id, created.row.id, "the memory keeps its id")
    expect(await read_targets(store, "b"), ["c"], "links follow")
    await expect_refused(
        store.change(NAMESPACE, plan("update", "c", new_key="b")), "key_taken", "keys are unique"
    )
    other = Change("update", LATER, created.row.id, "b", fields={"content": "x"})
    await expect_refused(
        store.change(NAMESPACE, other), "key_taken", "an id and a key name the same memory"
    )
    same = await store.change(NAMESPACE, plan("update", "c", new_key="c"))
    expect(same.updated, (), "a memory's own key changes nothing")


async def memories_are_listed_by_key_in_pages(store: MemoryStore) -> None:
    """Keys come in the order of their code points; a prefix is taken as it stands."""
    keys = ["A", "Z", "a", "a%", "a%b", "a_", "a_b", "ab", "é", "\uffff", "\U00010000"]
    for key in reversed(keys):
        await put(store, key, summary=f"s {key}", content="ß" * len(key))
    await put(store, "a_b", kind="archive")

    expect(await _list_keys(store, "", "", 20), [key for key in keys if key != "a_b"], "in order")
    for prefix, expected in {
        "a": ["a", "a%", "a%b", "a_", "ab"],
        "a%": ["a%", "a%b"],
        "a_": ["a_"],
        "\uffff": ["\uffff"],
        "a%c": [],
        "\\": [],
    }.items():
        expect(await _list_keys(store, prefix, "", 20), expected, f"keys begin with {prefix!r}")
    expect(await _list_keys(store, "a", "a%b", 2), ["a_", "ab"], "a page comes after a key")
    expect(await _list_keys(store, "a", "a%", 1), ["a%b"], "and has a length")
    expect(await _list_keys(store, "a", "Z", 1), ["a"], "the key need not have the prefix")
    expect(await store.list_memories(OTHER_NAMESPACE, "", "", 9, archived=True), [], "by namespace")

    (line,) = await store.list_memories(NAMESPACE, "a_b", "", 20, archived=True)
    row = (await read_one(store, "a_b")).row
    expected_line = MemoryLine("a_b", "s a_b", "core", 6, row.version, row.updated_at, True)
    expect(line, expected_line, "a line tells all but the content")


async def a_memory_past_its_end_reads_as_archived(store: MemoryStore) -> None:
    """Every read and every change takes it as archived from then on, which is a change itself."""
    for key in ("a", "b", "c", "d", "e", "f", "g"):
        await put(store, key, content=f"rose {key}", tags=["t"], links=[("hub", 0.5)])
    await put(store, "hub", expires_at=FUTURE)
    before = await read_one(store, "a")
    await put(store, "a", kind="update", expires_at=PAST)

    memory = await read_one(store, "a")
    expect(memory.row.archived, 1, "a read finds it archived")
    expect(memory.row.version > before.row.version + 1, True, "with a version of its own")
    expect((await read_one(store, "hub")).row.archived, 0, "another end is yet to come")

    readers = [_is_walked, _is_queried, _is_listed, _is_recalled, _is_counted]
    for key, is_shown in zip("bcdef", readers, strict=True):
        expect(await is_shown(store, key), True, f"{is_shown.__name__}: before its end")
        await put(store, key, kind="update", expires_at=PAST)
        expect(await is_shown(store, key), False, f"{is_shown.__name__}: after its end")

    await put(store, "g", kind="update", expires_at=PAST)
    written = await put(store, "other", now=LATER)
    archived = await read_one(store, "g")
    expect(archived.row.version < written.version, True, "a change comes after the end")


async def what_is_revived_after_its_end_stays(store: MemoryStore) -> None:
    """Storing it again takes the end away, unless it names another one."""
    await put(store, "a", expires_at=PAST)
    expect((await read_one(store, "a")).row.archived, 1, "its end is past")

    await put(store, "a", now=LATER)
    row = (await read_one(store, "a")).row
    expect((row.archived, row.expires_at), (0, ""), "it is present and has no end")

    await put(store, "a", now=LATER, expires_at=FUTURE)
    row = (await read_one(store, "a")).row
    expect((row.archived, row.expires_at), (0, FUTURE), "it may get another one")


async def _change_many(store: MemoryStore, *changes: Change, atomic: bool) -> list[int | str]:
    """Return the version that each change gave, or why it was refused."""
    outcomes: list[int | str] = []
    for outcome in await store.change_many(NAMESPACE, changes, atomic=atomic):
        outcomes.append(outcome.version if isinstance(outcome, WriteResult) else str(outcome))

    return outcomes


async def _expect_conflict(store: MemoryStore, change: Change, version: int) -> None:
    rule = f"a change of kind {change.kind} is refused for another version"
    try:
        result = await store.change(NAMESPACE, change)
    except Refused as error:
        expect(error.reason, "version_conflict", rule)
        expect(error.expected, {"version": version}, "the refusal tells the present version")
        return

    raise AssertionError(f"{rule}: got {result!r}")


async def _list_keys(store: MemoryStore, prefix: str, after: str, limit: int) -> Sequence[str]:
    lines = await store.list_memories(NAMESPACE, prefix, after, limit, archived=False)
    return [line.key for line in lines]


async def _is_walked(store: MemoryStore, key: str) -> bool:
    return (key, "in") in await read_walk(store, "hub", "in")


async def _is_queried(store: MemoryStore, key: str) -> bool:
    page = await store.query(NAMESPACE, Query(search=("rose",), limit=20))
    return key in list_keys(page.memories)


async def _is_listed(store: MemoryStore, key: str) -> bool:
    return key in await _list_keys(store, "", "", 20)


async def _is_recalled(store: MemoryStore, key: str) -> bool:
    request = RecallRequest((split_question(f"rose {key}", await store.read_language()),))
    recalled = await store.recall(NAMESPACE, request, 1 << 20, [0])
    return key in recalled.memories


async def _is_counted(store: MemoryStore, key: str) -> bool:
    """Return whether both memories that are yet to be archived count, which are "f" and "g"."""
    stats = await store.read_stats(NAMESPACE)
    return stats.top_tags == (("t", 2),)
