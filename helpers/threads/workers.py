"""Run a batch of blocking calls in one hop to a worker thread, even if one of them hangs.

The task of an event loop waits for the outcome (`Call`), while the items of a call run one after
another on one thread (`Batch`). If an item has not ended after 2 seconds, it is answered with a
timeout and its thread is left behind; the items that no thread has begun continue on several fresh
threads. All threads are daemons, so that none can keep the process from exiting.

`aiofiles`, with which imports and exports stream, is not used here: it would hop to a thread for
each ``open``, ``read`` and ``close``, and one hop takes three to fourteen times as long as reading
a small file. Nor could its threads be given up if one of them hangs.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any, Generic, Literal, TypeVar, cast

from abilities.declarations.refusals import AbilitiesError, Refused
from abilities.helpers.threads.circuit_breaker import CircuitBreaker, Visit, WorkPlace
from abilities.helpers.threads.turns import ServingThreads, start_daemon, take_turn

ITEM_SECONDS = 2.0
"""Seconds after which an item is late, and may be given up."""

CALL_SECONDS = 10.0
"""Seconds after which every item that is left is answered with a timeout."""

THREADS = 2
"""Calls that run at the same time; the interpreter lock makes more useless. Others queue."""

FAN_OUT = 8
"""Threads that share the remaining items of a call in which one got stuck."""

_POLL_SECONDS = 0.5  # between looks at a call that no thread works on yet

_log = logging.getLogger("abilities")

Result = TypeVar("Result")
WorkT = TypeVar("WorkT")
SessionT = TypeVar("SessionT")
ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

Settlement = tuple["asyncio.Future[Any]", object]
"""A caller's future, and the result or exception for it."""

WorkerState = Literal["idle", "working", "abandoned", "ended"]


class Abandoned(AbilitiesError):
    """No caller waits for this work any more; `Worker.check` ends a session with it."""


class Call(Generic[WorkT, Result]):
    """Work that another thread does, and the outcome that the current event loop waits for.

    ``outcome`` belongs to that loop. All methods but `wait` may be called on any thread.
    """

    def __init__(self, work: WorkT) -> None:
        self.work = work
        self.loop = asyncio.get_running_loop()
        self.outcome: asyncio.Future[Result] = self.loop.create_future()
        self.begun_by: object | None = None
        self._is_given_up = False
        self._lock = threading.Lock()

    def begin(self, by: object) -> bool:
        """Begin the work; return False if another has begun it, or if it was given up.

        Returns True again for the same ``by``.
        """
        with self._lock:
            if self.begun_by is None and not self._is_given_up:
                self.begun_by = by

            return self.begun_by is by

    def give_up(self) -> bool:
        """Keep the work from beginning; return False if it has begun already."""
        with self._lock:
            self._is_given_up = True
            return self.begun_by is None

    def settle(self, result: Result) -> None:
        """Hand a result to the caller, if it still waits."""
        self._call_soon(_set_result, self.outcome, result)

    def fail(self, error: Exception) -> None:
        """Hand an exception to the caller, if it still waits."""
        self._call_soon(_set_exception, self.outcome, error)

    async def wait(self, seconds: float | None = None) -> Result:
        """Return the result, or raise the exception, when it is the caller's turn to continue.

        Cancelling the wait does not cancel the work. Raises Refused("busy") if the work has not
        begun after ``seconds``; then it never begins.
        """

        def lose_patience() -> None:
            if self.give_up():
                _set_exception(self.outcome, Refused("busy"))

        timer = None
        if seconds is not None:
            timer = self.loop.call_later(seconds, lose_patience)

        try:
            result = await self.outcome
        finally:
            if timer is not None:
                timer.cancel()

        await take_turn()
        return result

    def _call_soon(self, function: Any, *args: object) -> None:
        with suppress(RuntimeError):  # the loop may be closed by now, and then no caller waits
            self.loop.call_soon_threadsafe(function, *args)


