"""A suite that any `ServableStore` can be held against.

Give `check` a function that opens an empty store as an async context manager::

    async def test_my_store_conforms():
        await check(lambda: open_my_store())

It raises AssertionError, with the behaviour that is missing, at the first one.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any
from uuid import uuid4

from abilities.declarations.faults import Refused
from abilities.helpers.stores.changes import Change, Kind
from abilities.helpers.stores.model import IncomingMemory, StoredMemory
from abilities.helpers.stores.protocol import Query, ServableStore, WriteResult
from abilities.helpers.walk import WalkLimits

Open = Callable[[], AbstractAsyncContextManager[ServableStore]]
NAMESPACE = "conformance"
_TIME = "2026-01-01T00:00:00.000Z"


async def check(open_store: Open) -> list[str]:
    """Run every behaviour on a store of its own; the names of those that hold."""
    for behaviour in BEHAVIOURS:
        async with open_store() as store:
            await behaviour(store)
    return [behaviour.__name__ for behaviour in BEHAVIOURS]


async def put(
    store: ServableStore, key: str, *, kind: Kind = "store", now: str = _TIME, **fields: Any
) -> WriteResult:
    """Store a memory by key; ``links`` are (key, weight) pairs, ``id`` names it otherwise."""
    links = [
        {"key": k, "link_weight": w, "type": "association"} for k, w in fields.pop("links", ())
    ]
    named = fields.pop("id", None)
    values = (
        {"type": "core", "content": f"content of {key}", **fields} if kind == "store" else fields
    )
    change = Change(
        kind,
        now,
        named,
        None if named else key,
        str(uuid4()),
        values,
        links,
        fields.pop("remove", ()),
    )
    return await store.change(NAMESPACE, change)


async def a_memory_is_read_as_it_was_written(store: ServableStore) -> None:
    """Every field comes back, in any script."""
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
    (found,) = await store.read(NAMESPACE, ["k/:é"])
    assert isinstance(found, StoredMemory), "a stored memory is found by its key"
    row = found.row
    assert (row.content, row.summary, row.category) == (text, "s", "c"), (
        "texts are kept as they are"
    )
    assert (row.tags, row.metadata) == ('["t","u"]', '{"a":[null],"b":1}'), (
        "tags and metadata are kept as JSON"
    )
    assert (row.created_at, row.updated_at, found.access_count) == (_TIME, _TIME, 0), (
        "times and counters are kept"
    )


async def reads_keep_order_and_duplicates(store: ServableStore) -> None:
    """A missing memory is a Refused in its place."""
    for key in "ab":
        await put(store, key)
    found = await store.read(NAMESPACE, ["b", "none", "a", "b"])
    names = [
        memory.row.key if isinstance(memory, StoredMemory) else str(memory) for memory in found
    ]
    assert names == ["b", "memory_not_found", "a", "b"], names


async def storing_again_merges(store: ServableStore) -> None:
    """Fields that are not given stay; doing the same again changes nothing."""
    first = await put(store, "k", summary="kept")
    second = await put(store, "k", content="new", now="2026-01-02T00:00:00.000Z")
    third = await put(store, "k", content="new", now="2026-01-03T00:00:00.000Z")
    assert first.stored and second.stored and third.stored
    assert (first.created, second.created, third.created) == (True, False, False), (
        "created is said once"
    )
    assert second.stored.row.summary == "kept" and second.stored.row.id == first.stored.row.id, (
        "the rest stays"
    )
    assert third.stored == second.stored and not third.updated, "repeating leaves the same state"


async def an_id_names_one_memory(store: ServableStore) -> None:
    """Unknown ids and contradicting names are refused, and nothing changes."""
    a, b = [(await put(store, key)).stored for key in "ab"]
    assert a and b
    both = Change("store", _TIME, a.row.id, "b", str(uuid4()), {"type": "core", "content": "x"})
    await refuses(store.change(NAMESPACE, both), "key_taken")
    await refuses(put(store, "", kind="update", id=str(uuid4()), content="x"), "id_not_found")
    await refuses(store.change("other", Change("delete", _TIME, a.row.id)), "id_not_found")
    assert [
        m.row.content for m in await store.read(NAMESPACE, "ab") if isinstance(m, StoredMemory)
    ] == [
        "content of a",
        "content of b",
    ], "a refused change changes nothing"


async def links_are_ranked_by_weight_times_score(store: ServableStore) -> None:
    """The rank follows the target's score, its creation and its deletion."""
    await put(store, "a", links=[("b", 0.8), ("c", 0.9), ("none", 1.0)])
    assert await linked(store, "a") == ["none", "c", "b"], (
        "missing targets rank among themselves by weight"
    )
    await put(store, "b", memory_score=0.9)
    c = (await put(store, "c", memory_score=0.7)).stored
    assert c is not None
    assert await linked(store, "a") == ["b", "c", "none"], "best first, missing last"
    await put(store, "", kind="update", id=c.row.id, memory_score=1.0)
    assert await linked(store, "a") == ["c", "b", "none"], "a changed score changes the order"
    await put(store, "", kind="delete", id=c.row.id)
    assert await linked(store, "a") == ["b", "none", "c"], (
        "a deleted target ranks last, its link stays"
    )
    page = await store.read_linked(NAMESPACE, "a", 1, 1)
    assert [link.target for link in page.links] == ["none"] and page.links_total == 3, (
        "links come in pages"
    )


