"""Keeping the ranks of links in step with the scores of the memories at their ends."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from abilities.helpers.stores import ranking
from abilities.helpers.stores.linking import RECORD
from abilities.helpers.stores.model import LinkRecord, Row
from abilities.helpers.stores.ranking import SIDES, Side, StaleMark
from abilities.helpers.stores.transaction import Columns, Statement, Transaction

_LINK = ", ".join(f"l.{name}" for name in LinkRecord._fields)
_SCORED = f"""
SELECT {_LINK}, t.score, s.score FROM ({{links}}) AS l
LEFT JOIN memories AS t ON t.namespace = l.namespace AND t.key = l.target
    AND t.archived = 0 AND t.score BETWEEN 0 AND 1
LEFT JOIN memories AS s ON s.namespace = l.namespace AND s.key = l.source
    AND s.archived = 0 AND s.score BETWEEN 0 AND 1
"""
_FROM_INDEX: dict[Side, str] = {
    "target": f"SELECT namespace, {RECORD} FROM links INDEXED BY links_incoming",
    "source": f"SELECT namespace, {RECORD} FROM links",
}
_LINKS_AT: dict[Side, str] = {
    side: _SCORED.format(links=f"{select} WHERE namespace = ? AND {side} = ? LIMIT ?")
    for side, select in _FROM_INDEX.items()
}


def _write_behind(side: Side, rank: str, other: Side) -> tuple[str, ...]:
    """Return statements for the links behind a mark: one per range of the index, in its order.

    Each takes the namespace, the key and a limit last.
    """
    select = f"{_FROM_INDEX[side]} WHERE {{range}} AND namespace = ? AND {side} = ? ORDER BY"
    order = f"{rank} DESC, weight DESC, {other}, type LIMIT ?"
    ranges = (
        f"{rank} = ? AND weight = ? AND ({other}, type) > (?, ?)",
        f"{rank} = ? AND weight < ?",
        f"{rank} < ?",
    )
    return tuple(
        _SCORED.format(links=f"{select.format(range=each)} {order}")
        + f" ORDER BY l.{rank} DESC, l.weight DESC, l.{other}, l.type"
        for each in ranges
    )


_BEHIND: dict[Side, tuple[str, ...]] = {
    "target": _write_behind("target", "back_rank", "source"),
    "source": _write_behind("source", "rank", "target"),
}
_UPDATE = """
UPDATE links SET rank = ?, back_rank = ?, hash = ?
WHERE namespace = ? AND source = ? AND target = ? AND type = ?
"""
_MARK_COLUMNS = ", ".join(StaleMark._fields)
_MARK = f"""
INSERT INTO stale_ranks (namespace, {_MARK_COLUMNS}, since)
VALUES (?, ?, ?, ?, ?, ?, ?, coalesce((SELECT number FROM versions WHERE namespace = ?), 0))
ON CONFLICT (namespace, side, key) DO UPDATE SET last_rank = excluded.last_rank,
    last_weight = excluded.last_weight, last_key = excluded.last_key,
    last_type = excluded.last_type, since = excluded.since
"""
_MOVE_MARK = """
UPDATE stale_ranks SET last_rank = ?, last_weight = ?, last_key = ?, last_type = ?
WHERE namespace = ? AND side = ? AND key = ?
"""
_UNMARK = "DELETE FROM stale_ranks WHERE namespace = ? AND side = ? AND key = ?"
_OLD_MARKS = f"""
SELECT {_MARK_COLUMNS} FROM (
    SELECT *, row_number() OVER (ORDER BY since DESC) AS place
    FROM stale_ranks WHERE namespace = ?
) AS marks WHERE place > ? OR since <= (SELECT number FROM versions WHERE namespace = ?) - ?
ORDER BY since LIMIT ?
"""


class ScoredLink(NamedTuple):
    """A link, and the scores of now of its target and its source."""

    record: LinkRecord
    target_score: float | None
    source_score: float | None

    @classmethod
    def parse(cls, columns: Sequence[Any]) -> "ScoredLink":
        """Make one of the columns of a link and two scores."""
        *values, target_score, source_score = columns
        return cls(LinkRecord._make(values), target_score, source_score)


async def update_ranks(transaction: Transaction, row: Row) -> None:
    """Update the ranks of the links of a memory and to it, after its score or archived state.

    This includes a memory that was just added or deleted. Ranks at a side where it has many links
    are marked as stale instead. Damaged links stay as they are.
    """
    namespace, most = row.namespace, ranking.MOST_UPDATED + 1
    at_sides = await transaction.fetch_each(
        *((_LINKS_AT[side], namespace, row.key, most) for side in SIDES)
    )
    few = [rows for rows in at_sides if len(rows) < most]
    await _save_ranks(transaction, namespace, (columns for rows in few for columns in rows))

    for side, rows in zip(SIDES, at_sides, strict=True):
        if len(rows) == most:
            mark = StaleMark.build(side, row.key)
            await transaction.run(_MARK, namespace, *mark, namespace)
        else:
            await transaction.run(_UNMARK, namespace, side, row.key)


async def refresh_stale_ranks(transaction: Transaction, namespace: str) -> None:
    """Update some of the ranks behind the marks that a namespace does not keep."""
    bounds = (ranking.MOST_STALE, namespace, ranking.LONGEST_STALE, ranking.MOST_REFRESHED)
    marks = await transaction.fetch(_OLD_MARKS, namespace, *bounds)
    for mark in map(StaleMark._make, marks):
        if mark.is_sound:
            await _refresh_behind(transaction, namespace, mark)


async def _refresh_behind(transaction: Transaction, namespace: str, mark: StaleMark) -> None:
    side, key, *last = mark
    statements: list[Statement] = []
    for text, values in zip(_BEHIND[side], (last, last[:2], last[:1]), strict=True):
        given = [*values, namespace, key, ranking.BLOCK]
        statements.append((text, *given))

    found = await transaction.fetch_each(*statements)
    links = [columns for rows in found for columns in rows][: ranking.BLOCK]
    await _save_ranks(transaction, namespace, links)

    if len(links) < ranking.BLOCK:
        await transaction.run(_UNMARK, namespace, side, key)
        return

    moved = mark.move_behind([ScoredLink.parse(columns).record for columns in links])
    if moved is not None:
        _, _, *place = moved
        await transaction.run(_MOVE_MARK, *place, namespace, side, key)


async def _save_ranks(transaction: Transaction, namespace: str, links: Iterable[Columns]) -> None:
    """Write the ranks of sound links that follow from the scores of now.

    Both ranks, so that no link whose place in an index changes has a stale rank left.
    """
    # Not in SQL, because the hash of a link covers its ranks, and only Python computes it.
    rows: list[Columns] = []
    for record, target_score, source_score in map(ScoredLink.parse, links):
        if not record.is_sound:
            continue

        new = LinkRecord.build(record.row, target_score, source_score)
        if new != record:
            name = (namespace, new.source, new.target, new.type)
            rows.append((new.rank, new.back_rank, new.hash, *name))

    if rows:
        await transaction.run_many(_UPDATE, rows)
