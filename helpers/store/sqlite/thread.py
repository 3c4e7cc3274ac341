"""A daemon thread with a connection of its own, for callers on any number of event loops."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from queue import Empty
from typing import Any, NamedTuple, TypeVar

from abilities.declarations.faults import Refused
from abilities.helpers.store.sqlite.log import StoreConnection
from abilities.helpers.turns import TurnQueue, take_turn

Result = TypeVar("Result")
Settlement = tuple["asyncio.Future[Any]", object]
"""A caller's future, and the result or exception for it."""

MAX_BATCH = 256
"""Jobs in a batch at most, so that the first one does not wait long for the commit of all."""

BATCH_SECONDS = 0.05
"""After that long a batch takes no further job: its first caller waits for its end."""

IDLE_SECONDS = 1.0

WAIT_SECONDS = 9.0
"""How long a caller waits until its job begins; a call has ten seconds in all."""


class ThreadJob(NamedTuple):
    """Work to be done on the thread, and the future of the caller that waits for it."""

    work: Callable[[StoreConnection], object]
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Any]"  # of whatever the work returns, which differs from job to job


class StoreThread:
    """Runs queued jobs in batches, on a connection to a store.

    ``connect`` makes the connection when it is first needed, and ``disconnect`` closes it. Jobs are
    run even if their callers were cancelled. The thread starts with the first job and ends with
    `close`.
    """

    def __init__(
        self,
        name: str,
        connect: Callable[[], StoreConnection],
        disconnect: Callable[[StoreConnection], None],
    ) -> None:
        self.connection: StoreConnection | None = None
        self._connect = connect
        self._disconnect = disconnect
        self._queue: TurnQueue[ThreadJob] = TurnQueue()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._starting = threading.Lock()
        self._is_last = False  # whether the end of the queue was met
        self._ended = threading.Event()

    @property
    def queue_size(self) -> int:
        """How many jobs are queued."""
        return len(self._queue)

    async def run(
        self,
        namespace: str,
        work: Callable[[StoreConnection], Result],
        *,
        is_patient: bool = False,
    ) -> Result:
        """Queue work of a namespace and wait for its result.

        Cancelling the wait does not cancel the work.

        Raises Refused("busy") if the work has not begun after `WAIT_SECONDS`, unless the caller is
        patient; then it never begins.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        wait = threading.Lock()  # taken by what ends the wait: the work, or the caller's patience

        def begin_work(connection: StoreConnection) -> Result:
            if not wait.acquire(blocking=False):
                raise Refused("busy")  # nobody hears it: the caller was told
            return work(connection)

        def give_up() -> None:
            if wait.acquire(blocking=False) and not future.done():
                future.set_exception(Refused("busy"))

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
        """Start the thread if it has not started yet, so that `rest` will be called."""
        if self._thread.ident is not None:
            return

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

    def _run_batch(self, jobs: Iterator[ThreadJob]) -> Sequence[object] | Exception:
        """Run jobs; return a result or exception for each, or one exception for all that wait."""
        raise NotImplementedError

    def _rest(self) -> None:
        """Do what is due whenever a second passes without a job."""

    def _end(self) -> None:
        """End the work of the thread, after the last job."""
        if self.connection is not None:
            self._disconnect(self.connection)

    def _open(self) -> StoreConnection:
        if self.connection is None:
            self.connection = self._connect()

        return self.connection

    def _serve(self) -> None:
        try:
            while not self._is_last:
                job = self._take(IDLE_SECONDS)
                if job is not None:
                    self._serve_batch(job)
                elif not self._is_last:
                    self._rest()

            self._end()
        finally:
            self._ended.set()

    def _serve_batch(self, first: ThreadJob) -> None:
        taken = [first]
        results = self._run_batch(self._take_batch(taken))

        if isinstance(results, Exception):
            while (job := self._take(0)) is not None:
                taken.append(job)
            results = [results] * len(taken)

        _deliver(taken, results)

    def _take_batch(self, taken: list[ThreadJob]) -> Iterator[ThreadJob]:
        """Yield the job that was taken, and those that wait, for `BATCH_SECONDS` at most.

        Each is taken only when the one before it was run. So the next one is always of the
        namespace whose turn it is, and a batch of slow jobs is short.
        """
        end = time.monotonic() + BATCH_SECONDS
        yield taken[0]

        while len(taken) < MAX_BATCH and time.monotonic() < end:
            job = self._take(0)
            if job is None:
                break

            taken.append(job)
            yield job

    def _take(self, seconds: float) -> ThreadJob | None:
        """Return the next job; None if there is none within some seconds, or none any more."""
        if self._is_last:
            return None

        try:
            job = self._queue.get(timeout=seconds)
        except Empty:
            return None

        self._is_last = job is None
        return job


def _deliver(batch: Sequence[ThreadJob], results: Sequence[object]) -> None:
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
