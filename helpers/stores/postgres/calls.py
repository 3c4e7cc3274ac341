"""The calls of a store: each becomes a transaction on an event loop of the store's own."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from abilities.declarations.faults import Refused
from abilities.declarations.values import utc_now
from abilities.helpers.search.terms import Language
from abilities.helpers.stores.entries import StoreRules
from abilities.helpers.stores.originals import OriginalsFile, RepairReport
from abilities.helpers.stores.postgres import integrity, writes
from abilities.helpers.stores.postgres.accesses import AccessBuffer
from abilities.helpers.stores.postgres.changing import expire_memories
from abilities.helpers.stores.postgres.conninfo import build_conninfo
from abilities.helpers.stores.postgres.expiry import (
    FIRST_DUE,
    ExpiredMemory,
    MemoriesAreDueError,
)
from abilities.helpers.stores.postgres.loop import LoopThread
from abilities.helpers.stores.postgres.purging import clean_tables
from abilities.helpers.stores.postgres.repair import repair_store
from abilities.helpers.stores.postgres.server import Server, Work
from abilities.helpers.stores.postgres.statements import Connection
from abilities.helpers.stores.postgres.write_queue import WriteJob, WriteQueue
from abilities.helpers.stores.protocol import IntegrityFinding

Parameters = ParamSpec("Parameters")
ResultT = TypeVar("ResultT")

OPERATOR = ""
"""Whose turn it is with work on all namespaces, such as imports. No namespace has that name."""

ACCESS_SECONDS = 1.0
"""Time for which accesses are collected before they are written together."""

READ_SECONDS = 9.5
"""How long a read may take with all its waiting: a call is answered within 10 seconds."""

TURN_SECONDS = 9.0
"""How long a change waits until it begins; one that has begun is finished."""

EXPIRY_PAUSE_SECONDS = 10.0
"""After memories could not be archived, reads go on without that for so long."""

_log = logging.getLogger("abilities")


class Calls:
    """Reads and writes of one database, from any event loop and any thread."""

    def __init__(self, url: str, language: Language, rules: StoreRules) -> None:
        self._rules = rules
        self.loop = LoopThread()
        self.server = Server(build_conninfo(url), language)
        self._queue = WriteQueue(self.server, self.loop.start_task)
        self._accesses = AccessBuffer()
        self._has_flush = False  # whether a task will write the accesses; set on the loop only
        self._has_cleaning = False  # the same for the cleaning of tables
        self._no_expiry_until = 0.0

    @property
    def queue_size(self) -> int:
        """How many calls wait."""
        return len(self._queue) + self.server.waiting

    async def prepare(self) -> None:
        """Open the database, however long that takes. Raises Refused."""
        await self.loop.run(self.server.prepare())

    async def probe(self) -> None:
        """Check that a host answers to more connections than those in use. Raises Refused."""
        await self.loop.run(self.server.probe())

    async def read(
        self,
        whose: str,
        function: Callable[Concatenate[Connection, Parameters], Awaitable[ResultT]],
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> ResultT:
        """Call a function with a connection that sees one snapshot, and with the arguments.

        ``whose`` is the namespace whose turn it takes; its memories that have expired are archived
        first. If that cannot be done, the read goes on without it.
        """

        def work(connection: Connection) -> Awaitable[ResultT]:
            return function(connection, *args, **kwargs)

        if whose == OPERATOR or time.monotonic() < self._no_expiry_until:
            return await self.read_within(READ_SECONDS, whose, work)

        end = time.monotonic() + READ_SECONDS
        now = utc_now()
        try:
            return await self.read_within(READ_SECONDS, whose, work, now=now)
        except MemoriesAreDueError:
            await self._try_to_expire(whose, now, end)

        return await self.read_within(end - time.monotonic(), whose, work)

    async def read_within(
        self, seconds: float, whose: str, work: Work[ResultT], *, now: str | None = None
    ) -> ResultT:
        """Do work that sees one snapshot. Raises Refused: timeout after some seconds, and others.

        With ``now``, it raises MemoriesAreDueError if memories of the namespace expired by then.

        The caller does not wait until a late read has ended: its statement is cancelled, and if the
        server does not answer to that, its connection is closed.
        """
        try:
            async with asyncio.timeout(seconds):
                return await self.loop.run(self.server.read(whose, work, now=now))
        except TimeoutError:
            raise Refused("timeout") from None

    async def write_current(
        self,
        namespace: str,
        now: str,
        work: Callable[..., Awaitable[ResultT]],
        *,
        size: int = 1,
    ) -> ResultT:
        """Queue changes as `write`, after the memories that expired by ``now`` were archived.

        ``work`` takes ``ignore_due``.
        """
        try:
            return await self.write(namespace, work, size=size)
        except MemoriesAreDueError:
            await self._expire(namespace, now)

        return await self.write(namespace, partial(work, ignore_due=True), size=size)

    async def write(
        self, namespace: str, work: Work[ResultT], *, size: int = 1, is_patient: bool = False
    ) -> ResultT:
        """Queue a change and wait for it. Cancelling the wait does not cancel the change.

        ``size`` is how many changes it consists of. Raises Refused("busy") if it has not begun
        after `TURN_SECONDS`, unless the caller is patient; then it never begins.
        """
        # The queue works on another loop, so the future must be one that crosses threads.
        done: Future[ResultT] = Future()
        self.loop.call_soon(self._queue.add, namespace, WriteJob(work, done, size))

        waiting = asyncio.wrap_future(done)
        if not is_patient:
            await asyncio.wait([waiting], timeout=TURN_SECONDS)
            if not waiting.done() and done.cancel():
                raise Refused("busy")

        return await asyncio.shield(waiting)

    async def _expire(self, namespace: str, now: str) -> None:
        """Archive the memories that expired by ``now``, some in each transaction."""
        after: ExpiredMemory | None = FIRST_DUE
        while after is not None:
            work = partial(
                expire_memories,
                namespace=namespace,
                now=now,
                after=after,
                rules=self._rules,
            )
            after = await self.write(namespace, work)

    async def _try_to_expire(self, namespace: str, now: str, end: float) -> None:
        """Archive what expired as long as there is time for it, for a read."""
        try:
            async with asyncio.timeout((end - time.monotonic()) / 2):
                await self._expire(namespace, now)
        except (Refused, TimeoutError):
            self._no_expiry_until = time.monotonic() + EXPIRY_PAUSE_SECONDS

    async def check(self, progress: Callable[[int], None]) -> list[IntegrityFinding]:
        """Check a snapshot, on a loop and a connection of its own, so that other calls go on."""
        loop = LoopThread()
        try:
            return await loop.run(self._check(progress))
        finally:
            await loop.stop()

    async def _check(self, progress: Callable[[int], None]) -> list[IntegrityFinding]:
        async with self.server.long_snapshot() as connection:
            return await integrity.check_store(connection, progress)

    async def repair(
        self, originals_path: Path, progress: Callable[[int], None], *, dry_run: bool
    ) -> RepairReport:
        """Mend the store if it is damaged. Raises FileExistsError, OSError, Refused."""
        return await self.loop.run(self._repair(originals_path, progress, dry_run=dry_run))

    async def _repair(
        self, originals_path: Path, progress: Callable[[int], None], *, dry_run: bool
    ) -> RepairReport:
        findings = await self._check(progress)
        report = RepairReport([finding for finding in findings if finding.state == "damaged"])
        if report.damage:
            path = None if dry_run else originals_path
            with closing(OriginalsFile(path)) as originals:
                await repair_store(
                    self.server, originals, report, progress, self._rules, dry_run=dry_run
                )

        return report

    def count_access(self, namespace: str, key: str, now: str) -> None:
        """Count an access to a memory soon; never raises and never waits."""
        self._accesses.add(namespace, key, now)
        self.loop.call_soon(self._start_flush)

    def _start_flush(self) -> None:
        if not self._has_flush:
            self._has_flush = True
            self.loop.start_task(self._flush_later())

    async def _flush_later(self) -> None:
        await asyncio.sleep(ACCESS_SECONDS)

        # An access from now on may come too late for this task, so it may start the next one.
        self._has_flush = False
        await self._flush_accesses()

    async def flush_accesses(self) -> None:
        """Write the accesses that were counted so far."""
        await self.loop.run(self._flush_accesses())

    async def _flush_accesses(self) -> None:
        by_namespace = self._accesses.take()
        for namespace, accesses in by_namespace.items():
            work = partial(
                writes.count_accesses,
                namespace=namespace,
                accesses=accesses,
            )

            # Counting is best effort, and the error is in the log.
            with suppress(Refused):
                await self.server.write(namespace, work)

    def clean_soon(self) -> None:
        """Remove soon what was purged from where no query reads it; never raises or waits."""
        self.loop.call_soon(self._start_cleaning)

    def _start_cleaning(self) -> None:
        if not self._has_cleaning:
            self._has_cleaning = True
            self.loop.start_task(self._clean())

    async def _clean(self) -> None:
        # What is purged from now on may come too late for this task.
        self._has_cleaning = False
        try:
            async with self.server.own_connection() as connection:
                await clean_tables(connection)
        except Refused as refused:
            _log.warning("tables were not cleaned after a purge: %s", refused.reason)

    async def close(self) -> None:
        """Finish what has begun, and close every connection."""
        if not self.loop.is_started:
            return

        await self.loop.run(self._finish())
        await self.loop.stop()

    async def _finish(self) -> None:
        # First the changes that were begun, then the accesses that they did not wait for.
        await self.loop.finish_tasks()
        await self._flush_accesses()
        await self.server.close()
