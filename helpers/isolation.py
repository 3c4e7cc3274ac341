"""Run foreign coroutines on event loops of their own, so that none can hold up anybody else.

Each group of foreign code, such as a plugin, has a thread with an event loop, on which its calls
run. If a call blocks the loop or does not end in time, the thread is stuck until it does, and the
group's further calls go to another thread. There are few, so that what is stuck costs its own group
all that it has, and other groups nothing.

`circuit_breaker` is not used here. It tries a refused place again and again, and each trial may
cost a thread; but a thread that is stuck in Python code slows the whole process down.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

from abilities.declarations.faults import Refused
from abilities.helpers.daemons import DaemonExecutor

CALL_SECONDS = 10.0
"""After that long a call is answered with a timeout."""

STALL_SECONDS = 1.0
"""A call that has not begun after that long finds its loop blocked, and goes to another thread."""

MAX_CALLS = 64
"""Calls of a group at the same time: as many as a server takes of one caller."""

MAX_THREADS = 5
"""Threads of a group. While all of them are stuck, its calls are refused at once."""

CLOSE_SECONDS = 1.0
"""How long `IsolatedLoops.close` waits for the threads to end."""

Result = TypeVar("Result")
Work = Callable[[], Coroutine[object, object, Result]]

_log = logging.getLogger("abilities")


class ForeignExit(Exception):
    """A coroutine raised what would end a thread or a process; the cause is what it raised.

    For example SystemExit, KeyboardInterrupt, or a CancelledError that nobody asked for.
    """


class IsolatedLoops:
    """The event loops of all groups. Calls may come from any event loop and any thread."""

    def __init__(self) -> None:
        self._groups: dict[str, _LoopGroup] = {}
        self._lock = threading.Lock()

    async def run(self, group: str, work: Work[Result]) -> Result:
        """Run a coroutine on a loop of its group, and return its result.

        It runs in the caller's context (`contextvars`), and is cancelled if the caller is. Raises
        Refused: overloaded, resource_exhausted, timeout; ForeignExit; and what the coroutine
        raises.
        """
        with self._lock:
            if group not in self._groups:
                self._groups[group] = _LoopGroup(group)

            chosen = self._groups[group]

        return await chosen.run(work)

    async def close(self) -> None:
        """Cancel what runs, and end the threads; those that are stuck are left behind."""
        with self._lock:
            threads = [thread for group in self._groups.values() for thread in group.threads]
            self._groups.clear()

        for thread in threads:
            thread.stop()

        if threads:
            await asyncio.to_thread(_join, threads)


def _join(threads: "Sequence[_LoopThread]") -> None:
    end = time.monotonic() + CLOSE_SECONDS

    for thread in threads:
        thread.join(max(end - time.monotonic(), 0))


class _LoopGroup:
    """The threads of one group, and how many calls it has."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls = 0
        self._lock = threading.Lock()
        self.threads: list[_LoopThread] = []

    async def run(self, work: Work[Result]) -> Result:
        """Run a coroutine on one of the threads, as `IsolatedLoops.run` does."""
        with self._lock:
            if self._calls >= MAX_CALLS:
                raise Refused("overloaded")
            self._calls += 1

        call = _Call(work)
        try:
            return await self._attend(call)
        finally:
            with self._lock:
                self._calls -= 1
            call.give_up()

    async def _attend(self, call: "_Call[Result]") -> Result:
        """Offer a call to one thread after the other until it begins, and wait for its outcome."""
        end = time.monotonic() + CALL_SECONDS

        while call.thread is None:
            thread = self._choose_thread()
            thread.submit(call)
            await asyncio.wait((call.outcome,), timeout=STALL_SECONDS)

            if call.thread is None:
                thread.add_stuck(call)
                if time.monotonic() >= end:
                    raise Refused("timeout")

        await asyncio.wait((call.outcome,), timeout=max(end - time.monotonic(), 0))
        if not call.outcome.done():
            raise Refused("timeout")

        return call.outcome.result()

    def _choose_thread(self) -> "_LoopThread":
        """Return the first thread that is not stuck, a new one if all are.

        The order keeps a group on one loop as long as it behaves: much that lives in a module, such
        as an HTTP client, works on one loop only. Raises Refused: overloaded, resource_exhausted.
        """
        with self._lock:
            for thread in self.threads:
                if not thread.is_stuck:
                    return thread

            if len(self.threads) >= MAX_THREADS:
                raise Refused("overloaded")

            try:
                started = _LoopThread(self._name)
            except (OSError, RuntimeError):  # no descriptors or threads are left
                raise Refused("resource_exhausted") from None

            self.threads.append(started)
            return started


