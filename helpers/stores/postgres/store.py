"""The store for those who outgrow one machine: a database that any number of processes share."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

from typing_extensions import override

from abilities.declarations.faults import Refused
from abilities.helpers.stores.changes import BatchOptions, Change, Outcome
from abilities.helpers.stores.model import DamagedMemory, IncomingMemory, StoredMemory
from abilities.helpers.stores.postgres import integrity, queries, reads, transfer, walks, writes
from abilities.helpers.stores.postgres.accesses import AccessBuffer
from abilities.helpers.stores.postgres.conninfo import build_conninfo
from abilities.helpers.stores.postgres.loop import LoopThread
from abilities.helpers.stores.postgres.server import Server, Work
from abilities.helpers.stores.postgres.statements import Connection
from abilities.helpers.stores.postgres.write_queue import WriteJob, WriteQueue
from abilities.helpers.stores.protocol import (
    Backlinks,
    IntegrityFinding,
    MemoryPage,
    Query,
    ServableStore,
    Stats,
    WalkResult,
    WriteResult,
)
from abilities.helpers.walk import WalkLimits

Parameters = ParamSpec("Parameters")
ResultT = TypeVar("ResultT")

ACCESS_SECONDS = 1.0
"""Time for which accesses are collected before they are written together."""

_OWN_REASONS = ("key_taken", "storage_quota", "checksum_mismatch")
"""Why one memory of an import is refused by itself; any other reason concerns the whole store."""


class PostgresStore(ServableStore):
    """A store in PostgreSQL. Connections are made when they are first needed.

    They belong to an event loop on a thread of the store's own, so that calls may come from any
    loop. ``max_memories`` is the most that one namespace may hold; None sets no limit. Raises
    ValueError for a URL that libpq cannot read.
    """

    def __init__(self, url: str, *, max_memories: int | None = None) -> None:
        self._quota = max_memories
        self._loop = LoopThread()
        self._server = Server(build_conninfo(url))
        self._queue = WriteQueue(self._server, self._loop.start_task)
        self._accesses = AccessBuffer()
        self._has_flush = False  # whether a task will write the accesses; set on the loop only

    @property
    @override
    def queue_size(self) -> int:
        return len(self._queue) + self._server.waiting

    @override
    async def change(self, namespace: str, change: Change) -> WriteResult:
        work = partial(
            writes.apply_change,
            namespace=namespace,
            change=change,
            quota=self._quota,
        )
        return await self._write(namespace, work)

    @override
    async def read(self, namespace: str, keys: Sequence[str]) -> list[StoredMemory | Exception]:
        return await self._read(reads.read, namespace, keys)

    @override
    async def read_linked(self, namespace: str, key: str, offset: int, limit: int) -> StoredMemory:
        return await self._read(reads.read_linked, namespace, key, offset, limit)

    @override
    async def read_backlinks(self, namespace: str, key: str, offset: int, limit: int) -> Backlinks:
        return await self._read(reads.read_backlinks, namespace, key, offset, limit)

    @override
    async def walk(self, namespace: str, key: str, limits: WalkLimits) -> WalkResult:
        return await self._read(walks.walk, namespace, key, limits)

    @override
    async def query(self, namespace: str, query: Query) -> MemoryPage:
        return await self._read(queries.run_query, namespace, query)

    @override
    async def read_stats(self, namespace: str) -> Stats:
        return await self._read(queries.read_stats, namespace)

    @override
    async def read_page(
        self, after: tuple[str, str], limit: int
    ) -> list[StoredMemory | DamagedMemory]:
        return await self._read(transfer.read_page, after, limit)

    @override
    async def count_memories(self) -> int:
        return await self._read(transfer.count_memories)

    @override
    async def import_batch(
        self, memories: Sequence[IncomingMemory], *, replace: bool = False, dry_run: bool = False
    ) -> list[Outcome | Exception]:
        options = BatchOptions(replace, dry_run, self._quota)
        imports = [self._import_memory(memory, options) for memory in memories]

        # All together, so that memories of one namespace share transactions.
        settled = await asyncio.gather(*imports, return_exceptions=True)

        outcomes: list[Outcome | Exception] = []
        for outcome in settled:
            if isinstance(outcome, BaseException) and not isinstance(outcome, Exception):
                raise outcome
            outcomes.append(outcome)

        for outcome in outcomes:
            if isinstance(outcome, Exception) and not _concerns_one_memory(outcome):
                raise outcome

        return outcomes

    async def _import_memory(self, memory: IncomingMemory, options: BatchOptions) -> Outcome:
        if options.dry_run:
            return await self._read(transfer.import_memory, memory, options)

        namespace = memory.stored.row.namespace
        work = partial(
            transfer.import_memory,
            incoming=memory,
            options=options,
        )
        return await self._write(namespace, work)

    @override
    async def check(self, progress: Callable[[int], None], *, full: bool) -> list[IntegrityFinding]:
        """Check every memory and link, in one snapshot.

        ``full`` changes nothing: the inside of an index is PostgreSQL's own to check (pg_amcheck).
        """
        return await self._loop.run(self._check(progress))

    async def _check(self, progress: Callable[[int], None]) -> list[IntegrityFinding]:
        async with self._server.long_snapshot() as connection:
            return await integrity.check_store(connection, progress)

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
        function: Callable[Concatenate[Connection, Parameters], Awaitable[ResultT]],
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> ResultT:
        """Call a function with a connection that sees one snapshot, and with the arguments."""

        def work(connection: Connection) -> Awaitable[ResultT]:
            return function(connection, *args, **kwargs)

        return await self._loop.run(self._server.read(work))

    async def _write(self, namespace: str, work: Work[ResultT]) -> ResultT:
        """Queue a change and wait for it. Cancelling the wait does not cancel the change."""
        # The queue works on another loop, so the future must be one that crosses threads.
        done: Future[ResultT] = Future()
        self._loop.call_soon(self._queue.add, namespace, WriteJob(work, done))

        waiting = asyncio.wrap_future(done)
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


def _concerns_one_memory(error: Exception) -> bool:
    """Return whether a memory was refused by itself, and not because the store cannot answer."""
    return isinstance(error, Refused) and error.reason in _OWN_REASONS
