"""The versions of the database schema: creating it, and bringing an older one forward."""

import logging
from importlib.resources import files

import psycopg

from abilities.declarations.faults import Refused
from abilities.helpers.stores.postgres.statements import (
    LOCK,
    Connection,
    Select,
    Statement,
    to_number,
)

_log = logging.getLogger("abilities")

_COUNT_VERSION_TABLES = Select(
    """
    SELECT count(*) FROM pg_catalog.pg_tables
    WHERE schemaname = 'abilities' AND tablename = 'version'
    """,
    to_number,
)
_READ_VERSION = Select("SELECT coalesce(max(number), 0) FROM version", to_number)
_SAVE_VERSION = Statement("INSERT INTO version VALUES (%s)")
_CREATE_SEARCH_INDEX = "CREATE INDEX words_search ON words USING gin (folded gin_trgm_ops)"


def load_scripts() -> list[str]:
    """Return one script per version, which leads there from the version before it."""
    package = files("abilities.helpers.stores.postgres")
    return [package.joinpath("schema.sql").read_text(encoding="utf-8")]


async def migrate(connection: Connection) -> None:
    """Create the schema, or bring it forward. Raises Refused: schema_too_new.

    Any number of processes may do so at the same time; a lock lets one of them do the work.
    """
    scripts = load_scripts()

    # Checked without the lock first, because a database that can only be read refuses the lock.
    if await _read_version(connection) == len(scripts):
        return

    async with connection.transaction():
        await LOCK.execute(connection, "abilities schema")

        # While this process waited, another one may have done the work.
        version = await _read_version(connection)
        if version > len(scripts):
            raise Refused("schema_too_new")

        await connection.execute("CREATE SCHEMA IF NOT EXISTS abilities")
        await connection.execute("CREATE TABLE IF NOT EXISTS version (number integer PRIMARY KEY)")
        for number, script in enumerate(scripts[version:], version + 1):
            await connection.execute(script.encode())
            await _SAVE_VERSION.execute(connection, number)

        if version == 0:
            await _create_search_index(connection)


async def _read_version(connection: Connection) -> int:
    """Return the number of the last script that was run, or 0 if none was.

    The catalog is read as a table, because to_regclass may answer from a cache that is older than
    the lock.
    """
    if not await _COUNT_VERSION_TABLES.fetch_only(connection):
        return 0

    return await _READ_VERSION.fetch_only(connection)


async def _create_search_index(connection: Connection) -> None:
    """Create an index for search if the server has pg_trgm.

    Without it search is right but slow: it reads all contents of a namespace.
    """
    try:
        # In a savepoint: the schema stays if there is no such extension, or no right to create it.
        async with connection.transaction():
            await connection.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm WITH SCHEMA public")
            await connection.execute(_CREATE_SEARCH_INDEX)
    except psycopg.Error as error:
        _log.info("search has no index: %s", error)
