"""A damaged SQLite store written anew: what can be read of it, and all that follows from that."""

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from abilities.declarations.faults import Refused
from abilities.declarations.values import JsonObject, has_surrogate, utc_now
from abilities.helpers.stores.mending import (
    mend_link,
    mend_namespace,
    mend_row,
    mend_time,
    propose_names,
    restore_row,
)
from abilities.helpers.stores.model import AccessCounters, Row, hash_row, verify_row
from abilities.helpers.stores.originals import OriginalsFile, RepairReport
from abilities.helpers.stores.sqlite import recovery
from abilities.helpers.stores.sqlite.file import connect_to_file
from abilities.helpers.stores.sqlite.links import add_link, prepare_link_writes
from abilities.helpers.stores.sqlite.rebuild_history import HistoryCopy
from abilities.helpers.stores.sqlite.recovery import FoundLink, FoundRow
from abilities.helpers.stores.sqlite.writes import save_memory, take_version

_ROWS = 1_000
"""Rows that are committed together, and after which progress is reported."""

_REPEATED_VERSIONS = """
SELECT rowid FROM (
    SELECT rowid, version, row_number() OVER (PARTITION BY namespace, version ORDER BY rowid) AS n
    FROM memories
) WHERE n > 1 OR version < 1
"""


class Rebuild:
    """Fills a new store from a damaged one, and counts in a report what had to be mended.

    First come the sound memories, so that a mended one never takes the name of a sound one.
    """

    def __init__(
        self,
        damaged: sqlite3.Connection,
        new_path: Path,
        originals: OriginalsFile,
        report: RepairReport,
        progress: Callable[[int], None],
    ) -> None:
        self._damaged = damaged
        self._new = _connect(new_path)
        self._originals = originals
        self._report = report
        self._progress = progress
        self._rows = 0
        self._now = utc_now()
        self._renewed: set[tuple[str, str]] = set()  # memories that got new versions, by their ids

    def run(self) -> None:
        """Write the whole store. Raises sqlite3.Error, OSError."""
        self._new.execute("BEGIN")
        unsound = self._copy_sound_memories()
        self._save_last_versions()

        names = recovery.read_indexed_names(self._damaged, unsound)
        for memory in sorted(unsound):
            found = recovery.read_row(self._damaged, memory)
            self._mend_memory(found, names.get(memory, {}))
            self._count_row()

        self._renew_repeated_versions()
        self._copy_links()
        self._copy_history()
        self._new.execute("COMMIT")

    def close(self) -> None:
        """Close the new store."""
        self._new.close()

    def _copy_sound_memories(self) -> set[int]:
        """Write the sound memories as they are; return the rowids of the others."""
        known = recovery.list_known_rowids(self._damaged)
        unsound: set[int] = set()

        for found in recovery.read_rows(self._damaged):
            known.discard(found.memory)
            if not _is_sound(found) or not self._try_to_save(found, found.row):
                unsound.add(found.memory)
            self._count_row()

        self._report.lost_memories = len(known)
        return unsound

    def _mend_memory(self, found: FoundRow, names: JsonObject) -> None:
        """Write what is left of a damaged memory, after its row was put aside.

        ``names`` are its namespace and its key as their index has them.
        """
        self._originals.add("memories", found.columns)

        for known in self._list_known_values(found, names):
            restored = restore_row(found.row, found.hash, known)
            if restored is not None and self._try_to_save(found, restored):
                self._report.restored_memories += 1
                return

        proposed = propose_names(mend_row(found.row, self._now))
        mended = next(filter(self._is_free, proposed))
        mended = mended._replace(version=take_version(self._new, mended.namespace))
        saved = self._try_to_save(found, mended)
        assert saved, "a mended row can be stored"
        self._report.mended_memories += 1
        self._renewed.add((mended.namespace, mended.id))

    def _list_known_values(self, found: FoundRow, names: JsonObject) -> Iterator[JsonObject]:
        """Yield what the columns of a damaged memory may have been, the likeliest first."""
        known = recovery.read_known_values(self._damaged, found.memory)
        indexed: JsonObject = {}
        if known is not None:
            indexed = known.columns

        yield {**indexed, **names}
        yield indexed
        yield names
        for key in recovery.list_missing_keys(self._damaged, found.row.namespace):
            yield {**indexed, "key": key}

    def _try_to_save(self, found: FoundRow, row: Row) -> bool:
        """Write a memory with all that is derived from it; return False if that is impossible."""
        self._new.execute("SAVEPOINT memory")
        try:
            save_memory(self._new, None, row, self._read_counters(found, row))
        except (Refused, sqlite3.IntegrityError):
            self._new.execute("ROLLBACK TO memory")
            return False
        finally:
            self._new.execute("RELEASE memory")

        return True

    def _read_counters(self, found: FoundRow, row: Row) -> AccessCounters:
        known = recovery.read_known_values(self._damaged, found.memory)
        if known is None:
            return AccessCounters(row.created_at, 0)

        accessed_at = mend_time(known.counters.accessed_at, row.created_at)
        return AccessCounters(accessed_at, _to_count(known.counters.access_count))

    def _is_free(self, row: Row) -> bool:
        taken = self._new.execute(
            "SELECT 1 FROM memories WHERE namespace = ?1 AND key = ?2"
            " UNION ALL SELECT 1 FROM memories WHERE namespace = ?1 AND id = ?3",
            (row.namespace, row.key, row.id),
        ).fetchone()
        return taken is None

    def _save_last_versions(self) -> None:
        """Write the last versions, so that none is given again, not even after a deletion."""
        for last in recovery.read_last_versions(self._damaged):
            if _is_text(last.namespace):
                number = _to_count(last.number)
                forgotten = min(_to_count(last.forgotten), number)
                values = (last.namespace, number, forgotten)
                self._new.execute(
                    "INSERT INTO versions (namespace, number, forgotten) VALUES (?, ?, ?)", values
                )

        # Where it is not known what was forgotten, all may be.
        self._new.execute(
            "INSERT INTO versions (namespace, number, forgotten)"
            " SELECT namespace, max(version, 0), max(version, 0) FROM ("
            "SELECT namespace, max(version) AS version FROM memories GROUP BY namespace"
            ") WHERE true ON CONFLICT DO UPDATE SET number = max(number, excluded.number)"
        )

    def _renew_repeated_versions(self) -> None:
        """Give each memory but the first of a version a new one."""
        repeated = self._new.execute(_REPEATED_VERSIONS).fetchall()
        for (memory,) in repeated:
            row = recovery.read_row(self._new, memory).row
            row = row._replace(version=take_version(self._new, row.namespace))
            self._new.execute(
                "UPDATE memories SET version = ?, hash = ? WHERE rowid = ?",
                (row.version, hash_row(row), memory),
            )
            self._renewed.add((row.namespace, row.id))

    def _copy_links(self) -> None:
        expected = recovery.count_known_links(self._damaged)
        copied = 0

        for found in recovery.read_links(self._damaged, self._list_keys()):
            copied += self._copy_link(found)
            self._count_row()

        self._report.lost_links = max(expected - copied, 0)

    def _copy_link(self, found: FoundLink) -> bool:
        """Write a link, mended if need be; return whether it was not there yet."""
        link = found.record.row
        is_sound = found.record.is_sound and _is_text(found.namespace)
        namespace = found.namespace
        if not is_sound:
            link = mend_link(link)
            namespace = mend_namespace(namespace)

        is_new = add_link(self._new, namespace, link)
        if is_new and not is_sound:
            self._originals.add("links", found.columns)
            self._report.mended_links += 1

        return is_new

    def _copy_history(self) -> None:
        copy = HistoryCopy(self._new, self._originals, self._renewed, self._now)
        for entries in recovery.read_entries(self._damaged):
            copy.add(entries)
            self._count_row()

        for columns in recovery.read_purged(self._damaged):
            copy.add_purged(columns)

    def _list_keys(self) -> Iterator[tuple[str, str]]:
        yield from self._new.execute("SELECT namespace, key FROM memories").fetchall()

    def _count_row(self) -> None:
        self._rows += 1
        if self._rows % _ROWS == 0:
            self._new.execute("COMMIT")
            self._new.execute("BEGIN")
            self._progress(_ROWS)


def _connect(path: Path) -> sqlite3.Connection:
    """Connect to a new store that nobody else uses, and that is worth nothing until it is whole."""
    connection = connect_to_file(path, "rw")
    for pragma in ("journal_mode = MEMORY", "synchronous = OFF", "cache_size = -65536"):
        connection.execute(f"PRAGMA {pragma}")

    prepare_link_writes(connection)
    return connection


def _is_sound(found: FoundRow) -> bool:
    try:
        verify_row(found.row, found.hash)
    except Refused:
        return False

    return True


def _to_count(value: object) -> int:
    """Return a number that counts something; 0 in place of a damaged one."""
    if isinstance(value, int):
        return max(value, 0)

    return 0


def _is_text(value: object) -> bool:
    return isinstance(value, str) and not has_surrogate(value)
