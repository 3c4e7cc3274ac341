"""The walk from one memory along its links; sans-IO: it asks for links and is sent links.

The walk goes depth first. From a memory it follows the links of the best rank until the memory has
``breadth`` children. A link to a memory that is in the answer by as short a way takes no place; one
that is a longer way there becomes a child here, and the walk goes on from it with the larger
remainder of depth. (With a plain visited set, a memory first met at the depth limit would hide what
a shorter way to it allows.)

Invariants: each memory is retrieved once, no memory has more than ``breadth`` children, and a
memory comes after its parent and one level below it.
"""

import heapq
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeVar

Cut = Literal["depth", "breadth", "total"]

State = Literal["present", "absent", "invalid"]
"""Of the memory at a link's other end; absent is one that is missing or archived."""

FRONTIER = 10
"""How many of the best candidates that were not retrieved are shown at the end of a walk."""

RANK_ONE = 1_000_000
"""The rank of a link of weight 1 to a memory of score 1."""

MAX_SKIPPED = 1_000
"""How many missing and how many invalid links are counted; a memory may have any number."""

_LIMITS: tuple[Cut, ...] = ("depth", "breadth", "total")


def compute_rank(weight: float, score: float) -> int:
    """Return a link's rank: weight times score in millionths, rounded half up.

    Integers decide ties as the numbers were written: 0.6 x 0.6 equals 0.4 x 0.9, which the products
    of floats do not.
    """
    return int(weight * score * RANK_ONE + 0.5)


class WalkLimits(NamedTuple):
    """How far a walk goes; the target counts into ``total``."""

    depth: int
    breadth: int
    total: int


class WalkLink(NamedTuple):
    """A link as a store describes it, seen from the memory whose links were requested.

    ``key`` is the memory at its other end. ``rank`` comes from `compute_rank`; it is negative
    unless that memory is present. ``incoming`` says that the link leads from there to here.
    """

    key: str
    weight: float
    type: str
    rank: int
    state: State
    incoming: bool = False


class LinkRequest(NamedTuple):
    """A request for some of a memory's links, beginning after ``offset`` of them.

    They are ordered by falling rank, falling weight and key, so absent ones come last. Only
    ``needed`` of them are needed for now; more may be sent.

    With ``among``, all that is needed are the links to these memories, and ``needed`` of the links
    to absent ones. They come in one answer, in any order; some may have been sent before. It is
    the last request for the links of that memory.
    """

    key: str
    offset: int
    needed: int
    among: frozenset[str] | None = None


@dataclass(slots=True)
class Step:
    """A retrieved memory in its place: ``parent`` and ``link`` are its last step from the target.

    ``kept`` are the links to its children, and those passed over because they lead to other
    retrieved memories.
    """

    key: str
    depth: int
    parent: "Step | None" = None
    link: WalkLink | None = None
    kept: list["tuple[Step, WalkLink]"] = field(default_factory=list["tuple[Step, WalkLink]"])


class Candidate(NamedTuple):
    """A memory that was not retrieved, and the limit that cut it; ``source`` has the link to it."""

    key: str
    source: str
    rank: int
    weight: float
    cut_by: Cut
    incoming: bool = False

    @classmethod
    def build(cls, step: Step, link: WalkLink, cut_by: Cut) -> "Candidate":
        """Return the candidate that a link of a retrieved memory leads to."""
        return cls(link.key, step.key, link.rank, link.weight, cut_by, link.incoming)


@dataclass(slots=True)
class WalkOutcome:
    """A walk's steps in the order of the answer, the target first, and what it counted.

    ``duplicates`` counts the links passed over because they lead to retrieved memories, and
    ``cycles`` those of them that lead back to a memory on the way there.
    ``has_more_frontier`` says whether candidates beyond the frontier were cut too.
    """

    steps: list[Step]
    duplicates: int = 0
    missing: int = 0
    invalid: int = 0
    cycles: int = 0
    frontier: list[Candidate] = field(default_factory=list[Candidate])
    has_more_frontier: bool = False
    cut_by: list[Cut] = field(default_factory=list[Cut])


