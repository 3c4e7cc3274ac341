"""Event loops on threads of their own, and foreign coroutines that can hold up nobody else there.

A store's connections belong to one loop, which calls from any loop and any thread reach. Of foreign
code, each group, such as a plugin, has a loop, on which its calls run. If a call blocks the loop or
does not end in time, the thread is stuck until it does, and the group's further calls go to another
thread. There are few, so that what is stuck costs its own group all that it has, and other groups
nothing.

`circuit_breaker` is not used here. It tries a refused place again and again, and each trial may
cost a thread; but a thread that is stuck in Python code slows the whole process down.
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
"""After that long a call is answered with a timeout."""

STALL_SECONDS = 1.0
"""A call that has not begun after that long finds its loop blocked, and goes to another thread."""

MAX_CALLS = 64
"""Calls of a group at the same time: as many as a server takes of one caller."""

MAX_THREADS = 5
"""Threads of a group. While all of them are stuck, its calls are refused at once."""

CLOSE_SECONDS = 1.0
"""How long `IsolatedLoops.close` waits for the threads to end."""

CANCEL_SECONDS = 1.0
"""How long a cancelled task may take to end before it is cancelled again.

A driver that is cancelled while it stops its statement closes its connection.
"""

EXECUTOR_THREADS = 8
"""Threads of an executor at most; more work waits for one of them."""

Arguments = TypeVarTuple("Arguments")
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Work = Callable[[], Coroutine[object, object, Result]]

_log = logging.getLogger("abilities")


class ForeignExit(AbilitiesError):
    """A coroutine raised what would end a thread or a process; the cause is what it raised.

    For example SystemExit, KeyboardInterrupt, or a CancelledError that nobody asked for.
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
        """Run the coroutine, and hand its outcome to the caller, whatever it is."""
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
    """A daemon thread with an event loop, which nothing that runs on it can end.

    It starts when it is first used. ``owner`` is whom the log names.
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
        """Whether a call waits here in vain to begin, or did not end when it should have."""
        return bool(self._stuck)

    def start(self) -> asyncio.AbstractEventLoop:
        """Return the loop, started. Raises OSError, RuntimeError if the system has no room."""
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
        """Run a call here, unless it begins elsewhere before, or the loop has ended."""
        with suppress(RuntimeError):
            self.call_soon(self._begin, call)

    def call_soon(self, function: Callable[[*Arguments], object], *args: *Arguments) -> None:
        """Call a function on this loop soon, and do not wait for it.

        Raises RuntimeError if the loop has ended, and as `start`.
        """
        self.start().call_soon_threadsafe(function, *args)

    def start_task(self, work: Coroutine[object, object, None]) -> None:
        """Start a task that `finish_tasks` waits for. Called on this loop."""
        task = asyncio.get_running_loop().create_task(work)

        # The loop itself has only weak references to its tasks.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finish_tasks(self) -> None:
        """Wait for all tasks that were started, and for those that they start, but for no calls."""
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

        # It may have ended meanwhile, on the other thread; whoever comes second discards it.
        if call.is_ended:
            self._stuck.discard(call)

    async def stop(self) -> None:
        """Cancel what runs, and wait until the thread has ended. Called on another loop."""
        await join(self.end())

    def end(self) -> list[threading.Thread]:
        """Cancel what runs, and let the thread end; return it, if it has started."""
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
        # Tasks and callbacks hand SystemExit and KeyboardInterrupt through to whoever runs the
        # loop; it can go on. Anything may call its `stop`.
        while not self._is_stopping:
            self._contain(loop.run_forever)

        self._contain(lambda: loop.run_until_complete(_cancel_others()))
        loop.close()

    def _contain(self, run: Callable[[], None]) -> None:
        try:
            run()
        except BaseException as error:
            _log.error("a task of %s raised an exit", self._owner, exc_info=error)


async def _cancel_others() -> None:
    """Cancel all other tasks of this loop, and wait until they have ended."""
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        for task in others:
            task.cancel()
        await asyncio.wait(others, timeout=CANCEL_SECONDS)

    await asyncio.get_running_loop().shutdown_asyncgens()


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
            loops = [thread for group in self._groups.values() for thread in group.threads]
            self._groups.clear()

        threads = [thread for loop in loops for thread in loop.end()]
        await join(threads, CLOSE_SECONDS)


class _LoopGroup:
    """The threads of one group, and how many calls it has."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls = 0
        self._lock = threading.Lock()
        self.threads: list[LoopThread] = []

    async def run(self, work: Work[Result]) -> Result:
        """Run a coroutine on one of the threads, as `IsolatedLoops.run` does."""
        with self._lock:
            if self._calls >= MAX_CALLS:
                raise Refused("overloaded")
            self._calls += 1

        call = LoopCall(work)
        try:
            return await self._attend(call)
        finally:
            with self._lock:
                self._calls -= 1
            call.abandon()

    async def _attend(self, call: LoopCall[Result]) -> Result:
        """Offer a call to one thread after the other until it begins, and wait for its outcome."""
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

    def _choose_thread(self) -> LoopThread:
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

            started = LoopThread(f"abilities-plugin-{self._name}", self._name)
            try:
                started.start()
            except (OSError, RuntimeError):  # no descriptors or threads are left
                raise Refused("resource_exhausted") from None

            self.threads.append(started)
            return started


class DaemonExecutor(ThreadPoolExecutor):
    """Runs what `asyncio.to_thread` is given. asyncio takes subclasses of its base alone.

    Python waits at its end for the threads of the base class, however long they take; these are
    daemons.
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
        self._serving.put("", partial(_run_job, future, partial(fn, *args, **kwargs)))
        if not self._serving.is_started:
            future.cancel()
            raise RuntimeError("no thread can be started")

        return future

    @override
    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let idle threads end. The others are not waited for, whatever the arguments say."""
        self._serving.end()


def _run_job(future: Future[Result], work: Callable[[], Result]) -> None:
    if not future.set_running_or_notify_cancel():
        return

    try:
        result = work()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
