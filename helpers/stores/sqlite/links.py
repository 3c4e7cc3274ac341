"""Writes of links and their ranks in an SQLite store, in a transaction of the caller."""

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from abilities.helpers.stores import ranking
from abilities.helpers.stores.changes import rename_links
from abilities.helpers.stores.model import LinkRecord, LinkRow, Row
from abilities.helpers.stores.ranking import SIDES, Side, StaleMark
from abilities.helpers.stores.sqlite.ranking import (
    LINK_RECORD,
    list_old_marks,
    mark_stale,
    move_mark,
    read_links_behind,
    remove_mark,
)
from abilities.helpers.stores.sqlite.reads import format_placeholders

# All links of a change are written by one statement, which takes them from a temporary table: in a
# savepoint each statement that fires triggers costs as much as was written since it began.
_CREATE_PENDING = f"CREATE TEMP TABLE pending_links (namespace, {LINK_RECORD})"
_ADD_PENDING = (
    f"INSERT INTO pending_links VALUES ({format_placeholders(len(LinkRecord._fields) + 1)})"
)
_ADD_PENDING_NAME = (
    "INSERT INTO pending_links (namespace, source, target, type) VALUES (?, ?, ?, ?)"
)
_CLEAR_PENDING = "DELETE FROM pending_links"
_SAVE_PENDING = f"""
INSERT INTO links (namespace, {LINK_RECORD})
SELECT namespace, {LINK_RECORD} FROM pending_links WHERE true
ON CONFLICT (namespace, source, target, type) DO UPDATE SET
    weight = excluded.weight, term = excluded.term, rank = excluded.rank,
    back_rank = excluded.back_rank, hash = excluded.hash
"""
_ADD_LINK = f"""
INSERT INTO links (namespace, {LINK_RECORD})
VALUES ({format_placeholders(len(LinkRecord._fields) + 1)}) ON CONFLICT DO NOTHING
"""
_DELETE_PENDING = """
DELETE FROM links WHERE (namespace, source, target, type) IN (
    SELECT namespace, source, target, type FROM pending_links
)
"""
_LINKS_AT: dict[Side, str] = {
    "target": f"""
    SELECT {LINK_RECORD} FROM links INDEXED BY links_incoming
    WHERE namespace = ? AND target = ? LIMIT ?
    """,
    "source": f"SELECT {LINK_RECORD} FROM links WHERE namespace = ? AND source = ? LIMIT ?",
}


class LinkMoves(NamedTuple):
    """The sound links that a rename replaces, and those that it puts in their place."""

    before: list[LinkRow]
    after: list[LinkRow]


def prepare_link_writes(connection: sqlite3.Connection) -> None:
    """Add the temporary table that the statements of this module use."""
    connection.execute(_CREATE_PENDING)


def update_ranks(connection: sqlite3.Connection, row: Row) -> None:
    """Update the ranks of the links of a memory and to it, after its score or archived state.

    This includes a memory that was just added or deleted. Ranks at a side where it has many links
    are marked as stale instead. Damaged links stay as they are.
    """
    for side in SIDES:
        _update_side(connection, row.namespace, row.key, side)


def _update_side(connection: sqlite3.Connection, namespace: str, key: str, side: Side) -> None:
    cursor = connection.execute(_LINKS_AT[side], (namespace, key, ranking.MOST_UPDATED + 1))
    records = list(map(LinkRecord._make, cursor))

    if len(records) > ranking.MOST_UPDATED:
        mark_stale(connection, namespace, StaleMark.build(side, key))
        return

    _save_links(connection, namespace, _select_sound(records))
    remove_mark(connection, namespace, side, key)


def refresh_stale_ranks(connection: sqlite3.Connection, namespace: str) -> None:
    """Update some of the ranks behind the marks that a namespace does not keep."""
    for mark in list_old_marks(connection, namespace):
        _refresh_behind(connection, namespace, mark)


