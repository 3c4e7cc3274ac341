"""How a change is written to an SQLite store, inside of a transaction that the caller holds."""

import sqlite3
from collections.abc import Sequence

import orjson

from abilities.declarations.faults import Refused
from abilities.helpers.stores.changes import Change, create_row, merge_change
from abilities.helpers.stores.model import IMPORTANCES, LinkRow, Row, hash_values
from abilities.helpers.stores.protocol import WriteResult
from abilities.helpers.stores.sqlite.reads import (
    COLUMNS,
    link_rows,
    load_memory,
    row_by_id,
    row_by_key,
)
from abilities.helpers.stores.sqlite.search import add_words, remove_words

_INSERT = f"INSERT INTO memories ({COLUMNS}, hash) VALUES ({', '.join('?' * 16)})"
_UPDATE = f"UPDATE memories SET ({COLUMNS}, hash) = ({', '.join('?' * 16)}) WHERE namespace = ? AND key = ?"


def write(
    connection: sqlite3.Connection, namespace: str, change: Change, quota: int | None
) -> WriteResult:
    """Make a change. Raises Refused: id_not_found, key_taken, storage_quota, and what reading the memory raises."""
    before = _existing(connection, namespace, change)
    if change.kind == "delete":
        assert before is not None
        _remove(connection, before)
        return WriteResult(None, created=False, updated=())
    if before is None:
        check_quota(connection, namespace, quota)
    links = link_rows(connection, namespace, before.key, change.linked_keys) if before else []
    after = merge_change(change, before or create_row(change, namespace), links)
    if before is None or after.updated:
        save(connection, before, after.row)
        save_links(connection, after.row, links, after.links)
    return WriteResult(
        load_memory(connection, after.row, 20), created=before is None, updated=after.updated
    )


def touch(connection: sqlite3.Connection, namespace: str, key: str, count: int, now: str) -> None:
    """Add to a memory's access counters, which are outside of its hash."""
    found = connection.execute(
        "SELECT id FROM memories WHERE namespace = ? AND key = ?", (namespace, key)
    ).fetchone()
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


def check_quota(connection: sqlite3.Connection, namespace: str, quota: int | None) -> None:
    """Raises Refused("storage_quota") where a namespace may hold no further memory."""
    if quota is None:
        return
    found = connection.execute(
        "SELECT sum(number) FROM counters WHERE namespace = ? AND name = 'all'", (namespace,)
    ).fetchone()
    if (found[0] or 0) >= quota:
        raise Refused("storage_quota")


def save(
    connection: sqlite3.Connection,
    before: Row | None,
    after: Row,
    accessed: tuple[str, int] | None = None,
) -> None:
    """Write a memory's row and all that is derived from it; ``accessed`` are its counters, where they are not kept."""
    if before is None:
        memory = connection.execute(_INSERT, (*after, hash_values(after))).lastrowid
        assert memory is not None
        counters: tuple[str, int] = (after.created_at, 0)
        add_words(connection, memory, after.content)
        _rerank(connection, after)
    else:
        connection.execute(_UPDATE, (*after, hash_values(after), after.namespace, after.key))
        memory, counted_at, count = connection.execute(
            "SELECT memory, accessed_at, access_count FROM shelf WHERE namespace = ? AND id = ?",
            (before.namespace, before.id),
        ).fetchone()
        counters = (counted_at, count)
        _unshelve(connection, before)
        if before.content != after.content:
            remove_words(connection, memory, before.content)
            add_words(connection, memory, after.content)
        if (before.score, before.archived) != (after.score, after.archived):
            _rerank(connection, after)
    _shelve(connection, after, memory, *(accessed or counters))


def _shelve(
    connection: sqlite3.Connection, row: Row, memory: int, accessed_at: str, count: int
) -> None:
    size = len(row.content.encode()) + len(row.summary.encode())
    place = IMPORTANCES.index(row.importance)
    named = (row.namespace, row.id, memory, row.type, row.category, place, row.archived, size)
    times = (row.created_at, row.updated_at, accessed_at, count)
    connection.execute(
        "INSERT INTO shelf VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*named, *times)
    )
    tags = [
        (row.namespace, tag, row.archived, accessed_at, row.id) for tag in orjson.loads(row.tags)
    ]
    connection.executemany("INSERT INTO tags VALUES (?, ?, ?, ?, ?)", tags)


def _unshelve(connection: sqlite3.Connection, row: Row) -> None:
    connection.execute("DELETE FROM shelf WHERE namespace = ? AND id = ?", (row.namespace, row.id))
    connection.execute("DELETE FROM tags WHERE namespace = ? AND id = ?", (row.namespace, row.id))


def _remove(connection: sqlite3.Connection, row: Row) -> None:
    """Delete for good; links of others to it stay, and lead to nothing."""
    (memory,) = connection.execute(
        "SELECT memory FROM shelf WHERE namespace = ? AND id = ?", (row.namespace, row.id)
    ).fetchone()
    remove_words(connection, memory, row.content)
    _unshelve(connection, row)
    connection.execute(
        "DELETE FROM links WHERE namespace = ? AND source = ?", (row.namespace, row.key)
    )
    connection.execute(
        "DELETE FROM memories WHERE namespace = ? AND key = ?", (row.namespace, row.key)
    )
    _rerank(connection, row._replace(archived=1))


def _rerank(connection: sqlite3.Connection, target: Row) -> None:
    """Keep the rank of every link to a memory that changed; to one that is gone as to an archived one."""
    score = None if target.archived else target.score
    connection.execute(
        "UPDATE links SET rank = coalesce(weight * ?1, -1.0),"
        " hash = link_hash(source, target, type, weight, coalesce(weight * ?1, -1.0))"
        " WHERE namespace = ?2 AND target = ?3",
        (score, target.namespace, target.key),
    )


def save_links(
    connection: sqlite3.Connection, row: Row, before: Sequence[LinkRow], after: Sequence[LinkRow]
) -> None:
    """Write the links of a memory that were added, changed or removed; each says so by target and type."""
    gone = {(link.target, link.type) for link in before} - {
        (link.target, link.type) for link in after
    }
    connection.executemany(
        "DELETE FROM links WHERE namespace = ? AND source = ? AND target = ? AND type = ?",
        [(row.namespace, row.key, target, kind) for target, kind in gone],
    )
    for link in set(after) - set(before):
        found = connection.execute(
            "SELECT score FROM memories WHERE namespace = ? AND key = ? AND archived = 0",
            (row.namespace, link.target),
        ).fetchone()
        rank = link.weight * found[0] if found else -1.0
        connection.execute(
            "INSERT OR REPLACE INTO links VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                row.namespace,
                link.source,
                rank,
                link.weight,
                link.target,
                link.type,
                hash_values((*link, rank)),
            ),
        )
