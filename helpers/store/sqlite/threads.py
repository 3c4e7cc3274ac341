"""A daemon thread with a connection of its own, for callers on any number of event loops.

The reads of an SQLite store: each ends in time, and a slow one does not hold up the others.

The writes of an SQLite store: a thread commits all waiting changes together.
"""

import asyncio
import math
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from typing_extensions import override

from abilities.declarations.refusals import Reason, Refused
from abilities.helpers.store.engine import OPERATOR
from abilities.helpers.store.reads import AccessBuffer, count_accesses
from abilities.helpers.store.sqlite.errors import attempt, release_statements
from abilities.helpers.store.sqlite.file import StoreFile
from abilities.helpers.store.sqlite.log import StoreConnection, cut_log
from abilities.helpers.store.sqlite.schema import check_version
from abilities.helpers.store.sqlite.search import add_postponed, has_terms, postpone
from abilities.helpers.store.sqlite.transaction import run, run_in_savepoint
from abilities.helpers.threads.turns import ServingThreads, turn_owner
from abilities.helpers.threads.workers import Call, settle_all

Result = TypeVar("Result")
StoreCall = Call[Callable[[StoreConnection], Any], Any]
"""Work on a connection, and what its caller waits for."""

WAIT_SECONDS = 9.0
"""How long a caller waits until its work begins; a call has ten seconds in all."""


# No lone surrogates: what no hash covers is shown, and bound to the next statement.
replace_damage = partial(str, encoding="utf-8", errors="replace")
"""The text factory that puts a mark in place of each byte that damage has made other than UTF-8."""


def connect(file: StoreFile, *, writing: bool) -> StoreConnection:
    """Return a connection to a file as the store's own threads use one. Raises Refused."""
    connection = file.open(writing=writing)

    if writing:
        connection.text_factory = replace_damage
    connection.create_function("has_terms", -1, has_terms, deterministic=True)
    return connection


class StoreThread:
    """Does work, which takes turns, on a connection of its own to a store.

    It connects when that is first needed. Work is done even if its caller was cancelled. The thread
    starts when it is first needed and ends with `close`.
    """

    def __init__(self, name: str, file: StoreFile, *, writing: bool = False) -> None:
        self.connection: StoreConnection | None = None
        self._file = file
        self._is_writing = writing
        self._is_closed = False
        self._thread: ServingThreads[StoreCall] = ServingThreads(
            name, self._serve, rest=self._rest, end=self._end
        )

    @property
    def queue_size(self) -> int:
        """How many calls wait."""
        return len(self._thread.queue)

    async def run(
        self,
        namespace: str,
        work: Callable[[StoreConnection], Result],
        *,
        is_patient: bool = False,
    ) -> Result:
        """Queue work of a namespace and wait for its result.

        Cancelling the wait does not cancel the work.

        Raises Refused("busy") if the work has not begun after `WAIT_SECONDS`, unless the caller is
        patient; then it never begins. Raises Refused("unavailable") after `close`.
        """
        if self._is_closed:
            raise Refused("unavailable")

        call: Call[Callable[[StoreConnection], Result], Result] = Call(work)
        self._thread.put(namespace, call)
        return await call.wait(None if is_patient else WAIT_SECONDS)

    def wake(self) -> None:
        """Start the thread if it has not started yet, so that `_rest` will be called."""
        if not self._thread.is_started and not self._is_closed:
            self._thread.start()

    async def close(self) -> None:
        """Finish the queued work, then end the thread."""
        self._is_closed = True
        await self._thread.close()

    def _serve(self, call: StoreCall) -> None:
        """Do the work of a call, and of any others that wait."""
        raise NotImplementedError

    def _do(self, call: StoreCall, connection: StoreConnection) -> object:
        if not call.begin(self):
            raise Refused("busy")  # nobody hears it: the caller was told

        return call.work(connection)

    def _rest(self) -> None:
        """Do what is due whenever a second passes without work."""

    def _end(self) -> None:
        """End the work of the thread, after the last call."""
        if self.connection is None:
            return

        # Under the lock, because the last connection to close writes the log back.
        with suppress(Refused, OSError), self._file.lock():
            self.connection.close()

    def _open(self) -> StoreConnection:
        if self.connection is None:
            self.connection = connect(self._file, writing=self._is_writing)

        return self.connection


