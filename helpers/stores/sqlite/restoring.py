"""Restoring earlier versions of memories in an SQLite store, in a transaction of the caller."""

import sqlite3

from abilities.declarations.faults import Refused
from abilities.helpers.stores.changes import Change, check_version
from abilities.helpers.stores.entries import (
    LinkChange,
    Occasion,
    StoreRules,
    build_entry,
    save_entry,
)
from abilities.helpers.stores.history import (
    State,
    list_restored,
    restore_links,
    restore_row,
)
from abilities.helpers.stores.mending import list_replaced
from abilities.helpers.stores.model import Row
from abilities.helpers.stores.past import is_purged, read_earlier, read_state
from abilities.helpers.stores.protocol import WriteResult
from abilities.helpers.stores.sqlite.links import save_links
from abilities.helpers.stores.sqlite.reads import fetch_stored_row, find_named_row, load_memory
from abilities.helpers.stores.sqlite.transaction import run
from abilities.helpers.stores.sqlite.writes import (
    SHOWN_LINKS,
    check_quota,
    mend_memory,
    save_memory,
    take_version,
)
from abilities.helpers.stores.timeline import MemoryName


def restore_memory(
    connection: sqlite3.Connection, namespace: str, change: Change, rules: StoreRules
) -> WriteResult:
    """Give a memory the values and links of an earlier version; bring it back if it was deleted.

    Raises Refused: id_not_found, memory_not_found, purged, version_conflict, version_not_found,
    checksum_mismatch, key_taken, storage_quota.
    """
    if change.id and run(connection, is_purged, namespace, change.id):
        raise Refused("purged")

    memory_id, stored = find_named_row(connection, namespace, MemoryName(change.id, change.key))
    present = stored and stored.row
    check_version(change, present)

    mended = None
    if stored is not None and stored.is_damaged:
        present = mend_memory(connection, stored, rules.history, change.now, change.caller)
        mended = list_replaced(stored.row, present)

    before = run(connection, read_state, present)
    wanted = run(connection, read_earlier, namespace, memory_id, before, change.to_version)
    assert wanted.row is not None, "a version that was found has a row"

    row = restore_row(change, present, wanted.row)
    after = State(row, restore_links(change, row, wanted))
    updated = list_restored(before, after)
    if present is not None and not updated:
        memory = load_memory(connection, present, SHOWN_LINKS)
        return WriteResult(memory, False, (), mended, present.version, present.id)

    if present is None:
        _check_free(connection, row, rules)
    return _save(connection, change, before, after, rules)._replace(updated=updated, mended=mended)


def _check_free(connection: sqlite3.Connection, row: Row, rules: StoreRules) -> None:
    """Check that a deleted memory can come back. Raises Refused: key_taken, storage_quota."""
    if fetch_stored_row(connection, row.namespace, "key", row.key) is not None:
        raise Refused("key_taken")

    check_quota(connection, row.namespace, rules.quota)


def _save(
    connection: sqlite3.Connection, change: Change, before: State, after: State, rules: StoreRules
) -> WriteResult:
    assert after.row is not None, "a restored memory has a row"
    row = after.row._replace(version=take_version(connection, after.row.namespace))
    after = State(row, after.links)

    save_memory(connection, before.row, row)
    links_before = sorted(before.links.values())
    save_links(connection, row, links_before, sorted(after.links.values()))
    occasion = Occasion("restored", change.now, change.caller)
    links = LinkChange.build(before.links.values(), after.links.values())
    entry = build_entry(occasion, before.row, row, row.version, links)
    run(connection, save_entry, entry, rules.history)

    memory = load_memory(connection, row, SHOWN_LINKS)
    return WriteResult(
        memory, created=before.row is None, updated=(), version=row.version, id=row.id
    )