class _Call(Generic[Result]):
    """One call: its outcome on the caller's loop, and its coroutine on a thread of its group."""

    def __init__(self, work: Work[Result]) -> None:
        self._work = work
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._is_given_up = False
        self._task: asyncio.Task[None] | None = None
        self.outcome: asyncio.Future[Result] = self._loop.create_future()
        self.thread: _LoopThread | None = None  # where it began
        self.is_ended = False

    def begin(self, thread: "_LoopThread") -> bool:
        """Let a thread run the call; return False if another does, or if nobody waits for it."""
        with self._lock:
            if self._is_given_up or self.thread is not None:
                return False

            self.thread = thread
            return True

    def give_up(self) -> None:
        """Cancel the coroutine, if it has not ended; its thread counts as stuck until it does."""
        with self._lock:
            self._is_given_up = True

        if self.thread is not None and not self.outcome.done():
            self.thread.cancel(self)

    def cancel(self) -> None:
        """Cancel the coroutine. Called on the loop that it runs on."""
        if self._task is not None:
            self._task.cancel()

    async def run(self) -> None:
        """Run the coroutine, and hand its outcome to the caller, whatever it is."""
        self._task = asyncio.current_task()

        try:
            result = await self._work()
        except Exception as error:
            self._settle(self.outcome.set_exception, error)
        except BaseException as error:
            failure = ForeignExit(type(error).__name__)
            failure.__cause__ = error
            self._settle(self.outcome.set_exception, failure)
        else:
            self._settle(self.outcome.set_result, result)

    def _settle(self, settle: Callable[[Any], None], value: object) -> None:
        def settle_if_awaited() -> None:
            if not self._is_given_up:
                settle(value)

        with suppress(RuntimeError):  # the caller's loop may be closed by now: nobody waits
            self._loop.call_soon_threadsafe(settle_if_awaited)


class _LoopThread:
    """A daemon thread with an event loop, which nothing that runs on it can end.

    Raises OSError or RuntimeError if the system has no room for it.
    """

    def __init__(self, group: str) -> None:
        self._group = group
        self._stuck: set[_Call[Any]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_stopping = False

        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(DaemonExecutor())
        self._thread = threading.Thread(
            target=self._serve, name=f"abilities-plugin-{group}", daemon=True
        )
        try:
            self._thread.start()
        except RuntimeError:
            self._loop.close()
            raise

    @property
    def is_stuck(self) -> bool:
        """Whether a call waits here in vain to begin, or did not end when it should have."""
        return bool(self._stuck)

    def submit(self, call: _Call[Any]) -> None:
        """Run a call here, unless it begins elsewhere before."""
        self._call_soon(self._begin, call)

    def cancel(self, call: _Call[Any]) -> None:
        """Cancel a call that runs here."""
        self.add_stuck(call)
        self._call_soon(call.cancel)

    def add_stuck(self, call: _Call[Any]) -> None:
        """Count a call as stuck here until it begins or ends."""
        self._stuck.add(call)

        # It may have ended meanwhile, on the other thread; whoever comes second discards it.
        if call.is_ended:
            self._stuck.discard(call)

    def stop(self) -> None:
        """Cancel what runs, and let the thread end."""
        self._is_stopping = True
        self._call_soon(self._loop.stop)

    def join(self, seconds: float) -> None:
        """Wait until the thread has ended, so long at most."""
        self._thread.join(seconds)

    def _call_soon(self, function: Callable[..., object], *args: object) -> None:
        with suppress(RuntimeError):  # the loop may be closed by now
            self._loop.call_soon_threadsafe(function, *args)

    def _begin(self, call: _Call[Any]) -> None:
        self._stuck.discard(call)
        if not call.begin(self):
            return

        task = self._loop.create_task(call.run())
        # The loop itself has only weak references to its tasks.
        self._tasks.add(task)

        def end(_: object) -> None:
            self._tasks.discard(task)
            call.is_ended = True
            self._stuck.discard(call)

        task.add_done_callback(end)

    def _serve(self) -> None:
        # Tasks and callbacks hand SystemExit and KeyboardInterrupt through to whoever runs the
        # loop; it can go on. Anything may call its `stop`.
        while not self._is_stopping:
            self._contain(self._loop.run_forever)

        self._contain(lambda: self._loop.run_until_complete(self._finish()))
        self._loop.close()

    async def _finish(self) -> None:
        """Cancel all tasks and wait for them."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()

        if tasks:
            await asyncio.wait(tasks)
        await self._loop.shutdown_asyncgens()

    def _contain(self, run: Callable[[], None]) -> None:
        try:
            run()
        except BaseException as error:
            _log.error("a task of %s raised an exit", self._group, exc_info=error)