async def links_are_known_from_behind(store: ServableStore) -> None:
    """By source and type, in pages, also to a key that is not there; what was removed is gone."""
    for key in "cab":
        await put(store, key, links=[("hub", 0.5), ("other", 0.1)])
    page = await store.read_backlinks(NAMESPACE, "hub", 1, 5)
    assert ([link.source for link in page.links], page.total) == (["b", "c"], 3), (
        f"links come by source: {page}"
    )
    await put(store, "b", remove=[{"key": "hub", "type": None}])
    page = await store.read_backlinks(NAMESPACE, "hub", 0, 1)
    assert ([link.source for link in page.links], page.total) == (["a"], 2), (
        f"a removed link is gone: {page}"
    )
    assert (await store.read_backlinks("other", "hub", 0, 5)).total == 0, (
        "links stay in their namespace"
    )


async def a_walk_is_the_walk(store: ServableStore) -> None:
    """Depth first, best first, once each, the shortest way in the end."""
    edges = {"a": [("b", 1.0), ("c", 0.5)], "b": [("c", 1.0)], "c": [("d", 1.0)], "d": []}
    for key, links in edges.items():
        await put(store, key, links=links)
    for depth in (2, 3):
        result = await store.walk(NAMESPACE, "a", WalkLimits(depth, 5, 20))
        found = {step.key: step.depth for step in result.outcome.steps}
        assert found == {"a": 0, "b": 1, "c": 1, "d": 2}, (
            f"nothing that depth {depth} allows is lost: {found}"
        )
        assert all(isinstance(memory, StoredMemory) for memory in result.memories), (
            "each step comes with its memory"
        )
    await refuses(store.walk(NAMESPACE, "none", WalkLimits(1, 1, 1)), "memory_not_found")


async def queries_filter_sort_count_and_page(store: ServableStore) -> None:
    """Totals are exact, archived memories only come when asked for."""
    for n in range(9):
        tags, importance = ["even" if n % 2 == 0 else "odd"], ("low", "medium", "high")[n % 3]
        content = f"Zahl {n} größer"
        now = f"2026-01-0{n + 1}T00:00:00.000Z"
        made = await put(store, f"k{n}", content=content, tags=tags, importance=importance, now=now)
        if n == 8 and made.stored:
            await put(store, "", kind="archive", id=made.stored.row.id)
    for query, keys in (
        (Query(tags=("even",), sort_by="created_at", descending=False), ["k0", "k2", "k4", "k6"]),
        (Query(importance="high", sort_by="created_at"), ["k5", "k2"]),
        (Query(importance="high", sort_by="created_at", archived=True), ["k8", "k5", "k2"]),
        (Query(search="3 größer".casefold()), ["k3"]),
        (Query(search="7"), ["k7"]),
        (Query(search="zahl 9"), []),
    ):
        page = await store.query(NAMESPACE, query)
        found = [memory.row.key for memory in page.memories if isinstance(memory, StoredMemory)]
        assert found == keys and page.total == len(keys), (
            f"{query} finds {keys}, not {found} of {page.total}"
        )
    page = await store.query(NAMESPACE, Query(limit=3, offset=6, sort_by="created_at"))
    assert len(page.memories) == 2 and page.total == 8, (
        "a page past the end is short, its total is not"
    )


async def statistics_count_what_is_there(store: ServableStore) -> None:
    """After any changes, the figures are those of what is left."""
    made = [(await put(store, f"k{n}", tags=["t"], content="x" * 10)).stored for n in range(4)]
    assert made[0] and made[1]
    await put(store, "", kind="archive", id=made[0].row.id)
    await put(store, "", kind="delete", id=made[1].row.id)
    await put(store, "k2", type="task", importance="high", tags=["t", "u"])
    stats = await store.read_stats(NAMESPACE)
    assert (stats.total, stats.archived) == (2, 1), stats
    assert stats.by_type == {"core": 1, "learning": 0, "task": 1}, stats
    assert stats.top_tags == (("t", 2), ("u", 1)), stats


