"""Walk from one memory along its links, without I/O: the walk asks for links and is sent links.

The walk goes depth first. From a memory it follows the best links until the memory has ``breadth``
children. If a link leads to a memory that was already reached by a path as short, the link takes no
place. If this path is shorter, the memory becomes a child here, and the walk continues from it,
because it may now go deeper. (With a plain visited set, a memory first met at the depth limit would
hide the memories that a shorter path to it lets in.)

Invariants: each memory is retrieved once, no memory has more than ``breadth`` children, and a
memory comes after its parent, one level below it.
"""

import heapq
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeVar

Cut = Literal["depth", "breadth", "total"]

State = Literal["present", "absent", "invalid"]
"""The state of a link's other end: "absent" means missing or archived."""

FRONTIER = 10
"""The most candidates that are shown at the end of a walk, the best first."""

RANK_ONE = 1_000_000
"""The rank of a link of weight 1 to a memory of score 1."""

MAX_SKIPPED = 1_000
"""The most missing links, and the most invalid ones, that are counted."""

_LIMITS: tuple[Cut, ...] = ("depth", "breadth", "total")


def compute_rank(weight: float, score: float) -> int:
    """Return a link's rank: weight times score in millionths, rounded half up.

    Integers keep the ties of the numbers as written, which products of floats may not.

    >>> compute_rank(0.6, 0.6) == compute_rank(0.4, 0.9), 0.6 * 0.6 == 0.4 * 0.9
    (True, False)
    """
    return int(weight * score * RANK_ONE + 0.5)


class WalkLimits(NamedTuple):
    """The bounds of a walk. The memory that it begins with counts toward ``total``."""

    depth: int
    breadth: int
    total: int


class WalkLink(NamedTuple):
    """A link as a store describes it, seen from the memory whose links were requested.

    ``key`` names the memory at its other end. ``rank`` comes from `compute_rank`, and is negative
    unless that memory is present. An ``incoming`` link leads from the other memory to this one.
    """

    key: str
    weight: float
    type: str
    rank: int
    state: State
    incoming: bool = False


class LinkRequest(NamedTuple):
    """A request for some of a memory's links, from the index ``offset`` on.

    Links are ordered by falling rank, falling weight and key, so absent ones come last. The walk
    needs ``needed`` of them for now; more may be sent.

    With ``among``, the walk needs only the links to these memories, and ``needed`` of the links to
    absent ones. They are sent in one answer, in any order; some may have been sent before. This is
    the last request for the links of that memory.
    """

    key: str
    offset: int
    needed: int
    among: frozenset[str] | None = None


class Candidate(NamedTuple):
    """A memory that was not retrieved, and the limit that cut it.

    The link to it belongs to the retrieved memory ``source``.
    """

    key: str
    source: str
    rank: int
    weight: float
    cut_by: Cut
    incoming: bool = False


T = TypeVar("T")

Conversation = Generator[LinkRequest, Sequence[WalkLink], T]
"""A generator that yields requests, is sent links, and returns a result."""


