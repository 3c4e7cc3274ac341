"""Turns: work that waits for a thread is taken from each namespace, and each caller, in turn.

Daemon threads that take what is put before them, in turn, and start as they are needed.
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
"""Without an item for so long, a thread that has something to do then rests."""


class ServingThreads(Generic[Item]):
    """Up to ``most`` threads of one name, which call ``serve(item)`` for one item after another.

    If that returns True, the thread was abandoned meanwhile, and ends: another has its place.
    ``rest()`` is called whenever `IDLE_SECONDS` pass without an item, and ``end()`` when a thread
    ends because of `close`. None of them may raise. They are daemons, so that none can keep the
    process from exiting.
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
        """Let an item of a namespace, and of the current caller, be served."""
        self.queue.put(namespace, item)
        self.start_if_needed()

    def start_if_needed(self) -> None:
        """Start a thread if items wait and there is room for it, in the system too."""
        if len(self._threads) < self._most and len(self.queue) > self._idle:
            self.start()

    def start(self) -> None:
        """Start a thread if there is room for it: it rests even if nothing was ever put."""
        with self._lock:
            if len(self._threads) < self._most:
                thread = start_daemon(self._run, self._name)
                if thread is not None:
                    self._threads.append(thread)

    def take_more(self) -> Item | None:
        """Return the next item if one waits; for a thread that serves several together."""
        try:
            item = self.queue.get_nowait()
        except Empty:
            return None

        if item is None:
            self.queue.put_end()  # that is for when this thread has served what it has taken
        return item

    def replace(self, thread: threading.Thread) -> None:
        """Give the place of a thread, which got stuck and will end, to another."""
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
    """Start a daemon thread and return it; None if the system has no room for it."""
    thread = threading.Thread(target=body, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return None

    return thread


async def join(threads: Iterable[threading.Thread], seconds: float | None = None) -> None:
    """Wait, without blocking the event loop, until threads have ended, or for so long at most."""
    alive = [thread for thread in threads if thread.is_alive()]
    if alive:
        await asyncio.to_thread(_join, alive, seconds)


def _join(threads: Iterable[threading.Thread], seconds: float | None) -> None:
    end = None if seconds is None else time.monotonic() + seconds
    for thread in threads:
        thread.join(None if end is None else max(end - time.monotonic(), 0))


turn_owner: ContextVar[str] = ContextVar("turn_owner", default="")
"""Who makes the call that is being answered: a token or a connection. A server sets it."""


class TurnQueue(Generic[Item]):
    """A queue in which nobody waits behind all the work of somebody else.

    `get` serves the waiting namespaces in turn (round robin), and within a namespace its callers:
    work waits for one item of each other namespace, however many they have put. Items of one caller
    stay in order. Any number of threads may put and get.
    """

    def __init__(self) -> None:
        self._signals: SimpleQueue[bool] = SimpleQueue()  # True for an item, False for an end
        self._lock = threading.Lock()
        self._namespaces: OrderedDict[str, OrderedDict[str, deque[Item]]] = OrderedDict()

    def __len__(self) -> int:
        """Return how many items wait."""
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

            # Whoever has more goes to the back.
            if items:
                callers[caller] = items
            if callers:
                self._namespaces[namespace] = callers

        return item


class TurnLine:
    """The tasks of one event loop that wait for something, which goes to each in turn."""

    def __init__(self) -> None:
        self._waiting: TurnQueue[asyncio.Future[None]] = TurnQueue()

    def __len__(self) -> int:
        return len(self._waiting)

    def join(self, namespace: str = "") -> "asyncio.Future[None]":
        """Return what is done when it is the turn of the current caller, of a namespace."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.put(namespace, turn)
        return turn

    def call_next(self) -> bool:
        """Give the next one that still waits its turn; return False if there is none."""
        while len(self._waiting):
            turn = self._waiting.get_nowait()
            if turn is not None and not turn.done():
                turn.set_result(None)
                return True

        return False


async def _wait_for(turn: "asyncio.Future[None]", give_back: Callable[[], None]) -> None:
    """Wait for a turn; give it back if the task is cancelled at the moment when it comes."""
    try:
        await turn
    except asyncio.CancelledError:
        if turn.done() and not turn.cancelled():
            give_back()
        raise


LONG_SECONDS = 0.02
"""Work of this length is long: several such pieces at a time delay what others ask for."""

PRESENT_SECONDS = 1.0
"""A namespace counts as present for so long after its last work, and its work as long."""


class _OwnSlots:
    """What one namespace holds, who of it waits to hold more, when it worked, and when for long."""

    def __init__(self) -> None:
        self.held = 0
        self.line = TurnLine()
        self.last_seen = 0.0
        self.last_long = -math.inf

    @property
    def is_idle(self) -> bool:
        return not self.held and not len(self.line)


class TurnSlots:
    """A limited number of slots for work on one event loop; who waits for one gets it in turn.

    A namespace holds ``most`` of them at a time, so that another one, whose work is short, need not
    wait for the end of work that is long. While another one is present, it holds a single slot if
    work of it was long of late: the processors are shared too.
    """

    def __init__(self, size: int, most: int) -> None:
        self._free = size
        self._most = most
        self._own: OrderedDict[str, _OwnSlots] = OrderedDict()
        self._line = TurnLine()

    def __len__(self) -> int:
        """Return how many of those who may hold another slot wait for one."""
        return len(self._line)

    @asynccontextmanager
    async def take(self, namespace: str) -> AsyncGenerator[None]:
        """Hold a slot for a block. The namespace "" stands for work on all of them."""
        loop = asyncio.get_running_loop()
        own = self._own.setdefault(namespace, _OwnSlots())
        own.last_seen = loop.time()
        self._own.move_to_end(namespace)

        await self._enter(own)
        try:
            await self._acquire(namespace)
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

    async def _enter(self, own: _OwnSlots) -> None:
        """Wait until a namespace may hold another slot."""
        turn = own.line.join()
        self._admit(own)
        await _wait_for(turn, partial(self._leave, own))

    def _leave(self, own: _OwnSlots) -> None:
        own.held -= 1
        self._admit(own)

    def _admit(self, own: _OwnSlots) -> None:
        """Let those in who wait for a namespace to hold less."""
        self._forget_absent()

        while own.held < self._find_most(own) and own.line.call_next():
            own.held += 1

    def _find_most(self, own: _OwnSlots) -> int:
        """Return how many slots a namespace may hold now."""
        present = len(self._own) - ("" in self._own)
        earliest = asyncio.get_running_loop().time() - PRESENT_SECONDS
        if own.last_long >= earliest and present > 1:
            return 1

        return self._most

    def _forget_absent(self) -> None:
        """Forget namespaces that are no longer present, the longest absent first."""
        earliest = asyncio.get_running_loop().time() - PRESENT_SECONDS

        while self._own:
            namespace, own = next(iter(self._own.items()))
            if own.last_seen >= earliest or not own.is_idle:
                break
            del self._own[namespace]

    async def _acquire(self, namespace: str) -> None:
        if self._free:
            self._free -= 1
            return

        await _wait_for(self._line.join(namespace), self._release)

    def _release(self) -> None:
        """Give the slot to the next one who still waits."""
        if not self._line.call_next():
            self._free += 1


class _Rounds:
    """The rounds of an event loop, each of which goes to one call."""

    def __init__(self) -> None:
        self._is_taken = False
        self._line = TurnLine()

    async def take(self) -> None:
        """Return at once if nobody has this round, else when it is the caller's turn."""
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
    """Wait until the current caller may go on with a piece of work on the event loop.

    A loop runs everything that is ready before it looks at its sockets again. If a caller has sixty
    calls whose answers are ready to be rendered, whoever has sent a request meanwhile would wait
    for all of them, at each step of its call. So one call goes on per round of the loop, and
    callers take turns. Where no server has set `turn_owner`, there is nobody to be fair to.
    """
    if not turn_owner.get():
        return

    loop = asyncio.get_running_loop()
    rounds = _rounds.get(loop)
    if rounds is None:
        rounds = _rounds[loop] = _Rounds()

    await rounds.take()
