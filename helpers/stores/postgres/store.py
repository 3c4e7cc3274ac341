"""The store for those who outgrow one machine: a PostgreSQL database that any number of processes may share."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

import psycopg

from abilities.declarations.faults import Refused
from abilities.helpers.stores.changes import BatchOptions, Change, Outcome
from abilities.helpers.stores.model import DamagedMemory, IncomingMemory, StoredMemory
from abilities.helpers.stores.postgres import queries, reads, transfer, writes
from abilities.helpers.stores.postgres.integrity import check
from abilities.helpers.stores.postgres.server import (
    Connection,
    Server,
    Work,
    build_conninfo,
    translate_postgres_error,
)
from abilities.helpers.stores.protocol import (
    MAX_TOUCHES,
    Backlinks,
    IntegrityFinding,
    MemoryPage,
    Query,
    Stats,
    WalkResult,
    WriteResult,
)
from abilities.helpers.walk import WalkLimits

T = TypeVar("T")
MAX_BATCH = 64
"""Changes of one transaction: so few that another process waits a fraction of a second for its turn."""
TOUCH_SECONDS = 1.0


class WriteJob(NamedTuple):
    """A change that waits for its namespace, and the future that is told what became of it."""

    work: Work[Any]
    done: "Future[Any]"


class PostgresStore:
    """A `MemoryStore` in PostgreSQL. Connections are made when first needed.

    They belong to an event loop on a thread of the store's own, so that calls may come from any loop. Raises
    ValueError for a URL that libpq cannot read.
    """

    def __init__(self, url: str, *, max_memories: int | None = None) -> None:
        self._conninfo = build_conninfo(url)
        self._quota = max_memories
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._server: Server | None = None
        self._jobs: dict[str, list[WriteJob]] = {}
        self._touches: dict[tuple[str, str], tuple[int, str]] = {}
        self._touching = threading.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._flushing = False

    @property
    def queue_size(self) -> int:
        """See `MemoryStore.waiting`."""
        queued = sum(len(jobs) for jobs in list(self._jobs.values()))
        return queued + (self._server.waiting if self._server else 0)

    async def change(self, namespace: str, change: Change) -> WriteResult:
        """See `MemoryStore.change`."""
        return await self._write(
            namespace, lambda c: writes.write(c, namespace, change, self._quota)
        )

    async def read(self, namespace: str, keys: Sequence[str]) -> list[StoredMemory | Exception]:
        """See `MemoryStore.read`."""
        return await self._read(lambda c: reads.read(c, namespace, keys))

    async def read_linked(self, namespace: str, key: str, offset: int, limit: int) -> StoredMemory:
        """See `MemoryStore.read_linked`."""
        return await self._read(lambda c: reads.read_linked(c, namespace, key, offset, limit))

    async def read_backlinks(self, namespace: str, key: str, offset: int, limit: int) -> Backlinks:
        """See `MemoryStore.backlinks`."""
        return await self._read(lambda c: reads.backlinks(c, namespace, key, offset, limit))

    async def walk(self, namespace: str, key: str, limits: WalkLimits) -> WalkResult:
        """See `MemoryStore.walk`."""
        return await self._read(lambda c: reads.walk(c, namespace, key, limits))

    async def query(self, namespace: str, query: Query) -> MemoryPage:
        """See `MemoryStore.query`."""
        return await self._read(lambda c: queries.query(c, namespace, query))

    async def read_stats(self, namespace: str) -> Stats:
        """See `MemoryStore.stats`."""
        return await self._read(lambda c: queries.read_stats(c, namespace))

    async def read_page(
        self, after: tuple[str, str], limit: int
    ) -> list[StoredMemory | DamagedMemory]:
        """See `MemoryStore.page`."""
        return await self._read(lambda c: transfer.page(c, after, limit))

    async def count_memories(self) -> int:
        """See `MemoryStore.size`."""
        return await self._read(transfer.size)

    async def import_batch(
        self, memories: Sequence[IncomingMemory], *, replace: bool = False, dry_run: bool = False
    ) -> list[Outcome | Exception]:
        """See `MemoryStore.put`."""
        how = BatchOptions(replace, dry_run, self._quota)

        def put(memory: IncomingMemory) -> Awaitable[Outcome]:
            def work(connection: Connection) -> Coroutine[Any, Any, Outcome]:
                return transfer.put(connection, memory, how)

            return self._read(work) if dry_run else self._write(memory.stored.row.namespace, work)

        found = await asyncio.gather(*map(put, memories), return_exceptions=True)
        outcomes: list[Outcome | Exception] = []
        for outcome in found:
            if isinstance(outcome, BaseException) and not isinstance(outcome, Exception):
                raise outcome
            outcomes.append(outcome)
        failed = next(
            (o for o in outcomes if isinstance(o, Exception) and not _is_its_own(o)), None
        )
        if failed is not None:
            raise failed
        return outcomes

    async def check(self, progress: Callable[[int], None], *, full: bool) -> list[IntegrityFinding]:
        """See `MemoryStore.check`; what an index holds is PostgreSQL's own to check (pg_amcheck)."""

        async def examined() -> list[IntegrityFinding]:
            async with self._opened().long_snapshot() as connection:
                return await check(connection, progress)

        return await asyncio.wrap_future(
            asyncio.run_coroutine_threadsafe(examined(), self._started())
        )

    def count_access(self, namespace: str, key: str, now: str) -> None:
        """See `MemoryStore.touch`; written after a second."""
        with self._touching:
            if len(self._touches) < MAX_TOUCHES:
                count, _ = self._touches.get((namespace, key), (0, ""))
                self._touches[namespace, key] = (count + 1, now)
        self._started().call_soon_threadsafe(self._flush_soon)

    async def close(self) -> None:
        """See `MemoryStore.close`."""
        if self._loop is None or self._thread is None:
            return
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._end(), self._loop))
        self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)
        self._loop.close()

    async def _read(self, work: Work[T]) -> T:
        async def read() -> T:
            return await self._opened().read(work)

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(read(), self._started()))

    async def _write(self, namespace: str, work: Work[T]) -> T:
        """Queue a change. Cancelling the wait does not cancel the change."""
        done: Future[T] = Future()
        self._started().call_soon_threadsafe(self._queue, namespace, WriteJob(work, done))
        return await asyncio.shield(asyncio.wrap_future(done))

    def _queue(self, namespace: str, job: WriteJob) -> None:
        """On the store's loop: one task works off a namespace's changes, as long as there are any."""
        if namespace in self._jobs:
            self._jobs[namespace].append(job)
            return
        self._jobs[namespace] = [job]
        self._begin(self._work_off(namespace))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work_off(self, namespace: str) -> None:
        while jobs := self._jobs[namespace][:MAX_BATCH]:
            try:
                results = await self._opened().write(
                    namespace, partial(_each, [job.work for job in jobs])
                )
            except Exception as error:
                results = [error] * len(jobs)
            del self._jobs[namespace][: len(jobs)]
            for job, result in zip(jobs, results, strict=True):
                if job.done.set_running_or_notify_cancel():
                    _tell(job.done, result)
        del self._jobs[namespace]

    def _flush_soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            self._begin(self._flush(TOUCH_SECONDS))

    async def _flush(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._flushing = False
        with self._touching:
            touches, self._touches = self._touches, {}
        by_namespace: dict[str, list[tuple[str, int, str]]] = {}
        for (namespace, key), (count, now) in touches.items():
            by_namespace.setdefault(namespace, []).append((key, count, now))
        for namespace, counted in by_namespace.items():
            with suppress(Refused):  # counting is best effort; why not is in the log
                await self._opened().write(
                    namespace, partial(writes.touch, namespace, sorted(counted))
                )

    async def _end(self) -> None:
        while self._tasks:
            await asyncio.gather(*self._tasks)
        await self._flush(0)
        if self._server is not None:
            await self._server.close()

    def _opened(self) -> Server:
        if self._server is None:
            self._server = Server(self._conninfo)
        return self._server

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="abilities-store", daemon=True
                )
                self._thread.start()
            return self._loop


async def _each(works: Sequence[Work[Any]], connection: Connection) -> list[Any]:
    """The results of several changes in one transaction; each in a savepoint of its own, and Refused in its place."""
    results: list[Any] = []
    for work in works:
        try:
            async with connection.transaction():
                results.append(await work(connection))
        except Refused as error:
            results.append(error)
        except (psycopg.DataError, psycopg.IntegrityError) as error:  # this change's own
            results.append(translate_postgres_error(error))
    return results


def _tell(done: "Future[Any]", result: Any) -> None:
    if isinstance(result, Exception):
        done.set_exception(result)
    else:
        done.set_result(result)


def _is_its_own(error: Exception) -> bool:
    """Whether a memory was refused for itself, and not because of the store."""
    return isinstance(error, Refused) and error.reason in (
        "key_taken",
        "storage_quota",
        "checksum_mismatch",
    )
