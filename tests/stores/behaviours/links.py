"""What every store must do with links, as behaviors: ranks, pages, totals and walks."""

from abilities.helpers.store.model import LinkRow
from abilities.helpers.store.protocol import MemoryStore
from abilities.helpers.walk import WalkLimits
from tests.stores.behaviours.steps import (
    NAMESPACE,
    OTHER_NAMESPACE,
    add,
    end,
    expect,
    expect_refused,
    link_to,
    list_keys,
    list_targets,
    plan,
    put,
    put_many,
    read_sources,
    read_targets,
    read_totals,
    read_walk,
)


async def links_are_ranked_by_weight_times_score(store: MemoryStore) -> None:
    """The best links come first, and the order follows every change of a target."""
    await put(store, "a", links=[("b", 0.8), ("c", 0.9), ("none", 1.0)])
    expect(await read_targets(store, "a"), ["none", "c", "b"], "missing targets rank by weight")

    await put(store, "b", memory_score=0.9)
    await put(store, "c", memory_score=0.7)
    expect(await read_targets(store, "a"), ["b", "c", "none"], "and behind those that are there")
    await put(store, "c", kind="update", memory_score=1.0)
    expect(await read_targets(store, "a"), ["c", "b", "none"], "a changed score changes the order")
    await end(store, "delete", "c")
    expect(await read_targets(store, "a"), ["b", "none", "c"], "a deleted target ranks last")

    page = await store.read_linked(NAMESPACE, "a", 1, 1)
    expect(list_targets(page.links), ["none"], "links come in pages")
    expect(page.links_total, 3, "links_total counts all links, not those of the page")


async def links_keep_their_terms(store: MemoryStore) -> None:
    """A link's term is kept, and changes with the link; links of one target differ by type."""
    await put(store, "a", links=[("b", 0.5)], term="große Rose")
    await put(store, "a", links=[("b", 0.25)], link_type="other")

    links = (await store.read_linked(NAMESPACE, "a", 0, 10)).links
    first = LinkRow("a", "b", "association", 0.5, "große Rose")
    expect(links, (first, LinkRow("a", "b", "other", 0.25, "")), "links have terms, or none")

    changed = await put(store, "a", links=[("b", 0.5)], term="rose")
    expect(changed.updated, ("links",), "another term is a change")
    page = await store.read_backlinks(NAMESPACE, "b", 0, 1)
    expect(page.links[0].term, "rose", "the new term replaces the old one")


async def backlinks_come_best_first_in_pages(store: MemoryStore) -> None:
    """The links that lead to a key are known, even if no memory has that key."""
    for key, weight in {"c": 0.5, "a": 0.5, "b": 0.9, "d": 0.2}.items():
        await put(store, key, links=[("hub", weight), ("other", 0.1)])

    best_first = ["b", "a", "c", "d"]
    expect(await read_sources(store, "hub"), (best_first, 4), "they come best first, by key")
    page = await read_sources(store, "hub", 1, 2)
    expect(page, (["a", "c"], 4), "they come in pages, and the total counts all")
    await put(store, "b", remove=[{"key": "hub", "type": None}])
    expect(await read_sources(store, "hub", 0, 1), (["a"], 3), "a removed link is gone")
    elsewhere = await store.read_backlinks(OTHER_NAMESPACE, "hub", 0, 5)
    expect(elsewhere.total, 0, "backlinks stay in their namespace")


async def a_change_moves_the_ranks_at_both_ends(store: MemoryStore) -> None:
    """A memory's score ranks the links to it, and among the links to others its own ones."""
    await put(store, "x", links=[("a", 0.5), ("b", 0.5), ("hub", 0.1)])
    for key in ("a", "b"):
        await put(store, key, links=[("hub", 0.5)])

    await put(store, "b", memory_score=0.9)
    expect(await read_targets(store, "x"), ["b", "a", "hub"], "a higher score ranks links to it up")
    expect((await read_sources(store, "hub"))[0], ["b", "a", "x"], "and its own links to others")
    await end(store, "archive", "b")
    expect(await read_targets(store, "x"), ["a", "b", "hub"], "links to an archived one rank last")
    expect((await read_sources(store, "hub"))[0], ["a", "x", "b"], "and so do the links from it")
    await put(store, "b")
    expect((await read_sources(store, "hub"))[0], ["b", "a", "x"], "restored it ranks as before")

    # 0.6 x 0.6 and 0.4 x 0.9 are equal, which the products of floating-point numbers are not.
    await put(store, "y", links=[("k", 0.6), ("j", 0.4)])
    await put(store, "k", memory_score=0.6)
    await put(store, "j", memory_score=0.9)
    expect(await read_targets(store, "y"), ["k", "j"], "equal ranks are ordered by weight")


