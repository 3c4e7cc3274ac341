"""Two oracles of the walk, of different structure and written from its definition alone.

Both take whole graphs and think of nothing else: no pages, no requests, no bounds on reading.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from abilities.declarations.memory import Direction
from abilities.helpers.walk import WalkLimits, WalkLink, WalkOutcome
from tests.support.graphs import Graph


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
    """Return what a walk answered in the oracles' words."""
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


Retrieve = Callable[["_Choices", str, WalkLimits], tuple[set[str], bool]]
Arrange = Callable[["_Choices", str, set[str], WalkLimits], tuple[list[str], dict[str, int]]]


class _Choices:
    """The choice of any memory: the best links to the best other present memories."""

    def __init__(self, graph: Graph, direction: Direction, breadth: int) -> None:
        self._graph = graph
        self._direction: Direction = direction
        self._breadth = breadth
        self._links: dict[str, list[WalkLink]] = {}
        self._of: dict[str, dict[str, WalkLink]] = {}

    def list_links(self, key: str) -> list[WalkLink]:
        if key not in self._graph.edges or key in self._graph.missing:
            return []

        if key not in self._links:
            self._links[key] = self._graph.list_links(key, self._direction)
        return self._links[key]

    def of(self, key: str) -> dict[str, WalkLink]:
        if key not in self._of:
            best: dict[str, WalkLink] = {}
            for link in self.list_links(key):
                if link.state == "present" and link.key != key and link.key not in best:
                    best[link.key] = link
            self._of[key] = dict(list(best.items())[: self._breadth])

        return self._of[key]


def expect_by_recursion(
    graph: Graph, target: str, limits: WalkLimits, direction: Direction = "out"
) -> Expected:
    """Visit recursively, then place each memory by the least of all its paths from the target."""
    return _expect(graph, target, limits, direction, _retrieve_recursively, _arrange_by_paths)


def expect_by_sets(
    graph: Graph, target: str, limits: WalkLimits, direction: Direction = "out"
) -> Expected:
    """Retrieve with an explicit stack, or all within reach, and arrange over a distance table."""
    return _expect(graph, target, limits, direction, _retrieve_with_a_stack, _arrange_by_distance)


def _retrieve_recursively(
    choices: _Choices, target: str, limits: WalkLimits
) -> tuple[set[str], bool]:
    met = {target: 0}

    def visit(memory: str, depth: int) -> bool:
        """Return whether the total stopped the walk."""
        if depth == limits.depth:
            return False

        for key in choices.of(memory):
            if key not in met:
                if len(met) == limits.total:
                    return True
                met[key] = depth + 1
                if visit(key, depth + 1):
                    return True
            elif met[key] > depth + 1:
                met[key] = depth + 1
                if visit(key, depth + 1):
                    return True

        return False

    stopped = visit(target, 0)
    return set(met), stopped


def _retrieve_with_a_stack(
    choices: _Choices, target: str, limits: WalkLimits
) -> tuple[set[str], bool]:
    """Try every way that is not longer than `depth`, in order; stop at one memory too many."""
    retrieved = {target: limits.depth}  # with the most steps that were ever left there
    stack = [(key, limits.depth - 1) for key in reversed(choices.of(target))]

    while stack:
        key, left = stack.pop()
        if key not in retrieved and len(retrieved) == limits.total:
            return set(retrieved), True

        if left > retrieved.get(key, -1):
            retrieved[key] = left
            if left > 0:
                stack += [(target, left - 1) for target in reversed(choices.of(key))]

    within_reach = {target}
    for _ in range(limits.depth):
        within_reach |= {key for memory in within_reach for key in choices.of(memory)}

    assert within_reach == set(retrieved)
    return within_reach, False


def _arrange_by_paths(
    choices: _Choices, target: str, retrieved: set[str], limits: WalkLimits
) -> tuple[list[str], dict[str, int]]:
    """Give each memory its shortest path, of those the first one by places in the choices."""
    paths: dict[str, tuple[int, ...]] = {target: ()}

    for depth in range(limits.depth):
        level = {key: path for key, path in paths.items() if len(path) == depth}
        for memory, path in level.items():
            for place, key in enumerate(choices.of(memory)):
                candidate = (*path, place)
                if key in retrieved and (key not in paths or len(paths[key]) > depth):
                    paths[key] = min(paths.get(key, candidate), candidate)

    return sorted(paths, key=lambda key: paths[key]), {key: len(paths[key]) for key in paths}


def _arrange_by_distance(
    choices: _Choices, target: str, retrieved: set[str], limits: WalkLimits
) -> tuple[list[str], dict[str, int]]:
    """Relax distances until nothing changes, then list depth first, each memory at its first."""
    far = limits.depth + 1
    distance = dict.fromkeys(retrieved, far) | {target: 0}

    for _ in retrieved:
        for memory in retrieved:
            for key in choices.of(memory).keys() & retrieved:
                distance[key] = min(distance[key], distance[memory] + 1)

    order: list[str] = []

    def list_from(memory: str) -> None:
        order.append(memory)
        for key in choices.of(memory):
            if key in retrieved and key not in order and distance[key] == distance[memory] + 1:
                list_from(key)

    list_from(target)
    return order, distance


def _expect(
    graph: Graph,
    target: str,
    limits: WalkLimits,
    direction: Direction,
    retrieve: Retrieve,
    arrange: Arrange,
) -> Expected:
    choices = _Choices(graph, direction, limits.breadth)
    retrieved, stopped = retrieve(choices, target, limits)
    order, depth = arrange(choices, target, retrieved, limits)
    parent: dict[str, str] = {}
    link: dict[str, WalkLink] = {}
    shared = missing = invalid = 0

    for key in order[1:]:
        parent[key] = next(
            memory
            for memory in order
            if depth[memory] == depth[key] - 1 and key in choices.of(memory)
        )
        link[key] = choices.of(parent[key])[key]

    for memory in order:
        if depth[memory] < limits.depth:
            shared += len(choices.of(memory).keys() & retrieved)
            if len(choices.of(memory)) < limits.breadth:
                states = [link.state for link in choices.list_links(memory)]
                missing += states.count("absent")
                invalid += states.count("invalid")

    expected = Expected(
        order,
        depth,
        parent,
        link,
        duplicates=shared - len(order) + 1,
        missing=min(missing, 1_000),
        invalid=min(invalid, 1_000),
        stopped=stopped,
    )
    _add_frontier(expected, choices, retrieved, limits)
    return expected


def _add_frontier(
    expected: Expected, choices: _Choices, retrieved: set[str], limits: WalkLimits
) -> None:
    candidates: list[tuple[int, float, str, int, str, str]] = []

    for place, memory in enumerate(expected.order):
        for link in choices.list_links(memory):
            if link.state != "present" or link.key in retrieved:
                continue

            cut = "breadth"
            if expected.depth[memory] == limits.depth:
                cut = "depth"
            elif link.key in choices.of(memory):
                cut = "total"
            candidates.append((-link.rank, -link.weight, link.key, place, memory, cut))

    best: dict[str, tuple[str, str, int, str]] = {}
    for negative_rank, _, key, _, memory, cut in sorted(candidates):
        best.setdefault(key, (key, memory, -negative_rank, cut))

    cuts = {cut for *_, cut in candidates}
    expected.frontier = list(best.values())[:10]
    expected.has_more_frontier = len(best) > 10
    expected.limits_reached = [name for name in ("depth", "breadth", "total") if name in cuts]
