"""The changes that wait for a transaction, and the tasks that make them."""

import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from abilities.declarations.faults import Refused
from abilities.helpers.store.engine import Work
from abilities.helpers.store.postgres.server import Server
from abilities.helpers.store.transaction import Transaction

MAX_BATCH = 64
"""Changes per transaction: few enough that another process has its turn within a second."""

BATCH_SECONDS = 0.5
"""After that long a transaction takes no further change, so that slow ones do not add up.

All together have 20 s (`pool.CALL_SECONDS`), and other processes wait 3 s for the namespace's lock.
"""

ResultT_co = TypeVar("ResultT_co", covariant=True)
"""Covariant, because results only flow from the work to the future: any job fits into one queue."""


@dataclass(frozen=True, slots=True)
class WriteJob(Generic[ResultT_co]):
    """A change that waits for its namespace, and the future that gets its result or error.

    ``size`` is how many changes it consists of, which share a transaction in any case.
    The future runs from when the change begins. Before that its caller may cancel it.
    """

    work: Work[ResultT_co]
    done: Future[ResultT_co]
    size: int = 1

    def begin(self) -> bool:
        """Begin the change, or begin it again; return False if its caller has given up."""
        if self.done.cancelled():
            return False

        return self.done.running() or self.done.set_running_or_notify_cancel()


class WriteQueue:
    """The changes of a store, which share transactions per namespace.

    A namespace has a list of jobs exactly as long as a task works on them:

    - Its first job makes the list and starts the task. Later jobs are appended.
    - The task runs jobs from the front of the list in one transaction, of up to `MAX_BATCH` changes
      together or a single larger one, and begins none of them after `BATCH_SECONDS`. They stay in
      the list, and count as waiting, until the transaction has ended. Then the future of each that
      ran gets its result.
    - When the list is empty, the task removes it and ends. Nothing is awaited in between, so no job
      can be appended to a list that has lost its task.

    So a namespace has one transaction at a time, as its lock in the database would have it anyway,
    and namespaces do not wait for each other. All of this happens on one event loop, so nothing
    here needs a lock; only `len` may be called from another thread.
    """

    def __init__(
        self, server: Server, start_task: Callable[[Coroutine[object, object, None]], None]
    ) -> None:
        self._server = server
        self._start_task = start_task
        self._jobs: dict[str, list[WriteJob[object]]] = {}

    def __len__(self) -> int:
        """Return the number of changes that wait or are being made."""
        return sum(len(jobs) for jobs in list(self._jobs.values()))

    def add(self, namespace: str, job: WriteJob[object]) -> None:
        """Append a job, and start a task if the namespace has none."""
        if namespace in self._jobs:
            self._jobs[namespace].append(job)
            return

        self._jobs[namespace] = [job]
        self._start_task(self._run_jobs(namespace))

    async def _run_jobs(self, namespace: str) -> None:
        """Run a namespace's jobs until there are none left."""
        jobs = self._jobs[namespace]
        while jobs:
            batch = _take_batch(jobs)
            results = await self._run_batch(namespace, batch)

            del jobs[: len(results)]
            for job, result in zip(batch, results, strict=False):
                _finish(job, result)

        del self._jobs[namespace]

    async def _run_batch(self, namespace: str, batch: Sequence[WriteJob[object]]) -> list[object]:
        """Run jobs in one transaction; return a result or an exception for each that was run."""
        try:
            return await self._server.write(namespace, partial(_run_each, batch))
        except Exception as error:  # of any kind: the callers wait, and the task must go on
            if len(batch) == 1 or not _may_concern_one_job(error):
                return [error] * len(batch)

        # One of the jobs may have caused it: then that one fails alone.
        alone: list[object] = []
        for job in batch:
            alone += await self._run_batch(namespace, [job])

        return alone


def _take_batch(jobs: Sequence[WriteJob[object]]) -> list[WriteJob[object]]:
    """Return the first jobs of up to `MAX_BATCH` changes together, at least one."""
    batch: list[WriteJob[object]] = []
    size = 0
    for job in jobs:
        size += job.size
        if batch and size > MAX_BATCH:
            break

        batch.append(job)

    return batch


async def _run_each(batch: Sequence[WriteJob[object]], transaction: Transaction) -> list[object]:
    """Run each job in a savepoint of its own, so that one that fails leaves the others alone.

    When time is over, the jobs that are left are not run. The first always is.
    """
    results: list[object] = []
    end = time.monotonic() + BATCH_SECONDS

    for job in batch:
        if results and time.monotonic() >= end:
            break

        if not job.begin():
            results.append(None)  # which nobody waits for
            continue

        result = await transaction.attempt(job.work)
        results.append(result)

    return results


def _may_concern_one_job(error: Exception) -> bool:
    """Return whether an error that ended a transaction may be caused by one of its jobs."""
    return not isinstance(error, Refused) or error.reason == "storage_error"


def _finish(job: WriteJob[object], result: object) -> None:
    if not job.begin():
        return

    if isinstance(result, Exception):
        job.done.set_exception(result)
    else:
        job.done.set_result(result)
