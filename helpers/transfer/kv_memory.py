"""Import from a kv-memory database: memories by key and links; scores and weights are 0 to 100."""

import json
import math
import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import cast

from abilities.declarations.memory import Importance, Type
from abilities.declarations.values import JsonObject, as_object
from abilities.helpers.stores.model import IMPORTANCES, TYPES
from abilities.helpers.transfer.adjustment import add_metadata, adjust
from abilities.helpers.transfer.export_lines import UnusableLine
from abilities.helpers.transfer.foreign import ForeignLink, ForeignMemory
from abilities.helpers.transfer.sources import Source, SourceItem

_COLUMNS = {
    "name": ("key", "memory_key", "name", "id"),
    "content": ("content", "text", "value", "memory"),
    "type": ("type", "memory_type", "kind"),
    "category": ("category", "domain"),
    "summary": ("summary", "description"),
    "tags": ("tags", "keywords"),
    "importance": ("importance",),
    "score": ("memory_score", "score"),
    "metadata": ("metadata", "meta"),
    "archived": ("archived", "is_archived"),
    "created_at": ("created_at", "created"),
}
_LINK_COLUMNS = {
    "source": (
        "source_key",
        "from_key",
        "source",
        "from_memory",
        "source_id",
        "from_id",
        "memory_key",
        "key",
    ),
    "target": ("target_key", "to_key", "target", "to_memory", "target_id", "to_id", "linked_key"),
    "type": ("link_type", "type", "relation"),
    "weight": ("link_weight", "weight", "strength"),
}
"""Our names, and the columns of such files, the likeliest first; others go into the metadata."""

_MAX_INTEGER_DIGITS = 18
"""Integers up to this length fit 64 bits."""


@dataclass(frozen=True)
class KvMemoryFile:
    """A kv-memory database, open for reading: its tables ``memories`` and ``memory_links``.

    ``columns`` and ``link_columns`` map our names to the columns that the tables have;
    ``other_columns`` are those of ``memories`` that we have no name for.
    """

    connection: sqlite3.Connection
    columns: Mapping[str, str]
    other_columns: list[str]
    link_columns: Mapping[str, str]

    @classmethod
    def open(cls, path: Path) -> "KvMemoryFile":
        """Open a database. Raises UnusableLine if it has no such tables."""
        with ExitStack() as closing:
            connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None
            )
            closing.callback(connection.close)
            connection.row_factory = sqlite3.Row
            # One text that is not UTF-8 must not end the import of all others.
            connection.text_factory = partial(str, encoding="utf-8", errors="replace")

            try:
                database = cls._inspect(connection)
            except sqlite3.Error as error:
                raise UnusableLine(f"The database cannot be read: {error}.") from None

            closing.pop_all()  # from here on `read_memories` closes it
            return database

    @classmethod
    def _inspect(cls, connection: sqlite3.Connection) -> "KvMemoryFile":
        connection.execute("BEGIN")  # one snapshot, even if others write to the database

        names = _list_columns(connection, "memories")
        columns = _match_columns(_COLUMNS, names)
        if not {"name", "content"} <= columns.keys():
            raise UnusableLine("The database has no table 'memories' with a key and a content.")

        link_names = _list_columns(connection, "memory_links")
        link_columns = _match_columns(_LINK_COLUMNS, link_names)
        if link_names and not {"source", "target"} <= link_columns.keys():
            raise UnusableLine("The table 'memory_links' has no source and target.")

        other_columns = [name for name in names if name not in columns.values()]
        return cls(connection, columns, other_columns, link_columns)

    def __len__(self) -> int:
        (count,) = self.connection.execute("SELECT count(*) FROM memories").fetchone()
        return int(count)

    async def read_memories(self, namespace: str, now: str) -> Source:
        """Yield each memory with its links, then close the database."""
        try:
            rows = self.connection.execute("SELECT * FROM memories")
            for number, row in enumerate(rows, 1):
                memories, notes = adjust(self._convert_row(row), namespace, now)
                yield SourceItem(f"memory {number}", number, memories, notes)
        finally:
            self.connection.close()

    def _convert_row(self, row: sqlite3.Row) -> ForeignMemory:
        values: dict[str, object] = {name: row[column] for name, column in self.columns.items()}

        # Whatever we have no place for goes into the metadata, so it is taken along everywhere.
        metadata = self._build_metadata(row, values)
        memory_type = _take_choice("type", values, TYPES, metadata) or "core"
        importance = _take_choice("importance", values, IMPORTANCES, metadata) or "medium"
        score = _take_score(values, metadata)
        created_at = _take_time(values, metadata)

        return ForeignMemory(
            _to_text(values["name"]),
            _to_text(values["content"]),
            type=cast(Type, memory_type),
            importance=cast(Importance, importance),
            score=score,
            category=_to_text(values.get("category")),
            summary=_to_text(values.get("summary")),
            tags=_parse_tags(values.get("tags")),
            links=self._read_links(values["name"]),
            metadata=metadata,
            archived=bool(values.get("archived")),
            created_at=created_at,
        )

    def _build_metadata(self, row: sqlite3.Row, values: Mapping[str, object]) -> JsonObject:
        metadata = _parse_metadata(values.get("metadata"))

        for name in self.other_columns:
            if row[name] is not None:
                add_metadata(metadata, name, _to_json_value(row[name]))

        return metadata

    def _read_links(self, name: object) -> list[ForeignLink]:
        if not self.link_columns:
            return []

        source_column = self.link_columns["source"]  # one of `_LINK_COLUMNS`, so safe in SQL
        statement = f'SELECT * FROM memory_links WHERE "{source_column}" = ?'  # noqa: S608

        links: list[ForeignLink] = []
        for row in self.connection.execute(statement, (name,)):
            values = {name: row[column] for name, column in self.link_columns.items()}
            weight = _convert_weight(values.get("weight"))
            links.append(
                ForeignLink(_to_text(values["target"]), _to_text(values.get("type")), weight)
            )

        return links


