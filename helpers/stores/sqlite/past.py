"""Reads of the history of an SQLite store, in a snapshot of the caller."""

import sqlite3
from collections.abc import Generator, Iterable
from contextlib import closing
from typing import Any

from abilities.declarations.faults import Refused
from abilities.helpers.stores.history import (
    Entry,
    State,
    rewind,
    rewind_to_time,
    verify_entry,
)
from abilities.helpers.stores.model import Row, StoredMemory
from abilities.helpers.stores.sqlite.history import ENTRY, name_links
from abilities.helpers.stores.sqlite.naming import find_named
from abilities.helpers.stores.sqlite.reads import StoredRow, read_all_links
from abilities.helpers.stores.timeline import ChangePage, MemoryChange, MemoryHistory, MemoryName

_ENTRIES = f"""
SELECT {ENTRY} FROM history INDEXED BY history_id WHERE namespace = ? AND id = ? AND version < ?
ORDER BY version DESC
"""
# Before a memory was mended, it cannot be restored.
_EARLIEST = """
SELECT CASE WHEN previous = 0 OR action = 'mended' THEN version ELSE previous END
FROM history INDEXED BY history_id WHERE namespace = ?1 AND id = ?2 AND version >= coalesce((
    SELECT max(version) FROM history INDEXED BY history_id
    WHERE namespace = ?1 AND id = ?2 AND action = 'mended'
), 0) ORDER BY version LIMIT 1
"""
_CHANGES = """
SELECT version, id, action, made_at, caller FROM history
WHERE namespace = ?1 AND version > ?2 AND version <= ?3
UNION ALL SELECT version, id, 'purged', made_at, caller FROM purged INDEXED BY purged_version
WHERE namespace = ?1 AND version > ?2 AND version <= ?3
ORDER BY version, id
"""
_LATEST = """
SELECT version, id, action, made_at, caller FROM history
WHERE namespace = ?1 AND version < ?2 AND action <> 'relinked'
UNION ALL SELECT version, id, 'purged', made_at, caller FROM purged INDEXED BY purged_version
WHERE namespace = ?1 AND version < ?2
ORDER BY version DESC, id DESC LIMIT ?3
"""
_NEXT_VERSION = """
SELECT max(version) FROM (
    SELECT version FROM (
        SELECT version FROM history WHERE namespace = ?1 AND version > ?2 ORDER BY version LIMIT ?3
    ) UNION ALL SELECT version FROM (
        SELECT version FROM purged INDEXED BY purged_version
        WHERE namespace = ?1 AND version > ?2 ORDER BY version LIMIT ?3
    ) ORDER BY version LIMIT ?3
)
"""
_KEY = """
SELECT coalesce(
    (SELECT key FROM memories WHERE namespace = ?1 AND id = ?2),
    (SELECT key FROM history INDEXED BY history_id WHERE namespace = ?1 AND id = ?2
        ORDER BY version DESC LIMIT 1),
    ''
)
"""
_VERSIONS = "SELECT number, forgotten FROM versions WHERE namespace = ?"

_LAST_VERSION = 2**63 - 1


def read_state(connection: sqlite3.Connection, row: Row | None) -> State:
    """Return a memory as it is now, with all its sound links."""
    if row is None:
        return State(None, {})

    links, _ = read_all_links(connection, row.namespace, row.key)
    return State(row, name_links(links))


def iterate_entries(
    connection: sqlite3.Connection, namespace: str, memory_id: str, before: int = _LAST_VERSION
) -> Generator[Entry]:
    """Yield the entries of a memory, newest first, as they are read.

    Whoever may stop early closes the generator: a statement that is not finished holds a snapshot.
    """
    with closing(connection.execute(_ENTRIES, (namespace, memory_id, before))) as found:
        for columns in found:
            yield Entry._make(columns)


