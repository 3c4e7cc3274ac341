"""Export and import of whole memories in an SQLite store, in a transaction of the caller."""

import sqlite3
from collections.abc import Sequence

from abilities.declarations.faults import Refused
from abilities.declarations.values import utc_now
from abilities.helpers.stores.changes import BatchOptions, Outcome, merge_incoming
from abilities.helpers.stores.entries import (
    ENTRY_COLUMNS,
    NO_LINKS,
    LinkChange,
    Occasion,
    build_entry,
    save_entry,
)
from abilities.helpers.stores.history import DamagedEntry, Entry, verify_entry
from abilities.helpers.stores.mending import mend_row
from abilities.helpers.stores.model import (
    AccessCounters,
    DamagedMemory,
    IncomingMemory,
    LinkRow,
    Row,
    StoredMemory,
    verify_row,
)
from abilities.helpers.stores.past import find_last_version, is_purged
from abilities.helpers.stores.requests import check_incoming
from abilities.helpers.stores.sqlite.links import save_links
from abilities.helpers.stores.sqlite.reads import (
    COLUMNS,
    StoredRow,
    fetch_stored_row,
    load_memory,
    read_all_links,
)
from abilities.helpers.stores.sqlite.transaction import run
from abilities.helpers.stores.sqlite.writes import (
    check_quota,
    mend_memory,
    save_memory,
    take_version,
)
from abilities.helpers.stores.timeline import HistoryLimits

_CALLER = "import"
"""What the history says of who made the changes of an import."""

_PAGE = f"""
SELECT CAST(namespace AS BLOB), CAST(key AS BLOB), {COLUMNS}, hash FROM memories
WHERE (namespace, key) > (CAST(? AS TEXT), CAST(? AS TEXT)) ORDER BY namespace, key LIMIT ?
"""
# As bytes, because the names of a damaged entry need not be UTF-8.
_ENTRIES = f"""
SELECT CAST(namespace AS BLOB), CAST(id AS BLOB), {ENTRY_COLUMNS}
FROM history INDEXED BY history_id
WHERE (namespace, id, version) > (CAST(? AS TEXT), CAST(? AS TEXT), ?)
ORDER BY namespace, id, version LIMIT ?
"""


def read_page(
    connection: sqlite3.Connection, after: tuple[str, str], limit: int
) -> list[StoredMemory | DamagedMemory]:
    """Return memories with all their links, of all namespaces, and what of them is damaged."""
    # As bytes, because the names of a damaged memory need not be UTF-8.
    names = [name.encode(errors="surrogateescape") for name in after]
    columns = connection.execute(_PAGE, (*names, limit)).fetchall()

    page: list[StoredMemory | DamagedMemory] = []
    for namespace, key, *values, stored_hash in columns:
        row = Row._make(values)
        try:
            verify_row(row, stored_hash)
        except Refused as error:
            page.append(DamagedMemory(_decode(namespace), _decode(key), error.reason))
        else:
            page += _read_whole(connection, row)

    return page


def _read_whole(connection: sqlite3.Connection, row: Row) -> list[StoredMemory | DamagedMemory]:
    """Return a memory with all its sound links, after a DamagedMemory if some are damaged."""
    namespace, key = row.namespace, row.key

    links, damaged = read_all_links(connection, namespace, key)
    memory = load_memory(connection, row, 0)
    memory = memory._replace(links=tuple(links), links_total=len(links))

    if damaged:
        return [DamagedMemory(namespace, key, f"{damaged} damaged links"), memory]
    return [memory]


def _decode(name: bytes) -> str:
    return name.decode(errors="surrogateescape")


def read_entries(
    connection: sqlite3.Connection, after: tuple[str, str, int], limit: int
) -> list[Entry | DamagedEntry]:
    """Return entries of all namespaces by namespace, id and version."""
    namespace, memory_id, version = after
    names = [name.encode(errors="surrogateescape") for name in (namespace, memory_id)]

    page: list[Entry | DamagedEntry] = []
    columns = connection.execute(_ENTRIES, (*names, version, limit))
    for stored_namespace, stored_id, *values in columns:
        entry = Entry._make(values)
        try:
            page.append(verify_entry(entry))
        except Refused:
            owner = _decode(stored_namespace), _decode(stored_id)
            page.append(DamagedEntry(owner[0], entry.version, owner[1]))

    return page