def _list_columns(connection: sqlite3.Connection, table: str) -> list[str]:
    rows = connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
    return [name for (name,) in rows]


def _match_columns(known: Mapping[str, Iterable[str]], existing: list[str]) -> dict[str, str]:
    """Return the column for each of our names: the likeliest of those that exist."""
    matched: dict[str, str] = {}

    for name, candidates in known.items():
        for candidate in candidates:
            if candidate in existing:
                matched[name] = candidate
                break

    return matched


def _to_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")

    return str(value)


def _to_json_value(value: object) -> int | float | str:
    if isinstance(value, int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value

    return str(value)


def _parse_metadata(value: object) -> JsonObject:
    """Return the object that a JSON column holds; anything else goes under ``metadata``."""
    if value in (None, ""):
        return {}

    text = _to_text(value)
    try:
        metadata = as_object(json.loads(text, parse_constant=str, parse_int=_parse_integer))
    except (ValueError, RecursionError):
        metadata = None

    return {"metadata": text} if metadata is None else metadata


def _parse_integer(digits: str) -> int | str:
    """Keep an integer that does not fit 64 bits as it is written."""
    return int(digits) if len(digits) <= _MAX_INTEGER_DIGITS else digits


def _parse_tags(value: object) -> list[str]:
    """Return tags from a JSON array, or from a text separated by commas."""
    text = _to_text(value)
    try:
        tags: object = json.loads(text)
    except (ValueError, RecursionError):
        tags = None

    if not isinstance(tags, list):
        return re.split(r"\s*,\s*", text.strip())

    return [_to_text(tag) for tag in cast(list[object], tags)]


def _convert_weight(value: object) -> float:
    """Return a weight from 0 to 100 as one from 0 to 1; the default of 0.5 for anything else."""
    if isinstance(value, int | float) and math.isfinite(value):
        return value / 100

    return 0.5


def _take_choice(
    name: str, values: Mapping[str, object], choices: Sequence[str], metadata: JsonObject
) -> str | None:
    """Return a value that is one of ours; any other goes into the metadata."""
    value = values.get(name)
    if value in choices:
        return str(value)

    if value is not None:
        add_metadata(metadata, name, _to_json_value(value))
    return None


def _take_score(values: Mapping[str, object], metadata: JsonObject) -> float | None:
    """Return a score from 0 to 100 as one from 0 to 1; any other value goes into the metadata."""
    score = values.get("score")
    if score is None:
        score = metadata.pop("memory_score", None)

    if isinstance(score, int | float) and 0 <= score <= 100:
        return score / 100

    if score is not None:
        add_metadata(metadata, "score", _to_json_value(score))
    return None


def _take_time(values: Mapping[str, object], metadata: JsonObject) -> str | None:
    """Return when the memory was created; a value that is not a time goes into the metadata."""
    value = values.get("created_at")
    time = _parse_time(value)

    if time is None and value is not None:
        add_metadata(metadata, "created_at", _to_json_value(value))
    return time


def _parse_time(value: object) -> str | None:
    """Return ISO 8601 (UTC if it has no offset) or seconds since 1970 as RFC 3339 UTC."""
    try:
        if isinstance(value, int | float):
            time = datetime.fromtimestamp(value, UTC)
        elif isinstance(value, str):
            time = datetime.fromisoformat(value)
        else:
            return None

        if time.tzinfo is None:
            time = time.replace(tzinfo=UTC)
        return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return None
