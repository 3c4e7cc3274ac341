"""Archiving the memories of a namespace that expired, before anything else looks at them."""

from typing import NamedTuple

from abilities.helpers.stores.postgres.statements import Connection, Select, is_due

MOST_EXPIRED = 256
"""Memories that one transaction archives at most."""


class ExpiredMemory(NamedTuple):
    """A memory that has expired. Of several, those with earlier times come first, then by id."""

    expires_at: str
    id: str


FIRST_DUE = ExpiredMemory("", "")

_DUE = Select(
    f"""
    SELECT m.expires_at, m.id FROM memories AS m WHERE m.namespace = %s AND {is_due("m", "%s")}
    AND (m.expires_at, m.id) > (%s, %s) ORDER BY m.expires_at, m.id LIMIT %s
    """,
    ExpiredMemory._make,
)


class MemoriesAreDueError(Exception):
    """Memories of the namespace are to be archived first; then the call can be tried again."""


async def list_due(
    connection: Connection, namespace: str, now: str, after: ExpiredMemory
) -> list[ExpiredMemory]:
    """Return up to `MOST_EXPIRED` memories that expired by ``now``, after one of them."""
    return await _DUE.fetch(connection, namespace, now, *after, MOST_EXPIRED)
