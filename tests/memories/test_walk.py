"""The walk: an invariant, an oracle written another way, and the scenarios that decide it."""

import random
from collections import deque
from dataclasses import dataclass, field

import pytest

from abilities.helpers.walk import Cut, LinkRequest, Step, Walk, WalkLimits, WalkLink, WalkOutcome

Edges = dict[str, list[tuple[str, float, str]]]


@dataclass
class Graph:
    """A graph of memories: links as (target, weight, type), scores, and what does not exist."""

    edges: Edges
    scores: dict[str, float] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)
    archived: set[str] = field(default_factory=set)
    invalid: set[tuple[str, str, str]] = field(default_factory=set)

    def list_links(self, key: str) -> list[WalkLink]:
        """All links of a memory, best first, as a store tells them."""
        links = [
            self._make_link(key, target, weight, kind)
            for target, weight, kind in self.edges.get(key, [])
        ]
        return sorted(links, key=lambda link: (-link.score, -link.weight, link.key, link.type))

    def _make_link(self, source: str, target: str, weight: float, kind: str) -> WalkLink:
        if (source, target, kind) in self.invalid:
            return WalkLink(target, 0.0, kind, -2.0, "invalid")

        if target in self.missing | self.archived:
            return WalkLink(target, weight, kind, -1.0, "absent")

        return WalkLink(target, weight, kind, weight * self.scores.get(target, 1.0), "present")


def walk(graph: Graph, target: str, limits: WalkLimits, page: int = 3) -> WalkOutcome:
    """Run a walk over a graph that sends ``page`` links at a time."""
    conversation = Walk(target, limits).run()
    request: LinkRequest = next(conversation)

    while True:
        links = graph.list_links(request.key)[request.offset : request.offset + page]
        try:
            request = conversation.send(links)
        except StopIteration as end:
            outcome: WalkOutcome = end.value
            return outcome


def build_graph(**edges: str) -> Graph:
    """Build a graph from words, for example ``build_graph(A="B C")``; links in falling weight."""
    return Graph(
        {
            k: [(t, 1 - n / 100, "association") for n, t in enumerate(v.split())]
            for k, v in edges.items()
        }
    )


def list_keys(walked: WalkOutcome) -> list[str]:
    return [step.key for step in walked.steps]


DEFAULT = WalkLimits(3, 5, 20)


@pytest.mark.requirement("R1.3.1")
def test_depth_first_order() -> None:
    assert list_keys(walk(build_graph(A="B C", B="D"), "A", DEFAULT)) == ["A", "B", "D", "C"]


@pytest.mark.requirement("R1.4.1")
def test_weight_times_score_decides() -> None:
    graph = Graph({"A": [("B", 0.8, "x"), ("C", 0.9, "x")]}, {"B": 0.9, "C": 0.7})

    assert list_keys(walk(graph, "A", WalkLimits(3, 1, 20))) == ["A", "B"]
    assert list_keys(walk(graph, "A", DEFAULT)) == ["A", "B", "C"]


@pytest.mark.requirement("R1.5.1")
def test_a_memory_reached_twice_is_retrieved_once() -> None:
    walked = walk(build_graph(A="B C", B="C", C="D"), "A", DEFAULT)

    assert list_keys(walked) == ["A", "B", "C", "D"]
    assert walked.duplicates == 1


@pytest.mark.parametrize("depth", [2, 3])
def test_a_memory_met_again_on_a_shorter_way_is_walked_on_from_there(depth: int) -> None:
    walked = walk(build_graph(A="B C", B="C", C="D"), "A", WalkLimits(depth, 5, 20))

    assert sorted(list_keys(walked)) == ["A", "B", "C", "D"]
    assert {step.key: step.depth for step in walked.steps} == {"A": 0, "B": 1, "C": 1, "D": 2}
    assert walked.cut_by == []


