"""Writes of changes to an SQLite store, in a transaction of the caller."""

import sqlite3
from collections.abc import Sequence

import orjson

from abilities.declarations.faults import Refused
from abilities.helpers.stores.changes import Change, create_row, merge_change
from abilities.helpers.stores.model import IMPORTANCES, AccessCounters, LinkRow, Row, hash_values
from abilities.helpers.stores.protocol import WriteResult
from abilities.helpers.stores.sqlite.reads import (
    COLUMNS,
    find_row_by_id,
    find_row_by_key,
    format_placeholders,
    load_memory,
    read_links_to,
)
from abilities.helpers.stores.sqlite.search import add_content, remove_content

_PLACEHOLDERS = format_placeholders(len(Row._fields) + 1)
_INSERT = f"INSERT INTO memories ({COLUMNS}, hash) VALUES ({_PLACEHOLDERS})"
_UPDATE = (
    f"UPDATE memories SET ({COLUMNS}, hash) = ({_PLACEHOLDERS}) WHERE namespace = ? AND key = ?"
)
_INDEX_COLUMNS = (
    "namespace",
    "id",
    "memory",
    "type",
    "category",
    "importance",
    "archived",
    "size",
    "created_at",
    "updated_at",
    "accessed_at",
    "access_count",
)
_INDEX = (
    f"INSERT INTO shelf ({', '.join(_INDEX_COLUMNS)})"
    f" VALUES ({format_placeholders(len(_INDEX_COLUMNS))})"
)
_INDEX_TAG = "INSERT INTO tags (namespace, tag, archived, accessed_at, id) VALUES (?, ?, ?, ?, ?)"
_SHOWN_LINKS = 20
"""Best links that are returned with a changed memory."""


def apply_change(
    connection: sqlite3.Connection, namespace: str, change: Change, quota: int | None
) -> WriteResult:
    """Make a change and return the memory.

    Raises Refused: id_not_found, key_taken, storage_quota, and what reading the memory raises.
    """
    before = _find_changed_row(connection, namespace, change)

    if change.kind == "delete":
        assert before is not None, "a memory is deleted by id, which exists"
        _delete_memory(connection, before)
        return WriteResult(None, created=False, updated=())

    links: list[LinkRow] = []
    if before is None:
        check_quota(connection, namespace, quota)
    else:
        links = read_links_to(connection, namespace, before.key, change.linked_keys)

    after = merge_change(change, before or create_row(change, namespace), links)
    if before is None or after.updated:
        save_memory(connection, before, after.row)
        save_links(connection, after.row, links, after.links)

    memory = load_memory(connection, after.row, _SHOWN_LINKS)
    return WriteResult(memory, created=before is None, updated=after.updated)


def _find_changed_row(connection: sqlite3.Connection, namespace: str, change: Change) -> Row | None:
    """Return the row of the memory that a change names, or None if the change creates it."""
    by_id = by_key = None

    if change.id:
        by_id = find_row_by_id(connection, namespace, change.id)
        if by_id is None:
            raise Refused("id_not_found")

    if change.key:
        by_key = find_row_by_key(connection, namespace, change.key)

    if by_id is not None and change.key is not None and by_id.key != change.key:
        raise Refused("key_taken")

    return by_id or by_key


def count_access(
    connection: sqlite3.Connection, namespace: str, key: str, access: AccessCounters
) -> None:
    """Add to a memory's access counters, which its hash does not cover; ignore a missing memory."""
    row = connection.execute(
        "SELECT id FROM memories WHERE namespace = ? AND key = ?", (namespace, key)
    ).fetchone()
    if row is None:
        return

    (memory_id,) = row
    connection.execute(
        "UPDATE shelf SET accessed_at = max(accessed_at, ?), access_count = access_count + ?"
        " WHERE namespace = ? AND id = ?",
        (access.accessed_at, access.access_count, namespace, memory_id),
    )
    connection.execute(
        "UPDATE tags SET accessed_at = max(accessed_at, ?) WHERE namespace = ? AND id = ?",
        (access.accessed_at, namespace, memory_id),
    )


def check_quota(connection: sqlite3.Connection, namespace: str, quota: int | None) -> None:
    """Raise Refused("storage_quota") if a namespace may hold no further memory."""
    if quota is None:
        return

    (count,) = connection.execute(
        "SELECT sum(number) FROM counters WHERE namespace = ? AND name = 'all'", (namespace,)
    ).fetchone()
    if (count or 0) >= quota:
        raise Refused("storage_quota")


