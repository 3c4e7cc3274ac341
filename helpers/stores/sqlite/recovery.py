"""Reads of every row that a damaged SQLite store still gives, row by row where pages are damaged.

SQLite's own ``.recover`` does the same for any database (https://sqlite.org/recovery.html); this
knows our tables, and so what is derived and need not be recovered.
"""

import sqlite3
from collections.abc import Container, Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

from abilities.declarations.values import JsonObject
from abilities.helpers.stores.entries import ENTRY_COLUMNS, find_owner
from abilities.helpers.stores.history import Entry
from abilities.helpers.stores.model import IMPORTANCES, AccessCounters, LinkRecord, Row

_ROW = ", ".join((*Row._fields, "hash"))
_MEMORIES = f"SELECT rowid, {_ROW} FROM memories WHERE rowid BETWEEN ? AND ? ORDER BY rowid"
_ONE_MEMORY = f"SELECT rowid, {_ROW} FROM memories WHERE rowid = ?"

_INDEXED_NAMES = "SELECT rowid, namespace, key FROM memories INDEXED BY sqlite_autoindex_memories_1"
_MISSING_KEYS = """
SELECT key FROM link_counts WHERE namespace = CAST(? AS TEXT) AND key NOT IN (
    SELECT key FROM memories WHERE namespace = CAST(? AS TEXT)
) LIMIT 1000
"""
_LINK = ", ".join(("namespace", *LinkRecord._fields))
_LINKS = f"SELECT {_LINK} FROM links"
_LINKS_FROM = f"{_LINKS} WHERE namespace = ? AND source = ?"
_LINKS_IN_INDEX = """
SELECT namespace, source, target, type, weight, '', rank, back_rank, 0
FROM links INDEXED BY links_incoming
"""

_SHELF = ("namespace", "id", "type", "category", "archived", "created_at", "updated_at")
_INDEXED = f"SELECT {', '.join(_SHELF)}, importance, accessed_at, access_count FROM shelf"

_LAST_ROWIDS = (
    "SELECT max(rowid) FROM memories",
    "SELECT max(memory) FROM shelf INDEXED BY shelf_memory",
    "SELECT max(id) FROM search_docsize",
)
_KNOWN_ROWIDS = (
    "SELECT memory FROM shelf INDEXED BY shelf_memory",
    "SELECT id FROM search_docsize",
)
# With the signs, SQLite reads the table and not an index that has this order.
_ENTRIES = f"""
SELECT {ENTRY_COLUMNS} FROM history
WHERE typeof(namespace) = 'text' AND typeof(id) = 'text' ORDER BY +namespace, +id, +version
"""
_ENTRY_OWNERS = "SELECT DISTINCT namespace, id FROM history INDEXED BY history_id"
_ENTRIES_OF = f"""
SELECT {ENTRY_COLUMNS} FROM history INDEXED BY history_id
WHERE namespace = CAST(? AS TEXT) AND id = CAST(? AS TEXT) ORDER BY version
"""
_PURGED = "SELECT namespace, id, version, made_at, caller FROM purged"

_RANGE = 256
"""Rows that are read together; where that fails, half of them, down to one."""


class FoundRow(NamedTuple):
    """A memory's row as it stands; damage can give any value any type."""

    memory: int
    row: Row
    hash: int

    @property
    def columns(self) -> JsonObject:
        """The row by the names of its columns, for the file of originals."""
        return {"rowid": self.memory, **self.row._asdict(), "hash": self.hash}


class FoundLink(NamedTuple):
    """A link as it stands; the term and the hash are missing if only an index still had it."""

    namespace: str
    record: LinkRecord

    @property
    def columns(self) -> JsonObject:
        """The link by the names of its columns, for the file of originals."""
        return {"namespace": self.namespace, **self.record._asdict()}


class KnownValues(NamedTuple):
    """What the memory index has of a memory: some of its columns, and its access counters."""

    columns: JsonObject
    counters: AccessCounters


class LastVersion(NamedTuple):
    """What a store keeps of the versions of a namespace, see schema.sql."""

    namespace: str
    number: int
    forgotten: int


def read_rows(connection: sqlite3.Connection) -> Iterator[FoundRow]:
    """Yield every memory that can be read, by rowid."""
    last = max((_fetch_number(connection, text) for text in _LAST_ROWIDS), default=0)

    for first in range(1, last + 1, _RANGE):
        yield from _read_range(connection, first, first + _RANGE - 1)


def _read_range(connection: sqlite3.Connection, first: int, last: int) -> Iterator[FoundRow]:
    try:
        rows = connection.execute(_MEMORIES, (first, last)).fetchall()
    except sqlite3.DatabaseError:
        if first == last:
            return
        middle = (first + last) // 2
        yield from _read_range(connection, first, middle)
        yield from _read_range(connection, middle + 1, last)
        return

    yield from map(_make_row, rows)


def read_row(connection: sqlite3.Connection, memory: int) -> FoundRow:
    """Return one memory that `read_rows` found."""
    return _make_row(connection.execute(_ONE_MEMORY, (memory,)).fetchone())


def _make_row(columns: Iterable[Any]) -> FoundRow:
    memory, *values, stored_hash = columns
    return FoundRow(memory, Row._make(values), stored_hash)


