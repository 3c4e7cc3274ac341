"""The walk from one memory along its links: sans-IO, it asks for links and is told links.

Pre-order, depth first, each memory's links best first. A memory is emitted once, when it is first met.
One that is met again on a shorter way is walked on from there: only the links that it kept are looked at
again, and its breadth is not spent twice. (With a plain visited set, a memory first met at the depth
limit would hide what a shorter way to it allows.) Invariant: a memory's depth is the length of the shortest
way to it over kept links, and unless the total stopped the walk, every kept link of every memory shallower
than ``depth`` leads to a memory that was returned, is missing or is archived.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Cut = Literal["depth", "breadth", "total"]
State = Literal["present", "absent", "invalid"]
"""Of a link's target; absent is one that is missing or archived."""

FRONTIER = 10
"""Best candidates that were not retrieved, shown at the end of a walk."""


class WalkLimits(NamedTuple):
    """How far a walk goes; the target counts into ``total``."""

    depth: int
    breadth: int
    total: int


class WalkLink(NamedTuple):
    """A link as a store tells it: ``score`` is link_weight times the target's memory_score."""

    key: str
    weight: float
    type: str
    score: float
    state: State


class LinkRequest(NamedTuple):
    """The question for some of a memory's links, best first, beginning after ``offset`` of them."""

    key: str
    offset: int


@dataclass(slots=True)
class Step:
    """A memory that was retrieved, and the way on which it was reached."""

    key: str
    depth: int
    parent: "Step | None" = None
    link: WalkLink | None = None
    expanded: bool = False
    taken: int = 0
    looked: int = 0
    kept: list["tuple[Step, WalkLink]"] = field(default_factory=list["tuple[Step, WalkLink]"])
    known: list[WalkLink] = field(default_factory=list[WalkLink])
    exhausted: bool = False


class Candidate(NamedTuple):
    """A memory that was not retrieved, and the limit that cut it."""

    key: str
    source: str
    score: float
    weight: float
    cut_by: Cut


@dataclass(slots=True)
class WalkOutcome:
    """What a walk found: the steps in retrieval order, the target first, and what it counted."""

    steps: list[Step]
    duplicates: int = 0
    missing: int = 0
    invalid: int = 0
    frontier: list[Candidate] = field(default_factory=list[Candidate])
    cut_by: list[Cut] = field(default_factory=list[Cut])


class Walk:
    """One walk; `run` is the conversation with whoever knows the links."""

    def __init__(self, target: str, limits: WalkLimits) -> None:
        self._limits = limits
        self._walked = WalkOutcome([Step(target, 0)])
        self._by_key = {target: self._walked.steps[0]}
        self._stopped = False

    def run(self) -> Generator[LinkRequest, Sequence[WalkLink], WalkOutcome]:
        """Walk. Yields questions; each is answered with the next links of that memory, none when it has no more."""
        yield from self._expand(self._walked.steps[0])
        yield from self._survey()
        return self._walked

    def _expand(self, step: Step) -> Generator[LinkRequest, Sequence[WalkLink], None]:
        if step.depth >= self._limits.depth:
            return
        if step.expanded:
            yield from self._revisit(step)
            return
        if self._stopped:
            return
        step.expanded = True
        while step.taken < self._limits.breadth and not self._stopped:
            link = yield from self._next(step)
            if link is None:
                return
            yield from self._look(step, link)

    def _revisit(self, step: Step) -> Generator[LinkRequest, Sequence[WalkLink], None]:
        for target, link in step.kept:
            yield from self._shorten(step, target, link)

    def _look(self, step: Step, link: WalkLink) -> Generator[LinkRequest, Sequence[WalkLink], None]:
        """Take up one link: count it, meet its memory again, or retrieve that."""
        if link.state == "present" and link.key not in self._by_key:
            if len(self._walked.steps) >= self._limits.total:
                self._stopped = True
                return
            step.looked += 1
            step.taken += 1
            found = Step(link.key, step.depth + 1, step, link)
            self._by_key[link.key] = found
            self._walked.steps.append(found)
            step.kept.append((found, link))
            yield from self._expand(found)
            return
        step.looked += 1
        if link.state == "invalid":
            self._walked.invalid += 1
        elif link.state != "present":
            self._walked.missing += 1
        else:
            self._walked.duplicates += 1
            again = self._by_key[link.key]
            step.kept.append((again, link))
            yield from self._shorten(step, again, link)

    def _shorten(
        self, step: Step, target: Step, link: WalkLink
    ) -> Generator[LinkRequest, Sequence[WalkLink], None]:
        """Walk on from a memory that has a shorter way now."""
        if step.depth + 1 < target.depth:
            target.depth, target.parent, target.link = step.depth + 1, step, link
            yield from self._expand(target)

    def _next(self, step: Step) -> Generator[LinkRequest, Sequence[WalkLink], WalkLink | None]:
        """The first link of a memory that was not looked at yet."""
        yield from self._know(step, step.looked)
        return step.known[step.looked] if step.looked < len(step.known) else None

    def _know(self, step: Step, place: int) -> Generator[LinkRequest, Sequence[WalkLink], None]:
        while place >= len(step.known) and not step.exhausted:
            told = yield LinkRequest(step.key, len(step.known))
            step.known.extend(told)
            step.exhausted = not told

    def _survey(self) -> Generator[LinkRequest, Sequence[WalkLink], None]:
        """Find the best candidates that were left, and so the limits that cut something."""
        best: dict[str, Candidate] = {}
        cut: set[Cut] = set()
        for step in self._walked.steps:
            by = self._limit_of(step)
            for link in (yield from self._left(step)):
                cut.add(by)
                known = best.get(link.key)
                if known is None or (link.score, link.weight) > (known.score, known.weight):
                    best[link.key] = Candidate(link.key, step.key, link.score, link.weight, by)
        ranked = sorted(best.values(), key=lambda c: (-c.score, -c.weight, c.key))
        self._walked.frontier = ranked[:FRONTIER]
        limits: tuple[Cut, ...] = ("depth", "breadth", "total")
        self._walked.cut_by = [limit for limit in limits if limit in cut]

    def _limit_of(self, step: Step) -> Cut:
        if step.expanded and step.taken >= self._limits.breadth:
            return "breadth"
        return "depth" if step.depth >= self._limits.depth else "total"

    def _left(self, step: Step) -> Generator[LinkRequest, Sequence[WalkLink], list[WalkLink]]:
        """The best links of a memory that were not looked at and lead to memories that were not retrieved."""
        left: dict[str, WalkLink] = {}
        place = step.looked
        while len(left) < FRONTIER:
            yield from self._know(step, place)
            if place >= len(step.known) or step.known[place].state == "absent":
                break  # absent targets rank last: nothing follows them
            link = step.known[place]
            if link.state == "present" and link.key not in self._by_key:
                left.setdefault(link.key, link)
            place += 1
        return list(left.values())
