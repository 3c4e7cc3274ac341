"""The changes that wait for a transaction, and the tasks that make them."""

from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import psycopg

from abilities.declarations.faults import Refused
from abilities.helpers.stores.postgres.errors import translate_postgres_error
from abilities.helpers.stores.postgres.server import Server, Work
from abilities.helpers.stores.postgres.statements import Connection

MAX_BATCH = 64
"""Changes per transaction: few enough that another process has its turn within a second."""

ResultT_co = TypeVar("ResultT_co", covariant=True)
"""Covariant, because results only flow from the work to the future: any job fits into one queue."""


@dataclass(frozen=True, slots=True)
class WriteJob(Generic[ResultT_co]):
    """A change that waits for its namespace, and the future that gets its result or error."""

    work: Work[ResultT_co]
    done: Future[ResultT_co]


class WriteQueue:
    """The changes of a store, which share transactions per namespace.

    A namespace has a list of jobs exactly as long as a task works on them:

    - Its first job makes the list and starts the task. Later jobs are appended.
    - The task runs up to `MAX_BATCH` jobs from the front of the list in one transaction. They stay
      in the list, and count as waiting, until the transaction has ended. Then each future gets its
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
            batch = jobs[:MAX_BATCH]
            results = await self._run_batch(namespace, batch)

            del jobs[: len(batch)]
            for job, result in zip(batch, results, strict=True):
                _finish(job, result)

        del self._jobs[namespace]

    async def _run_batch(self, namespace: str, batch: Sequence[WriteJob[object]]) -> list[object]:
        """Run jobs in one transaction; return a result or an exception for each."""
        work = partial(_run_each, batch)
        try:
            return await self._server.write(namespace, work)
        except Exception as error:  # of any kind: the callers wait, and the task must go on
            return [error] * len(batch)


async def _run_each(batch: Sequence[WriteJob[object]], connection: Connection) -> list[object]:
    """Run each job in a savepoint of its own, so that one that fails leaves the others alone."""
    results: list[object] = []
    for job in batch:
        try:
            async with connection.transaction():
                result = await job.work(connection)
            results.append(result)
        except Refused as error:
            results.append(error)
        except (psycopg.DataError, psycopg.IntegrityError) as error:
            # These are caused by this job's values; any other error ends the whole transaction.
            results.append(translate_postgres_error(error))

    return results


def _finish(job: WriteJob[object], result: object) -> None:
    if not job.done.set_running_or_notify_cancel():
        return

    if isinstance(result, Exception):
        job.done.set_exception(result)
    else:
        job.done.set_result(result)
