"""The links of memories, best first, while some ranks wait for an update.

By the side of their targets, a key's links are those that it has; by the side of their sources,
those that lead to it. A link keeps two ranks, one that follows the score of its target and one that
follows the score of its source. If few links hang on a memory whose score changes, the change
updates their ranks. If many do, it only marks them as stale, so that no change takes long: 5 ms,
where updating the ranks of 10,000 links takes 0.6 s and those of 100,000 take 7 to 12 s. Readers
pass over stale ranks: they look up the links that have them by name, rank these by the scores of
now, and merge them with the others. This is exact, and takes one look-up per mark.

The marks that were not made lately are old, and removed block by block: each later change of the
namespace updates the ranks of some links behind each of them. A mark does no harm while it stays,
whatever the ranks are.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Literal, NamedTuple

from abilities.declarations.values import has_surrogate
from abilities.helpers.store.model import LinkRecord, LinkRow, hash_values, is_fraction, rank_link
from abilities.helpers.store.transaction import Columns, ForEach, Reached, Statement, Transaction

Side = Literal["target", "source"]
"""The end of links that a memory is at: ``rank`` follows the target, ``back_rank`` the source."""

SIDES: tuple[Side, ...] = ("target", "source")

OWN: dict[Side, Side] = {"target": "source", "source": "target"}
"""The end at which a memory's links are listed by the ranks of a side."""

RANKS: dict[Side, str] = {"target": "rank", "source": "back_rank"}
"""The columns of the ranks of each side."""

MOST_UPDATED = 64
"""Links of a memory, at one side of them, whose ranks one change of it updates."""

MOST_STALE = 16
"""Marks that a namespace keeps; the ranks behind older ones are updated."""

LONGEST_STALE = 256
"""Changes of a namespace after which a mark counts as old even if it is one of these."""

MOST_REFRESHED = 16
"""Older marks of a namespace that one of its changes treats, so that many do not grow more."""

BLOCK = 128
"""Links behind an older mark whose ranks one change updates."""

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
"""Two columns of a SELECT from links AS l: whether its rank, and its back rank, may be wrong.

They are those behind a mark. A rank before it was updated after the mark was made, so it is right.
"""

Place = tuple[float, float, str, str]
"""What links of one side are ordered by; lower ones come first."""

FIRST_PLACE: Place = (-math.inf, 0.0, "", "")


class StaleMark(NamedTuple):
    """Says that the ranks of the links at one side of a memory are stale.

    The rest is the last link whose rank was updated, in the order of the other side's ranks.
    """

    side: Side
    key: str
    last_rank: int
    last_weight: float
    last_key: str
    last_type: str

    @property
    def is_sound(self) -> bool:
        """Whether its texts are valid; damage can change them."""
        return not any(map(has_surrogate, (self.key, self.last_key, self.last_type)))


class LinkEnds(NamedTuple):
    """The memories at the ends of a link, as far as they decide its ranks; None if missing.

    ``is_stale`` and ``is_back_stale`` say that its rank and its back rank may be wrong.
    """

    target_archived: object
    target_score: object
    source_archived: object
    source_score: object
    is_stale: object = False
    is_back_stale: object = False

    def build_record(self, link: LinkRow) -> LinkRecord:
        """Return the record of a link, with the ranks that it must have."""
        target_score = _choose_score(self.target_archived, self.target_score)
        source_score = _choose_score(self.source_archived, self.source_score)
        return LinkRecord.build(link, target_score, source_score)

    def confirm_ranks(self, record: LinkRecord) -> bool:
        """Return whether the ranks of a sound link are those that it must have, or stale."""
        expected = self.build_record(record.row)
        is_right = bool(self.is_stale) or record.rank == expected.rank
        is_back_right = bool(self.is_back_stale) or record.back_rank == expected.back_rank
        return is_right and is_back_right


