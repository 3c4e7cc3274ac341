"""The schema of a store in PostgreSQL: how it is created, and what its migration has of its own."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.resources import files

import psycopg
from typing_extensions import override

from abilities.declarations.faults import Refused
from abilities.helpers.search.terms import Language
from abilities.helpers.store import migration
from abilities.helpers.store.migration import MigratedStore, SchemaState, check_version, migrate
from abilities.helpers.store.postgres.transaction import Connection, PostgresTransaction, lock
from abilities.helpers.store.transaction import Transaction

BEGIN_ATTEMPTS = 5
"""How often a migration tries to begin while transactions of older processes are in its way."""
BEGIN_LOCK_SECONDS = 3
"""How long each attempt waits for them."""

_log = logging.getLogger("abilities")
_people_log = logging.getLogger("abilities.store")
"""What the command line shows on a terminal."""

_UNPUBLISHED = frozenset({"schema_version", "version"})
"""The tables that told the version before the first one was published."""

# The catalog is read as a table, because to_regclass may answer from a cache that is older than the
# lock.
_LIST_TABLES = b"""
SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = 'abilities' OR
    schemaname = 'abilities_data' AND tablename = 'migration'
"""
_READ_VERSION = b"SELECT coalesce(max(number), 0) FROM abilities.store_version"
# Every transaction of the version before reads the number, and so holds it until it ends.
_LOCK_VERSION = b"LOCK TABLE abilities.store_version IN ACCESS EXCLUSIVE MODE"
_SAVE_VERSION = b"INSERT INTO abilities.store_version VALUES (%s)"

_SET_LANGUAGE = b"SELECT set_config('abilities.recall_language', %s, true)"
_CREATE_SEARCH_INDEX = b"CREATE INDEX words_search ON words USING gin (folded gin_trgm_ops)"


async def prepare_schema(connection: Connection, language: Language) -> None:
    """Create the schema, or bring it forward. Raises Refused: schema_too_new, schema_unpublished.

    ``language`` is that of the recall index of a new store. Any number of processes may do so at
    the same time.
    """
    database = _MigratedDatabase(connection)
    if (await database.read_state()).version == 0:
        async with database.step():
            # While this process waited, another one may have created it.
            if (await database.read_state()).version == 0:
                await _create(connection, language)

    await migrate(database)


class _MigratedDatabase(MigratedStore):
    """A database, on a connection of its own."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @override
    async def read_state(self) -> SchemaState:
        tables = await self._list_tables()
        if not _UNPUBLISHED.isdisjoint(tables):
            raise Refused("schema_unpublished")
        if "store_version" not in tables:
            return SchemaState(0, is_migrating=False)

        cursor = await self._connection.execute(_READ_VERSION)
        ((version,),) = await cursor.fetchall()
        check_version(version)
        # After the version: a migration that begins in between is noticed.
        return SchemaState(version, "migration" in await self._list_tables())

    async def _list_tables(self) -> set[str]:
        cursor = await self._connection.execute(_LIST_TABLES)
        return {name for (name,) in await cursor.fetchall()}

    @override
    @asynccontextmanager
    async def step(self) -> AsyncGenerator[Transaction]:
        async with self._connection.transaction():
            # A block, and the wait for that of another process, may take minutes.
            await self._connection.execute("SET LOCAL statement_timeout = 0")
            await self._connection.execute("SET LOCAL lock_timeout = 0")
            await lock(self._connection, "abilities schema")
            yield PostgresTransaction(self._connection)

    @override
    async def move(self, version: int, begin: Callable[[], Awaitable[None]]) -> None:
        """Try it several times, and not for long each time.

        Transactions of the version before may hold the locks that it needs; and later ones wait
        for it.
        """
        seconds = f"SET LOCAL lock_timeout = '{BEGIN_LOCK_SECONDS}s'".encode()
        for attempt in range(1, BEGIN_ATTEMPTS + 1):
            try:
                async with self._connection.transaction():  # a savepoint
                    await self._connection.execute(seconds)
                    await self._connection.execute(_LOCK_VERSION)
                    await self._connection.execute(_SAVE_VERSION, (version,))
                    await begin()
                break
            except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
                if attempt == BEGIN_ATTEMPTS:
                    raise

        _people_log.info("Migrating the memory store to version %s.", version)


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
