"""The transactions of a PostgreSQL database on one or several hosts, and the queue of changes."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import psycopg

from abilities.declarations.refusals import Refused
from abilities.helpers.search.terms import Language
from abilities.helpers.store import migration
from abilities.helpers.store.engine import MemoriesDue, Transaction, Work
from abilities.helpers.store.mending import mend_namespace
from abilities.helpers.store.postgres.pool import Pool, accept_any_host
from abilities.helpers.store.postgres.transaction import (
    Connection,
    PostgresTransaction,
    is_conflict,
    lock,
    translate_for_read,
)
from abilities.helpers.threads.turns import TurnSlots
from abilities.helpers.threads.workers import Call, settle_all

ResultT = TypeVar("ResultT")

MAX_ATTEMPTS = 4
"""How often a change is tried if PostgreSQL aborts it because of another transaction."""
SEEK_SECONDS = 0.1
READS = 6
"""The most reads at the same time; the other connections are for changes."""
OWN_READS = 4
MAX_BATCH = 64
"""The most changes per transaction, so that other processes get a turn within a second."""
BATCH_SECONDS = 0.5
"""The time after which a transaction takes no further changes, so that slow ones do not add up.

A whole transaction has 20 s (`pool.CALL_SECONDS`), and other processes wait 3 s for the namespace's
lock.
"""

_BEGIN_READ = b"SELECT abilities.begin_read(%s, %s, %s)"
"""Checks the version, and returns whether any memories of a namespace have expired by a time."""
_BEGIN_WRITE = b"""
SELECT pg_advisory_xact_lock(hashtextextended(%s, 0)), abilities.expect_version(%s)
"""

_log = logging.getLogger("abilities")


class Server:
    """A database on one or several hosts. It must be used on one event loop only."""

    def __init__(self, conninfo: str, language: Language) -> None:
        self.leader = Pool(conninfo, language)
        self._any_host: Pool | None = None
        self._seeking: asyncio.Task[None] | None = None
        self._slots = TurnSlots(READS, OWN_READS)

        any_host = accept_any_host(conninfo)
        if any_host is not None:
            self._any_host = Pool(any_host, language, check=True)

    @property
    def waiting(self) -> int:
        """The number of calls that wait for a connection."""
        return self.leader.waiting + len(self._slots)

    async def close(self) -> None:
        """Close every connection."""
        if self._seeking is not None:
            self._seeking.cancel()

        await self.leader.close()
        if self._any_host is not None:
            await self._any_host.close()

    async def read(self, namespace: str, work: Work[ResultT], *, now: str | None = None) -> ResultT:
        """Do work that reads one snapshot of the database. Raises Refused.

        Namespaces take turns. While no host accepts changes, for example after the loss of a
        leader, any host that can be reached answers. With ``now``, it raises MemoriesDue if
        memories of the namespace have expired by then.
        """
        async with self._slots.take(namespace):
            # While the leader is being sought, a read does not wait for it again.
            if self._any_host is None or self._seeking is None:
                try:
                    return await _run_in_snapshot(self.leader, namespace, work, now)
                except Refused as error:
                    if error.reason != "unavailable":
                        raise

                    self._start_seeking()
                    if self._any_host is None:
                        raise

            return await _run_in_snapshot(self._any_host, namespace, work, now)

    async def probe(self) -> None:
        """Check that a host accepts one more connection. Raises Refused."""
        try:
            await self.leader.probe()
        except Refused as error:
            if error.reason != "unavailable" or self._any_host is None:
                raise
            await self._any_host.probe()

    @asynccontextmanager
    async def long_snapshot(self) -> AsyncGenerator[Connection]:
        """Make a connection that reads one snapshot without a time limit. Raises Refused.

        The pool must be prepared. The connection is a separate one, so any event loop may be used.
        Unlike in `read`, there is no pipeline, so that the work can fetch rows in portions.
        """
        async with self.leader.own_connection() as connection, connection.transaction():
            await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            await connection.execute("SET LOCAL statement_timeout = 0")
            await connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            await _expect_version(connection)
            yield connection

    @asynccontextmanager
    async def long_write(self, namespace: str, *, dry_run: bool) -> AsyncGenerator[Transaction]:
        """Begin the only transaction that changes a namespace, without a time limit.

        It is committed at the end of the block, unless it is a dry run. The pool must be prepared.
        This is for repairs, which may move the memories of a namespace with an impossible name to
        another one; therefore both are locked. Raises Refused.
        """
        async with (
            self.leader.own_connection() as connection,
            connection.transaction(force_rollback=dry_run),
        ):
            for setting in ("statement", "lock", "idle_in_transaction_session"):
                await connection.execute(f"SET LOCAL {setting}_timeout = 0".encode())
            await _begin_write(connection, namespace)
            if mend_namespace(namespace) != namespace:
                await lock(connection, f"abilities:{mend_namespace(namespace)}")
            yield PostgresTransaction(connection)

    async def write(self, namespace: str, work: Work[ResultT]) -> ResultT:
        """Do work in the only transaction that changes the namespace. Raises Refused.

        One lock per namespace, instead of locks on rows, prevents deadlocks among our own changes.
        Work that PostgreSQL aborts because of a foreign transaction is tried again.
        """
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                async with self.leader.connection() as connection:
                    return await _run_and_commit(connection, namespace, work)
            except Refused as error:
                if error.reason == "unavailable":
                    self._start_seeking()
                if attempt == MAX_ATTEMPTS or not is_conflict(error):
                    raise

        raise AssertionError("the last attempt returns or raises")

    def _start_seeking(self) -> None:
        """Try connections until the leader answers; the pool replaces lost connections."""

        async def seek_leader() -> None:
            while True:
                try:
                    async with self.leader.connection() as connection:
                        await connection.execute("SELECT 1")
                    break
                except Refused as error:
                    if error.reason != "unavailable":
                        break
                    await asyncio.sleep(SEEK_SECONDS)

            self._seeking = None

        if self._seeking is None:
            self._seeking = asyncio.get_running_loop().create_task(seek_leader())


async def _run_in_snapshot(
    pool: Pool, namespace: str, work: Work[ResultT], now: str | None
) -> ResultT:
    """Do work that reads. With ``now``, raises MemoriesDue after it, even if it raised Refused."""
    # All statements of a pipeline are one transaction without BEGIN and COMMIT, and the check of
    # the version is sent together with the first statement of the work:
    # https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-PIPELINING
    try:
        async with pool.connection() as connection, connection.pipeline():
            if now is None:
                await _expect_version(connection)
                return await work(PostgresTransaction(connection))

            values = (migration.VERSION, namespace, now)
            beginning = await connection.execute(_BEGIN_READ, values)
            result: ResultT | Refused
            try:
                result = await work(PostgresTransaction(connection))
            except Refused as error:
                result = error

            ((has_due,),) = await beginning.fetchall()
            if has_due:
                raise MemoriesDue
            if isinstance(result, Refused):
                raise result
            return result
    except Refused as error:
        raise translate_for_read(error) from error.__cause__


async def _run_and_commit(connection: Connection, namespace: str, work: Work[ResultT]) -> ResultT:
    """Do work and commit it. Raises Refused("unavailable") if a required standby may not have it.

    If the wait for a standby is interrupted, for example by statement_timeout, PostgreSQL reports
    the commit as done, with a warning:
    https://www.postgresql.org/docs/current/warm-standby.html#SYNCHRONOUS-REPLICATION-HA
    """
    warnings: list[psycopg.errors.Diagnostic] = []
    connection.add_notice_handler(warnings.append)
    try:
        async with connection.pipeline(), connection.transaction():
            await _begin_write(connection, namespace)
            result = await work(PostgresTransaction(connection))
            warnings.clear()  # from here on, all warnings are about the commit
    finally:
        connection.remove_notice_handler(warnings.append)

    if warnings:
        _log.warning("a commit is in doubt: %s", warnings[0].message_primary)
        raise Refused("unavailable")

    return result


async def _expect_version(connection: Connection) -> None:
    """Begin a transaction that reads. It fails if the store has another version."""
    await connection.execute("SELECT abilities.expect_version(%s)", (migration.VERSION,))


async def _begin_write(connection: Connection, namespace: str) -> None:
    """Begin the only transaction that changes a namespace; it fails like `_expect_version`."""
    await connection.execute(_BEGIN_WRITE, (f"abilities:{namespace}", migration.VERSION))


class WriteCall(Call[Work[ResultT], ResultT]):
    """A change that waits for its namespace, or ``size`` changes that share a transaction."""

    def __init__(self, work: Work[ResultT], size: int) -> None:
        super().__init__(work)
        self.size = size


class WriteQueue:
    """The changes of a store, which share transactions per namespace.

    A namespace has a list of jobs exactly as long as a task works on them. The first job makes the
    list and starts the task; later jobs are appended. The task runs jobs from the front in one
    transaction: up to `MAX_BATCH` changes, or a single job with more. The jobs stay in the list,
    and count as waiting, until the transaction has ended. When the list is empty, the task removes
    it and ends; nothing is awaited in between, so no job can be appended to a list without a task.

    So a namespace has one transaction at a time, which its lock in the database would enforce
    anyway, and namespaces do not wait for each other. All of this happens on one event loop and
    needs no lock; only `len` may be called from another thread.
    """

    def __init__(
        self, server: Server, start_task: Callable[[Coroutine[object, object, None]], None]
    ) -> None:
        self._server = server
        self._start_task = start_task
        self._jobs: dict[str, list[WriteCall[Any]]] = {}

    def __len__(self) -> int:
        """Return the number of changes that wait or are being made."""
        return sum(len(jobs) for jobs in list(self._jobs.values()))

    def add(self, namespace: str, job: WriteCall[Any]) -> None:
        """Append a job, and start a task if the namespace has none."""
        if namespace in self._jobs:
            self._jobs[namespace].append(job)
            return

        self._jobs[namespace] = [job]
        self._start_task(self._run_jobs(namespace))

    async def _run_jobs(self, namespace: str) -> None:
        jobs = self._jobs[namespace]
        while jobs:
            batch: list[WriteCall[Any]] = []
            size = 0
            for job in jobs:
                size += job.size
                if batch and size > MAX_BATCH:
                    break
                batch.append(job)

            results = await self._run_batch(namespace, batch)

            del jobs[: len(results)]
            settle_all(batch[: len(results)], results)

        del self._jobs[namespace]

    async def _run_batch(self, namespace: str, batch: Sequence[WriteCall[Any]]) -> list[object]:
        """Run jobs in one transaction; return the results or exceptions of those that were run."""

        async def run_each(transaction: Transaction) -> list[object]:
            results: list[object] = []
            end = time.monotonic() + BATCH_SECONDS

            for job in batch:
                if results and time.monotonic() >= end:
                    break

                if job.begin(self):  # in a savepoint, so that a failure does not affect the others
                    results.append(await transaction.attempt(job.work))
                else:
                    results.append(None)  # its caller no longer waits

            return results

        try:
            return await self._server.write(namespace, run_each)
        except Exception as error:  # of any kind: the callers wait, and the task must go on
            is_of_one_job = not isinstance(error, Refused) or error.reason == "storage_error"
            if len(batch) == 1 or not is_of_one_job:
                return [error] * len(batch)

        # One of the jobs may have caused the error; run separately, only that one fails.
        alone: list[object] = []
        for job in batch:
            alone += await self._run_batch(namespace, [job])

        return alone
