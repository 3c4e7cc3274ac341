"""An executor whose threads are daemons: work that hangs cannot keep the process from exiting."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from typing import ParamSpec, TypeVar

from typing_extensions import override

THREADS = 8
"""Threads of an executor at most; more work waits for one of them."""

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class DaemonExecutor(ThreadPoolExecutor):
    """Runs what `asyncio.to_thread` is given. asyncio takes subclasses of its base alone.

    Python waits at its end for the threads of the base class, however long they take.
    """

    def __init__(self) -> None:
        super().__init__(THREADS)
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()  # None ends a thread
        self._started = 0
        self._starting = threading.Lock()

    @override
    def submit(
        self,
        fn: Callable[Parameters, Result],
        /,
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Future[Result]:
        future: Future[Result] = Future()
        self._jobs.put(partial(_run_job, future, partial(fn, *args, **kwargs)))

        with self._starting:
            if self._started < THREADS:
                threading.Thread(target=self._serve, name="abilities-daemon", daemon=True).start()
                self._started += 1

        return future

    @override
    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let idle threads end. The others are not waited for, whatever the arguments say."""
        with self._starting:
            for _ in range(self._started):
                self._jobs.put(None)

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


def _run_job(future: Future[Result], work: Callable[[], Result]) -> None:
    if not future.set_running_or_notify_cancel():
        return

    try:
        result = work()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