def settle_all(calls: Sequence[Call[Any, Any]], results: Sequence[object]) -> None:
    """Hand a result or an exception to each call, waking each event loop only once."""

    def settle_each(settlements: Sequence[Settlement]) -> None:
        for outcome, result in settlements:
            if isinstance(result, Exception):
                _set_exception(outcome, result)
            else:
                _set_result(outcome, result)

    by_loop: dict[asyncio.AbstractEventLoop, list[Settlement]] = {}
    for call, result in zip(calls, results, strict=True):
        by_loop.setdefault(call.loop, []).append((call.outcome, result))

    for loop, settlements in by_loop.items():
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle_each, settlements)


def _set_result(outcome: "asyncio.Future[Result]", result: Result) -> None:
    if not outcome.done():  # its caller may have been cancelled
        outcome.set_result(result)


def _set_exception(outcome: "asyncio.Future[Any]", error: Exception) -> None:
    if not outcome.done():
        outcome.set_exception(error)


class Worker:
    """One thread's part in a batch: its current item, with a deadline, and its current place.

    =========  ==================================================  ================================
    state      the thread                                          next
    =========  ==================================================  ================================
    idle       is between two items, or opens or closes a session  working, by `begin`; abandoned,
                                                                   by `abandon`; ended, by `leave`
    working    works on the item ``index``                         working, by `begin`; idle, by
                                                                   `end`; the others as above
    abandoned  got stuck; its item was answered with a timeout,    none: the thread ends as soon as
               and its result will be dropped                      it comes back
    ended      has left the batch                                  none
    =========  ==================================================  ================================

    `begin`, `end`, `abandon` and `leave` are for the batch, which holds its lock. Sessions call
    `enter` before they may get stuck in a place, and `check` between blocking steps, both on the
    worker's thread. Other threads may read without a lock; the state may then have just changed.
    """

    def __init__(self, batch: "AnyBatch", thread: threading.Thread | None = None) -> None:
        self.batch = batch
        self.thread = thread  # if it is one of the pool's, which must be replaced if it gets stuck
        self.state: WorkerState = "idle"
        self.index: int = -1
        self.deadline: float = time.monotonic() + ITEM_SECONDS
        self._visit: Visit | None = None

    def check(self) -> None:
        """Raise Abandoned if no caller waits for this item any more."""
        if self.state == "abandoned" or self.batch.closed:
            raise Abandoned()

    def enter(self, place: WorkPlace) -> None:
        """Enter a place, for example a file, and leave the last place, which has worked.

        Raises Abandoned; Refused("timeout") at once if too many other calls are stuck there.
        """
        self._leave_place()

        # In this order: `abandon` first sets the state and then counts the visit, so that either
        # the visit is counted or the state is seen here.
        self._visit = visit = self.batch.breaker.enter(place, self.batch)
        if self.state == "abandoned":
            raise Abandoned()

        if visit is None:
            raise Refused("timeout")

    @property
    def is_late(self) -> bool:
        """Whether the time for the current item, or for the step between two items, is over."""
        return self.state in ("idle", "working") and time.monotonic() >= self.deadline

    def begin(self, index: int) -> None:
        """Go to working on an item, from idle or from the last item."""
        self.deadline = time.monotonic() + ITEM_SECONDS
        self.index = index
        self.state = "working"

    def end(self) -> None:
        """Go from working to idle, and confirm that the last place works."""
        self.state = "idle"
        if self._visit is not None:
            self.batch.breaker.confirm(self._visit)

    def abandon(self) -> None:
        """Go to abandoned, for good. The thread counts as stuck until it comes back."""
        self.state = "abandoned"
        visit = self._visit  # read once, because the thread may continue meanwhile
        if visit is not None:
            self.batch.breaker.count_stuck(visit)

    def leave(self) -> None:
        """Leave the last place, because the thread has come back and is done."""
        if self.state != "abandoned":
            self.state = "ended"

        self._leave_place()

    def _leave_place(self) -> None:
        visit = self._visit
        if visit is not None:
            self._visit = None
            self.batch.breaker.leave(visit, has_worked=self.state == "working")


