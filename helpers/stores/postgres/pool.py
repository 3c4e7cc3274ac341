"""A pool of connections to a PostgreSQL database whose schema is in place."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

import psycopg
from psycopg_pool import AsyncConnectionPool

from abilities.helpers.stores.postgres.errors import translate_postgres_error
from abilities.helpers.stores.postgres.migration import migrate
from abilities.helpers.stores.postgres.statements import Connection

MAX_CONNECTIONS = 8
WAIT_SECONDS = 5
"""Longest wait for a connection; a server that cannot be reached is reported within this time."""
LOCK_SECONDS = 3
STATEMENT_SECONDS = 5
CALL_SECONDS = 20.0
"""Longest time for a whole transaction, in case the connection is lost without an error."""
IDLE_SECONDS = 60
"""After this time an unused connection is closed; one always stays open."""

_SESSION_SETTINGS = f"""
SET search_path = abilities, public;
SET statement_timeout = '{STATEMENT_SECONDS}s';
SET lock_timeout = '{LOCK_SECONDS}s';
SET idle_in_transaction_session_timeout = '{4 * STATEMENT_SECONDS}s';
SET default_transaction_isolation = 'read committed';
SELECT set_config('synchronous_commit', 'on', false)
    WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')
"""
"""What every session sets. A weaker synchronous_commit could lose acknowledged changes."""


class Pool:
    """Connections to the first host that the connection string accepts.

    The schema is created, or brought forward, before the first connection is lent. With ``check``,
    every connection is tested before it is lent, and replaced if it is lost.
    """

    def __init__(self, conninfo: str, *, check: bool = False) -> None:
        check_connection = None
        if check:
            check_connection = AsyncConnectionPool.check_connection

        self._pool = cast(
            "AsyncConnectionPool[Connection]",
            AsyncConnectionPool(
                conninfo,
                open=False,
                min_size=1,  # a call after a quiet time need not wait for a connection
                max_size=MAX_CONNECTIONS,
                timeout=WAIT_SECONDS,
                max_idle=IDLE_SECONDS,
                reconnect_timeout=WAIT_SECONDS,
                kwargs={"autocommit": True},  # transactions are begun explicitly
                configure=_configure,
                check=check_connection,
            ),
        )
        self._opening = asyncio.Lock()
        self._is_open = False

    @property
    def waiting(self) -> int:
        """How many calls wait for a connection."""
        return self._pool.get_stats().get("requests_waiting", 0)

    async def close(self) -> None:
        """Close every connection."""
        await self._pool.close()

    @asynccontextmanager
    async def connection(self, seconds: float | None = CALL_SECONDS) -> AsyncGenerator[Connection]:
        """Lend a connection that commits each statement, for at most ``seconds``.

        Raises Refused for every error of the database or the network, those in the caller's block
        included.
        """
        try:
            async with asyncio.timeout(seconds):
                if not self._is_open:  # spares every later call the lock
                    await self._open()

                async with self._pool.connection() as connection:
                    yield connection
        except (psycopg.Error, OSError) as error:  # TimeoutError is an OSError
            raise translate_postgres_error(error) from error

    async def _open(self) -> None:
        """Connect and prepare the schema, once: calls that come in the meantime wait for it."""
        async with self._opening:
            if self._is_open:
                return

            await self._pool.open()
            async with self._pool.connection() as connection:
                await migrate(connection)
            self._is_open = True


async def _configure(connection: Connection) -> None:
    for statement in _SESSION_SETTINGS.split(";"):
        await connection.execute(statement.encode())
