"""Import from the MCP memory server: lines with entities and with relations between them."""

import sqlite3
import tempfile
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple, cast

from abilities.declarations.values import JsonObject, as_object
from abilities.helpers.transfer.adjustment import adjust
from abilities.helpers.transfer.export_lines import UnusableLine, parse_line_json
from abilities.helpers.transfer.foreign import ForeignLink, ForeignMemory
from abilities.helpers.transfer.sources import Source, SourceItem, get_text
from abilities.helpers.transfer.streams import Line, read_lines

LINK_WEIGHT = 0.5
"""The weight of every link, because relations have none."""

_ENTITY_FIELDS = ("type", "name", "entityType", "observations")

# Nobody needs this file after a crash, so it is written without a journal and without syncing.
_SCRATCH_SCHEMA = """
PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN;
CREATE TABLE relations (source TEXT, target TEXT, type TEXT);
CREATE TABLE entities (name TEXT PRIMARY KEY) WITHOUT ROWID;
"""


class _Relation(NamedTuple):
    source: str
    target: str
    type: str


class _Scratch:
    """The relations and entity names of a file, on disk, so that memory stays bounded."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        connection.executescript(_SCRATCH_SCHEMA)

    @classmethod
    @contextmanager
    def open(cls) -> Generator["_Scratch"]:
        with tempfile.TemporaryDirectory(prefix="abilities-import-") as folder:
            connection = sqlite3.connect(f"{folder}/relations.db", isolation_level=None)
            with closing(connection):
                yield cls(connection)

    def add_relation(self, relation: _Relation) -> None:
        self._connection.execute("INSERT INTO relations VALUES (?, ?, ?)", relation)

    def index_relations(self) -> None:
        """Make `find_links` fast, once all relations are there."""
        self._connection.execute("CREATE INDEX by_source ON relations (source)")

    def add_entity(self, name: str) -> None:
        self._connection.execute("INSERT OR IGNORE INTO entities VALUES (?)", (name,))

    def find_links(self, name: str) -> list[ForeignLink]:
        rows = self._connection.execute(
            "SELECT target, type FROM relations WHERE source = ?", (name,)
        )
        return [ForeignLink(target, link_type, LINK_WEIGHT) for target, link_type in rows]

    def find_sources_without_entity(self) -> Iterator[str]:
        rows = self._connection.execute(
            "SELECT DISTINCT source FROM relations WHERE source NOT IN (SELECT name FROM entities)"
        )
        for (name,) in rows:
            yield name


async def read_knowledge_graph(path: Path, namespace: str, now: str) -> Source:
    """Read the MCP memory server's entities, each with its relations as links.

    The file is read twice: relations first, because they may stand before or after their entity.
    A name that has relations but no entity becomes a memory too, at the end.
    """
    with _Scratch.open() as scratch:
        async for line in read_lines(path):
            try:
                relation = _parse_relation(_parse_object(line))
            except UnusableLine:
                continue  # reported in the second pass
            if relation is not None:
                scratch.add_relation(relation)

        scratch.index_relations()
        end = 0

        async for line in read_lines(path):
            end = line.end
            item = _read_entity(scratch, line, namespace, now)
            if item is not None:
                yield item

        for name in scratch.find_sources_without_entity():
            foreign = ForeignMemory(name, name, links=scratch.find_links(name))
            memories, notes = adjust(foreign, namespace, now)
            notes = ["It has relations but is no entity; its name became the content.", *notes]
            yield SourceItem(f"entity {name!r}", end, memories, notes)


def _read_entity(scratch: _Scratch, line: Line, namespace: str, now: str) -> SourceItem | None:
    """Return the memories of an entity's line; None for a relation, which was read before."""
    place = f"line {line.number}"

    try:
        fields = _parse_object(line)
        if _parse_relation(fields) is not None:
            return None
        foreign = _parse_entity(fields, scratch)
    except UnusableLine as error:
        return SourceItem(place, line.end, [], [], str(error))

    memories, notes = adjust(foreign, namespace, now)
    scratch.add_entity(foreign.name)
    return SourceItem(place, line.end, memories, notes)


def _parse_object(line: Line) -> JsonObject:
    fields = as_object(parse_line_json(get_text(line)))
    if fields is None:
        raise UnusableLine("The line is not a JSON object.")

    return fields


def _parse_relation(fields: JsonObject) -> _Relation | None:
    if fields.get("type") != "relation":
        return None

    return _Relation(
        _get_text(fields, "from"), _get_text(fields, "to"), _get_text(fields, "relationType")
    )


def _parse_entity(fields: JsonObject, scratch: _Scratch) -> ForeignMemory:
    if fields.get("type") != "entity":
        raise UnusableLine("The line is neither an entity nor a relation.")

    name = _get_text(fields, "name")
    other_fields = {field: fields[field] for field in fields if field not in _ENTITY_FIELDS}

    return ForeignMemory(
        name,
        "\n".join(_get_observations(fields)),
        category=str(fields.get("entityType") or ""),
        links=scratch.find_links(name),
        metadata=other_fields,
    )


def _get_text(fields: JsonObject, field: str) -> str:
    value = fields.get(field)
    if not isinstance(value, str) or not value:
        raise UnusableLine(f"The field {field} is missing, or is not a text.")

    return value


def _get_observations(fields: JsonObject) -> list[str]:
    values: object = fields.get("observations") or []
    if not isinstance(values, list):
        raise UnusableLine("The field observations is not a list.")

    texts: list[str] = []
    for value in cast(list[object], values):
        if not isinstance(value, str):
            raise UnusableLine("The field observations holds something that is not a text.")
        texts.append(value)

    return texts