class Batch(Generic[SessionT, ItemT, ResultT]):
    """The items of one call and their outcomes, shared by threads.

    ``open_session(worker)`` is entered once on each thread that takes part, and
    ``function(session, item)`` is called for each item. When every item has been answered, ``wake``
    is called, on any thread.
    """

    def __init__(
        self,
        open_session: Callable[[Worker], AbstractContextManager[SessionT]],
        function: Callable[[SessionT, ItemT], ResultT],
        items: Sequence[ItemT],
        breaker: CircuitBreaker,
        wake: Callable[[], None],
    ) -> None:
        self.closed: bool = False
        self.breaker = breaker
        self._open_session = open_session
        self._function = function
        self._items = items
        self._wake = wake
        self._lock = threading.Lock()
        self._results: list[ResultT | Exception | None] = [None] * len(items)
        self._waiting = deque(range(len(items)))
        self._unanswered = len(items)
        self._workers: set[Worker] = set()

    @property
    def results(self) -> list[ResultT | Exception]:
        """Results and exceptions in the items' order; complete when ``wake`` is called."""
        return cast("list[ResultT | Exception]", self._results)

    @property
    def waiting(self) -> int:
        """The number of items that no thread has begun."""
        return len(self._waiting)

    def run(self, worker: Worker) -> None:
        """Work on items until none is left: the body of each thread.

        Raises nothing. If a session fails, this is logged, and the remaining items time out.
        """
        with self._lock:
            self._workers.add(worker)

        try:
            with self._open_session(worker) as session:
                with self._lock:
                    index = self._begin_next(worker)

                while index is not None:
                    index = self._put(worker, self._apply(session, index))
        except Abandoned:
            pass
        except Exception as error:
            # Failures of items are outcomes, so this is a failure of the session. It must not end
            # the thread, because the pool would not replace it.
            _log.error("a session on a worker thread failed", exc_info=error)
        finally:
            with self._lock:
                self._workers.discard(worker)
                worker.leave()

    def close(self) -> None:
        """Let workers stop at their next check: no caller waits for the results any more."""
        self.closed = True  # without the lock: it never goes back, and a check may see it late

    def give_up(self, worker: Worker, *, call_is_over: bool = False) -> bool:
        """Abandon a late worker, and answer its item with a timeout.

        Returns False if the worker has finished the item meanwhile. If the call is over, the worker
        need not be late.
        """
        with self._lock:
            works = worker.state == "working"
            is_due = works if call_is_over else worker.is_late
            if not is_due:
                return False  # it has ended, or began another item meanwhile

            worker.abandon()
            if works:
                self._answer(worker.index, Refused("timeout"))

            return True

    def settle_waiting(self) -> None:
        """Answer each item that no thread has begun with a timeout, because none will begin."""
        with self._lock:
            while self._waiting:
                self._answer(self._waiting.popleft(), Refused("timeout"))

    def list_working(self) -> list[Worker]:
        """Return the workers that work on an item now."""
        with self._lock:
            return [worker for worker in self._workers if worker.state == "working"]

    def _apply(self, session: SessionT, index: int) -> ResultT | Exception:
        """Return an item's result; an exception is the outcome of this item alone."""
        try:
            return self._function(session, self._items[index])
        except Abandoned:
            raise
        except Exception as error:
            return error

    def _put(self, worker: Worker, result: ResultT | Exception) -> int | None:
        """Answer a worker's item, unless it was abandoned, and let it begin the next."""
        with self._lock:
            if worker.state == "abandoned":
                return None

            done = worker.index
            index = self._begin_next(worker)
            if index is None:
                worker.end()  # first, so that the place is known to work once the caller wakes

            self._answer(done, result)
            return index

    def _begin_next(self, worker: Worker) -> int | None:
        """Let a worker begin the next item, if there is one for it. The lock is held."""
        if self.closed or worker.state == "abandoned" or not self._waiting:
            return None

        index = self._waiting.popleft()
        worker.begin(index)
        return index

    def _answer(self, index: int, result: ResultT | Exception) -> None:
        """Store an item's result, and wake the caller after the last one. The lock is held."""
        self._results[index] = result
        self._unanswered -= 1
        if not self._unanswered:
            self._wake()


