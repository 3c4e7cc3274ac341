"""The changes that wait for a transaction, and the tasks that make them."""

import time
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar

from abilities.declarations.faults import Refused
from abilities.helpers.store.engine import Work
from abilities.helpers.store.postgres.server import Server
from abilities.helpers.store.transaction import Transaction
from abilities.helpers.threads.calls import Call, settle_all

ResultT = TypeVar("ResultT")

MAX_BATCH = 64
"""Changes per transaction: few enough that another process has its turn within a second."""

BATCH_SECONDS = 0.5
"""After that long a transaction takes no further change, so that slow ones do not add up.

All together have 20 s (`pool.CALL_SECONDS`), and other processes wait 3 s for the namespace's lock.
"""


class WriteCall(Call[Work[ResultT], ResultT]):
    """A change that waits for its namespace, or ``size`` changes that share a transaction."""

    def __init__(self, work: Work[ResultT], size: int) -> None:
        super().__init__(work)
        self.size = size


class WriteQueue:
    """The changes of a store, which share transactions per namespace.

    A namespace has a list of jobs exactly as long as a task works on them:

    - Its first job makes the list and starts the task. Later jobs are appended.
    - The task runs jobs from the front of the list in one transaction, of up to `MAX_BATCH` changes
      together or a single larger one, and begins none of them after `BATCH_SECONDS`. They stay in
      the list, and count as waiting, until the transaction has ended. Then each that ran gets its
      result.
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
        self._jobs: dict[str, list[WriteCall[Any]]] = {}

    def __len__(self) -> int:
        """Return the number of changes that wait or are being made."""
        return sum(len(jobs) for jobs in list(self._jobs.values()))

    def add(self, namespace: str, job: WriteCall[Any]) -> None:
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
            settle_all(batch[: len(results)], results)

        del self._jobs[namespace]

    async def _run_batch(self, namespace: str, batch: Sequence[WriteCall[Any]]) -> list[object]:
        """Run jobs in one transaction; return a result or an exception for each that was run."""
        try:
            return await self._server.write(namespace, partial(self._run_each, batch))
        except Exception as error:  # of any kind: the callers wait, and the task must go on
            if len(batch) == 1 or not _may_concern_one_job(error):
                return [error] * len(batch)

        # One of the jobs may have caused it: then that one fails alone.
        alone: list[object] = []
        for job in batch:
            alone += await self._run_batch(namespace, [job])

        return alone

    async def _run_each(
        self, batch: Sequence[WriteCall[Any]], transaction: Transaction
    ) -> list[object]:
        """Run each job in a savepoint of its own, so that one that fails leaves the others alone.

        When time is over, the jobs that are left are not run. The first always is.
        """
        results: list[object] = []
        end = time.monotonic() + BATCH_SECONDS

        for job in batch:
            if results and time.monotonic() >= end:
                break

            if not job.begin(self):
                results.append(None)  # which nobody waits for
                continue

            result = await transaction.attempt(job.work)
            results.append(result)

        return results


def _take_batch(jobs: Sequence[WriteCall[Any]]) -> list[WriteCall[Any]]:
    """Return the first jobs of up to `MAX_BATCH` changes together, at least one."""
    batch: list[WriteCall[Any]] = []
    size = 0
    for job in jobs:
        size += job.size
        if batch and size > MAX_BATCH:
            break

        batch.append(job)

    return batch


def _may_concern_one_job(error: Exception) -> bool:
    """Return whether an error that ended a transaction may be caused by one of its jobs."""
    return not isinstance(error, Refused) or error.reason == "storage_error"
