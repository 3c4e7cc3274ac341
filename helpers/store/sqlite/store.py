"""The embedded store: one SQLite file, with a writer thread and reader threads.

Callers may be on any number of event loops. Each thread has its own connection. Reads end in time,
and a slow read does not hold up the others. The writer commits all waiting changes together.
"""

import asyncio
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from typing_extensions import override

from abilities.declarations.refusals import Reason, Refused
from abilities.helpers.search.terms import Language
from abilities.helpers.store.engine import OPERATOR, Engine, MemoriesDue, Work, read_mark
from abilities.helpers.store.past import DEFAULT_RULES, StoreRules
from abilities.helpers.store.protocol import IntegrityFinding, Mark
from abilities.helpers.store.reads import AccessBuffer, count_accesses, has_due
from abilities.helpers.store.sqlite.backup import check_search_index, check_store
from abilities.helpers.store.sqlite.connection import (
    STORE_ERRORS,
    StoreConnection,
    release_statements,
    translate_error,
    translate_for_read,
)
from abilities.helpers.store.sqlite.file import (
    CUT_LOG,
    StoreFile,
    check_version,
    connect_to_file,
    has_traces,
    read_version,
)
from abilities.helpers.store.sqlite.search import (
    add_postponed,
    begin_merging,
    go_on_merging,
    has_terms,
)
from abilities.helpers.store.sqlite.transaction import run, run_in_savepoint
from abilities.helpers.store.store import SqlStore
from abilities.helpers.threads.turns import ServingThreads, turn_owner
from abilities.helpers.threads.workers import Call, settle_all

_log = logging.getLogger("abilities.store")

Result = TypeVar("Result")
StoreCall = Call[Callable[[StoreConnection], Any], Any]

ConnectionWork = Callable[[StoreConnection], Result]

WAIT_SECONDS = 9.0
"""The longest wait until work begins; a call has ten seconds in all."""

OPEN_SECONDS = 9.0
"""How long a read waits for the store to be opened, which takes minutes with a migration."""

PING_SECONDS = 1.0

TURN_SECONDS = 0.01
"""The time after which a read makes way for other callers, and restarts on the second thread."""

OWN_TURN_SECONDS = 1.0
"""The time after which a read also makes way for other reads of its own caller."""

WATCH_SECONDS = 0.005

MAX_BATCH = 256
"""The most calls in a batch, so that the first one does not wait long for the common commit."""

BATCH_SECONDS = 0.05
"""The time after which a batch takes no further calls, because its first caller waits for it."""

# No lone surrogates: columns without a hash are shown, and bound to the next statement.
replace_damage = partial(str, encoding="utf-8", errors="replace")
"""The text factory that puts a replacement character in place of bytes that are not UTF-8."""


def connect(file: StoreFile, *, writing: bool) -> StoreConnection:
    """Return a connection that is set up for the store's own threads. Raises Refused."""
    connection = file.open(writing=writing)

    if writing:
        connection.text_factory = replace_damage
    connection.create_function("has_terms", -1, has_terms, deterministic=True)
    return connection


def attempt(work: Callable[[], Result]) -> Result | Exception:
    """Return the result of work, or its exception; an SQLite error is translated."""
    try:
        return work()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        return translate_error(error)
    except Exception as error:
        return error