def list_known_rowids(connection: sqlite3.Connection) -> set[int]:
    """Return the rowids of all memories that anything else in the store knows of."""
    for statement in _KNOWN_ROWIDS:
        try:
            return {number for (number,) in connection.execute(statement)}
        except sqlite3.DatabaseError:
            continue

    return set()


def read_known_values(connection: sqlite3.Connection, memory: int) -> KnownValues | None:
    """Return what the memory index has of a memory, or None if it cannot be read."""
    try:
        columns = connection.execute(f"{_INDEXED} WHERE memory = ?", (memory,)).fetchone()
    except sqlite3.DatabaseError:
        return None
    if columns is None:
        return None

    *values, importance, accessed_at, access_count = columns
    known: JsonObject = dict(zip(_SHELF, values, strict=True))
    if importance in range(len(IMPORTANCES)):
        known["importance"] = IMPORTANCES[importance]

    return KnownValues(known, AccessCounters(accessed_at, access_count))


def read_indexed_names(
    connection: sqlite3.Connection, memories: Container[int]
) -> dict[int, JsonObject]:
    """Return the namespace and key of some memories as the index of them has them."""
    names: dict[int, JsonObject] = {}
    if not memories:
        return names

    try:
        for memory, namespace, key in connection.execute(_INDEXED_NAMES):
            if memory in memories:
                names[memory] = {"namespace": namespace, "key": key}
    except sqlite3.DatabaseError:
        return names

    return names


def list_missing_keys(connection: sqlite3.Connection, namespace: str) -> list[str]:
    """Return keys with links but without a memory; one of them may be that of a damaged memory."""
    name = to_bytes(namespace)
    try:
        return [key for (key,) in connection.execute(_MISSING_KEYS, (name, name))]
    except sqlite3.DatabaseError:
        return []


def read_links(
    connection: sqlite3.Connection, sources: Iterable[tuple[str, str]]
) -> Iterator[FoundLink]:
    """Yield every link that can be read; if some cannot, then others more than once.

    ``sources`` are the namespaces and keys that links may come from; they are only asked for if the
    links cannot be read in one go.
    """
    try:
        for columns in connection.execute(_LINKS):
            yield _make_link(columns)
    except sqlite3.DatabaseError:
        yield from _read_links_apart(connection, sources)


def _read_links_apart(
    connection: sqlite3.Connection, sources: Iterable[tuple[str, str]]
) -> Iterator[FoundLink]:
    for source in sources:
        try:
            for columns in connection.execute(_LINKS_FROM, source).fetchall():
                yield _make_link(columns)
        except sqlite3.DatabaseError:
            continue

    # An index repeats all of a link but its term.
    try:
        for columns in connection.execute(_LINKS_IN_INDEX):
            yield _make_link(columns)
    except sqlite3.DatabaseError:
        return


def _make_link(columns: Iterable[Any]) -> FoundLink:
    namespace, *values = columns
    return FoundLink(namespace, LinkRecord._make(values))


def count_known_links(connection: sqlite3.Connection) -> int:
    """Return how many links their counts say there are; 0 if those cannot be read."""
    return _fetch_number(connection, "SELECT sum(outgoing) FROM link_counts")


def read_last_versions(connection: sqlite3.Connection) -> list[LastVersion]:
    """Return the last versions that namespaces have given; none if they cannot be read."""
    try:
        cursor = connection.execute("SELECT namespace, number, forgotten FROM versions")
        return list(map(LastVersion._make, cursor))
    except sqlite3.DatabaseError:
        return []


def read_entries(connection: sqlite3.Connection) -> Iterator[list[Entry]]:
    """Yield the entries of each memory by rising version, if they can be read."""
    try:
        # Sorting reads all of them before it returns the first one.
        entries = map(Entry._make, connection.execute(_ENTRIES))
    except sqlite3.DatabaseError:
        yield from _read_entries_by_index(connection)
        return

    for _, group in groupby(entries, key=find_owner):
        yield list(group)


def _read_entries_by_index(connection: sqlite3.Connection) -> Iterator[list[Entry]]:
    """Yield the entries of each memory whose pages can be read."""
    try:
        owners = connection.execute(_ENTRY_OWNERS).fetchall()
    except sqlite3.DatabaseError:
        return

    for owner in owners:
        yield _read_entries_of(connection, map(to_bytes, owner))


def _read_entries_of(connection: sqlite3.Connection, owner: Iterable[object]) -> list[Entry]:
    try:
        return list(map(Entry._make, connection.execute(_ENTRIES_OF, tuple(owner))))
    except sqlite3.DatabaseError:
        return []


def read_purged(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
    """Return what is known of purged memories: namespace, id, version, time and caller."""
    try:
        return connection.execute(_PURGED).fetchall()
    except sqlite3.DatabaseError:
        return []


def to_bytes(text: object) -> object:
    """Return a text as its bytes, which may be no UTF-8; SQL casts them to a text again."""
    if isinstance(text, str):
        return text.encode(errors="surrogateescape")

    return text


def _fetch_number(connection: sqlite3.Connection, statement: str) -> int:
    try:
        ((number,),) = connection.execute(statement).fetchall()
    except sqlite3.DatabaseError:
        return 0

    return number or 0
