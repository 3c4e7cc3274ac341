"""Version 6: indexes that hold all that some reads ask for, so that these look up no rows."""

import sqlite3
from functools import partial

from abilities.helpers.stores.migration import Block, Position
from abilities.helpers.stores.sqlite.migrations.stages import SqliteMigration, SqliteStage

_INCOMING_LINKS = {
    "links_incoming": "links (namespace, target, back_rank DESC, weight DESC, source, type,"
    " term, hash)",
}

# All of them, because of equal ones SQLite chooses by the order in which they were made.
_SHELF = {
    "shelf_accessed": "shelf (namespace, accessed_at, id, archived) WHERE archived = 0",
    "shelf_accessed_all": "shelf (namespace, accessed_at, id)",
    "shelf_type": "shelf (namespace, type, accessed_at, id, archived) WHERE archived = 0",
    "shelf_importance": "shelf (namespace, importance, accessed_at, id, archived)"
    " WHERE archived = 0",
    "shelf_importance_order": "shelf (namespace, importance, id, archived) WHERE archived = 0",
    "shelf_category": "shelf (namespace, category, accessed_at, id, archived) WHERE archived = 0",
    "shelf_created": "shelf (namespace, created_at, id, archived)",
    "shelf_updated": "shelf (namespace, updated_at, id, archived)",
    "shelf_count": "shelf (namespace, access_count, id, archived)",
}


def _begin(_connection: sqlite3.Connection) -> None:
    """Change nothing yet: each stage replaces indexes."""


def _replace_indexes(
    connection: sqlite3.Connection, _position: Position, indexes: dict[str, str]
) -> Block:
    for name, columns in indexes.items():
        connection.execute(f"DROP INDEX IF EXISTS {name}")
        connection.execute(f"CREATE INDEX {name} ON {columns}")

    return Block(len(indexes), None)


MIGRATION = SqliteMigration(
    begin=_begin,
    stages=(
        SqliteStage(
            "the index of incoming links", partial(_replace_indexes, indexes=_INCOMING_LINKS)
        ),
        SqliteStage("the indexes of the memory index", partial(_replace_indexes, indexes=_SHELF)),
    ),
)
