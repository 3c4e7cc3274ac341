"""Import from a kv-memory database: memories with their scores, times and counts, and links.

Its schema decides what it is. The tables are ``memories`` (key, summary, text, meta, created_at)
and ``memory_links`` (from_key, to_key, link_type, term, weight, created_at, access_count,
last_accessed_at). Version 1.8 added a column ``score`` to the memories. In version 1.2 links have
no term in their table, and stand as JSON in a column ``links`` of the memories too, with terms;
later versions leave that column in a database as it was.
"""

import sqlite3
from collections.abc import Collection, Generator, Iterable
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

from abilities.helpers.transfer.adjustment import adjust_item
from abilities.helpers.transfer.export_lines import UnusableLine
from abilities.helpers.transfer.foreign import ForeignLink, ForeignMemory
from abilities.helpers.transfer.kv_meta import MetaReader, to_text
from abilities.helpers.transfer.remarks import LINKS, ROWS, RemarkCounter
from abilities.helpers.transfer.sources import Source, list_remarks

_MEMORY_COLUMNS = {"key", "summary", "text", "meta", "created_at"}
_READ_COLUMNS = {*_MEMORY_COLUMNS, "score", "links"}
_LINK_COLUMNS = {
    "from_key",
    "to_key",
    "link_type",
    "weight",
    "created_at",
    "access_count",
    "last_accessed_at",
}
_KEPT_LINK_COLUMNS = {"id", "from_key", "to_key", "link_type", "term", "weight"}
"""The columns of a link that are imported, and its number, which nothing refers to."""

_WAL_FLAG = 18
"""The byte of a database's header that tells its mode (SQLite's file format, section 1.3.3)."""

_WAL_MODE = 2

_OWN_COLUMNS = {"namespace", "key", "content", "hash"}
"""Columns of ``memories`` in a store of this package."""

_LINKS = """
SELECT l.* FROM memories AS m JOIN memory_links AS l ON l.from_key = m.key
WHERE m.rowid = ? ORDER BY l.rowid
"""
_LINKS_OF_NOBODY = """
SELECT count(*) FROM memory_links AS l
WHERE NOT EXISTS (SELECT 1 FROM memories AS m WHERE m.key = l.from_key)
"""
_OTHER_TABLES = """
SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'
AND name NOT IN ('memories', 'memory_links')
AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name NOT LIKE 'memories\\_fts%' ESCAPE '\\'
"""


class KvMemoryFile:
    """A kv-memory database, open for reading."""

    def __init__(
        self, connection: sqlite3.Connection, columns: Collection[str], link_columns: Iterable[str]
    ) -> None:
        self._connection = connection
        self._remarks = RemarkCounter()

        self._has_score = "score" in columns
        self._has_terms = "term" in link_columns
        self._has_json_links = "links" in columns
        self._other_link_columns = sorted(set(link_columns) - _KEPT_LINK_COLUMNS)

        self._other_columns = [name for name in columns if name not in _READ_COLUMNS]

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Generator["KvMemoryFile"]:
        """Open a database for the block. Raises UnusableLine if it is not kv-memory's."""
        with ExitStack() as opened:
            with _explain_errors():
                connection = sqlite3.connect(_build_uri(path), uri=True, isolation_level=None)
                opened.enter_context(closing(connection))

                connection.execute("BEGIN")  # one snapshot, even if others write to the database
                database = cls(connection, *_recognize(connection))

            connection.row_factory = sqlite3.Row
            # One text that is not UTF-8 must not end the import; the adjustment reports it.
            connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
            yield database

    def count_memories(self) -> int:
        """Return the number of memories. Raises UnusableLine if the database is damaged."""
        with _explain_errors():
            return self._count("SELECT count(*) FROM memories")

    async def read_memories(self, namespace: str, now: str) -> Source:
        """Yield each memory with its links, and then what is not kept.

        Raises UnusableLine if the database is damaged.
        """
        number = 0

        with _explain_errors():
            for row in self._connection.execute("SELECT rowid, * FROM memories"):
                number += 1
                foreign = self._convert_row(row)
                yield adjust_item(f"memory {number}", number, foreign, namespace, now)

            self._count_what_is_left()

        for item in list_remarks(self._remarks, number):
            yield item

    def _convert_row(self, row: sqlite3.Row) -> ForeignMemory:
        key = to_text(row["key"])
        reader = MetaReader(row["meta"], self._remarks)

        column_score: object = None
        if self._has_score:
            column_score = row["score"]

        score = reader.take_score(column_score)
        times = reader.take_times(row["created_at"])
        access_count = reader.take_access_count()
        archived = reader.take_archived()
        reader.take_other_fields(key)
        links = self._read_links(row, reader)

        for name in self._other_columns:
            reader.add_column(name, row[name])

        return ForeignMemory(
            key,
            to_text(row["text"]),
            score=score,
            summary=to_text(row["summary"]),
            links=links,
            metadata=reader.metadata,
            archived=archived,
            created_at=times.created_at,
            updated_at=times.updated_at,
            accessed_at=times.accessed_at,
            access_count=access_count,
        )

    def _read_links(self, row: sqlite3.Row, reader: MetaReader) -> list[ForeignLink]:
        if not self._has_json_links:
            return self._read_link_rows(row, reader)

        json_links = reader.parse_links(row["links"])
        if not self._has_terms:
            return json_links

        return reader.merge_links(self._read_link_rows(row, reader), json_links)

    def _read_link_rows(self, row: sqlite3.Row, reader: MetaReader) -> list[ForeignLink]:
        links: list[ForeignLink] = []

        for link in self._connection.execute(_LINKS, (row["rowid"],)):
            target = to_text(link["to_key"])
            weight = reader.convert_weight(link["weight"], target)
            link_type = to_text(link["link_type"])
            links.append(ForeignLink(target, link_type, weight, to_text(link["term"])))

        return links

    def _count_what_is_left(self) -> None:
        """Count what no memory has shown: columns of links, links of nobody, other tables."""
        for name in self._other_link_columns:
            count = self._count(f"SELECT count({_quote(name)}) FROM memory_links")  # noqa: S608 - quoted
            self._remarks.add(LINKS, f"{name} is not kept.", count)

        self._remarks.add(
            LINKS,
            "Links from a memory that does not exist are not imported.",
            self._count(_LINKS_OF_NOBODY),
        )

        for (name,) in self._connection.execute(_OTHER_TABLES).fetchall():
            count = self._count(f"SELECT count(*) FROM {_quote(name)}")  # noqa: S608 - quoted
            self._remarks.add(ROWS, f"The table {name} is not imported.", count)

    def _count(self, statement: str) -> int:
        (count,) = self._connection.execute(statement).fetchone()
        return int(count)