AnyBatch = Batch[Any, Any, Any]
"""A batch of any types, as the pool's threads run them."""


class WorkerPool:
    """A few daemon threads that run batches of blocking work for event loops."""

    def __init__(self) -> None:
        self._threads = ServingThreads("abilities-worker", self._serve, most=THREADS)
        self._breaker = CircuitBreaker()
        self._lock = threading.Lock()
        self._running: set[Worker] = set()

    async def map(
        self,
        open_session: Callable[[Worker], AbstractContextManager[SessionT]],
        function: Callable[[SessionT, ItemT], ResultT],
        items: Sequence[ItemT],
    ) -> list[ResultT | Exception]:
        """Apply ``function(session, item)`` to every item.

        Returns results and exceptions in the items' order. ``open_session(worker)`` is entered once
        on each thread that takes part. An item that has not ended after 2 s, or 10 s after the call
        began, yields Refused("timeout"). If the caller is cancelled, threads stop at their next
        check.
        """
        if not items:
            return []

        call: Call[None, None] = Call(None)
        wake = partial(call.settle, None)
        batch = Batch(open_session, function, items, self._breaker, wake)
        self._threads.put("", batch)  # the calls of all namespaces; their callers take turns

        end = time.monotonic() + CALL_SECONDS
        timer: asyncio.TimerHandle

        def look_later() -> asyncio.TimerHandle:
            now = time.monotonic()
            deadlines = [worker.deadline for worker in batch.list_working()]
            if not deadlines:
                deadlines = [now + _POLL_SECONDS]

            next_look = min(end, *deadlines)
            return call.loop.call_later(max(next_look - now, 0.001), look)

        def look() -> None:
            nonlocal timer
            try:
                # Also give up workers of cancelled calls, which nothing else attends any more.
                with self._lock:
                    closed = [worker for worker in self._running if worker.batch.closed]
                    stuck = [worker for worker in closed if worker.is_late]
                for worker in stuck:
                    self._give_up(worker)

                self._threads.start_if_needed()  # the system may have had no thread left before
                self._rescue(batch, call_is_over=time.monotonic() >= end)
            finally:
                timer = look_later()

        timer = look_later()
        try:
            await call.wait()
        finally:
            timer.cancel()
            batch.close()

        return batch.results

    def count_stuck(self) -> int:
        """Return the number of threads that are stuck in a file or folder."""
        return self._breaker.count_lost()

    def close(self) -> None:
        """Let idle threads end; a stuck one remains until the process ends."""
        self._threads.end()

    def _rescue(self, batch: AnyBatch, *, call_is_over: bool) -> None:
        """Give up stuck items, and let fresh threads take the waiting ones."""
        if call_is_over:
            batch.settle_waiting()

        given_up = 0
        for worker in batch.list_working():
            given_up += self._give_up(worker, call_is_over=call_is_over)

        if not given_up:
            return

        threads = min(FAN_OUT - len(batch.list_working()), batch.waiting)
        for _ in range(threads):
            rescue = partial(batch.run, Worker(batch))
            if start_daemon(rescue, "abilities-rescue") is None:
                return

    def _give_up(self, worker: Worker, *, call_is_over: bool = False) -> bool:
        """Abandon a worker and replace its thread; return False if it is no longer stuck."""
        if not worker.batch.give_up(worker, call_is_over=call_is_over):
            return False

        _log.warning("a file or folder does not answer", extra={"threads": self.count_stuck()})
        if worker.thread is not None:
            self._threads.replace(worker.thread)

        return True

    def _serve(self, batch: AnyBatch) -> bool:
        """Run a batch on a thread of the pool; return whether it was abandoned there."""
        worker = Worker(batch, threading.current_thread())
        with self._lock:
            self._running.add(worker)

        batch.run(worker)
        with self._lock:
            self._running.discard(worker)

        return worker.state == "abandoned"
