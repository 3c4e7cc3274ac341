"""What every store must do with links, as behaviors: ranks, pages, totals and walks."""

from abilities.helpers.store.model import LinkRow
from abilities.helpers.store.protocol import MemoryStore
from abilities.helpers.walk import WalkLimits
from tests.stores.behaviours.steps import (
    NAMESPACE,
    OTHER_NAMESPACE,
    expect,
    expect_refused,
    expect_stored,
    list_keys,
    list_sources,
    list_targets,
    put,
    read_one,
    read_sources,
    read_targets,
    read_totals,
    read_walk,
)


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


async def links_keep_their_terms(store: MemoryStore) -> None:
    """A link's term is kept, and changes with the link; links of one target differ by type."""
    await put(store, "a", links=[("b", 0.5)], term="große Rose")
    await put(store, "a", links=[("b", 0.25)], link_type="other")

    memory = await store.read_linked(NAMESPACE, "a", 0, 10)
    expect(
        memory.links,
        (
            LinkRow("a", "b", "association", 0.5, "große Rose"),
            LinkRow("a", "b", "other", 0.25, ""),
        ),
        "links have the terms that they were given, or none",
    )

    changed = await put(store, "a", links=[("b", 0.5)], term="rose")
    expect(changed.updated, ("links",), "another term is a change")
    page = await store.read_backlinks(NAMESPACE, "b", 0, 1)
    expect(page.links[0].term, "rose", "the new term replaces the old one")


async def backlinks_come_best_first_in_pages(store: MemoryStore) -> None:
    """The links that lead to a key are known, even if no memory has that key."""
    for key, weight in {"c": 0.5, "a": 0.5, "b": 0.9, "d": 0.2}.items():
        await put(store, key, links=[("hub", weight), ("other", 0.1)])

    expect(
        await read_sources(store, "hub"), ["b", "a", "c", "d"], "backlinks come best first, by key"
    )

    page = await store.read_backlinks(NAMESPACE, "hub", 1, 2)
    expect(list_sources(page.links), ["a", "c"], "backlinks come in pages")
    expect(page.total, 4, "the total counts all backlinks, not those of the page")

    await put(store, "b", remove=[{"key": "hub", "type": None}])
    page = await store.read_backlinks(NAMESPACE, "hub", 0, 1)
    expect(list_sources(page.links), ["a"], "a page holds no more than its limit")
    expect(page.total, 3, "a removed link is gone")

    page = await store.read_backlinks(OTHER_NAMESPACE, "hub", 0, 5)
    expect(page.total, 0, "backlinks stay in their namespace")


async def a_change_moves_the_ranks_at_both_ends(store: MemoryStore) -> None:
    """A memory's score ranks the links to it, and among the links to others its own ones."""
    await put(store, "x", links=[("a", 0.5), ("b", 0.5), ("hub", 0.1)])
    for key in ("a", "b"):
        await put(store, key, links=[("hub", 0.5)])

    rising = expect_stored(await put(store, "b", memory_score=0.9))
    expect(await read_targets(store, "x"), ["b", "a", "hub"], "a higher score ranks links to it up")
    expect(await read_sources(store, "hub"), ["b", "a", "x"], "and its own links to others")

    await put(store, "", kind="archive", id=rising.row.id)
    expect(await read_targets(store, "x"), ["a", "b", "hub"], "links to an archived one rank last")
    expect(await read_sources(store, "hub"), ["a", "x", "b"], "and so do the links from it")

    await put(store, "b")
    expect(await read_sources(store, "hub"), ["b", "a", "x"], "a restored one ranks as before")

    # 0.6 x 0.6 and 0.4 x 0.9 are equal, which the products of floating-point numbers are not.
    await put(store, "y", links=[("k", 0.6), ("j", 0.4)])
    await put(store, "k", memory_score=0.6)
    await put(store, "j", memory_score=0.9)
    expect(await read_targets(store, "y"), ["k", "j"], "equal ranks are ordered by weight")


async def link_totals_follow_every_change(store: MemoryStore) -> None:
    """The numbers of outgoing and incoming links are exact after changes of every kind."""
    first = expect_stored(await put(store, "a", links=[("b", 0.5), ("none", 0.5), ("a", 0.5)]))
    expect(
        (first.links_total, first.backlinks_total), (3, 1), "a change returns the totals of links"
    )
    second = expect_stored(await put(store, "b", links=[("a", 0.5)]))
    await put(store, "a", links=[("b", 0.7)])
    await put(store, "a", links=[("b", 0.7)], link_type="other")
    expect(await read_totals(store, "a"), (4, 2), "a link that changes is counted once")
    expect(await read_totals(store, "b"), (1, 2), "links of several types count each")

    await put(store, "a", remove=[{"key": "b", "type": None}])
    expect(await read_totals(store, "a"), (2, 2), "removed links are not counted")
    expect(await read_totals(store, "b"), (1, 0), "not at their targets either")

    await put(store, "", kind="archive", id=first.row.id)
    expect(await read_totals(store, "a"), (2, 2), "archived memories keep their links")

    await put(store, "", kind="delete", id=second.row.id)
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


async def a_walk_follows_links_backwards(store: MemoryStore) -> None:
    """In the direction "in", links rank by the scores of their sources."""
    await put(store, "a", links=[("d", 0.5)])
    await put(store, "b", links=[("a", 0.5)], memory_score=0.2)
    await put(store, "c", links=[("a", 0.3)], memory_score=0.9)
    await put(store, "gone", links=[("a", 1.0)])
    gone = await read_one(store, "gone")
    await put(store, "", kind="archive", id=gone.row.id)

    expect(
        await read_walk(store, "a", "in"),
        [("a", ""), ("c", "in"), ("b", "in")],
        "a walk in goes to the sources, best first, and to no archived one",
    )
    expect(await read_walk(store, "a", "out"), [("a", "")], "a missing target is not walked to")


async def a_walk_in_both_directions_takes_the_best_links(store: MemoryStore) -> None:
    """Outgoing and incoming links are one order; of equal ones the outgoing come first."""
    await put(store, "a", links=[("out1", 0.9), ("out2", 0.3), ("twin", 0.5), ("a", 1.0)])
    for key, weight in {"in1": 0.6, "in2": 0.2, "twin": 0.5}.items():
        await put(store, key, links=[("a", weight)])
    for key in ("out1", "out2"):
        await put(store, key)

    expect(
        await read_walk(store, "a", "both"),
        [
            ("a", ""),
            ("out1", "out"),
            ("in1", "in"),
            ("twin", "out"),
            ("out2", "out"),
            ("in2", "in"),
        ],
        "a walk in both directions takes the links in one order",
    )

    for number in range(60):
        await put(store, f"n{number:02}", links=[("hub", 0.5)])
        await put(store, "hub", links=[(f"n{number:02}", 0.5)])

    steps = await read_walk(store, "hub", "both", WalkLimits(1, 20, 50))
    expected = [("hub", ""), *((f"n{number:02}", "out") for number in range(20))]
    expect(steps, expected, "of a memory that is linked both ways the outgoing link counts")
