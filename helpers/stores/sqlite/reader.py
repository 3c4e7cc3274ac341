"""The reads of an SQLite store: each ends in time, and a slow one does not hold up the others."""

import asyncio
import math
import sqlite3
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from abilities.declarations.faults import Refused
from abilities.helpers.stores.sqlite.damaged_texts import read_texts
from abilities.helpers.stores.sqlite.errors import attempt, release_statements
from abilities.helpers.stores.sqlite.log import StoreConnection
from abilities.helpers.stores.sqlite.schema import check_version
from abilities.helpers.stores.sqlite.thread import BatchingThread, JobBatch
from abilities.helpers.turns import turn_owner

Result = TypeVar("Result")
Work = Callable[[sqlite3.Connection], Result]
Turn = tuple[str, str]
"""Whose turn it is: a namespace and a caller."""

OPEN_SECONDS = 9.0
"""How long a read waits for the store to be opened, which takes minutes if it is migrated."""

TURN_SECONDS = 0.01
"""After that long a read makes way for another caller's, and begins anew on the second thread."""

OWN_TURN_SECONDS = 1.0
"""After that long it makes way for those of its own caller too."""

WATCH_SECONDS = 0.005
"""How often it is looked whether a read is late."""


class ReadingThread:
    """Serves one read after another, and interrupts those that are late.

    If it makes way, a read whose turn is over and behind which others wait is late too. A second
    thread interrupts, because a handler that SQLite calls would have to wait for the interpreter's
    lock each time.
    """

    def __init__(
        self,
        name: str,
        connect: Callable[[], StoreConnection],
        check_in_place: Callable[[StoreConnection], None],
        close: Callable[[StoreConnection], None],
        *,
        makes_way: bool,
    ) -> None:
        self._makes_way = makes_way
        self._connect = connect
        self._check_in_place = check_in_place
        self._close = close
        self._connection: StoreConnection | None = None
        self._thread = BatchingThread[None](
            name, self._read_batch, lambda: None, self._end, max_jobs=1
        )

        self._watcher = threading.Thread(target=self._watch, name=f"{name}-watcher", daemon=True)
        self._is_reading = threading.Event()
        self._is_ended = False
        self._end_of_read = math.inf
        self._began_at = math.inf
        self._whose: Turn = ("", "")
        self._looking = threading.Lock()  # no read is interrupted that began after the look

    @property
    def queue_size(self) -> int:
        """How many reads are queued."""
        return self._thread.queue_size

    @property
    def is_open(self) -> bool:
        """Whether it has opened the store."""
        return self._connection is not None

    async def open(self) -> None:
        """Open the store if it is not open yet. Raises Refused."""
        await self._thread.run("", lambda _: self._open(), is_patient=True)

    async def run(self, namespace: str, work: Work[Result], deadline: float) -> Result:
        """Return what a read of a namespace finds. Raises Refused, timeout if it was late."""
        whose = (namespace, turn_owner.get())
        return await self._thread.run(
            namespace,
            lambda _: self._run_in_snapshot(work, whose, deadline),
            is_patient=True,  # the deadline ends its wait
        )

    async def close(self) -> None:
        """Finish the queued reads, then end the thread."""
        await self._thread.close()

    def _read_batch(self, jobs: JobBatch[None]) -> list[object]:
        self._is_reading.set()
        try:
            return [attempt(partial(job.work, None)) for job in jobs]
        finally:
            self._is_reading.clear()

    def _run_in_snapshot(self, work: Work[Result], whose: Turn, deadline: float) -> Result:
        if time.monotonic() >= deadline:
            raise Refused("timeout")

        connection = self._open()
        self._check_in_place(connection)
        connection.execute("BEGIN")
        try:
            check_version(connection)
            self._whose = whose
            return self._run_until(deadline, partial(read_texts, connection, work))
        except Exception as error:
            release_statements(error)
            raise
        finally:
            if connection.in_transaction:  # an error of the disk has ended it already
                connection.execute("ROLLBACK")

    def _open(self) -> StoreConnection:
        if self._connection is None:
            self._connection = self._connect()
            self._watcher.start()

        return self._connection

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
                if self._connection is not None and self._is_late():
                    self._connection.interrupt()

    def _is_late(self) -> bool:
        now = time.monotonic()
        if now >= self._end_of_read:
            return True

        if not self._makes_way:
            return False

        seconds = now - self._began_at
        if seconds >= OWN_TURN_SECONDS and self.queue_size > 0:
            return True
        return seconds >= TURN_SECONDS and self._thread.has_others(*self._whose)

    def _end(self) -> None:
        if self._connection is None:
            return

        self._is_ended = True
        self._is_reading.set()
        self._watcher.join()
        self._close(self._connection)


class StoreReader:
    """Two reading threads: all reads begin on the first one, and long ones go on to the second.

    Both open the store at its first read.
    """

    def __init__(
        self,
        connect: Callable[[], StoreConnection],
        check_in_place: Callable[[StoreConnection], None],
        close: Callable[[StoreConnection], None],
    ) -> None:
        name = "abilities-store-reader"
        self._first = ReadingThread(name, connect, check_in_place, close, makes_way=True)
        self._second = ReadingThread(f"{name}-2", connect, check_in_place, close, makes_way=False)

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

    async def _open(self, seconds: float | None) -> None:
        """Open the store on both threads. Raises Refused, busy if it takes too long."""
        # Not when a read is first long: it would wait for that, and a process whose threads and
        # descriptors depend on its load is hard to watch.
        if self._second.is_open:
            return

        try:
            async with asyncio.timeout(seconds):
                await self._first.open()
                await self._second.open()
        except TimeoutError:
            raise Refused("busy") from None

    async def _run_in_turns(self, namespace: str, work: Work[Result], deadline: float) -> Result:
        try:
            return await self._first.run(namespace, work, deadline)
        except Refused as error:
            if error.reason != "timeout" or time.monotonic() >= deadline:
                raise

        return await self._second.run(namespace, work, deadline)

    async def close(self) -> None:
        """Finish the queued reads, then end the threads."""
        await self._first.close()
        await self._second.close()