class StoreThread:
    """A thread that does work for namespaces in turn, on its own connection to a store.

    The thread starts and connects when it is first needed, and ends with `close`. Work is done even
    if its caller was canceled.
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
        """The number of waiting calls."""
        return len(self._thread.queue)

    async def run(
        self,
        namespace: str,
        work: ConnectionWork[Result],
        *,
        is_patient: bool = False,
    ) -> Result:
        """Queue work of a namespace and wait for its result.

        Canceling the wait does not cancel the work. Raises Refused("busy") if the work has not
        begun after `WAIT_SECONDS`, unless the caller is patient; refused work never begins. Raises
        Refused("unavailable") after `close`.
        """
        if self._is_closed:
            raise Refused("unavailable")

        call: Call[Callable[[StoreConnection], Result], Result] = Call(work)
        self._thread.put(namespace, call)
        return await call.wait(None if is_patient else WAIT_SECONDS)

    def wake(self) -> None:
        """Start the thread if it has not started yet, so that `_rest` is called."""
        if not self._thread.is_started and not self._is_closed:
            self._thread.start()

    async def close(self) -> None:
        """Finish the queued work, then end the thread."""
        self._is_closed = True
        await self._thread.close()

    def _serve(self, call: StoreCall) -> None:
        """Do the work of a call, and possibly of other waiting calls."""
        settle_all([call], [attempt(lambda: self._do(call, self._open()))])

    def _do(self, call: StoreCall, connection: StoreConnection) -> object:
        if not call.begin(self):
            raise Refused("busy")  # the caller has been refused already

        return call.work(connection)

    def _rest(self) -> None:
        """Do regular chores; called whenever a second passes without work."""

    def _end(self) -> None:
        if self.connection is None:
            return

        # The lock is needed because the last connection to close writes the log back.
        with suppress(Refused, OSError), self._file.lock():
            self.connection.close()

    def _open(self) -> StoreConnection:
        if self.connection is None:
            self.connection = connect(self._file, writing=self._is_writing)

        return self.connection


class ReadingThread(StoreThread):
    """Serves one read after another, and interrupts late reads.

    A read is late after its deadline. If the thread makes way, a read is also late if its turn is
    over and other reads wait. A second thread interrupts late reads, because a progress handler of
    SQLite would need the interpreter's lock each time. Without ``is_watched`` there is no second
    thread; that is for pings, which do no work that could be interrupted.
    """

    def __init__(
        self, name: str, file: StoreFile, *, makes_way: bool = False, is_watched: bool = True
    ) -> None:
        super().__init__(name, file)
        self._makes_way = makes_way
        self._is_watched = is_watched
        self._watcher = threading.Thread(target=self._watch, name=f"{name}-watcher", daemon=True)
        self._is_ended = False
        self._is_reading = threading.Event()  # if it is set, the next three are those of the read
        self._whose = ("", "")  # the namespace and the caller
        self._began_at = 0.0
        self._end_of_read = 0.0
        # Without this lock, the watcher could interrupt a read that began after its check.
        self._looking = threading.Lock()

    async def read(self, namespace: str, work: ConnectionWork[Result], deadline: float) -> Result:
        """Return the result of a read of a namespace. Raises Refused("timeout") if it was late."""
        whose = (namespace, turn_owner.get())

        def read_in_snapshot(connection: StoreConnection) -> Result:
            if time.monotonic() >= deadline:
                raise Refused("timeout")

            self._file.check_in_place(connection)
            connection.execute("BEGIN")
            try:
                check_version(connection)
                self._whose = whose
                self._began_at = time.monotonic()
                self._end_of_read = deadline
                self._is_reading.set()
                try:
                    return _read_texts(connection, work)
                finally:
                    with self._looking:
                        self._is_reading.clear()
            except Exception as error:
                release_statements(error)
                raise
            finally:
                if connection.in_transaction:  # a disk error has already ended it
                    connection.execute("ROLLBACK")

        # The deadline already ends the wait.
        return await self.run(namespace, read_in_snapshot, is_patient=True)

    @override
    def _open(self) -> StoreConnection:
        connection = super()._open()
        if self._is_watched and self._watcher.ident is None:
            self._watcher.start()

        return connection

    def _watch(self) -> None:
        while not self._is_ended:
            self._is_reading.wait()
            time.sleep(WATCH_SECONDS)

            with self._looking:
                if not self._is_reading.is_set():
                    continue

                now = time.monotonic()
                seconds = now - self._began_at
                is_late = now >= self._end_of_read
                if self._makes_way and seconds >= OWN_TURN_SECONDS:
                    is_late = is_late or self.queue_size > 0
                if self._makes_way and seconds >= TURN_SECONDS:
                    is_late = is_late or self._thread.queue.has_others(*self._whose)

                if is_late and self.connection is not None:
                    self.connection.interrupt()

    @override
    def _end(self) -> None:
        if self._watcher.ident is not None:
            self._is_ended = True
            self._is_reading.set()
            self._watcher.join()

        super()._end()


def _read_texts(connection: StoreConnection, work: ConnectionWork[Result]) -> Result:
    """Return the result of a read; if it meets a damaged text, read again and replace the damage.

    The hash of the memory then reveals the damage, and other memories can still be read.
    """
    # SQLite's own decoder takes a quarter of the time of the one that replaces.
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


class StoreWriter(StoreThread):
    """Does work in savepoints of a common transaction, and returns results after the commit."""

    def __init__(self, file: StoreFile) -> None:
        super().__init__("abilities-store-writer", file, writing=True)
        self._damaged = False
        self._must_cut_log = False
        self._accesses = AccessBuffer()

    def cut_log_after(self, _connection: sqlite3.Connection) -> None:
        """Truncate the log after the present transaction; this is work for `run`."""
        self._must_cut_log = True

    def count_access(self, namespace: str, key: str, now: str) -> None:
        """Count an access; it is written with the next change, or after a second without one."""
        self._accesses.add(namespace, key, now)
        self.wake()

    def note_damage(self, result: object) -> None:
        """Refuse all further writes if a result shows that the store is corrupted."""
        if isinstance(result, Refused) and result.reason == "corrupted":
            self._damaged = True

    @override
    def _serve(self, call: StoreCall) -> None:
        """Do waiting work in one transaction, each piece in a savepoint."""
        taken = [call]
        results = attempt(lambda: self._run_in_transaction(self._take_batch(taken)))
        self.note_damage(results)

        if isinstance(results, Exception):  # waiting calls would meet the same error
            while (waiting := self._thread.take_more()) is not None:
                taken.append(waiting)
            results = [results] * len(taken)

        settle_all(taken, results)

    def _take_batch(self, taken: list[StoreCall]) -> Iterator[StoreCall]:
        """Yield the call that was taken, then waiting calls for `BATCH_SECONDS` at most.

        Each call is taken only when the one before it is done. So the next call always belongs to
        the namespace whose turn it is, and a batch of slow calls is short.
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
                self._file.check_in_place(connection)
                connection.execute("BEGIN IMMEDIATE")
                check_version(connection)
                connection.postponed_texts = []

                # Accesses come first, because they were counted by the keys from before the
                # changes. If writing them fails, they are lost: they are best effort.
                for namespace, accesses in self._accesses.take().items():
                    run(connection, count_accesses, namespace, accesses)

                results: list[object] = []
                for call in calls:
                    work = partial(self._do, call, connection)
                    results.append(run_in_savepoint(connection, work))
                add_postponed(connection)

                # A change is not acknowledged if its file was moved or its log removed meanwhile.
                self._file.check_in_place(connection)
                connection.execute("COMMIT")
                self._file.check_in_place(connection)

                if self._must_cut_log:
                    self._must_cut_log = False
                    with suppress(sqlite3.Error):  # the changes are committed already
                        connection.execute(CUT_LOG)
                return results
            except Exception as error:
                release_statements(error)
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                if isinstance(error, Refused) and error.reason == "storage_moved":
                    self._save_log(connection)
                raise

    def _save_log(self, connection: StoreConnection) -> None:
        # If it cannot be saved now, it is tried again while the thread rests.
        with suppress(Refused, sqlite3.Error):
            self._file.save_log(connection)

    @override
    def _rest(self) -> None:
        self._flush_accesses()
        connection = self.connection
        if connection is None:
            return

        def tend_log() -> None:
            try:
                self._file.check_in_place(connection)
            except Refused:
                with self._file.lock():
                    self._save_log(connection)
            else:
                self._file.shrink_log(connection)

        attempt(tend_log)

    def _flush_accesses(self) -> None:
        if self._accesses:
            attempt(lambda: self._run_in_transaction(iter(())))

    @override
    def _end(self) -> None:
        self._flush_accesses()
        super()._end()


