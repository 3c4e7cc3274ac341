"""Import from the MCP memory server: lines with entities and with relations between them."""

import sqlite3
import tempfile
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Literal, NamedTuple, cast

from abilities.declarations.values import JsonObject
from abilities.helpers.transfer.adjustment import adjust_item
from abilities.helpers.transfer.export_lines import UnusableLine
from abilities.helpers.transfer.sources import (
    RELATIONS,
    ForeignLink,
    ForeignMemory,
    Line,
    RemarkCounter,
    Source,
    SourceItem,
    get_text,
    parse_object,
    read_lines,
)

LINK_WEIGHT = 0.5
"""The weight of every link, because relations have no weights."""

_ENTITY_FIELDS = ("type", "name", "entityType", "observations")
_RELATION_FIELDS = frozenset({"type", "from", "to", "relationType"})

# The file is useless after a crash, so it needs no journal and no syncing.
_SCRATCH_SCHEMA = """
PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN;
CREATE TABLE relations (source TEXT, target TEXT, type TEXT);
CREATE TABLE entities (name TEXT PRIMARY KEY, hash BLOB) WITHOUT ROWID;
"""

Occurrence = Literal["new", "repeated", "contradictory"]
"""Whether an entity's name is new, or is on an earlier line with the same or with other values."""


class _Relation(NamedTuple):
    source: str
    target: str
    type: str


class _Scratch:
    """The relations and entity names of a file, on disk to keep memory bounded."""

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
        """Make `find_links` fast, after all relations were added."""
        self._connection.execute("CREATE INDEX by_source ON relations (source)")

    def add_entity(self, name: str, line: bytes) -> Occurrence:
        """Add an entity, and return how it compares with an earlier one of the same name."""
        digest = blake2b(line, digest_size=16).digest()
        earlier = self._connection.execute(
            "SELECT hash FROM entities WHERE name = ?", (name,)
        ).fetchone()

        if earlier is None:
            self._connection.execute("INSERT INTO entities VALUES (?, ?)", (name, digest))
            return "new"

        (earlier_digest,) = earlier
        if earlier_digest == digest:
            return "repeated"

        return "contradictory"

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

    The file is read twice, first for relations, because they may come before or after their entity.
    Positions count the bytes of both passes. A name that has relations but no entity also becomes a
    memory, at the end.
    """
    remarks = RemarkCounter()
    end = 0

    with _Scratch.open() as scratch:
        async for line in read_lines(path):
            end = line.end
            with suppress(UnusableLine):  # the second pass reports it
                fields = parse_object(line)
                relation = _parse_relation(fields)
                if relation is not None:
                    scratch.add_relation(relation)
                    if not fields.keys() <= _RELATION_FIELDS:
                        words = "Fields other than from, to and relationType are not kept."
                        remarks.add(RELATIONS, words)

            yield SourceItem(f"line {line.number}", end, [], [])

        scratch.index_relations()
        read = end

        async for line in read_lines(path):
            end = read + line.end
            yield _read_entity(scratch, line, end, namespace, now)

        for name in scratch.find_sources_without_entity():
            foreign = ForeignMemory(name, name, links=scratch.find_links(name))
            item = adjust_item(f"entity {name!r}", end, foreign, namespace, now)
            note = "It has relations but is no entity; its name became the content."
            yield item._replace(notes=[note, *item.notes])

    for item in remarks.list_items(end):
        yield item


def _read_entity(
    scratch: _Scratch, line: Line, position: int, namespace: str, now: str
) -> SourceItem:
    """Return the item for an entity's line; it is empty for a relation or a repeated line."""
    place = f"line {line.number}"

    try:
        fields = parse_object(line)
        if _parse_relation(fields) is not None:
            return SourceItem(place, position, [], [])
        if fields.get("type") != "entity":
            raise UnusableLine("The line is neither an entity nor a relation.")

        name = _get_text(fields, "name")
        foreign = ForeignMemory(
            name,
            "\n".join(_get_observations(fields)),
            category=str(fields.get("entityType") or ""),
            links=scratch.find_links(name),
            metadata={field: fields[field] for field in fields if field not in _ENTITY_FIELDS},
        )

        occurrence = scratch.add_entity(name, get_text(line))
        if occurrence == "repeated":
            return SourceItem(place, position, [], [])
        if occurrence == "contradictory":
            raise UnusableLine("An earlier line has the same name; that one counts.")
    except UnusableLine as error:
        return SourceItem(place, position, [], [], str(error))

    return adjust_item(place, position, foreign, namespace, now)


def _get_observations(fields: JsonObject) -> list[str]:
    values: object = fields.get("observations") or []
    if not isinstance(values, list):
        raise UnusableLine("The field observations is not a list.")

    texts: list[str] = []
    for value in cast(list[object], values):
        if not isinstance(value, str):
            raise UnusableLine("The field observations has an item that is not a text.")
        texts.append(value)

    return texts


def _parse_relation(fields: JsonObject) -> _Relation | None:
    if fields.get("type") != "relation":
        return None

    return _Relation(
        _get_text(fields, "from"), _get_text(fields, "to"), _get_text(fields, "relationType")
    )


def _get_text(fields: JsonObject, field: str) -> str:
    value = fields.get(field)
    if not isinstance(value, str) or not value:
        raise UnusableLine(f"The field {field} is missing, or is not a text.")

    return value
