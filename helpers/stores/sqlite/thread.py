"""A daemon thread that runs jobs in batches, for callers on any number of event loops."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from queue import Empty
from typing import Any, Generic, NamedTuple, TypeVar

from abilities.declarations.faults import Refused
from abilities.helpers.turns import TurnQueue, take_turn

Result = TypeVar("Result")
Resource = TypeVar("Resource")
Settlement = tuple["asyncio.Future[Any]", object]
"""A caller's future, and the result or exception for it."""

MAX_BATCH = 256
"""Jobs in a batch at most, so that the first one does not wait long for the commit of all."""

BATCH_SECONDS = 0.05
"""After that long a batch takes no further job: its first caller waits for its end."""

IDLE_SECONDS = 1.0

WAIT_SECONDS = 9.0
"""How long a caller waits until its job begins; a call has ten seconds in all."""


class ThreadJob(NamedTuple, Generic[Resource]):
    """Work to be done on the thread, and the future of the caller that waits for it."""

    work: Callable[[Resource], object]
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Any]"  # of whatever the work returns, which differs from job to job


class JobBatch(Generic[Resource]):
    """The jobs of a batch, which are taken one after another while it runs.

    So the next one is always of the namespace whose turn it is, and a batch of slow jobs is short.
    """

    def __init__(
        self,
        first: ThreadJob[Resource],
        queue: TurnQueue[ThreadJob[Resource]],
        max_jobs: int,
    ) -> None:
        self.taken = [first]
        self.is_last = False
        self._queue = queue
        self._max_jobs = max_jobs

    def __iter__(self) -> Iterator[ThreadJob[Resource]]:
        """Yield the first job, and those that wait, for `BATCH_SECONDS` at most."""
        end = time.monotonic() + BATCH_SECONDS
        yield self.taken[0]

        while len(self.taken) < self._max_jobs and time.monotonic() < end and self._take():
            yield self.taken[-1]

    def take_all(self) -> None:
        """Take all jobs that wait, without running them."""
        while self._take():
            pass

    def _take(self) -> bool:
        if self.is_last:
            return False

        try:
            job = self._queue.get_nowait()
        except Empty:
            return False

        if job is None:
            self.is_last = True
            return False

        self.taken.append(job)
        return True


class _Wait:
    """The wait of a job until it begins, or until its caller gives up; whichever comes first."""

    def __init__(self) -> None:
        self._is_over = threading.Lock()

    def end(self) -> bool:
        """End the wait; return False if it was over already."""
        return self._is_over.acquire(blocking=False)


class BatchingThread(Generic[Resource]):
    """Passes queued jobs to ``run_batch``, which iterates over them, up to ``max_jobs``.

    ``run_batch`` gives each job's work the resource that it needs, such as a connection, and
    returns one result or exception per job; or a single exception, which all waiting jobs get. Jobs
    are run even if their callers were cancelled. ``idle`` is called whenever a second passes
    without a job, and ``end`` once, after the last one. All three run on the thread, which starts
    with the first job and ends with `close`.
    """

    def __init__(
        self,
        name: str,
        run_batch: Callable[[JobBatch[Resource]], Sequence[object] | Exception],
        idle: Callable[[], None],
        end: Callable[[], None],
        max_jobs: int = MAX_BATCH,
    ) -> None:
        self._queue: TurnQueue[ThreadJob[Resource]] = TurnQueue()
        self._run_batch = run_batch
        self._idle = idle
        self._end = end
        self._max_jobs = max_jobs
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._starting = threading.Lock()
        self._ended = threading.Event()

    @property
    def queue_size(self) -> int:
        """How many jobs are queued."""
        return len(self._queue)

    def has_others(self, namespace: str, caller: str) -> bool:
        """Return whether a job of another namespace or caller is queued."""
        return self._queue.has_others(namespace, caller)

    async def run(
        self, namespace: str, work: Callable[[Resource], Result], *, is_patient: bool = False
    ) -> Result:
        """Queue work of a namespace and wait for its result.

        Cancelling the wait does not cancel the work.

        Raises Refused("busy") if the work has not begun after `WAIT_SECONDS`, unless the caller is
        patient; then it never begins.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        wait = _Wait()

        def begin_work(resource: Resource) -> Result:
            if not wait.end():
                raise Refused("busy")  # nobody hears it: the caller was told
            return work(resource)

        def give_up() -> None:
            if wait.end() and not future.done():
                future.set_exception(Refused("busy"))

        if self._thread.ident is None:
            self.wake()

        self._queue.put(namespace, ThreadJob(begin_work, loop, future))
        timer = None
        if not is_patient:
            timer = loop.call_later(WAIT_SECONDS, give_up)

        try:
            result = await future
        finally:
            if timer is not None:
                timer.cancel()

        await take_turn()
        return result

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

        self._queue.put_end()

        # The last jobs may take a while: wait for them without blocking the event loop.
        await asyncio.get_running_loop().run_in_executor(None, self._ended.wait)

    def _serve(self) -> None:
        is_open = True
        try:
            while is_open:
                is_open = self._serve_batch()

            self._end()
        finally:
            self._ended.set()

    def _serve_batch(self) -> bool:
        """Run the next batch, or what is due without one; return whether the thread goes on."""
        try:
            first = self._queue.get(timeout=IDLE_SECONDS)
        except Empty:
            self._idle()
            return True

        if first is None:
            return False

        batch = JobBatch(first, self._queue, self._max_jobs)
        results = self._run_batch(batch)
        if isinstance(results, Exception):
            batch.take_all()
            results = [results] * len(batch.taken)

        _deliver(batch.taken, results)
        return not batch.is_last


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
