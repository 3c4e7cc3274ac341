"""Import from a kv-memory database: memories by key, links between them, scores and weights from 0 to 100."""

import json
import math
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, cast

from abilities.helpers.stores.model import IMPORTANCES, TYPES
from abilities.helpers.transfer.adjustment import ForeignMemory, adjust
from abilities.helpers.transfer.export_lines import UnusableLine
from abilities.helpers.transfer.sources import Source, SourceItem

_COLUMNS: dict[str, tuple[str, ...]] = {
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
_LINK_COLUMNS: dict[str, tuple[str, ...]] = {
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
"""Names that columns of such files go by, the likeliest first. Other columns are kept in the metadata."""


@dataclass
class KvMemoryFile:
    """A kv-memory database, opened for reading alone: tables ``memories`` and ``memory_links``."""

    connection: sqlite3.Connection
    columns: dict[str, str]
    others: list[str]
    links: dict[str, str]

    @classmethod
    def open(cls, path: Path) -> "KvMemoryFile":
        """Raises Unusable for a database that holds no such tables."""
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None
        )
        connection.text_factory = partial(str, encoding="utf-8", errors="replace")
        try:
            connection.execute("BEGIN")
            there = _columns_of(connection, "memories")
            columns = _named(_COLUMNS, there)
            if not {"name", "content"} <= columns.keys():
                raise UnusableLine("the database has no table 'memories' with a key and a content")
            on_links = _columns_of(connection, "memory_links")
            links = {
                ours: name
                for ours, names in _LINK_COLUMNS.items()
                for name in reversed(names)
                if name in on_links
            }
            if on_links and not {"source", "target"} <= links.keys():
                raise UnusableLine("the table 'memory_links' has no source and target")
        except BaseException as error:
            connection.close()
            if isinstance(error, sqlite3.Error):
                raise UnusableLine(f"the database cannot be read: {error}") from None
            raise
        return cls(
            connection, columns, [name for name in there if name not in columns.values()], links
        )

    def __len__(self) -> int:
        return int(self.connection.execute("SELECT count(*) FROM memories").fetchone()[0])

    async def memories(self, namespace: str, now: str) -> Source:
        """Each memory with its links."""
        self.connection.row_factory = sqlite3.Row
        try:
            for number, row in enumerate(self.connection.execute("SELECT * FROM memories"), 1):
                found = adjust(self._memory(row), namespace, now)
                yield SourceItem(f"memory {number}", number, found.memories, found.notes)
        finally:
            self.connection.close()

    def _memory(self, row: sqlite3.Row) -> ForeignMemory:
        told = {ours: row[name] for ours, name in self.columns.items()}
        metadata = _metadata(told.get("metadata"))
        metadata |= {name: _plain(row[name]) for name in self.others if row[name] is not None}
        score = _score(
            metadata.pop("memory_score", None) if told.get("score") is None else told["score"],
            metadata,
        )
        memory = ForeignMemory(
            _text(told["name"]),
            _text(told["content"]),
            category=_text(told.get("category")),
            summary=_text(told.get("summary")),
            tags=_tags(told.get("tags")),
            score=score,
            links=list(self._links_of(told["name"])),
            metadata=metadata,
            archived=bool(told.get("archived")),
            created_at=_time(told.get("created_at"), metadata),
        )
        kind, importance = told.get("type"), told.get("importance")
        if kind in TYPES:
            memory = replace(memory, type=kind)
        elif kind is not None:
            metadata["type"] = _plain(kind)
        if importance in IMPORTANCES:
            memory = replace(memory, importance=importance)
        elif importance is not None:
            metadata["importance"] = _plain(importance)
        return memory

    def _links_of(self, name: Any) -> Iterator[tuple[str, str, float]]:
        if not self.links:
            return
        where = f'SELECT * FROM memory_links WHERE "{self.links["source"]}" = ?'  # noqa: S608  # a name of ours
        for row in self.connection.execute(where, (name,)):
            kind = row[self.links["type"]] if "type" in self.links else None
            weight = row[self.links["weight"]] if "weight" in self.links else None
            share = (
                weight / 100 if isinstance(weight, int | float) and math.isfinite(weight) else 0.5
            )
            yield _text(row[self.links["target"]]), _text(kind), share


def _named(known: dict[str, tuple[str, ...]], there: list[str]) -> dict[str, str]:
    """Our names for the columns that are there, by the likeliest of each."""
    return {
        ours: name for ours, names in known.items() for name in reversed(names) if name in there
    }


def _columns_of(connection: sqlite3.Connection, table: str) -> list[str]:
    return [
        name for (name,) in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
    ]


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "" if value is None else str(value)


def _plain(value: Any) -> Any:
    return (
        value
        if isinstance(value, int | str) or (isinstance(value, float) and math.isfinite(value))
        else str(value)
    )


def _metadata(value: Any) -> dict[str, Any]:
    """What a JSON column holds; anything else is kept as it is."""
    if value in (None, ""):
        return {}
    try:
        # Numbers that do not fit 64 bits, and those that are none, are kept as they are written.
        told = json.loads(
            _text(value), parse_constant=str, parse_int=lambda n: int(n) if len(n) < 19 else n
        )
    except (ValueError, RecursionError):
        told = None
    return cast(dict[str, Any], told) if isinstance(told, dict) else {"metadata": _text(value)}


def _score(value: Any, metadata: dict[str, Any]) -> float | None:
    """A score of 0 to 100 as one of 0 to 1; what is none is kept in the metadata."""
    if isinstance(value, int | float) and 0 <= value <= 100:
        return value / 100
    if value is not None:
        metadata["score"] = _plain(value)
    return None


def _tags(value: Any) -> list[str]:
    """Tags as a JSON array, or separated by commas."""
    text = _text(value)
    try:
        told: Any = json.loads(text)
    except ValueError:
        told = None
    tags = cast(
        list[object], told if isinstance(told, list) else re.split(r"\s*,\s*", text.strip())
    )
    return [_text(tag) for tag in tags]


def _time(value: Any, metadata: dict[str, Any]) -> str | None:
    """A time as RFC 3339 UTC; one that cannot be understood is kept in the metadata."""
    try:
        found = (
            datetime.fromtimestamp(value, UTC)
            if isinstance(value, int | float)
            else datetime.fromisoformat(value)
        )
        found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
        return found.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, TypeError, OverflowError, OSError):
        if value is not None:
            metadata["created_at"] = _plain(value)
        return None
