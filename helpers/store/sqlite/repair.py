"""Repair of an SQLite store: in place while it is in use, or by a new file if pages are damaged.

If a repair with a new file is interrupted at any point, the store is either the old or the new one.
The new file gets every row that can still be read. SQLite's own ``.recover`` does the same for any
database (https://sqlite.org/recovery.html), but this module knows our tables, and so which of them
are derived and need not be read.
"""

import sqlite3
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from abilities.declarations.refusals import Refused
from abilities.declarations.values import JsonObject, utc_now
from abilities.helpers.search.terms import Language
from abilities.helpers.store import mending, repairing
from abilities.helpers.store.engine import Transaction, fold_searchable
from abilities.helpers.store.history import Entry, HistoryLimits
from abilities.helpers.store.model import LinkRecord, Row
from abilities.helpers.store.recall_index import read_language
from abilities.helpers.store.repairing import Begin, repair_rows
from abilities.helpers.store.saving import INDEX_COLUMNS
from abilities.helpers.store.sqlite import backup
from abilities.helpers.store.sqlite.connection import StoreConnection
from abilities.helpers.store.sqlite.file import (
    StoreFile,
    connect_to_file,
    create_store,
    read_damaged_texts,
    reserve_new_file,
    set_journal_mode,
    sync_file,
)
from abilities.helpers.store.sqlite.search import add_text, clear_index, compare_index
from abilities.helpers.store.sqlite.transaction import RawTransaction, bind_raw, complete, run

_RANGE = 256
"""Rows that are read together; if that fails, each half is read, down to single rows."""

_MEMORY = ("rowid", *Row._fields, "hash")
_LAST_ROWIDS = (
    "SELECT max(rowid) FROM memories",
    "SELECT max(memory) FROM shelf INDEXED BY shelf_memory",
    "SELECT max(id) FROM search_docsize",
)
_KNOWN_ROWIDS = (
    "SELECT memory FROM shelf INDEXED BY shelf_memory",
    "SELECT id FROM search_docsize",
)
_INDEXED_NAMES = "SELECT rowid, namespace, key FROM memories INDEXED BY sqlite_autoindex_memories_1"


class _Table(NamedTuple):
    """A table, and other ways to its rows if some of its pages are damaged.

    ``names`` lists names, from the damaged store with ``has_names``, else from the new one.
    ``apart`` is the clause that selects the rows of each name. ``repeated`` selects from an index
    that repeats the columns.
    """

    name: str
    columns: Sequence[str]
    apart: str = ""
    names: str = ""
    has_names: bool = False
    repeated: str = ""


_ROWS = f"SELECT rowid, {', '.join(Row._fields)} FROM memories ORDER BY rowid"
_UNFINDABLE = f"SELECT 1 FROM memories AS m WHERE NOT {RawTransaction.searched} LIMIT 1"

_MendRows = Callable[[Begin], Coroutine[Any, Any, None]]
"""`repair_rows` with all but its first argument: it mends all rows in transactions."""

_TABLES = (
    _Table(
        "shelf",
        ("namespace", *INDEX_COLUMNS, "accessed_at", "access_count", "doc", "memory"),
        "INDEXED BY shelf_memory WHERE memory = ?",
        "SELECT rowid FROM memories",
    ),
    _Table(
        "links",
        ("namespace", *LinkRecord._fields),
        "WHERE namespace = ? AND source = ?",
        "SELECT namespace, key FROM memories",
        repeated="""
        SELECT namespace, source, target, type, weight, '', rank, back_rank, 0
        FROM links INDEXED BY links_incoming
        """,
    ),
    _Table("versions", ("namespace", "number", "forgotten", "history_bytes")),
    _Table(
        "history",
        Entry._fields,
        "INDEXED BY history_id WHERE namespace = ? AND id = ?",
        "SELECT DISTINCT namespace, id FROM history INDEXED BY history_id",
        has_names=True,
    ),
    _Table("purged", ("namespace", "id", "version", "made_at", "caller")),
    _Table("link_counts", ("namespace", "key", "outgoing", "incoming")),
)


