"""Marks of an SQLite store, in a table that is made with its first row."""

import sqlite3
from contextlib import closing
from pathlib import Path

from abilities.declarations.faults import Refused
from abilities.helpers.stores.protocol import Mark
from abilities.helpers.stores.sqlite.errors import translate_os_error, translate_sqlite_error
from abilities.helpers.stores.sqlite.file import connect_to_file, has_traces
from abilities.helpers.stores.sqlite.schema import read_version

# Not in schema.sql: every version of the schema may have the table, so none has to be migrated.
_CREATE = "CREATE TABLE IF NOT EXISTS marks (name TEXT PRIMARY KEY) STRICT, WITHOUT ROWID"
_INSERT = "INSERT INTO marks VALUES (?) ON CONFLICT DO NOTHING"
_SELECT_TABLE = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'marks'"
_SELECT = "SELECT 1 FROM marks WHERE name = ?"


def write_mark(connection: sqlite3.Connection, mark: Mark) -> None:
    """Set a mark, in a transaction of the caller."""
    connection.execute(_CREATE)
    connection.execute(_INSERT, (mark,))


def read_mark(path: Path, mark: Mark) -> bool:
    """Return whether a store has a mark, on a connection of its own.

    A store that does not exist is not created, and one of an older version is not migrated. Raises
    Refused.
    """
    try:
        if not path.exists():
            if has_traces(path):
                raise Refused("storage_moved")
            return False

        with closing(connect_to_file(path, "ro")) as connection:
            read_version(connection)
            return _has_mark(connection, mark)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise translate_sqlite_error(error) from error
    except OSError as error:
        raise translate_os_error(error) from error


def _has_mark(connection: sqlite3.Connection, mark: Mark) -> bool:
    if connection.execute(_SELECT_TABLE).fetchone() is None:
        return False

    return connection.execute(_SELECT, (mark,)).fetchone() is not None