@pytest.mark.requirement("R1.6.1")
def test_depth_stops_descending() -> None:
    walked = walk(build_graph(A="B", B="C", C="D", D="E"), "A", WalkLimits(2, 5, 20))

    assert list_keys(walked) == ["A", "B", "C"]
    assert walked.cut_by == ["depth"]
    assert [(c.key, c.source, c.cut_by) for c in walked.frontier] == [("D", "C", "depth")]


@pytest.mark.requirement("R1.6.2")
def test_breadth_takes_the_best() -> None:
    walked = walk(build_graph(A=" ".join(f"B{n}" for n in range(10))), "A", DEFAULT)

    assert list_keys(walked) == ["A", "B0", "B1", "B2", "B3", "B4"]
    assert walked.cut_by == ["breadth"]
    assert [c.key for c in walked.frontier] == ["B5", "B6", "B7", "B8", "B9"]


def test_a_duplicate_takes_no_place_in_the_breadth() -> None:
    walked = walk(build_graph(A="B C D", B="A C E", C=""), "A", WalkLimits(3, 2, 20))

    assert list_keys(walked) == ["A", "B", "C", "E", "D"]
    assert walked.duplicates == 2


@pytest.mark.requirement("R1.6.3")
def test_total_counts_the_target_and_stops_at_once() -> None:
    graph = build_graph(A="B C", B="D E", C="F")

    assert list_keys(walk(graph, "A", WalkLimits(3, 5, 3))) == ["A", "B", "D"]
    assert walk(graph, "A", WalkLimits(3, 5, 3)).cut_by == ["total"]

    exact = walk(graph, "A", WalkLimits(3, 5, 6))

    assert (list_keys(exact), exact.cut_by) == (["A", "B", "D", "E", "C", "F"], [])


def test_missing_archived_and_invalid_are_counted_and_take_no_place() -> None:
    graph = build_graph(A="B C D E")
    graph.missing, graph.archived, graph.invalid = {"B"}, {"C"}, {("A", "D", "association")}

    walked = walk(graph, "A", WalkLimits(3, 2, 20))

    assert list_keys(walked) == ["A", "E"]
    assert (walked.missing, walked.invalid, walked.cut_by) == (2, 1, [])


def test_ties_are_broken_by_weight_and_then_by_key() -> None:
    graph = Graph(
        {"A": [("b", 0.5, "x"), ("a", 0.5, "x"), ("c", 1.0, "x"), ("é", 0.5, "x")]}, {"c": 0.5}
    )
    assert list_keys(walk(graph, "A", DEFAULT)) == ["A", "c", "a", "b", "é"]


@pytest.mark.requirement("R4.1.1")
def test_cycles_self_links_and_a_complete_graph_end() -> None:
    assert list_keys(walk(build_graph(A="A B", B="A"), "A", DEFAULT)) == ["A", "B"]

    names = "ABCDEF"
    complete = build_graph(
        **{name: " ".join(other for other in names if other != name) for name in names}
    )
    walked = walk(complete, "A", DEFAULT)

    assert sorted(list_keys(walked)) == list(names)
    assert all(step.depth == 1 for step in walked.steps[1:])


@pytest.mark.requirement("R4.2.1")
def test_a_long_chain_and_a_large_hub_are_no_burden() -> None:
    chain = build_graph(**{f"k{n}": f"k{n + 1}" for n in range(5_000)})

    assert len(list_keys(walk(chain, "k0", WalkLimits(6, 20, 50)))) == 7

    hub = Graph({"A": [(f"k{n:06}", 0.5, "x") for n in range(20_000)]})

    assert len(list_keys(walk(hub, "A", WalkLimits(6, 20, 50), page=50_000))) == 21


