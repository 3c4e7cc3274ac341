"""The items of one call, and the workers that take them: one thread each, of which some may hang.

Who changes what, and under which lock:

=============================  ==========================================  ======================
what                           is changed by                               under
=============================  ==========================================  ======================
a worker's state and item      its `Batch`, through the worker's methods   the batch's lock
a worker's visit               the worker, on its own thread               no lock: only one does
a batch's items and results    the `Batch`, on any thread                  the batch's lock
who is stuck in which place    the `CircuitBreaker`, on any thread         the breaker's lock
threads and running workers    the `WorkerPool`, on any thread             the pool's lock
=============================  ==========================================  ======================

A thread that holds a batch's lock may take the breaker's. No other lock is taken while one is held.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Generic, Literal, TypeVar, cast

from abilities.declarations.faults import AbilitiesError, Refused
from abilities.helpers.circuit_breaker import CircuitBreaker, Visit, WorkPlace

ITEM_SECONDS = 2.0
"""After that long an item is late, and may be given up."""

_log = logging.getLogger("abilities")

SessionT = TypeVar("SessionT")
ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

WorkerState = Literal["idle", "working", "abandoned", "ended"]


class Abandoned(AbilitiesError):
    """Nobody waits for this work any more; it ends a session that `Worker.check` finds so."""


class Worker:
    """One thread's part in a batch: the item it works on, until when, and in which place.

    =========  ==================================================  ================================
    state      the thread                                          next
    =========  ==================================================  ================================
    idle       is between two items, or opens or closes a session  working, by `begin`; abandoned,
                                                                   by `abandon`; ended, by `leave`
    working    works on the item ``index``                         working, by `begin`; idle, by
                                                                   `end`; the others as above
    abandoned  got stuck; its item was answered without it, and    none: the thread ends as soon as
               its result will be dropped                          it comes back
    ended      has left the batch                                  none
    =========  ==================================================  ================================

    `begin`, `end`, `abandon` and `leave` are for the batch, which holds its lock. Sessions call
    `enter` before they may get stuck in a place, and `check` between blocking steps, both on the
    worker's own thread. Other threads may read without a lock; then they may see a state that has
    just changed.
    """

    def __init__(self, batch: "AnyBatch", *, pooled: bool) -> None:
        self.batch = batch
        self.pooled = pooled
        self.state: WorkerState = "idle"
        self.index: int = -1
        self.deadline: float = time.monotonic() + ITEM_SECONDS
        self._visit: Visit | None = None

    def check(self) -> None:
        """Raise Abandoned if nobody waits for this item any more."""
        if self.state == "abandoned" or self.batch.closed:
            raise Abandoned()

    def enter(self, place: WorkPlace) -> None:
        """Go on in a place, for example a file, and leave the one before, which has worked.

        Raises Abandoned; Refused("timeout") at once if too many other calls are stuck there.
        """
        self._leave_place()

        # In this order: whoever abandons the worker sets the state first and counts this visit
        # then, so that either the visit is counted or the state is seen here.
        self._visit = visit = self.batch.breaker.enter(place, self.batch)
        if self.state == "abandoned":
            raise Abandoned()

        if visit is None:
            raise Refused("timeout")

    @property
    def is_late(self) -> bool:
        """Whether the thread has used up its time for the current item, or for a step between."""
        return self.state in ("idle", "working") and time.monotonic() >= self.deadline

    def begin(self, index: int) -> None:
        """Go on to working on an item, from idle or from the item before."""
        self.deadline = time.monotonic() + ITEM_SECONDS
        self.index = index
        self.state = "working"

    def end(self) -> None:
        """Go from working to idle. The place that the thread came back from works."""
        self.state = "idle"
        if self._visit is not None:
            self.batch.breaker.confirm(self._visit)

    def abandon(self) -> None:
        """Go to abandoned, for good. Until the thread comes back, it counts as stuck."""
        self.state = "abandoned"
        visit = self._visit  # read once: the thread may go on meanwhile
        if visit is not None:
            self.batch.breaker.count_stuck(visit)

    def leave(self) -> None:
        """Leave the last place: the thread has come back, and is done."""
        if self.state != "abandoned":
            self.state = "ended"

        self._leave_place()

    def _leave_place(self) -> None:
        visit = self._visit
        if visit is not None:
            self._visit = None
            self.batch.breaker.leave(visit, has_worked=self.state == "working")


class Batch(Generic[SessionT, ItemT, ResultT]):
    """The items of one call and their outcomes. Threads share it.

    ``open_session(worker)`` is entered once on each thread that takes part, and
    ``function(session, item)`` is called for each item. ``wake`` is called on any thread when every
    item has been answered.
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
        """How many items no thread has taken yet."""
        return len(self._waiting)

    def run(self, worker: Worker) -> None:
        """Work on items until none is left: the body of each thread.

        Raises nothing. A session that fails is logged; the items it leaves time out.
        """
        with self._lock:
            self._workers.add(worker)

        try:
            with self._open_session(worker) as session:
                index = self._take(worker)
                while index is not None:
                    index = self._put(worker, self._apply(session, index))
        except Abandoned:
            pass
        except Exception as error:
            # Items fail on their own, so this is the session's. If it ended the thread, the pool
            # would miss it for good.
            _log.error("a session on a worker thread failed", exc_info=error)
        finally:
            self._leave(worker)

    def close(self) -> None:
        """Let workers stop at their next check: nobody waits for the results any more."""
        self.closed = True  # without the lock: it is only ever set, and a check may see it late

    def give_up(self, worker: Worker, *, call_is_over: bool = False) -> bool:
        """Abandon a late worker, and answer its item with a timeout.

        Returns whether that happened: the worker may have finished the item meanwhile. If the call
        is over, a worker need not be late.
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
        """Answer each item that no thread has taken yet with a timeout, because none will be."""
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

    def _take(self, worker: Worker) -> int | None:
        """Let a worker begin the next item; None if there is none for it."""
        with self._lock:
            return self._begin_next(worker)

    def _put(self, worker: Worker, result: ResultT | Exception) -> int | None:
        """Answer a worker's item, unless that was done without it, and let it begin the next."""
        with self._lock:
            if worker.state == "abandoned":
                return None

            self._answer(worker.index, result)
            index = self._begin_next(worker)
            if index is None:
                worker.end()

            return index

    def _begin_next(self, worker: Worker) -> int | None:
        """Let a worker begin the next item, if there is one for it. The lock is held."""
        if self.closed or worker.state == "abandoned" or not self._waiting:
            return None

        index = self._waiting.popleft()
        worker.begin(index)
        return index

    def _leave(self, worker: Worker) -> None:
        """Forget a worker whose thread is done; one that was stuck is stuck no more."""
        with self._lock:
            self._workers.discard(worker)
            worker.leave()

    def _answer(self, index: int, result: ResultT | Exception) -> None:
        """Keep an item's result, and wake the caller after the last one. The lock is held."""
        self._results[index] = result
        self._unanswered -= 1
        if not self._unanswered:
            self._wake()


AnyBatch = Batch[Any, Any, Any]
"""A batch of any types: the pool's threads work on all of them."""
