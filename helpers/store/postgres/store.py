"""The store for those who outgrow one machine: a database that any number of processes share.

The engine for those who outgrow one machine: transactions on an event loop of its own.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from typing_extensions import override

from abilities.declarations.refusals import Refused
from abilities.helpers.search.terms import Language
from abilities.helpers.store.checking import check_rows
from abilities.helpers.store.engine import OPERATOR, Engine, Work
from abilities.helpers.store.history import HistoryLimits
from abilities.helpers.store.mending import OriginalsFile, RepairReport, name_originals
from abilities.helpers.store.past import StoreRules
from abilities.helpers.store.postgres.pool import build_conninfo
from abilities.helpers.store.postgres.server import Server, WriteCall, WriteQueue
from abilities.helpers.store.postgres.transaction import PostgresTransaction
from abilities.helpers.store.protocol import IntegrityFinding
from abilities.helpers.store.reads import AccessBuffer, count_accesses
from abilities.helpers.store.repairing import repair_rows
from abilities.helpers.store.store import SqlStore
from abilities.helpers.store.transaction import Transaction
from abilities.helpers.threads.loops import LoopThread

ResultT = TypeVar("ResultT")

ACCESS_SECONDS = 1.0
"""Time for which accesses are collected before they are written together."""

TURN_SECONDS = 9.0
"""How long a change waits until it begins; one that has begun is finished."""

PING_SECONDS = 0.5
"""How long a ping waits for a connection that others use, before it makes one of its own."""

CLEANED_TABLES = (
    "memories",
    "links",
    "link_counts",
    "stale_ranks",
    "shelf",
    "tags",
    "counters",
    "words",
    "recall_terms",
    "recall_recent",
    "history",
)
"""The tables that had something of a purged memory."""

# Index entries of rows that are gone are left in place otherwise, if they are few; and statistics
# hold common values. What a transaction may still see stays, and so does what free space holds
# until it is reused.
_CLEAN = f"VACUUM (ANALYZE, INDEX_CLEANUP ON, SKIP_LOCKED) {', '.join(CLEANED_TABLES)}"

_log = logging.getLogger("abilities")


class PostgresEngine(Engine):
    """A database that any number of processes share. Connections are made when first needed.

    They belong to an event loop on a thread of the engine's own, so that calls may come from any
    loop. ``language`` is that of the recall index if the store is created or has none yet. Raises
    ValueError for a URL that libpq cannot read.
    """

    def __init__(self, url: str, language: Language) -> None:
        self.loop = LoopThread("abilities-store", "the store")
        self.server = Server(build_conninfo(url), language)
        self._queue = WriteQueue(self.server, self.loop.start_task)
        self._accesses = AccessBuffer()
        self._has_flush = False  # whether a task will write the accesses; set on the loop only
        self._has_cleaning = False  # the same for the cleaning of tables

    @property
    @override
    def queue_size(self) -> int:
        return len(self._queue) + self.server.waiting

    @override
    async def prepare(self) -> None:
        await self.loop.run(self.server.prepare)

    @override
    async def ping(self) -> None:
        try:
            await self.read(OPERATOR, _find_nothing, PING_SECONDS)
        except Refused as refused:
            if refused.reason != "timeout":
                raise
            await self.loop.run(self.server.probe)

    @override
    async def read(
        self,
        whose: str,
        work: Work[ResultT],
        seconds: float,
        *,
        now: str | None = None,
    ) -> ResultT:
        """Do work as `Engine.read` says.

        The caller does not wait until a late read has ended: its statement is cancelled, and if the
        server does not answer to that, its connection is closed.
        """
        try:
            async with asyncio.timeout(seconds):
                return await self.loop.run(partial(self.server.read, whose, work, now=now))
        except TimeoutError:
            raise Refused("timeout") from None

    @override
    async def write(
        self, namespace: str, work: Work[ResultT], *, size: int = 1, is_patient: bool = False
    ) -> ResultT:
        call = WriteCall(work, size)
        self.loop.call_soon(self._queue.add, namespace, call)
        return await call.wait(None if is_patient else TURN_SECONDS)

    @override
    async def check(self, progress: Callable[[int], None], *, full: bool) -> list[IntegrityFinding]:
        """Check a snapshot, on a loop and a connection of its own, so that other calls go on.

        ``full`` changes nothing: the inside of an index is PostgreSQL's own to check (pg_amcheck).
        """
        await self.prepare()
        loop = LoopThread("abilities-store", "a check of the store")
        try:
            return await loop.run(partial(self._check, progress))
        finally:
            await loop.stop()

    async def _check(self, progress: Callable[[int], None]) -> list[IntegrityFinding]:
        async with self.server.long_snapshot() as connection:
            return await check_rows(PostgresTransaction(connection), progress)

    async def repair(
        self,
        originals_path: Path,
        progress: Callable[[int], None],
        limits: HistoryLimits,
        *,
        dry_run: bool,
    ) -> RepairReport:
        """Mend the store if it is damaged. Raises FileExistsError, OSError, Refused."""
        findings = await self.check(progress, full=True)
        report = RepairReport([finding for finding in findings if finding.state == "damaged"])
        if report.damage:
            begin = partial(self.server.long_write, dry_run=dry_run)
            with closing(OriginalsFile(None if dry_run else originals_path)) as originals:
                mend = partial(repair_rows, begin, originals, report, progress, limits)
                await self.loop.run(mend)

        return report

    @override
    def count_access(self, namespace: str, key: str, now: str) -> None:
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

    @override
    async def flush_accesses(self) -> None:
        await self.loop.run(self._flush_accesses)

    async def _flush_accesses(self) -> None:
        by_namespace = self._accesses.take()
        for namespace, accesses in by_namespace.items():
            work = partial(count_accesses, namespace=namespace, accesses=accesses)

            # Counting is best effort, and the error is in the log.
            with suppress(Refused):
                await self.server.write(namespace, work)

    @override
    async def clean(self) -> None:
        """Do as `Engine.clean` says, soon: vacuuming takes long, and nobody waits for it."""
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
                await connection.execute("SET statement_timeout = 0")
                await connection.execute(_CLEAN.encode())
        except Refused as refused:
            _log.warning("tables were not cleaned after a purge: %s", refused.reason)

    @override
    async def close(self) -> None:
        if not self.loop.is_started:
            return

        await self.loop.run(self._finish)
        await self.loop.stop()

    async def _finish(self) -> None:
        # First the changes that were begun, then the accesses that they did not wait for.
        await self.loop.finish_tasks()
        await self._flush_accesses()
        await self.server.close()


async def _find_nothing(transaction: Transaction) -> None:
    """Let the transaction of a read begin and end."""


class PostgresStore(SqlStore):
    """A store in PostgreSQL. Connections are made when they are first needed.

    ``max_memories`` is the most that one namespace may hold; None sets no limit. ``language`` is
    that of the recall index if the store is created or has none yet. ``history`` says what the
    store keeps of what its changes replaced. Raises ValueError for a URL that libpq cannot read.
    """

    def __init__(
        self,
        url: str,
        *,
        max_memories: int | None = None,
        language: Language | None = None,
        history: HistoryLimits = HistoryLimits(),  # noqa: B008 - it is immutable
    ) -> None:
        self.engine = PostgresEngine(url, language or Language())
        super().__init__(self.engine, StoreRules(max_memories, history))

    async def repair(
        self, originals: Path | None, progress: Callable[[int], None], *, dry_run: bool
    ) -> RepairReport:
        """Mend the store while it is in use, one namespace at a time; leave a sound one alone.

        ``originals`` is a new file for the damaged rows as they stood; without it, one in the
        current folder is made. A dry run changes nothing. Raises FileExistsError, OSError, Refused.
        """
        path = originals or name_originals(Path("memories"))
        return await self.engine.repair(path, progress, self._rules.history, dry_run=dry_run)
