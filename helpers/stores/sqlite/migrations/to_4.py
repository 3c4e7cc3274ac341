"""Version 4: search looks into every text of a memory, and the recall index is built.

A damaged memory is indexed as it stands, and stays damaged. The tables are filled by the functions
that write to them; a version that changes these tables takes over here what it needs of them.
"""

import sqlite3
from collections.abc import Iterable
from typing import Any

from abilities.helpers.stores.migration import Block, Position
from abilities.helpers.stores.model import Row
from abilities.helpers.stores.sqlite.indexing import index_texts
from abilities.helpers.stores.sqlite.migrations.stages import SqliteMigration, SqliteStage

BLOCK_ROWS = 8_192
"""Memories in a block, eight blocks of the recall index; a block takes a few seconds."""

_BEGIN = (
    "INSERT INTO search (search) VALUES ('delete-all')",
    "INSERT INTO search_short (search_short) VALUES ('delete-all')",
    "CREATE TABLE recall_language (name TEXT NOT NULL) STRICT",
    "INSERT INTO recall_language VALUES (chosen_language())",
    """
CREATE TABLE recall_docs (
    memory INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    doc INTEGER NOT NULL
) STRICT
    """,
    "CREATE UNIQUE INDEX recall_docs_doc ON recall_docs (namespace, doc)",
    """
CREATE TABLE recall_recent (
    namespace TEXT NOT NULL,
    doc INTEGER NOT NULL,
    archived INTEGER NOT NULL,
    terms TEXT NOT NULL,
    PRIMARY KEY (namespace, doc)
) STRICT, WITHOUT ROWID
    """,
    """
CREATE TABLE recall_blocks (
    segment INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    block INTEGER NOT NULL
) STRICT
    """,
    "CREATE UNIQUE INDEX recall_blocks_block ON recall_blocks (namespace, block)",
    """
CREATE TABLE recall_terms (
    segment INTEGER NOT NULL,
    archived INTEGER NOT NULL,
    term TEXT NOT NULL,
    docs BLOB NOT NULL,
    PRIMARY KEY (segment, archived, term)
) STRICT, WITHOUT ROWID
    """,
)

_COLUMNS = (
    "namespace, key, id, archived, score, scored, type, importance, category, created_at,"
    " updated_at, tags, summary, metadata, content, version"
)
_ROWS = f"SELECT rowid, {_COLUMNS} FROM memories WHERE rowid > ? ORDER BY rowid LIMIT ?"


def _begin(connection: sqlite3.Connection) -> None:
    for statement in _BEGIN:
        connection.execute(statement)


def _count_memories(connection: sqlite3.Connection) -> int:
    (number,) = connection.execute("SELECT count(*) FROM memories").fetchone()
    return int(number)


def _make_row(values: Iterable[Any]) -> Row:
    """Return a row in which no text holds the surrogates that stand for damaged bytes."""
    return Row(*map(_mend, values))


def _mend(value: object) -> object:
    if isinstance(value, str):
        return value.encode(errors="surrogateescape").decode(errors="replace")

    return value


def _index_memories(connection: sqlite3.Connection, position: Position) -> Block:
    """Add memories to both indexes, in the order of their rowids."""
    (last,) = position or (0,)
    rows = connection.execute(_ROWS, (last, BLOCK_ROWS)).fetchall()

    for memory, *values in rows:
        index_texts(connection, memory, _make_row(values))
        last = memory

    next_position = (last,) if len(rows) == BLOCK_ROWS else None
    return Block(len(rows), next_position)


MIGRATION = SqliteMigration(
    begin=_begin, stages=(SqliteStage("memories indexed", _index_memories, _count_memories),)
)
