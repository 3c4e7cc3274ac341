"""Writes of memories with all that is derived from them, in a transaction of the caller."""

import logging
import sqlite3

import orjson

from abilities.declarations.faults import Refused
from abilities.declarations.limits import MAX_ACCESS_COUNT
from abilities.helpers.stores.entries import Occasion, build_entry, save_entry
from abilities.helpers.stores.mending import mend_row, propose_names
from abilities.helpers.stores.model import IMPORTANCES, AccessCounters, Row, hash_row
from abilities.helpers.stores.past import find_last_version
from abilities.helpers.stores.sqlite.indexing import (
    index_texts,
    reindex_texts,
    renew_texts,
    unindex_texts,
)
from abilities.helpers.stores.sqlite.links import refresh_stale_ranks, update_ranks
from abilities.helpers.stores.sqlite.reads import (
    COLUMNS,
    StoredRow,
    format_placeholders,
    verify_saved_row,
)
from abilities.helpers.stores.sqlite.transaction import run
from abilities.helpers.stores.timeline import HistoryLimits

_log = logging.getLogger("abilities")

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
_UNINDEX = """
DELETE FROM shelf WHERE memory = ? RETURNING CAST(id AS BLOB), accessed_at, access_count
"""
_UNINDEX_TAGS = "DELETE FROM tags WHERE namespace = ? AND id = CAST(? AS TEXT)"

SHOWN_LINKS = 20
"""Best links that are returned with a changed memory."""


def take_version(connection: sqlite3.Connection, namespace: str) -> int:
    """Return the next version of a namespace, which is not given again."""
    ((version,),) = connection.execute(
        "INSERT INTO versions (namespace, number) VALUES (?, 1)"
        " ON CONFLICT DO UPDATE SET number = number + 1 RETURNING number",
        (namespace,),
    ).fetchall()
    return int(version)


def mend_memory(
    connection: sqlite3.Connection,
    damaged: StoredRow,
    limits: HistoryLimits,
    now: str,
    caller: str,
) -> Row:
    """Write what is readable of a damaged memory anew, with all that is derived from it."""
    memory, row, _ = damaged
    _log.warning("a damaged memory was mended before it was changed")

    proposed = propose_names(mend_row(row, now))
    mended = next(row for row in proposed if _is_free(connection, row, memory))
    mended = mended._replace(version=take_version(connection, row.namespace))
    connection.execute(
        f"UPDATE memories SET ({COLUMNS}, hash) = ({_PLACEHOLDERS}) WHERE rowid = ?",
        (*mended, hash_row(mended), memory),
    )
    verify_saved_row(connection, mended)

    counters = _unindex_memory(connection, row, memory)
    renew_texts(connection, memory, mended)  # the indexed ones are not those that damage left
    update_ranks(connection, mended)
    _index_memory(connection, mended, memory, counters)

    # What was damaged cannot come back, so the entry tells nothing of it.
    last = run(connection, find_last_version, mended.namespace, mended.id)
    former = mended._replace(version=last or max(int(row.version), 0))
    entry = build_entry(Occasion("mended", now, caller), former, mended, mended.version)
    run(connection, save_entry, entry, limits)
    return mended


def _is_free(connection: sqlite3.Connection, row: Row, memory: int) -> bool:
    """Return whether no memory but the one with that rowid has the key or the id of a row."""
    other = connection.execute(
        "SELECT 1 FROM memories WHERE namespace = ?1 AND key = ?2 AND rowid <> ?4"
        " UNION ALL SELECT 1 FROM memories WHERE namespace = ?1 AND id = ?3 AND rowid <> ?4",
        (row.namespace, row.key, row.id, memory),
    ).fetchone()
    return other is None


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
        "UPDATE shelf SET accessed_at = max(accessed_at, ?),"
        " access_count = min(access_count + ?, ?) WHERE namespace = ? AND id = ?",
        (access.accessed_at, access.access_count, MAX_ACCESS_COUNT, namespace, memory_id),
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
    refresh_stale_ranks(connection, after.namespace)


def _insert_row(connection: sqlite3.Connection, row: Row) -> int:
    """Add a row, its indexed texts and its effect on links to it; return its rowid."""
    memory = connection.execute(_INSERT, (*row, hash_row(row))).lastrowid
    assert memory is not None

    verify_saved_row(connection, row)
    index_texts(connection, memory, row)
    update_ranks(connection, row)
    return memory


def _update_row(
    connection: sqlite3.Connection, before: Row, after: Row
) -> tuple[int, AccessCounters]:
    """Replace a row and take it out of the memory index; return its rowid and access counters."""
    connection.execute(_UPDATE, (*after, hash_row(after), before.namespace, before.key))
    verify_saved_row(connection, after)

    # Triggers count a deletion here, and an insertion later.
    memory = _find_rowid(connection, after)
    counters = _unindex_memory(connection, before, memory)

    reindex_texts(connection, memory, before, after)
    if (before.score, before.archived) != (after.score, after.archived):
        update_ranks(connection, after)

    return memory, counters


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


def _unindex_memory(connection: sqlite3.Connection, row: Row, memory: int) -> AccessCounters:
    """Remove a memory from the memory index and the tag index; return its access counters.

    Its rowid finds it in the index, because damage can change the id there.
    """
    counters = AccessCounters(row.created_at, 0)
    ids = {row.id.encode()}

    for indexed_id, *counted in connection.execute(_UNINDEX, (memory,)).fetchall():
        counters = AccessCounters._make(counted)
        ids.add(indexed_id)

    for name in ids:
        connection.execute(_UNINDEX_TAGS, (row.namespace, name))

    return counters


def _find_rowid(connection: sqlite3.Connection, row: Row) -> int:
    """Return the rowid of a memory that exists."""
    (memory,) = connection.execute(
        "SELECT rowid FROM memories WHERE namespace = ? AND key = ?", (row.namespace, row.key)
    ).fetchone()
    return int(memory)


def delete_memory(connection: sqlite3.Connection, row: Row) -> None:
    """Delete a memory and its links for good; links from others to it stay and become dangling."""
    memory = _find_rowid(connection, row)
    unindex_texts(connection, memory, row)
    _unindex_memory(connection, row, memory)
    connection.execute(
        "DELETE FROM links WHERE namespace = ? AND source = ?", (row.namespace, row.key)
    )
    connection.execute(
        "DELETE FROM memories WHERE namespace = ? AND key = ?", (row.namespace, row.key)
    )
    update_ranks(connection, row)
