"""Accesses to memories that were counted and wait to be written."""

import threading
from typing import NamedTuple

from abilities.helpers.stores.protocol import MAX_TOUCHES


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

    def add(self, namespace: str, key: str, now: str) -> None:
        """Count one access."""
        name = (namespace, key)
        with self._lock:
            # The limit bounds the memory that the buffer takes while the database is away.
            if len(self._accesses) >= MAX_TOUCHES:
                return

            earlier = self._accesses.get(name)
            number = 1
            if earlier is not None:
                number += earlier.number

            self._accesses[name] = Access(key, number, now)

    def take(self) -> dict[str, list[Access]]:
        """Empty the buffer, and return its accesses per namespace, sorted by key."""
        with self._lock:
            accesses = self._accesses
            self._accesses = {}

        by_namespace: dict[str, list[Access]] = {}
        for (namespace, _), access in sorted(accesses.items()):
            group = by_namespace.setdefault(namespace, [])
            group.append(access)

        return by_namespace
