"""Import from the MCP memory server: lines with entities and with relations between them."""

import sqlite3
from contextlib import closing, suppress
from hashlib import blake2b
from pathlib import Path
from typing import cast

from abilities.declarations.values import JsonObject
from abilities.helpers.transfer import sources
from abilities.helpers.transfer.export_lines import UnusableLine

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
    foreign = sources.ForeignMemory(
        name,
        "\n".join(_get_observations(fields)),
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


def _parse_relation(fields: JsonObject) -> list[str] | None:
    if fields.get("type") != "relation":
        return None

    return [_get_text(fields, name) for name in ("from", "to", "relationType")]


def _get_text(fields: JsonObject, field: str) -> str:
    value = fields.get(field)
    if not isinstance(value, str) or not value:
        raise UnusableLine(f"The field {field} is missing, or is not a text.")

    return value
