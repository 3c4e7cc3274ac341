"""Forgetting memories of an SQLite store for good: their rows, their history, and their words."""

import sqlite3

from abilities.declarations.faults import Refused
from abilities.helpers.stores.changes import Change, check_version
from abilities.helpers.stores.entries import StoreRules, delete_history
from abilities.helpers.stores.mending import list_replaced
from abilities.helpers.stores.past import find_last_key, list_deleted_before
from abilities.helpers.stores.protocol import WriteResult
from abilities.helpers.stores.sqlite.reads import find_named_row
from abilities.helpers.stores.sqlite.transaction import run
from abilities.helpers.stores.sqlite.writes import (
    delete_memory,
    mend_memory,
    take_version,
)
from abilities.helpers.stores.timeline import MemoryName

_MERGED_PAGES = 2_000
"""Pages of a full-text table that are merged in one transaction, about."""

_TABLES = ("search", "search_short")


def purge_memory(
    connection: sqlite3.Connection, namespace: str, change: Change, rules: StoreRules
) -> WriteResult:
    """Delete a memory, present or already deleted, with its history; only its id is remembered.

    So are those that were deleted under its key before, unless another memory has the key now. The
    words of all remain in the full-text tables until these are merged. Raises Refused:
    id_not_found, memory_not_found, key_taken, version_conflict.
    """
    memory_id, stored = find_named_row(connection, namespace, MemoryName(change.id, change.key))
    if stored is not None and change.key not in (None, stored.row.key):
        # A key that a memory no longer has must not destroy it.
        raise Refused("key_taken" if change.id else "memory_not_found")

    present = stored and stored.row
    check_version(change, present)

    mended = None
    if stored is not None and stored.is_damaged:
        present = mend_memory(connection, stored, rules.history, change.now, change.caller)
        mended = list_replaced(stored.row, present)

    version = take_version(connection, namespace)
    key = run(connection, find_last_key, namespace, memory_id) if present is None else present.key
    forgotten = {memory_id, *run(connection, list_deleted_before, namespace, key, memory_id)}
    if present is not None:
        delete_memory(connection, present)
        forgotten.add(present.id)  # mending may have changed it

    run(connection, delete_history, namespace, sorted(forgotten))
    for name in sorted(forgotten):
        connection.execute(
            "INSERT INTO purged (namespace, id, version, made_at, caller) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT DO NOTHING",
            (namespace, name, version, change.now, change.caller),
        )

    return WriteResult(None, False, (), mended, version, memory_id)


def begin_merging(connection: sqlite3.Connection) -> None:
    """Begin to merge the full-text tables; what was removed from them is gone in the end.

    See https://www.sqlite.org/fts5.html#the_merge_command.
    """
    for table in _TABLES:
        _merge(connection, table, -_MERGED_PAGES)


def go_on_merging(connection: sqlite3.Connection) -> bool:
    """Merge some pages of the full-text tables; return whether there are further ones."""
    is_unfinished = False
    for table in _TABLES:
        if _merge(connection, table, _MERGED_PAGES):
            is_unfinished = True

    return is_unfinished


def _merge(connection: sqlite3.Connection, table: str, pages: int) -> bool:
    """Return whether anything was merged."""
    changes = connection.total_changes
    connection.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('merge', ?)", (pages,))
    return connection.total_changes - changes >= 2
