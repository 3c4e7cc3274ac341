"""The way to PostgreSQL: a pool of connections, the schema, transactions, and errors in terms of the caller."""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any, cast

import psycopg
from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from abilities.declarations.base import Refused

Connection = AsyncConnection[tuple[Any, ...]]

CONNECTIONS = 8
WAIT_SECONDS = 5
"""For a connection, and for the lock of a namespace; a server that cannot be reached is said to be within this time."""
STATEMENT_SECONDS = 10
CALL_SECONDS = 20.0
"""For a whole transaction, in case that not even an error arrives."""

_RELIABLE = {
    "connect_timeout": WAIT_SECONDS,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "application_name": "agent-abilities",
}
"""What libpq is told where the URL says nothing: a server that vanished is noticed within seconds."""
_SETTINGS = f"""
SET search_path = abilities, public;
SET statement_timeout = '{STATEMENT_SECONDS}s';
SET lock_timeout = '{WAIT_SECONDS}s';
SET idle_in_transaction_session_timeout = '{2 * STATEMENT_SECONDS}s'
"""
_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
_THERE = "SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = 'abilities' AND tablename = 'version'"
_WORDS = "CREATE INDEX words_search ON words USING gin (folded gin_trgm_ops)"
_log = logging.getLogger("abilities")

SQLSTATES = {
    "08": "unavailable",
    "25006": "read_only",
    "28": "unavailable",
    "3D000": "unavailable",
    "40001": "busy",
    "40P01": "busy",
    "42501": "read_only",
    "53100": "storage_full",
    "53": "resource_exhausted",
    "55P03": "busy",
    "57014": "busy",
    "57P": "unavailable",
    "XX001": "corrupted",
    "XX002": "corrupted",
}
"""What an SQLSTATE, or the beginning of one, is to a caller; the longest that fits counts, storage_error else."""


def refusal(error: Exception) -> Refused:
    """An error of the driver as the reason that a caller gets."""
    _log.warning("the store refused: %s", error)
    if isinstance(error, PoolTimeout | PoolClosed | TimeoutError):
        return Refused("unavailable")
    state = getattr(error, "sqlstate", None)
    if state is None:  # libpq's own words: there was no answer
        return Refused("unavailable" if isinstance(error, psycopg.OperationalError) else "storage_error")
    known = [reason for length in (5, 3, 2) if (reason := SQLSTATES.get(state[:length]))]
    return Refused(known[0] if known else "storage_error")


def conninfo(url: str) -> str:
    """A URL as libpq's parameters, with what makes it reliable. Raises ValueError for one that libpq cannot read."""
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise ValueError("is not a PostgreSQL URL, as 'postgresql://user@host/database'") from error
    several = "," in str(given.get("host", ""))
    chosen: dict[str, Any] = {**_RELIABLE, **({"target_session_attrs": "read-write"} if several else {}), **given}
    return make_conninfo("", **chosen)


def schema() -> list[str]:
    """The scripts that bring a database to each version, the first from nothing."""
    return [files("abilities.helpers.stores").joinpath("postgres.sql").read_text(encoding="utf-8")]


class Server:
    """A pool of connections to one database; used on one event loop alone."""

    def __init__(self, parameters: str) -> None:
        self._pool = cast(
            "AsyncConnectionPool[Connection]",
            AsyncConnectionPool(
                parameters,
                open=False,
                min_size=1,
                max_size=CONNECTIONS,
                timeout=WAIT_SECONDS,
                max_idle=60,
                reconnect_timeout=WAIT_SECONDS,
                kwargs={"autocommit": True},
                configure=_configured,
            ),
        )
        self._opening = asyncio.Lock()
        self._ready = False

    @property
    def waiting(self) -> int:
        """How many calls wait for a connection."""
        return self._pool.get_stats().get("requests_waiting", 0)

    async def close(self) -> None:
        """Let go of every connection."""
        await self._pool.close()

    @asynccontextmanager
    async def connection(self, seconds: float | None = CALL_SECONDS) -> AsyncGenerator[Connection]:
        """A connection that commits each statement, once the schema is there. Raises Refused."""
        try:
            async with asyncio.timeout(seconds):
                if not self._ready:
                    await self._prepare()
                async with self._pool.connection() as connection:
                    yield connection
        except (psycopg.Error, PoolTimeout, PoolClosed, TimeoutError, OSError) as error:
            raise refusal(error) from error

    @asynccontextmanager
    async def snapshot(self) -> AsyncGenerator[Connection]:
        """A connection that sees one moment of the database, and changes nothing. Raises Refused."""
        async with self.connection() as connection, connection.pipeline():
            await connection.execute(_SNAPSHOT)  # which travels with the first question
            yield connection
            await connection.execute("ROLLBACK")

    @asynccontextmanager
    async def long_snapshot(self) -> AsyncGenerator[Connection]:
        """The same for work that may take its time, and takes rows in portions. Raises Refused."""
        async with self.connection(None) as connection, connection.transaction():
            await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            await connection.execute("SET LOCAL statement_timeout = 0")
            await connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            yield connection

    @asynccontextmanager
    async def writing(self, namespace: str) -> AsyncGenerator[Connection]:
        """A transaction that no other change of the namespace runs beside. Raises Refused.

        One lock for each namespace, instead of locks of rows, leaves nothing to deadlock and nothing to try again;
        what waits for it in one process shares the next transaction.
        """
        async with self.connection() as connection, connection.transaction():
            await connection.execute(_LOCK, (f"abilities:{namespace}",))
            yield connection

    async def _prepare(self) -> None:
        async with self._opening:
            if not self._ready:
                await self._pool.open()
                async with self._pool.connection() as connection:
                    await _brought_forward(connection)
                self._ready = True


async def _configured(connection: Connection) -> None:
    for statement in _SETTINGS.split(";"):
        await connection.execute(statement.encode())


async def _brought_forward(connection: Connection) -> None:
    """Make the schema, or bring it forward, one process at a time. Raises Refused("schema_too_new")."""
    scripts = schema()
    if await _version(connection) == len(scripts):
        return  # which a database that can only be read is content with
    async with connection.transaction():
        await connection.execute(_LOCK, ("abilities schema",))
        version = await _version(connection)
        if version > len(scripts):
            raise Refused("schema_too_new")
        await connection.execute("CREATE SCHEMA IF NOT EXISTS abilities")
        await connection.execute("CREATE TABLE IF NOT EXISTS version (number integer PRIMARY KEY)")
        for number, script in enumerate(scripts[version:], version + 1):
            await connection.execute(script.encode())
            await connection.execute("INSERT INTO version VALUES (%s)", (number,))
        if version == 0:
            await _index_words(connection)


async def _version(connection: Connection) -> int:
    """The number of the last script that was run; 0 where none was.

    The catalogue is read as a table: what to_regclass remembers may be older than the lock that was waited for.
    """
    if not await (await connection.execute(_THERE)).fetchall():
        return 0
    number = await (await connection.execute("SELECT coalesce(max(number), 0) FROM version")).fetchone()
    return int(number[0]) if number else 0


async def _index_words(connection: Connection) -> None:
    """An index for search, where the server has pg_trgm; without it search looks through a namespace."""
    try:
        async with connection.transaction():
            await connection.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm WITH SCHEMA public")
            await connection.execute(_WORDS)
    except psycopg.Error as error:
        _log.info("search has no index: %s", error)


def pattern(search: str) -> str:
    """A text as a LIKE pattern that holds it literally."""
    return "%" + re.sub(r"([\\%_])", r"\\\1", search) + "%"
