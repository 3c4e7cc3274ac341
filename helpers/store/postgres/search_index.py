"""The index that finds substrings, on a PostgreSQL that can have it."""

import logging

import psycopg

from abilities.helpers.store.postgres.statements import Connection

_log = logging.getLogger("abilities")

_CREATE = "CREATE INDEX words_search ON words USING gin (folded gin_trgm_ops)"


async def create_search_index(connection: Connection) -> None:
    """Create an index for search if the server has pg_trgm.

    Without it search is right but slow: it reads all contents of a namespace.
    """
    try:
        # In a savepoint: the schema stays if there is no such extension, or no right to create it.
        async with connection.transaction():
            await connection.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm WITH SCHEMA public")
            await connection.execute(_CREATE)
    except psycopg.Error as error:
        _log.info("search has no index: %s", error)