def count_memories(connection: sqlite3.Connection) -> int:
    """Return the number of memories in all namespaces, archived ones included."""
    (count,) = connection.execute("SELECT count(*) FROM memories").fetchone()
    return int(count)


def try_imports(
    connection: sqlite3.Connection,
    memories: Sequence[IncomingMemory],
    options: BatchOptions,
    limits: HistoryLimits,
) -> list[Outcome | Exception]:
    """Return what would become of each memory; one that is refused does not stop the others."""
    outcomes: list[Outcome | Exception] = []

    for memory in memories:
        try:
            outcomes.append(import_memory(connection, memory, options, limits))
        except Refused as error:
            outcomes.append(error)

    return outcomes


def import_memory(
    connection: sqlite3.Connection,
    incoming: IncomingMemory,
    options: BatchOptions,
    limits: HistoryLimits,
) -> Outcome:
    """Import one memory, in a savepoint of the caller. Raises Refused."""
    check_incoming(incoming)
    row = incoming.stored.row
    links: list[LinkRow] = []
    before: Row | None = None

    found = fetch_stored_row(connection, row.namespace, "key", row.key)
    if found is None:
        check_quota(connection, row.namespace, options.quota)
    else:
        before = _mend_before_import(connection, found, options, limits)
        links, _ = read_all_links(connection, row.namespace, row.key)

    merged = merge_incoming(incoming, before, links, replace=options.replace)
    if found is not None and found.is_damaged:
        merged = merged._replace(outcome="replaced")
    if merged.outcome not in ("added", "replaced"):
        return merged.outcome

    holder = fetch_stored_row(connection, merged.row.namespace, "id", merged.row.id)
    if holder is not None and holder.row.key != merged.row.key:
        raise Refused("key_taken")

    if run(connection, is_purged, merged.row.namespace, merged.row.id):
        raise Refused("purged")

    if not options.dry_run:
        merged_row = merged.row._replace(version=take_version(connection, row.namespace))
        save_memory(connection, before, merged_row, _choose_counters(incoming))
        save_links(connection, merged_row, links, merged.links)
        link_change = LinkChange.build(links, merged.links)
        _record_import(connection, limits, before, merged_row, link_change)

    return merged.outcome


def _record_import(
    connection: sqlite3.Connection,
    limits: HistoryLimits,
    before: Row | None,
    row: Row,
    links: LinkChange,
) -> None:
    """Write what an import replaced, which may be a memory with another id."""
    occasion = Occasion("imported", utc_now(), _CALLER)
    if before is not None and before.id != row.id:
        deleted = occasion._replace(action="deleted")
        replaced = LinkChange(links.before, {})
        entry = build_entry(deleted, before, None, row.version, replaced)
        run(connection, save_entry, entry, limits)
        before = None

    if before is None:
        links = NO_LINKS
        last = run(connection, find_last_version, row.namespace, row.id)
        if last is None:
            occasion = occasion._replace(action="created")
        else:
            # Its history was imported before it, up to the version that it had.
            before = row._replace(version=last)

    entry = build_entry(occasion, before, row, row.version, links)
    run(connection, save_entry, entry, limits)


def _mend_before_import(
    connection: sqlite3.Connection, found: StoredRow, options: BatchOptions, limits: HistoryLimits
) -> Row:
    """Return the stored row; a damaged one is mended. Raises Refused if it is to be kept."""
    if not found.is_damaged:
        return found.row
    if not options.replace:
        raise Refused("checksum_mismatch")

    now = utc_now()
    if options.dry_run:
        return mend_row(found.row, now)
    return mend_memory(connection, found, limits, now, _CALLER)


def _choose_counters(incoming: IncomingMemory) -> AccessCounters | None:
    """Return the access counters to import, or None to keep the stored ones."""
    if incoming.provisional:
        return None

    return AccessCounters(incoming.stored.accessed_at, incoming.stored.access_count)
