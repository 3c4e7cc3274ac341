"""The store for those who outgrow one machine: a database that any number of processes share."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from typing_extensions import override

from abilities.declarations.faults import Refused
from abilities.declarations.memory import Direction
from abilities.helpers.search.recall import RecallRequest
from abilities.helpers.search.terms import Language
from abilities.helpers.stores.changes import BatchOptions, Change, Outcome, list_outcomes
from abilities.helpers.stores.model import DamagedMemory, IncomingMemory, StoredMemory
from abilities.helpers.stores.originals import OriginalsFile, RepairReport, name_originals
from abilities.helpers.stores.postgres import (
    integrity,
    queries,
    reads,
    recall,
    recall_index,
    transfer,
    walks,
    writes,
)
from abilities.helpers.stores.postgres.accesses import AccessBuffer
from abilities.helpers.stores.postgres.conninfo import build_conninfo
from abilities.helpers.stores.postgres.loop import LoopThread
from abilities.helpers.stores.postgres.marks import read_mark, write_mark
from abilities.helpers.stores.postgres.repair import repair_store
from abilities.helpers.stores.postgres.server import Server, Work
from abilities.helpers.stores.postgres.statements import Connection
from abilities.helpers.stores.postgres.write_queue import WriteJob, WriteQueue
from abilities.helpers.stores.protocol import (
    Backlinks,
    IntegrityFinding,
    Mark,
    MemoryPage,
    Recalled,
    ServableStore,
    Stats,
    WalkResult,
    WriteResult,
)
from abilities.helpers.stores.query import Query
from abilities.helpers.stores.requests import check_change, check_names, check_query
from abilities.helpers.walk import WalkLimits

Parameters = ParamSpec("Parameters")
ResultT = TypeVar("ResultT")

_OPERATOR = ""
"""Whose turn it is with work on all namespaces, such as imports. No namespace has that name."""

ACCESS_SECONDS = 1.0
"""Time for which accesses are collected before they are written together."""

READ_SECONDS = 9.5
"""How long a read may take with all its waiting: a call is answered within 10 seconds."""

TURN_SECONDS = 9.0
"""How long a change waits until it begins; one that has begun is finished."""

PING_SECONDS = 0.5
"""How long a ping waits for a connection that others use, before it makes one of its own."""


class PostgresStore(ServableStore):
    """A store in PostgreSQL. Connections are made when they are first needed.

    They belong to an event loop on a thread of the store's own, so that calls may come from any
    loop. ``max_memories`` is the most that one namespace may hold; None sets no limit.
    ``language`` is that of the recall index if the store is created or has none yet. Raises
    ValueError for a URL that libpq cannot read.
    """

    def __init__(
        self, url: str, *, max_memories: int | None = None, language: Language | None = None
    ) -> None:
        self._quota = max_memories
        self._loop = LoopThread()
        self._server = Server(build_conninfo(url), language or Language())
        self._queue = WriteQueue(self._server, self._loop.start_task)
        self._accesses = AccessBuffer()
        self._has_flush = False  # whether a task will write the accesses; set on the loop only

    @property
    @override
    def queue_size(self) -> int:
        return len(self._queue) + self._server.waiting

    @override
    async def prepare(self) -> None:
        await self._loop.run(self._server.prepare())

    @override
    async def change(self, namespace: str, change: Change) -> WriteResult:
        check_change(namespace, change)
        if change.kind == "update" and change.key is not None:
            # It renames, perhaps, and accesses were counted by the key from before.
            await self._loop.run(self._flush_accesses())

        work = partial(
            writes.apply_change,
            namespace=namespace,
            change=change,
            quota=self._quota,
        )
        return await self._write(namespace, work)

    @override
    async def read(self, namespace: str, keys: Sequence[str]) -> list[StoredMemory | Exception]:
        check_names(namespace, *keys)
        return await self._read(namespace, reads.read, namespace, keys)

    @override
    async def read_linked(self, namespace: str, key: str, offset: int, limit: int) -> StoredMemory:
        check_names(namespace, key)
        return await self._read(namespace, reads.read_linked, namespace, key, offset, limit)

    @override
    async def read_backlinks(self, namespace: str, key: str, offset: int, limit: int) -> Backlinks:
        check_names(namespace, key)
        return await self._read(namespace, reads.read_backlinks, namespace, key, offset, limit)

    @override
    async def walk(
        self, namespace: str, key: str, limits: WalkLimits, direction: Direction = "out"
    ) -> WalkResult:
        check_names(namespace, key)
        return await self._read(namespace, walks.walk, namespace, key, limits, direction)

    @override
    async def read_language(self) -> Language:
        return await self._read(_OPERATOR, recall_index.read_language)

    @override
    async def recall(
        self, namespace: str, request: RecallRequest, room: int, starts: Sequence[int]
    ) -> Recalled:
        check_names(namespace)
        return await self._read(namespace, recall.recall, namespace, request, room, starts)

    @override
    async def query(self, namespace: str, query: Query) -> MemoryPage:
        check_query(namespace, query)
        return await self._read(namespace, queries.run_query, namespace, query)

    @override
    async def read_stats(self, namespace: str) -> Stats:
        return await self._read(namespace, queries.read_stats, namespace)

    @override
    async def ping(self) -> None:
        try:
            await self._read_within(PING_SECONDS, _OPERATOR, _find_nothing)
        except Refused as refused:
            if refused.reason != "timeout":
                raise
            await self._loop.run(self._server.probe())

    @override
    async def read_page(
        self, after: tuple[str, str], limit: int
    ) -> list[StoredMemory | DamagedMemory]:
        return await self._read(_OPERATOR, transfer.read_page, after, limit)

    @override
    async def count_memories(self) -> int:
        return await self._read(_OPERATOR, transfer.count_memories)

    @override
    async def import_batch(
        self, memories: Sequence[IncomingMemory], *, replace: bool = False, dry_run: bool = False
    ) -> list[Outcome | Exception]:
        options = BatchOptions(replace, dry_run, self._quota)
        imports = [self._import_memory(memory, options) for memory in memories]

        # All together, so that memories of one namespace share transactions.
        settled = await asyncio.gather(*imports, return_exceptions=True)
        return list_outcomes(settled)

    async def _import_memory(self, memory: IncomingMemory, options: BatchOptions) -> Outcome:
        if options.dry_run:
            return await self._read(_OPERATOR, transfer.import_memory, memory, options)

        namespace = memory.stored.row.namespace
        work = partial(
            transfer.import_memory,
            incoming=memory,
            options=options,
        )
        # Many are queued together, and the last ones may wait for long.
        return await self._write(namespace, work, is_patient=True)

    @override
    async def set_mark(self, mark: Mark) -> None:
        await self._write(_OPERATOR, partial(write_mark, mark=mark))

    @override
    async def has_mark(self, mark: Mark) -> bool:
        return await self._read(_OPERATOR, read_mark, mark)

    @override
    async def check(self, progress: Callable[[int], None], *, full: bool) -> list[IntegrityFinding]:
        """Check every memory and link, in one snapshot.

        ``full`` changes nothing: the inside of an index is PostgreSQL's own to check (pg_amcheck).
        """
        await self.prepare()

        # On a loop and a connection of its own, so that other calls go on meanwhile.
        loop = LoopThread()
        try:
            return await loop.run(self._check(progress))
        finally:
            await loop.stop()

    async def _check(self, progress: Callable[[int], None]) -> list[IntegrityFinding]:
        async with self._server.long_snapshot() as connection:
            return await integrity.check_store(connection, progress)

    async def repair(
        self, originals: Path | None, progress: Callable[[int], None], *, dry_run: bool
    ) -> RepairReport:
        """Mend the store while it is in use, one namespace at a time; leave a sound one alone.

        ``originals`` is a new file for the damaged rows as they stood; without it, one in the
        current folder is made. A dry run changes nothing. Raises FileExistsError, OSError, Refused.
        """
        await self.prepare()

        path = originals or name_originals(Path("memories"))
        return await self._loop.run(self._repair(path, progress, dry_run=dry_run))

    async def _repair(
        self, originals_path: Path, progress: Callable[[int], None], *, dry_run: bool
    ) -> RepairReport:
        findings = await self._check(progress)
        report = RepairReport([finding for finding in findings if finding.state == "damaged"])
        if report.damage:
            path = None if dry_run else originals_path
            with closing(OriginalsFile(path)) as originals:
                await repair_store(self._server, originals, report, progress, dry_run=dry_run)

        return report

    @override
    def count_access(self, namespace: str, key: str, now: str) -> None:
        self._accesses.add(namespace, key, now)
        self._loop.call_soon(self._start_flush)

    @override
    async def close(self) -> None:
        if not self._loop.is_started:
            return

        await self._loop.run(self._finish())
        await self._loop.stop()

    async def _finish(self) -> None:
        # First the changes that were begun, then the accesses that they did not wait for.
        await self._loop.finish_tasks()
        await self._flush_accesses()
        await self._server.close()

    async def _read(
        self,
        whose: str,
        function: Callable[Concatenate[Connection, Parameters], Awaitable[ResultT]],
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> ResultT:
        """Call a function with a connection that sees one snapshot, and with the arguments.

        ``whose`` is the namespace whose turn it takes.
        """

        def work(connection: Connection) -> Awaitable[ResultT]:
            return function(connection, *args, **kwargs)

        return await self._read_within(READ_SECONDS, whose, work)

    async def _read_within(self, seconds: float, whose: str, work: Work[ResultT]) -> ResultT:
        """Do work that sees one snapshot. Raises Refused: timeout after some seconds, and others.

        The caller does not wait until a late read has ended: its statement is cancelled, and if the
        server does not answer to that, its connection is closed.
        """
        try:
            async with asyncio.timeout(seconds):
                return await self._loop.run(self._server.read(whose, work))
        except TimeoutError:
            raise Refused("timeout") from None

    async def _write(
        self, namespace: str, work: Work[ResultT], *, is_patient: bool = False
    ) -> ResultT:
        """Queue a change and wait for it. Cancelling the wait does not cancel the change.

        Raises Refused("busy") if the change has not begun after `TURN_SECONDS`, unless the caller
        is patient; then it never begins.
        """
        # The queue works on another loop, so the future must be one that crosses threads.
        done: Future[ResultT] = Future()
        self._loop.call_soon(self._queue.add, namespace, WriteJob(work, done))

        waiting = asyncio.wrap_future(done)
        if not is_patient:
            await asyncio.wait([waiting], timeout=TURN_SECONDS)
            if not waiting.done() and done.cancel():
                raise Refused("busy")

        return await asyncio.shield(waiting)

    def _start_flush(self) -> None:
        if not self._has_flush:
            self._has_flush = True
            self._loop.start_task(self._flush_later())

    async def _flush_later(self) -> None:
        await asyncio.sleep(ACCESS_SECONDS)

        # An access from now on may come too late for this task, so it may start the next one.
        self._has_flush = False
        await self._flush_accesses()

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
                await self._server.write(namespace, work)


async def _find_nothing(connection: Connection) -> None:
    """Let the transaction of a read begin and end."""