@dataclass(slots=True)
class Step:
    """A retrieved memory: ``link`` leads to it from ``parent``; the target has neither.

    ``kept`` are the best links to other retrieved memories, children or not. The other fields are
    for the walk itself: ``known`` are the links that the store sent; all of them if
    ``is_exhausted``. ``targets`` are the best links to each other present memory, best first; all
    of them if ``has_all_targets``. ``last_place`` is the last index in ``targets`` that was ever
    taken as a child. The search for candidates has passed the first ``looked_at`` targets.
    """

    key: str
    depth: int
    parent: "Step | None" = None
    link: WalkLink | None = None
    kept: list["tuple[Step, WalkLink]"] = field(default_factory=list["tuple[Step, WalkLink]"])
    children: int = 0
    known: list[WalkLink] = field(default_factory=list[WalkLink])
    is_exhausted: bool = False
    targets: list[WalkLink] = field(default_factory=list[WalkLink])
    has_all_targets: bool = False
    last_place: int = -1
    looked_at: int = 0

    def learn_targets(self, needed: int) -> Conversation[bool]:
        """Request links until there is another target; return False if there is none."""
        before = len(self.targets)
        seen = {self.key, *(link.key for link in self.targets)}
        while len(self.targets) == before and not self.has_all_targets:
            links = yield LinkRequest(self.key, len(self.known), needed)

            # A store decides how many links it sends at once. Only an empty answer means the end.
            self.known.extend(links)
            self.is_exhausted = self.has_all_targets = not links

            for link in links:
                if link.state == "absent":
                    self.has_all_targets = True  # absent ones rank last: no present one follows
                    break
                if link.state == "present" and link.key not in seen:
                    seen.add(link.key)
                    self.targets.append(link)

        return len(self.targets) > before

    def learn_rest(self, among: frozenset[str]) -> Conversation[Sequence[WalkLink]]:
        """Return all links to some memories and to absent ones, and any other known links."""
        if self.is_exhausted:
            return self.known

        rest = yield LinkRequest(self.key, len(self.known), MAX_SKIPPED, among)
        named = {(link.key, link.type, link.incoming): link for link in (*self.known, *rest)}
        return list(named.values())


@dataclass(slots=True)
class WalkOutcome:
    """The steps of a walk in the order of the answer, the target first, and its counts.

    ``duplicates`` counts links to retrieved memories other than children. ``cycles`` counts the
    duplicates that lead back to an ancestor of their memory. With ``has_more_frontier``, there are
    candidates beyond those in ``frontier``.
    """

    steps: list[Step]
    duplicates: int = 0
    missing: int = 0
    invalid: int = 0
    cycles: int = 0
    frontier: list[Candidate] = field(default_factory=list[Candidate])
    has_more_frontier: bool = False
    cut_by: list[Cut] = field(default_factory=list[Cut])


