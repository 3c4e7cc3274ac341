"""The links of memories by the ranks of one side, best first, in a snapshot of the caller.

By the side of their targets, a key's links are those that it has; by the side of their sources,
those that lead to it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from abilities.helpers.stores.model import LinkRecord
from abilities.helpers.stores.ranking import SIDES, Side, correct_ranks, merge_links
from abilities.helpers.stores.transaction import Columns, ForEach, Reached, Statement, Transaction

LINK_COLUMNS = ", ".join(f"l.{name}" for name in LinkRecord._fields)
"""The columns of a `LinkRecord`, from links AS l."""

OWN: dict[Side, Side] = {"target": "source", "source": "target"}
"""The end at which a memory's links are listed by the ranks of a side."""

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
    with some, and ``absent`` some of those with absent ones.
    """

    page: str
    best: str
    ordinary: str
    named: str
    among: str
    absent: str


def _write_texts(side: Side, rank: str) -> _Texts:
    own = f"l.namespace = ? AND l.{OWN[side]} = asked.key"
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
        f"{select} WHERE {own} AND l.{rank} < 0 LIMIT ?",
    )


_TEXTS: dict[Side, _Texts] = {
    "target": _write_texts("target", "rank"),
    "source": _write_texts("source", "back_rank"),
}

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
        self._stale: Mapping[Side, dict[str, float | None]] | None = None
        self.has_marks = False  # as far as is known

    def is_present(self, side: Side, key: str, rank: int) -> bool:
        """Return whether the memory at a side of a link is there, by the rank that is kept."""
        scores = (self._stale or {}).get(side, {})
        if key in scores:
            return scores[key] is not None

        return rank >= 0

    async def read(self, side: Side, key: str, limit: int, offset: int = 0) -> list[LinkRecord]:
        """Return up to ``limit`` links of a key after the first ``offset`` ones."""
        return list(map(LinkRecord._make, await self.fetch_page(side, key, limit, offset)))

    async def fetch_page(
        self, side: Side, key: str, limit: int, offset: int = 0
    ) -> Sequence[Columns]:
        """Return the links that `read` does, as rows of pages."""
        if self._stale is not None and not self.has_marks:
            values = (self._namespace, key, limit, offset)
            return await self._transaction.fetch(_TEXTS[side].page, *values)

        (pages,) = await self.fetch([Wanted(side, [key], limit, offset)])
        return pages[key]

    async def fetch(self, wanted: Sequence[Wanted]) -> list[Pages]:
        """Return the links that are wanted, in one trip if no rank is stale."""
        pages, _ = await self.fetch_beside(wanted)
        return pages

    async def fetch_beside(
        self, wanted: Sequence[Wanted], *others: Statement | ForEach
    ) -> tuple[list[Pages], list[Sequence[Columns]]]:
        """Do as `fetch`; return also the rows of other statements, which travel along."""
        statements: list[Statement | ForEach] = []
        for side, keys, limit, offset in wanted:
            values = (self._namespace, limit, offset)
            statements.append(ForEach(_TEXTS[side].best, keys, values))

        statements += others
        if self._stale is None:
            *found, marks = await self._transaction.fetch_each(
                *statements, (_MARKS, self._namespace)
            )
            self._learn_marks(marks)
        else:
            found = await self._transaction.fetch_each(*statements)

        pages = [_group(each.keys, rows) for each, rows in zip(wanted, found, strict=False)]
        if self.has_marks:
            for each, known in zip(wanted, pages, strict=True):
                await self._correct(each, known)

        return pages, found[len(wanted) :]

    async def fetch_rest(
        self, side: Side, keys: Sequence[str], others: Iterable[str], limit: int
    ) -> Pages:
        """Return all links of keys with some others, and up to ``limit`` with absent ones.

        They have no order. In a namespace with marks, ranks do not tell which are absent.
        """
        texts = _TEXTS[side]
        found = await self._transaction.fetch_each(
            ForEach(texts.among, keys, (self._namespace, list(others))),
            ForEach(texts.absent, keys, (self._namespace, limit)),
        )
        return _group(keys, [row for rows in found for row in rows])

    def _learn_marks(self, marks: Sequence[Columns]) -> None:
        stale: dict[Side, dict[str, float | None]] = {side: {} for side in SIDES}
        for side, key, score in marks:
            stale[side][key] = score

        self._stale = stale
        self.has_marks = bool(marks)

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
                corrected = correct_ranks(map(LinkRecord._make, page), scores, side)
                pages[key] = corrected

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
        corrected: list[list[LinkRecord]] = []
        for rows in named:
            records = (LinkRecord._make(row) for _, *row in rows)
            corrected.append(correct_ranks(records, scores, side))

        # However the links merge, no more than the stale ones stand before the ordinary ones here.
        most = max(map(len, corrected))
        start = max(0, offset - most)
        values = (self._namespace, self._namespace, limit + most, start)
        ordinary = _group(keys, await self._transaction.fetch_for(texts.ordinary, keys, *values))

        pages: Pages = {}
        for key, stale in zip(keys, corrected, strict=True):
            merged = merge_links(map(LinkRecord._make, ordinary[key]), stale, side)
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
