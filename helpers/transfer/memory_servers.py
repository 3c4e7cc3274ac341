"""Import from other memory servers: kv-memory, and the MCP memory server.

A database of kv-memory is recognized by its schema. The tables are ``memories`` (key, summary,
text, meta, created_at) and ``memory_links`` (from_key, to_key, link_type, term, weight, created_at,
access_count, last_accessed_at). Version 1.8 added a column ``score`` to the memories. In version
1.2, links have no term in their table, but are also in a JSON column ``links`` of the memories,
with terms. Later versions do not change that column in an existing database.

A file of the MCP memory server has lines with entities and with relations between them.
"""

import json
import math
import sqlite3
from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import cast

from abilities.declarations.values import JsonObject, as_object, format_utc
from abilities.helpers.transfer import sources
from abilities.helpers.transfer.adjustment import add_metadata
from abilities.helpers.transfer.export_lines import UnusableLine

_DERIVED_FIELDS = (
    "last_linked_at",
    "in_degree",
    "out_degree",
    "traverse_count",
    "version",
    "migrated_at",
)
"""Fields that kv-memory computes for its own use; they are counted, but not kept."""

_DEFAULT_SCORE = 0.5
"""The score by which kv-memory ranks a memory without one."""

_DEFAULT_WEIGHT = 0.5

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
"""The creation time of a memory without any time, the same in each import."""

_MAX_INTEGER_DIGITS = 18
"""Integers up to this length fit 64 bits."""

_MEMORY_COLUMNS = {"key", "summary", "text", "meta", "created_at"}
_READ_COLUMNS = {*_MEMORY_COLUMNS, "score", "links"}
_LINK_COLUMNS = {
    *("from_key", "to_key", "link_type", "weight"),
    *("created_at", "access_count", "last_accessed_at"),
}
_KEPT_LINK_COLUMNS = {"id", "from_key", "to_key", "link_type", "term", "weight"}
"""The columns of a link that are imported, and its id, which nothing refers to."""

_WAL_FLAG = 18
"""The offset of the mode in a database's header (SQLite's file format, section 1.3.3)."""

_WAL_MODE = 2

_OWN_COLUMNS = {"namespace", "key", "content", "hash"}
"""Columns of ``memories`` in a store of this package."""

_LINKS = """
SELECT l.* FROM memories AS m JOIN memory_links AS l ON l.from_key = m.key
WHERE m.rowid = ? ORDER BY l.rowid
"""
_ORPHANED_LINKS = """
SELECT count(*) FROM memory_links AS l
WHERE NOT EXISTS (SELECT 1 FROM memories AS m WHERE m.key = l.from_key)
"""
_OTHER_TABLES = """
SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'
AND name NOT IN ('memories', 'memory_links')
AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name NOT LIKE 'memories\\_fts%' ESCAPE '\\'
"""


