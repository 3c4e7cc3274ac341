"""What can still be read of an SQLite store with damaged pages, stored as it stands in a new one.

SQLite's own ``.recover`` does the same for any database (https://sqlite.org/recovery.html); this
knows our tables, and so what is derived and need not be read.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from abilities.declarations.values import JsonObject, utc_now
from abilities.helpers.store.deriving import INDEX_COLUMNS
from abilities.helpers.store.history import Entry
from abilities.helpers.store.mending import mend_row, propose_names, restore_row
from abilities.helpers.store.model import LinkRecord, Row
from abilities.helpers.store.originals import OriginalsFile, RepairReport
from abilities.helpers.store.sqlite.transaction import bind_raw

_RANGE = 256
"""Rows that are read together; where that fails, half of them, down to one."""

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
    """A table, and the ways to its rows if some of its pages are damaged.

    ``apart`` reads the rows of each of some names, which ``names`` returns from a store that has
    them: the damaged one or the new one. ``repeated`` reads the columns that an index has too.
    """

    name: str
    columns: Sequence[str]
    apart: str = ""
    names: str = ""
    has_names: bool = False
    repeated: str = ""


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
    originals: OriginalsFile,
    report: RepairReport,
) -> None:
    """Store all rows that can be read and that nothing else implies; count those that are lost.

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
    originals: OriginalsFile,
    report: RepairReport,
) -> None:
    known = _list_known_rowids(damaged)
    names = {rowid: name for rowid, *name in _read(damaged, _INDEXED_NAMES)}
    now = utc_now()
    last = max(_read_number(damaged, statement) for statement in _LAST_ROWIDS)
    for first in range(1, last + 1, _RANGE):
        for columns in _read_range(damaged, first, first + _RANGE - 1):
            rowid, *values, stored_hash = columns
            known.discard(rowid)
            row = Row._make(values)
            indexed: JsonObject = dict(
                zip(("namespace", "key"), names.get(rowid, ()), strict=False)
            )
            row = restore_row(row, stored_hash, indexed) or row
            if _insert(new, "memories", _MEMORY, (rowid, *row, stored_hash)):
                continue

            # Its values are impossible in the table, or others have its names.
            originals.add("memories", dict(zip(_MEMORY, columns, strict=True)))
            for proposed in propose_names(mend_row(row, now)._replace(version=0)):
                if _insert(new, "memories", _MEMORY, (rowid, *proposed, 0)):
                    break

    report.lost_memories = len(known)


def _read_range(connection: sqlite3.Connection, first: int, last: int) -> Iterator[tuple[Any, ...]]:
    statement = f"SELECT {', '.join(_MEMORY)} FROM memories WHERE rowid BETWEEN ? AND ?"
    try:
        yield from connection.execute(statement, (first, last)).fetchall()
    except sqlite3.DatabaseError:
        if first < last:
            middle = (first + last) // 2
            yield from _read_range(connection, first, middle)
            yield from _read_range(connection, middle + 1, last)


def _list_known_rowids(connection: sqlite3.Connection) -> set[int]:
    """Return the rowids of all memories that anything else in the store knows of."""
    for statement in _KNOWN_ROWIDS:
        try:
            return {number for (number,) in connection.execute(statement)}
        except sqlite3.DatabaseError:
            continue

    return set()


def _read_table(
    damaged: sqlite3.Connection, new: sqlite3.Connection, table: _Table
) -> Iterator[Sequence[Any]]:
    """Yield the rows of a table that can be read; if some cannot, then others more than once."""
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
    """Yield the rows of a statement as far as they can be read."""
    try:
        yield from connection.execute(*bind_raw(statement, values))
    except sqlite3.DatabaseError:
        return


def _read_number(connection: sqlite3.Connection, statement: str) -> int:
    return sum(number or 0 for (number,) in _read(connection, statement))


def _insert(
    connection: sqlite3.Connection, table: str, columns: Sequence[str], values: Sequence[object]
) -> bool:
    """Add a row; return False if that is impossible."""
    places = ", ".join("?" * len(columns))
    statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})"
    try:
        connection.execute(*bind_raw(statement, values))
    except sqlite3.IntegrityError:
        return False

    return True
