"""A made-up next version of both kinds of store: a column of a canonical table, filled in blocks.

No version but the first was published, so that this is what the migration of stores is tried with.
"""

import sqlite3
from collections.abc import Callable

from abilities.helpers.store.migration import Block, Position
from abilities.helpers.store.postgres import migration as postgres_migration
from abilities.helpers.store.postgres.migration import PostgresMigration, PostgresStage
from abilities.helpers.store.postgres.statements import Connection
from abilities.helpers.store.sqlite import migration as sqlite_migration
from abilities.helpers.store.sqlite import schema
from abilities.helpers.store.sqlite.migration import SqliteMigration, SqliteStage

BLOCK_ROWS = 20
"""Memories of a block, so that a small store has many."""

_FILL = """
UPDATE memories SET size = length(content) WHERE (namespace, key) IN (
    SELECT namespace, key FROM memories WHERE (namespace, key) > ({0}, {0})
    ORDER BY namespace, key LIMIT {0}
) RETURNING namespace, key
"""
_INDEX = "CREATE INDEX memories_size ON memories (namespace, size)"


def _begin(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE memories ADD COLUMN size INTEGER NOT NULL DEFAULT 0")


def _fill(connection: sqlite3.Connection, position: Position) -> Block:
    values = (*(position or ("", "")), BLOCK_ROWS)
    rows = connection.execute(_FILL.format("?"), values).fetchall()
    return Block(len(rows), max(rows) if len(rows) == BLOCK_ROWS else None)


def _count(connection: sqlite3.Connection) -> int:
    (count,) = connection.execute("SELECT count(*) FROM memories").fetchone()
    return int(count)


def _add_index(connection: sqlite3.Connection, _: Position) -> Block:
    connection.execute(_INDEX)
    return Block(0, None)


async def _fill_on_postgres(connection: Connection, position: Position) -> Block:
    values = (*(position or ("", "")), BLOCK_ROWS)
    cursor = await connection.execute(_FILL.format("%s").encode(), values)
    rows = sorted(await cursor.fetchall())
    return Block(len(rows), [str(name) for name in rows[-1]] if len(rows) == BLOCK_ROWS else None)


async def _add_index_on_postgres(connection: Connection, _: Position) -> Block:
    await connection.execute(_INDEX.encode())
    return Block(0, None)


SQLITE = SqliteMigration(
    _begin, (SqliteStage("memories", _fill, _count), SqliteStage("an index", _add_index))
)
POSTGRES = PostgresMigration(
    "ALTER TABLE abilities_data.memories ADD COLUMN size integer NOT NULL DEFAULT 0",
    (
        PostgresStage("memories", _fill_on_postgres, "SELECT count(*) FROM memories"),
        PostgresStage("an index", _add_index_on_postgres),
    ),
)


def announce(version: int, change: Callable[[object, str, object], None] = setattr) -> None:
    """Make a version the one that this process knows; ``change`` sets an attribute of a module."""
    numbers = range(2, version + 1)
    change(schema, "VERSION", version)
    change(sqlite_migration, "MIGRATIONS", dict.fromkeys(numbers, SQLITE))
    change(postgres_migration, "SCHEMA_VERSION", version)
    change(postgres_migration, "MIGRATIONS", dict.fromkeys(numbers, POSTGRES))