@contextmanager
def _explain_errors() -> Generator[None]:
    """Turn errors of the database into a sentence. Raises UnusableLine."""
    try:
        yield
    except sqlite3.Error:
        raise UnusableLine(
            "The database cannot be read: it is damaged, or another program has it locked. Close "
            "that program, or take a copy from a backup."
        ) from None


def _build_uri(path: Path) -> str:
    """Return the URI that opens a database for reading and leaves no files beside it."""
    uri = f"{path.absolute().as_uri()}?mode=ro"

    # SQLite reads a database in WAL mode through two files beside it. If they are not there, nobody
    # has it open, and it can be read as a file that does not change.
    with path.open("rb") as file:
        header = file.read(_WAL_FLAG + 1)

    is_open = path.with_name(f"{path.name}-wal").exists()
    if header[_WAL_FLAG] == _WAL_MODE and not is_open:
        uri += "&immutable=1"

    return uri


def _recognize(connection: sqlite3.Connection) -> tuple[list[str], list[str]]:
    """Return the columns of both tables. Raises UnusableLine if they are not kv-memory's."""
    columns = _list_columns(connection, "memories")
    link_columns = _list_columns(connection, "memory_links")

    if _OWN_COLUMNS.issubset(columns):
        raise UnusableLine(
            "The file is a store of this package. Take its memories over: abilities export FILE "
            "--store-url sqlite:///STORE, then import that; or use it as it is: abilities restore"
        )

    has_memories = _MEMORY_COLUMNS.issubset(columns) and "namespace" not in columns
    has_links = _LINK_COLUMNS.issubset(link_columns)
    has_terms = "term" in link_columns or "links" in columns

    if {"key", "value"}.issubset(_list_columns(connection, "keyv")) and not columns:
        raise UnusableLine(
            "The database has the format of Keyv, which kv-memory used before it had tables of its "
            "own. Bring its contents as lines: docs/moving.md shows the form."
        )
    if not (has_memories and has_links and has_terms):
        raise UnusableLine(
            "The database is not kv-memory's: its tables memories and memory_links are missing "
            "or have other columns. Bring its contents as lines: docs/moving.md shows the form."
        )

    return columns, link_columns


def _list_columns(connection: sqlite3.Connection, table: str) -> list[str]:
    rows = connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
    return [name for (name,) in rows]


def _quote(name: str) -> str:
    """Return the name of a table or column as SQL takes any name."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'
