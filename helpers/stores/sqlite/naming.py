"""Which memory of an SQLite store is meant by an id or by a key, which it may no longer have."""

import sqlite3
from typing import NamedTuple

from abilities.declarations.faults import Refused
from abilities.helpers.stores.sqlite.reads import StoredRow, fetch_stored_row
from abilities.helpers.stores.timeline import MemoryName

_FIND_BY_KEY = """
SELECT id FROM history INDEXED BY history_key
WHERE namespace = ? AND key = ? AND action IN ('deleted', 'renamed') ORDER BY version DESC LIMIT 1
"""
_FIND_LAST = """
SELECT action FROM history INDEXED BY history_id
WHERE namespace = ? AND id = ? ORDER BY version DESC LIMIT 1
"""
_FIND_LAST_KEY = """
SELECT key FROM history INDEXED BY history_id
WHERE namespace = ? AND id = ? ORDER BY version DESC LIMIT 1
"""
_FIND_PURGED = "SELECT 1 FROM purged WHERE namespace = ? AND id = ?"


class NamedMemory(NamedTuple):
    """A memory by its id; ``stored`` is its row, or None if it was deleted and has a history."""

    id: str
    stored: StoredRow | None


def find_named(connection: sqlite3.Connection, namespace: str, name: MemoryName) -> NamedMemory:
    """Return the memory that a name means.

    Raises Refused: id_not_found, memory_not_found.
    """
    if name.id:
        found = _find_by_id(connection, namespace, name.id)
        if found is None:
            raise Refused("id_not_found")
        return found

    stored = fetch_stored_row(connection, namespace, "key", name.key or "")
    if stored is not None:
        return NamedMemory(stored.row.id, stored)

    former = connection.execute(_FIND_BY_KEY, (namespace, name.key)).fetchone()
    found = former and _find_by_id(connection, namespace, *former)
    if not found:
        raise Refused("memory_not_found")
    return found


def _find_by_id(
    connection: sqlite3.Connection, namespace: str, memory_id: str
) -> NamedMemory | None:
    """Return a memory that exists, or whose deletion the history knows."""
    stored = fetch_stored_row(connection, namespace, "id", memory_id)
    if stored is not None:
        return NamedMemory(memory_id, stored)

    last = connection.execute(_FIND_LAST, (namespace, memory_id)).fetchone()
    if last != ("deleted",):
        return None
    return NamedMemory(memory_id, None)


def find_last_key(connection: sqlite3.Connection, namespace: str, memory_id: str) -> str:
    """Return the key that a deleted memory had last."""
    (key,) = connection.execute(_FIND_LAST_KEY, (namespace, memory_id)).fetchone()
    return str(key)


def is_purged(connection: sqlite3.Connection, namespace: str, memory_id: str) -> bool:
    """Return whether a memory was deleted with its history."""
    return connection.execute(_FIND_PURGED, (namespace, memory_id)).fetchone() is not None
