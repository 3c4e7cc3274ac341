"""Export and import of the history of an SQLite store, in a transaction of the caller."""

import sqlite3
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from abilities.declarations.faults import Refused
from abilities.helpers.stores.history import DamagedEntry, Entry, verify_entry
from abilities.helpers.stores.sqlite.history import ENTRY, add_entries
from abilities.helpers.stores.sqlite.naming import is_purged
from abilities.helpers.stores.sqlite.writes import take_version
from abilities.helpers.stores.timeline import HistoryLimits

_PAGE = f"""
SELECT CAST(namespace AS BLOB), CAST(id AS BLOB), {ENTRY} FROM history INDEXED BY history_id
WHERE (namespace, id, version) > (CAST(? AS TEXT), CAST(? AS TEXT), ?)
ORDER BY namespace, id, version LIMIT ?
"""
_IS_KNOWN = """
SELECT 1 FROM history INDEXED BY history_id WHERE namespace = ?1 AND id = ?2
UNION ALL SELECT 1 FROM memories WHERE namespace = ?1 AND id = ?2 LIMIT 1
"""


class EntryOwner(NamedTuple):
    """The memory that an entry belongs to."""

    namespace: str
    id: str


def read_entries(
    connection: sqlite3.Connection, after: tuple[str, str, int], limit: int
) -> list[Entry | DamagedEntry]:
    """Return entries of all namespaces by namespace, id and version."""
    # As bytes, because the names of a damaged entry need not be UTF-8.
    namespace, memory_id, version = after
    names = (_encode(namespace), _encode(memory_id), version)

    page: list[Entry | DamagedEntry] = []
    for stored_namespace, stored_id, *columns in connection.execute(_PAGE, (*names, limit)):
        entry = Entry._make(columns)
        try:
            page.append(verify_entry(entry))
        except Refused:
            owner = EntryOwner(_decode(stored_namespace), _decode(stored_id))
            page.append(DamagedEntry(owner.namespace, entry.version, owner.id))

    return page


def _encode(name: str) -> bytes:
    return name.encode(errors="surrogateescape")


def _decode(name: bytes) -> str:
    return name.decode(errors="surrogateescape")


def group_entries(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Yield the entries of each memory."""
    for _, group in groupby(entries, key=_find_owner):
        yield list(group)


def _find_owner(entry: Entry) -> EntryOwner:
    return EntryOwner(entry.namespace, entry.id)


def import_history(
    connection: sqlite3.Connection, entries: Sequence[Entry], limits: HistoryLimits
) -> int:
    """Store the history of one memory, unless something of it is known; return how many entries."""
    namespace, memory_id = _find_owner(entries[0])
    known = connection.execute(_IS_KNOWN, (namespace, memory_id)).fetchone()
    if known is not None or is_purged(connection, namespace, memory_id):
        return 0

    # The versions of the store that they come from, by which entries refer to each other.
    versions = {0: 0}
    for entry in entries:
        if entry.previous not in versions:  # what led there is forgotten
            versions[entry.previous] = take_version(connection, namespace)

        version = take_version(connection, namespace)
        if entry.action != "relinked":
            versions[entry.version] = version

        renumbered = entry._replace(version=version, previous=versions[entry.previous])
        add_entries(connection, limits, [renumbered])

    return len(entries)
