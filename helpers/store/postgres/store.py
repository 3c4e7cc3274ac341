"""The PostgreSQL store: a database that any number of processes share.

Its engine runs all transactions on its own event loop.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from typing_extensions import override

from abilities.declarations.refusals import Refused
from abilities.helpers.search.terms import Language
from abilities.helpers.store.checking import check_rows
from abilities.helpers.store.engine import OPERATOR, Engine, Transaction, Work
from abilities.helpers.store.past import DEFAULT_RULES, StoreRules
from abilities.helpers.store.postgres.pool import build_conninfo
from abilities.helpers.store.postgres.server import Server, WriteCall, WriteQueue
from abilities.helpers.store.postgres.transaction import PostgresTransaction
from abilities.helpers.store.protocol import IntegrityFinding
from abilities.helpers.store.reads import AccessBuffer, count_accesses
from abilities.helpers.store.repairing import (
    OriginalsFile,
    RepairReport,
    name_originals,
    repair_rows,
)
from abilities.helpers.store.store import SqlStore
from abilities.helpers.threads.loops import LoopThread

ResultT = TypeVar("ResultT")

ACCESS_SECONDS = 1.0

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
        self._beginning: set[object] = set()  # tasks that are to begin; used on the loop only

    @property
    @override
    def queue_size(self) -> int:
        return len(self._queue) + self.server.waiting

    @override
    async def prepare(self) -> None:
        await self.loop.run(self.server.leader.prepare)

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

    @override
    def count_access(self, namespace: str, key: str, now: str) -> None:
        self._accesses.add(namespace, key, now)
        self._start_once(self._flush_later)

    def _start_once(self, work: Callable[[], Coroutine[object, object, None]]) -> None:
        """Start a task on the loop, unless the same one is still to begin."""

        def start() -> None:
            if work not in self._beginning:
                self._beginning.add(work)
                self.loop.start_task(work())

        self.loop.call_soon(start)

    async def _flush_later(self) -> None:
        await asyncio.sleep(ACCESS_SECONDS)

        # An access from now on may be too late for this task, so it may start the next one.
        self._beginning.discard(self._flush_later)
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
        self._start_once(self._clean)

    async def _clean(self) -> None:
        # A purge from now on may be too late for this task, so it may start the next one.
        self._beginning.discard(self._clean)
        try:
            async with self.server.leader.own_connection() as connection:
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

    ``language`` is for the recall index of a new store. Raises ValueError if libpq cannot read the
    URL.
    """

    def __init__(
        self, url: str, language: Language | None = None, rules: StoreRules = DEFAULT_RULES
    ) -> None:
        self.engine = PostgresEngine(url, language or Language())
        super().__init__(self.engine, rules)

    async def repair(
        self, originals: Path | None, progress: Callable[[int], None], *, dry_run: bool
    ) -> RepairReport:
        """Mend the store while it is in use, one namespace at a time; leave a sound store alone.

        ``originals`` is a new file for the original content of damaged rows, by default in the
        current folder. A dry run changes nothing. Raises FileExistsError, OSError, Refused.
        """
        findings = await self.engine.check(progress, full=True)
        report = RepairReport([finding for finding in findings if finding.state == "damaged"])
        if report.damage:
            path = None if dry_run else originals or name_originals(Path("memories"))
            begin = partial(self.engine.server.long_write, dry_run=dry_run)
            with closing(OriginalsFile(path)) as aside:
                limits = self._rules.history
                mend = partial(repair_rows, begin, aside, report, progress, limits)
                await self.engine.loop.run(mend)

        return report