def make_random_graph(seed: int) -> tuple[Graph, WalkLimits]:
    """Make a small graph with ties, zeros, cycles, parallel links, hubs and gaps, and limits."""
    chance = random.Random(seed)
    size = chance.choice([2, 4, 8, 14, 25])
    names = [f"m{n}" for n in range(size)]
    density = chance.choice([0.1, 0.3, 0.6, 1.0])
    weights = chance.choice([[0.5], [0.0, 1.0], [0.0, 0.25, 0.5, 1.0], [n / 97 for n in range(98)]])
    edges: Edges = {}
    invalid: set[tuple[str, str, str]] = set()
    for source in names:
        weights_by_link: dict[tuple[str, str], float] = {}
        many = size if chance.random() < 0.15 else max(1, round(size * density * chance.random()))
        for _ in range(many):
            link = chance.choice(names), chance.choice(["association", "cause"])
            weights_by_link[link] = chance.choice(weights)

        edges[source] = [
            (target, weight, kind) for (target, kind), weight in weights_by_link.items()
        ]
        invalid |= {
            (source, target, kind) for target, kind in weights_by_link if chance.random() < 0.03
        }

    others = names[1:]
    graph = Graph(
        edges,
        {name: chance.choice([0.0, 0.3, 0.6, 0.9, 1.0]) for name in names},
        {name for name in others if chance.random() < 0.08},
        {name for name in others if chance.random() < 0.08},
        invalid,
    )
    limits = WalkLimits(
        chance.randint(1, 6), chance.choice([1, 2, 3, 5, 20]), chance.choice([1, 2, 3, 5, 10, 50])
    )
    return graph, limits


@dataclass
class OracleOutcome:
    """What the oracle says of a walk."""

    order: list[str] = field(default_factory=list)
    depth: dict[str, int] = field(default_factory=dict)
    via: dict[str, tuple[str, str]] = field(default_factory=dict)
    kept: dict[str, list[WalkLink]] = field(default_factory=dict)
    counts: dict[str, int] = field(
        default_factory=lambda: {"duplicate": 0, "missing": 0, "invalid": 0}
    )
    stopped: bool = False


def walk_as_oracle(graph: Graph, target: str, limits: WalkLimits) -> OracleOutcome:
    """Walk in another way: with one explicit stack of pending links over whole adjacency lists.

    Each entry of the stack is a memory, its links still to look at, and whether these were kept
    when the memory was met before.
    """
    outcome = OracleOutcome([target], {target: 0})
    room: dict[str, int] = {}
    stack = [(target, deque(graph.list_links(target)), False)] if limits.depth > 0 else []
    outcome.kept[target], room[target] = [], limits.breadth
    while stack:
        memory, pending, again = stack[-1]
        if not pending or (not again and (room[memory] == 0 or outcome.stopped)):
            stack.pop()
            continue

        link = pending.popleft()
        if link.state == "present" and link.key not in outcome.depth:
            if len(outcome.order) == limits.total:
                outcome.stopped = True
                continue
            outcome.order.append(link.key)
            room[memory] -= 1
            outcome.kept[memory].append(link)
        elif link.state == "present":
            if not again:
                outcome.counts["duplicate"] += 1
                outcome.kept[memory].append(link)
            if outcome.depth[memory] + 1 >= outcome.depth[link.key]:
                continue
        else:
            outcome.counts["invalid" if link.state == "invalid" else "missing"] += 1
            continue

        outcome.depth[link.key] = outcome.depth[memory] + 1
        outcome.via[link.key] = (memory, link.type)
        if outcome.depth[link.key] == limits.depth:
            continue

        if link.key in outcome.kept:
            stack.append((link.key, deque(outcome.kept[link.key]), True))
        elif not outcome.stopped:
            outcome.kept[link.key], room[link.key] = [], limits.breadth
            stack.append((link.key, deque(graph.list_links(link.key)), False))

    return outcome


def measure_distances(kept: dict[str, list[WalkLink]], target: str) -> dict[str, int]:
    """Return breadth-first distances over kept links."""
    distance, queue = {target: 0}, deque([target])
    while queue:
        memory = queue.popleft()
        for link in kept.get(memory, []):
            if link.key not in distance:
                distance[link.key] = distance[memory] + 1
                queue.append(link.key)

    return distance


