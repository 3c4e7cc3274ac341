"""The walk from one memory along its links; sans-IO: it asks for links and is sent links.

Pre-order, depth first, each memory's links best first. A memory is retrieved once, when it is first
met. If it is met again on a shorter way, the walk goes on from there: only the links that it kept
are looked at again, and its breadth is not spent twice. (With a plain visited set, a memory first
met at the depth limit would hide what a shorter way to it allows.)

Invariant: a memory's depth is the length of the shortest way to it over kept links, and unless the
total stopped the walk, every kept link of every memory shallower than ``depth`` leads to a memory
that was returned, is missing or is archived.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeVar

Cut = Literal["depth", "breadth", "total"]

State = Literal["present", "absent", "invalid"]
"""Of a link's target; absent is one that is missing or archived."""

FRONTIER = 10
"""How many of the best candidates that were not retrieved are shown at the end of a walk."""

_LIMITS: tuple[Cut, ...] = ("depth", "breadth", "total")


class WalkLimits(NamedTuple):
    """How far a walk goes; the target counts into ``total``."""

    depth: int
    breadth: int
    total: int


class WalkLink(NamedTuple):
    """A link as a store describes it: ``score`` is link_weight times the target's memory_score."""

    key: str
    weight: float
    type: str
    score: float
    state: State


class LinkRequest(NamedTuple):
    """A request for some of a memory's links, best first, beginning after ``offset`` of them."""

    key: str
    offset: int


@dataclass(slots=True)
class Step:
    """A memory that was retrieved, and the way on which it was reached.

    ``expanded`` says that the walk has begun to follow its links. ``known`` are the links that the
    store sent, all of them if ``exhausted``; the first ``looked`` of those were looked at. ``kept``
    are the ones that lead to a retrieved memory, and ``taken`` counts those retrieved from here.
    """

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
    """A walk's steps in retrieval order, the target first, and what it counted."""

    steps: list[Step]
    duplicates: int = 0
    missing: int = 0
    invalid: int = 0
    frontier: list[Candidate] = field(default_factory=list[Candidate])
    cut_by: list[Cut] = field(default_factory=list[Cut])


T = TypeVar("T")

Conversation = Generator[LinkRequest, Sequence[WalkLink], T]
"""Yields requests and is sent links, until it returns a result."""


class Walk:
    """One walk; `run` is the conversation with a store, which knows the links."""

    def __init__(self, target: str, limits: WalkLimits) -> None:
        first = Step(target, 0)

        self._limits = limits
        self._outcome = WalkOutcome([first])
        self._by_key = {target: first}
        self._stopped = False

    def run(self) -> Conversation[WalkOutcome]:
        """Walk. Each request is answered with that memory's next links, none after the last."""
        yield from self._expand(self._outcome.steps[0])
        yield from self._find_frontier()
        return self._outcome

    def _expand(self, step: Step) -> Conversation[None]:
        """Follow a memory's links, or those that it kept if this was done before."""
        if step.depth >= self._limits.depth:
            return

        if step.expanded:
            for target, link in step.kept:
                yield from self._shorten(step, target, link)
            return

        if self._stopped:
            return

        step.expanded = True
        while step.taken < self._limits.breadth and not self._stopped:
            yield from self._learn_links(step, step.looked)
            if step.looked >= len(step.known):
                return
            yield from self._follow(step, step.known[step.looked])

    def _follow(self, step: Step, link: WalkLink) -> Conversation[None]:
        """Follow one link: retrieve its memory, meet it again, or count why neither is possible."""
        existing = self._by_key.get(link.key)

        if link.state == "invalid":
            step.looked += 1
            self._outcome.invalid += 1
        elif link.state == "absent":
            step.looked += 1
            self._outcome.missing += 1
        elif existing is not None:
            step.looked += 1
            self._outcome.duplicates += 1
            step.kept.append((existing, link))
            yield from self._shorten(step, existing, link)
        elif len(self._outcome.steps) >= self._limits.total:
            self._stopped = True  # the link is not looked at: it may be a candidate of the frontier
        else:
            step.looked += 1
            step.taken += 1
            yield from self._retrieve(step, link)

    def _retrieve(self, parent: Step, link: WalkLink) -> Conversation[None]:
        step = Step(link.key, parent.depth + 1, parent, link)
        self._by_key[link.key] = step
        self._outcome.steps.append(step)
        parent.kept.append((step, link))
        yield from self._expand(step)

    def _shorten(self, step: Step, target: Step, link: WalkLink) -> Conversation[None]:
        """If a memory is met on a shorter way than before, go on from there."""
        # A longer way allows nothing that the shorter one did not.
        depth = step.depth + 1
        if depth >= target.depth:
            return

        target.depth = depth
        target.parent = step
        target.link = link
        yield from self._expand(target)

    def _learn_links(self, step: Step, position: int) -> Conversation[None]:
        """Ask for a memory's links until the one at ``position`` is known, or there are no more."""
        # A store decides how many links it sends at once; only an empty answer ends them.
        while position >= len(step.known) and not step.exhausted:
            links = yield LinkRequest(step.key, len(step.known))
            step.known.extend(links)
            step.exhausted = not links

    def _find_frontier(self) -> Conversation[None]:
        """Find the best candidates that were not retrieved, and the limits that cut any."""
        best: dict[str, Candidate] = {}
        reached: set[Cut] = set()

        for step in self._outcome.steps:
            cut_by = self._find_limit(step)
            links = yield from self._list_candidates(step)
            if links:
                reached.add(cut_by)

            # Of equals the first one met stays.
            for link in links:
                rival = best.get(link.key)
                if rival is None or (link.score, link.weight) > (rival.score, rival.weight):
                    best[link.key] = Candidate(link.key, step.key, link.score, link.weight, cut_by)

        ranked = sorted(best.values(), key=lambda c: (-c.score, -c.weight, c.key))
        self._outcome.frontier = ranked[:FRONTIER]
        self._outcome.cut_by = [limit for limit in _LIMITS if limit in reached]

    def _find_limit(self, step: Step) -> Cut:
        """Return the limit that kept the walk from looking at a memory's further links."""
        if step.expanded and step.taken >= self._limits.breadth:
            return "breadth"

        if step.depth >= self._limits.depth:
            return "depth"

        return "total"

    def _list_candidates(self, step: Step) -> Conversation[list[WalkLink]]:
        """Return a memory's best links, at most ten, to memories that were not retrieved."""
        candidates: dict[str, WalkLink] = {}
        position = step.looked

        while len(candidates) < FRONTIER:
            yield from self._learn_links(step, position)
            if position >= len(step.known):
                break

            link = step.known[position]
            if link.state == "absent":
                break  # absent targets rank last: no present one follows

            if link.state == "present" and link.key not in self._by_key:
                candidates.setdefault(link.key, link)
            position += 1

        return list(candidates.values())
