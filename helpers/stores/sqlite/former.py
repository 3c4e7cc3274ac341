"""Long contents of an SQLite store as they were, and what is left of the parts of one."""

import sqlite3
from contextlib import closing

from abilities.declarations.faults import Refused
from abilities.helpers.stores.former import (
    Deletion,
    Family,
    KeyChange,
    find_end,
    rewind_to_moment,
)
from abilities.helpers.stores.model import Row, StoredMemory
from abilities.helpers.stores.parts import has_link, make_part_key
from abilities.helpers.stores.sqlite.past import iterate_entries, read_state, read_version
from abilities.helpers.stores.sqlite.reads import fetch_stored_row
from abilities.helpers.stores.timeline import MemoryName

_KEY_CHANGES = """
SELECT version, key, previous FROM history INDEXED BY history_id
WHERE namespace = ? AND id = ? ORDER BY version
"""
_DELETIONS = """
SELECT id, version, action = 'deleted' AND NOT EXISTS (
    SELECT 1 FROM memories AS m WHERE m.namespace = h.namespace AND m.id = h.id
)
FROM history AS h INDEXED BY history_key
WHERE namespace = ? AND key = ? AND action IN ('deleted', 'renamed') ORDER BY version DESC
"""


def read_content(
    connection: sqlite3.Connection, namespace: str, name: MemoryName, moment: int | str
) -> list[StoredMemory]:
    """Return the memories that held a content in a version of the first one, or at a time."""
    first = read_version(connection, namespace, name, moment)
    end = moment
    if isinstance(moment, int):
        with closing(iterate_entries(connection, namespace, first.row.id)) as entries:
            end = find_end(entries, moment)

    parts = [first]
    next_key = make_part_key(first.row.key, 2)
    while has_link(parts[-1].links, next_key):
        parts.append(_read_at(connection, namespace, next_key, end))
        next_key = make_part_key(first.row.key, len(parts) + 1)

    return parts


def _read_at(
    connection: sqlite3.Connection, namespace: str, key: str, moment: int | str
) -> StoredMemory:
    """Return the memory that had a key at a moment. Raises Refused: version_not_found."""
    names: list[str] = []
    present = fetch_stored_row(connection, namespace, "key", key)
    if present is not None:
        names.append(present.row.id)
    for deletion in _list_deletions(connection, namespace, key):
        names.append(deletion.id)

    for memory_id in dict.fromkeys(names):
        stored = fetch_stored_row(connection, namespace, "id", memory_id)
        if stored is not None and stored.is_damaged:
            raise Refused("checksum_mismatch")

        state = read_state(connection, stored and stored.row)
        with closing(iterate_entries(connection, namespace, memory_id)) as entries:
            found = rewind_to_moment(state, entries, moment)
        if found is not None and found.row is not None and found.row.key == key:
            links = tuple(sorted(found.links.values()))
            return StoredMemory(found.row, links, len(links))

    raise Refused("version_not_found")


def find_family(
    connection: sqlite3.Connection, namespace: str, memory_id: str, row: Row | None
) -> set[str]:
    """Return the deleted memories that a `Family` has; ``row`` is the memory if it exists."""
    changes = list(
        map(KeyChange._make, connection.execute(_KEY_CHANGES, (namespace, memory_id)).fetchall())
    )
    key = row.key if row is not None else changes[-1].key
    owns = row is not None or not _is_used(connection, namespace, key)
    family = Family(changes, key, exists=row is not None, owns=owns)

    found: set[str] = set()
    for family_key in family.keys:
        number = 1
        while True:
            part_key = make_part_key(family_key, number)
            deletions = _list_deletions(connection, namespace, part_key)
            if number > 1 and not deletions and not _is_used(connection, namespace, part_key):
                break

            found.update(each.id for each in deletions if family.has(family_key, number, each))
            number += 1

    return found


def _list_deletions(connection: sqlite3.Connection, namespace: str, key: str) -> list[Deletion]:
    return list(map(Deletion._make, connection.execute(_DELETIONS, (namespace, key)).fetchall()))


def _is_used(connection: sqlite3.Connection, namespace: str, key: str) -> bool:
    return fetch_stored_row(connection, namespace, "key", key) is not None
