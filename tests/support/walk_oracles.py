"""Graphs of memories to walk over, and two oracles of the walk, written from its definition alone.

The oracles take whole graphs and think of nothing else: no pages, no requests, no bounds on
reading. The first follows the definition word by word, with recursion. The second has no recursion
and no counters: it keeps one table of children, and asks it anew for each link.
"""

import random
from dataclasses import dataclass, field
from typing import NamedTuple

from abilities.declarations.memory import Direction
from abilities.helpers.walk import (
    LinkRequest,
    Walk,
    WalkLimits,
    WalkLink,
    WalkOutcome,
    compute_rank,
)


class Edge(NamedTuple):
    """A link of a memory that is known from elsewhere."""

    target: str
    weight: float
    type: str = "association"


Edges = dict[str, list[Edge]]


@dataclass
class Graph:
    """Memories by key: their links, their scores, and which of them do not exist or are damaged.

    ``invalid`` are damaged links, by source, target and type.
    """

    edges: Edges
    scores: dict[str, float] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)
    archived: set[str] = field(default_factory=set)
    invalid: set[tuple[str, str, str]] = field(default_factory=set)

    def list_links(self, key: str, direction: Direction = "out") -> list[WalkLink]:
        """All links of a memory, best first, as a store tells them."""
        links: list[WalkLink] = []
        if direction != "in" and key not in self.missing:
            for edge in self.edges.get(key, []):
                links.append(self._make_link(key, edge, edge.target, incoming=False))
        if direction != "out":
            for source in self.edges.keys() - self.missing:
                for edge in self.edges[source]:
                    if edge.target == key:
                        links.append(self._make_link(source, edge, source, incoming=True))
        return sorted(links, key=_order)

    def _make_link(self, source: str, edge: Edge, end: str, *, incoming: bool) -> WalkLink:
        if (source, edge.target, edge.type) in self.invalid:
            return WalkLink(end, 0.0, edge.type, -2, "invalid", incoming=incoming)
        if end in self.missing | self.archived:
            return WalkLink(end, edge.weight, edge.type, -1, "absent", incoming=incoming)
        rank = compute_rank(edge.weight, self.scores.get(end, 1.0))
        return WalkLink(end, edge.weight, edge.type, rank, "present", incoming=incoming)


def _order(link: WalkLink) -> tuple[object, ...]:
    return -link.rank, -link.weight, link.key, link.type, link.incoming


def build_graph(**edges: str) -> Graph:
    """Build a graph from words, for example ``build_graph(A="B C")``; links in falling weight."""
    return Graph(
        {
            key: [Edge(target, 1 - n / 100) for n, target in enumerate(targets.split())]
            for key, targets in edges.items()
        }
    )


def walk(
    graph: Graph, target: str, limits: WalkLimits, direction: Direction = "out", page: int = 3
) -> WalkOutcome:
    """Run a walk over a graph that sends ``page`` links at a time.

    Of the rest of the links it sends what was asked for, or with even pages all of them.
    """
    conversation = Walk(target, limits).run()
    request: LinkRequest = next(conversation)
    links: dict[str, list[WalkLink]] = {}

    while True:
        if request.key not in links:
            links[request.key] = graph.list_links(request.key, direction)

        answer = links[request.key][request.offset :]
        if request.among is None:
            answer = answer[:page]
        elif page % 2:
            answer = _choose_rest(answer, request)

        try:
            request = conversation.send(answer)
        except StopIteration as end:
            outcome: WalkOutcome = end.value
            return outcome


def _choose_rest(links: list[WalkLink], request: LinkRequest) -> list[WalkLink]:
    among = request.among or frozenset()
    asked_for = [link for link in links if link.state == "present" and link.key in among]
    unusable = [link for link in links if link.state != "present"]
    return unusable[: request.needed] + asked_for


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
            Edge(target, weight, kind) for (target, kind), weight in weights_by_link.items()
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
class Expected:
    """What a walk must answer."""

    order: list[str]
    depth: dict[str, int]
    parent: dict[str, str]
    link: dict[str, WalkLink]
    duplicates: int
    missing: int
    invalid: int
    stopped: bool
    frontier: list[tuple[str, str, int, str]] = field(default_factory=list)
    """Up to ten candidates: key, source, rank, limit."""
    has_more_frontier: bool = False
    limits_reached: list[str] = field(default_factory=list)


def describe(walked: WalkOutcome) -> Expected:
    later = walked.steps[1:]
    return Expected(
        order=[step.key for step in walked.steps],
        depth={step.key: step.depth for step in walked.steps},
        parent={step.key: step.parent.key for step in later if step.parent},
        link={step.key: step.link for step in later if step.link},
        duplicates=walked.duplicates,
        missing=walked.missing,
        invalid=walked.invalid,
        stopped="total" in walked.cut_by,
        frontier=[(c.key, c.source, c.rank, c.cut_by) for c in walked.frontier],
        has_more_frontier=walked.has_more_frontier,
        limits_reached=list(walked.cut_by),
    )


Children = dict[str, list[str]]
"""Each retrieved memory's children, in the order of its links."""


