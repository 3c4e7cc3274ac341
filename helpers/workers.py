"""Run a batch of blocking work in one hop to a thread, whatever one of its items does.

A call's items run one after another on one thread. When an item has not ended after `ITEM_SECONDS` it
is given up, its thread is left behind, and the items that remain go on in several fresh threads.
Threads are daemons, so that none of them can keep the process from exiting.
"""

import asyncio
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from queue import SimpleQueue
from typing import Any

from abilities.declarations.faults import AbilitiesError, Refused

ITEM_SECONDS = 2.0
CALL_SECONDS = 10.0
THREADS = 2
"""Calls that run at the same time; more gain nothing under one interpreter lock, the others queue."""
FAN_OUT = 8
"""Threads that share what remains of a call in which an item got stuck."""
STUCK_CALLS = 4
"""Calls that may leave a stuck thread behind in one place before that place is refused without trying."""
_POLL = 0.5  # seconds between looks at a call that has not begun

Session = Callable[["Worker"], AbstractContextManager[Any]]
Function = Callable[[Any, Any], Any]


class Abandoned(AbilitiesError):
    """Nobody waits for this work any more."""


class Worker:
    """One thread's part in a batch: which item it works on, since when, and in which ``place`` (it says itself)."""

    def __init__(self, batch: "Batch", *, pooled: bool) -> None:
        self.batch = batch
        self.pooled = pooled
        self.index = -1
        self.started: float = 0.0
        self.place = ""
        self.abandoned = False

    def check(self) -> None:
        """Called between blocking steps. Raises Closed when nobody waits for this item any more."""
        if self.abandoned or self.batch.closed:
            raise Abandoned()

    def refuse_stuck(self) -> None:
        """Raises Refused("timeout") at once where too many other calls are stuck in this place."""
        if self.batch.breaker.is_open(self.place, id(self.batch)):
            raise Refused("timeout")

    def late(self) -> bool:
        """Whether the current item has used up its time."""
        return self.index >= 0 and time.monotonic() - self.started >= ITEM_SECONDS


class CircuitBreaker:
    """Counts, per place, the calls that have left a stuck thread behind there."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[str, Counter[int]] = {}

    def is_open(self, place: str, call: int) -> bool:
        """Whether a call's work in this place is to be refused without trying; its own threads do not count."""
        with self._lock:
            return sum(other != call for other in self._calls.get(place, ())) >= STUCK_CALLS

    def add(self, place: str, call: int) -> None:
        """A thread of a call got stuck."""
        with self._lock:
            self._calls.setdefault(place, Counter())[call] += 1

    def remove(self, place: str, call: int) -> None:
        """A stuck thread of a call came back."""
        with self._lock:
            calls = self._calls[place]
            calls[call] -= 1
            if not calls[call]:
                del calls[call]


class Batch:
    """The items of one call and what became of them; threads share it, every change is under its lock."""

    def __init__(
        self,
        session: Session,
        function: Function,
        items: Sequence[Any],
        breaker: CircuitBreaker,
        wake: Callable[[], None],
    ) -> None:
        self.breaker = breaker
        self.closed = False
        self.results: list[Any] = [None] * len(items)
        self._session = session
        self._function = function
        self._items = items
        self._wake = wake
        self._lock = threading.Lock()
        self._todo = deque(range(len(items)))
        self._left = len(items)
        self._watches: set[Worker] = set()

    def run(self, watch: Worker) -> None:
        """Work on items until none is left; the body of each thread."""
        with self._lock:
            self._watches.add(watch)
        try:
            with self._session(watch) as session:
                while self._take(watch):
                    self._put(watch, self._outcome(session, watch))
        except Abandoned:
            pass
        finally:
            self._leave(watch)

    def give_up(self, watch: Worker) -> bool:
        """Answer a stuck item in its thread's place and leave that thread behind; whether it was still at work."""
        with self._lock:
            if watch.index < 0 or watch.abandoned:
                return False
            watch.abandoned = True
            self.breaker.add(watch.place, id(self))
            self._finish(watch.index, Refused("timeout"))
            return True

    def cut_short(self) -> None:
        """The call's time is over: what no thread has taken yet is answered now."""
        with self._lock:
            while self._todo:
                self._finish(self._todo.popleft(), Refused("timeout"))

    def active(self) -> list[Worker]:
        """The threads that work on an item now."""
        with self._lock:
            return [watch for watch in self._watches if watch.index >= 0 and not watch.abandoned]

    @property
    def waiting(self) -> int:
        """Items that no thread has taken yet."""
        return len(self._todo)

    def _outcome(self, session: Any, watch: Worker) -> Any:
        try:
            return self._function(session, self._items[watch.index])
        except Abandoned:
            raise
        except Exception as error:
            return error

    def _take(self, watch: Worker) -> bool:
        with self._lock:
            if self.closed or watch.abandoned or not self._todo:
                return False
            watch.started = time.monotonic()
            watch.index = self._todo.popleft()
            return True

    def _put(self, watch: Worker, result: Any) -> None:
        with self._lock:
            if not watch.abandoned:
                index, watch.index = watch.index, -1
                self._finish(index, result)

    def _finish(self, index: int, result: Any) -> None:
        self.results[index] = result
        self._left -= 1
        if not self._left:
            self._wake()

    def _leave(self, watch: Worker) -> None:
        with self._lock:
            self._watches.discard(watch)
            watch.index = -1
            if watch.abandoned:
                self.breaker.remove(watch.place, id(self))


