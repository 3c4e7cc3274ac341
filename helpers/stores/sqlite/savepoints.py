"""Savepoints: a change that fails takes none of its neighbors in the transaction with it."""

import sqlite3
from collections.abc import Callable, Sequence
from typing import TypeVar

from abilities.helpers.stores.sqlite.errors import release_statements, translate_sqlite_error
from abilities.helpers.stores.sqlite.search import PostponedText, list_postponed, postpone

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
    waiting = list_postponed(connection)
    connection.execute("SAVEPOINT change")
    try:
        result: Result | Exception = work(connection)
    except OWN_ERRORS as error:
        _undo(connection, error, waiting)
        result = translate_sqlite_error(error)
    except (sqlite3.Error, UnicodeDecodeError):
        raise
    except Exception as error:
        _undo(connection, error, waiting)
        result = error

    connection.execute("RELEASE change")
    return result


def _undo(
    connection: sqlite3.Connection, error: Exception, waiting: Sequence[PostponedText]
) -> None:
    """Undo what was done since the savepoint, also of what was to be added to the search index."""
    release_statements(error)
    connection.execute("ROLLBACK TO change")
    postpone(connection, waiting)
