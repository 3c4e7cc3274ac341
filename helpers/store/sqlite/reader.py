"""The reads of an SQLite store: each ends in time, and a slow one does not hold up the others."""

import asyncio
import math
import sqlite3
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from typing_extensions import override

from abilities.declarations.faults import Refused
from abilities.declarations.reasons import Reason
from abilities.helpers.store.engine import OPERATOR
from abilities.helpers.store.sqlite.errors import attempt, release_statements
from abilities.helpers.store.sqlite.file import StoreFile
from abilities.helpers.store.sqlite.log import StoreConnection
from abilities.helpers.store.sqlite.schema import check_version
from abilities.helpers.store.sqlite.thread import StoreCall, StoreThread, replace_damage
from abilities.helpers.threads.calls import settle_all
from abilities.helpers.threads.turns import turn_owner

Result = TypeVar("Result")
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
