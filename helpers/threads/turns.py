"""Take turns: waiting work is served from each namespace, and each caller in it, in turn.

Here are daemon threads that serve a queue in turn (`ServingThreads`), slots for work on an event
loop (`TurnSlots`), and turns for the loop itself (`take_turn`).
"""

import asyncio
import math
import threading
import time
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

Item = TypeVar("Item")

IDLE_SECONDS = 1.0
"""Seconds without an item after which a thread calls its ``rest``, if it has one."""

LONG_SECONDS = 0.02
"""Work of this length is long: several such pieces at a time delay the work of others."""

PRESENT_SECONDS = 1.0
"""Seconds after its last work in which a namespace counts as present, and long work as recent."""

turn_owner: ContextVar[str] = ContextVar("turn_owner", default="")
"""The caller of the call that is being answered: a token or a connection. A server sets it."""


class ServingThreads(Generic[Item]):
    """Up to ``most`` threads of one name, which call ``serve(item)`` for one item after another.

    If ``serve`` returns True, the thread was abandoned meanwhile, and ends: another has its place.
    ``rest()`` is called whenever `IDLE_SECONDS` pass without an item, and ``end()`` when a thread
    ends because of `close`. These functions must not raise.

    Threads start when they are needed. They are daemons, so that none can keep the process from
    exiting.
    """

    def __init__(
        self,
        name: str,
        serve: Callable[[Item], bool | None],
        *,
        most: int = 1,
        rest: Callable[[], None] | None = None,
        end: Callable[[], None] | None = None,
    ) -> None:
        self.queue: TurnQueue[Item] = TurnQueue()
        self._name = name
        self._serve = serve
        self._most = most
        self._rest = rest
        self._end = end
        self._lock = threading.Lock()
        self._idle = 0
        self._threads: list[threading.Thread] = []

    @property
    def is_started(self) -> bool:
        """Whether any thread runs."""
        return bool(self._threads)

    def put(self, namespace: str, item: Item) -> None:
        """Add an item of a namespace, and of the current caller, to be served."""
        self.queue.put(namespace, item)
        self.start_if_needed()

    def start_if_needed(self) -> None:
        """Start a thread if items wait and another thread is allowed and possible."""
        if len(self._threads) < self._most and len(self.queue) > self._idle:
            self.start()

    def start(self) -> None:
        """Start a thread if another is allowed and possible, even without any item."""
        with self._lock:
            if len(self._threads) < self._most:
                thread = start_daemon(self._run, self._name)
                if thread is not None:
                    self._threads.append(thread)

    def take_more(self) -> Item | None:
        """Return the next item if one waits, for a thread that serves several items together."""
        try:
            item = self.queue.get_nowait()
        except Empty:
            return None

        if item is None:
            self.queue.put_end()  # this end is for later: the thread first serves its items
        return item

    def replace(self, thread: threading.Thread) -> None:
        """Give the place of a stuck thread, which will end, to another thread."""
        with self._lock:
            self._threads.remove(thread)

        self.start_if_needed()

    def end(self) -> list[threading.Thread]:
        """Let the threads end once all items are served; return them."""
        with self._lock:
            threads = list(self._threads)

        for _ in threads:
            self.queue.put_end()
        return threads

    async def close(self) -> None:
        """Let all items be served, and wait until the threads have ended."""
        await join(self.end())

    def _run(self) -> None:
        while (item := self._wait_for_item()) is not None:
            if self._serve(item):
                return

        if self._end is not None:
            self._end()
        with self._lock:
            self._threads.remove(threading.current_thread())

    def _wait_for_item(self) -> Item | None:
        """Return the next item, or None when the thread is to end."""
        with self._lock:
            self._idle += 1

        try:
            while True:
                try:
                    return self.queue.get(IDLE_SECONDS if self._rest else None)
                except Empty:
                    if self._rest is not None:
                        self._rest()
        finally:
            with self._lock:
                self._idle -= 1


