"""The contract of `MemoryStore`, as behaviors that every store must show."""

import asyncio

from abilities.helpers.stores.changes import Change
from abilities.helpers.stores.conformance_steps import (
    NAMESPACE,
    OTHER_NAMESPACE,
    TIME,
    expect,
    expect_refused,
    expect_stored,
    list_keys,
    list_sources,
    list_targets,
    put,
    read_one,
    read_targets,
)
from abilities.helpers.stores.protocol import MemoryStore, Query
from abilities.helpers.walk import WalkLimits

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


async def links_are_ranked_by_weight_times_score(store: MemoryStore) -> None:
    """The best links come first, and the order follows every change of a target."""
    await put(store, "a", links=[("b", 0.8), ("c", 0.9), ("none", 1.0)])
    expect(
        await read_targets(store, "a"),
        ["none", "c", "b"],
        "links to missing targets rank by weight",
    )

    await put(store, "b", memory_score=0.9)
    target = expect_stored(await put(store, "c", memory_score=0.7))
    expect(
        await read_targets(store, "a"),
        ["b", "c", "none"],
        "links rank by weight times score, missing targets last",
    )

    await put(store, "", kind="update", id=target.row.id, memory_score=1.0)
    expect(await read_targets(store, "a"), ["c", "b", "none"], "a changed score changes the order")

    await put(store, "", kind="delete", id=target.row.id)
    expect(
        await read_targets(store, "a"),
        ["b", "none", "c"],
        "a link to a deleted target stays and ranks last",
    )

    page = await store.read_linked(NAMESPACE, "a", 1, 1)
    expect(list_targets(page.links), ["none"], "links come in pages")
    expect(page.links_total, 3, "links_total counts all links, not those of the page")


async def backlinks_come_in_pages_by_source(store: MemoryStore) -> None:
    """The links that lead to a key are known, even if no memory has that key."""
    for key in ("c", "a", "b"):
        await put(store, key, links=[("hub", 0.5), ("other", 0.1)])

    page = await store.read_backlinks(NAMESPACE, "hub", 1, 5)
    expect(list_sources(page.links), ["b", "c"], "backlinks are ordered by source")
    expect(page.total, 3, "the total counts all backlinks, not those of the page")

    await put(store, "b", remove=[{"key": "hub", "type": None}])
    page = await store.read_backlinks(NAMESPACE, "hub", 0, 1)
    expect(list_sources(page.links), ["a"], "a page holds no more than its limit")
    expect(page.total, 2, "a removed link is gone")

    page = await store.read_backlinks(OTHER_NAMESPACE, "hub", 0, 5)
    expect(page.total, 0, "backlinks stay in their namespace")


async def a_walk_visits_each_memory_once_on_its_shortest_way(store: MemoryStore) -> None:
    """A walk goes depth first and best first, and loses nothing that its limits allow."""
    edges = {"a": [("b", 1.0), ("c", 0.5)], "b": [("c", 1.0)], "c": [("d", 1.0)], "d": []}
    for key, links in edges.items():
        await put(store, key, links=links)

    for depth in (2, 3):
        result = await store.walk(NAMESPACE, "a", WalkLimits(depth, breadth=5, total=20))

        steps = [(step.key, step.depth) for step in result.outcome.steps]
        expect(
            steps,
            [("a", 0), ("b", 1), ("c", 1), ("d", 2)],
            f"a walk of depth {depth} reaches every memory once, on its shortest way",
        )
        expect(
            list_keys(result.memories),
            ["a", "b", "c", "d"],
            "each step of a walk comes with its memory",
        )

    await expect_refused(
        store.walk(NAMESPACE, "none", WalkLimits(1, 1, 1)),
        "memory_not_found",
        "a walk from a missing memory is refused",
    )


async def queries_filter_sort_search_and_page(store: MemoryStore) -> None:
    """Filters can be combined, totals are exact, and archived memories come only if asked for."""
    await _store_nine(store)

    evens = Query(tags=("even",), sort_by="created_at", descending=False)
    await _expect_found(store, evens, ["k0", "k2", "k4", "k6"])
    await _expect_found(store, Query(importance="high", sort_by="created_at"), ["k5", "k2"])

    all_high = Query(importance="high", sort_by="created_at", archived=True)
    await _expect_found(store, all_high, ["k8", "k5", "k2"])

    await _expect_found(store, Query(search="3 größer".casefold()), ["k3"])
    await _expect_found(store, Query(search="7"), ["k7"])
    await _expect_found(store, Query(search="zahl 9"), [])

    last_page = await store.query(NAMESPACE, Query(limit=3, offset=6, sort_by="created_at"))
    expect(list_keys(last_page.memories), ["k1", "k0"], "the last page may be short")
    expect(last_page.total, 8, "the total does not depend on the page")


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
