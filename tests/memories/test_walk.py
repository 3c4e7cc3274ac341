"""The walk: the scenarios that decide it, its invariants, and two oracles over random graphs."""

from collections import Counter
from typing import NamedTuple

import pytest

from abilities.declarations.memory import Direction
from abilities.helpers.walk import Walk, WalkLimits, WalkOutcome
from tests.support.walk_oracles import (
    Edge,
    Graph,
    build_graph,
    describe,
    expect_by_agenda,
    expect_by_recursion,
    make_random_graph,
    walk,
)

DEFAULT = WalkLimits(3, 5, 20)


def list_keys(walked: WalkOutcome) -> list[str]:
    return [step.key for step in walked.steps]


class Scenario(NamedTuple):
    """A walk from A: what it must retrieve, name as cut (each beneath its source), and count."""

    graph: Graph
    keys: str
    limits: WalkLimits = DEFAULT
    cut: str = ""
    cut_by: tuple[str, ...] = ()
    duplicates: int = 0
    cycles: int = 0
    direction: Direction = "out"


DIAMOND = build_graph(A="B C", B="C", C="D")
STAR = build_graph(A=" ".join(f"B{n}" for n in range(10)))
TREE = build_graph(A="B C", B="D E", C="F")
WEIGHTED = Graph({"A": [Edge("B", 0.8), Edge("C", 0.9)]}, {"B": 0.9, "C": 0.7})
BACKWARDS = build_graph(B="A", D="B", A="C")
TIES = Graph({"A": [Edge("b", 0.5), Edge("a", 0.5), Edge("c", 1.0), Edge("é", 0.5)]}, {"c": 0.5})
COMPLETE = build_graph(**{key: " ".join("ABCDEF".replace(key, "")) for key in "ABCDEF"})
SCENARIOS = {
    "depth first": Scenario(build_graph(A="B C", B="D"), "A B D C"),
    "weight times score decides": Scenario(WEIGHTED, "A B C"),
    "weight times score decides who is cut": Scenario(
        WEIGHTED, "A B", WalkLimits(3, 1, 20), "C/A", ("breadth",)
    ),
    "reached twice, retrieved once": Scenario(DIAMOND, "A B C D", duplicates=1),
    "met again on a shorter way": Scenario(DIAMOND, "A B C D", WalkLimits(2, 5, 20), duplicates=1),
    "depth stops descending": Scenario(
        build_graph(A="B", B="C", C="D", D="E"), "A B C", WalkLimits(2, 5, 20), "D/C", ("depth",)
    ),
    "breadth takes the best": Scenario(
        STAR, "A B0 B1 B2 B3 B4", cut="B5/A B6/A B7/A B8/A B9/A", cut_by=("breadth",)
    ),
    "a link back takes no place": Scenario(
        build_graph(A="B C D", B="A C E", C=""),
        "A B E C",
        WalkLimits(3, 2, 20),
        "D/A",
        ("breadth",),
        duplicates=2,
        cycles=1,
    ),
    "a full memory takes no more although its children come nearer": Scenario(
        build_graph(A="B C", B="C X", C="D E F", D="G"),
        "A B X C D G E",
        WalkLimits(3, 2, 20),
        "F/C",
        ("breadth",),
        duplicates=1,
    ),
    "the total counts the target and stops at once": Scenario(
        TREE, "A B D", WalkLimits(3, 5, 3), "C/A E/B", ("total",)
    ),
    "a total that is just enough": Scenario(TREE, "A B D E C F", WalkLimits(3, 5, 6)),
    "equal ranks, by weight and then by key": Scenario(TIES, "A c a b é"),
    "ranks are exact where floats are not": Scenario(
        Graph({"A": [Edge("b", 0.4), Edge("a", 0.6)]}, {"a": 0.6, "b": 0.9}), "A a b"
    ),
    "links to oneself and back": Scenario(
        build_graph(A="A B", B="A"), "A B", duplicates=1, cycles=1
    ),
    "all lead to all": Scenario(COMPLETE, "A B C D E F", duplicates=25, cycles=5),
    "two links back": Scenario(build_graph(A="B", B="C", C="A B"), "A B C", duplicates=2, cycles=2),
    "incoming links": Scenario(BACKWARDS, "A B D", direction="in"),
    "links of both directions": Scenario(
        BACKWARDS, "A B D C", duplicates=3, cycles=3, direction="both"
    ),
}


