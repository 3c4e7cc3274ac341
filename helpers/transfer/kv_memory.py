"""Import from a kv-memory database: memories with their scores, times and counts, and links.

Its schema decides what it is. The tables are ``memories`` (key, summary, text, meta, created_at)
and ``memory_links`` (from_key, to_key, link_type, term, weight, created_at, access_count,
last_accessed_at). Version 1.8 added a column ``score`` to the memories. In version 1.2 links have
no term in their table, and stand as JSON in a column ``links`` of the memories too, with terms;
later versions leave that column in a database as it was.
"""

import json
import math
import sqlite3
from collections.abc import Collection, Generator, Iterable
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple, cast

from abilities.declarations.values import JsonObject, as_object
from abilities.helpers.transfer.adjustment import add_metadata, adjust_item
from abilities.helpers.transfer.export_lines import UnusableLine
from abilities.helpers.transfer.sources import (
    LINKS,
    MEMORIES,
    ROWS,
    ForeignLink,
    ForeignMemory,
    RemarkCounter,
    Source,
    list_remarks,
)

_DERIVED_FIELDS = (
    "last_linked_at",
    "in_degree",
    "out_degree",
    "traverse_count",
    "version",
    "migrated_at",
)
"""Fields that kv-memory computes for its own use; they are counted, and not kept."""

_DEFAULT_SCORE = 0.5
"""What kv-memory ranks a memory by that has no score."""

_DEFAULT_WEIGHT = 0.5

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_TIME = "1970-01-01T00:00:00.000Z"
"""The creation of a memory without any time: the same one whenever it is imported."""

_MAX_INTEGER_DIGITS = 18
"""Integers up to this length fit 64 bits."""


class Times(NamedTuple):
    """When a memory was made, changed and read, as RFC 3339 UTC in milliseconds."""

    created_at: str
    updated_at: str
    accessed_at: str


