"""Which memory in PostgreSQL is meant by an id or by a key, which it may no longer have."""

from typing import NamedTuple

from abilities.declarations.faults import Refused
from abilities.helpers.stores.past import find_former_id, is_deleted
from abilities.helpers.stores.postgres.statements import Connection
from abilities.helpers.stores.postgres.transaction import bind
from abilities.helpers.stores.postgres.versions import (
    Existing,
    find_existing_by_id,
    find_existing_by_key,
)
from abilities.helpers.stores.timeline import MemoryName


class FoundMemory(NamedTuple):
    """A memory by its id; it has no row if it was deleted. A memory to create has no id yet."""

    id: str
    existing: Existing


async def find_named(
    connection: Connection, namespace: str, name: MemoryName, now: str = ""
) -> FoundMemory:
    """Return the memory that a name means, which may be deleted if its history is known.

    By ``now`` it is judged what is due. Raises Refused: id_not_found, memory_not_found.
    """
    if name.id:
        return await _find_by_id(connection, namespace, name.id, now)

    key = name.key or ""
    existing = await find_existing_by_key(connection, namespace, key, now)
    if existing.row is not None:
        return FoundMemory(existing.row.id, existing)

    former_id = await bind(find_former_id)(connection, namespace, key)
    return await _find_by_id(connection, namespace, former_id, now)


async def _find_by_id(
    connection: Connection, namespace: str, memory_id: str, now: str
) -> FoundMemory:
    existing = await find_existing_by_id(connection, namespace, memory_id, now)
    if existing.row is None and not await bind(is_deleted)(connection, namespace, memory_id):
        raise Refused("id_not_found")

    return FoundMemory(memory_id, existing)
