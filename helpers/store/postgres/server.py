"""Transactions in a PostgreSQL database, on one host or several.

The changes that wait for a transaction, and the tasks that make them.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import psycopg

from abilities.declarations.refusals import Refused
from abilities.helpers.search.terms import Language
from abilities.helpers.store import migration
from abilities.helpers.store.engine import MemoriesDue, Work
from abilities.helpers.store.mending import mend_namespace
from abilities.helpers.store.postgres.errors import is_conflict, translate_for_read
from abilities.helpers.store.postgres.pool import Pool, accept_any_host
from abilities.helpers.store.postgres.transaction import Connection, PostgresTransaction, lock
from abilities.helpers.store.transaction import Transaction
from abilities.helpers.threads.turns import TurnSlots
from abilities.helpers.threads.workers import Call, settle_all

ResultT = TypeVar("ResultT")

MAX_ATTEMPTS = 4
"""How often a change is tried that PostgreSQL gives up because of another transaction."""
SEEK_SECONDS = 0.1
"""Between two attempts to find a leader."""
READS = 6
"""Reads that run at a time; the other connections are for changes."""
OWN_READS = 4
"""Reads of one namespace at a time."""

_BEGIN_READ = b"SELECT abilities.begin_read(%s, %s, %s)"
"""Expect a version, and return whether memories of a namespace expired by a time."""
_BEGIN_WRITE = b"""
SELECT pg_advisory_xact_lock(hashtextextended(%s, 0)), abilities.expect_version(%s)
"""
"""Wait for the lock of a name, then expect a version."""

_log = logging.getLogger("abilities")


class Server:
    """A database on one host or several, and its transactions; used on one event loop only."""

    def __init__(self, conninfo: str, language: Language) -> None:
        self._leader = Pool(conninfo, language)
        self._any_host: Pool | None = None
        self._seeking: asyncio.Task[None] | None = None
        self._slots = TurnSlots(READS, OWN_READS)

        any_host = accept_any_host(conninfo)
        if any_host is not None:
            self._any_host = Pool(any_host, language, check=True)

    @property
    def waiting(self) -> int:
        """How many calls wait for a connection."""
        return self._leader.waiting + len(self._slots)

    async def prepare(self) -> None:
        """Connect to the leader and bring the schema forward, however long it takes."""
        await self._leader.prepare()

    async def close(self) -> None:
        """Close every connection."""
        if self._seeking is not None:
            self._seeking.cancel()

        await self._leader.close()
        if self._any_host is not None:
            await self._any_host.close()

    async def read(self, namespace: str, work: Work[ResultT], *, now: str | None = None) -> ResultT:
        """Do work that sees one snapshot of the database and changes nothing. Raises Refused.

        With ``now``, it raises MemoriesDue if memories of the namespace expired by then.

        Namespaces take turns. While no host accepts changes, for example between the loss of a
        leader and the choice of the next one, any host that can be reached answers.
        """
        async with self._slots.take(namespace):
            return await self._read(namespace, work, now)

    async def _read(self, namespace: str, work: Work[ResultT], now: str | None) -> ResultT:
        # As long as the leader is sought, a read does not wait for it again.
        if self._any_host is None or self._seeking is None:
            try:
                return await _run_in_snapshot(self._leader, namespace, work, now)
            except Refused as error:
                if error.reason != "unavailable":
                    raise

                self._start_seeking()
                if self._any_host is None:
                    raise

        return await _run_in_snapshot(self._any_host, namespace, work, now)

    async def probe(self) -> None:
        """Check that a host answers to more connections than those in use. Raises Refused."""
        try:
            await self._leader.probe()
        except Refused as error:
            if error.reason != "unavailable" or self._any_host is None:
                raise
            await self._any_host.probe()

    @asynccontextmanager
    async def long_snapshot(self) -> AsyncGenerator[Connection]:
        """Make a connection that sees one snapshot, for work without a time limit. Raises Refused.

        The pool must be prepared; the connection is none of its own, so any loop may be used.
        Unlike in `read`, there is no pipeline, so that the work can fetch rows in portions.
        """
        async with self._leader.own_connection() as connection, connection.transaction():
            await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            await connection.execute("SET LOCAL statement_timeout = 0")
            await connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            await _expect_version(connection)
            yield connection

    @asynccontextmanager
    async def long_write(self, namespace: str, *, dry_run: bool) -> AsyncGenerator[Transaction]:
        """Begin a transaction that alone changes a namespace, without a time limit. Raises Refused.

        It is committed with the end of the block, unless it is a dry run. The pool must be
        prepared. It is for repairs, by which the memories of a namespace with an impossible name
        move to another one.
        """
        async with (
            self._leader.own_connection() as connection,
            connection.transaction(force_rollback=dry_run),
        ):
            for setting in ("statement", "lock", "idle_in_transaction_session"):
                await connection.execute(f"SET LOCAL {setting}_timeout = 0".encode())
            await _begin_write(connection, namespace)
            if mend_namespace(namespace) != namespace:
                await lock(connection, f"abilities:{mend_namespace(namespace)}")
            yield PostgresTransaction(connection)

    def own_connection(self) -> AbstractAsyncContextManager[Connection]:
        """Make a connection that commits each statement, for one that no transaction may hold.

        The pool must be prepared. Raises Refused.
        """
        return self._leader.own_connection()

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


async def _run_in_snapshot(
    pool: Pool, namespace: str, work: Work[ResultT], now: str | None
) -> ResultT:
    # All statements of a pipeline are one transaction, without a BEGIN or an end of their own, and
    # the check of the version travels with the first statement of the work:
    # https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-PIPELINING
    try:
        async with pool.connection() as connection, connection.pipeline():
            if now is None:
                await _expect_version(connection)
                return await work(PostgresTransaction(connection))

            return await _run_unless_due(connection, namespace, work, now)
    except Refused as error:
        raise translate_for_read(error) from error.__cause__


async def _run_unless_due(
    connection: Connection, namespace: str, work: Work[ResultT], now: str
) -> ResultT:
    """Do work. Raises MemoriesDue after it, even if the work raised Refused."""
    beginning = await connection.execute(_BEGIN_READ, (migration.VERSION, namespace, now))
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
            await _begin_write(connection, namespace)
            result = await work(PostgresTransaction(connection))
            warnings.clear()  # those of the work; from here on they are the commit's
    finally:
        connection.remove_notice_handler(warnings.append)

    if warnings:
        _log.warning("a commit is in doubt: %s", warnings[0].message_primary)
        raise Refused("unavailable")

    return result


async def _expect_version(connection: Connection) -> None:
    """Begin a transaction that reads; it fails if the store has another version, schema_too_new."""
    await connection.execute("SELECT abilities.expect_version(%s)", (migration.VERSION,))


async def _begin_write(connection: Connection, namespace: str) -> None:
    """Begin the transaction that alone changes a namespace; it fails as `_expect_version` does."""
    await connection.execute(_BEGIN_WRITE, (f"abilities:{namespace}", migration.VERSION))


MAX_BATCH = 64
"""Changes per transaction: few enough that another process has its turn within a second."""

BATCH_SECONDS = 0.5
"""After that long a transaction takes no further change, so that slow ones do not add up.

