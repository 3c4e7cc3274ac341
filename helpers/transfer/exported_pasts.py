"""What an export holds of the past of each memory, so that each memory is exported to match.

A store goes on changing during an export: a memory is read some time after its history.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple, Self

from abilities.declarations.faults import Refused
from abilities.helpers.store.history import Entry, MemoryName
from abilities.helpers.store.model import StoredMemory
from abilities.helpers.store.protocol import ServableStore

_TABLE = """
CREATE TABLE ends (
    namespace TEXT, id TEXT, version INTEGER, is_due INTEGER, PRIMARY KEY (namespace, id)
) WITHOUT ROWID
"""


class End(NamedTuple):
    """The version to which the exported history of a memory leads."""

    namespace: str
    id: str
    version: int


class ExportedPasts(AbstractContextManager["ExportedPasts"]):
    """The ends of all exported histories, in a temporary file, as there may be millions."""

    def __enter__(self) -> Self:
        self._ends = sqlite3.connect("", isolation_level=None)
        self._ends.execute(_TABLE)
        self._ends.execute("BEGIN")
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    def add(self, entries: Iterable[Entry]) -> None:
        """Note entries that were exported, those of each memory by rising version."""
        for entry in entries:
            version = entry.version
            if entry.action == "relinked":
                version = entry.previous

            self._ends.execute(
                "INSERT OR REPLACE INTO ends VALUES (?, ?, ?, ?)",
                (entry.namespace, entry.id, version, entry.action != "deleted"),
            )

    def find_end(self, namespace: str, memory_id: str) -> End | None:
        """Return where the exported history of a memory ends; None if it has none."""
        found = self._ends.execute(
            "SELECT version FROM ends WHERE namespace = ? AND id = ?", (namespace, memory_id)
        ).fetchone()
        if found is None:
            return None

        return End(namespace, memory_id, *found)

    def settle(self, namespace: str, memory_id: str) -> None:
        """Note that a memory was exported."""
        self._ends.execute(
            "UPDATE ends SET is_due = 0 WHERE namespace = ? AND id = ?", (namespace, memory_id)
        )

    def list_due(self) -> Iterator[End]:
        """Yield the ends of the memories that were there, but were not exported yet."""
        due = self._ends.execute(
            "SELECT namespace, id, version FROM ends WHERE is_due ORDER BY namespace, id"
        )
        for end in due:
            yield End(*end)


async def match_past(
    store: ServableStore, memory: StoredMemory, pasts: ExportedPasts
) -> StoredMemory:
    """Return a memory as it was where its exported history ends."""
    row = memory.row
    end = pasts.find_end(row.namespace, row.id)
    pasts.settle(row.namespace, row.id)
    if end is None or end.version == row.version:
        return memory

    earlier = await read_end(store, end)
    if earlier is None:
        return memory

    return earlier._replace(accessed_at=memory.accessed_at, access_count=memory.access_count)


async def read_end(store: ServableStore, end: End) -> StoredMemory | None:
    """Return a memory as it was where its exported history ends; None if nobody knows any more."""
    try:
        memory = await store.read_version(end.namespace, MemoryName(id=end.id), end.version)
    except Refused as refused:
        if refused.reason not in ("id_not_found", "version_not_found", "checksum_mismatch"):
            raise
        return None

    # Nobody knows any more when a deleted memory was last accessed.
    return memory._replace(accessed_at=memory.row.updated_at)
