"""The writes of an SQLite store: a thread commits all waiting changes together."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from typing_extensions import override

from abilities.declarations.faults import Refused
from abilities.helpers.store.accesses import AccessBuffer, count_accesses
from abilities.helpers.store.sqlite.errors import attempt, release_statements
from abilities.helpers.store.sqlite.file import StoreFile
from abilities.helpers.store.sqlite.log import StoreConnection, cut_log
from abilities.helpers.store.sqlite.schema import check_version
from abilities.helpers.store.sqlite.search import add_postponed, postpone
from abilities.helpers.store.sqlite.thread import StoreCall, StoreThread
from abilities.helpers.store.sqlite.transaction import run, run_in_savepoint
from abilities.helpers.threads.calls import settle_all

MAX_BATCH = 256
"""Calls in a batch at most, so that the first one does not wait long for the commit of all."""

BATCH_SECONDS = 0.05
"""After that long a batch takes no further call: its first caller waits for its end."""


class StoreWriter(StoreThread):
    """Does work in savepoints of a transaction, and returns its results once that is committed."""

    def __init__(self, file: StoreFile) -> None:
        super().__init__("abilities-store-writer", file, writing=True)
        self._damaged = False
        self._must_cut_log = False
        self._accesses = AccessBuffer()

    def cut_log_after(self, _connection: sqlite3.Connection) -> None:
        """Let the transaction be followed by a cut of the log; this is work for `run`."""
        self._must_cut_log = True

    def count_access(self, namespace: str, key: str, now: str) -> None:
        """Count an access; it is written with the next change, or after a second without one."""
        self._accesses.add(namespace, key, now)
        self.wake()

    def note_damage(self, result: object) -> None:
        """Once damage was met, nothing is written any more."""
        if isinstance(result, Refused) and result.reason == "corrupted":
            self._damaged = True

    @override
    def _serve(self, call: StoreCall) -> None:
        """Do waiting work in one transaction, each in a savepoint of its own."""
        taken = [call]
        results = attempt(lambda: self._run_in_transaction(self._take_batch(taken)))
        self.note_damage(results)

        if isinstance(results, Exception):  # those that wait would meet it too
            while (waiting := self._thread.take_more()) is not None:
                taken.append(waiting)
            results = [results] * len(taken)

        settle_all(taken, results)

    def _take_batch(self, taken: list[StoreCall]) -> Iterator[StoreCall]:
        """Yield the call that was taken, and those that wait, for `BATCH_SECONDS` at most.

        Each is taken only when the one before it is done. So the next one is always of the
        namespace whose turn it is, and a batch of slow ones is short.
        """
        end = time.monotonic() + BATCH_SECONDS
        yield taken[0]

        while len(taken) < MAX_BATCH and time.monotonic() < end:
            call = self._thread.take_more()
            if call is None:
                break

            taken.append(call)
            yield call

    def _run_in_transaction(self, calls: Iterator[StoreCall]) -> list[object]:
        if self._damaged:
            raise Refused("corrupted")

        connection = self._open()
        with self._file.lock():
            try:
                return self._commit(connection, calls)
            except Exception as error:
                release_statements(error)
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                if isinstance(error, Refused) and error.reason == "storage_moved":
                    self._save_log(connection)
                raise

    def _commit(self, connection: StoreConnection, calls: Iterator[StoreCall]) -> list[object]:
        self._file.check_in_place(connection)
        connection.execute("BEGIN IMMEDIATE")
        check_version(connection)
        postpone(connection, [])

        # First the accesses, which were counted by the keys from before the changes. They are taken
        # out before they are written: if that fails, they are lost, which is best effort.
        for namespace, accesses in self._accesses.take().items():
            run(connection, count_accesses, namespace, accesses)

        results = [
            run_in_savepoint(connection, partial(self._do, call, connection)) for call in calls
        ]
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

    @override
    def _rest(self) -> None:
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
            attempt(lambda: self._run_in_transaction(iter(())))

    @override
    def _end(self) -> None:
        self._flush_accesses()
        super()._end()