All together have 20 s (`pool.CALL_SECONDS`), and other processes wait 3 s for the namespace's lock.
"""


class WriteCall(Call[Work[ResultT], ResultT]):
    """A change that waits for its namespace, or ``size`` changes that share a transaction."""

    def __init__(self, work: Work[ResultT], size: int) -> None:
        super().__init__(work)
        self.size = size


class WriteQueue:
    """The changes of a store, which share transactions per namespace.

    A namespace has a list of jobs exactly as long as a task works on them:

    - Its first job makes the list and starts the task. Later jobs are appended.
    - The task runs jobs from the front of the list in one transaction, of up to `MAX_BATCH` changes
      together or a single larger one, and begins none of them after `BATCH_SECONDS`. They stay in
      the list, and count as waiting, until the transaction has ended. Then each that ran gets its
      result.
    - When the list is empty, the task removes it and ends. Nothing is awaited in between, so no job
      can be appended to a list that has lost its task.

    So a namespace has one transaction at a time, as its lock in the database would have it anyway,
    and namespaces do not wait for each other. All of this happens on one event loop, so nothing
    here needs a lock; only `len` may be called from another thread.
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
        """Run a namespace's jobs until there are none left."""
        jobs = self._jobs[namespace]
        while jobs:
            batch = _take_batch(jobs)
            results = await self._run_batch(namespace, batch)

            del jobs[: len(results)]
            settle_all(batch[: len(results)], results)

        del self._jobs[namespace]

    async def _run_batch(self, namespace: str, batch: Sequence[WriteCall[Any]]) -> list[object]:
        """Run jobs in one transaction; return a result or an exception for each that was run."""
        try:
            return await self._server.write(namespace, partial(self._run_each, batch))
        except Exception as error:  # of any kind: the callers wait, and the task must go on
            if len(batch) == 1 or not _may_concern_one_job(error):
                return [error] * len(batch)

        # One of the jobs may have caused it: then that one fails alone.
        alone: list[object] = []
        for job in batch:
            alone += await self._run_batch(namespace, [job])

        return alone

    async def _run_each(
        self, batch: Sequence[WriteCall[Any]], transaction: Transaction
    ) -> list[object]:
        """Run each job in a savepoint of its own, so that one that fails leaves the others alone.

        When time is over, the jobs that are left are not run. The first always is.
        """
        results: list[object] = []
        end = time.monotonic() + BATCH_SECONDS

        for job in batch:
            if results and time.monotonic() >= end:
                break

            if not job.begin(self):
                results.append(None)  # which nobody waits for
                continue

            result = await transaction.attempt(job.work)
            results.append(result)

        return results


def _take_batch(jobs: Sequence[WriteCall[Any]]) -> list[WriteCall[Any]]:
    """Return the first jobs of up to `MAX_BATCH` changes together, at least one."""
    batch: list[WriteCall[Any]] = []
    size = 0
    for job in jobs:
        size += job.size
        if batch and size > MAX_BATCH:
            break

        batch.append(job)

    return batch


def _may_concern_one_job(error: Exception) -> bool:
    """Return whether an error that ended a transaction may be caused by one of its jobs."""
    return not isinstance(error, Refused) or error.reason == "storage_error"
