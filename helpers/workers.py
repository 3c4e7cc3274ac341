"""Run a batch of blocking calls in one hop to a worker thread, even if one of them hangs.

The items of a call run one after another on one thread. If an item has not ended after 2 seconds,
it is answered with a timeout and its thread is left behind; the items that no thread has taken yet
go on in several fresh threads. All threads are daemons, so that none can keep the process from
exiting.

`aiofiles`, with which imports and exports stream, is not used here: it would hop to a thread for
each ``open``, ``read`` and ``close``, and a hop per file costs three to fourteen times the reading
of a small file. Its threads cannot be given up either if one of them hangs.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress

from abilities.helpers.batch import (
    AnyBatch,
    Batch,
    ItemT,
    ResultT,
    SessionT,
    Worker,
)
from abilities.helpers.circuit_breaker import CircuitBreaker
from abilities.helpers.turns import TurnQueue, take_turn

CALL_SECONDS = 10.0
"""After that long every item that is left is answered with a timeout."""

THREADS = 2
"""Calls that run at the same time; more gain nothing under one interpreter lock. Others queue."""

FAN_OUT = 8
"""Threads that share the remaining items of a call in which one got stuck."""

_log = logging.getLogger("abilities")

_POLL_SECONDS = 0.5  # between looks at a call that no thread works on yet


class WorkerPool:
    """A few daemon threads that run batches of blocking work for event loops."""

    def __init__(self) -> None:
        self._queue: TurnQueue[AnyBatch] = TurnQueue()
        self._breaker = CircuitBreaker()
        self._lock = threading.Lock()
        self._idle_threads = 0
        self._threads = 0
        self._running: set[Worker] = set()

    async def map(
        self,
        open_session: Callable[[Worker], AbstractContextManager[SessionT]],
        function: Callable[[SessionT, ItemT], ResultT],
        items: Sequence[ItemT],
    ) -> list[ResultT | Exception]:
        """Apply ``function(session, item)`` to every item.

        Returns results and exceptions in the items' order. ``open_session(worker)`` is entered
        once on each thread that takes part. An item that has not ended after 2 s, or 10 s after
        the call began, yields Refused("timeout"). If the caller is cancelled, threads stop at
        their next check.
        """
        if not items:
            return []

        done = _Signal()
        batch = Batch(open_session, function, items, self._breaker, done.set)
        self._queue.put("", batch)  # the calls of all namespaces; their callers take turns
        self._start_thread_if_needed()

        try:
            await self._attend(batch, done)
        finally:
            batch.close()

        await take_turn()
        return batch.results

    def count_stuck(self) -> int:
        """Return how many threads are stuck in a file or folder."""
        return self._breaker.count_lost()

    def close(self) -> None:
        """Let idle threads end; a stuck one is left to the end of the process."""
        with self._lock:
            for _ in range(self._threads):
                self._queue.put_end()

    async def _attend(self, batch: AnyBatch, done: "_Signal") -> None:
        """Wait until a batch is done, and give up items that get stuck meanwhile."""
        end = time.monotonic() + CALL_SECONDS

        while True:
            deadlines = [worker.deadline for worker in batch.list_working()]
            now = time.monotonic()
            if not deadlines:
                deadlines = [now + _POLL_SECONDS]

            next_look = min(end, *deadlines)
            if await done.wait(max(next_look - now, 0.001)):
                return

            self._reclaim_threads()
            self._start_thread_if_needed()  # the system may have had no room for one before
            self._rescue(batch, call_is_over=time.monotonic() >= end)

    def _rescue(self, batch: AnyBatch, *, call_is_over: bool) -> None:
        """Give up items that are stuck, and let fresh threads take those that wait."""
        if call_is_over:
            batch.settle_waiting()

        given_up = 0
        for worker in batch.list_working():
            given_up += self._give_up(worker, call_is_over=call_is_over)

        if not given_up:
            return

        threads = min(FAN_OUT - len(batch.list_working()), batch.waiting)
        for _ in range(threads):
            worker = Worker(batch, pooled=False)
            thread = threading.Thread(
                target=batch.run, args=(worker,), name="abilities-rescue", daemon=True
            )
            if not _start(thread):
                return

    def _reclaim_threads(self) -> None:
        """Replace threads that are stuck in cancelled calls, to which nobody attends any more."""
        with self._lock:
            stuck = [worker for worker in self._running if worker.batch.closed and worker.is_late]

        for worker in stuck:
            self._give_up(worker)

    def _give_up(self, worker: Worker, *, call_is_over: bool = False) -> bool:
        """Abandon a worker and replace its thread; whether it was still stuck."""
        if not worker.batch.give_up(worker, call_is_over=call_is_over):
            return False

        _log.warning("a file or folder does not answer", extra={"threads": self.count_stuck()})
        if worker.pooled:
            with self._lock:
                self._threads -= 1
            self._start_thread_if_needed()

        return True

    def _start_thread_if_needed(self) -> None:
        """Start a thread if work waits and there is room."""
        with self._lock:
            work_waits = len(self._queue) > self._idle_threads
            if not work_waits or self._threads >= THREADS:
                return

            thread = threading.Thread(target=self._serve, name="abilities-worker", daemon=True)
            if _start(thread):
                self._threads += 1

    def _serve(self) -> None:
        """Run batches until the pool is closed or the thread was abandoned: a thread's body."""
        while (batch := self._next_batch()) is not None:
            worker = Worker(batch, pooled=True)
            with self._lock:
                self._running.add(worker)

            batch.run(worker)
            with self._lock:
                self._running.discard(worker)

            if worker.state == "abandoned":
                return  # its place in the pool has been given to another thread

    def _next_batch(self) -> AnyBatch | None:
        """Wait for a batch; None ends the thread."""
        with self._lock:
            self._idle_threads += 1

        batch = self._queue.get()

        with self._lock:
            self._idle_threads -= 1
            if batch is None:
                self._threads -= 1

        return batch


class _Signal:
    """Something that any thread may say once, and that one task of an event loop waits for."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_set = False
        self._waiter: asyncio.Future[None] | None = None

    def set(self) -> None:
        """Let the task go on."""
        with suppress(RuntimeError):  # the loop may be closed by now: nobody waits
            self._loop.call_soon_threadsafe(self._receive)

    async def wait(self, seconds: float) -> bool:
        """Wait for so long at most; return whether the signal is set."""
        if not self._is_set:
            # `asyncio.wait` takes two more rounds of the loop.
            self._waiter = self._loop.create_future()
            timer = self._loop.call_later(seconds, self._wake)
            try:
                await self._waiter
            finally:
                timer.cancel()

        return self._is_set

    def _receive(self) -> None:
        self._is_set = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _start(thread: threading.Thread) -> bool:
    """Start a thread; return whether the system had room for it."""
    try:
        thread.start()
    except RuntimeError:
        return False

    return True