def save_memory(
    connection: sqlite3.Connection,
    before: Row | None,
    after: Row,
    counters: AccessCounters | None = None,
) -> None:
    """Write a memory's row and everything that is derived from it.

    ``before`` is the stored row, or None for a new memory. ``counters`` replace its access counters
    if given.
    """
    if before is None:
        memory = _insert_row(connection, after)
        stored_counters = AccessCounters(after.created_at, 0)
    else:
        memory, stored_counters = _update_row(connection, before, after)

    _index_memory(connection, after, memory, counters or stored_counters)


def _insert_row(connection: sqlite3.Connection, row: Row) -> int:
    """Add a row, its searchable content and its effect on links to it; return its rowid."""
    memory = connection.execute(_INSERT, (*row, hash_values(row))).lastrowid
    assert memory is not None

    add_content(connection, memory, row.content)
    _update_ranks(connection, row)
    return memory


def _update_row(
    connection: sqlite3.Connection, before: Row, after: Row
) -> tuple[int, AccessCounters]:
    """Replace a row and take it out of the memory index; return its rowid and access counters."""
    connection.execute(_UPDATE, (*after, hash_values(after), after.namespace, after.key))

    memory, *counters = connection.execute(
        "SELECT memory, accessed_at, access_count FROM shelf WHERE namespace = ? AND id = ?",
        (before.namespace, before.id),
    ).fetchone()
    _unindex_memory(connection, before)  # triggers count a deletion here, and an insertion later

    if before.content != after.content:
        remove_content(connection, memory, before.content)
        add_content(connection, memory, after.content)
    if (before.score, before.archived) != (after.score, after.archived):
        _update_ranks(connection, after)

    return memory, AccessCounters._make(counters)


def _index_memory(
    connection: sqlite3.Connection, row: Row, memory: int, counters: AccessCounters
) -> None:
    """Add a memory to the memory index and the tag index; ``memory`` is its rowid."""
    size = len(row.content.encode()) + len(row.summary.encode())
    importance = IMPORTANCES.index(row.importance)

    connection.execute(
        _INDEX,
        (
            row.namespace,
            row.id,
            memory,
            row.type,
            row.category,
            importance,
            row.archived,
            size,
            row.created_at,
            row.updated_at,
            counters.accessed_at,
            counters.access_count,
        ),
    )

    tags: list[tuple[str, str, int, str, str]] = []
    for tag in orjson.loads(row.tags):
        tags.append((row.namespace, tag, row.archived, counters.accessed_at, row.id))
    connection.executemany(_INDEX_TAG, tags)


def _unindex_memory(connection: sqlite3.Connection, row: Row) -> None:
    """Remove a memory from the memory index and the tag index."""
    connection.execute("DELETE FROM shelf WHERE namespace = ? AND id = ?", (row.namespace, row.id))
    connection.execute("DELETE FROM tags WHERE namespace = ? AND id = ?", (row.namespace, row.id))


def _delete_memory(connection: sqlite3.Connection, row: Row) -> None:
    """Delete a memory and its links for good; links from others to it stay and become dangling."""
    (memory,) = connection.execute(
        "SELECT memory FROM shelf WHERE namespace = ? AND id = ?", (row.namespace, row.id)
    ).fetchone()

    remove_content(connection, memory, row.content)
    _unindex_memory(connection, row)
    connection.execute(
        "DELETE FROM links WHERE namespace = ? AND source = ?", (row.namespace, row.key)
    )
    connection.execute(
        "DELETE FROM memories WHERE namespace = ? AND key = ?", (row.namespace, row.key)
    )

    # Links to a deleted memory rank like those to an archived one.
    _update_ranks(connection, row._replace(archived=1))


def _update_ranks(connection: sqlite3.Connection, target: Row) -> None:
    """Recompute the rank of every link to a memory; it is -1 if the memory is archived."""
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
    """Write the links of a memory that were added, changed or removed."""
    remaining = {(link.target, link.type) for link in after}
    for link in before:
        if (link.target, link.type) not in remaining:
            connection.execute(
                "DELETE FROM links WHERE namespace = ? AND source = ? AND target = ? AND type = ?",
                (row.namespace, row.key, link.target, link.type),
            )

    for link in set(after) - set(before):
        _save_link(connection, row.namespace, link)


def _save_link(connection: sqlite3.Connection, namespace: str, link: LinkRow) -> None:
    """Insert a link with its rank, or replace the one with the same source, target and type."""
    target = connection.execute(
        "SELECT score FROM memories WHERE namespace = ? AND key = ? AND archived = 0",
        (namespace, link.target),
    ).fetchone()

    rank = -1.0  # of a link to a missing or archived memory
    if target is not None:
        (score,) = target
        rank = link.weight * score

    # The rank is part of the primary key; the unique index links_back finds what to replace.
    connection.execute(
        "INSERT OR REPLACE INTO links (namespace, source, target, type, weight, rank, hash)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (namespace, *link, rank, hash_values((*link, rank))),
    )