class _Memory:
    """The values of one memory, of which each is taken once.

    ``metadata`` collects unusable values, and values that have no other place.
    """

    def __init__(self, meta: object, remarks: sources.Remarks) -> None:
        self.metadata: JsonObject = {}
        self._remarks = remarks

        text = to_text(meta)
        fields = as_object(_parse_json(text))
        if fields is None:
            self.keep("meta", text, "meta is not a JSON object; it became metadata.")
        self._meta = fields or {}

    def take_score(self, column_score: object) -> float:
        """Return the score from 0 to 1; in kv-memory it is from 0 to 100.

        kv-memory ranks by the score in ``meta``. The column has a memory's first score, which
        counts only if there is no other.
        """
        score = self._meta.pop("score", None)
        if score is None:
            score = column_score

        if score is None:
            words = "Without a score, kv-memory ranks a memory by 50; that became its score."
            self._remarks["memory", words] += 1
            return _DEFAULT_SCORE

        number = _to_number(score)
        if number is None or not 0 <= number <= 100:
            self._keep_unusable("score", score)
        if number is None:
            return _DEFAULT_SCORE

        return min(max(0, number), 100) / 100

    def take_times(self, column_time: object) -> JsonObject:
        """Return the times, which kv-memory has in milliseconds since 1970.

        When kv-memory changes a score, it renews the column ``created_at``, but not the field in
        ``meta``. So the earlier time is the creation, and the later one the last change.
        """
        values = (
            ("created_at", column_time),
            ("created_at", self._meta.pop("created_at", None)),
            ("last_accessed_at", self._meta.pop("last_accessed_at", None)),
        )
        *made, accessed_at = [self._parse_time(name, value) for name, value in values]
        known = [time for time in made if time] or [accessed_at or format_utc(_EPOCH)]
        created_at = min(known)
        return {
            "created_at": created_at,
            "updated_at": max(known),
            "accessed_at": accessed_at or created_at,
        }

    def take_access_count(self) -> int:
        value = self._meta.pop("access_count", None)
        number = _to_number(value)
        if number is not None and number == int(number) and 0 <= number <= 2**53:
            return int(number)

        if value is not None:
            self._keep_unusable("access_count", value)
        return 0

    def take_archived(self) -> bool:
        """Return whether the status says that the memory is archived or deleted."""
        status = self._meta.pop("status", None)
        if status not in (None, "active", "archived"):
            words = "A status other than active and archived became metadata."
            self.keep("status", status, words)

        return status in ("archived", "deleted")

    def take_others(self, key: str) -> None:
        """Count derived fields, and put all others into the metadata."""
        if self._meta.get("id") == key:
            del self._meta["id"]

        for name in _DERIVED_FIELDS:
            if self._meta.pop(name, None) is not None:
                self._remarks["memory", f"meta.{name} is not kept."] += 1

        for name, value in self._meta.items():
            add_metadata(self.metadata, name, value)
        if self._meta:
            self._remarks["memory", "Further fields of meta became metadata."] += 1

    def parse_links(self, value: object) -> list[sources.ForeignLink]:
        """Return the links of a JSON column; links without a key go into the metadata."""
        items = _parse_json(to_text(value))
        if not isinstance(items, list):
            self._keep_unusable("links", value)
            return []

        links: list[sources.ForeignLink] = []
        others: list[object] = []
        for item in cast(list[object], items):
            fields = as_object(item) or {}
            key = fields.get("key")
            if isinstance(key, str) and key:
                values = (fields.get(name) for name in ("type", "weight", "term"))
                links.append(self.build_link(key, *values))
            else:
                others.append(item)

        if others:
            self.keep("links", others, "Links that lead to no key became metadata.")

        return links

    def build_link(
        self, key: object, type_: object, weight: object, term: object
    ) -> sources.ForeignLink:
        """Return a link; its weight, which is also from 0 to 1, may be missing or no number."""
        target = to_text(key)
        number = _DEFAULT_WEIGHT if weight is None else _to_number(weight)
        if number is None:
            self._keep_unusable("link_weights", {target: _to_json_value(weight)})
            number = _DEFAULT_WEIGHT

        return sources.ForeignLink(target, to_text(type_), number, to_text(term))

    def _parse_time(self, name: str, value: object) -> str | None:
        """Return milliseconds since 1970 as RFC 3339 UTC; None if there are none."""
        if value is None:
            return None

        number = _to_number(value)
        if number is not None:
            with suppress(OverflowError):
                return format_utc(_EPOCH + timedelta(milliseconds=int(number)))

        self._keep_unusable(name, value)
        return None

    def _keep_unusable(self, name: str, value: object) -> None:
        self.keep(name, value, f"{name} cannot be used as it is; it became metadata.")

    def keep(self, name: str, value: object, words: str) -> None:
        """Put a value into the metadata, and count it."""
        add_metadata(self.metadata, name, _to_json_value(value))
        self._remarks["memory", words] += 1


