"""Which memories of an SQLite store have expired and are not archived yet."""

import sqlite3
from collections.abc import Callable
from typing import NamedTuple, TypeVar

Result = TypeVar("Result")

_DUE = """
SELECT expires_at, id FROM memories INDEXED BY memories_expiring
WHERE namespace = ? AND archived = 0 AND expires_at <> '' AND expires_at <= ?
AND (expires_at, id) > (?, ?) ORDER BY expires_at, id LIMIT ?
"""

EXPIRED_AT_ONCE = 256
"""Memories at most that are archived in one transaction of their own."""


class DueMemory(NamedTuple):
    """A memory that has expired. Of several, those with earlier times come first, then by id."""

    expires_at: str
    id: str


FIRST_DUE = DueMemory("", "")


class MemoriesDue(Exception):
    """Memories have expired and must be archived before the read that met them."""


def read_without_due(
    connection: sqlite3.Connection,
    namespace: str,
    now: str,
    work: Callable[[sqlite3.Connection], Result],
) -> Result:
    """Return what a read finds in a namespace. Raises MemoriesDue."""
    if has_due(connection, namespace, now):
        raise MemoriesDue

    return work(connection)


def has_due(connection: sqlite3.Connection, namespace: str, now: str) -> bool:
    """Return whether a memory has expired and is not archived yet."""
    return bool(_list_due(connection, namespace, now, FIRST_DUE, 1))


def list_due(
    connection: sqlite3.Connection, namespace: str, now: str, after: DueMemory
) -> list[DueMemory]:
    """Return up to `EXPIRED_AT_ONCE` memories that have expired, after one of them."""
    return _list_due(connection, namespace, now, after, EXPIRED_AT_ONCE)


def _list_due(
    connection: sqlite3.Connection, namespace: str, now: str, after: DueMemory, limit: int
) -> list[DueMemory]:
    cursor = connection.execute(_DUE, (namespace, now, *after, limit))
    return list(map(DueMemory._make, cursor))