async def link_totals_follow_every_change(store: MemoryStore) -> None:
    """The numbers of outgoing and incoming links are exact after changes of every kind."""
    first = await add(store, "a", links=[("b", 0.5), ("none", 0.5), ("a", 0.5)])
    expect((first.links_total, first.backlinks_total), (3, 1), "a change returns the totals")
    await put(store, "b", links=[("a", 0.5)])
    await put(store, "a", links=[("b", 0.7)])
    await put(store, "a", links=[("b", 0.7)], link_type="other")
    expect(await read_totals(store, "a"), (4, 2), "a link that changes is counted once")
    expect(await read_totals(store, "b"), (1, 2), "links of several types count each")

    await put(store, "a", remove=[{"key": "b", "type": None}])
    expect(await read_totals(store, "a"), (2, 2), "removed links are not counted")
    expect(await read_totals(store, "b"), (1, 0), "not at their targets either")
    await end(store, "archive", "a")
    expect(await read_totals(store, "a"), (2, 2), "archived memories keep their links")
    await end(store, "delete", "b")
    expect(await read_totals(store, "a"), (2, 1), "links of a deleted memory are gone")
    await put(store, "none")
    expect(await read_totals(store, "none"), (0, 1), "a new memory has the links to its key")


async def a_walk_visits_each_memory_once_on_its_shortest_way(store: MemoryStore) -> None:
    """A walk goes depth first and best first, and loses nothing that its limits allow."""
    edges = {"a": [("b", 1.0), ("c", 0.5)], "b": [("c", 1.0)], "c": [("d", 1.0)], "d": []}
    for key, links in edges.items():
        await put(store, key, links=links)

    for depth in (2, 3):
        result = await store.walk(NAMESPACE, "a", WalkLimits(depth, breadth=5, total=20))
        steps = [(step.key, step.depth) for step in result.outcome.steps]
        expected = [("a", 0), ("b", 1), ("c", 1), ("d", 2)]
        expect(steps, expected, f"a walk of depth {depth} takes the shortest ways")
        expect(list_keys(result.memories), ["a", "b", "c", "d"], "each step has its memory")

    from_none = store.walk(NAMESPACE, "none", WalkLimits(1, 1, 1))
    await expect_refused(from_none, "memory_not_found", "a walk begins with a memory")


async def a_walk_follows_links_backwards(store: MemoryStore) -> None:
    """In the direction "in", links rank by the scores of their sources."""
    await put(store, "a", links=[("d", 0.5)])
    await put(store, "b", links=[("a", 0.5)], memory_score=0.2)
    await put(store, "c", links=[("a", 0.3)], memory_score=0.9)
    await put(store, "gone", links=[("a", 1.0)])
    await end(store, "archive", "gone")

    steps = [("a", ""), ("c", "in"), ("b", "in")]
    expect(await read_walk(store, "a", "in"), steps, "it goes to sources, best first")
    expect(await read_walk(store, "a", "out"), [("a", "")], "a missing target is not walked to")


async def a_walk_in_both_directions_takes_the_best_links(store: MemoryStore) -> None:
    """Outgoing and incoming links are one order; of equal ones the outgoing come first."""
    await put(store, "a", links=[("out1", 0.9), ("out2", 0.3), ("twin", 0.5), ("a", 1.0)])
    for key, weight in {"in1": 0.6, "in2": 0.2, "twin": 0.5}.items():
        await put(store, key, links=[("a", weight)])
    for key in ("out1", "out2"):
        await put(store, key)

    outgoing_first = [("out1", "out"), ("in1", "in"), ("twin", "out"), ("out2", "out")]
    expected = [("a", ""), *outgoing_first, ("in2", "in")]
    expect(await read_walk(store, "a", "both"), expected, "the links are in one order")

    keys = [f"n{number:02}" for number in range(60)]
    sources = [plan("store", key, links=link_to("hub")) for key in keys]
    await put_many(store, [*sources, plan("store", "hub", links=link_to(*keys))])

    steps = await read_walk(store, "hub", "both", WalkLimits(1, 20, 50))
    expected = [("hub", ""), *((key, "out") for key in keys[:20])]
    expect(steps, expected, "of a memory that is linked both ways the outgoing link counts")