def read_history(
    connection: sqlite3.Connection, namespace: str, name: MemoryName, before: int | None, limit: int
) -> MemoryHistory:
    """Return a page of a memory's history, which ends before the first damaged entry."""
    memory_id, stored = find_named(connection, namespace, name)
    row = _verify(stored)

    entries: list[Entry] = []
    has_more = False
    earliest = _find_earliest(connection, namespace, memory_id, row)
    end = _LAST_VERSION if before is None else before
    with closing(iterate_entries(connection, namespace, memory_id, end)) as found:
        for entry in found:
            if len(entries) == limit:
                has_more = True
                break

            try:
                entries.append(verify_entry(entry))
            except Refused:
                earliest = entry.previous if entry.action == "relinked" else entry.version
                break

    return MemoryHistory(row, tuple(entries), has_more, earliest)


def _find_earliest(
    connection: sqlite3.Connection, namespace: str, memory_id: str, row: Row | None
) -> int:
    """Return the oldest version of a memory that its entries lead to, if none is damaged."""
    found: tuple[int] | None = connection.execute(_EARLIEST, (namespace, memory_id)).fetchone()
    if found is not None:
        (earliest,) = found
        return earliest

    return row.version if row is not None else 0


def read_version(
    connection: sqlite3.Connection, namespace: str, name: MemoryName, moment: int | str
) -> StoredMemory:
    """Return a memory with all its links in a version, or as it was at a time."""
    memory_id, stored = find_named(connection, namespace, name)
    state = read_state(connection, _verify(stored))
    with closing(iterate_entries(connection, namespace, memory_id)) as entries:
        if isinstance(moment, str):
            found = rewind_to_time(state, entries, moment)
        else:
            found = rewind(state, entries, moment)

    assert found.row is not None, "a version that was found has a row"
    links = tuple(sorted(found.links.values()))
    return StoredMemory(found.row, links, len(links))


def _verify(stored: StoredRow | None) -> Row | None:
    """Return the row of a memory that exists. Raises Refused if it is damaged."""
    if stored is None:
        return None
    if stored.is_damaged:
        raise Refused("checksum_mismatch")

    return stored.row


def read_changes(
    connection: sqlite3.Connection, namespace: str, since: int, limit: int
) -> ChangePage:
    """Return the changes after a version, up to about ``limit``: a version is never divided."""
    number, forgotten = connection.execute(_VERSIONS, (namespace,)).fetchone() or (0, 0)
    ((end,),) = connection.execute(_NEXT_VERSION, (namespace, since, limit)).fetchall()
    if end is None:
        # A follower of a later state, as after a backup was restored, begins anew from here.
        return ChangePage((), number, False, forgotten <= since <= number)

    last_changes: dict[str, tuple[Any, ...]] = {}
    for columns in connection.execute(_CHANGES, (namespace, since, end)):
        _, memory_id, *_ = columns
        last_changes.pop(memory_id, None)  # so that it moves to the end
        last_changes[memory_id] = columns

    changes = _add_keys(connection, namespace, last_changes.values())

    ((later,),) = connection.execute(_NEXT_VERSION, (namespace, end, 1)).fetchall()
    has_more = later is not None
    if not has_more:
        end = max(end, number)
    return ChangePage(tuple(changes), end, has_more, since >= forgotten)


def read_latest_changes(
    connection: sqlite3.Connection, namespace: str, before: int | None, limit: int
) -> list[MemoryChange]:
    """Return the latest changes, newest first, or those before a version."""
    end = _LAST_VERSION if before is None else before
    found = connection.execute(_LATEST, (namespace, end, limit)).fetchall()
    return _add_keys(connection, namespace, found)


def _add_keys(
    connection: sqlite3.Connection, namespace: str, found: Iterable[tuple[Any, ...]]
) -> list[MemoryChange]:
    """Return changes with the keys of their memories now."""
    changes: list[MemoryChange] = []
    for version, memory_id, action, made_at, caller in found:
        ((key,),) = connection.execute(_KEY, (namespace, memory_id)).fetchall()
        changes.append(MemoryChange(version, memory_id, key, action, made_at, caller))

    return changes
