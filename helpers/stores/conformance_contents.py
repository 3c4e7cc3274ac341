"""What a store knows of long contents as they were, and what it forgets with one."""

from abilities.helpers.stores.conformance_steps import (
    LATER,
    NAMESPACE,
    TIME,
    expect,
    expect_refused,
    expect_stored,
    plan,
    put,
)
from abilities.helpers.stores.parts import CONTINUES
from abilities.helpers.stores.protocol import HistoryStore
from abilities.helpers.stores.timeline import MemoryName


async def a_content_is_read_as_it_was(store: HistoryStore) -> None:
    """With all parts, whatever became of them, of its key, and of those that had their keys."""
    version = await _store_long(store, "a")
    await put(store, "a", now=LATER, content="short", remove=[{"key": "a#2", "type": CONTINUES}])
    await put(store, "a#2", kind="delete", now=LATER)
    await put(store, "a#2", now=LATER, content="another")
    await store.change(NAMESPACE, plan("update", "a", new_key="b", now=LATER))

    for moment in (version, TIME):
        parts = await store.read_content(NAMESPACE, MemoryName(key="b"), moment)
        read = [(part.row.key, part.row.content) for part in parts]
        expect(read, [("a", "first"), ("a#2", "second")], "each part is as it was")

    parts = await store.read_content(NAMESPACE, MemoryName(key="b"), LATER)
    expect([part.row.content for part in parts], ["short"], "a content ends where no link leads on")
    found = await store.read_history(NAMESPACE, MemoryName(key="a#2"), None, 1)
    assert found.row is not None
    await store.change(NAMESPACE, plan("purge", id=found.row.id))
    await expect_refused(
        store.read_content(NAMESPACE, MemoryName(key="b"), version),
        "version_not_found",
        "a content without one of its parts is refused",
    )


async def what_a_purged_memory_left_behind_goes_with_it(store: HistoryStore) -> None:
    """Parts that it had, and what was deleted under its key before; nothing that exists."""
    await put(store, "a", content="forerunner")
    await put(store, "a", kind="delete")
    await _store_long(store, "a")
    await put(store, "a#2", kind="delete")
    await put(store, "a#3", content="another")
    await put(store, "a#4", content="rose")
    await put(store, "a#4", kind="delete")

    purged = await store.change(NAMESPACE, plan("purge", "a"))

    page = await store.read_changes(NAMESPACE, purged.version - 1, 9)
    expect([change.action for change in page.changes], ["purged"] * 4, "all have one version")
    for key in ("a", "a#2", "a#4"):
        work = store.read_history(NAMESPACE, MemoryName(key=key), None, 1)
        await expect_refused(work, "memory_not_found", "no history tells of it")
    found = await store.read_history(NAMESPACE, MemoryName(key="a#3"), None, 1)
    expect(found.row is not None, True, "what exists is purged by its own key alone")


async def _store_long(store: HistoryStore, key: str) -> int:
    """Store a content of two parts; return the version of the first one."""
    links = [(f"{key}#2", 1.0)]
    first = await put(store, key, content="first", links=links, link_type=CONTINUES)
    await put(store, f"{key}#2", content="second")
    return expect_stored(first).row.version
