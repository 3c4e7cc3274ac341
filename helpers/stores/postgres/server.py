"""Transactions in a PostgreSQL database, on one host or several."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import psycopg

from abilities.declarations.faults import Refused
from abilities.helpers.stores.postgres.conninfo import accept_any_host
from abilities.helpers.stores.postgres.errors import is_conflict
from abilities.helpers.stores.postgres.pool import Pool
from abilities.helpers.stores.postgres.statements import LOCK, Connection

ResultT = TypeVar("ResultT")
Work = Callable[[Connection], Awaitable[ResultT]]
"""What a transaction does on its connection. It may run more than once."""

MAX_ATTEMPTS = 4
"""How often a change is tried that PostgreSQL gives up because of another transaction."""
SEEK_SECONDS = 0.1
"""Between two attempts to find a leader."""

_BEGIN_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_log = logging.getLogger("abilities")


class Server:
    """A database on one host or several, and its transactions; used on one event loop only."""

    def __init__(self, conninfo: str) -> None:
        self._leader = Pool(conninfo)
        self._any_host: Pool | None = None
        self._seeking: asyncio.Task[None] | None = None

        any_host = accept_any_host(conninfo)
        if any_host is not None:
            self._any_host = Pool(any_host, check=True)

    @property
    def waiting(self) -> int:
        """How many calls wait for a connection."""
        return self._leader.waiting

    async def close(self) -> None:
        """Close every connection."""
        if self._seeking is not None:
            self._seeking.cancel()

        await self._leader.close()
        if self._any_host is not None:
            await self._any_host.close()

    async def read(self, work: Work[ResultT]) -> ResultT:
        """Do work that sees one snapshot of the database and changes nothing. Raises Refused.

        While no host accepts changes, for example between the loss of a leader and the choice of
        the next one, any host that can be reached answers.
        """
        # As long as the leader is sought, a read does not wait for it again.
        if self._any_host is None or self._seeking is None:
            try:
                return await _run_in_snapshot(self._leader, work)
            except Refused as error:
                if error.reason != "unavailable":
                    raise

                self._start_seeking()
                if self._any_host is None:
                    raise

        return await _run_in_snapshot(self._any_host, work)

    @asynccontextmanager
    async def long_snapshot(self) -> AsyncGenerator[Connection]:
        """Lend a connection that sees one snapshot, for work without a time limit. Raises Refused.

        Unlike in `read`, there is no pipeline, so that the work can fetch rows in portions.
        """
        async with self._leader.connection(None) as connection, connection.transaction():
            await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            await connection.execute("SET LOCAL statement_timeout = 0")
            await connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            yield connection

    async def write(self, namespace: str, work: Work[ResultT]) -> ResultT:
        """Do work in a transaction, the only one that changes the namespace. Raises Refused.

        One lock per namespace, instead of locks on rows, leaves our own changes nothing to deadlock
        over. Work that PostgreSQL gives up because of somebody else's transaction is tried again.
        """
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                async with self._leader.connection() as connection:
                    return await _run_and_commit(connection, namespace, work)
            except Refused as error:
                if error.reason == "unavailable":
                    self._start_seeking()
                if attempt == MAX_ATTEMPTS or not is_conflict(error):
                    raise

        raise AssertionError("the last attempt returns or raises")

    def _start_seeking(self) -> None:
        if self._seeking is None:
            self._seeking = asyncio.get_running_loop().create_task(self._seek_leader())

    async def _seek_leader(self) -> None:
        """Try connections until the leader answers; the pool replaces those that are lost."""
        while True:
            try:
                async with self._leader.connection() as connection:
                    await connection.execute("SELECT 1")
                break
            except Refused as error:
                if error.reason != "unavailable":
                    break
                await asyncio.sleep(SEEK_SECONDS)

        self._seeking = None


async def _run_in_snapshot(pool: Pool, work: Work[ResultT]) -> ResultT:
    # In a pipeline, BEGIN travels with the first statement of the work instead of costing a round
    # trip of its own.
    async with pool.connection() as connection, connection.pipeline():
        await connection.execute(_BEGIN_SNAPSHOT)
        result = await work(connection)
        await connection.execute("ROLLBACK")
        return result


async def _run_and_commit(connection: Connection, namespace: str, work: Work[ResultT]) -> ResultT:
    """Do work and commit it. Raises Refused("unavailable") if a required standby may not have it.

    PostgreSQL reports a commit as done, with a warning, if its wait for a standby is interrupted,
    for example by statement_timeout:
    https://www.postgresql.org/docs/current/warm-standby.html#SYNCHRONOUS-REPLICATION-HA
    """
    warnings: list[psycopg.errors.Diagnostic] = []
    connection.add_notice_handler(warnings.append)
    try:
        async with connection.pipeline(), connection.transaction():
            await LOCK.execute(connection, f"abilities:{namespace}")
            result = await work(connection)
            warnings.clear()  # those of the work; from here on they are the commit's
    finally:
        connection.remove_notice_handler(warnings.append)

    if warnings:
        _log.warning("a commit is in doubt: %s", warnings[0].message_primary)
        raise Refused("unavailable")

    return result