def to_text(value: object) -> str:
    """Return a value of a column or of JSON as text; bytes that are not UTF-8 become surrogates."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")

    return str(value)


def _parse_json(text: str) -> object:
    """Return the value of a JSON text, or None; numbers that our JSON cannot carry become text."""

    def parse_integer(digits: str) -> int | str:
        return int(digits) if len(digits) <= _MAX_INTEGER_DIGITS else digits

    try:
        return json.loads(text, parse_constant=str, parse_int=parse_integer)
    except (ValueError, RecursionError):
        return None


def _to_json_value(value: object) -> object:
    """Return a value of a column or of JSON in a form that JSON can carry."""
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


class KvMemoryFile:
    """A kv-memory database, open for reading."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._columns, self._link_columns = _recognize(connection)
        self._remarks = sources.Remarks()

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Generator["KvMemoryFile"]:
        """Open a database for the block. Raises UnusableLine if it is not kv-memory's."""
        with ExitStack() as opened:
            with _explain_errors():
                connection = sqlite3.connect(_build_uri(path), uri=True, isolation_level=None)
                opened.enter_context(closing(connection))
                connection.execute("BEGIN")  # one snapshot, even if the database is in use
                database = cls(connection)

            # A text that is not UTF-8 must not end the import; the adjustment reports it.
            connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
            connection.row_factory = sqlite3.Row
            yield database

    def count_memories(self) -> int:
        """Return the number of memories. Raises UnusableLine if the database is damaged."""
        with _explain_errors():
            return self._count("SELECT count(*) FROM memories")

    async def read_memories(self) -> sources.Source:
        """Yield each memory with its links, then the remarks on everything that is not kept.

        Raises UnusableLine if the database is damaged.
        """
        number = 0
        with _explain_errors():
            for row in self._connection.execute("SELECT rowid AS rowid, * FROM memories"):
                number += 1
                yield sources.SourceItem(f"memory {number}", number, self._convert_row(dict(row)))

            for name in sorted({*self._link_columns} - _KEPT_LINK_COLUMNS):
                count = self._count(f"SELECT count({_quote(name)}) FROM memory_links")  # noqa: S608 - quoted
                self._remarks["link", f"{name} is not kept."] += count

            words = "Links from a memory that does not exist are not imported."
            self._remarks["link", words] += self._count(_ORPHANED_LINKS)

            for (name,) in self._connection.execute(_OTHER_TABLES).fetchall():
                count = self._count(f"SELECT count(*) FROM {_quote(name)}")  # noqa: S608 - quoted
                self._remarks["row", f"The table {name} is not imported."] += count

        for item in sources.list_remarks(self._remarks, number):
            yield item

    def _convert_row(self, row: JsonObject) -> sources.ForeignMemory:
        key = to_text(row["key"])
        memory = _Memory(row["meta"], self._remarks)
        score = memory.take_score(row.get("score"))
        times = memory.take_times(row["created_at"])
        access_count = memory.take_access_count()
        archived = memory.take_archived()
        memory.take_others(key)
        links = self._read_links(row, memory)

        for name in self._columns:
            if name not in _READ_COLUMNS and row[name] is not None:
                memory.keep(name, row[name], f"The column {name} became metadata.")

        return sources.ForeignMemory(
            key,
            to_text(row["text"]),
            score=score,
            summary=to_text(row["summary"]),
            links=links,
            metadata=memory.metadata,
            archived=archived,
            access_count=access_count,
            **times,
        )

    def _read_links(self, row: JsonObject, memory: _Memory) -> list[sources.ForeignLink]:
        json_links: list[sources.ForeignLink] = []
        if "links" in row:
            json_links = memory.parse_links(row["links"])
        if "term" not in self._link_columns:
            return json_links

        # Until version 1.2, the terms were in the JSON links, and were not moved later.
        older = {(link.name, link.type): link for link in json_links}
        links: list[sources.ForeignLink] = []
        for columns in self._connection.execute(_LINKS, (row["rowid"],)):
            values = (columns[name] for name in ("to_key", "link_type", "weight", "term"))
            link = memory.build_link(*values)
            same = older.pop((link.name, link.type), link)
            links.append(link._replace(term=link.term or same.term))

        others: list[JsonObject] = [
            {"key": link.name, "type": link.type, "term": link.term, "weight": link.weight}
            for link in older.values()
        ]
        if others:
            memory.keep("links", others, "Links in the column links alone became metadata.")

        return links

    def _count(self, statement: str) -> int:
        (count,) = self._connection.execute(statement).fetchone()
        return int(count)


@contextmanager
def _explain_errors() -> Generator[None]:
    try:
        yield
    except sqlite3.Error:
        raise UnusableLine(
            "The database cannot be read: it is damaged, or another program has it locked. Close "
            "that program, or take a copy from a backup."
        ) from None


def _build_uri(path: Path) -> str:
    """Return a URI that opens a database for reading, without making files beside it."""
    uri = f"{path.absolute().as_uri()}?mode=ro"

    # SQLite needs two files beside a database in WAL mode. If they are missing, no process has it
    # open, and it can be read as a file that does not change.
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
            "The file is a store of this package. To copy its memories: abilities export FILE "
            "--store-url sqlite:///STORE, then import FILE. To use it as it is: abilities restore"
        )

    has_memories = _MEMORY_COLUMNS.issubset(columns) and "namespace" not in columns
    has_links = _LINK_COLUMNS.issubset(link_columns)
    has_terms = "term" in link_columns or "links" in columns

    if not (has_memories and has_links and has_terms):
        raise UnusableLine(
            "The database is not kv-memory's: its tables memories and memory_links are missing "
            "or have other columns. Convert its contents to lines, as docs/moving.md shows."
        )

    return columns, link_columns


def _list_columns(connection: sqlite3.Connection, table: str) -> list[str]:
    rows = connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
    return [name for (name,) in rows]


