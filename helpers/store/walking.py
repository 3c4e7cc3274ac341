"""Walks along links, in a snapshot of the caller.

`Walk` decides which links a walk needs; this module fetches them.
"""

import heapq
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from operator import itemgetter

from abilities.declarations.memory import Direction
from abilities.declarations.refusals import Refused
from abilities.helpers.store.changes import check_names
from abilities.helpers.store.model import build_walk_link
from abilities.helpers.store.protocol import WalkResult
from abilities.helpers.store.ranking import BestLinks, Place, Side, Wanted, place_links
from abilities.helpers.store.reads import read
from abilities.helpers.store.transaction import Columns, Reached, Transaction
from abilities.helpers.walk import LinkRequest, Walk, WalkLimits, WalkLink, WalkOutcome

_PAGE = 32
"""Links to fetch per memory at first, when it is not known how many the walk needs."""

_SIDES: dict[Direction, tuple[Side, ...]] = {
    "out": ("target",),
    "in": ("source",),
    "both": ("target", "source"),
}


async def walk(
    transaction: Transaction,
    namespace: str,
    key: str,
    limits: WalkLimits,
    direction: Direction = "out",
) -> WalkResult:
    """Walk from a memory. Raises Refused if it is missing or damaged itself.

    Links do not show whether their memories have a valid score, so invalid ones are found only when
    the memories of the walk are read. The walk is then repeated without these.
    """
    check_names(key)
    links = _WalkLinks(transaction, namespace, direction)
    while True:
        outcome = await links.walk(key, limits)
        keys = [step.key for step in outcome.steps]
        memories = await read(transaction, namespace, keys)
        if isinstance(memories[0], Exception):  # the memory that the walk begins with
            raise memories[0]

        invalid: set[str] = set()
        for name, memory in zip(keys, memories, strict=True):
            if isinstance(memory, Refused) and memory.reason == "invalid_stored_value":
                invalid.add(name)

        if not invalid:
            return WalkResult(outcome, tuple(memories))
        links.exclude(invalid)


class _KnownLinks:
    """The fetched links of a memory by side, best first.

    ``unfinished`` are the sides that may have more links; ``count`` is the number of known links.
    """

    __slots__ = ("_invalid", "_left", "_merged", "count", "pages", "unfinished")

    def __init__(self, sides: Sequence[Side], invalid: Container[str]) -> None:
        self._invalid = invalid
        self.pages: dict[Side, list[Columns]] = {side: [] for side in sides}
        self.unfinished = list(sides)
        self.count = 0
        self._merged: list[WalkLink] = []  # the links of several sides in order, as far as needed
        self._left: Iterator[WalkLink] = iter(())

    def add(self, side: Side, limit: int, page: Sequence[Columns]) -> None:
        """Add the next page of a side; a page of fewer than ``limit`` links is the last one."""
        self.pages[side] += page
        self.count += len(page)
        if len(page) < limit and side in self.unfinished:
            self.unfinished.remove(side)
        if len(self.pages) > 1:
            self._merged, self._left = [], self._merge()

    def select(self, begin: int, end: int) -> list[WalkLink]:
        """Return links in order, but none after a place where unknown links may belong."""
        if len(self.pages) == 1:
            ((side, page),) = self.pages.items()
            incoming = side == "source"
            return [build_walk_link(row, self._invalid, incoming) for row in page[begin:end]]

        self._merged += islice(self._left, max(0, end - len(self._merged)))
        return self._merged[begin:end]

    def _merge(self) -> Iterator[WalkLink]:
        """Yield links in order until an unfinished side runs out of known links."""
        left = {side == "source": len(self.pages[side]) for side in self.unfinished}
        if 0 in left.values():
            return

        # In the same place, outgoing links come first.
        sides: list[Iterator[tuple[Place, WalkLink]]] = []
        for side, page in self.pages.items():
            build = partial(build_walk_link, invalid=self._invalid, incoming=side == "source")
            sides.append(place_links(map(build, page), _find_place))
        for _, link in heapq.merge(*sides, key=itemgetter(0)):
            yield link
            left[link.incoming] = left.get(link.incoming, 0) - 1
            if not left[link.incoming]:
                return


def _find_place(link: WalkLink) -> Place | None:
    if link.state == "invalid":
        return None

    return -link.rank, -link.weight, link.key, link.type