class _Links:
    """The links of each memory, and the best one to each other present memory."""

    def __init__(self, graph: Graph, direction: Direction) -> None:
        self._graph = graph
        self._direction: Direction = direction
        self._links: dict[str, list[WalkLink]] = {}

    def list_all(self, key: str) -> list[WalkLink]:
        if key not in self._graph.edges or key in self._graph.missing:
            return []
        if key not in self._links:
            self._links[key] = self._graph.list_links(key, self._direction)
        return self._links[key]

    def list_best(self, key: str) -> dict[str, WalkLink]:
        best: dict[str, WalkLink] = {}
        for link in self.list_all(key):
            if link.state == "present" and link.key != key:
                best.setdefault(link.key, link)
        return best


def expect_by_recursion(
    graph: Graph, target: str, limits: WalkLimits, direction: Direction = "out"
) -> Expected:
    """Visit recursively, as the definition says."""
    links = _Links(graph, direction)
    depth = {target: 0}
    parent: dict[str, str] = {}

    def count_children(memory: str) -> int:
        return sum(other == memory for other in parent.values())

    def visit(memory: str) -> bool:
        """Return whether the total stopped the walk."""
        if depth[memory] == limits.depth:
            return False

        below = depth[memory] + 1
        for key in links.list_best(memory):
            if key == target:
                continue

            if parent.get(key) == memory:
                if depth[key] > below:
                    depth[key] = below
                    if visit(key):
                        return True
            elif count_children(memory) < limits.breadth and depth.get(key, below + 1) > below:
                if key not in depth and len(depth) == limits.total:
                    return True
                depth[key] = below
                parent[key] = memory
                if visit(key):
                    return True
        return False

    visit(target)
    children: Children = {
        memory: [key for key in links.list_best(memory) if parent.get(key) == memory]
        for memory in depth
    }
    return _expect(links, target, children, limits)


def expect_by_agenda(
    graph: Graph, target: str, limits: WalkLimits, direction: Direction = "out"
) -> Expected:
    """Take links off an agenda, and move memories within a table of children."""
    links = _Links(graph, direction)
    children: Children = {target: []}
    met = {target: 0}
    agenda = [(target, 0, key) for key in reversed(links.list_best(target))]

    while agenda:
        memory, depth, key = agenda.pop()
        if key == target or (key in met and met[key] <= depth + 1):
            continue

        if key not in children[memory]:
            if len(children[memory]) == limits.breadth:
                continue
            if key not in met and len(met) == limits.total:
                break

            for others in children.values():
                if key in others:
                    others.remove(key)
            children[memory].append(key)
            children.setdefault(key, [])

        met[key] = depth + 1
        if depth + 1 < limits.depth:
            agenda += [(key, depth + 1, other) for other in reversed(links.list_best(key))]

    for memory, others in children.items():
        others.sort(key=list(links.list_best(memory)).index)
    return _expect(links, target, children, limits)


def _expect(links: _Links, target: str, children: Children, limits: WalkLimits) -> Expected:
    """Return what follows from the tree."""
    expected = Expected(
        order=[], depth={}, parent={}, link={}, duplicates=0, missing=0, invalid=0, stopped=False
    )

    def list_from(memory: str, depth: int) -> None:
        expected.order.append(memory)
        expected.depth[memory] = depth
        for key in children[memory]:
            expected.parent[key] = memory
            expected.link[key] = links.list_best(memory)[key]
            list_from(key, depth + 1)

    list_from(target, 0)
    assert sorted(expected.order) == sorted(children), "all that was retrieved hangs on the target"

    for memory in expected.order:
        if expected.depth[memory] == limits.depth:
            continue

        looked_at = list(links.list_best(memory))
        if len(children[memory]) == limits.breadth:
            looked_at = looked_at[: looked_at.index(children[memory][-1])]
        else:
            states = [link.state for link in links.list_all(memory)]
            expected.missing += states.count("absent")
            expected.invalid += states.count("invalid")

        for key in looked_at:
            expected.duplicates += key in children and key not in children[memory]

    expected.missing = min(expected.missing, 1_000)
    expected.invalid = min(expected.invalid, 1_000)
    _add_frontier(expected, links, children, limits)
    return expected


def _add_frontier(
    expected: Expected, links: _Links, children: Children, limits: WalkLimits
) -> None:
    candidates: list[tuple[int, float, str, int, str, str]] = []

    for place, memory in enumerate(expected.order):
        cut = "breadth"
        if expected.depth[memory] == limits.depth:
            cut = "depth"
        elif len(children[memory]) < limits.breadth and len(children) == limits.total:
            cut = "total"

        for key, link in links.list_best(memory).items():
            if key not in children:
                candidates.append((-link.rank, -link.weight, key, place, memory, cut))

    best: dict[str, tuple[str, str, int, str]] = {}
    for negative_rank, _, key, _, memory, cut in sorted(candidates):
        best.setdefault(key, (key, memory, -negative_rank, cut))

    cuts = {cut for *_, cut in candidates}
    expected.frontier = list(best.values())[:10]
    expected.has_more_frontier = len(best) > 10
    expected.limits_reached = [name for name in ("depth", "breadth", "total") if name in cuts]
    expected.stopped = "total" in cuts
