"""Accesses to memories: they are counted as they come, and written together."""

import threading
from collections.abc import Iterable
from typing import NamedTuple

import orjson

from abilities.declarations.limits import MAX_ACCESS_COUNT
from abilities.helpers.store.protocol import MAX_TOUCHES
from abilities.helpers.store.transaction import Transaction

# The limit, which is never reached, lets SQLite find the memories first, by their keys.
_ACCESSED = f"""
FROM (
    SELECT m.namespace, m.id, new.number, new.accessed_at
    FROM ROWS(?) AS new (key text, number int8, accessed_at text) CROSS JOIN memories AS m
    WHERE m.namespace = ? AND m.key = new.key LIMIT {MAX_TOUCHES}
) AS new WHERE t.namespace = new.namespace AND t.id = new.id
"""
_COUNT = f"""
UPDATE shelf AS t SET accessed_at = greatest(t.accessed_at, new.accessed_at),
    access_count = least(t.access_count + new.number, {MAX_ACCESS_COUNT}) {_ACCESSED}
"""
_UPDATE_TAGS = f"""
UPDATE tags AS t SET accessed_at = greatest(t.accessed_at, new.accessed_at) {_ACCESSED}
"""


class Access(NamedTuple):
    """The accesses to one memory: how many, and when the last one was."""

    key: str
    number: int
    accessed_at: str


class AccessBuffer:
    """Counts accesses per memory until they are taken to be written; any thread may use it.

    It holds `MAX_TOUCHES` memories. Accesses that come while it is full are forgotten.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._accesses: dict[tuple[str, str], Access] = {}

    def __len__(self) -> int:
        """Return the number of memories whose accesses wait."""
        return len(self._accesses)

    def add(self, namespace: str, key: str, now: str) -> None:
        """Count one access."""
        name = (namespace, key)
        with self._lock:
            # The limit bounds the memory that the buffer takes while the store cannot be written.
            if len(self._accesses) >= MAX_TOUCHES:
                return

            earlier = self._accesses.get(name, Access(key, 0, now))
            self._accesses[name] = Access(key, earlier.number + 1, now)

    def take(self) -> dict[str, list[Access]]:
        """Empty the buffer, and return its accesses per namespace, sorted by key."""
        with self._lock:
            accesses, self._accesses = self._accesses, {}

        by_namespace: dict[str, list[Access]] = {}
        for (namespace, _), access in sorted(accesses.items()):
            by_namespace.setdefault(namespace, []).append(access)

        return by_namespace


async def count_accesses(
    transaction: Transaction, namespace: str, accesses: Iterable[Access]
) -> None:
    """Add to the access counters of memories, which no hash covers; ignore missing memories."""
    rows = orjson.dumps([access._asdict() for access in accesses]).decode()
    await transaction.run(_COUNT, rows, namespace)
    await transaction.run(_UPDATE_TAGS, rows, namespace)