def salvage(
    damaged: sqlite3.Connection,
    new: sqlite3.Connection,
    originals: repairing.OriginalsFile,
    report: repairing.RepairReport,
) -> None:
    """Copy all readable rows of tables that are not derived, and count the lost ones in the report.

    Raises sqlite3.Error, OSError.
    """
    _copy_memories(damaged, new, originals, report)
    for table in _TABLES:
        copied = 0
        for columns in _read_table(damaged, new, table):
            copied += _insert(new, table.name, table.columns, columns)

        if table.name == "links":
            expected = _read_number(damaged, "SELECT sum(outgoing) FROM link_counts")
            report.lost_links = max(expected - copied, 0)


def _copy_memories(
    damaged: sqlite3.Connection,
    new: sqlite3.Connection,
    originals: repairing.OriginalsFile,
    report: repairing.RepairReport,
) -> None:
    # The rowids of all memories that another table knows of.
    known: set[int] = set()
    for statement in _KNOWN_ROWIDS:
        try:
            known = {number for (number,) in damaged.execute(statement)}
            break
        except sqlite3.DatabaseError:
            continue

    # A store of an older version lacks the last columns.
    present = {name for _, name, *_ in _read(damaged, "PRAGMA table_info(memories)")}
    absent = {name: f"'{default}'" for name, default in Row._field_defaults.items()}
    columns = [name if name in present else absent.get(name, name) for name in _MEMORY]
    statement = f"SELECT {', '.join(columns)} FROM memories WHERE rowid BETWEEN ? AND ?"

    names = {rowid: name for rowid, *name in _read(damaged, _INDEXED_NAMES)}
    now = utc_now()
    last = max(_read_number(damaged, statement) for statement in _LAST_ROWIDS)
    for first in range(1, last + 1, _RANGE):
        for found in _read_range(damaged, statement, first, first + _RANGE - 1):
            rowid, *values, stored_hash = found
            known.discard(rowid)
            row = Row._make(values)
            indexed: JsonObject = dict(
                zip(("namespace", "key"), names.get(rowid, ()), strict=False)
            )
            row = mending.restore_row(row, stored_hash, indexed) or row
            if _insert(new, "memories", _MEMORY, (rowid, *row, stored_hash)):
                continue

            # The table does not accept its values, or another row has its names.
            originals.add("memories", dict(zip(_MEMORY, found, strict=True)))
            for proposed in mending.propose_names(mending.mend_row(row, now)._replace(version=0)):
                if _insert(new, "memories", _MEMORY, (rowid, *proposed, 0)):
                    break

    report.lost_memories = len(known)


def _read_range(
    connection: sqlite3.Connection, statement: str, first: int, last: int
) -> Iterator[tuple[Any, ...]]:
    try:
        yield from connection.execute(statement, (first, last)).fetchall()
    except sqlite3.DatabaseError:
        if first < last:
            middle = (first + last) // 2
            yield from _read_range(connection, statement, first, middle)
            yield from _read_range(connection, statement, middle + 1, last)


def _read_table(
    damaged: sqlite3.Connection, new: sqlite3.Connection, table: _Table
) -> Iterator[Sequence[Any]]:
    """Yield the readable rows of a table; if some cannot be read, others may come repeatedly."""
    everything = f"SELECT {', '.join(table.columns)} FROM {table.name}"
    try:
        yield from damaged.execute(f"{everything} NOT INDEXED")
    except sqlite3.DatabaseError:
        if table.apart:
            names = list(_read(damaged if table.has_names else new, table.names))
            for name in names:
                yield from _read(damaged, f"{everything} {table.apart}", *name)
        if table.repeated:
            yield from _read(damaged, table.repeated)