T = TypeVar("T")

Conversation = Generator[LinkRequest, Sequence[WalkLink], T]
"""Yields requests and is sent links, until it returns a result."""


@dataclass(slots=True)
class _Memory:
    """A retrieved memory while the walk goes on.

    ``known`` are the links that the store sent, all of them if ``is_exhausted``. ``targets`` are
    the other present memories that they lead to, best first, each with the best link to it; all of
    them if ``has_all_targets``. ``last_place`` is the place among the targets of the last one that
    was ever taken as a child. The frontier knows the first ``looked_at`` targets.
    """

    key: str
    depth: int
    parent: "_Memory | None" = None
    children: int = 0
    last_place: int = -1
    looked_at: int = 0
    known: list[WalkLink] = field(default_factory=list[WalkLink])
    is_exhausted: bool = False
    targets: list[WalkLink] = field(default_factory=list[WalkLink])
    has_all_targets: bool = False
    _seen: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self._seen = {self.key}

    def learn_targets(self, needed: int) -> Conversation[bool]:
        """Learn of more targets; return whether there are any."""
        before = len(self.targets)
        while len(self.targets) == before and not self.has_all_targets:
            links = yield LinkRequest(self.key, len(self.known), needed)

            # A store decides how many links it sends at once; only an empty answer ends them.
            self.known.extend(links)
            self.is_exhausted = self.has_all_targets = not links

            for link in links:
                if link.state == "absent":
                    self.has_all_targets = True  # absent ones rank last: no present one follows
                    break
                if link.state == "present" and link.key not in self._seen:
                    self._seen.add(link.key)
                    self.targets.append(link)

        return len(self.targets) > before

    def learn_rest(self, among: frozenset[str]) -> Conversation[Sequence[WalkLink]]:
        """Return the links to some memories and to absent ones, and what else is known."""
        if self.is_exhausted:
            return self.known

        rest = yield LinkRequest(self.key, len(self.known), MAX_SKIPPED, among)
        named = {(link.key, link.type, link.incoming): link for link in (*self.known, *rest)}
        return list(named.values())