class WorkerPool:
    """A few daemon threads that run batches of blocking work for an event loop."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Batch | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._threads = 0
        self._running: set[Worker] = set()
        self._breaker = CircuitBreaker()

    async def map(self, session: Session, function: Function, items: Sequence[Any]) -> list[Any]:
        """Apply ``function(session, item)`` to every item; results and exceptions in the items' order.

        ``session(watch)`` is entered once on each thread that takes part. An item that has not ended
        after 2 s, or 10 s after the call began, yields Refused("timeout"). When the caller is cancelled,
        threads stop at their next check.
        """
        if not items:
            return []
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def settle() -> None:
            if not done.done():
                done.set_result(None)

        def wake() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle)

        batch = Batch(session, function, items, self._breaker, wake)
        self._submit(batch)
        try:
            await self._attend(batch, done)
        finally:
            batch.closed = True
        return batch.results

    def close(self) -> None:
        """Let idle threads end; a stuck one is left to the end of the process."""
        with self._lock:
            for _ in range(self._threads):
                self._queue.put(None)

    async def _attend(self, batch: Batch, done: "asyncio.Future[None]") -> None:
        end = time.monotonic() + CALL_SECONDS
        while True:
            begun = [watch.started + ITEM_SECONDS for watch in batch.active()]
            now = time.monotonic()
            due = min([end, *begun] if begun else [end, now + _POLL])
            await asyncio.wait((done,), timeout=max(due - now, 0.001))
            if done.done():
                return
            self._reclaim()
            self._rescue(batch, over=time.monotonic() >= end)

    def _rescue(self, batch: Batch, *, over: bool) -> None:
        """Give up what is stuck and let the items that remain go on in fresh threads."""
        if over:
            batch.cut_short()
        late = [watch for watch in batch.active() if over or watch.late()]
        for watch in late:
            self._give_up(watch)
        for _ in range(min(FAN_OUT - len(batch.active()), batch.waiting) if late else 0):
            watch = Worker(batch, pooled=False)
            threading.Thread(
                target=batch.run, args=(watch,), name="abilities-rescue", daemon=True
            ).start()

    def _reclaim(self) -> None:
        """Replace threads that a cancelled call left stuck, which nobody attends to any more."""
        with self._lock:
            left = [watch for watch in self._running if watch.batch.closed and watch.late()]
        for watch in left:
            self._give_up(watch)

    def _give_up(self, watch: Worker) -> None:
        if watch.batch.give_up(watch) and watch.pooled:
            with self._lock:
                self._threads -= 1
            self._fill()

    def _submit(self, batch: Batch) -> None:
        self._queue.put(batch)
        self._fill()

    def _fill(self) -> None:
        """Start a thread where work waits and there is room."""
        with self._lock:
            if self._queue.qsize() > self._idle and self._threads < THREADS:
                self._threads += 1
                threading.Thread(target=self._serve, name="abilities-worker", daemon=True).start()

    def _serve(self) -> None:
        while (batch := self._next()) is not None:
            watch = Worker(batch, pooled=True)
            with self._lock:
                self._running.add(watch)
            batch.run(watch)
            with self._lock:
                self._running.discard(watch)
            if watch.abandoned:
                return

    def _next(self) -> Batch | None:
        with self._lock:
            self._idle += 1
        batch = self._queue.get()
        with self._lock:
            self._idle -= 1
            if batch is None:
                self._threads -= 1
        return batch
