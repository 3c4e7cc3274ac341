"""Changes that share a transaction, each in a savepoint of its own."""

from typing import TypeVar

import psycopg

from abilities.helpers.stores.postgres.errors import translate_postgres_error
from abilities.helpers.stores.postgres.server import Work
from abilities.helpers.stores.postgres.statements import Connection

ResultT = TypeVar("ResultT")

_ERRORS_OF_ONE_CHANGE = (
    psycopg.DataError,
    psycopg.IntegrityError,
    psycopg.ProgrammingError,
    psycopg.errors.QueryCanceled,
    psycopg.errors.LockNotAvailable,
)
"""What a change's values cause, or a statement of it that takes too long."""


async def run_in_savepoint(connection: Connection, work: Work[ResultT]) -> ResultT | Exception:
    """Do work that leaves the rest of the transaction alone if it fails; return its exception then.

    Raises psycopg.Error if the whole transaction has ended.
    """
    try:
        async with connection.transaction():
            return await work(connection)
    except _ERRORS_OF_ONE_CHANGE as error:
        return translate_postgres_error(error)
    except psycopg.Error:
        raise
    except Exception as error:
        return error