async def namespaces_are_apart(store: ServableStore) -> None:
    """Nothing of one is seen from another."""
    await put(store, "k", tags=["t"])
    (found,) = await store.read("other", ["k"])
    assert isinstance(found, Refused), "a key is only known in its namespace"
    assert (await store.query("other", Query(archived=True))).total == 0, (
        "queries stay in their namespace"
    )
    assert (await store.read_stats("other")).total == 0, "statistics stay in their namespace"


async def many_changes_at_once_are_all_made(store: ServableStore) -> None:
    """Concurrent changes of one memory are made one after another; none is lost."""
    await asyncio.gather(*(put(store, "k", links=[(f"t{n}", 0.5)]) for n in range(40)))
    found = await store.read_linked(NAMESPACE, "k", 0, 100)
    assert found.links_total == 40, f"every one of 40 changes is there, not {found.links_total}"


async def whole_memories_leave_and_come_back(store: ServableStore) -> None:
    """Pages hold everything in order; putting it back changes nothing; what differs is kept unless asked."""
    for key in ("b", "a"):
        await put(store, key, links=[("b", 0.25), ("none", 1.0)], tags=["t"], metadata={"x": 1})
    found = [one for one in await store.read_page(("", ""), 10) if isinstance(one, StoredMemory)]
    assert [memory.row.key for memory in found] == [
        "a",
        "b",
    ] and await store.count_memories() == 2, "a page is in order"
    assert {link.target for link in found[0].links} == {"b", "none"}, (
        "a memory leaves with all of its links"
    )
    behind = await store.read_page((NAMESPACE, "a"), 10)
    assert behind == found[1:], "a page begins after the one before"
    assert (
        await store.import_batch([IncomingMemory(memory) for memory in found]) == ["unchanged"] * 2
    ), "the same again changes nothing"
    first = found[0]._replace(row=found[0].row._replace(content="other"), links=found[0].links[:1])
    assert await store.import_batch([IncomingMemory(first)]) == ["kept"], "what differs is kept"
    assert await store.import_batch([IncomingMemory(first)], replace=True, dry_run=True) == [
        "replaced"
    ], "a dry run tells"
    assert await store.read_page(("", ""), 10) == found, "and changes nothing"
    assert await store.import_batch([IncomingMemory(first)], replace=True) == ["replaced"]
    taken = found[1]._replace(row=found[1].row._replace(key="c"))
    links = tuple(link._replace(source="c") for link in found[1].links)
    new = found[1]._replace(row=found[1].row._replace(key="c", id=str(uuid4())), links=links)
    refused, added = await store.import_batch([IncomingMemory(taken), IncomingMemory(new)])
    assert isinstance(refused, Refused) and refused.reason == "key_taken", (
        "an id belongs to one memory"
    )
    assert added == "added", "one that cannot be kept does not keep others out"
    after = [one for one in await store.read_page(("", ""), 10) if isinstance(one, StoredMemory)]
    assert after[0] == first._replace(links_total=1), (
        "a replaced memory is as it was brought, links too"
    )
    assert [memory.row.key for memory in after] == ["a", "b", "c"]
    states = {finding.state for finding in await store.check(lambda _: None, full=True)}
    assert "damaged" not in states, "a check finds the store sound"


async def linked(store: ServableStore, key: str) -> list[str]:
    """The targets of a memory's links, best first."""
    return [link.target for link in (await store.read_linked(NAMESPACE, key, 0, 20)).links]


async def refuses(work: Awaitable[object], reason: str) -> None:
    """Fail unless the work is refused for that reason."""
    try:
        await work
    except Refused as error:
        assert error.reason == reason, f"refused with {error.reason} instead of {reason}"
        return
    raise AssertionError(f"should be refused with {reason}")


BEHAVIOURS: tuple[Callable[[ServableStore], Awaitable[None]], ...] = (
    a_memory_is_read_as_it_was_written,
    reads_keep_order_and_duplicates,
    storing_again_merges,
    an_id_names_one_memory,
    links_are_ranked_by_weight_times_score,
    links_are_known_from_behind,
    a_walk_is_the_walk,
    queries_filter_sort_count_and_page,
    statistics_count_what_is_there,
    namespaces_are_apart,
    many_changes_at_once_are_all_made,
    whole_memories_leave_and_come_back,
)
