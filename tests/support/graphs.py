"""Graphs of memories to walk over, without a store: by hand, or random."""

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
