"""A daemon thread that runs jobs in batches, for callers on any number of event loops."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Generic, NamedTuple, TypeVar

Result = TypeVar("Result")
Resource = TypeVar("Resource")
Settlement = tuple["asyncio.Future[Any]", object]
"""A caller's future, and the result or exception for it."""

MAX_BATCH = 256
"""Jobs in a batch at most, so that the first one does not wait long for the commit of all."""

IDLE_SECONDS = 1.0


class ThreadJob(NamedTuple, Generic[Resource]):
    """Work to be done on the thread, and the future of the caller that waits for it."""

    work: Callable[[Resource], object]
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Any]"  # of whatever the work returns, which differs from job to job


class BatchingThread(Generic[Resource]):
    """Passes queued jobs to ``run_batch``, all that wait at a time up to `MAX_BATCH`.

    ``run_batch`` gives each job's work the resource that it needs, such as a connection, and
    returns one result or exception per job. Jobs are run even if their callers were cancelled.
    ``idle`` is called whenever a second passes without a job, and ``end`` once, after the last one.
    All three run on the thread, which starts with the first job and ends with `close`.
    """

    def __init__(
        self,
        name: str,
        run_batch: Callable[[Sequence[ThreadJob[Resource]]], Sequence[object]],
        idle: Callable[[], None],
        end: Callable[[], None],
    ) -> None:
        self._queue: SimpleQueue[ThreadJob[Resource] | None] = SimpleQueue()
        self._run_batch = run_batch
        self._idle = idle
        self._end = end
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._starting = threading.Lock()
        self._ended = threading.Event()

    @property
    def queue_size(self) -> int:
        """How many jobs are queued."""
        return self._queue.qsize()

    async def run(self, work: Callable[[Resource], Result]) -> Result:
        """Queue work and wait for its result. Cancelling the wait does not cancel the work."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()

        if self._thread.ident is None:
            self.wake()

        self._queue.put(ThreadJob(work, loop, future))
        return await future

    def wake(self) -> None:
        """Start the thread if it has not started yet, so that ``idle`` will be called."""
        # Callers on several event loops may all find it not started, and a thread starts only once.
        with self._starting:
            if self._thread.ident is None:
                self._thread.start()

    async def close(self) -> None:
        """Finish the queued jobs, then end the thread."""
        if self._thread.ident is None:
            return

        self._queue.put(None)

        # The last jobs may take a while: wait for them without blocking the event loop.
        await asyncio.get_running_loop().run_in_executor(None, self._ended.wait)

    def _serve(self) -> None:
        is_open = True
        try:
            while is_open:
                batch, is_open = self._collect_batch()
                if batch:
                    _deliver(batch, self._run_batch(batch))
                elif is_open:
                    self._idle()

            self._end()
        finally:
            self._ended.set()

    def _collect_batch(self) -> tuple[list[ThreadJob[Resource]], bool]:
        """Return the jobs that wait, and whether the thread goes on after them.

        The list is empty if a second passes without a job.
        """
        batch: list[ThreadJob[Resource]] = []
        try:
            job = self._queue.get(timeout=IDLE_SECONDS)
            while job is not None:
                batch.append(job)
                if len(batch) == MAX_BATCH:
                    return batch, True
                job = self._queue.get_nowait()
        except Empty:
            return batch, True

        return batch, False  # None stands behind the last job


def _deliver(batch: Sequence[ThreadJob[Resource]], results: Sequence[object]) -> None:
    """Give each caller its result, waking each event loop only once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Settlement]] = {}
    for job, result in zip(batch, results, strict=True):
        settlements = by_loop.setdefault(job.loop, [])
        settlements.append((job.future, result))

    for loop, settlements in by_loop.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_settle, settlements)


def _settle(settlements: list[Settlement]) -> None:
    for future, result in settlements:
        if future.done():  # its caller was cancelled
            continue

        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)
