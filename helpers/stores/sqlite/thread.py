"""A daemon thread that works off jobs for any number of event loops, many at a time."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
MAX_BATCH = 256


class ThreadJob(NamedTuple):
    """Work to be done on the lane's thread, and who waits for it."""

    work: Callable[[Any], Any]
    loop: asyncio.AbstractEventLoop
    done: "asyncio.Future[Any]"


class BatchingThread:
    """Hands queued jobs to ``run`` in batches; ``idle`` is called when a second passes without one.

    ``run`` returns a result or an exception for each job of its batch. Jobs whose callers went away are
    done all the same. The thread begins with the first job and ends with `close`.
    """

    def __init__(
        self,
        name: str,
        run: Callable[[Sequence[ThreadJob]], Sequence[Any]],
        idle: Callable[[], None],
        end: Callable[[], None],
    ) -> None:
        self._queue: SimpleQueue[ThreadJob | None] = SimpleQueue()
        self._run = run
        self._idle = idle
        self._end = end
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._starting = threading.Lock()
        self._ended = threading.Event()

    async def run(self, work: Callable[[Any], T]) -> T:
        """Queue work and wait for its result. Cancelling the wait does not cancel the work."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        if self._thread.ident is None:
            self.wake()
        self._queue.put(ThreadJob(work, loop, done))
        return await done

    def wake(self) -> None:
        """Start the thread, if it has not been, so that ``idle`` will be called."""
        with self._starting:
            if self._thread.ident is None:
                self._thread.start()

    @property
    def queue_size(self) -> int:
        """How many jobs are queued."""
        return self._queue.qsize()

    async def close(self) -> None:
        """Do what is queued, then end the thread."""
        if self._thread.ident is not None:
            self._queue.put(None)
            await asyncio.get_running_loop().run_in_executor(None, self._ended.wait)

    def _serve(self) -> None:
        going = True
        try:
            while going:
                batch, going = self._next()
                if batch:
                    _tell(batch, self._run(batch))
                elif going:
                    self._idle()
            self._end()
        finally:
            self._ended.set()

    def _next(self) -> tuple[list[ThreadJob], bool]:
        batch: list[ThreadJob] = []
        try:
            job = self._queue.get(timeout=1.0)
            while job is not None:
                batch.append(job)
                if len(batch) == MAX_BATCH:
                    return batch, True
                job = self._queue.get_nowait()
            return batch, False
        except Empty:
            return batch, True


def _tell(batch: Sequence[ThreadJob], results: Sequence[Any]) -> None:
    """Deliver results with one wake-up a loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
    for job, result in zip(batch, results, strict=True):
        by_loop.setdefault(job.loop, []).append((job.done, result))
    for loop, settled in by_loop.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_settle, settled)


def _settle(settled: list[tuple["asyncio.Future[Any]", Any]]) -> None:
    for done, result in settled:
        if done.done():
            continue
        if isinstance(result, Exception):
            done.set_exception(result)
        else:
            done.set_result(result)
