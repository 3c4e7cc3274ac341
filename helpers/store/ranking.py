"""The links of memories, best first, while some ranks are stale; and the links of a walk.

A link has two ranks: one by the score of its target, for the links of a key, and one by the score
of its source, for the links to a key. A change of a memory's score updates the ranks of its links
if there are few. If there are many, the change only marks them as stale and takes 5 ms; updating
the ranks of 10,000 links takes 0.6 s, and of 100,000 links 7 to 12 s. Readers ignore stale ranks:
they look up the links with stale ranks by name, rank them by the present scores, and merge them
with the others. The result is exact, and takes one lookup per mark.

Old marks are removed block by block: each later change of the namespace updates the ranks of some
links behind each old mark. Until then, a mark does no harm.

`Walk` decides which links a walk needs; `WalkLinks` fetches them.
"""

import heapq
import math
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Literal, NamedTuple, TypeVar

from abilities.declarations.memory import Direction
from abilities.declarations.values import has_surrogate
from abilities.helpers.store.engine import Columns, ForEach, Reached, Statement, Transaction
from abilities.helpers.store.model import (
    LinkRecord,
    build_walk_link,
    hash_values,
    rank_link,
)
from abilities.helpers.walk import LinkRequest, Walk, WalkLimits, WalkLink, WalkOutcome

Side = Literal["target", "source"]
"""An end of links: ``rank`` follows the score of the target, ``back_rank`` that of the source."""

SIDES: tuple[Side, ...] = ("target", "source")

OWN: dict[Side, Side] = {"target": "source", "source": "target"}
"""The opposite end, at which a key is when its links are listed by the ranks of a side."""

RANKS: dict[Side, str] = {"target": "rank", "source": "back_rank"}
"""The column of the ranks of each side."""

MOST_UPDATED = 64
"""The most links at one side of a memory whose ranks a change updates at once."""

MOST_STALE = 16
"""Marks that a namespace keeps. Further ones are old, the oldest first."""

LONGEST_STALE = 256
"""Changes of a namespace after which any mark is old."""

MOST_REFRESHED = 16
"""Old marks that one change works on; it is as many as stay, so that they do not pile up."""

BLOCK = 128
"""Links behind an old mark whose ranks one change updates."""

LINK_COLUMNS = ", ".join(f"l.{name}" for name in LinkRecord._fields)
"""The columns of a `LinkRecord`, from links AS l."""

_BEHIND_MARK = """
EXISTS (SELECT 1 FROM stale_ranks AS r
    WHERE r.namespace = l.namespace AND r.side = '{side}' AND r.key = l.{side}
    AND (r.last_rank, r.last_weight, l.{other}, l.type)
        > (l.{rank}, l.weight, r.last_key, r.last_type))
"""

ARE_STALE = ", ".join(
    _BEHIND_MARK.format(side=side, other=OWN[side], rank=RANKS[OWN[side]]) for side in SIDES
)
"""Two columns of a SELECT from links AS l: whether its rank, and its back rank, may be stale.

Links behind a mark may be. A link before it was updated after the mark was made.
"""

Place = tuple[float, float, str, str]
"""The sort key of links at one side, lowest first: -rank, -weight, key and type."""

LinkT = TypeVar("LinkT")


def place_links(
    links: Iterable[LinkT], find: Callable[[LinkT], Place | None]
) -> Iterator[tuple[Place, LinkT]]:
    """Yield links, given best first, with their places.

    A damaged link, which has none, stays after the one before it.
    """
    place: Place = (-math.inf, 0.0, "", "")
    for link in links:
        place = find(link) or place
        yield place, link


class StaleMark(NamedTuple):
    """A mark that the ranks of the links at one side of a memory are stale.

    The other fields are the last link whose rank was updated, in the order of the other side's
    ranks.
    """

    side: Side
    key: str
    last_rank: int
    last_weight: float
    last_key: str
    last_type: str

    @property
    def is_sound(self) -> bool:
        """Whether damage has left its texts valid."""
        return not any(map(has_surrogate, (self.key, self.last_key, self.last_type)))


_MARKS = """
SELECT s.side, s.key, m.score FROM stale_ranks AS s
LEFT JOIN memories AS m ON m.namespace = s.namespace AND m.key = s.key
    AND m.archived = 0 AND m.score BETWEEN 0 AND 1
WHERE s.namespace = ?
"""