def _quote(name: str) -> str:
    """Return the name of a table or column, quoted for SQL."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


LINK_WEIGHT = 0.5
"""The weight of every link, because relations have no weights."""

_ENTITY_FIELDS = ("type", "name", "entityType", "observations")
_RELATION_FIELDS = frozenset({"type", "from", "to", "relationType"})

# The relations and entity names of a file, on disk to keep memory bounded. The disk's file is
# useless after a crash, so it needs no journal and no syncing.
_SCRATCH_SCHEMA = """
PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN;
CREATE TABLE relations (source TEXT, target TEXT, type TEXT);
CREATE TABLE entities (name TEXT PRIMARY KEY, hash BLOB) WITHOUT ROWID;
"""
_GHOSTS = "SELECT DISTINCT source FROM relations WHERE source NOT IN (SELECT name FROM entities)"


async def read_knowledge_graph(path: Path) -> sources.Source:
    """Read the MCP memory server's entities, each with its relations as links.

    The file is read twice, first for relations, because they may come before or after their entity.
    Positions count the bytes of both passes. A name that has relations but no entity also becomes a
    memory, at the end.
    """
    remarks = sources.Remarks()
    end = 0

    with closing(sqlite3.connect("", isolation_level=None)) as scratch:
        scratch.executescript(_SCRATCH_SCHEMA)
        async for line in sources.read_lines(path):
            end = line.end
            with suppress(UnusableLine):  # the second pass reports it
                fields = sources.parse_object(line)
                relation = _parse_relation(fields)
                if relation is not None:
                    scratch.execute("INSERT INTO relations VALUES (?, ?, ?)", relation)
                    if not fields.keys() <= _RELATION_FIELDS:
                        words = "Fields other than from, to and relationType are not kept."
                        remarks["relation", words] += 1

            yield sources.SourceItem(f"line {line.number}", end)

        scratch.execute("CREATE INDEX by_source ON relations (source)")
        read = end

        async for line in sources.read_lines(path):
            place, end = f"line {line.number}", read + line.end
            try:
                yield sources.SourceItem(place, end, _read_entity(scratch, line))
            except UnusableLine as error:
                yield sources.SourceItem(place, end, error)

        for (name,) in scratch.execute(_GHOSTS):
            foreign = sources.ForeignMemory(name, name, links=_find_links(scratch, name))
            note = "It has relations but is no entity; its name became the content."
            yield sources.SourceItem(f"entity {name!r}", end, foreign, [note])

    for item in sources.list_remarks(remarks, end):
        yield item


def _read_entity(scratch: sqlite3.Connection, line: sources.Line) -> sources.ForeignMemory | None:
    """Return the entity on a line; None for a relation or a repeated line. Raises UnusableLine."""
    fields = sources.parse_object(line)
    if _parse_relation(fields) is not None:
        return None
    if fields.get("type") != "entity":
        raise UnusableLine("The line is neither an entity nor a relation.")

    name = _get_text(fields, "name")
    observations: object = fields.get("observations") or []
    if not isinstance(observations, list):
        raise UnusableLine("The field observations is not a list.")

    texts: list[str] = []
    for value in cast(list[object], observations):
        if not isinstance(value, str):
            raise UnusableLine("The field observations has an item that is not a text.")
        texts.append(value)

    foreign = sources.ForeignMemory(
        name,
        "\n".join(texts),
        category=str(fields.get("entityType") or ""),
        links=_find_links(scratch, name),
        metadata={field: fields[field] for field in fields if field not in _ENTITY_FIELDS},
    )

    digest = blake2b(sources.get_text(line), digest_size=16).digest()
    earlier = scratch.execute("SELECT hash FROM entities WHERE name = ?", (name,)).fetchone()
    if earlier is None:
        scratch.execute("INSERT INTO entities VALUES (?, ?)", (name, digest))
        return foreign
    if earlier != (digest,):
        raise UnusableLine("An earlier line has the same name; that one counts.")

    return None


def _find_links(scratch: sqlite3.Connection, name: str) -> list[sources.ForeignLink]:
    rows = scratch.execute("SELECT target, type FROM relations WHERE source = ?", (name,))
    return [sources.ForeignLink(target, link_type, LINK_WEIGHT) for target, link_type in rows]


def _parse_relation(fields: JsonObject) -> list[str] | None:
    if fields.get("type") != "relation":
        return None

    return [_get_text(fields, name) for name in ("from", "to", "relationType")]


def _get_text(fields: JsonObject, field: str) -> str:
    value = fields.get(field)
    if not isinstance(value, str) or not value:
        raise UnusableLine(f"The field {field} is missing, or is not a text.")

    return value