def _read(
    connection: sqlite3.Connection, statement: str, *values: object
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a statement up to the first one that cannot be read."""
    try:
        yield from connection.execute(*bind_raw(statement, values))
    except sqlite3.DatabaseError:
        return


def _read_number(connection: sqlite3.Connection, statement: str) -> int:
    return sum(number or 0 for (number,) in _read(connection, statement))


def _insert(
    connection: sqlite3.Connection, table: str, columns: Sequence[str], values: Sequence[object]
) -> bool:
    """Add a row; return False if the table does not accept it."""
    places = ", ".join("?" * len(columns))
    statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})"
    try:
        connection.execute(*bind_raw(statement, values))
    except sqlite3.IntegrityError:
        return False

    return True


def repair(
    store: Path, originals: Path | None, progress: Callable[[int], None], *, dry_run: bool
) -> repairing.RepairReport:
    """Mend a store; a sound store is left alone.

    The store may be in use, unless its pages are damaged: then a new file is written, and the old
    one is kept beside it. ``originals`` is a new file for the original content of damaged rows, by
    default beside the store. A dry run changes nothing. ``progress`` is called with the number of
    rows since the last call.

    Raises FileExistsError; Refused("busy") if a process has a store with damaged pages open;
    UnsoundCopy if the new file is not sound, which is then not put in place; and the errors of
    `StoreFile.open`.
    """
    with closing(StoreFile(store)) as file:
        try:
            file.open(writing=False).close()  # migrates the store
        except Refused as error:
            # Damaged pages keep a store from being migrated, but not from being written anew.
            if error.reason != "corrupted":
                raise

        with backup.translate_copy_errors():
            report = repairing.RepairReport(backup.find_damage(store, progress, file.lock))
            path: Path | None = None
            if not dry_run:
                path = originals or repairing.name_originals(store)

            with closing(repairing.OriginalsFile(path)) as aside:
                mend_rows = partial(
                    repair_rows,
                    originals=aside,
                    report=report,
                    progress=progress,
                    limits=HistoryLimits(),
                )
                if not report.damage:
                    return report
                if backup.can_be_mended(report.damage):
                    with closing(file.open(writing=True)) as connection:
                        read_damaged_texts(connection)
                        complete(_mend_store(connection, file, mend_rows, dry_run=dry_run))
                elif dry_run:
                    with _write_anew(file, mend_rows, aside, report):
                        pass
                else:
                    with file.lock():
                        file.write_log_back()
                        with _write_anew(file, mend_rows, aside, report) as new_path:
                            set_journal_mode(new_path, "WAL")
                            sync_file(new_path)

                            # The originals must be on disk before their rows are replaced.
                            report.originals = aside.save()
                            report.previous = backup.name_replaced_store(file.path)
                            file.put_in_place(new_path, aside=report.previous)

            return report


async def _mend_store(
    connection: StoreConnection, file: StoreFile | None, mend_rows: _MendRows, *, dry_run: bool
) -> None:
    """Mend all rows, then the search index; the file is None if no other process uses it."""

    @asynccontextmanager
    async def begin(_namespace: str) -> AsyncGenerator[Transaction]:
        with ExitStack() as held:
            if file is not None:
                held.enter_context(file.lock())
                file.check_in_place(connection)

            connection.execute("BEGIN IMMEDIATE")
            try:
                yield RawTransaction(connection)
            except BaseException:
                connection.execute("ROLLBACK")
                raise

            connection.execute("ROLLBACK" if dry_run else "COMMIT")

    await mend_rows(begin)
    if dry_run:
        return

    async with begin(""):
        is_unfindable = connection.execute(_UNFINDABLE).fetchone() is not None
        is_damaged = backup.check_search_index(connection).state == "damaged"
        if is_unfindable or is_damaged or compare_index(connection):
            clear_index(connection)
            for memory, *columns in connection.execute(_ROWS):
                add_text(connection, memory, fold_searchable(Row._make(columns)))


@contextmanager
def _write_anew(
    file: StoreFile,
    mend_rows: _MendRows,
    aside: repairing.OriginalsFile,
    report: repairing.RepairReport,
) -> Generator[Path]:
    """Yield a sound temporary file with all that can be read of a file with damaged pages."""
    with reserve_new_file(file.path) as new_path:
        with closing(_connect(file.path)) as damaged:
            damaged.execute("BEGIN")
            try:
                language = run(damaged, read_language)
            except sqlite3.Error:
                language = Language()

            create_store(new_path, language)
            with closing(_connect(new_path)) as new:
                new.execute("PRAGMA synchronous = OFF")  # an unfinished file is thrown away anyway
                new.execute("BEGIN")
                salvage(damaged, new, aside, report)
                new.execute("COMMIT")
                complete(_mend_store(new, None, mend_rows, dry_run=False))

        set_journal_mode(new_path, "DELETE")
        damage = backup.find_damage(new_path)
        if damage:
            raise backup.UnsoundCopy(damage)
        yield new_path


def _connect(path: Path) -> StoreConnection:
    connection = connect_to_file(path, "rw")
    read_damaged_texts(connection)
    return connection