class MetaReader:
    """Reads the values of one memory; each method takes some of ``meta``, the last one the rest.

    ``metadata`` collects what has no place of its own, and values that cannot be used.
    """

    def __init__(self, meta: object, remarks: RemarkCounter) -> None:
        self.metadata: JsonObject = {}
        self._remarks = remarks
        self._meta = self._parse_meta(meta)

    def _parse_meta(self, value: object) -> JsonObject:
        text = to_text(value)
        meta = as_object(_parse_json(text))
        if meta is None:
            self._keep("meta", text, "meta is not a JSON object; it became metadata.")

        return meta or {}

    def take_score(self, column_score: object) -> float:
        """Return the score as one from 0 to 1; in kv-memory it is from 0 to 100.

        kv-memory ranks by the score in ``meta``. Its column has the one that a memory began with,
        which counts only if there is no other.
        """
        score = self._meta.pop("score", None)
        if score is None:
            score = column_score

        if score is None:
            words = "Without a score, kv-memory ranks a memory by 50; that became its score."
            self._remarks.add(MEMORIES, words)
            return _DEFAULT_SCORE

        number = _to_number(score)
        if number is None or not 0 <= number <= 100:
            self._keep_unusable("score", score)
        if number is None:
            return _DEFAULT_SCORE

        return min(max(0, number), 100) / 100

    def take_times(self, column_time: object) -> Times:
        """Return the times, which kv-memory has in milliseconds since 1970.

        It writes its column ``created_at`` anew when it changes a score, but not the one in
        ``meta``: the earlier one is the creation, the later one the last change.
        """
        made = (
            self._take_time("created_at", column_time),
            self._take_time("created_at", self._meta.pop("created_at", None)),
        )
        accessed_at = self._take_time("last_accessed_at", self._meta.pop("last_accessed_at", None))

        known = [time for time in made if time is not None]
        if not known:
            known.append(accessed_at or _EPOCH_TIME)

        created_at, updated_at = min(known), max(known)
        return Times(created_at, updated_at, accessed_at or created_at)

    def take_access_count(self) -> int:
        """Return how often the memory was read."""
        value = self._meta.pop("access_count", None)
        if value is None:
            return 0

        number = _to_number(value)
        if number is None or number != int(number) or not 0 <= number <= 2**53:
            self._keep_unusable("access_count", value)
            return 0

        return int(number)

    def take_archived(self) -> bool:
        """Return whether the status says that the memory is archived or deleted."""
        status = self._meta.pop("status", None)

        if status not in (None, "active", "archived"):
            words = "A status other than active and archived became metadata."
            self._keep("status", status, words)

        return status in ("archived", "deleted")

    def take_other_fields(self, key: str) -> None:
        """Count derived fields, and put all others into the metadata."""
        if self._meta.get("id") == key:
            del self._meta["id"]

        for name in _DERIVED_FIELDS:
            if self._meta.pop(name, None) is not None:
                self._remarks.add(MEMORIES, f"meta.{name} is not kept.")

        for name, value in self._meta.items():
            add_metadata(self.metadata, name, value)

        if self._meta:
            self._remarks.add(MEMORIES, "Further fields of meta became metadata.")

    def add_column(self, name: str, value: object) -> None:
        """Put the value of a column that kv-memory does not have into the metadata."""
        if value is not None:
            self._keep(name, value, f"The column {name} became metadata.")

    def parse_links(self, value: object) -> list[ForeignLink]:
        """Return the links that a JSON column holds; those without a key go into the metadata."""
        items = _parse_json(to_text(value))
        if not isinstance(items, list):
            self._keep_unusable("links", value)
            return []

        links: list[ForeignLink] = []
        others: list[object] = []

        for item in cast(list[object], items):
            fields = as_object(item) or {}
            key = fields.get("key")
            if isinstance(key, str) and key:
                links.append(self._parse_link(key, fields))
            else:
                others.append(item)

        if others:
            self._keep("links", others, "Links that lead to no key became metadata.")

        return links

    def merge_links(
        self, links: list[ForeignLink], older_links: list[ForeignLink]
    ) -> list[ForeignLink]:
        """Return links with the terms that only older ones have; older ones alone are kept aside.

        Until version 1.2 kv-memory had the terms in its JSON links, and did not move them.
        """
        older = {(link.name, link.type): link for link in older_links}
        merged: list[ForeignLink] = []

        for link in links:
            same = older.pop((link.name, link.type), link)
            merged.append(link._replace(term=link.term or same.term))

        if older:
            others = [_format_link(link) for link in older.values()]
            self._keep("links", others, "Links in the column links alone became metadata.")

        return merged

    def convert_weight(self, value: object, target: str) -> float:
        """Return a weight, which is from 0 to 1 there too; the default if it is no number."""
        if value is None:
            return _DEFAULT_WEIGHT

        number = _to_number(value)
        if number is None:
            self._keep_unusable("link_weights", {target: _to_json_value(value)})
            return _DEFAULT_WEIGHT

        return number

    def _parse_link(self, key: str, fields: JsonObject) -> ForeignLink:
        link_type = to_text(fields.get("type"))
        weight = self.convert_weight(fields.get("weight"), key)
        term = to_text(fields.get("term"))

        return ForeignLink(key, link_type, weight, term)

    def _take_time(self, name: str, value: object) -> str | None:
        if value is None:
            return None

        time = _format_time(value)
        if time is None:
            self._keep_unusable(name, value)

        return time

    def _keep_unusable(self, name: str, value: object) -> None:
        self._keep(name, value, f"{name} cannot be used as it is; it became metadata.")

    def _keep(self, name: str, value: object, words: str) -> None:
        """Put a value into the metadata, and count that."""
        add_metadata(self.metadata, name, _to_json_value(value))
        self._remarks.add(MEMORIES, words)


def to_text(value: object) -> str:
    """Return a value of a column or of JSON as text; bytes that are not UTF-8 as surrogates."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")

    return str(value)


def _format_link(link: ForeignLink) -> JsonObject:
    """Return a link as kv-memory writes it in JSON."""
    return {"key": link.name, "type": link.type, "term": link.term, "weight": link.weight}


def _parse_json(text: str) -> object:
    """Return the value of a JSON text, or None; what our JSON cannot carry becomes text."""
    try:
        return json.loads(text, parse_constant=str, parse_int=_parse_integer)
    except (ValueError, RecursionError):
        return None


def _parse_integer(digits: str) -> int | str:
    if len(digits) > _MAX_INTEGER_DIGITS:
        return digits

    return int(digits)


def _to_json_value(value: object) -> object:
    """Return a value of a column as one that JSON can carry; one of JSON as it is."""
    if isinstance(value, bytes):
        return to_text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)

    return value


def _to_number(value: object) -> int | float | None:
    """Return a finite number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None

    return value


def _format_time(value: object) -> str | None:
    """Return milliseconds since 1970 as RFC 3339 UTC, or None if they are no time."""
    number = _to_number(value)
    if number is None:
        return None

    try:
        time = _EPOCH + timedelta(milliseconds=int(number))
    except OverflowError:
        return None

    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


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
