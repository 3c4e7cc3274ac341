"""An event loop on a thread of its own, for connections that callers on any loop share."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import TypeVar, TypeVarTuple

from abilities.helpers.turns import take_turn

CANCEL_SECONDS = 1.0
"""How long a cancelled read may take to stop its statement before its connection is closed."""

ResultT = TypeVar("ResultT")
Arguments = TypeVarTuple("Arguments")


class LoopThread:
    """An event loop on a daemon thread, which starts when it is first used.

    A connection belongs to one event loop. Because that is this one, calls may come from any loop
    and any thread.
    """

    def __init__(self) -> None:
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_started(self) -> bool:
        """Whether the loop was ever used."""
        return self._loop is not None

    async def run(self, work: Coroutine[object, object, ResultT]) -> ResultT:
        """Run a coroutine on this loop, and wait for its result on the caller's."""
        loop = self._start()
        future = asyncio.run_coroutine_threadsafe(work, loop)
        result = await asyncio.wrap_future(future)

        await take_turn()
        return result

    def call_soon(self, function: Callable[[*Arguments], object], *args: *Arguments) -> None:
        """Call a function on this loop soon, and do not wait for it."""
        loop = self._start()
        loop.call_soon_threadsafe(function, *args)

    def start_task(self, work: Coroutine[object, object, None]) -> None:
        """Start a task that `finish_tasks` waits for. Called on this loop."""
        loop = asyncio.get_running_loop()
        task = loop.create_task(work)

        # The loop itself has only weak references to its tasks.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finish_tasks(self) -> None:
        """Wait for all tasks, and for those that they start. Called on this loop."""
        while self._tasks:
            tasks = list(self._tasks)
            await asyncio.gather(*tasks)

    async def stop(self) -> None:
        """Cancel what still runs, and wait until the thread has ended. Called on another loop."""
        if self._loop is None or self._thread is None:
            return

        await self.run(_cancel_others())
        self._loop.call_soon_threadsafe(self._loop.stop)

        # Joining blocks, and the caller's loop has other work to do.
        current = asyncio.get_running_loop()
        await current.run_in_executor(None, self._thread.join)

        self._loop.close()

    def _start(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()

                # A daemon, so that a store that nobody closed does not keep the process alive.
                self._thread = threading.Thread(
                    target=self._loop.run_forever,
                    name="abilities-store",
                    daemon=True,
                )
                self._thread.start()

            return self._loop


async def _cancel_others() -> None:
    """Cancel all other tasks of this loop, and wait until they have ended."""
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        for task in others:
            task.cancel()  # a driver that is cancelled again closes its connection
        await asyncio.wait(others, timeout=CANCEL_SECONDS)