def start_daemon(body: Callable[[], object], name: str) -> threading.Thread | None:
    """Start a daemon thread and return it; return None if the system has no threads left."""
    thread = threading.Thread(target=body, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return None

    return thread


async def join(threads: Iterable[threading.Thread], seconds: float | None = None) -> None:
    """Wait until threads have ended, or ``seconds`` at most, without blocking the event loop."""
    alive = [thread for thread in threads if thread.is_alive()]
    if not alive:
        return

    def join_each() -> None:
        end = time.monotonic() + (seconds or 0)
        for thread in alive:
            if seconds is None:
                thread.join()
            else:
                thread.join(max(end - time.monotonic(), 0))

    await asyncio.to_thread(join_each)


class TurnQueue(Generic[Item]):
    """A queue in which no caller waits behind all the work of another.

    `get` serves the waiting namespaces in turn (round robin), and the callers within a namespace
    too: an item waits for one item of each other namespace, however many these have put. Items of
    one caller stay in order. Any number of threads may put and get.
    """

    def __init__(self) -> None:
        self._signals: SimpleQueue[bool] = SimpleQueue()  # True for an item, False for an end
        self._lock = threading.Lock()
        self._namespaces: OrderedDict[str, OrderedDict[str, deque[Item]]] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of waiting items."""
        return self._signals.qsize()

    def put(self, namespace: str, item: Item) -> None:
        """Add an item of a namespace and of the current caller."""
        caller = turn_owner.get()

        with self._lock:
            callers = self._namespaces.setdefault(namespace, OrderedDict())
            callers.setdefault(caller, deque()).append(item)

        self._signals.put(True)

    def put_end(self) -> None:
        """Let one `get` return None, once all items that were put before are taken."""
        self._signals.put(False)

    def has_others(self, namespace: str, caller: str) -> bool:
        """Return whether an item of another namespace or caller waits."""
        with self._lock:
            callers = self._namespaces.get(namespace, OrderedDict())
            return len(self._namespaces) > bool(callers) or len(callers) > (caller in callers)

    def get(self, timeout: float | None = None) -> Item | None:
        """Take the next item, or None for an end. Raises queue.Empty after ``timeout`` seconds."""
        return self._take(is_item=self._signals.get(timeout=timeout))

    def get_nowait(self) -> Item | None:
        """Take the next item, or None for an end. Raises queue.Empty."""
        return self._take(is_item=self._signals.get_nowait())

    def _take(self, *, is_item: bool) -> Item | None:
        if not is_item:
            return None

        with self._lock:
            namespace, callers = self._namespaces.popitem(last=False)
            caller, items = callers.popitem(last=False)
            item = items.popleft()

            # A caller or namespace with more items goes to the back.
            if items:
                callers[caller] = items
            if callers:
                self._namespaces[namespace] = callers

        return item


class TurnLine:
    """The tasks of one event loop that wait for a resource, which goes to each in turn."""

    def __init__(self) -> None:
        self._waiting: TurnQueue[asyncio.Future[None]] = TurnQueue()

    def __len__(self) -> int:
        return len(self._waiting)

    def join(self, namespace: str = "") -> "asyncio.Future[None]":
        """Return a future that is done when it is the turn of the current caller."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.put(namespace, turn)
        return turn

    def call_next(self) -> bool:
        """Give the next task that still waits its turn; return False if there is none."""
        while len(self._waiting):
            turn = self._waiting.get_nowait()
            if turn is not None and not turn.done():
                turn.set_result(None)
                return True

        return False


async def _wait_for(turn: "asyncio.Future[None]", give_back: Callable[[], None]) -> None:
    """Wait for a turn; give it back if the task is cancelled just when the turn comes."""
    try:
        await turn
    except asyncio.CancelledError:
        if turn.done() and not turn.cancelled():
            give_back()
        raise


class _OwnSlots:
    """The slots of one namespace: the held ones, the tasks that wait, and the last work."""

    def __init__(self) -> None:
        self.held = 0
        self.line = TurnLine()
        self.last_seen = 0.0
        self.last_long = -math.inf


class TurnSlots:
    """A limited number of slots for work on one event loop, given to waiting tasks in turn.

    A namespace holds up to ``most`` slots at a time, so that short work of another one need not
    wait until long work ends. If its recent work was long, and another namespace is present, it
    holds a single slot, because the processors are shared too.
    """

    def __init__(self, size: int, most: int) -> None:
        self._free = size
        self._most = most
        self._own: OrderedDict[str, _OwnSlots] = OrderedDict()
        self._line = TurnLine()

    def __len__(self) -> int:
        """Return the number of waiting tasks whose namespace may hold another slot."""
        return len(self._line)

    @asynccontextmanager
    async def take(self, namespace: str) -> AsyncGenerator[None]:
        """Hold a slot for a block. The namespace "" is for work on all namespaces."""
        loop = asyncio.get_running_loop()
        own = self._own.setdefault(namespace, _OwnSlots())
        own.last_seen = loop.time()
        self._own.move_to_end(namespace)

        turn = own.line.join()
        self._admit(own)
        await _wait_for(turn, partial(self._leave, own))
        try:
            if self._free:
                self._free -= 1
            else:
                await _wait_for(self._line.join(namespace), self._release)

            begun = loop.time()
            try:
                yield
            finally:
                own.last_seen = loop.time()
                if own.last_seen - begun >= LONG_SECONDS:
                    own.last_long = own.last_seen
                self._release()
        finally:
            self._leave(own)

    def _leave(self, own: _OwnSlots) -> None:
        own.held -= 1
        self._admit(own)

    def _admit(self, own: _OwnSlots) -> None:
        """Give turns to the waiting tasks of a namespace, as far as it may hold more slots."""
        earliest = asyncio.get_running_loop().time() - PRESENT_SECONDS

        # Namespaces that are no longer present are forgotten, the longest absent first.
        while self._own:
            namespace, oldest = next(iter(self._own.items()))
            if oldest.last_seen >= earliest or oldest.held or len(oldest.line):
                break
            del self._own[namespace]

        most = self._most
        present = len(self._own) - ("" in self._own)
        if own.last_long >= earliest and present > 1:
            most = 1

        while own.held < most and own.line.call_next():
            own.held += 1

    def _release(self) -> None:
        """Give the slot to the next task that still waits."""
        if not self._line.call_next():
            self._free += 1


class _Rounds:
    """The rounds of an event loop, each of which goes to one call."""

    def __init__(self) -> None:
        self._is_taken = False
        self._line = TurnLine()

    async def take(self) -> None:
        """Take this round if it is free, else wait for the caller's turn."""
        loop = asyncio.get_running_loop()

        if not self._is_taken:
            self._is_taken = True
            loop.call_soon(self._begin, loop)
            return

        await self._line.join()

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin a round: give it to the next call that still waits."""
        self._is_taken = self._line.call_next()
        if self._is_taken:
            loop.call_soon(self._begin, loop)


_rounds: WeakKeyDictionary[asyncio.AbstractEventLoop, _Rounds] = WeakKeyDictionary()


async def take_turn() -> None:
    """Wait until the current caller may continue with a piece of work on the event loop.

    A loop runs everything that is ready before it looks at its sockets again. If a caller has sixty
    calls whose answers are ready to be rendered, a new request of another caller would wait for all
    of them, at each step of its call. So only one call continues per round of the loop, and callers
    take turns. If no server has set `turn_owner`, there are no other callers, and this returns at
    once.
    """
    if not turn_owner.get():
        return

    loop = asyncio.get_running_loop()
    rounds = _rounds.get(loop)
    if rounds is None:
        rounds = _rounds[loop] = _Rounds()

    await rounds.take()
