"""Connections to a PostgreSQL database; before the first one, its schema is created or migrated."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import cast

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from abilities.declarations.refusals import Refused
from abilities.helpers.search.terms import Language
from abilities.helpers.store import migration
from abilities.helpers.store.postgres.transaction import (
    Connection,
    PostgresTransaction,
    lock,
    translate_postgres_error,
)

MAX_CONNECTIONS = 8
CONNECT_SECONDS = 5
WAIT_SECONDS = 5
"""Longest wait for a connection; a server that cannot be reached is reported within this time."""
LOCK_SECONDS = 3
STATEMENT_SECONDS = 5
CALL_SECONDS = 20.0
"""Longest time for a whole transaction, in case the connection is lost without an error."""
OPEN_SECONDS = 9.0
"""Longest wait for the migration of the schema; a call has ten seconds in all."""
PROBE_SECONDS = 1.0
"""Longest wait for the separate connection of `Pool.probe`."""
IDLE_SECONDS = 60
"""The time after which an unused connection is closed; one always stays open."""

_DEFAULTS: dict[str, str | int | None] = {
    "connect_timeout": CONNECT_SECONDS,
    # A silent server is abandoned after 5 + 3 * 2 seconds, or 10 if it owes an acknowledgment.
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "application_name": "agent-abilities",
}
"""Parameters that a URL may override. With them, libpq soon notices that a server has vanished."""

_SESSION_SETTINGS = f"""
SET search_path = abilities_data, public;
SET statement_timeout = '{STATEMENT_SECONDS}s';
SET lock_timeout = '{LOCK_SECONDS}s';
SET idle_in_transaction_session_timeout = '{4 * STATEMENT_SECONDS}s';
SET default_transaction_isolation = 'repeatable read';
SET max_parallel_workers_per_gather = 0;
SET random_page_cost = 1.1;
SELECT set_config('synchronous_commit', 'on', false)
    WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')
"""
"""The settings of every session.

