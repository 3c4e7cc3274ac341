"""Two oracles of the walk, of different structure and written from its definition alone.

Both take whole graphs and think of nothing else: no pages, no requests, no bounds on reading. The
first follows the definition word by word, with recursion. The second has no recursion and no
counters: it keeps one table of children, and asks it anew for each link.
"""

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
