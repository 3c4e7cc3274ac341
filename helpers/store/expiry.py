"""Which memories have expired and are not archived yet."""

from typing import NamedTuple

from abilities.helpers.store.transaction import Transaction

_DUE = """
SELECT expires_at, id FROM memories INDEXED BY memories_due
WHERE namespace = ? AND archived = 0 AND expires_at <> '' AND expires_at <= ?
AND (expires_at, id) > (?, ?) ORDER BY expires_at, id LIMIT ?
"""

MOST_EXPIRED = 256
"""Memories at most that one transaction archives."""


class DueMemory(NamedTuple):
    """A memory that has expired. Of several, those with earlier times come first, then by id."""

    expires_at: str
    id: str


FIRST_DUE = DueMemory("", "")


class MemoriesDue(Exception):
    """Memories of the namespace are to be archived first; then the call can be tried again."""


async def has_due(transaction: Transaction, namespace: str, now: str) -> bool:
    """Return whether a memory has expired and is not archived yet."""
    return bool(await transaction.fetch(_DUE, namespace, now, *FIRST_DUE, 1))


async def list_due(
    transaction: Transaction, namespace: str, now: str, after: DueMemory
) -> list[DueMemory]:
    """Return up to `MOST_EXPIRED` memories that expired by ``now``, after one of them."""
    found = await transaction.fetch(_DUE, namespace, now, *after, MOST_EXPIRED)
    return list(map(DueMemory._make, found))
