"""Version 3: marks of memories whose links have stale ranks.

A store of version 2 has none, so the table begins empty. The version moves because older processes
would take stale ranks for right ones.
"""

import sqlite3

from abilities.helpers.stores.migration import Block, Position
from abilities.helpers.stores.sqlite.migrations.stages import SqliteMigration, SqliteStage

_STATEMENTS = (
    """
CREATE TABLE stale_ranks (
    namespace TEXT NOT NULL,
    side TEXT NOT NULL CHECK (side IN ('target', 'source')),
    key TEXT NOT NULL,
    since INTEGER NOT NULL,
    last_rank INTEGER NOT NULL,
    last_weight REAL NOT NULL,
    last_key TEXT NOT NULL,
    last_type TEXT NOT NULL,
    PRIMARY KEY (namespace, side, key)
) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX stale_ranks_since ON stale_ranks (namespace, since)",
)


def _begin(_connection: sqlite3.Connection) -> None:
    """Change nothing yet: the only stage makes the table."""


def _make_table(connection: sqlite3.Connection, _position: Position) -> Block:
    for statement in _STATEMENTS:
        connection.execute(statement)

    return Block(0, None)


MIGRATION = SqliteMigration(
    begin=_begin, stages=(SqliteStage("the table of stale ranks", _make_table),)
)