Work = Callable[[sqlite3.Connection], Result]
Turn = tuple[str, str]
"""Whose turn it is: a namespace and a caller."""

OPEN_SECONDS = 9.0
"""How long a read waits for the store to be opened, which takes minutes if it is migrated."""

PING_SECONDS = 1.0
"""How long a ping waits for the store."""

TURN_SECONDS = 0.01
"""After that long a read makes way for another caller's, and begins anew on the second thread."""

OWN_TURN_SECONDS = 1.0
"""After that long it makes way for those of its own caller too."""

WATCH_SECONDS = 0.005
"""How often it is looked whether a read is late."""


class ReadingThread(StoreThread):
    """Serves one read after another, and interrupts those that are late.

    If it makes way, a read whose turn is over and behind which others wait is late too. A second
    thread interrupts, because a handler that SQLite calls would have to wait for the interpreter's
    lock each time. It is left out where reads have no work, and so nothing can be interrupted.
    """

    def __init__(
        self, name: str, file: StoreFile, *, makes_way: bool = False, is_watched: bool = True
    ) -> None:
        super().__init__(name, file)
        self._makes_way = makes_way
        self._is_watched = is_watched
        self._watcher = threading.Thread(target=self._watch, name=f"{name}-watcher", daemon=True)
        self._is_reading = threading.Event()
        self._is_ended = False
        self._end_of_read = math.inf
        self._began_at = math.inf
        self._whose: Turn = ("", "")
        self._looking = threading.Lock()  # no read is interrupted that began after the look

    async def open(self) -> None:
        """Open the store if it is not open yet. Raises Refused."""
        await self.run(OPERATOR, lambda _: None, is_patient=True)

    async def read(self, namespace: str, work: Work[Result], deadline: float) -> Result:
        """Return what a read of a namespace finds. Raises Refused, timeout if it was late."""
        whose = (namespace, turn_owner.get())
        return await self.run(
            namespace,
            lambda connection: self._run_in_snapshot(connection, work, whose, deadline),
            is_patient=True,  # the deadline ends its wait
        )

    @override
    def _serve(self, call: StoreCall) -> None:
        self._is_reading.set()
        try:
            result = attempt(lambda: self._do(call, self._open()))
        finally:
            self._is_reading.clear()
        settle_all([call], [result])

    @override
    def _open(self) -> StoreConnection:
        connection = super()._open()
        if self._is_watched and self._watcher.ident is None:
            self._watcher.start()

        return connection

    def _run_in_snapshot(
        self, connection: StoreConnection, work: Work[Result], whose: Turn, deadline: float
    ) -> Result:
        if time.monotonic() >= deadline:
            raise Refused("timeout")

        self._file.check_in_place(connection)
        connection.execute("BEGIN")
        try:
            check_version(connection)
            self._whose = whose
            return self._run_until(deadline, partial(_read_texts, connection, work))
        except Exception as error:
            release_statements(error)
            raise
        finally:
            if connection.in_transaction:  # an error of the disk has ended it already
                connection.execute("ROLLBACK")

    def _run_until(self, deadline: float, work: Callable[[], Result]) -> Result:
        self._end_of_read = deadline
        self._began_at = time.monotonic()
        try:
            return work()
        finally:
            with self._looking:
                self._end_of_read = math.inf
                self._began_at = math.inf

    def _watch(self) -> None:
        while not self._is_ended:
            self._is_reading.wait()
            time.sleep(WATCH_SECONDS)

            with self._looking:
                if self.connection is not None and self._is_late():
                    self.connection.interrupt()

    def _is_late(self) -> bool:
        now = time.monotonic()
        if now >= self._end_of_read:
            return True

        if not self._makes_way:
            return False

        seconds = now - self._began_at
        if seconds >= OWN_TURN_SECONDS and self.queue_size > 0:
            return True
        return seconds >= TURN_SECONDS and self._thread.queue.has_others(*self._whose)

    @override
    def _end(self) -> None:
        if self._watcher.ident is not None:
            self._is_ended = True
            self._is_reading.set()
            self._watcher.join()

        super()._end()


