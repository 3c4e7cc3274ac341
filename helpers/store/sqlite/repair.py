"""Repair of an SQLite store: in place, while it is in use; only damaged pages take a new file.

Whenever a repair with a new file is interrupted, the store is either the old one or the new one.
"""

import sqlite3
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TypeVar

from typing_extensions import override

from abilities.helpers.search.terms import Language
from abilities.helpers.store.history import HistoryLimits
from abilities.helpers.store.model import Row
from abilities.helpers.store.originals import OriginalsFile, RepairReport, name_originals
from abilities.helpers.store.protocol import IntegrityFinding
from abilities.helpers.store.query import fold_searchable
from abilities.helpers.store.recall_index import read_language
from abilities.helpers.store.repairing import RepairedStore, repair_rows
from abilities.helpers.store.sqlite import schema
from abilities.helpers.store.sqlite.backup import (
    UnsoundCopy,
    can_be_mended,
    check_copy,
    name_replaced_store,
    translate_copy_errors,
)
from abilities.helpers.store.sqlite.copying import reserve_new_file, set_journal_mode, sync_file
from abilities.helpers.store.sqlite.file import StoreFile, connect_to_file
from abilities.helpers.store.sqlite.integrity import INDEX, check_search_index, check_store
from abilities.helpers.store.sqlite.log import StoreConnection
from abilities.helpers.store.sqlite.salvage import salvage
from abilities.helpers.store.sqlite.search import add_text, clear_index, compare_index
from abilities.helpers.store.sqlite.transaction import RawTransaction, complete, run
from abilities.helpers.store.transaction import Transaction

ResultT = TypeVar("ResultT")

_ROWS = f"SELECT rowid, {', '.join(Row._fields)} FROM memories ORDER BY rowid"
_UNFINDABLE = f"SELECT 1 FROM memories AS m WHERE NOT {INDEX.searched} LIMIT 1"


class _RepairedFile(RepairedStore):
    """A store that ``hold`` keeps others from changing; what is done is undone in a dry run."""

    index = INDEX
    tables = ()

    def __init__(
        self,
        connection: sqlite3.Connection,
        hold: Callable[[], AbstractContextManager[None]],
        *,
        dry_run: bool,
    ) -> None:
        self._connection = connection
        self._hold = hold
        self._end = "ROLLBACK" if dry_run else "COMMIT"

    @override
    async def write(
        self, namespace: str, work: Callable[[Transaction], Awaitable[ResultT]]
    ) -> ResultT:
        with self._hold():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                result = await work(RawTransaction(self._connection))
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise

            self._connection.execute(self._end)
            return result

    @override
    async def mend_words(
        self, transaction: Transaction, namespace: str, rows: Sequence[Row]
    ) -> None:
        """Do nothing: the search index of all namespaces is one, see `mend_index`."""

    async def mend_index(self, _transaction: Transaction) -> None:
        """Make the search index of the whole store anew, if it is wrong."""
        connection = self._connection
        is_unfindable = connection.execute(_UNFINDABLE).fetchone() is not None
        is_damaged = check_search_index(connection).state == "damaged"
        if is_unfindable or is_damaged or compare_index(connection):
            clear_index(connection)
            for memory, *columns in connection.execute(_ROWS):
                add_text(connection, memory, fold_searchable(Row._make(columns)))


