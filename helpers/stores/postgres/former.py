"""Long contents in PostgreSQL as they were, and what is left of the parts of one."""

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
from abilities.helpers.stores.postgres.past import fetch_entries_since, read_state, read_version
from abilities.helpers.stores.postgres.statements import Connection, Select
from abilities.helpers.stores.postgres.versions import find_existing_by_id, find_existing_by_key
from abilities.helpers.stores.timeline import MemoryName

_KEY_CHANGES = Select(
    "SELECT version, key, previous FROM history WHERE namespace = %s AND id = %s ORDER BY version",
    KeyChange._make,
)
_DELETIONS = Select(
    """
    SELECT h.id, h.version, h.action = 'deleted' AND NOT EXISTS (
        SELECT FROM memories AS m WHERE m.namespace = h.namespace AND m.id = h.id
    )
    FROM history AS h
    WHERE h.namespace = %s AND h.key = %s AND h.action IN ('deleted', 'renamed')
    ORDER BY h.version DESC
    """,
    Deletion._make,
)


async def read_content(
    connection: Connection, namespace: str, name: MemoryName, moment: int | str
) -> list[StoredMemory]:
    """Return the memories that held a content in a version of the first one, or at a time."""
    first = await read_version(connection, namespace, name, moment)
    end = moment
    if isinstance(moment, int):
        entries = await fetch_entries_since(connection, namespace, first.row.id, moment)
        end = find_end(entries, moment)

    parts = [first]
    next_key = make_part_key(first.row.key, 2)
    while has_link(parts[-1].links, next_key):
        parts.append(await _read_at(connection, namespace, next_key, end))
        next_key = make_part_key(first.row.key, len(parts) + 1)

    return parts


async def _read_at(
    connection: Connection, namespace: str, key: str, moment: int | str
) -> StoredMemory:
    """Return the memory that had a key at a moment. Raises Refused: version_not_found."""
    names: list[str] = []
    present = await find_existing_by_key(connection, namespace, key)
    if present.row is not None:
        names.append(present.row.id)
    for deletion in await _DELETIONS.fetch(connection, namespace, key):
        names.append(deletion.id)

    since = moment if isinstance(moment, int) else 0
    for memory_id in dict.fromkeys(names):
        existing = await find_existing_by_id(connection, namespace, memory_id)
        if existing.damage is not None:
            raise Refused(existing.damage)

        state = await read_state(connection, existing.row)
        entries = await fetch_entries_since(connection, namespace, memory_id, since)
        found = rewind_to_moment(state, entries, moment)
        if found is not None and found.row is not None and found.row.key == key:
            links = tuple(sorted(found.links.values()))
            return StoredMemory(found.row, links, len(links))

    raise Refused("version_not_found")


async def find_family(
    connection: Connection, namespace: str, memory_id: str, row: Row | None
) -> set[str]:
    """Return the deleted memories that a `Family` has; ``row`` is the memory if it exists."""
    changes = await _KEY_CHANGES.fetch(connection, namespace, memory_id)
    key = row.key if row is not None else changes[-1].key
    owns = row is not None or not await _is_used(connection, namespace, key)
    family = Family(changes, key, exists=row is not None, owns=owns)

    found: set[str] = set()
    for family_key in family.keys:
        number = 1
        while True:
            part_key = make_part_key(family_key, number)
            deletions = await _DELETIONS.fetch(connection, namespace, part_key)
            if number > 1 and not deletions and not await _is_used(connection, namespace, part_key):
                break

            found.update(each.id for each in deletions if family.has(family_key, number, each))
            number += 1

    return found


async def _is_used(connection: Connection, namespace: str, key: str) -> bool:
    existing = await find_existing_by_key(connection, namespace, key)
    return existing.row is not None