class _WalkLinks:
    """The links fetched so far, and walks over them.

    In a local store, a walk fetches each missing link when it needs it. From a remote store, they
    are fetched in batches: the walk runs over the known links, fetches all missing ones in one
    trip, and runs again, until none is missing. For outgoing links, the store first guesses which
    ones the walk needs; usually these are enough. All others come one level at a time.
    """

    def __init__(self, transaction: Transaction, namespace: str, direction: Direction) -> None:
        self._is_remote = transaction.is_remote
        self._namespace = namespace
        self._sides = _SIDES[direction]
        self._best = BestLinks(transaction, namespace)
        self._known = defaultdict[str, _KnownLinks](lambda: _KnownLinks(self._sides, self._invalid))
        self._rest: dict[LinkRequest, list[WalkLink]] = {}
        self._invalid: set[str] = set()

    async def walk(self, key: str, limits: WalkLimits) -> WalkOutcome:
        """Walk from a memory, fetching links until none is missing."""
        if self._is_remote and not self._known:
            keys: list[str] | Reached = [key]
            if self._sides == _SIDES["out"]:
                keys = Reached(self._namespace, key, *limits, _PAGE)
            await self._fetch([Wanted(side, keys, _PAGE) for side in self._sides])

        while True:
            missing: list[LinkRequest] = []
            outcome = await self._try_walk(key, limits, missing)
            if not missing:
                return outcome

            await self._fetch_missing(missing)

    def exclude(self, keys: Iterable[str]) -> None:
        """Exclude memories from further walks."""
        self._invalid.update(keys)
        self._known.clear()  # the links there were made with the old exclusions
        self._rest.clear()

    async def _try_walk(
        self, key: str, limits: WalkLimits, missing: list[LinkRequest]
    ) -> WalkOutcome:
        """Walk over the known links; in a remote store, add unanswered requests to ``missing``."""
        conversation = Walk(key, limits).run()
        try:
            request = next(conversation)
            while True:
                links = self._find(request)
                while links is None and not self._is_remote:
                    await self._fetch_next(request)
                    links = self._find(request)
                if links is None:
                    missing.append(request)
                request = conversation.send(links or [])
        except StopIteration as end:
            outcome: WalkOutcome = end.value
            return outcome

    async def _fetch_next(self, request: LinkRequest) -> None:
        """Fetch the requested links of a memory, or its next page of links."""
        if request.among is not None:
            await self._fetch_rest([request])
            return

        known = self._known[request.key]
        for side in tuple(known.unfinished):
            # One more than needed, to see whether these are all.
            offset = len(known.pages[side])
            limit = offset * 3 or request.needed + 1
            page = await self._best.fetch_page(side, request.key, limit, offset)
            known.add(side, limit, page)

    def _find(self, request: LinkRequest) -> list[WalkLink] | None:
        """Return the requested links, or None if too few are known."""
        known = self._known[request.key]
        if request.among is not None:
            if not known.unfinished:
                return known.select(request.offset, known.count)
            return self._rest.get(request)

        if known.unfinished and request.offset >= known.count:
            return None

        links = known.select(request.offset, request.offset + request.needed)
        if not links and known.unfinished:
            return None

        return links

    async def _fetch_missing(self, missing: Sequence[LinkRequest]) -> None:
        """Fetch the links that a walk missed, or only the decisive ones if there are any."""
        decisive = [each for each in missing if each.among is None]
        if not decisive:
            await self._fetch_rest(missing)
            return

        # Each page is three times as long as all before it, so 10,000 links take few trips.
        keys: dict[tuple[Side, int], dict[str, None]] = {}
        for key, *_ in decisive:
            known = self._known[key]
            for side in known.unfinished:
                keys.setdefault((side, len(known.pages[side])), {})[key] = None

        wanted: list[Wanted] = []
        for (side, offset), names in keys.items():
            wanted.append(Wanted(side, list(names), offset * 3 or _PAGE, offset))
        await self._fetch(wanted)

    async def _fetch(self, wanted: Sequence[Wanted]) -> None:
        """Fetch pages of links and add them to the known links."""
        fetched, _ = await self._best.fetch(wanted)
        for each, pages in zip(wanted, fetched, strict=True):
            for key, page in pages.items():
                self._known[key].add(each.side, each.limit, page)

    async def _fetch_rest(self, requests: Sequence[LinkRequest]) -> None:
        """Fetch the links for requests that all ask for links to the same memories."""
        by_key = {request.key: self._rest.setdefault(request, []) for request in requests}
        among = requests[0].among or frozenset()
        for side in self._sides:
            pages = await self._best.fetch_rest(side, list(by_key), among, requests[0].needed)
            for key, page in pages.items():
                for row in page:
                    by_key[key].append(build_walk_link(row, self._invalid, side == "source"))
