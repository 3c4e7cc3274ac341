"""Daemon threads that take what is put before them, in turn, and start as they are needed."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterable
from queue import Empty
from typing import Generic, TypeVar

from abilities.helpers.threads.turns import TurnQueue

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
