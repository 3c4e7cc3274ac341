"""Version 5: memories may expire, and every change keeps what it replaced.

No row is written anew. The memories begin without a history, which lacks all versions given so far.
"""

import sqlite3

from abilities.helpers.stores.migration import Block, Position
from abilities.helpers.stores.sqlite.migrations.stages import SqliteMigration, SqliteStage

_STATEMENTS = (
    "ALTER TABLE memories ADD COLUMN expires_at TEXT NOT NULL DEFAULT ''",
    "CREATE INDEX memories_expiring ON memories (namespace, expires_at, id)"
    " WHERE expires_at <> '' AND archived = 0",
    "ALTER TABLE versions ADD COLUMN forgotten INTEGER NOT NULL DEFAULT 0",
    "UPDATE versions SET forgotten = number",
    """
CREATE TABLE history (
    namespace TEXT NOT NULL,
    version INTEGER NOT NULL,
    id TEXT NOT NULL,
    key TEXT NOT NULL,
    previous INTEGER NOT NULL,
    action TEXT NOT NULL,
    made_at TEXT NOT NULL,
    caller TEXT NOT NULL,
    before TEXT NOT NULL,
    hash INTEGER NOT NULL,
    PRIMARY KEY (namespace, version, id)
) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX history_id ON history (namespace, id, version)",
    "CREATE INDEX history_key ON history (namespace, key, version)"
    " WHERE action IN ('deleted', 'renamed')",
    """
CREATE TABLE purged (
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    version INTEGER NOT NULL,
    made_at TEXT NOT NULL,
    caller TEXT NOT NULL,
    PRIMARY KEY (namespace, id)
) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX purged_version ON purged (namespace, version)",
)


def _begin(_connection: sqlite3.Connection) -> None:
    """Change nothing yet: the only stage makes all that is new."""


def _make_tables(connection: sqlite3.Connection, _position: Position) -> Block:
    for statement in _STATEMENTS:
        connection.execute(statement)

    return Block(0, None)


MIGRATION = SqliteMigration(
    begin=_begin, stages=(SqliteStage("the tables of the history", _make_tables),)
)
