"""Event loops on separate threads, for a store's connections and for foreign coroutines.

The connections of a store belong to one loop, and calls reach it from any loop and any thread.

Each group of foreign code, such as a plugin, has a loop on which its calls run. If a call blocks
the loop or does not end in time, its thread is stuck, and the group's further calls go to another
thread. A group has few threads. So stuck calls may cost their own group all of its threads, and
other groups none.

`circuit_breaker` is not used here. It tries a refused place again and again, and each trial may
cost a thread; but a thread that is stuck in Python code slows down the whole process.
"""

import asyncio
import logging
import operator
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, ParamSpec, TypeVar, TypeVarTuple

from typing_extensions import override

from abilities.declarations.refusals import AbilitiesError, Refused
from abilities.helpers.threads.turns import ServingThreads, join, start_daemon
from abilities.helpers.threads.workers import Call

CALL_SECONDS = 10.0
"""Seconds after which a call is answered with a timeout."""

STALL_SECONDS = 1.0
"""Seconds after which a call that has not begun counts its loop as blocked, and tries another."""

MAX_CALLS = 64
"""Calls of a group at the same time: as many as a server accepts from one caller."""

MAX_THREADS = 5
"""Threads of a group. While all of them are stuck, its calls are refused at once."""

CLOSE_SECONDS = 1.0
"""Seconds that `IsolatedLoops.close` waits for the threads to end."""

CANCEL_SECONDS = 1.0
"""Seconds that a cancelled task may take to end before it is cancelled again.

If a database driver is cancelled while it stops its statement, it closes its connection.
"""

EXECUTOR_THREADS = 8
"""The most threads of an executor; further work waits for one of them."""

Arguments = TypeVarTuple("Arguments")
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Work = Callable[[], Coroutine[object, object, Result]]

_log = logging.getLogger("abilities")


class ForeignExit(AbilitiesError):
    """A coroutine raised an exception that would end a thread or a process; it is the cause.

    For example SystemExit, KeyboardInterrupt, or a CancelledError without a request to cancel.
    """


class LoopCall(Call[Work[Result], Result]):
    """A coroutine that runs on the loop of a thread, at most once, in its caller's context."""

    def __init__(self, work: Work[Result]) -> None:
        super().__init__(work)
        self.task: asyncio.Task[None] | None = None
        self.is_ended = False

    def abandon(self) -> None:
        """Cancel the coroutine, if it has not ended; its thread counts as stuck until it does."""
        self.give_up()
        # A caller that is cancelled while it waits has cancelled the outcome.
        has_outcome = self.outcome.done() and not self.outcome.cancelled()
        if isinstance(self.begun_by, LoopThread) and not has_outcome:
            self.begun_by.cancel(self)

        self.outcome.cancel()

    def cancel(self) -> None:
        """Cancel the coroutine. Called on the loop that it runs on."""
        if self.task is not None:
            self.task.cancel()

    async def run(self) -> None:
        """Run the coroutine, and hand any outcome to the caller."""
        try:
            result = await self.work()
        except Exception as error:
            self.fail(error)
        except BaseException as error:
            failure = ForeignExit(type(error).__name__)
            failure.__cause__ = error
            self.fail(failure)
        else:
            self.settle(result)


