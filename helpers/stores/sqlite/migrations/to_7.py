"""Version 7: the recall index keeps the rows of a term side by side, for 16 blocks in a row.

A question reads a page of them where it read one per block. The postings stay as they are.
"""

import sqlite3

from abilities.helpers.stores.migration import Block, Position
from abilities.helpers.stores.sqlite.migrations.stages import SqliteMigration, SqliteStage

BLOCK_ROWS = 16
"""Blocks of the recall index that are moved at once; they take a fraction of a second."""

_BEGIN = (
    "ALTER TABLE recall_blocks RENAME TO recall_blocks_6",
    "ALTER TABLE recall_terms RENAME TO recall_terms_6",
    """
CREATE TABLE recall_segments (
    segment INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    part INTEGER NOT NULL
) STRICT
    """,
    "CREATE UNIQUE INDEX recall_segments_part ON recall_segments (namespace, part)",
    """
CREATE TABLE recall_terms (
    segment INTEGER NOT NULL,
    archived INTEGER NOT NULL,
    term TEXT NOT NULL,
    block INTEGER NOT NULL,
    docs BLOB NOT NULL,
    PRIMARY KEY (segment, archived, term, block)
) STRICT, WITHOUT ROWID
    """,
)

# Texts never leave SQLite, because those of a damaged row need not be UTF-8.
_ADD_SEGMENTS = """
INSERT INTO recall_segments (namespace, part)
SELECT namespace, block >> 4 AS part FROM recall_blocks_6
GROUP BY namespace, part ORDER BY min(segment)
"""
_NEXT = "SELECT segment FROM recall_blocks_6 WHERE segment > ? ORDER BY segment LIMIT ?"
_MOVE = """
INSERT OR REPLACE INTO recall_terms (segment, archived, term, block, docs)
SELECT s.segment, t.archived, t.term, b.block, t.docs FROM recall_blocks_6 AS b
CROSS JOIN recall_segments AS s ON s.namespace = b.namespace AND s.part = b.block >> 4
CROSS JOIN recall_terms_6 AS t ON t.segment = b.segment
WHERE b.segment = ?
"""
_REMOVE = "DELETE FROM recall_terms_6 WHERE segment = ?"

_FINISH = ("DROP TABLE recall_terms_6", "DROP TABLE recall_blocks_6")


def _begin(connection: sqlite3.Connection) -> None:
    for statement in (*_BEGIN, _ADD_SEGMENTS):
        connection.execute(statement)


def _count_blocks(connection: sqlite3.Connection) -> int:
    (number,) = connection.execute("SELECT count(*) FROM recall_blocks_6").fetchone()
    return int(number)


def _move_blocks(connection: sqlite3.Connection, position: Position) -> Block:
    """Move the next blocks, in the order in which they became full."""
    (last,) = position or (0,)
    segments = connection.execute(_NEXT, (last, BLOCK_ROWS)).fetchall()

    # What is moved leaves its pages to the rows that follow, so that the file grows little.
    for segment in segments:
        connection.execute(_MOVE, segment)
        connection.execute(_REMOVE, segment)

    next_position = segments[-1] if len(segments) == BLOCK_ROWS else None
    return Block(len(segments), next_position)


def _finish(connection: sqlite3.Connection, _position: Position) -> Block:
    for statement in _FINISH:
        connection.execute(statement)

    return Block(1, None)


MIGRATION = SqliteMigration(
    begin=_begin,
    stages=(
        SqliteStage("blocks of the recall index", _move_blocks, _count_blocks),
        SqliteStage("the end", _finish),
    ),
)