class _Texts(NamedTuple):
    """The statements for the links of a key by the ranks of one side.

    ``page`` selects a page of all links of one key; ``best`` does so for several keys, and
    ``ordinary`` without links that have stale ranks. ``among`` selects the links with some other
    memories, and ``absent`` the ordinary links with absent ones.
    """

    page: str
    best: str
    ordinary: str
    among: str
    absent: str


def _write_texts(side: Side) -> _Texts:
    own = f"l.namespace = ? AND l.{OWN[side]} = asked.key"
    rank = RANKS[side]
    select = f"SELECT {LINK_COLUMNS} FROM links AS l"
    order = f"ORDER BY l.{rank} DESC, l.weight DESC, l.{side}, l.type LIMIT ? OFFSET ?"
    ordinary = (
        f"l.{side} NOT IN (SELECT key FROM stale_ranks WHERE namespace = ? AND side = '{side}')"
    )
    best = f"{select} WHERE {own} {order}"
    return _Texts(
        best.replace("asked.key", "?"),
        best,
        f"{select} WHERE {own} AND {ordinary} {order}",
        f"{select} INDEXED BY links_name WHERE {own} AND l.{side} = ANY (?)",
        f"{select} WHERE {own} AND l.{rank} < 0 AND {ordinary} LIMIT ?",
    )


_TEXTS = {side: _write_texts(side) for side in SIDES}

Pages = dict[str, Sequence[Columns]]
"""The links of each key, as columns, because making a `LinkRecord` of each would take time."""


class Wanted(NamedTuple):
    """A request for up to ``limit`` links of each key by the ranks of a side, after ``offset``."""

    side: Side
    keys: Sequence[str] | Reached
    limit: int
    offset: int = 0


class BestLinks:
    """A reader of the best links of memories in a namespace, by correct ranks.

    It fetches the marks of stale ranks together with the first links.
    """

    def __init__(self, transaction: Transaction, namespace: str) -> None:
        self._transaction = transaction
        self._namespace = namespace
        self._has_marks = False  # whether the marks were fetched
        self._is_exact = False  # whether they were, and there are none
        # The present scores of the keys with stale ranks, by side.
        self._stale: dict[Side, dict[str, float | None]] = {side: {} for side in SIDES}

    def is_present(self, side: Side, key: str, rank: int) -> bool:
        """Return whether the memory at a side of a link is present, given the stored rank."""
        scores = self._stale[side]
        if key in scores:
            return scores[key] is not None

        return rank >= 0

    async def fetch_page(
        self, side: Side, key: str, limit: int, offset: int = 0
    ) -> Sequence[Columns]:
        """Return up to ``limit`` links of a key after the first ``offset`` ones."""
        if self._is_exact:
            values = (self._namespace, key, limit, offset)
            return await self._transaction.fetch(_TEXTS[side].page, *values)

        (pages,), _ = await self.fetch([Wanted(side, [key], limit, offset)])
        return pages[key]

    async def fetch(
        self, wanted: Sequence[Wanted], *others: Statement | ForEach
    ) -> tuple[list[Pages], list[Sequence[Columns]]]:
        """Return the wanted links, and the rows of other statements.

        This takes one trip to a server if no rank is stale.
        """
        statements: list[Statement | ForEach] = []
        for side, keys, limit, offset in wanted:
            values = (self._namespace, limit, offset)
            statements.append(ForEach(_TEXTS[side].best, keys, values))

        statements += others
        if not self._has_marks:
            statements.append((_MARKS, self._namespace))
        found = await self._transaction.fetch_each(*statements)
        if not self._has_marks:
            self._has_marks = True
            marks = found.pop()
            self._is_exact = not marks
            for mark_side, key, score in marks:
                self._stale[mark_side][key] = score

        pages = [_group(each.keys, rows) for each, rows in zip(wanted, found, strict=False)]
        for each, known in zip(wanted, pages, strict=True):
            await self._correct(each, known)

        return pages, found[len(wanted) :]

    async def fetch_rest(
        self, side: Side, keys: Sequence[str], others: Iterable[str], limit: int
    ) -> Pages:
        """Return all links of keys with some others, and up to ``limit`` with absent memories.

        The links have no order. All links with stale ranks are included, because their memories may
        be absent or not.
        """
        texts, scores = _TEXTS[side], self._stale[side]
        named = list({*others, *scores})
        found = await self._transaction.fetch_each(
            ForEach(texts.among, keys, (self._namespace, named)),
            ForEach(texts.absent, keys, (self._namespace, self._namespace, limit)),
        )
        pages = _group(keys, [row for rows in found for row in rows])
        if scores:
            for key, page in pages.items():
                pages[key] = _correct_ranks(page, scores, side)
        return pages

    async def _correct(self, wanted: Wanted, pages: Pages) -> None:
        """Correct stale ranks in pages, and refetch the pages to which other links then belong."""
        side, _, limit, offset = wanted
        scores = self._stale[side]
        if not scores:
            return

        longer: list[str] = []
        for key, page in pages.items():
            if offset or len(page) == limit:
                longer.append(key)
            else:  # the page has all links of the key
                pages[key] = _correct_ranks(page, scores, side)

        if longer:
            pages |= await self._fetch_marked(wanted, longer, scores)

    async def _fetch_marked(
        self, wanted: Wanted, keys: Sequence[str], scores: Mapping[str, float | None]
    ) -> Pages:
        """Return pages of keys, merged from their links with stale ranks and the others."""
        side, _, limit, offset = wanted
        texts = _TEXTS[side]
        among = (self._namespace, list(scores))
        marked = _group(keys, await self._transaction.fetch_for(texts.among, keys, *among))

        # At most all the stale links precede the page, so its ordinary links start here or later.
        most = max(map(len, marked.values()))
        start = max(0, offset - most)
        values = (self._namespace, self._namespace, limit + most, start)
        ordinary = _group(keys, await self._transaction.fetch_for(texts.ordinary, keys, *values))

        find = partial(_find_place, side=side)
        pages: Pages = {}
        for key, rows in marked.items():
            corrected = _correct_ranks(rows, scores, side)
            others = map(LinkRecord._make, ordinary[key])
            placed = [*place_links(others, find), *place_links(corrected, find)]
            placed.sort(key=itemgetter(0))
            merged = [record for _, record in placed]
            pages[key] = merged[offset - start :][:limit]

        return pages


