"""The walk from one memory along its links; sans-IO: it asks for links and is sent links.

A memory's *choice* is the ``breadth`` other memories that its links rank best. It depends on
nothing but those links, so a memory never brings more than ``breadth`` others into a walk.

The walk retrieves memories depth first along their choices. If it meets a memory again on a shorter
way, it goes on from there with the larger remainder of depth. (With a plain visited set, a memory
first met at the depth limit would hide what a shorter way to it allows.) Then it arranges what it
retrieved as a tree of shortest ways, and lists that tree depth first.

Invariants: unless the total stopped the walk, it retrieved every memory within ``depth`` steps of
the target over choices. A memory stands after its parent and one level below it, and no memory has
more than ``breadth`` children.
"""

import heapq
from collections.abc import Generator, Iterator, Sequence
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

    They are ordered by falling rank, falling weight and key, so absent ones come last. So many
    are ``needed`` for now: to read and check more may be in vain.
    """

    key: str
    offset: int
    needed: int


@dataclass(slots=True)
class Step:
    """A retrieved memory in its place: ``parent`` and ``link`` are its last step from the target.

    ``kept`` are the links of its choice that lead to retrieved memories, best first.
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

    ``cycles`` counts links of a choice that lead back to a memory on the way there.
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

    ``met_depth`` is the least depth at which it was met. ``known`` are the links that the store
    sent, all of them if ``exhausted``. The frontier knows the first ``looked_at`` of them.
    """

    key: str
    met_depth: int
    choice: list[WalkLink] | None = None
    known: list[WalkLink] = field(default_factory=list[WalkLink])
    exhausted: bool = False
    looked_at: int = 0

    def learn_links(self, needed: int) -> Conversation[bool]:
        """Ask for the links after the known ones; return whether there are any."""
        # A store decides how many links it sends at once; only an empty answer ends them.
        if not self.exhausted:
            links = yield LinkRequest(self.key, len(self.known), needed)
            self.known.extend(links)
            self.exhausted = not links

        return not self.exhausted


class Walk:
    """One walk; `run` is the conversation with a store, which knows the links."""

    def __init__(self, target: str, limits: WalkLimits) -> None:
        self._limits = limits
        self._retrieved = {target: _Memory(target, 0)}
        self._stopped = False
        self._outcome = WalkOutcome([Step(target, 0)])

    def run(self) -> Conversation[WalkOutcome]:
        """Walk. Each request is answered with that memory's next links, none after the last."""
        (target,) = self._retrieved.values()

        yield from self._visit(target, 0)
        yield from self._arrange()
        yield from self._count_skipped()
        yield from self._find_frontier()

        return self._outcome

    def _visit(self, memory: _Memory, depth: int) -> Conversation[None]:
        """Retrieve what a memory's choice leads to, as far as the limits allow."""
        if depth == self._limits.depth:
            return

        choice = yield from self._choose(memory)
        for link in choice:
            existing = self._retrieved.get(link.key)

            if existing is None:
                if len(self._retrieved) == self._limits.total:
                    self._stopped = True
                    return
                existing = self._retrieved[link.key] = _Memory(link.key, depth + 1)
            elif existing.met_depth > depth + 1:
                existing.met_depth = depth + 1
            else:
                continue  # a way that is not shorter allows nothing new

            yield from self._visit(existing, depth + 1)
            if self._stopped:
                return

    def _choose(self, memory: _Memory) -> Conversation[list[WalkLink]]:
        """Return a memory's choice: the best link to each of the best other present memories."""
        if memory.choice is not None:
            return memory.choice

        chosen: dict[str, WalkLink] = {}
        position = 0

        while needed := self._limits.breadth - len(chosen):
            if position == len(memory.known) and not (yield from memory.learn_links(needed)):
                break

            link = memory.known[position]
            if link.state == "absent":
                break  # absent ones rank last: no present one follows

            position += 1
            if link.state == "present" and link.key != memory.key and link.key not in chosen:
                chosen[link.key] = link

        memory.choice = list(chosen.values())
        return memory.choice

    def _arrange(self) -> Conversation[None]:
        """Arrange what was retrieved as a tree of shortest ways, and list it depth first.

        Level by level, and within a level in the order of the answer, a memory takes those of its
        choice that have no parent yet.
        """
        (target,) = self._outcome.steps
        placed = {target.key: target}
        children: dict[str, list[Step]] = {}
        queue = [target]

        for step in queue:
            children[step.key] = []
            if step.depth == self._limits.depth:
                continue

            for link in (yield from self._choose(self._retrieved[step.key])):
                if link.key not in self._retrieved:
                    continue

                child = placed.get(link.key)
                if child is None:
                    child = placed[link.key] = Step(link.key, step.depth + 1, step, link)
                    children[step.key].append(child)
                    queue.append(child)

                step.kept.append((child, link))
                self._outcome.cycles += _is_ancestor(child, step)

            self._outcome.duplicates += len(step.kept) - len(children[step.key])

        self._outcome.steps = list(_list_depth_first(target, children))

    def _count_skipped(self) -> Conversation[None]:
        """Count the absent and invalid links of memories whose choice is not full."""
        outcome = self._outcome

        for step in outcome.steps:
            memory = self._retrieved[step.key]
            if step.depth == self._limits.depth or len(memory.choice or ()) == self._limits.breadth:
                continue

            position = 0
            while position < len(memory.known) or (yield from memory.learn_links(MAX_SKIPPED)):
                state = memory.known[position].state
                position += 1
                outcome.missing += state == "absent"
                outcome.invalid += state == "invalid"
                if MAX_SKIPPED in (outcome.missing, outcome.invalid):
                    return

    def _find_frontier(self) -> Conversation[None]:
        """Find the best candidates that were not retrieved, and the limits that cut any.

        Each memory's candidates come best first, so that few of its links have to be looked at.
        """
        waiting: list[tuple[tuple[int, float, str], int, Candidate]] = []
        best: dict[str, Candidate] = {}
        reached: set[Cut] = set()

        for place, step in enumerate(self._outcome.steps):
            while candidate := (yield from self._find_candidate(step)):
                heapq.heappush(waiting, (_order_by_rank(candidate), place, candidate))
                reached.add(candidate.cut_by)
                # Only behind those that the total cut, it shows whether another limit cut any.
                if candidate.cut_by != "total":
                    break

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

        while memory.looked_at < len(memory.known) or (yield from memory.learn_links(1)):
            link = memory.known[memory.looked_at]
            if link.state == "absent":
                break

            memory.looked_at += 1
            if link.state == "present" and link.key not in self._retrieved:
                return Candidate.build(step, link, self._find_cut(step, link))

        return None

    def _find_cut(self, step: Step, link: WalkLink) -> Cut:
        """Return the limit that cut what a link leads to."""
        if step.depth == self._limits.depth:
            return "depth"

        choice = self._retrieved[step.key].choice or ()
        return "total" if any(link.key == chosen.key for chosen in choice) else "breadth"


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


def _list_depth_first(step: Step, children: dict[str, list[Step]]) -> Iterator[Step]:
    yield step
    for child in children[step.key]:
        yield from _list_depth_first(child, children)