def _choose_score(archived: object, score: object) -> float | None:
    """Return the score that links to or from a memory rank by; None if they rank last."""
    # A damaged score gives no rank; that memory is reported itself.
    if archived == 0 and isinstance(score, float) and is_fraction(score):
        return score

    return None


_MARKS = """
SELECT s.side, s.key, m.score FROM stale_ranks AS s
LEFT JOIN memories AS m ON m.namespace = s.namespace AND m.key = s.key
    AND m.archived = 0 AND m.score BETWEEN 0 AND 1
WHERE s.namespace = ?
"""


class _Texts(NamedTuple):
    """The statements for the links of a key by the ranks of one side.

    ``page`` is one of its links, ``best`` is that for each of some keys, and ``ordinary`` is one
    of those without stale ranks. ``named`` are its links with one other memory, ``among`` those
    with some, and ``absent`` some of the ordinary ones with absent ones.
    """

    page: str
    best: str
    ordinary: str
    named: str
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
    # The limit is none: it keeps the planner of PostgreSQL at one look-up per key.
    named = f"""
    {select} INDEXED BY links_name WHERE l.namespace = ? AND l.{OWN[side]} = ?
    AND l.{side} = asked.key LIMIT {2**63 - 1}
    """
    best = f"{select} WHERE {own} {order}"
    return _Texts(
        best.replace("asked.key", "?"),
        best,
        f"{select} WHERE {own} AND {ordinary} {order}",
        named,
        f"{select} INDEXED BY links_name WHERE {own} AND l.{side} = ANY (?)",
        f"{select} WHERE {own} AND l.{rank} < 0 AND {ordinary} LIMIT ?",
    )


_TEXTS = {side: _write_texts(side) for side in SIDES}

Pages = dict[str, Sequence[Columns]]
"""The links of each key, as the columns of a `LinkRecord`, which takes longer to make."""


class Wanted(NamedTuple):
    """Up to ``limit`` links of each of some keys by the ranks of a side, after ``offset`` ones."""

    side: Side
    keys: Sequence[str] | Reached
    limit: int
    offset: int = 0