class _FileRepair:
    """The repair of a file, and what it has done so far."""

    def __init__(
        self,
        file: StoreFile,
        originals: OriginalsFile,
        report: RepairReport,
        progress: Callable[[int], None],
        *,
        dry_run: bool,
    ) -> None:
        self._file = file
        self._originals = originals
        self._report = report
        self._progress = progress
        self._dry_run = dry_run

    def mend_in_place(self) -> None:
        """Mend the rows of a file whose pages are sound."""
        with closing(self._file.open(writing=True)) as connection:
            _read_damaged_texts(connection)
            self._mend(connection, partial(_hold, self._file, connection), dry_run=self._dry_run)

    def write_anew(self) -> None:
        """Put a new file in place, with what can be read of one whose pages are damaged."""
        with reserve_new_file(self._file.path) as new_path:
            with closing(_connect(self._file.path)) as damaged:
                damaged.execute("BEGIN")
                schema.create(new_path, _choose_language(damaged))
                with closing(_connect(new_path)) as new:
                    new.execute("PRAGMA synchronous = OFF")  # it is worth nothing until it is whole
                    new.execute("BEGIN")
                    salvage(damaged, new, self._originals, self._report)
                    new.execute("COMMIT")
                    self._mend(new, nullcontext, dry_run=False)

            _check_new_store(new_path)
            if not self._dry_run:
                self._install(new_path)

    def _mend(
        self,
        connection: sqlite3.Connection,
        hold: Callable[[], AbstractContextManager[None]],
        *,
        dry_run: bool,
    ) -> None:
        store = _RepairedFile(connection, hold, dry_run=dry_run)
        limits = HistoryLimits()
        complete(repair_rows(store, self._originals, self._report, self._progress, limits))
        if not dry_run:
            complete(store.write("", store.mend_index))

    def _install(self, new_path: Path) -> None:
        set_journal_mode(new_path, "WAL")
        sync_file(new_path)

        # What stood in the damaged rows is on disk before they are replaced.
        self._report.originals = self._originals.save()
        self._report.previous = name_replaced_store(self._file.path)
        self._file.put_in_place(new_path, aside=self._report.previous)


def repair(
    store: Path, originals: Path | None, progress: Callable[[int], None], *, dry_run: bool
) -> RepairReport:
    """Mend a store; a sound one is left alone.

    It may be in use, unless its pages are damaged: then a new file is written, and the old one is
    kept beside it. ``originals`` is a new file for the damaged rows as they stood; without it, one
    beside the store is made. A dry run changes nothing. ``progress`` is called with the number of
    rows since the last call.

    Raises FileExistsError, Refused("busy") if a process has a store with damaged pages open,
    UnsoundCopy if the new file is not sound, which is then not put in place, and what opening the
    store raises.
    """
    file = StoreFile(store)
    try:
        file.open(writing=False).close()  # migrates it, and tells what cannot be opened at all
        with translate_copy_errors():
            report = RepairReport(_find_damage(file, progress))
            path = None if dry_run else originals or name_originals(store)
            with closing(OriginalsFile(path)) as aside:
                work = _FileRepair(file, aside, report, progress, dry_run=dry_run)
                if not report.damage:
                    return report
                if can_be_mended(report.damage):
                    work.mend_in_place()
                elif dry_run:
                    work.write_anew()
                else:
                    with file.lock():
                        file.write_log_back()
                        work.write_anew()

            return report
    finally:
        file.close()


def _find_damage(file: StoreFile, progress: Callable[[int], None]) -> list[IntegrityFinding]:
    with closing(_connect(file.path)) as connection:
        connection.execute("BEGIN")
        findings = check_store(connection, progress)
        connection.execute("ROLLBACK")
        with file.lock():  # it counts as a write, and others may be writing
            findings.append(check_search_index(connection))

    return [finding for finding in findings if finding.state == "damaged"]


@contextmanager
def _hold(file: StoreFile, connection: StoreConnection) -> Generator[None]:
    """Keep all others from changing the store. Raises Refused: busy, storage_moved."""
    with file.lock():
        file.check_in_place(connection)
        yield


def _choose_language(damaged: sqlite3.Connection) -> str:
    """Return the language that the recall index of a damaged store is kept in."""
    try:
        return run(damaged, read_language).name
    except sqlite3.Error:
        return Language().name


def _check_new_store(path: Path) -> None:
    """Check the new store completely. Raises UnsoundCopy."""
    set_journal_mode(path, "DELETE")
    damage = [finding for finding in check_copy(path) if finding.state == "damaged"]
    if damage:
        raise UnsoundCopy(damage)


def _connect(path: Path) -> sqlite3.Connection:
    connection = connect_to_file(path, "rw")
    _read_damaged_texts(connection)
    return connection


def _read_damaged_texts(connection: sqlite3.Connection) -> None:
    connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
