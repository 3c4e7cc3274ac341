"""Repair of an SQLite store: in place, while it is in use; only damaged pages take a new file.

Whenever a repair with a new file is interrupted, the store is either the old one or the new one.
"""

import sqlite3
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import (
    AbstractContextManager,
    asynccontextmanager,
    closing,
    contextmanager,
    nullcontext,
)
from functools import partial
from pathlib import Path
from typing import Any

from abilities.helpers.search.terms import Language
from abilities.helpers.store.history import HistoryLimits
from abilities.helpers.store.model import Row
from abilities.helpers.store.originals import OriginalsFile, RepairReport, name_originals
from abilities.helpers.store.query import fold_searchable
from abilities.helpers.store.recall_index import read_language
from abilities.helpers.store.repairing import Begin, repair_rows
from abilities.helpers.store.sqlite import schema
from abilities.helpers.store.sqlite.backup import (
    UnsoundCopy,
    can_be_mended,
    name_replaced_store,
    translate_copy_errors,
)
from abilities.helpers.store.sqlite.copying import reserve_new_file, set_journal_mode, sync_file
from abilities.helpers.store.sqlite.file import StoreFile, connect_to_file
from abilities.helpers.store.sqlite.integrity import (
    check_search_index,
    find_damage,
    read_damaged_texts,
)
from abilities.helpers.store.sqlite.log import StoreConnection
from abilities.helpers.store.sqlite.salvage import salvage
from abilities.helpers.store.sqlite.search import add_text, clear_index, compare_index
from abilities.helpers.store.sqlite.transaction import RawTransaction, complete, run
from abilities.helpers.store.transaction import Transaction

_ROWS = f"SELECT rowid, {', '.join(Row._fields)} FROM memories ORDER BY rowid"
_UNFINDABLE = f"SELECT 1 FROM memories AS m WHERE NOT {RawTransaction.searched} LIMIT 1"

_Mend = Callable[[Begin], Coroutine[Any, Any, None]]
"""Mends all rows in transactions; it is `repair_rows` with all but its first argument."""

_Hold = Callable[[], AbstractContextManager[None]]
"""Keeps all others from changing a store."""


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
    with closing(StoreFile(store)) as file:
        file.open(writing=False).close()  # migrates it, and tells what cannot be opened at all
        with translate_copy_errors():
            report = RepairReport(find_damage(store, progress, file.lock))
            path = None if dry_run else originals or name_originals(store)
            with closing(OriginalsFile(path)) as aside:
                mend = partial(
                    repair_rows,
                    originals=aside,
                    report=report,
                    progress=progress,
                    limits=HistoryLimits(),
                )
                if not report.damage:
                    return report
                if can_be_mended(report.damage):
                    _mend_in_place(file, mend, dry_run=dry_run)
                elif dry_run:
                    with _write_anew(file, mend, aside, report):
                        pass
                else:
                    with file.lock():
                        file.write_log_back()
                        with _write_anew(file, mend, aside, report) as new_path:
                            _install(file, new_path, aside, report)

            return report


def _mend_in_place(file: StoreFile, mend: _Mend, *, dry_run: bool) -> None:
    """Mend the rows of a file whose pages are sound."""
    with closing(file.open(writing=True)) as connection:
        read_damaged_texts(connection)
        complete(_mend(connection, partial(_hold, file, connection), mend, dry_run=dry_run))


@contextmanager
def _hold(file: StoreFile, connection: StoreConnection) -> Generator[None]:
    """Keep all others from changing the store. Raises Refused: busy, storage_moved."""
    with file.lock():
        file.check_in_place(connection)
        yield


async def _mend(connection: sqlite3.Connection, hold: _Hold, mend: _Mend, *, dry_run: bool) -> None:
    """Mend all rows of a store and then its search index, which is one of all namespaces."""

    @asynccontextmanager
    async def begin(_namespace: str) -> AsyncGenerator[Transaction]:
        with hold():
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield RawTransaction(connection)
            except BaseException:
                connection.execute("ROLLBACK")
                raise

            connection.execute("ROLLBACK" if dry_run else "COMMIT")

    await mend(begin)
    if not dry_run:
        async with begin(""):
            _mend_index(connection)


def _mend_index(connection: sqlite3.Connection) -> None:
    """Make the search index of the whole store anew, if it is wrong."""
    is_unfindable = connection.execute(_UNFINDABLE).fetchone() is not None
    is_damaged = check_search_index(connection).state == "damaged"
    if is_unfindable or is_damaged or compare_index(connection):
        clear_index(connection)
        for memory, *columns in connection.execute(_ROWS):
            add_text(connection, memory, fold_searchable(Row._make(columns)))


@contextmanager
def _write_anew(
    file: StoreFile, mend: _Mend, aside: OriginalsFile, report: RepairReport
) -> Generator[Path]:
    """Yield a sound new file with what can be read of one whose pages are damaged; remove it."""
    with reserve_new_file(file.path) as new_path:
        with closing(_connect(file.path)) as damaged:
            damaged.execute("BEGIN")
            schema.create(new_path, _choose_language(damaged))
            with closing(_connect(new_path)) as new:
                new.execute("PRAGMA synchronous = OFF")  # it is worth nothing until it is whole
                new.execute("BEGIN")
                salvage(damaged, new, aside, report)
                new.execute("COMMIT")
                complete(_mend(new, nullcontext, mend, dry_run=False))

        set_journal_mode(new_path, "DELETE")
        damage = find_damage(new_path)
        if damage:
            raise UnsoundCopy(damage)
        yield new_path


def _connect(path: Path) -> sqlite3.Connection:
    connection = connect_to_file(path, "rw")
    read_damaged_texts(connection)
    return connection


def _choose_language(damaged: sqlite3.Connection) -> str:
    """Return the language that the recall index of a damaged store is kept in."""
    try:
        return run(damaged, read_language).name
    except sqlite3.Error:
        return Language().name


def _install(file: StoreFile, new_path: Path, aside: OriginalsFile, report: RepairReport) -> None:
    set_journal_mode(new_path, "WAL")
    sync_file(new_path)

    # What stood in the damaged rows is on disk before they are replaced.
    report.originals = aside.save()
    report.previous = name_replaced_store(file.path)
    file.put_in_place(new_path, aside=report.previous)
