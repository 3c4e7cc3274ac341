"""Best links in an SQLite store, and the marks of stale ranks, in a transaction of the caller."""

import json
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from abilities.helpers.stores import ranking
from abilities.helpers.stores.model import LinkRecord
from abilities.helpers.stores.ranking import (
    Side,
    StaleMark,
    StaleScores,
    correct_ranks,
    merge_links,
)

LINK_RECORD = ", ".join(LinkRecord._fields)

_FIRST_PAGE = 32
"""Links of a memory that are read at first if nobody knows how many will be needed."""

_QUALIFIED = ", ".join(f"l.{name}" for name in LinkRecord._fields)

BEST_LINKS = f"""
SELECT {LINK_RECORD} FROM links WHERE namespace = ? AND source = ?
ORDER BY rank DESC, weight DESC, target, type LIMIT ? OFFSET ?
"""
BEST_BACKLINKS = f"""
SELECT {LINK_RECORD} FROM links WHERE namespace = ? AND target = ?
ORDER BY back_rank DESC, weight DESC, source, type LIMIT ? OFFSET ?
"""

_STALE_SCORES = """
SELECT s.key, m.score FROM stale_ranks AS s
LEFT JOIN memories AS m ON m.namespace = s.namespace AND m.key = s.key
    AND m.archived = 0 AND m.score BETWEEN 0 AND 1
WHERE s.namespace = ? AND s.side = ?
"""
_MARK = """
INSERT INTO stale_ranks (
    namespace, side, key, last_rank, last_weight, last_key, last_type, since
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7,
    coalesce((SELECT number FROM versions WHERE namespace = ?1), 0))
ON CONFLICT DO UPDATE SET last_rank = excluded.last_rank, last_weight = excluded.last_weight,
    last_key = excluded.last_key, last_type = excluded.last_type, since = excluded.since
"""
_MOVE_MARK = """
UPDATE stale_ranks SET last_rank = ?4, last_weight = ?5, last_key = ?6, last_type = ?7
WHERE namespace = ?1 AND side = ?2 AND key = ?3
"""
_UNMARK = "DELETE FROM stale_ranks WHERE namespace = ? AND side = ? AND key = ?"
_OLD_MARKS = f"""
SELECT {", ".join(StaleMark._fields)} FROM (
    SELECT *, row_number() OVER (ORDER BY since DESC) AS place
    FROM stale_ranks WHERE namespace = ?1
) WHERE place > ?2 OR since <= (SELECT number FROM versions WHERE namespace = ?1) - ?3
ORDER BY since LIMIT ?4
"""


class _Statements(NamedTuple):
    """The statements for links by the ranks of one side.

    ``best`` are the best links of a key, ``ordinary`` those without stale ranks, and ``stale`` all
    that have them. ``rest`` are those between a key and some others, and some to absent memories.
    """

    best: str
    ordinary: str
    stale: str
    rest: str


def _write_statements(best: str, side: Side, own: Side, rank: str) -> _Statements:
    condition = (
        f"AND {side} NOT IN (SELECT key FROM stale_ranks"
        f" WHERE namespace = links.namespace AND side = '{side}') ORDER BY"
    )
    stale = f"""
    SELECT {_QUALIFIED} FROM stale_ranks AS s CROSS JOIN links AS l INDEXED BY links_name
    WHERE s.namespace = ?1 AND s.side = '{side}'
    AND l.namespace = s.namespace AND l.{side} = s.key AND l.{own} = ?2
    """
    rest = f"""
    SELECT {_QUALIFIED} FROM json_each(?3) AS other CROSS JOIN links AS l INDEXED BY links_name
    WHERE l.namespace = ?1 AND l.{own} = ?2 AND l.{side} = other.value
    UNION ALL SELECT * FROM (
        SELECT {LINK_RECORD} FROM links WHERE namespace = ?1 AND {own} = ?2 AND {rank} < 0 LIMIT ?4
    )
    """
    return _Statements(best, best.replace("ORDER BY", condition), stale, rest)


_STATEMENTS: dict[Side, _Statements] = {
    "target": _write_statements(BEST_LINKS, "target", "source", "rank"),
    "source": _write_statements(BEST_BACKLINKS, "source", "target", "back_rank"),
}


def _write_later(side: Side, rank: str, other: Side) -> tuple[str, ...]:
    """Return statements for the links behind a mark: one per range of the index, in its order."""
    select = (
        f"SELECT {LINK_RECORD} FROM links WHERE namespace = :namespace AND {side} = :key AND {rank}"
    )
    return (
        f"{select} = :last_rank AND weight = :last_weight"
        f" AND ({other}, type) > (:last_key, :last_type) ORDER BY {other}, type LIMIT :limit",
        f"{select} = :last_rank AND weight < :last_weight"
        f" ORDER BY weight DESC, {other}, type LIMIT :limit",
        f"{select} < :last_rank ORDER BY {rank} DESC, weight DESC, {other}, type LIMIT :limit",
    )


