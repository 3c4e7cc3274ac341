"""The contract of `MemoryStore`, as behaviors that every store must show."""

import asyncio
from dataclasses import replace

from abilities.helpers.store.changes import Change
from abilities.helpers.store.protocol import MemoryStore
from abilities.helpers.store.query import Query
from tests.stores.behaviours.steps import (
    NAMESPACE,
    OTHER_NAMESPACE,
    TIME,
    expect,
    expect_refused,
    expect_stored,
    list_keys,
    put,
    read_one,
)

UNKNOWN_ID = "00000000-0000-4000-8000-000000000000"


async def a_memory_is_read_as_it_was_written(store: MemoryStore) -> None:
    """Every field comes back unchanged, in any script; tags and metadata come as JSON."""
    text = "äß 世界 \U0001f642 \x01\n\t\"'\\%_"

    await put(
        store,
        "k/:é",
        content=text,
        summary="s",
        category="c",
        tags=["t", "u"],
        metadata={"b": 1, "a": [None]},
    )

    memory = await read_one(store, "k/:é")
    row = memory.row
    expect((row.content, row.summary, row.category), (text, "s", "c"), "texts are kept as they are")
    expect(row.tags, '["t","u"]', "tags are kept in their order, as JSON")
    expect(row.metadata, '{"a":[null],"b":1}', "metadata is kept as JSON with sorted keys")
    expect(
        (row.created_at, row.updated_at), (TIME, TIME), "a new memory has the time of its change"
    )
    expect(memory.access_count, 0, "a new memory has not been accessed")


async def reads_keep_order_and_duplicates(store: MemoryStore) -> None:
    """A read returns one item per key, in that order, and a Refused for each missing memory."""
    await put(store, "a")
    await put(store, "b")

    memories = await store.read(NAMESPACE, ["b", "none", "a", "b"])

    expect(
        list_keys(memories),
        ["b", "memory_not_found", "a", "b"],
        "a read returns one item per key, in that order",
    )


async def storing_again_merges(store: MemoryStore) -> None:
    """Storing over a key keeps the id and the fields that are not given."""
    first = await put(store, "k", summary="kept")
    second = await put(store, "k", content="new", now="2026-01-02T00:00:00.000Z")
    third = await put(store, "k", content="new", now="2026-01-03T00:00:00.000Z")

    expect(first.created, True, "the first change creates the memory")
    expect(second.created, False, "a change of an existing memory does not create it")

    before = expect_stored(first)
    after = expect_stored(second)
    expect(after.row.id, before.row.id, "a memory keeps its id")
    expect(after.row.summary, "kept", "a field that is not given stays")

    expect(third.stored, after, "the same change again leaves the memory as it is")
    expect(third.created, False, "the same change again creates nothing")
    expect(third.updated, (), "the same change again updates no field")


async def every_change_gives_the_next_version(store: MemoryStore) -> None:
    """Versions count the changes of a namespace; one that changes nothing gives none."""
    first = expect_stored(await put(store, "a"))
    second = expect_stored(await put(store, "b", links=[("a", 0.5)]))
    expect((first.row.version, second.row.version), (1, 2), "versions count from 1")

    same = expect_stored(await put(store, "a"))
    expect(same.row.version, 1, "a change that alters nothing gives no version")

    changed = expect_stored(await put(store, "a", links=[("b", 0.5)]))
    expect(changed.row.version, 3, "the next change takes the next version, without a gap")
    expect((await read_one(store, "b")).row.version, 2, "other memories keep their versions")

    archived = expect_stored(await put(store, "", kind="archive", id=second.row.id))
    expect(archived.row.version, 4, "archiving is a change")

    await put(store, "", kind="delete", id=second.row.id)
    later = expect_stored(await put(store, "c"))
    later_version = later.row.version
    expect(later_version > 4, True, f"a version is never given again; {later_version} after 4")

    elsewhere = Change(
        "store", TIME, key="k", new_id=UNKNOWN_ID, fields={"type": "core", "content": "x"}
    )
    written = expect_stored(await store.change(OTHER_NAMESPACE, elsewhere))
    expect(written.row.version, 1, "every namespace counts for itself")


async def an_id_names_one_memory(store: MemoryStore) -> None:
    """Unknown ids, and an id and key of two memories, are refused, and nothing changes."""
    memory = expect_stored(await put(store, "a"))
    await put(store, "b")

    both_named = Change(
        "store",
        TIME,
        id=memory.row.id,
        key="b",
        new_id=UNKNOWN_ID,
        fields={"type": "core", "content": "x"},
    )
    await expect_refused(
        store.change(NAMESPACE, both_named), "key_taken", "an id and a key name the same memory"
    )
    await expect_refused(
        put(store, "", kind="update", id=UNKNOWN_ID, content="x"),
        "id_not_found",
        "an unknown id is refused",
    )
    await expect_refused(
        store.change(OTHER_NAMESPACE, Change("delete", TIME, memory.row.id)),
        "id_not_found",
        "an id is known only in its namespace",
    )

    for key in ("a", "b"):
        unchanged = await read_one(store, key)
        expect(unchanged.row.content, f"content of {key}", "a refused change changes nothing")


