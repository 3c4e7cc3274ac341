"""How a change is written to an SQLite store, inside of a transaction that the caller holds."""

import sqlite3
from collections.abc import Sequence
from typing import Any

import orjson

from abilities.declarations.base import Refused
from abilities.helpers.stores.merge import Change, created, merged
from abilities.helpers.stores.protocol import Written
from abilities.helpers.stores.rows import IMPORTANCES, LinkRow, Row, hash_of
from abilities.helpers.stores.sqlite_read import COLUMNS, link_rows, row_by_id, row_by_key, stored_of

_INSERT = f"INSERT INTO memories ({COLUMNS}, hash) VALUES ({', '.join('?' * 16)})"
_UPDATE = f"UPDATE memories SET ({COLUMNS}, hash) = ({', '.join('?' * 16)}) WHERE namespace = ? AND key = ?"


def write(connection: sqlite3.Connection, namespace: str, change: Change, quota: int | None) -> Written:
    """Make a change. Raises Refused: id_not_found, key_taken, storage_quota, and what reading the memory raises."""
    before = _existing(connection, namespace, change)
    if change.kind == "delete":
        assert before is not None
        _remove(connection, before)
        return Written(None, created=False, updated=())
    if before is None and quota is not None and _count(connection, namespace) >= quota:
        raise Refused("storage_quota")
    links = link_rows(connection, namespace, before.key, change.linked) if before else []
    after = merged(change, before or created(change, namespace), links)
    if before is None or after.updated:
        _save(connection, before, after.row)
        _save_links(connection, after.row, links, after.links)
    return Written(stored_of(connection, after.row, 20), created=before is None, updated=after.updated)


def touch(connection: sqlite3.Connection, namespace: str, key: str, count: int, now: str) -> None:
    """Add to a memory's access counters, which are outside of its hash."""
    found = connection.execute("SELECT id FROM memories WHERE namespace = ? AND key = ?", (namespace, key)).fetchone()
    if found:
        connection.execute(
            "UPDATE shelf SET accessed_at = max(accessed_at, ?), access_count = access_count + ?"
            " WHERE namespace = ? AND id = ?",
            (now, count, namespace, found[0]),
        )
        connection.execute(
            "UPDATE tags SET accessed_at = max(accessed_at, ?) WHERE namespace = ? AND id = ?",
            (now, namespace, found[0]),
        )


def _existing(connection: sqlite3.Connection, namespace: str, change: Change) -> Row | None:
    by_id = row_by_id(connection, namespace, change.id) if change.id else None
    if change.id and by_id is None:
        raise Refused("id_not_found")
    by_key = row_by_key(connection, namespace, change.key) if change.key else None
    if by_id is not None and change.key is not None and by_id.key != change.key:
        raise Refused("key_taken")
    return by_id or by_key


def _count(connection: sqlite3.Connection, namespace: str) -> int:
    found = connection.execute(
        "SELECT sum(number) FROM counters WHERE namespace = ? AND name = 'all'", (namespace,)
    ).fetchone()
    return found[0] or 0


def _save(connection: sqlite3.Connection, before: Row | None, after: Row) -> None:
    accessed: Sequence[Any] = (after.created_at, 0)
    if before is None:
        memory = connection.execute(_INSERT, (*after, hash_of(after))).lastrowid
        _rerank(connection, after.namespace, after.key, after.score)
    else:
        connection.execute(_UPDATE, (*after, hash_of(after), after.namespace, after.key))
        memory, *accessed = connection.execute(
            "SELECT memory, accessed_at, access_count FROM shelf WHERE namespace = ? AND id = ?",
            (before.namespace, before.id),
        ).fetchone()
        _unshelve(connection, before, memory)
        if before.score != after.score:
            _rerank(connection, after.namespace, after.key, after.score)
    assert memory is not None
    _shelve(connection, after, memory, accessed[0], accessed[1])


def _shelve(connection: sqlite3.Connection, row: Row, memory: int, accessed_at: str, count: int) -> None:
    size = len(row.content.encode()) + len(row.summary.encode())
    place = IMPORTANCES.index(row.importance)
    named = (row.namespace, row.id, memory, row.type, row.category, place, row.archived, size)
    times = (row.created_at, row.updated_at, accessed_at, count)
    connection.execute("INSERT INTO shelf VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*named, *times))
    tags = [(row.namespace, tag, row.archived, accessed_at, row.id) for tag in orjson.loads(row.tags)]
    connection.executemany("INSERT INTO tags VALUES (?, ?, ?, ?, ?)", tags)
    connection.execute("INSERT INTO search (rowid, folded) VALUES (?, ?)", (memory, row.content.casefold()))


def _unshelve(connection: sqlite3.Connection, row: Row, memory: int) -> None:
    connection.execute("DELETE FROM shelf WHERE namespace = ? AND id = ?", (row.namespace, row.id))
    connection.execute("DELETE FROM tags WHERE namespace = ? AND id = ?", (row.namespace, row.id))
    connection.execute(
        "INSERT INTO search (search, rowid, folded) VALUES ('delete', ?, ?)", (memory, row.content.casefold())
    )


def _remove(connection: sqlite3.Connection, row: Row) -> None:
    """Delete for good; links of others to it stay, and lead to nothing."""
    (memory,) = connection.execute(
        "SELECT memory FROM shelf WHERE namespace = ? AND id = ?", (row.namespace, row.id)
    ).fetchone()
    _unshelve(connection, row, memory)
    connection.execute("DELETE FROM links WHERE namespace = ? AND source = ?", (row.namespace, row.key))
    connection.execute("DELETE FROM memories WHERE namespace = ? AND key = ?", (row.namespace, row.key))
    _rerank(connection, row.namespace, row.key, None)


def _rerank(connection: sqlite3.Connection, namespace: str, target: str, score: float | None) -> None:
    """Keep the rank of every link to a memory whose score changed; None says that it is gone."""
    connection.execute(
        "UPDATE links SET rank = CASE WHEN ?1 IS NULL THEN -1.0 ELSE weight * ?1 END,"
        " hash = link_hash(source, target, type, weight, CASE WHEN ?1 IS NULL THEN -1.0 ELSE weight * ?1 END)"
        " WHERE namespace = ?2 AND target = ?3",
        (score, namespace, target),
    )


def _save_links(connection: sqlite3.Connection, row: Row, before: list[LinkRow], after: tuple[LinkRow, ...]) -> None:
    gone = {(link.target, link.type) for link in before} - {(link.target, link.type) for link in after}
    connection.executemany(
        "DELETE FROM links WHERE namespace = ? AND source = ? AND target = ? AND type = ?",
        [(row.namespace, row.key, target, kind) for target, kind in gone],
    )
    for link in set(after) - set(before):
        found = connection.execute(
            "SELECT score FROM memories WHERE namespace = ? AND key = ?", (row.namespace, link.target)
        ).fetchone()
        rank = link.weight * found[0] if found else -1.0
        connection.execute(
            "INSERT OR REPLACE INTO links VALUES (?, ?, ?, ?, ?, ?, ?)",
            (row.namespace, *link, rank, hash_of((*link, rank))),
        )
