"""The way to PostgreSQL: a pool of connections, the schema, transactions, and errors in terms of the caller."""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any, TypeVar, cast

import psycopg
from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from abilities.declarations.faults import Reason, Refused

Connection = AsyncConnection[tuple[Any, ...]]
T = TypeVar("T")
Work = Callable[[Connection], Coroutine[Any, Any, T]]

CONNECTIONS = 8
WAIT_SECONDS = 5
"""For a connection; a server that cannot be reached is said to be within this time."""
LOCK_SECONDS = 3
STATEMENT_SECONDS = 5
CALL_SECONDS = 20.0
"""For a whole transaction, in case that not even an error arrives."""
TRIES = 4
"""How often a change is made that PostgreSQL gives up because of another one's."""

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
SET lock_timeout = '{LOCK_SECONDS}s';
SET idle_in_transaction_session_timeout = '{4 * STATEMENT_SECONDS}s';
SET default_transaction_isolation = 'read committed';
SELECT set_config('synchronous_commit', 'on', false)
    WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')
"""
_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
_THERE = (
    "SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = 'abilities' AND tablename = 'version'"
)
_WORDS = "CREATE INDEX words_search ON words USING gin (folded gin_trgm_ops)"
_log = logging.getLogger("abilities")

SQLSTATES: dict[str, Reason] = {
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


def translate_postgres_error(error: Exception) -> Refused:
    """An error of the driver as the reason that a caller gets."""
    _log.warning("the store refused: %s", error)
    if isinstance(error, PoolTimeout | PoolClosed | TimeoutError):
        return Refused("unavailable")
    state = getattr(error, "sqlstate", None)
    if state is None:  # libpq's own words: there was no answer
        return Refused(
            "unavailable" if isinstance(error, psycopg.OperationalError) else "storage_error"
        )
    known = [reason for length in (5, 3, 2) if (reason := SQLSTATES.get(state[:length]))]
    return Refused(known[0] if known else "storage_error")


def build_conninfo(url: str) -> str:
    """A URL as libpq's parameters, with what makes it reliable. Raises ValueError for one that libpq cannot read."""
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise ValueError("is not a PostgreSQL URL, as 'postgresql://user@host/database'") from error
    several = "," in str(given.get("host", ""))
    chosen: dict[str, Any] = {
        **_RELIABLE,
        **({"target_session_attrs": "read-write"} if several else {}),
        **given,
    }
    return make_conninfo("", **chosen)


def schema() -> list[str]:
    """The scripts that bring a database to each version, the first from nothing."""
    return [
        files("abilities.helpers.stores.postgres")
        .joinpath("schema.sql")
        .read_text(encoding="utf-8")
    ]


def _is_conflict(refused: Refused) -> bool:
    return getattr(refused.__cause__, "sqlstate", None) in ("40001", "40P01")


