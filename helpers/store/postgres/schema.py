"""The schema of a store in PostgreSQL: how it is created, recognized and brought forward."""

import logging
from importlib.resources import files

import psycopg

from abilities.declarations.refusals import Refused
from abilities.helpers.search.terms import Language
from abilities.helpers.store import migration
from abilities.helpers.store.postgres.transaction import Connection, PostgresTransaction, lock

LOCK_ATTEMPTS = 5
"""How often a migration tries to begin while transactions of older processes are in its way."""
LOCK_SECONDS = 3
"""How long each attempt waits for them, and later ones for it."""

_log = logging.getLogger("abilities")

_UNPUBLISHED = frozenset({"schema_version", "version"})
"""The tables that told the version before the first one was published."""

# The catalog is read as a table, because to_regclass may answer from a cache that is older than the
# lock.
_LIST_TABLES = b"SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = 'abilities'"
_READ_VERSION = b"SELECT coalesce(max(number), 0) FROM abilities.store_version"
# Every transaction reads the number, and so holds it until it ends.
_LOCK_VERSION = b"LOCK TABLE abilities.store_version IN ACCESS EXCLUSIVE MODE"
_SAVE_VERSION = b"INSERT INTO abilities.store_version VALUES (%s)"

_SET_LANGUAGE = b"SELECT set_config('abilities.recall_language', %s, true)"
_CREATE_SEARCH_INDEX = b"CREATE INDEX words_search ON words USING gin (folded gin_trgm_ops)"


async def prepare_schema(connection: Connection, language: Language) -> None:
    """Create the schema, or bring it forward. Raises Refused: schema_too_new, schema_unpublished.

    ``language`` is that of the recall index of a new store. Any number of processes may do so at
    the same time: one does it, and the others wait for it.
    """
    await connection.execute("SET statement_timeout = 0")  # it may take minutes
    await connection.execute("SET lock_timeout = 0")
    if await _read_version(connection) == migration.VERSION:
        return

    async with connection.transaction():
        await lock(connection, "abilities schema")
        version = await _read_version(connection)  # another process may have been faster
        if version == 0:
            await _create(connection, language)
        elif version < migration.VERSION:
            await _lock_version(connection)
            await migration.migrate(PostgresTransaction(connection), version)
            await connection.execute(_SAVE_VERSION, (migration.VERSION,))


async def _read_version(connection: Connection) -> int:
    """Return the version of the store, 0 if there is none."""
    cursor = await connection.execute(_LIST_TABLES)
    tables = {name for (name,) in await cursor.fetchall()}
    if not _UNPUBLISHED.isdisjoint(tables):
        raise Refused("schema_unpublished")
    if "store_version" not in tables:
        return 0

    cursor = await connection.execute(_READ_VERSION)
    ((version,),) = await cursor.fetchall()
    migration.check_version(version)
    return int(version)


async def _lock_version(connection: Connection) -> None:
    """Wait until no transaction of an older process is left, and let none begin.

    Not for long at a time: whoever comes later waits for the lock too.
    """
    seconds = f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'".encode()
    for attempt in range(1, LOCK_ATTEMPTS + 1):
        try:
            async with connection.transaction():  # a savepoint
                await connection.execute(seconds)
                await connection.execute(_LOCK_VERSION)
            return
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            if attempt == LOCK_ATTEMPTS:
                raise


async def _create(connection: Connection, language: Language) -> None:
    script = files("abilities.helpers.store.postgres").joinpath("schema.sql")
    await connection.execute(_SET_LANGUAGE, (language.name,))
    await connection.execute(script.read_bytes())
    await connection.execute(_SAVE_VERSION, (migration.VERSION,))
    await _create_search_index(connection)


async def _create_search_index(connection: Connection) -> None:
    """Create the index that finds substrings, if the server has pg_trgm.

    Without it search is right but slow: it reads all contents of a namespace.
    """
    try:
        # In a savepoint: the schema stays if there is no such extension, or no right to create it.
        async with connection.transaction():
            await connection.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm WITH SCHEMA public")
            await connection.execute(_CREATE_SEARCH_INDEX)
    except psycopg.Error as error:
        _log.info("search has no index: %s", error)
