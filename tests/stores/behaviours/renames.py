"""What every store must do if a memory is given another key, as behaviors."""

from abilities.helpers.store.changes import Change
from abilities.helpers.store.model import LinkRow
from abilities.helpers.store.protocol import MemoryStore
from abilities.helpers.store.query import Query
from tests.stores.behaviours.steps import (
    LATER,
    NAMESPACE,
    TIME,
    expect,
    expect_refused,
    expect_stored,
    list_keys,
    list_targets,
    put,
    read_one,
    read_sources,
    read_targets,
    read_totals,
    rename,
)


async def a_renamed_memory_keeps_what_it_has(store: MemoryStore) -> None:
    """An update of an id with an unused key renames: all but the key stays, and links follow."""
    before = expect_stored(await put(store, "old", links=[("t", 0.5)], tags=["x"], content="Rose"))
    source = expect_stored(await put(store, "s", links=[("old", 0.9), ("new", 0.1), ("t", 0.4)]))

    renamed = await rename(store, before.row.id, "new")
    after = expect_stored(renamed)
    expect((renamed.updated, renamed.created), (("key",), False), "a rename updates the key alone")
    expect(
        after.row,
        before.row._replace(key="new", version=source.row.version + 1, updated_at=LATER),
        "a rename is a change, which keeps all other values",
    )
    expect(after.links, (LinkRow("new", "t", "association", 0.5),), "the memory keeps its links")
    expect(await read_targets(store, "s"), ["new", "t"], "links that lead to it follow")
    expect(await read_totals(store, "new"), (1, 1), "the totals follow")
    expect(await read_totals(store, "s"), (2, 0), "two links that become one are counted once")
    expect((await read_one(store, "s")).row, source.row, "their sources are not changed")

    backlinks = await store.read_backlinks(NAMESPACE, "old", 0, 5)
    expect(backlinks.total, 0, "no link leads to the old key any more")
    expect(
        list_keys(await store.read(NAMESPACE, ["old", "new"])),
        ["memory_not_found", "new"],
        "the memory is found by its new key alone",
    )
    for query in (Query(tags=("x",)), Query(search=("rose",)), Query(archived=True)):
        page = await store.query(NAMESPACE, query)
        expect("new" in list_keys(page.memories), True, f"{query} finds it by its new key")

    again = await put(store, "old")
    expect(again.created, True, "the old key is free")


async def a_renamed_memory_takes_the_links_to_its_new_key(store: MemoryStore) -> None:
    """A link that led to the new key before any memory had it now finds the memory."""
    await put(store, "s", links=[("new", 0.9), ("x", 0.5)])
    await put(store, "x")
    expect(await read_targets(store, "s"), ["x", "new"], "a link to a missing memory ranks last")

    memory = expect_stored(await put(store, "old"))
    await rename(store, memory.row.id, "new")

    expect(await read_targets(store, "s"), ["new", "x"], "now it ranks by the memory's score")


async def renaming_merges_links_that_become_one(store: MemoryStore) -> None:
    """Of two links that become one, the heavier stays; links to itself stay such."""
    memory = expect_stored(
        await put(store, "old", links=[("old", 0.2), ("new", 0.7), ("none", 0.1)], term="heavy")
    )
    await put(store, "light", links=[("old", 0.3)], term="o")
    await put(store, "light", links=[("new", 0.4)], term="n")
    await put(store, "equal", links=[("old", 0.5)], term="o")
    await put(store, "equal", links=[("new", 0.5)], term="n")

    renamed = expect_stored(await rename(store, memory.row.id, "new"))

    expect(
        renamed.links,
        (
            LinkRow("new", "new", "association", 0.7, "heavy"),
            LinkRow("new", "none", "association", 0.1, "heavy"),
        ),
        "links to its old and its new key become one, the heavier, from itself to itself",
    )
    expect(await read_sources(store, "new"), ["new", "equal", "light"], "each source has one link")
    for key in ("light", "equal"):
        (link,) = (await store.read_linked(NAMESPACE, key, 0, 5)).links
        expect(link.term, "n", f"the link of {key} that led to the new key stays")

    expect(await read_totals(store, "new"), (2, 3), "merged links are counted once")


async def a_rename_may_change_more(store: MemoryStore) -> None:
    """Fields and links of the same update apply to the renamed memory."""
    memory = expect_stored(await put(store, "old", links=[("a", 0.5), ("b", 0.5)]))
    await put(store, "s", links=[("old", 0.5)])

    renamed = await put(
        store,
        "new",
        kind="update",
        id=memory.row.id,
        links=[("c", 0.5), ("b", 0.1)],
        remove=[{"key": "a", "type": None}],
        memory_score=1.0,
    )

    after = expect_stored(renamed)
    expect(set(renamed.updated), {"key", "memory_score", "links"}, "all that changed is named")
    expect(list_targets(after.links), ["c", "b"], "links are added, changed and removed")
    expect(await read_totals(store, "new"), (2, 1), "and counted")
    await rename(store, memory.row.id, "old")
    expect(await read_targets(store, "s"), ["old"], "a memory can be given its old key again")


async def a_key_in_use_is_not_given_again(store: MemoryStore) -> None:
    """Renaming to another memory's key, and storing an id under another key, are refused."""
    memory = expect_stored(await put(store, "a"))
    await put(store, "b")
    rule = "an id and a key name the same memory"

    await expect_refused(rename(store, memory.row.id, "b"), "key_taken", rule)
    for key in ("b", "c"):
        stored = Change("store", TIME, memory.row.id, key, fields={"type": "core", "content": "x"})
        await expect_refused(store.change(NAMESPACE, stored), "key_taken", rule)

    same = await rename(store, memory.row.id, "a")
    expect(same.updated, (), "a memory's own key changes nothing")
    expect(same.stored, memory, "and leaves the memory as it is")