async def queries_filter_sort_search_and_page(store: MemoryStore) -> None:
    """Filters can be combined, totals are exact, and archived memories come only if asked for."""
    await _store_nine(store)

    evens = Query(tags=("even",), sort_by="created_at", descending=False)
    await _expect_found(store, evens, ["k0", "k2", "k4", "k6"])
    await _expect_found(store, Query(importance="high", sort_by="created_at"), ["k5", "k2"])

    all_high = Query(importance="high", sort_by="created_at", archived=True)
    await _expect_found(store, all_high, ["k8", "k5", "k2"])

    await _expect_found(store, Query(search=("3 größer".casefold(),)), ["k3"])
    await _expect_found(store, Query(search=("7",)), ["k7"])
    await _expect_found(store, Query(search=("zahl 9",)), [])

    last_page = await store.query(NAMESPACE, Query(limit=3, offset=6, sort_by="created_at"))
    expect(list_keys(last_page.memories), ["k1", "k0"], "the last page may be short")
    expect(last_page.total, 8, "the total does not depend on the page")
    expect(last_page.has_more, False, "nothing follows the last page")

    for sort_by in ("created_at", "updated_at", "accessed_at", "importance", "access_count"):
        for descending in (True, False):
            query = Query(archived=True, sort_by=sort_by, descending=descending)
            await _expect_same_in_pages(store, query)

    for query in (Query(), Query(tags=("even",)), Query(type="core", search=("zahl",))):
        await _expect_same_in_pages(store, query)


async def _expect_same_in_pages(store: MemoryStore, query: Query) -> None:
    """Compare a query's one page with pages of four, each from the position of the last one."""
    whole = await store.query(NAMESPACE, query)
    expect(len(whole.positions), len(whole.memories), "each memory of a page has its position")

    keys: list[str] = []
    pages = replace(query, limit=4)
    has_more = True
    while has_more:
        page = await store.query(NAMESPACE, pages)
        keys += list_keys(page.memories)
        pages = replace(pages, after=page.positions[-1])
        has_more = page.has_more

    expect(keys, list_keys(whole.memories), f"{query} gives the same in pages of four")


async def _store_nine(store: MemoryStore) -> None:
    """Store k0 to k8, a day apart, with two tags and three importances in turn; archive k8."""
    ids: list[str] = []
    for number in range(9):
        written = await put(
            store,
            f"k{number}",
            now=f"2026-01-0{number + 1}T00:00:00.000Z",
            content=f"Zahl {number} größer",
            tags=[("even", "odd")[number % 2]],
            importance=("low", "medium", "high")[number % 3],
        )
        ids.append(expect_stored(written).row.id)

    *_, last_id = ids
    await put(store, "", kind="archive", id=last_id)


async def _expect_found(store: MemoryStore, query: Query, keys: list[str]) -> None:
    page = await store.query(NAMESPACE, query)

    found = list_keys(page.memories)
    expect(found, keys, f"{query} finds the memories that match, in order")
    expect(page.total, len(keys), f"{query} counts the memories that match")


async def statistics_follow_every_change(store: MemoryStore) -> None:
    """After any changes, statistics count what is left; archived memories only count as such."""
    ids: list[str] = []
    for number in range(4):
        written = await put(store, f"k{number}", tags=["t"], content="x" * 10)
        ids.append(expect_stored(written).row.id)

    archived_id, deleted_id, _, _ = ids
    await put(store, "", kind="archive", id=archived_id)
    await put(store, "", kind="delete", id=deleted_id)
    await put(store, "k2", type="task", importance="high", tags=["t", "u"])

    stats = await store.read_stats(NAMESPACE)
    expect(stats.total, 2, "the total leaves out archived and deleted memories")
    expect(stats.archived, 1, "archived memories are counted apart")
    expect(stats.by_type, {"core": 1, "learning": 0, "task": 1}, "every type has its number")
    expect(stats.top_tags, (("t", 2), ("u", 1)), "the most used tags come first")


async def namespaces_are_isolated(store: MemoryStore) -> None:
    """Nothing of one namespace is seen from another."""
    await put(store, "k", tags=["t"])

    memories = await store.read(OTHER_NAMESPACE, ["k"])
    page = await store.query(OTHER_NAMESPACE, Query(archived=True))
    stats = await store.read_stats(OTHER_NAMESPACE)

    expect(list_keys(memories), ["memory_not_found"], "a key is known only in its namespace")
    expect(page.total, 0, "queries stay in their namespace")
    expect(stats.total, 0, "statistics stay in their namespace")


async def concurrent_changes_are_all_made(store: MemoryStore) -> None:
    """Changes of one memory at the same time are made one after another; none is lost."""

    async def add_link(number: int) -> None:
        await put(store, "k", links=[(f"t{number}", 0.5)])

    await asyncio.gather(*map(add_link, range(40)))

    memory = await store.read_linked(NAMESPACE, "k", 0, 100)
    expect(memory.links_total, 40, "every one of 40 changes at the same time is made")
