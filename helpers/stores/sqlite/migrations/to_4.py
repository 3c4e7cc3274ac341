"""Version 4: search looks into every text of a memory, and the recall index is built.

A damaged memory is indexed as it stands, and stays damaged. The tables are filled by the functions
that write to them; a version that changes these tables takes over here what it needs of them. So
the recall index is written here as it was before version 7.
"""

import sqlite3
from collections.abc import Iterable
from typing import Any

from abilities.helpers.search import postings
from abilities.helpers.search.terms import weigh_terms
from abilities.helpers.stores.migration import Block, Position
from abilities.helpers.stores.model import Row
from abilities.helpers.stores.search_text import fold_searchable
from abilities.helpers.stores.sqlite.migrations.stages import SqliteMigration, SqliteStage
from abilities.helpers.stores.sqlite.recall_index import read_language
from abilities.helpers.stores.sqlite.recall_recent import pack_terms, unpack_terms
from abilities.helpers.stores.sqlite.search import add_text

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

_NUMBER = """
INSERT OR REPLACE INTO recall_docs (memory, namespace, doc) VALUES (?1, ?2, coalesce((
    SELECT doc + 1 FROM recall_docs WHERE namespace = ?2 ORDER BY doc DESC LIMIT 1
), 0)) RETURNING doc
"""
_ADD_RECENT = """
INSERT OR REPLACE INTO recall_recent (namespace, doc, archived, terms) VALUES (?, ?, ?, ?)
"""
_MOVE_RECENT = """
DELETE FROM recall_recent WHERE namespace = ? AND doc BETWEEN ? AND ?
RETURNING doc, archived, terms
"""
_ADD_SEGMENT = "INSERT INTO recall_blocks (namespace, block) VALUES (?, ?) RETURNING segment"
_ADD_BLOCK = "INSERT INTO recall_terms (segment, archived, term, docs) VALUES (?, ?, ?, ?)"


def _begin(connection: sqlite3.Connection) -> None:
    for statement in _BEGIN:
        connection.execute(statement)


def _count_memories(connection: sqlite3.Connection) -> int:
    (number,) = connection.execute("SELECT count(*) FROM memories").fetchone()
    return int(number)


def _make_row(values: Iterable[Any]) -> Row:
    """Return a row in which no text holds the surrogates that stand for damaged bytes."""
    return Row._make([*map(_mend, values), ""])  # in this version none had an end


def _mend(value: object) -> object:
    if isinstance(value, str):
        return value.encode(errors="surrogateescape").decode(errors="replace")

    return value


def _index_memories(connection: sqlite3.Connection, position: Position) -> Block:
    """Add memories to both indexes, in the order of their rowids."""
    (last,) = position or (0,)
    rows = connection.execute(_ROWS, (last, BLOCK_ROWS)).fetchall()

    for memory, *values in rows:
        row = _make_row(values)
        add_text(connection, memory, fold_searchable(row))
        _add_terms(connection, memory, row)
        last = memory

    next_position = (last,) if len(rows) == BLOCK_ROWS else None
    return Block(len(rows), next_position)


def _add_terms(connection: sqlite3.Connection, memory: int, row: Row) -> None:
    """Add a memory to the recall index; ``memory`` is its rowid."""
    ((doc,),) = connection.execute(_NUMBER, (memory, row.namespace)).fetchall()
    weights = weigh_terms(row.key, row.summary, row.content, read_language(connection))
    connection.execute(_ADD_RECENT, (row.namespace, doc, row.archived, pack_terms(weights)))

    if (doc + 1) % postings.BLOCK_DOCS == 0:
        _move_recent(connection, row.namespace, doc)


def _move_recent(connection: sqlite3.Connection, namespace: str, last: int) -> None:
    """Move the recent memories of a block, up to its last number, to its rows by term."""
    values = (namespace, postings.block_of(last))
    ((segment,),) = connection.execute(_ADD_SEGMENT, values).fetchall()
    numbers = (namespace, last - postings.BLOCK_DOCS + 1, last)
    moved: dict[tuple[int, str], bytearray] = {}

    for doc, archived, terms in sorted(connection.execute(_MOVE_RECENT, numbers)):
        for term, weight in unpack_terms(terms).items():
            docs = moved.setdefault((archived, term), bytearray())
            docs += postings.pack(doc, weight)

    rows = [(segment, *name, bytes(docs)) for name, docs in sorted(moved.items())]
    connection.executemany(_ADD_BLOCK, rows)


MIGRATION = SqliteMigration(
    begin=_begin, stages=(SqliteStage("memories indexed", _index_memories, _count_memories),)
)
