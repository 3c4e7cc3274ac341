"""To version 2: versions of memories, terms of links, ranks at both ends, and counters of links.

The old memories and links are copied into new tables, because their hashes cover new columns and
only Python computes hashes. What was damaged keeps its old hash, so that it stays damaged.
"""

from collections.abc import Sequence
from importlib.resources import files
from typing import Any, NamedTuple

from abilities.helpers.stores.migration import Block, Position
from abilities.helpers.stores.model import LinkRecord, LinkRow, Row, hash_values, is_fraction
from abilities.helpers.stores.postgres.migrations.stages import (
    PostgresMigration,
    PostgresStage,
    make_single_block,
)
from abilities.helpers.stores.postgres.statements import Connection, Select, Statement

MEMORIES = 1_000
"""Memories per block; each may take 30 KB."""
LINKS = 5_000
"""Links per block."""

_OLD_COLUMNS = Row._fields[: Row._fields.index("version")]
_NEW_COLUMNS = (*_OLD_COLUMNS, "version", "hash")
_COLUMNS = ("namespace", *LinkRecord._fields)


class _OldMemory(NamedTuple):
    values: tuple[Any, ...]
    hash: int

    @classmethod
    def parse(cls, columns: Sequence[Any]) -> "_OldMemory":
        """Make a record of the columns of ``_SELECT_MEMORIES``."""
        *values, stored_hash = columns
        return cls(tuple(values), stored_hash)

    @property
    def namespace(self) -> str:
        """The namespace of the memory."""
        namespace, *_ = self.values
        return str(namespace)

    def renew(self, version: int) -> tuple[Any, ...]:
        """Return the columns of the new row."""
        row = (*self.values, version)
        new_hash = self.hash
        if _is_unchanged(self.values, self.hash):
            new_hash = hash_values(row)

        return (*row, new_hash)


class _OldLink(NamedTuple):
    """A link of version 1, whose rank is a float, and the scores of the present memories."""

    namespace: str
    source: str
    target: str
    type: str
    weight: float
    rank: float
    hash: int
    target_score: float | None
    source_score: float | None

    def renew(self) -> LinkRecord:
        """Return the new link."""
        link = LinkRow(self.source, self.target, self.type, self.weight)
        old_values = (self.source, self.target, self.type, self.weight, self.rank)

        if is_fraction(self.weight) and _is_unchanged(old_values, self.hash):
            return LinkRecord.build(link, self.target_score, self.source_score)

        return LinkRecord(*link, rank=-1, back_rank=-1, hash=self.hash)


class _LastVersion(NamedTuple):
    namespace: str
    number: int


_SELECT_MEMORIES = Select(
    f"""
    SELECT {", ".join(_OLD_COLUMNS)}, hash FROM abilities_1.memories
    WHERE (namespace, key) > (%s, %s) ORDER BY namespace, key LIMIT %s
    """,
    _OldMemory.parse,
)
_LAST_VERSIONS = Select(
    "SELECT namespace, number FROM versions WHERE namespace = ANY(%s)", _LastVersion._make
)
_SAVE_VERSION = Statement("""
    INSERT INTO versions VALUES (%s, %s)
    ON CONFLICT (namespace) DO UPDATE SET number = EXCLUDED.number
""")
_PRESENT_SCORE = """
SELECT m.score FROM memories AS m WHERE m.namespace = l.namespace AND m.archived = 0
AND m.score BETWEEN 0 AND 1
"""
_SELECT_LINKS = Select(
    f"""
    SELECT l.*, ({_PRESENT_SCORE} AND m.key = l.target), ({_PRESENT_SCORE} AND m.key = l.source)
    FROM (
        SELECT namespace, source, target, type, weight, rank, hash FROM abilities_1.links
        WHERE (namespace, source, target, type) > (%s, %s, %s, %s)
        ORDER BY namespace, source, target, type LIMIT %s
    ) AS l
    """,
    _OldLink._make,
)
_COPY_MEMORIES = f"COPY memories ({', '.join(_NEW_COLUMNS)}) FROM STDIN"
_COPY_LINKS = f"COPY links ({', '.join(_COLUMNS)}) FROM STDIN"
_FIRST_MEMORY = ["", ""]
_FIRST_LINK = ["", "", "", ""]


async def _copy_memories(connection: Connection, position: Position) -> Block:
    """Copy a block of memories; they get versions in the order of their keys."""
    memories = await _SELECT_MEMORIES.fetch(connection, *(position or _FIRST_MEMORY), MEMORIES)
    if not memories:
        return Block(0, None)

    namespaces = sorted({memory.namespace for memory in memories})
    known_versions = await _LAST_VERSIONS.fetch(connection, namespaces)
    last_versions = dict(known_versions)

    rows: list[tuple[Any, ...]] = []
    for memory in memories:
        version = last_versions.get(memory.namespace, 0) + 1
        last_versions[memory.namespace] = version
        rows.append(memory.renew(version))

    await _copy(connection, _COPY_MEMORIES, rows)
    for last_version in last_versions.items():
        await _SAVE_VERSION.execute(connection, *last_version)

    namespace, key, *_ = rows[-1]
    return Block(len(rows), [namespace, key])


async def _copy_links(connection: Connection, position: Position) -> Block:
    """Copy a block of links, with their new ranks."""
    links = await _SELECT_LINKS.fetch(connection, *(position or _FIRST_LINK), LINKS)
    if not links:
        return Block(0, None)

    rows: list[tuple[Any, ...]] = []
    for link in links:
        rows.append((link.namespace, *link.renew()))

    await _copy(connection, _COPY_LINKS, rows)
    *_, last = links
    return Block(len(rows), [last.namespace, last.source, last.target, last.type])


async def _copy(connection: Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
    async with connection.cursor().copy(statement.encode()) as copy:
        for row in rows:
            await copy.write_row(row)


def _is_unchanged(values: Sequence[object], stored_hash: int) -> bool:
    try:
        return hash_values(values) == stored_hash
    except TypeError:  # damage can turn a text into one that is no valid Unicode
        return False


def _load_script(name: str) -> str:
    script = files("abilities.helpers.stores.postgres.migrations").joinpath(name)
    return script.read_text(encoding="utf-8")


MIGRATION = PostgresMigration(
    _load_script("to_2_begin.sql"),
    (
        PostgresStage("memories", _copy_memories, "SELECT count(*) FROM abilities_1.memories"),
        make_single_block(
            "the index of ids",
            "ALTER TABLE memories ADD UNIQUE (namespace, id)",
            "ANALYZE memories",
        ),
        PostgresStage("links", _copy_links, "SELECT count(*) FROM abilities_1.links"),
        make_single_block(
            "the index of links",
            """
            CREATE INDEX links_best
            ON links (namespace, source, rank DESC, weight DESC, target, type)
            """,
        ),
        make_single_block(
            "the index of incoming links",
            """
            CREATE INDEX links_back
            ON links (namespace, target, back_rank DESC, weight DESC, source, type)
            """,
        ),
        make_single_block("links counted", _load_script("to_2_count.sql"), "ANALYZE links"),
        make_single_block("the end", "DROP SCHEMA abilities_1 CASCADE"),
    ),
)