def _refresh_behind(connection: sqlite3.Connection, namespace: str, mark: StaleMark) -> None:
    records = read_links_behind(connection, namespace, mark, ranking.BLOCK)
    _save_links(connection, namespace, _select_sound(records))

    if len(records) < ranking.BLOCK:
        remove_mark(connection, namespace, mark.side, mark.key)
        return

    moved = mark.move_behind(records)
    if moved is not None:
        move_mark(connection, namespace, moved)


def _select_sound(records: Sequence[LinkRecord]) -> list[LinkRow]:
    return [record.row for record in records if record.is_sound]


def save_links(
    connection: sqlite3.Connection, row: Row, before: Sequence[LinkRow], after: Sequence[LinkRow]
) -> None:
    """Write the links of a memory that were added, changed or removed."""
    remaining = {(link.target, link.type) for link in after}
    removed: list[LinkRow] = []
    for link in before:
        if (link.target, link.type) not in remaining:
            removed.append(link)

    changed = sorted(set(after) - set(before))

    _delete_links(connection, row.namespace, removed)
    _save_links(connection, row.namespace, changed)


def add_link(connection: sqlite3.Connection, namespace: str, link: LinkRow) -> bool:
    """Add a link, unless there is one of its name; return whether it was added."""
    target_score = _read_score(connection, namespace, link.target)
    source_score = _read_score(connection, namespace, link.source)
    record = LinkRecord.build(link, target_score, source_score)

    return connection.execute(_ADD_LINK, (namespace, *record)).rowcount == 1


def plan_rename(connection: sqlite3.Connection, row: Row, new_key: str) -> LinkMoves:
    """Return what a rename does to the links from a memory and to its old and new key.

    Damaged links stay where they are.
    """
    statement = (
        f"SELECT {LINK_RECORD} FROM links WHERE namespace = ?1 AND source = ?2"
        f" UNION SELECT {LINK_RECORD} FROM links INDEXED BY links_incoming"
        " WHERE namespace = ?1 AND target IN (?2, ?3)"
    )
    cursor = connection.execute(statement, (row.namespace, row.key, new_key))

    links = _select_sound(list(map(LinkRecord._make, cursor)))
    return LinkMoves(links, rename_links(links, row.key, new_key))


def save_rename(connection: sqlite3.Connection, row: Row, moves: LinkMoves) -> None:
    """Move the links of a memory that was renamed; ``row`` is the renamed one, already saved."""
    _delete_links(connection, row.namespace, moves.before)
    _save_links(connection, row.namespace, moves.after)


def _delete_links(connection: sqlite3.Connection, namespace: str, links: Sequence[LinkRow]) -> None:
    if not links:
        return

    names = [(namespace, link.source, link.target, link.type) for link in links]
    connection.executemany(_ADD_PENDING_NAME, names)
    connection.execute(_DELETE_PENDING)
    connection.execute(_CLEAR_PENDING)


def _save_links(connection: sqlite3.Connection, namespace: str, links: Sequence[LinkRow]) -> None:
    """Add links with their ranks, or replace those of the same names.

    Both ranks follow from the scores of now, so that no link whose place in an index changes has a
    stale rank left.
    """
    if not links:
        return

    scores: dict[str, float | None] = {}
    records: list[tuple[object, ...]] = []

    for link in links:
        for key in (link.source, link.target):
            if key not in scores:
                scores[key] = _read_score(connection, namespace, key)

        record = LinkRecord.build(link, scores[link.target], scores[link.source])
        records.append((namespace, *record))

    connection.executemany(_ADD_PENDING, records)
    connection.execute(_SAVE_PENDING)
    connection.execute(_CLEAR_PENDING)


def _read_score(connection: sqlite3.Connection, namespace: str, key: str) -> float | None:
    """Return the score that links rank by; None for a missing, archived or impossible one."""
    row: tuple[float] | None = connection.execute(
        "SELECT score FROM memories WHERE namespace = ? AND key = ? AND archived = 0"
        " AND score BETWEEN 0 AND 1",
        (namespace, key),
    ).fetchone()
    if row is None:
        return None

    (score,) = row
    return score