class SqliteEngine(Engine):
    """The engine of a store in one file, which is opened or created when it is first needed.

    All reads begin on one thread, and long reads move to a second one; both open the store at the
    first read. A third thread answers pings, whatever the others do. ``language`` is for the recall
    index of a new store.
    """

    def __init__(self, path: Path, language: Language) -> None:
        self.file = StoreFile(path, language)
        self.writer = StoreWriter(self.file)
        self._reader = ReadingThread("abilities-store-reader", self.file, makes_way=True)
        self._long_reader = ReadingThread("abilities-store-reader-2", self.file)
        self._pinger = ReadingThread("abilities-store-ping", self.file, is_watched=False)
        self._looker: ServingThreads[Call[None, bool]] = ServingThreads(
            "abilities-store-look", self._look
        )

    @property
    @override
    def queue_size(self) -> int:
        threads = (self._reader, self._long_reader, self.writer)
        return sum(thread.queue_size for thread in threads)

    @override
    async def prepare(self) -> None:
        await self._open_readers(None)

    async def _open_readers(self, seconds: float | None) -> None:
        """Open the store on both threads. Raises Refused, busy if it takes too long."""
        # The second thread is also opened now, because the first long read would have to wait for
        # it, and a process's number of threads and descriptors should not depend on its load.
        if self._long_reader.connection is not None:
            return

        try:
            async with asyncio.timeout(seconds):
                for thread in (self._reader, self._long_reader):
                    await thread.run(OPERATOR, lambda _: None, is_patient=True)
        except TimeoutError:
            raise Refused("busy") from None

    @override
    async def read(
        self,
        whose: str,
        work: Work[Result],
        seconds: float,
        *,
        now: str | None = None,
    ) -> Result:
        def find(connection: StoreConnection) -> Result:
            if now is not None and run(connection, has_due, whose, now):
                raise MemoriesDue
            return run(connection, work)

        try:
            return await self.run_read(whose, find, seconds)
        except Refused as error:
            self.writer.note_damage(error)
            raise translate_for_read(error) from error.__cause__

    async def run_read(self, whose: str, work: ConnectionWork[Result], seconds: float) -> Result:
        """Return the result of a read, which moves to the second thread if it is long.

        Raises Refused, for example timeout after this number of seconds.
        """
        await self._open_readers(OPEN_SECONDS)

        deadline = time.monotonic() + seconds
        try:
            # A disk that hangs cannot be interrupted: its thread is left behind.
            async with asyncio.timeout(seconds + 2 * WATCH_SECONDS):
                try:
                    return await self._reader.read(whose, work, deadline)
                except Refused as error:
                    if error.reason != "timeout" or time.monotonic() >= deadline:
                        raise

                return await self._long_reader.read(whose, work, deadline)
        except TimeoutError:
            raise Refused("timeout") from None

    @override
    async def write(
        self, namespace: str, work: Work[Result], *, size: int = 1, is_patient: bool = False
    ) -> Result:
        # Patient work is the operator's, and does not use the turn of a namespace.
        whose = OPERATOR if is_patient else namespace
        return await self.writer.run(whose, partial(run, function=work), is_patient=is_patient)

    @override
    def count_access(self, namespace: str, key: str, now: str) -> None:
        self.writer.count_access(namespace, key, now)

    @override
    async def flush_accesses(self) -> None:
        """Do nothing, because each transaction of the writer begins with the counted accesses."""

    @override
    async def clean(self) -> None:
        try:
            await self.writer.run(OPERATOR, begin_merging, is_patient=True)

            # In several transactions, so that other writes need not wait for all of it.
            is_unfinished = True
            while is_unfinished:
                is_unfinished = await self.writer.run(OPERATOR, go_on_merging, is_patient=True)

            await self.writer.run(OPERATOR, self.writer.cut_log_after, is_patient=True)
        except Refused as error:
            _log.warning(
                "Words of purged memories remain in the search index until the next purge: %s",
                error.reason,
            )

    @override
    async def has_mark(self, mark: Mark) -> bool:
        """Do as `Engine.has_mark` says, without creating or migrating the store."""

        def look() -> bool:
            path = self.file.path
            try:
                if not path.exists():
                    if has_traces(path):
                        raise Refused("storage_moved")
                    return False

                with closing(connect_to_file(path, "ro")) as connection:
                    read_version(connection)
                    return run(connection, read_mark, mark)
            except STORE_ERRORS as error:
                raise translate_error(error) from error

        # Not on the reader's thread, which may be busy with a migration for minutes.
        return await asyncio.to_thread(look)

    @override
    async def exists(self) -> bool:
        """Return whether the file is there, without opening the store, which would create it."""
        if self._long_reader.connection is not None:
            return True

        call: Call[None, bool] = Call(None)
        self._looker.put("", call)
        return await call.wait()

    def _look(self, call: Call[None, bool]) -> None:
        call.settle(os.path.exists(self.file.path))  # a disk that hangs holds up this thread only

    @override
    async def ping(self) -> None:
        """Do as `Engine.ping` says, within `PING_SECONDS`; busy while the store is being opened."""
        deadline = time.monotonic() + PING_SECONDS
        try:
            async with asyncio.timeout(PING_SECONDS):
                await self._pinger.read(OPERATOR, lambda _: None, deadline)
        except TimeoutError:
            reason: Reason = "timeout"
            if self._pinger.connection is None:
                reason = "busy"  # a migration may take minutes
            raise Refused(reason) from None
        except Refused as error:
            raise translate_for_read(error) from error.__cause__

    @override
    async def check(self, progress: Callable[[int], None], *, full: bool) -> list[IntegrityFinding]:
        def check_now() -> list[IntegrityFinding]:
            with closing(connect(self.file, writing=False)) as connection:
                version, *findings = check_store(connection, progress)
                findings = [version, *self.file.check_side_files(), *findings]

            if full:
                with self.file.lock(), closing(connect(self.file, writing=True)) as connection:
                    findings.append(check_search_index(connection))

            return findings

        # A separate thread and connection let reads go on.
        return await asyncio.to_thread(check_now)

    @override
    async def close(self) -> None:
        self.file.interrupt()
        self._looker.end()
        for thread in (self._pinger, self._reader, self._long_reader, self.writer):
            await thread.close()

        self.file.close()


class SqliteStore(SqlStore):
    """A store in one file, which is opened or created when it is first needed.

    ``language`` is for the recall index of a new store.
    """

    def __init__(
        self, path: Path, language: Language | None = None, rules: StoreRules = DEFAULT_RULES
    ) -> None:
        self.engine = SqliteEngine(path, language or Language())
        super().__init__(self.engine, rules)
