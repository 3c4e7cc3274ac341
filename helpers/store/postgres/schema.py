"""The schema of a store in PostgreSQL: how it is created, recognized and migrated."""

import logging
from importlib.resources import files

import psycopg

from abilities.declarations.refusals import Refused
from abilities.helpers.search.terms import Language
from abilities.helpers.store import migration
from abilities.helpers.store.postgres.transaction import Connection, PostgresTransaction, lock

LOCK_ATTEMPTS = 5
LOCK_SECONDS = 3
"""How long each attempt waits for older transactions, and newer transactions for the attempt."""

_log = logging.getLogger("abilities")

_UNPUBLISHED = frozenset({"schema_version", "version"})

# to_regclass is no use here: it may answer from a cache that is older than the lock.
_LIST_TABLES = b"SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = 'abilities'"
_READ_VERSION = b"SELECT coalesce(max(number), 0) FROM abilities.store_version"
# Every transaction reads this table, and so holds a lock on it until it ends.
_LOCK_VERSION = b"LOCK TABLE abilities.store_version IN ACCESS EXCLUSIVE MODE"
_SAVE_VERSION = b"INSERT INTO abilities.store_version VALUES (%s)"

_SET_LANGUAGE = b"SELECT set_config('abilities.recall_language', %s, true)"
_CREATE_EXTENSION = b"CREATE EXTENSION IF NOT EXISTS pg_trgm WITH SCHEMA public"
_CREATE_SEARCH_INDEX = b"CREATE INDEX words_search ON words USING gin (folded gin_trgm_ops)"


async def prepare_schema(connection: Connection, language: Language) -> None:
    """Create or migrate the schema. Raises Refused: schema_too_new, schema_unpublished.

    ``language`` is for the recall index of a new store. Any number of processes may call this at
    the same time: one does the work, and the others wait for it.
    """
    await connection.execute("SET statement_timeout = 0")  # a migration may take minutes
    await connection.execute("SET lock_timeout = 0")
    if await _read_version(connection) == migration.VERSION:
        return

    async with connection.transaction():
        await lock(connection, "abilities schema")
        version = await _read_version(connection)  # another process may have been faster
        if version == 0:
            script = files("abilities.helpers.store.postgres").joinpath("schema.sql")
            await connection.execute(_SET_LANGUAGE, (language.name,))
            await connection.execute(script.read_bytes())
            await connection.execute(_SAVE_VERSION, (migration.VERSION,))

            # The savepoint keeps the schema if the extension, or the right to it, is missing. Then
            # searches are correct but slow: they read all contents of a namespace.
            try:
                async with connection.transaction():
                    await connection.execute(_CREATE_EXTENSION)
                    await connection.execute(_CREATE_SEARCH_INDEX)
            except psycopg.Error as error:
                _log.info("search has no index: %s", error)
        elif version < migration.VERSION:
            await _lock_version(connection)
            await migration.migrate(PostgresTransaction(connection), version)
            await connection.execute(_SAVE_VERSION, (migration.VERSION,))


async def _read_version(connection: Connection) -> int:
    """Return the version of the store, or 0 if there is none."""
    cursor = await connection.execute(_LIST_TABLES)
    tables = {name for (name,) in await cursor.fetchall()}
    if not _UNPUBLISHED.isdisjoint(tables):
        raise Refused("schema_unpublished")
    if "store_version" not in tables:
        return 0

    cursor = await connection.execute(_READ_VERSION)
    ((version,),) = await cursor.fetchall()
    if version > migration.VERSION:
        raise Refused("schema_too_new")
    return int(version)


async def _lock_version(connection: Connection) -> None:
    """Wait until no transaction of an older process is left, and let none begin.

    Each wait is short, because new transactions wait behind this one for the same lock.
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
