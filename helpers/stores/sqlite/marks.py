"""Marks of an SQLite store, read without the store's own threads."""

import sqlite3
from contextlib import closing
from pathlib import Path

from abilities.declarations.faults import Refused
from abilities.helpers.stores import marks
from abilities.helpers.stores.protocol import Mark
from abilities.helpers.stores.sqlite.errors import translate_os_error, translate_sqlite_error
from abilities.helpers.stores.sqlite.file import connect_to_file, has_traces
from abilities.helpers.stores.sqlite.schema import read_version
from abilities.helpers.stores.sqlite.transaction import run


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
            return run(connection, marks.read_mark, mark)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise translate_sqlite_error(error) from error
    except OSError as error:
        raise translate_os_error(error) from error