Repeatable read is for reads, whose transactions begin implicitly; explicit transactions are read
committed. A weaker synchronous_commit could lose acknowledged changes. Without parallel workers,
one caller's search cannot take several processors from the others. A page costs about the same in
any order: it is in memory or on a solid-state disk. By the default, 4, small tables are read
whole, which takes a tenth to a fifth more of the server's time for a recall.
"""


LOCK_ATTEMPTS = 5
MIGRATION_LOCK_SECONDS = 3
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


def build_conninfo(url: str) -> str:
    """Return a URL as libpq's parameters, with our defaults for parameters that it does not set.

    If it names several hosts, connections go to the one that accepts writes. Raises ValueError if
    libpq cannot read the URL.
    """
    try:
        requested = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        message = "is not a PostgreSQL URL, for example 'postgresql://user@host/database'"
        raise ValueError(message) from error

    # A standby also accepts connections, but no changes.
    parameters = dict(_DEFAULTS)
    if _count_hosts(requested) > 1:
        parameters["target_session_attrs"] = "read-write"
    parameters.update(requested)

    return make_conninfo("", **parameters)


def accept_any_host(conninfo: str) -> str | None:
    """Return parameters for connections to any of the hosts; None if there is only one host."""
    if _count_hosts(conninfo_to_dict(conninfo)) == 1:
        return None

    return make_conninfo(conninfo, target_session_attrs="any")


def _count_hosts(parameters: dict[str, str | int | None]) -> int:
    hosts = str(parameters.get("host", ""))
    return hosts.count(",") + 1


class Pool:
    """Connections to the first host that the connection string accepts.

    The schema is created or migrated before the first connection is lent. With ``check``, every
    connection is tested before it is lent, and replaced if it is lost. ``language`` is for the
    recall index of a new store.
    """

    def __init__(self, conninfo: str, language: Language, *, check: bool = False) -> None:
        check_connection = None
        if check:
            check_connection = AsyncConnectionPool.check_connection

        self._conninfo = conninfo
        self._language = language
        self._pool = cast(
            "AsyncConnectionPool[Connection]",
            AsyncConnectionPool(
                conninfo,
                open=False,
                min_size=1,  # the first call after an idle time need not wait for a connection
                max_size=MAX_CONNECTIONS,
                timeout=WAIT_SECONDS,
                max_idle=IDLE_SECONDS,
                reconnect_timeout=WAIT_SECONDS,
                kwargs={"autocommit": True},  # writes begin transactions explicitly
                configure=_configure,
                check=check_connection,
            ),
        )
        self._opening: asyncio.Task[None] | None = None
        self._is_reached = False  # whether the server has ever answered
        self._is_open = False

    @property
    def waiting(self) -> int:
        """The number of calls that wait for a connection."""
        return self._pool.get_stats().get("requests_waiting", 0)

    async def close(self) -> None:
        """Close every connection."""
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])  # lets the server stop its statement

        await self._pool.close()

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[Connection]:
        """Lend a connection that commits each statement, for at most `CALL_SECONDS`.

        A migration of the schema may take minutes; it continues when the caller gets
        Refused("busy"). Raises Refused for every error of the database or the network, including
        errors in the caller's block.
        """
        if not self._is_open:
            await self._wait_until_open(OPEN_SECONDS)

        try:
            async with asyncio.timeout(CALL_SECONDS), self._pool.connection() as connection:
                yield connection
        except PoolTimeout as error:
            # Either all connections are in use, or the server refuses new ones.
            refused = Refused("busy")
            try:
                await self.probe()
            except Refused as cause:
                refused = cause
            raise refused from error
        except (psycopg.Error, OSError) as error:  # TimeoutError is an OSError
            raise translate_postgres_error(error) from error

    @asynccontextmanager
    async def own_connection(self) -> AsyncGenerator[Connection]:
        """Make a separate connection, which may be used on any event loop. Raises Refused."""
        try:
            async with await self._connect() as connection:
                await _configure(connection)
                yield connection
        except (psycopg.Error, OSError) as error:
            raise translate_postgres_error(error) from error

    async def prepare(self) -> None:
        """Connect and migrate the schema, however long it takes. Raises Refused."""
        await self._wait_until_open(None)

    async def probe(self) -> None:
        """Check that the server accepts a separate connection, which waits for no other call.

        Raises Refused within `PROBE_SECONDS`, for example busy if the schema is not in place yet.
        """
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                connection = await self._connect()
            await connection.close()
        except (psycopg.Error, OSError) as error:
            raise translate_postgres_error(error) from error

        if not self._is_open:
            raise Refused("busy")

    async def _wait_until_open(self, seconds: float | None) -> None:
        """Wait for the task that opens the pool; if it fails, the next call starts a new one."""
        if self._opening is None:
            self._opening = asyncio.create_task(self._open())

            # Retrieves the exception, because all callers may have given up waiting.
            self._opening.add_done_callback(lambda task: task.cancelled() or task.exception())

        # A timeout cancels only the wait, never the task: other callers wait for it too.
        opening = self._opening
        if seconds is not None:
            await asyncio.wait([opening], timeout=WAIT_SECONDS)
            if not opening.done() and not self._is_reached:
                raise Refused("unavailable")
            seconds -= WAIT_SECONDS

        await asyncio.wait([opening], timeout=seconds)
        if not opening.done():
            raise Refused("busy")

        if self._opening is opening and not self._is_open:
            self._opening = None
        await opening

    async def _open(self) -> None:
        # A separate connection, because the pool does not report why it cannot connect.
        async with self.own_connection() as connection:
            self._is_reached = True
            await prepare_schema(connection, self._language)

        await self._pool.open()
        self._is_open = True

    async def _connect(self) -> Connection:
        return await psycopg.AsyncConnection.connect(self._conninfo, autocommit=True)


async def _configure(connection: Connection) -> None:
    await connection.execute(_SESSION_SETTINGS.encode())
    await connection.set_isolation_level(psycopg.IsolationLevel.READ_COMMITTED)


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
    seconds = f"SET LOCAL lock_timeout = '{MIGRATION_LOCK_SECONDS}s'".encode()
    for attempt in range(1, LOCK_ATTEMPTS + 1):
        try:
            async with connection.transaction():  # a savepoint
                await connection.execute(seconds)
                await connection.execute(_LOCK_VERSION)
            return
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            if attempt == LOCK_ATTEMPTS:
                raise