class Walk:
    """One walk; `run` is the conversation with a store, which knows the links."""

    def __init__(self, target: str, limits: WalkLimits) -> None:
        self._limits = limits
        self._retrieved = {target: _Memory(target, 0)}
        self._stopped = False
        self._steps = {target: Step(target, 0)}
        self._outcome = WalkOutcome([])

    def run(self) -> Conversation[WalkOutcome]:
        """Walk. Each request is answered with that memory's next links, none after the last."""
        (target,) = self._retrieved.values()

        yield from self._visit(target)
        self._list_steps(target)
        yield from self._find_frontier()
        yield from self._count_skipped()

        return self._outcome

    def _visit(self, memory: _Memory) -> Conversation[None]:
        """Retrieve what a memory's links lead to, as far as the limits allow."""
        if memory.depth == self._limits.depth:
            return

        place = 0
        below = memory.depth + 1

        # A full memory takes no more children, but those that it has may have come nearer.
        while memory.children < self._limits.breadth or place <= memory.last_place:
            if place == len(memory.targets):
                needed = self._limits.breadth - memory.children
                if not (yield from memory.learn_targets(needed)):
                    return

            child = self._retrieved.get(memory.targets[place].key)
            if child is None or child.depth > below:
                child = self._take(memory, place, child)
                if child is not None:
                    child.depth = below
                    yield from self._visit(child)
                if self._stopped:
                    return

            place += 1

    def _take(self, parent: _Memory, place: int, child: _Memory | None) -> _Memory | None:
        """Take one of a memory's targets as its child; return None if there is no room for it.

        A child that another memory had leaves it.
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
            child = self._retrieved[key] = _Memory(key, parent.depth + 1)
        elif child.parent is not None:
            child.parent.children -= 1

        child.parent = parent
        parent.children += 1
        parent.last_place = max(parent.last_place, place)
        return child

    def _is_full(self, memory: _Memory) -> bool:
        return memory.children == self._limits.breadth

    def _list_steps(self, memory: _Memory) -> None:
        """List a memory and what is below it, depth first and the best children first."""
        step = self._steps[memory.key]
        self._outcome.steps.append(step)

        last_place = -1
        for place, link in enumerate(memory.targets[: memory.last_place + 1]):
            child = self._retrieved.get(link.key)
            if child is None or child.parent is not memory:
                continue

            last_place = place
            # If the total stopped the walk, a child may still have the depth of a longer way.
            child.depth = memory.depth + 1
            self._steps[child.key] = Step(child.key, child.depth, step, link)
            self._list_steps(child)

        memory.last_place = last_place  # other memories may have taken former children

    def _count_skipped(self) -> Conversation[None]:
        """Count the links that were passed over, and link the steps that they lead to."""
        among = frozenset(self._retrieved)

        for step in self._outcome.steps:
            memory = self._retrieved[step.key]
            if step.depth == self._limits.depth:
                continue

            if self._is_full(memory):
                self._keep_links(step, memory.targets[: memory.last_place + 1])
                continue

            links = yield from memory.learn_rest(among)
            self._keep_links(step, links)
            self._count_unusable(links)

    def _keep_links(self, step: Step, links: Sequence[WalkLink]) -> None:
        """Keep the best link to each other retrieved memory, and count those passed over."""
        seen = {step.key}
        for link in links:
            other = self._steps.get(link.key)
            if link.state != "present" or other is None or link.key in seen:
                continue

            seen.add(link.key)
            step.kept.append((other, link))
            if other.parent is not step:
                self._outcome.duplicates += 1
                self._outcome.cycles += _is_ancestor(other, step)

    def _count_unusable(self, links: Sequence[WalkLink]) -> None:
        """Count the links that lead to absent memories and those that are invalid."""
        outcome = self._outcome
        for link in links:
            outcome.missing += link.state == "absent"
            outcome.invalid += link.state == "invalid"

        outcome.missing = min(outcome.missing, MAX_SKIPPED)
        outcome.invalid = min(outcome.invalid, MAX_SKIPPED)

    def _find_frontier(self) -> Conversation[None]:
        """Find the best candidates that were not retrieved, and the limits that cut any.

        Each memory's candidates come best first, so that few of its links have to be looked at.
        """
        waiting: list[tuple[tuple[int, float, str], int, Candidate]] = []
        best: dict[str, Candidate] = {}
        reached: set[Cut] = set()

        for place, step in enumerate(self._outcome.steps):
            candidate = yield from self._find_candidate(step)
            if candidate is not None:
                heapq.heappush(waiting, (_order_by_rank(candidate), place, candidate))
                reached.add(candidate.cut_by)

        # Of equals the first one listed stays. One more than is shown tells that there are more.
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
        """Return the next memory that a memory's links lead to and that was not retrieved."""
        memory = self._retrieved[step.key]

        while memory.looked_at < len(memory.targets) or (yield from memory.learn_targets(1)):
            link = memory.targets[memory.looked_at]
            memory.looked_at += 1
            if link.key not in self._retrieved:
                return Candidate.build(step, link, self._find_cut(memory))

        return None

    def _find_cut(self, memory: _Memory) -> Cut:
        """Return the limit that cut what a memory's other links lead to."""
        if memory.depth == self._limits.depth:
            return "depth"

        # A memory that lost a child to a nearer one is not full, and yet the breadth cut it.
        is_total = len(self._retrieved) == self._limits.total
        if is_total and not self._is_full(memory):
            return "total"

        return "breadth"


def _order_by_rank(candidate: Candidate) -> tuple[int, float, str]:
    return -candidate.rank, -candidate.weight, candidate.key


def _is_ancestor(ancestor: Step, step: Step) -> bool:
    """Return whether a memory stands on the way from the target to another one."""
    parent = step.parent
    while parent is not None:
        if parent is ancestor:
            return True
        parent = parent.parent

    return False