_LATER: dict[Side, tuple[str, ...]] = {
    "target": _write_later("target", "back_rank", "source"),
    "source": _write_later("source", "rank", "target"),
}


class BestLinks:
    """The links of memories in a snapshot, by the ranks of one side, best first.

    By the side of their targets, a key's links are those that it has; by the side of their sources,
    those that lead to it.
    """

    def __init__(self, connection: sqlite3.Connection, namespace: str, side: Side) -> None:
        self._connection = connection
        self._namespace = namespace
        self._side: Side = side
        self._statements = _STATEMENTS[side]
        self._stale: StaleScores = dict(
            connection.execute(_STALE_SCORES, (namespace, side)).fetchall()
        )

    def read(self, key: str, limit: int, offset: int = 0) -> list[LinkRecord]:
        """Return up to ``limit`` links of a key after the first ``offset`` ones."""
        return list(map(LinkRecord._make, self._read_page(key, limit, offset)))

    def stream(self, key: str, first_page: int = _FIRST_PAGE) -> Iterator[LinkRecord]:
        """Yield the links of a key, and read them in pages that grow."""
        offset = 0
        while True:
            # A page is three times all before it, so that a hub's many links take few queries.
            limit = offset * 3 or first_page
            page = self._read_page(key, limit, offset)

            # One by one, because seldom all of a page is needed.
            yield from map(LinkRecord._make, page)

            if len(page) < limit:
                return
            offset += limit

    def read_rest(self, key: str, others: Collection[str], limit: int) -> Iterator[LinkRecord]:
        """Return a key's links to some others, and up to ``limit`` to absent ones, in any order.

        In a namespace with stale ranks, these are all its links.
        """
        if self._stale:
            return self.stream(key)

        names = json.dumps(list(others))
        return map(LinkRecord._make, self._fetch(self._statements.rest, key, names, limit))

    def is_present(self, key: str, rank: int) -> bool:
        """Return whether the memory at the side of the ranks is there, by a rank as it is kept."""
        if key in self._stale:
            return self._stale[key] is not None

        return rank >= 0

    def _read_page(self, key: str, limit: int, offset: int) -> Sequence[tuple[Any, ...]]:
        """Return the columns of a page of links."""
        if not self._stale:
            return self._fetch(self._statements.best, key, limit, offset)

        if offset == 0:
            page = self._fetch(self._statements.best, key, limit, 0)
            if len(page) < limit:  # these are all
                return self._correct(page)

        corrected = self._correct(self._fetch(self._statements.stale, key))
        most = len(corrected)

        # However the links merge, no more than the stale ones stand before the ordinary ones here.
        start = max(0, offset - most)
        ordinary = self._fetch(self._statements.ordinary, key, limit + most, start)
        merged = merge_links(map(LinkRecord._make, ordinary), corrected, self._side)
        return merged[offset - start :][:limit]

    def _correct(self, links: Sequence[tuple[Any, ...]]) -> list[LinkRecord]:
        return correct_ranks(map(LinkRecord._make, links), self._stale, self._side)

    def _fetch(self, statement: str, key: str, *values: int | str) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, (self._namespace, key, *values)).fetchall()


def mark_stale(connection: sqlite3.Connection, namespace: str, mark: StaleMark) -> None:
    """Mark the ranks of the links at one side of a memory as stale, from now on."""
    connection.execute(_MARK, (namespace, *mark))


def move_mark(connection: sqlite3.Connection, namespace: str, mark: StaleMark) -> None:
    """Keep how far the ranks behind a mark are updated."""
    connection.execute(_MOVE_MARK, (namespace, *mark))


def remove_mark(connection: sqlite3.Connection, namespace: str, side: Side, key: str) -> None:
    """Remove the mark from links whose ranks are all updated, if there is one."""
    connection.execute(_UNMARK, (namespace, side, key))


def list_old_marks(connection: sqlite3.Connection, namespace: str) -> list[StaleMark]:
    """Return the oldest of the sound marks that a namespace does not keep."""
    most, longest = ranking.MOST_STALE, ranking.LONGEST_STALE
    values = (namespace, most, longest, ranking.MOST_REFRESHED)
    marks = map(StaleMark._make, connection.execute(_OLD_MARKS, values))
    return [mark for mark in marks if mark.is_sound]


def read_links_behind(
    connection: sqlite3.Connection, namespace: str, mark: StaleMark, limit: int
) -> list[LinkRecord]:
    """Return up to ``limit`` links whose ranks a mark says to be stale still."""
    values = {"namespace": namespace, **mark._asdict()}
    records: list[LinkRecord] = []

    for statement in _LATER[mark.side]:
        cursor = connection.execute(statement, values | {"limit": limit - len(records)})
        records.extend(map(LinkRecord._make, cursor))

    return records
