"""The PostgreSQL store: a database that any number of processes share.

Its engine runs all transactions on its own event loop.
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
"""How long accesses are collected before they are written together."""

TURN_SECONDS = 9.0
"""How long a change waits until it begins; a change that has begun is finished."""

PING_SECONDS = 0.5
"""How long a ping waits for a connection of the pool, before it makes a separate one."""

CLEANED_TABLES = (
    "memories",
    "links",
    "link_counts",
    "stale_ranks",
    "shelf",
    "tags",
    "about",
    "counters",
    "words",
    "recall_terms",
    "recall_recent",
    "history",
)
"""The tables that may still contain parts of a purged memory."""

# Without INDEX_CLEANUP, index entries stay if only a few rows are gone. ANALYZE renews statistics,
# which contain common values. Rows that a transaction may still see stay, and free space keeps its
# old bytes until it is reused.
_CLEAN = f"VACUUM (ANALYZE, INDEX_CLEANUP ON, SKIP_LOCKED) {', '.join(CLEANED_TABLES)}"

_log = logging.getLogger("abilities")


class PostgresEngine(Engine):
    """The engine of a store in PostgreSQL. Connections are made when they are first needed.

    They belong to an event loop on the engine's own thread, so that calls may come from any loop.
    ``language`` is for the recall index of a new store. Raises ValueError if libpq cannot read the
    URL.
    """

    def __init__(self, url: str, language: Language) -> None:
        self.loop = LoopThread("abilities-store", "the store")
        self.server = Server(build_conninfo(url), language)
        self._queue = WriteQueue(self.server, self.loop.start_task)
        self._accesses = AccessBuffer()
        # Both are used on the loop only.
        self._has_flush = False  # whether a task is going to write the accesses
        self._has_cleaning = False  # whether a task is going to clean the tables

    @property
    @override
    def queue_size(self) -> int:
        return len(self._queue) + self.server.waiting

    @override
    async def prepare(self) -> None:
        await self.loop.run(self.server.prepare)

    @override
    async def ping(self) -> None:
        async def do_nothing(_transaction: Transaction) -> None:
            """Let the transaction begin and end."""

        try:
            await self.read(OPERATOR, do_nothing, PING_SECONDS)
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

        The caller does not wait for the end of a late read. Its statement is canceled, and if the
        server does not react, its connection is closed.
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
        """Check a snapshot on a separate loop and connection, so that other calls go on.

        ``full`` has no effect, because only PostgreSQL can check its indexes (see pg_amcheck).
        """

        async def check_snapshot() -> list[IntegrityFinding]:
            async with self.server.long_snapshot() as connection:
                return await check_rows(PostgresTransaction(connection), progress)

        await self.prepare()
        loop = LoopThread("abilities-store", "a check of the store")
        try:
            return await loop.run(check_snapshot)
        finally:
            await loop.stop()

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
        def start_flush() -> None:
            if not self._has_flush:
                self._has_flush = True
                self.loop.start_task(self._flush_later())

        self._accesses.add(namespace, key, now)
        self.loop.call_soon(start_flush)

    async def _flush_later(self) -> None:
        await asyncio.sleep(ACCESS_SECONDS)

        # An access from now on may be too late for this task, so it may start the next one.
        self._has_flush = False
        await self._flush_accesses()

    @override
    async def flush_accesses(self) -> None:
        await self.loop.run(self._flush_accesses)

    async def _flush_accesses(self) -> None:
        by_namespace = self._accesses.take()
        for namespace, accesses in by_namespace.items():
            work = partial(count_accesses, namespace=namespace, accesses=accesses)

            # Counting is best effort, and the error has been logged.
            with suppress(Refused):
                await self.server.write(namespace, work)

    @override
    async def clean(self) -> None:
        """Start the cleaning that `Engine.clean` describes; it takes long, so it is not awaited."""

        def start_cleaning() -> None:
            if not self._has_cleaning:
                self._has_cleaning = True
                self.loop.start_task(self._clean())

        self.loop.call_soon(start_cleaning)

    async def _clean(self) -> None:
        # A purge from now on may be too late for this task, so it may start the next one.
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

        async def finish() -> None:
            # Changes that have begun come first; they do not wait for their accesses.
            await self.loop.finish_tasks()
            await self._flush_accesses()
            await self.server.close()

        await self.loop.run(finish)
        await self.loop.stop()


class PostgresStore(SqlStore):
    """A store in PostgreSQL. Connections are made when they are first needed.

    ``max_memories`` limits the memories in each namespace; None sets no limit. ``language`` is for
    the recall index of a new store. ``history`` limits how long earlier versions are kept. Raises
    ValueError if libpq cannot read the URL.
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
        """Mend the store while it is in use, one namespace at a time; leave a sound store alone.

        ``originals`` is a new file for the original content of damaged rows, by default in the
        current folder. A dry run changes nothing. Raises FileExistsError, OSError, Refused.
        """
        path = originals or name_originals(Path("memories"))
        return await self.engine.repair(path, progress, self._rules.history, dry_run=dry_run)