class LoopThread:
    """A daemon thread with an event loop, which no code that runs on it can end.

    It starts when it is first used. ``owner`` is its name in the log.
    """

    def __init__(self, name: str, owner: str) -> None:
        self._name = name
        self._owner = owner
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stuck: set[LoopCall[Any]] = set()
        self._running: set[asyncio.Task[None]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_stopping = False

    @property
    def is_started(self) -> bool:
        """Whether the loop was ever used."""
        return self._loop is not None

    @property
    def is_stuck(self) -> bool:
        """Whether a call here could not begin, or did not end when it should have."""
        return bool(self._stuck)

    def start(self) -> asyncio.AbstractEventLoop:
        """Return the loop, starting it first if needed.

        Raises OSError or RuntimeError if the system has no descriptors or threads left.
        """
        with self._starting:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                loop.set_default_executor(DaemonExecutor())
                self._thread = start_daemon(partial(self._serve, loop), self._name)
                if self._thread is None:
                    loop.close()
                    raise RuntimeError("no thread can be started")
                self._loop = loop

            return self._loop

    async def run(self, work: Work[Result]) -> Result:
        """Run a coroutine on this loop, and wait for its result on the caller's.

        It is cancelled if the caller is.
        """
        call = LoopCall(work)
        self.call_soon(self._begin, call)
        try:
            return await call.wait()
        except ForeignExit as foreign:
            raise (foreign.__cause__ or foreign) from None
        finally:
            call.abandon()

    def submit(self, call: LoopCall[Any]) -> None:
        """Run a call here, unless it begins elsewhere first, or the loop has ended."""
        with suppress(RuntimeError):
            self.call_soon(self._begin, call)

    def call_soon(self, function: Callable[[*Arguments], object], *args: *Arguments) -> None:
        """Call a function on this loop soon, without waiting for it.

        Raises RuntimeError if the loop has ended, and the errors of `start`.
        """
        self.start().call_soon_threadsafe(function, *args)

    def start_task(self, work: Coroutine[object, object, None]) -> None:
        """Start a task that `finish_tasks` waits for. Called on this loop."""
        task = asyncio.get_running_loop().create_task(work)

        # The loop itself has only weak references to its tasks.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finish_tasks(self) -> None:
        """Wait for all tasks of `start_task`, including those that they start, but for no calls."""
        while self._tasks:
            await asyncio.gather(*self._tasks)

    def cancel(self, call: LoopCall[Any]) -> None:
        """Cancel a call that runs here."""
        self.add_stuck(call)
        with suppress(RuntimeError):
            self.call_soon(call.cancel)

    def add_stuck(self, call: LoopCall[Any]) -> None:
        """Count a call as stuck here until it begins or ends."""
        self._stuck.add(call)

        # It may have ended meanwhile, on the other thread; the second of the two discards it.
        if call.is_ended:
            self._stuck.discard(call)

    async def stop(self) -> None:
        """Cancel everything that runs, and wait for the thread's end. Called on another loop."""
        await join(self.end())

    def end(self) -> list[threading.Thread]:
        """Cancel everything that runs, and let the thread end; return it, if it has started."""
        if self._loop is None or self._thread is None:
            return []

        self._is_stopping = True
        with suppress(RuntimeError):
            self.call_soon(self._loop.stop)
        return [self._thread]

    def _begin(self, call: LoopCall[Any]) -> None:
        self._stuck.discard(call)
        if not call.begin(self):
            return

        call.task = task = asyncio.get_running_loop().create_task(call.run())
        self._running.add(task)

        def end(_: object) -> None:
            self._running.discard(task)
            call.is_ended = True
            self._stuck.discard(call)

        task.add_done_callback(end)

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        # SystemExit and KeyboardInterrupt of tasks and callbacks are raised by `run_forever`, and
        # any code may call the loop's `stop`. The loop can continue after both.
        while not self._is_stopping:
            self._contain(loop.run_forever)

        async def cancel_others() -> None:
            while others := asyncio.all_tasks() - {asyncio.current_task()}:
                for task in others:
                    task.cancel()
                await asyncio.wait(others, timeout=CANCEL_SECONDS)

            await loop.shutdown_asyncgens()

        self._contain(lambda: loop.run_until_complete(cancel_others()))
        loop.close()

    def _contain(self, run: Callable[[], None]) -> None:
        try:
            run()
        except BaseException as error:
            _log.error("a task of %s raised an exit", self._owner, exc_info=error)


class IsolatedLoops:
    """The event loops of all groups. Calls may come from any event loop and any thread."""

    def __init__(self) -> None:
        self._groups: dict[str, _LoopGroup] = {}
        self._lock = threading.Lock()

    async def run(self, group: str, work: Work[Result]) -> Result:
        """Run a coroutine on a loop of its group, and return its result.

        It runs in the caller's context (`contextvars`), and is cancelled if the caller is.

        Raises Refused: overloaded, resource_exhausted, timeout; ForeignExit; and the exceptions of
        the coroutine.
        """
        with self._lock:
            if group not in self._groups:
                self._groups[group] = _LoopGroup(group)

            chosen = self._groups[group]

        return await chosen.run(work)

    async def close(self) -> None:
        """Cancel everything that runs, and end the threads; stuck threads are left behind."""
        with self._lock:
            loops = [thread for group in self._groups.values() for thread in group.threads]
            self._groups.clear()

        threads = [thread for loop in loops for thread in loop.end()]
        await join(threads, CLOSE_SECONDS)


class _LoopGroup:
    """The threads of one group, and the number of its calls."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls = 0
        self._lock = threading.Lock()
        self.threads: list[LoopThread] = []

    async def run(self, work: Work[Result]) -> Result:
        """Run a coroutine on one of the threads, as `IsolatedLoops.run` does.

        It is offered to one thread after the other until it begins.
        """
        with self._lock:
            if self._calls >= MAX_CALLS:
                raise Refused("overloaded")
            self._calls += 1

        call = LoopCall(work)
        try:
            end = time.monotonic() + CALL_SECONDS
            while call.begun_by is None:
                thread = self._choose_thread()
                thread.submit(call)
                await asyncio.wait((call.outcome,), timeout=STALL_SECONDS)

                if call.begun_by is None:
                    thread.add_stuck(call)
                    if time.monotonic() >= end:
                        raise Refused("timeout")

            await asyncio.wait((call.outcome,), timeout=max(end - time.monotonic(), 0))
            if not call.outcome.done():
                raise Refused("timeout")

            return call.outcome.result()
        finally:
            with self._lock:
                self._calls -= 1
            call.abandon()

    def _choose_thread(self) -> LoopThread:
        """Return the first thread that is not stuck, or a new one if all are.

        The order keeps a group on one loop as long as no call gets stuck, because many objects of a
        module, such as an HTTP client, work on one loop only.

        Raises Refused: overloaded, resource_exhausted.
        """
        with self._lock:
            for thread in self.threads:
                if not thread.is_stuck:
                    return thread

            if len(self.threads) >= MAX_THREADS:
                raise Refused("overloaded")

            started = LoopThread(f"abilities-plugin-{self._name}", self._name)
            try:
                started.start()
            except (OSError, RuntimeError):  # no descriptors or threads are left
                raise Refused("resource_exhausted") from None

            self.threads.append(started)
            return started


class DaemonExecutor(ThreadPoolExecutor):
    """Runs the functions of `asyncio.to_thread` on daemon threads.

    At its exit, Python waits for the threads of the base class, however long they take. asyncio
    accepts only subclasses of it.
    """

    def __init__(self) -> None:
        super().__init__(EXECUTOR_THREADS)
        self._serving: ServingThreads[Callable[[], None]] = ServingThreads(
            "abilities-daemon", operator.call, most=EXECUTOR_THREADS
        )

    @override
    def submit(
        self,
        fn: Callable[Parameters, Result],
        /,
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Future[Result]:
        future: Future[Result] = Future()

        def run_job() -> None:
            if not future.set_running_or_notify_cancel():
                return

            try:
                result = fn(*args, **kwargs)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        self._serving.put("", run_job)
        if not self._serving.is_started:
            future.cancel()
            raise RuntimeError("no thread can be started")

        return future

    @override
    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let the threads end once they are idle, never waiting for them."""
        self._serving.end()
