"""The writes of an SQLite store: a thread commits all waiting changes together."""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

from abilities.declarations.faults import Refused
from abilities.helpers.stores.accesses import AccessBuffer, count_accesses
from abilities.helpers.stores.sqlite.errors import attempt, release_statements
from abilities.helpers.stores.sqlite.file import StoreFile
from abilities.helpers.stores.sqlite.log import StoreConnection, cut_log
from abilities.helpers.stores.sqlite.savepoints import run_in_savepoint
from abilities.helpers.stores.sqlite.schema import check_version
from abilities.helpers.stores.sqlite.search import add_postponed, postpone
from abilities.helpers.stores.sqlite.thread import BatchingThread, ThreadJob
from abilities.helpers.stores.sqlite.transaction import run

Result = TypeVar("Result")
Jobs = Iterable[ThreadJob[sqlite3.Connection]]


class StoreWriter:
    """Writes to a store on a thread and a connection of its own.

    ``connect`` returns that connection, and ``close`` closes it.
    """

    def __init__(
        self,
        file: StoreFile,
        connect: Callable[[], StoreConnection],
        close: Callable[[StoreConnection], None],
    ) -> None:
        self._file = file
        self._connect = connect
        self._close = close
        self.connection: StoreConnection | None = None
        self._damaged = False
        self._must_cut_log = False
        self._thread = BatchingThread[sqlite3.Connection](
            "abilities-store-writer", self._write_batch, self._rest, self._end
        )
        self._accesses = AccessBuffer()

    @property
    def queue_size(self) -> int:
        """How many writes are queued."""
        return self._thread.queue_size

    async def run(
        self,
        namespace: str,
        work: Callable[[sqlite3.Connection], Result],
        *,
        is_patient: bool = False,
    ) -> Result:
        """Do work in a savepoint of the next transaction, and return its result once committed.

        Raises Refused as `BatchingThread.run`, and whatever the work raises.
        """
        return await self._thread.run(namespace, work, is_patient=is_patient)

    def cut_log_after(self, _connection: sqlite3.Connection) -> None:
        """Let the transaction be followed by a cut of the log; this is work for `run`."""
        self._must_cut_log = True

    def count_access(self, namespace: str, key: str, now: str) -> None:
        """Count an access; it is written with the next change, or after a second without one."""
        self._accesses.add(namespace, key, now)
        self._thread.wake()

    def note_damage(self, result: object) -> None:
        """Once damage was met, nothing is written any more."""
        if isinstance(result, Refused) and result.reason == "corrupted":
            self._damaged = True

    async def close(self) -> None:
        """Finish the queued writes, then end the thread."""
        await self._thread.close()

    def _write_batch(self, jobs: Jobs) -> Sequence[object] | Exception:
        """Run waiting writes in one transaction, each in a savepoint of its own."""
        results = attempt(lambda: self._run_in_transaction(jobs))
        self.note_damage(results)
        return results

    def _run_in_transaction(self, jobs: Jobs) -> list[object]:
        if self._damaged:
            raise Refused("corrupted")
        if self.connection is None:
            self.connection = self._connect()

        connection = self.connection
        with self._file.lock():
            try:
                return self._commit(connection, jobs)
            except Exception as error:
                release_statements(error)
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                if isinstance(error, Refused) and error.reason == "storage_moved":
                    self._save_log(connection)
                raise

    def _commit(self, connection: StoreConnection, jobs: Jobs) -> list[object]:
        self._file.check_in_place(connection)
        connection.execute("BEGIN IMMEDIATE")
        check_version(connection)
        postpone(connection, [])

        # First the accesses, which were counted by the keys from before the changes.
        self._write_accesses(connection)
        results = [run_in_savepoint(connection, job.work) for job in jobs]
        add_postponed(connection)

        # A change to a file that was moved is not acknowledged, nor one whose log is gone since.
        self._file.check_in_place(connection)
        connection.execute("COMMIT")
        self._file.check_in_place(connection)

        if self._must_cut_log:
            self._must_cut_log = False
            with suppress(sqlite3.Error):  # the changes are committed
                cut_log(connection)
        return results

    def _save_log(self, connection: StoreConnection) -> None:
        # What cannot be saved now is tried again while the thread rests.
        with suppress(Refused, sqlite3.Error):
            self._file.save_log(connection)

    def _write_accesses(self, connection: sqlite3.Connection) -> None:
        # Taken out before they are written: if that fails, they are lost, which is best effort.
        for namespace, accesses in self._accesses.take().items():
            run(connection, count_accesses, namespace, accesses)

    def _rest(self) -> None:
        """Do what is due while no change waits: a second after the last one, and every second."""
        self._flush_accesses()
        if self.connection is not None:
            attempt(partial(self._tend_log, self.connection))

    def _tend_log(self, connection: StoreConnection) -> None:
        try:
            self._file.check_in_place(connection)
        except Refused:
            with self._file.lock():
                self._save_log(connection)
        else:
            self._file.shrink_log(connection)

    def _flush_accesses(self) -> None:
        if self._accesses:
            attempt(lambda: self._run_in_transaction([]))

    def _end(self) -> None:
        self._flush_accesses()
        if self.connection is not None:
            self._close(self.connection)