@pytest.mark.requirement("R2.1.2")
@pytest.mark.parametrize("block", range(20))
def test_two_thousand_random_graphs_agree_with_the_oracle_and_keep_the_invariant(
    block: int,
) -> None:
    walks = stops = shortened = 0
    for seed in range(block * 100, block * 100 + 100):
        graph, limits = make_random_graph(seed)
        walked = walk(graph, "m0", limits, page=1 + seed % 7)
        expected = walk_as_oracle(graph, "m0", limits)

        assert list_keys(walked) == expected.order, seed
        assert {step.key: step.depth for step in walked.steps} == expected.depth, seed

        via = {s.key: (s.parent.key, s.link.type) for s in walked.steps if s.parent and s.link}

        assert via == expected.via, seed

        counts = {
            "duplicate": walked.duplicates,
            "missing": walked.missing,
            "invalid": walked.invalid,
        }

        assert counts == expected.counts, seed

        check_invariant(graph, limits, walked, expected.stopped)
        check_frontier(graph, limits, walked, expected)
        walks += 1
        stops += expected.stopped
        shortened += any(
            step.depth > following.depth
            for step, following in zip(walked.steps[1:], walked.steps[2:], strict=False)
        )

    assert walks == 100 and 0 < stops < 100 and shortened > 0


def check_invariant(graph: Graph, limits: WalkLimits, walked: WalkOutcome, stopped: bool) -> None:
    """Check that nothing allowed is lost or returned twice, and that depths are the shortest."""
    retrieved = list_keys(walked)

    assert len(set(retrieved)) == len(retrieved) <= limits.total
    assert all(step.depth <= limits.depth and step.taken <= limits.breadth for step in walked.steps)

    kept = {step.key: [link for _, link in step.kept] for step in walked.steps}

    assert {step.key: step.depth for step in walked.steps} == measure_distances(kept, retrieved[0])

    if stopped:
        return

    gone = graph.missing | graph.archived
    for step in walked.steps:
        if step.depth < limits.depth:
            links = graph.list_links(step.key)
            looked = links if step.taken < limits.breadth else links[: step.looked]
            assert all(
                link.key in retrieved or link.key in gone or link.state == "invalid"
                for link in looked
            )
            assert step.looked == len(looked)


def test_no_more_links_are_asked_for_than_are_looked_at() -> None:
    graph = build_graph(m0=" ".join(f"m{n}" for n in range(1, 1001)))
    conversation = Walk("m0", WalkLimits(1, 5, 20)).run()
    offsets: list[int] = []
    request = next(conversation)

    with pytest.raises(StopIteration):
        while True:
            if request.key == "m0":
                offsets.append(request.offset)
            links = graph.list_links(request.key)[request.offset : request.offset + 5]
            request = conversation.send(links)

    assert offsets == [0, 5, 10], "five to take, and ten for the frontier"


def find_cut(step: Step, limits: WalkLimits) -> Cut:
    """Return the limit that kept the walk from a memory's further links."""
    if step.taken == limits.breadth:
        return "breadth"

    return "depth" if step.depth == limits.depth else "total"


def check_frontier(
    graph: Graph, limits: WalkLimits, walked: WalkOutcome, expected: OracleOutcome
) -> None:
    """Check that the frontier holds the best candidates, each with the limit that cut it."""
    every: dict[str, tuple[float, float]] = {}
    sources: dict[str, str] = {}
    cut: set[Cut] = set()
    for step in walked.steps:
        for link in graph.list_links(step.key)[step.looked :]:
            if link.state == "present" and link.key not in expected.depth:
                if (link.score, link.weight) > every.get(link.key, (-1.0, 0.0)):
                    every[link.key], sources[link.key] = (link.score, link.weight), step.key
                cut.add(find_cut(step, limits))

    best = sorted(every.items(), key=lambda item: (-item[1][0], -item[1][1], item[0]))[:10]
    frontier = [(c.key, c.score, c.source) for c in walked.frontier]

    assert frontier == [(key, score, sources[key]) for key, (score, _) in best], (
        "of equals the first one met"
    )
    assert set(walked.cut_by) == cut
    assert ("total" in cut) == expected.stopped