def _read_texts(connection: sqlite3.Connection, work: Work[Result]) -> Result:
    """Return what a read finds; it is done a second time if it meets a damaged text.

    Its hash reveals such a text, and its neighbors do not fail. SQLite's own way to decode takes a
    quarter of the time of one that replaces what is damaged, so that is the way that is tried
    first.
    """
    try:
        return work(connection)
    except sqlite3.OperationalError as error:
        if not str(error).startswith("Could not decode to UTF-8"):
            raise

    connection.text_factory = replace_damage
    try:
        return work(connection)
    finally:
        connection.text_factory = str


class StoreReader:
    """Two reading threads: all reads begin on the first one, and long ones go on to the second.

    Both open the store at its first read. A third one answers pings, whatever the others do.
    """

    def __init__(self, file: StoreFile) -> None:
        self._first = ReadingThread("abilities-store-reader", file, makes_way=True)
        self._second = ReadingThread("abilities-store-reader-2", file)
        self._pinged = ReadingThread("abilities-store-ping", file, is_watched=False)

    @property
    def queue_size(self) -> int:
        """How many reads are queued."""
        return self._first.queue_size + self._second.queue_size

    async def prepare(self) -> None:
        """Open the store, however long that takes. Raises Refused."""
        await self._open(None)

    async def run(self, namespace: str, work: Work[Result], seconds: float) -> Result:
        """Return what a read of a namespace finds.

        Raises Refused: timeout after some seconds, and others.
        """
        await self._open(OPEN_SECONDS)

        deadline = time.monotonic() + seconds
        try:
            # A disk that hangs cannot be interrupted: its thread is left behind.
            async with asyncio.timeout(seconds + 2 * WATCH_SECONDS):
                return await self._run_in_turns(namespace, work, deadline)
        except TimeoutError:
            raise Refused("timeout") from None

    async def ping(self) -> None:
        """Raise Refused if the store cannot be read: busy while it is opened, and others.

        It is a timeout if there is no answer within `PING_SECONDS`.
        """
        deadline = time.monotonic() + PING_SECONDS
        try:
            async with asyncio.timeout(PING_SECONDS):
                await self._pinged.read(OPERATOR, lambda _: None, deadline)
        except TimeoutError:
            reason: Reason = "timeout"
            if self._pinged.connection is None:
                reason = "busy"  # opening takes minutes if the store is migrated
            raise Refused(reason) from None

    async def _open(self, seconds: float | None) -> None:
        """Open the store on both threads. Raises Refused, busy if it takes too long."""
        # Not when a read is first long: it would wait for that, and a process whose threads and
        # descriptors depend on its load is hard to watch.
        if self._second.connection is not None:
            return

        try:
            async with asyncio.timeout(seconds):
                await self._first.open()
                await self._second.open()
        except TimeoutError:
            raise Refused("busy") from None

    async def _run_in_turns(self, namespace: str, work: Work[Result], deadline: float) -> Result:
        try:
            return await self._first.read(namespace, work, deadline)
        except Refused as error:
            if error.reason != "timeout" or time.monotonic() >= deadline:
                raise

        return await self._second.read(namespace, work, deadline)

    async def close(self) -> None:
        """Finish the queued reads, then end the threads."""
        for thread in (self._pinged, self._first, self._second):
            await thread.close()


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
