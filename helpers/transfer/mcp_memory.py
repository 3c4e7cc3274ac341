"""Import from the MCP memory server: a file of lines, entities with observations and relations between them."""

import sqlite3
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

from abilities.declarations.values import as_object, parse_json
from abilities.helpers.transfer.adjustment import ForeignMemory, adjust
from abilities.helpers.transfer.export_lines import UnusableLine
from abilities.helpers.transfer.sources import Source, SourceItem
from abilities.helpers.transfer.streams import Line, read_lines


async def read_knowledge_graph(path: Path, namespace: str, now: str) -> Source:
    """The MCP memory server's entities and relations. Relations are gathered first, on disk, not in memory."""
    with ExitStack() as closing:
        folder = closing.enter_context(tempfile.TemporaryDirectory(prefix="abilities-import-"))
        scratch = sqlite3.connect(f"{folder}/relations.db", isolation_level=None)
        closing.callback(scratch.close)
        scratch.executescript(_SCRATCH)
        async for line in read_lines(path):
            _gather(scratch, line)
        scratch.execute("CREATE INDEX by_source ON relations (source)")
        async for line in read_lines(path):
            if (brought := _entity(scratch, line, namespace, now)) is not None:
                yield brought
        for name in scratch.execute(
            "SELECT DISTINCT source FROM relations WHERE source NOT IN (SELECT name FROM names)"
        ):
            memory = ForeignMemory(name[0], name[0], links=_relations(scratch, name[0]))
            found = adjust(memory, namespace, now)
            notes = ["it has relations but is no entity; its name is its content", *found.notes]
            yield SourceItem(f"entity {name[0]!r}", 0, found.memories, notes)


_SCRATCH = """
PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN;
CREATE TABLE relations (source TEXT, target TEXT, type TEXT);
CREATE TABLE names (name TEXT PRIMARY KEY) WITHOUT ROWID;
"""


def _told(line: Line) -> dict[str, Any]:
    """The object on a line. Raises Unusable."""
    if line.text is None:
        raise UnusableLine("the line is too long")
    try:
        told = as_object(parse_json(line.text))
    except ValueError as error:
        raise UnusableLine(f"not JSON: {error}") from None
    if told is None:
        raise UnusableLine("not a JSON object")
    return told


def _gather(scratch: sqlite3.Connection, line: Line) -> None:
    try:
        told = _told(line)
        if told.get("type") == "relation":
            names = [_name(told, name) for name in ("from", "to", "relationType")]
            scratch.execute("INSERT INTO relations VALUES (?, ?, ?)", names)
    except UnusableLine:
        return  # said when the line is met again


def _entity(scratch: sqlite3.Connection, line: Line, namespace: str, now: str) -> SourceItem | None:
    place = f"line {line.number}"
    try:
        told = _told(line)
        if told.get("type") == "relation":
            for name in ("from", "to", "relationType"):
                _name(told, name)
            return None
        if told.get("type") != "entity":
            raise UnusableLine("neither an entity nor a relation")
        name = _name(told, "name")
        memory = ForeignMemory(
            name,
            "\n".join(_observations(told)),
            category=str(told.get("entityType") or ""),
            links=_relations(scratch, name),
            metadata={
                n: v
                for n, v in told.items()
                if n not in ("type", "name", "entityType", "observations")
            },
        )
        found = adjust(memory, namespace, now)
        scratch.execute("INSERT OR IGNORE INTO names VALUES (?)", (name,))
        return SourceItem(place, line.end, found.memories, found.notes)
    except UnusableLine as error:
        return SourceItem(place, line.end, [], [], str(error))


def _name(told: dict[str, Any], field: str) -> str:
    value = told.get(field)
    if not isinstance(value, str) or not value:
        raise UnusableLine(f"{field} is missing")
    return value


def _observations(told: dict[str, Any]) -> list[str]:
    found: object = told.get("observations") or []
    texts = (
        [text for text in cast(list[object], found) if isinstance(text, str)]
        if isinstance(found, list)
        else None
    )
    if texts is None or len(texts) != len(cast(list[object], found)):
        raise UnusableLine("observations is not a list of texts")
    return texts


def _relations(scratch: sqlite3.Connection, name: str) -> list[tuple[str, str, float]]:
    found = scratch.execute("SELECT target, type FROM relations WHERE source = ?", (name,))
    return [(target, kind, 0.5) for target, kind in found]