class Walk:
    """One walk; `run` is the conversation with the store that has the links."""

    def __init__(self, target: str, limits: WalkLimits) -> None:
        self._limits = limits
        self._retrieved = {target: Step(target, 0)}
        self._stopped = False
        self._outcome = WalkOutcome([])

    def run(self) -> Conversation[WalkOutcome]:
        """Walk. Each request is answered with the memory's next links, or none after the last."""
        (target,) = self._retrieved.values()

        yield from self._visit(target)
        self._list_steps(target)
        yield from self._find_frontier()

        among = frozenset(self._retrieved)
        for step in self._outcome.steps:
            if step.depth == self._limits.depth:
                continue

            if self._is_full(step):
                self._keep_links(step, step.targets[: step.last_place + 1])
                continue

            links = yield from step.learn_rest(among)
            self._keep_links(step, links)
            for link in links:
                self._outcome.missing += link.state == "absent"
                self._outcome.invalid += link.state == "invalid"

        self._outcome.missing = min(self._outcome.missing, MAX_SKIPPED)
        self._outcome.invalid = min(self._outcome.invalid, MAX_SKIPPED)
        return self._outcome

    def _visit(self, step: Step) -> Conversation[None]:
        """Retrieve the memories that a memory leads to, as far as the limits allow."""
        if step.depth == self._limits.depth:
            return

        place = 0
        below = step.depth + 1

        # A full memory takes no more children, but its own may now be reached by a shorter path.
        while step.children < self._limits.breadth or place <= step.last_place:
            if place == len(step.targets):
                needed = self._limits.breadth - step.children
                if not (yield from step.learn_targets(needed)):
                    return

            child = self._retrieved.get(step.targets[place].key)
            if child is None or child.depth > below:
                child = self._take(step, place, child)
                if child is not None:
                    child.depth = below
                    yield from self._visit(child)
                if self._stopped:
                    return

            place += 1

    def _take(self, parent: Step, place: int, child: Step | None) -> Step | None:
        """Make one of a memory's targets its child; return None if there is no room for it.

        ``child`` is the target's memory if it was retrieved before. It leaves its former parent.
        """
        if child is not None and child.parent is parent:
            return child
        if self._is_full(parent):
            return None

        if child is None:
            if len(self._retrieved) == self._limits.total:
                self._stopped = True
                return None
            key = parent.targets[place].key
            child = self._retrieved[key] = Step(key, parent.depth + 1)
        elif child.parent is not None:
            child.parent.children -= 1

        child.parent = parent
        parent.children += 1
        parent.last_place = max(parent.last_place, place)
        return child

    def _is_full(self, step: Step) -> bool:
        return step.children == self._limits.breadth

    def _list_steps(self, step: Step) -> None:
        """List a memory and its descendants, depth first and the best children first."""
        self._outcome.steps.append(step)

        last_place = -1
        for place, link in enumerate(step.targets[: step.last_place + 1]):
            child = self._retrieved.get(link.key)
            if child is None or child.parent is not step:
                continue

            last_place = place
            child.link = link
            # If the total stopped the walk, a child may still have the depth of a longer path.
            child.depth = step.depth + 1
            self._list_steps(child)

        step.last_place = last_place  # other memories may have taken former children

    def _keep_links(self, step: Step, links: Sequence[WalkLink]) -> None:
        """Keep the best link to each other retrieved memory, and count the duplicates."""
        ancestors: list[str] = []
        ancestor = step.parent
        while ancestor is not None:
            ancestors.append(ancestor.key)
            ancestor = ancestor.parent

        seen = {step.key}
        for link in links:
            other = self._retrieved.get(link.key)
            if link.state != "present" or other is None or link.key in seen:
                continue

            seen.add(link.key)
            step.kept.append((other, link))
            if other.parent is not step:
                self._outcome.duplicates += 1
                self._outcome.cycles += other.key in ancestors

    def _find_frontier(self) -> Conversation[None]:
        """Find the best candidates, and the limits that cut any.

        Each memory's candidates come best first, so only a few of its links are requested.
        """
        waiting: list[tuple[tuple[int, float, str], int, Candidate]] = []
        best: dict[str, Candidate] = {}
        reached: set[Cut] = set()

        for place, step in enumerate(self._outcome.steps):
            candidate = yield from self._find_candidate(step)
            if candidate is not None:
                heapq.heappush(waiting, (_order_by_rank(candidate), place, candidate))
                reached.add(candidate.cut_by)

        # Among equals the first one listed is kept. One more than is shown means there are more.
        while waiting and len(best) <= FRONTIER:
            _, place, candidate = heapq.heappop(waiting)
            best.setdefault(candidate.key, candidate)
            following = yield from self._find_candidate(self._outcome.steps[place])
            if following is not None:
                heapq.heappush(waiting, (_order_by_rank(following), place, following))

        self._outcome.frontier = list(best.values())[:FRONTIER]
        self._outcome.has_more_frontier = len(best) > FRONTIER
        self._outcome.cut_by = [limit for limit in _LIMITS if limit in reached]

    def _find_candidate(self, step: Step) -> Conversation[Candidate | None]:
        """Return the next target of a memory that was not retrieved, if there is one."""
        # If a memory lost a child to a nearer parent, it is not full, and yet the breadth cut it.
        cut: Cut = "breadth"
        if step.depth == self._limits.depth:
            cut = "depth"
        elif len(self._retrieved) == self._limits.total and not self._is_full(step):
            cut = "total"

        while step.looked_at < len(step.targets) or (yield from step.learn_targets(1)):
            link = step.targets[step.looked_at]
            step.looked_at += 1
            if link.key not in self._retrieved:
                return Candidate(link.key, step.key, link.rank, link.weight, cut, link.incoming)

        return None


def _order_by_rank(candidate: Candidate) -> tuple[int, float, str]:
    return -candidate.rank, -candidate.weight, candidate.key
