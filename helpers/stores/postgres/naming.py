"""Which memory in PostgreSQL is meant by an id or by a key, which it may no longer have."""

from typing import NamedTuple

from abilities.declarations.faults import Refused
from abilities.helpers.stores.postgres.statements import Connection, Select, to_text
from abilities.helpers.stores.postgres.versions import (
    Existing,
    find_existing_by_id,
    find_existing_by_key,
)
from abilities.helpers.stores.timeline import MemoryName

_FORMER_ID = Select(
    """
    SELECT id FROM history WHERE namespace = %s AND key = %s AND action IN ('deleted', 'renamed')
    ORDER BY version DESC LIMIT 1
    """,
    to_text,
)


class _LastEntry(NamedTuple):
    """The last entry of a memory, and the version that the memory has since."""

    version: int
    action: str


_LAST_ENTRY = Select(
    """
    SELECT CASE action WHEN 'relinked' THEN previous ELSE version END, action FROM history
    WHERE namespace = %s AND id = %s ORDER BY version DESC LIMIT 1
    """,
    _LastEntry._make,
)


_LAST_KEY = Select(
    """
    SELECT key FROM history WHERE namespace = %s AND id = %s ORDER BY version DESC LIMIT 1
    """,
    to_text,
)


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

    former_id = await _FORMER_ID.fetch_first(connection, namespace, key)
    if former_id is None:
        raise Refused("memory_not_found")

    try:
        return await _find_by_id(connection, namespace, former_id, now)
    except Refused:
        raise Refused("memory_not_found") from None


async def _find_by_id(
    connection: Connection, namespace: str, memory_id: str, now: str
) -> FoundMemory:
    existing = await find_existing_by_id(connection, namespace, memory_id, now)
    if existing.row is None:
        last = await _LAST_ENTRY.fetch_first(connection, namespace, memory_id)
        if last is None or last.action != "deleted":
            raise Refused("id_not_found")

    return FoundMemory(memory_id, existing)


async def find_last_key(connection: Connection, namespace: str, memory_id: str) -> str:
    """Return the key that a deleted memory had last."""
    return await _LAST_KEY.fetch_only(connection, namespace, memory_id)


async def find_last_version(connection: Connection, namespace: str, memory_id: str) -> int | None:
    """Return the version of a present memory by its history; None if that does not know it."""
    last = await _LAST_ENTRY.fetch_first(connection, namespace, memory_id)
    if last is None or last.action == "deleted":
        return None

    return last.version
