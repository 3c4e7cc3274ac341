"""Savepoints: a change that fails takes none of its neighbors in the transaction with it."""

import sqlite3
from collections.abc import Callable
from typing import TypeVar

from abilities.helpers.stores.sqlite.errors import release_statements, translate_sqlite_error

Result = TypeVar("Result")

OWN_ERRORS = (
    sqlite3.DataError,
    sqlite3.IntegrityError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
)
"""Errors that are caused by the values of one change; any other ends the whole transaction."""


def run_in_savepoint(
    connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], Result]
) -> Result | Exception:
    """Return the change's result, or the exception that fails this change alone.

    An error of the database itself is raised, and fails the whole transaction.
    """
    connection.execute("SAVEPOINT change")
    try:
        result: Result | Exception = work(connection)
    except OWN_ERRORS as error:
        release_statements(error)
        connection.execute("ROLLBACK TO change")
        result = translate_sqlite_error(error)
    except (sqlite3.Error, UnicodeDecodeError):
        raise
    except Exception as error:
        release_statements(error)
        connection.execute("ROLLBACK TO change")
        result = error

    connection.execute("RELEASE change")
    return result