class BestLinks:
    """Reads the best links of memories in a namespace, with the ranks that they must have.

    The marks of stale ranks are fetched with the first links.
    """

    def __init__(self, transaction: Transaction, namespace: str) -> None:
        self._transaction = transaction
        self._namespace = namespace
        self._stale: dict[Side, dict[str, float | None]] | None = None

    def is_present(self, side: Side, key: str, rank: int) -> bool:
        """Return whether the memory at a side of a link is there, by the rank that is kept."""
        scores = (self._stale or {}).get(side, {})
        if key in scores:
            return scores[key] is not None

        return rank >= 0

    async def fetch_page(
        self, side: Side, key: str, limit: int, offset: int = 0
    ) -> Sequence[Columns]:
        """Return up to ``limit`` links of a key after the first ``offset`` ones."""
        if self._stale is not None and not any(self._stale.values()):
            values = (self._namespace, key, limit, offset)
            return await self._transaction.fetch(_TEXTS[side].page, *values)

        (pages,), _ = await self.fetch([Wanted(side, [key], limit, offset)])
        return pages[key]

    async def fetch(
        self, wanted: Sequence[Wanted], *others: Statement | ForEach
    ) -> tuple[list[Pages], list[Sequence[Columns]]]:
        """Return the links that are wanted, and the rows of other statements beside them.

        They come in one trip if no rank is stale.
        """
        statements: list[Statement | ForEach] = []
        for side, keys, limit, offset in wanted:
            values = (self._namespace, limit, offset)
            statements.append(ForEach(_TEXTS[side].best, keys, values))

        statements += others
        if self._stale is None:
            *found, marks = await self._transaction.fetch_each(
                *statements, (_MARKS, self._namespace)
            )
            self._stale = {side: {} for side in SIDES}
            for mark_side, key, score in marks:
                self._stale[mark_side][key] = score
        else:
            found = await self._transaction.fetch_each(*statements)

        pages = [_group(each.keys, rows) for each, rows in zip(wanted, found, strict=False)]
        for each, known in zip(wanted, pages, strict=True):
            await self._correct(each, known)

        return pages, found[len(wanted) :]

    async def fetch_rest(
        self, side: Side, keys: Sequence[str], others: Iterable[str], limit: int
    ) -> Pages:
        """Return all links of keys with some others, and up to ``limit`` with absent ones.

        They have no order. Of those with stale ranks, which may be absent now or not, all are
        there.
        """
        texts, scores = _TEXTS[side], (self._stale or {}).get(side, {})
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
        """Put links with right ranks into pages by the ranks that are kept."""
        side, _, limit, offset = wanted
        scores = (self._stale or {}).get(side)
        if not scores:
            return

        longer: list[str] = []
        for key, page in pages.items():
            if offset or len(page) == limit:
                longer.append(key)
            else:  # these are all
                pages[key] = _correct_ranks(page, scores, side)

        if longer:
            pages |= await self._fetch_marked(wanted, longer, scores)

    async def _fetch_marked(
        self, wanted: Wanted, keys: Sequence[str], scores: Mapping[str, float | None]
    ) -> Pages:
        """Return pages of keys, merged of their links with stale ranks and the others."""
        side, _, limit, offset = wanted
        texts = _TEXTS[side]
        named = await self._transaction.fetch_each(
            *(ForEach(texts.named, list(scores), (self._namespace, key)) for key in keys)
        )
        # However the links merge, no more than the stale ones stand before the ordinary ones here.
        most = max(map(len, named))
        start = max(0, offset - most)
        values = (self._namespace, self._namespace, limit + most, start)
        ordinary = _group(keys, await self._transaction.fetch_for(texts.ordinary, keys, *values))

        pages: Pages = {}
        for key, rows in zip(keys, named, strict=True):
            corrected = _correct_ranks((row for _, *row in rows), scores, side)
            placed = [*_place(map(LinkRecord._make, ordinary[key]), side), *_place(corrected, side)]
            placed.sort(key=itemgetter(0))
            merged = [record for _, record in placed]
            pages[key] = merged[offset - start :][:limit]

        return pages


def _group(keys: Sequence[str] | Reached, rows: Sequence[Columns]) -> Pages:
    """Return rows by the keys that they begin with."""
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
    """Return links with the ranks that follow from the scores, best first; damaged ones last.

    Without a score, they rank last.
    """
    sound: list[LinkRecord] = []
    damaged: list[LinkRecord] = []

    for record in map(LinkRecord._make, rows):
        if not record.is_sound:
            damaged.append(record)
            continue

        key = getattr(record, side)
        if key in scores:
            record = _correct_rank(record, scores[key], side)
        sound.append(record)

    # The links were checked above, so their places can be taken as they are.
    sound.sort(key=partial(_find_place, side=side))
    return sound + damaged


def _correct_rank(record: LinkRecord, score: float | None, side: Side) -> LinkRecord:
    rank, back_rank = record.rank, record.back_rank
    if side == "target":
        rank = rank_link(record.weight, score)
    else:
        back_rank = rank_link(record.weight, score)

    record = record._replace(rank=rank, back_rank=back_rank)
    *values, _ = record
    return record._replace(hash=hash_values(values))


def _place(records: Iterable[LinkRecord], side: Side) -> Iterator[tuple[Place, LinkRecord]]:
    """Yield links, which are best first, with their places."""
    place = FIRST_PLACE
    for record in records:
        # A damaged link stays behind the one before it, whatever its values are now.
        if record.is_sound:
            place = _find_place(record, side)

        yield place, record


def _find_place(record: LinkRecord, side: Side) -> Place:
    if side == "target":
        return -record.rank, -record.weight, record.target, record.type

    return -record.back_rank, -record.weight, record.source, record.type