class Server:
    """A database on one host or several, and the transactions in it; used on one event loop alone."""

    def __init__(self, parameters: str) -> None:
        self._leader = Pool(parameters)
        several = "," in str(conninfo_to_dict(parameters).get("host", ""))
        self._any = (
            Pool(make_conninfo(parameters, target_session_attrs="any"), check=True)
            if several
            else None
        )
        self._seeking: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """How many calls wait for a connection."""
        return self._leader.waiting

    async def close(self) -> None:
        """Let go of every connection."""
        if self._seeking is not None:
            self._seeking.cancel()
        for pool in filter(None, (self._leader, self._any)):
            await pool.close()

    async def read(self, work: Work[T]) -> T:
        """Do work that sees one moment of the database and changes nothing. Raises Refused.

        While no host can be written to, as between the loss of a leader and the choice of another, any host that is
        there answers.
        """
        if self._seeking is None or self._any is None:
            try:
                return await _in_snapshot(self._leader, work)
            except Refused as error:
                if error.reason != "unavailable":
                    raise
                self._seek()
                if self._any is None:
                    raise
        return await _in_snapshot(self._any, work)

    @asynccontextmanager
    async def long_snapshot(self) -> AsyncGenerator[Connection]:
        """One moment of the database, for work that may take its time and takes rows in portions. Raises Refused."""
        async with self._leader.connection(None) as connection, connection.transaction():
            await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            await connection.execute("SET LOCAL statement_timeout = 0")
            await connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            yield connection

    async def write(self, namespace: str, work: Work[T]) -> T:
        """Do work in a transaction that no other change of the namespace runs beside. Raises Refused.

        One lock for each namespace, instead of locks of rows, leaves our own changes nothing to deadlock over; what
        somebody else's make PostgreSQL give up is tried again.
        """
        for tried in range(1, TRIES + 1):
            try:
                async with self._leader.connection() as connection:
                    return await _committed(connection, namespace, work)
            except Refused as error:
                if error.reason == "unavailable":
                    self._seek()
                if tried == TRIES or not _is_conflict(error):
                    raise
        raise AssertionError("the last try returns or raises")

    def _seek(self) -> None:
        if self._seeking is None:
            self._seeking = asyncio.get_running_loop().create_task(self._sought())

    async def _sought(self) -> None:
        """Use up connections that are lost, until one works."""
        while True:
            try:
                async with self._leader.connection() as connection:
                    await connection.execute("SELECT 1")
                break
            except Refused as error:
                if error.reason != "unavailable":
                    break
                await asyncio.sleep(0.1)
        self._seeking = None


async def _in_snapshot(pool: "Pool", work: Work[T]) -> T:
    async with pool.connection() as connection, connection.pipeline():
        await connection.execute(_SNAPSHOT)  # which travels with the first question
        result = await work(connection)
        await connection.execute("ROLLBACK")
        return result


async def _committed(connection: Connection, namespace: str, work: Work[T]) -> T:
    """Do work and commit it. Raises Refused("unavailable") where it is not known to be on every host that must have it.

    A commit that is interrupted while it waits for a standby (statement_timeout does so) is reported as done, with a
    warning: https://www.postgresql.org/docs/current/warm-standby.html#SYNCHRONOUS-REPLICATION-HA
    """
    warnings: list[psycopg.errors.Diagnostic] = []
    connection.add_notice_handler(warnings.append)
    try:
        async with connection.pipeline(), connection.transaction():
            await connection.execute(_LOCK, (f"abilities:{namespace}",))
            result = await work(connection)
            warnings.clear()
    finally:
        connection.remove_notice_handler(warnings.append)
    if warnings:
        _log.warning("a commit is in doubt: %s", warnings[0].message_primary)
        raise Refused("unavailable")
    return result


class Pool:
    """Connections to the first host that will do; the schema is there when the first one is given out.

    With ``check`` each is tried before it is given out, and replaced when it is lost.
    """

    def __init__(self, parameters: str, *, check: bool = False) -> None:
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
                check=AsyncConnectionPool.check_connection if check else None,
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
        """A connection that commits each statement. Raises Refused."""
        try:
            async with asyncio.timeout(seconds):
                if not self._ready:
                    await self._prepare()
                async with self._pool.connection() as connection:
                    yield connection
        except (psycopg.Error, PoolTimeout, PoolClosed, TimeoutError, OSError) as error:
            raise translate_postgres_error(error) from error

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
    number = await (
        await connection.execute("SELECT coalesce(max(number), 0) FROM version")
    ).fetchone()
    return int(number[0]) if number else 0


async def _index_words(connection: Connection) -> None:
    """An index for search, where the server has pg_trgm; without it search looks through a namespace."""
    try:
        async with connection.transaction():
            await connection.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm WITH SCHEMA public")
            await connection.execute(_WORDS)
    except psycopg.Error as error:
        _log.info("search has no index: %s", error)


def build_like_pattern(search: str) -> str:
    """A text as a LIKE pattern that holds it literally."""
    return "%" + re.sub(r"([\\%_])", r"\\\1", search) + "%"