@pytest.mark.requirement(
    "R1.3.1", "R1.4.1", "R1.5.1", "R1.6.1", "R1.6.2", "R1.6.3", "R1.6.4", "R1.8.1", "R4.2.1",
    "R4.2.3", "R4.2.4", "R4.4.1", "R4.4.2", "R4.4.3", "R4.4.4", "R4.5.7", "R4.5.8",
)  # fmt: skip
@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_a_walk_retrieves_cuts_and_counts_what_the_scenario_says(scenario: Scenario) -> None:
    walked = walk(scenario.graph, "A", scenario.limits, scenario.direction)

    assert " ".join(list_keys(walked)) == scenario.keys
    assert " ".join(f"{cut.key}/{cut.source}" for cut in walked.frontier) == scenario.cut
    assert {cut.cut_by for cut in walked.frontier} == set(scenario.cut_by)
    assert tuple(walked.cut_by) == scenario.cut_by
    assert (walked.duplicates, walked.cycles) == (scenario.duplicates, scenario.cycles)


@pytest.mark.requirement("R2.1.2", "R4.6.1")
@pytest.mark.sampled(5)
@pytest.mark.parametrize("block", range(20))
def test_four_thousand_random_graphs_agree_with_both_oracles(block: int) -> None:
    stops = revisits = cut = 0

    for seed in range(block * 200, block * 200 + 200):
        graph, limits = make_random_graph(seed)
        direction: Direction = ("out", "out", "in", "both")[seed % 4]
        walked = walk(graph, "m0", limits, direction, page=1 + seed % 7)
        expected = expect_by_recursion(graph, "m0", limits, direction)

        assert expected == expect_by_agenda(graph, "m0", limits, direction), seed
        assert describe(walked) == expected, seed
        check_tree(walked, limits)

        stops += expected.stopped
        revisits += expected.duplicates > 0
        cut += bool(expected.limits_reached)

    assert 0 < stops < 200 and 0 < revisits < 200 and 0 < cut < 200


def check_tree(walked: WalkOutcome, limits: WalkLimits) -> None:
    """Check what a reader relies on: a parent comes first, and nobody has too many children."""
    places = {step.key: place for place, step in enumerate(walked.steps)}
    children: dict[str, int] = {}

    assert len(places) == len(walked.steps) <= limits.total

    for step in walked.steps[1:]:
        assert step.parent is not None
        assert places[step.parent.key] < places[step.key]
        assert step.parent.depth + 1 == step.depth <= limits.depth
        children[step.parent.key] = children.get(step.parent.key, 0) + 1

    assert max(children.values(), default=0) <= limits.breadth


def send_links(graph: Graph, page: int | None = None) -> list[tuple[str, int, int]]:
    """Walk, and return which links were sent: of which memory, from which one on, and how many.

    They are as many as are on a page, or as are needed.
    """
    conversation = Walk("m0", WalkLimits(1, 5, 20)).run()
    sent: list[tuple[str, int, int]] = []
    request = next(conversation)

    with pytest.raises(StopIteration):
        while True:
            end = request.offset + (page or request.needed)
            links = graph.list_links(request.key)[request.offset : end]
            sent.append((request.key, request.offset, len(links)))
            request = conversation.send(links)

    return sent


@pytest.mark.requirement("R4.5.2", "R4.5.3", "R4.5.9")
def test_no_more_links_are_requested_than_are_needed() -> None:
    graph = build_graph(m0=" ".join(f"m{n}" for n in range(1, 1001)))

    offsets = [offset for key, offset, _ in send_links(graph, page=5) if key == "m0"]

    assert offsets == [0, 5, 10, 15], "five to retrieve, ten for the frontier, one beyond it"


def test_of_memories_at_the_limit_few_links_are_needed() -> None:
    graph = build_graph(m0="a b c")
    for name, weight in (("a", 0.9), ("b", 0.5), ("c", 0.1)):
        graph.edges[name] = [Edge(f"{name}{n:02}", weight) for n in range(40)]
    sent: Counter[str] = Counter()

    for key, _, count in send_links(graph):
        sent[key] += count

    assert sent == {"m0": 3, "a": 12, "b": 1, "c": 1}, "ten for the frontier, and two beyond it"