def _group(keys: Sequence[str] | Reached, rows: Sequence[Columns]) -> Pages:
    """Group rows by their first column, the key."""
    pages: dict[str, list[Columns]] = {}
    if not isinstance(keys, Reached):
        pages = {key: [] for key in keys}
    for key, *row in rows:
        page = pages.setdefault(key, [])
        if row[0] is not None:
            page.append(row)

    return {**pages}


def _correct_ranks(
    rows: Iterable[Columns], scores: Mapping[str, float | None], side: Side
) -> list[LinkRecord]:
    """Return links with ranks by the present scores, best first, and damaged links last.

    Links with a key whose score is None rank last, and links with other keys keep their ranks.
    """
    sound: list[LinkRecord] = []
    damaged: list[LinkRecord] = []

    for record in map(LinkRecord._make, rows):
        if not record.is_sound:
            damaged.append(record)
            continue

        key = getattr(record, side)
        if key in scores:
            rank = rank_link(record.weight, scores[key])
            if side == "target":
                record = record._replace(rank=rank)
            else:
                record = record._replace(back_rank=rank)
            record = record._replace(hash=hash_values(record[:-1]))
        sound.append(record)

    placed = sorted(place_links(sound, partial(_find_place, side=side)), key=itemgetter(0))
    return [record for _, record in placed] + damaged


def _find_place(record: LinkRecord, side: Side) -> Place | None:
    if not record.is_sound:
        return None
    if side == "target":
        return -record.rank, -record.weight, record.target, record.type

    return -record.back_rank, -record.weight, record.source, record.type


_PAGE = 32
"""Links to fetch per memory at first, when it is not known how many the walk needs."""

_SIDES: dict[Direction, tuple[Side, ...]] = {
    "out": ("target",),
    "in": ("source",),
    "both": ("target", "source"),
}


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
            sides.append(place_links(map(build, page), _find_walk_place))
        for _, link in heapq.merge(*sides, key=itemgetter(0)):
            yield link
            left[link.incoming] = left.get(link.incoming, 0) - 1
            if not left[link.incoming]:
                return


def _find_walk_place(link: WalkLink) -> Place | None:
    if link.state == "invalid":
        return None

    return -link.rank, -link.weight, link.key, link.type


class WalkLinks:
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
