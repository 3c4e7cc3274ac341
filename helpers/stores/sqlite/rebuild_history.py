"""The history of a damaged SQLite store, written to a new one as far as it leads to the present."""

import sqlite3
from collections.abc import Container, Sequence
from typing import Any

from abilities.declarations.values import has_surrogate
from abilities.helpers.stores.entries import EntryOwner, add_entries, find_owner
from abilities.helpers.stores.history import Entry, describe_before, seal
from abilities.helpers.stores.model import Row
from abilities.helpers.stores.originals import OriginalsFile
from abilities.helpers.stores.sqlite.history_check import follow_chain
from abilities.helpers.stores.sqlite.reads import fetch_stored_row
from abilities.helpers.stores.sqlite.transaction import run

_RAISE = """
INSERT INTO versions (namespace, number) VALUES (?1, ?2)
ON CONFLICT DO UPDATE SET number = max(number, ?2)
"""
_FORGET = """
UPDATE versions SET forgotten = min(number, max(forgotten, ?)) WHERE namespace = ?
"""
_ADD_PURGED = """
INSERT INTO purged (namespace, id, version, made_at, caller) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING
"""
_HIGHEST_VERSION = 2**62


class HistoryCopy:
    """Adds to a new store, which has its memories, the entries that lead to them.

    ``renewed`` holds the memories that got a new version, by namespace and id. Other entries are
    put aside.
    """

    def __init__(
        self,
        new: sqlite3.Connection,
        originals: OriginalsFile,
        renewed: Container[tuple[str, str]],
        now: str,
    ) -> None:
        self._new = new
        self._originals = originals
        self._renewed = renewed
        self._now = now

    def add(self, entries: Sequence[Entry]) -> None:
        """Add the entries of one memory by rising version, all of those that there are."""
        linked, broken, version = follow_chain(entries)
        if linked:
            owner = find_owner(linked[0])
            row = self._read_row(owner)
            if owner in self._renewed and row is not None:
                linked.append(self._describe_mended(row, version))
            elif version != (row.version if row is not None else 0):
                broken += linked
                linked = []

        if linked:
            last = linked[-1]
            self._new.execute(_RAISE, (last.namespace, last.version))
            run(self._new, add_entries, linked)

        for entry in broken:
            self._put_aside(entry)

    def _read_row(self, owner: EntryOwner) -> Row | None:
        stored = fetch_stored_row(self._new, owner.namespace, "id", owner.id)
        if stored is None:
            return None

        return stored.row

    def _describe_mended(self, row: Row, previous: int) -> Entry:
        before = describe_before(row, row, {}, {})
        entry = Entry(
            row.namespace,
            row.version,
            row.id,
            row.key,
            previous,
            "mended",
            self._now,
            "repair",
            before,
        )
        return seal(entry)

    def _put_aside(self, entry: Entry) -> None:
        self._originals.add("history", entry._asdict())
        if not has_surrogate(entry.namespace) and entry.version < _HIGHEST_VERSION:
            self._new.execute(_FORGET, (entry.version, entry.namespace))

    def add_purged(self, columns: Sequence[Any]) -> None:
        """Add what is known of a purged memory, unless that is there all the same."""
        namespace, memory_id, *_ = columns
        is_text = not any(has_surrogate(str(value)) for value in columns)
        if is_text and self._read_row(EntryOwner(namespace, memory_id)) is None:
            self._new.execute(_ADD_PURGED, columns)
