"""The embedded store: one SQLite file, one writer thread with group commit, one reader thread with snapshots."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from abilities.declarations.faults import Refused
from abilities.helpers.stores.changes import BatchOptions, Change, Outcome
from abilities.helpers.stores.model import DamagedMemory, IncomingMemory, StoredMemory, hash_values
from abilities.helpers.stores.protocol import (
    MAX_TOUCHES,
    Backlinks,
    IntegrityFinding,
    MemoryPage,
    Query,
    Stats,
    WalkResult,
    WriteResult,
)
from abilities.helpers.stores.sqlite import queries, reads, transfer, writes
from abilities.helpers.stores.sqlite.file import StoreFile, check_version, translate_sqlite_error
from abilities.helpers.stores.sqlite.integrity import check, check_words
from abilities.helpers.stores.sqlite.thread import BatchingThread, ThreadJob
from abilities.helpers.walk import WalkLimits

T = TypeVar("T")


class SqliteStore:
    """A `MemoryStore` in a file. The file is opened, and made where there never was one, when first needed."""

    def __init__(self, path: Path, *, max_memories: int | None = None) -> None:
        self._file = StoreFile(path)
        self._quota = max_memories
        self._reading: sqlite3.Connection | None = None
        self._writing: sqlite3.Connection | None = None
        self._damaged = False
        self._opening = threading.Lock()
        self._touching = threading.Lock()
        self._touches: dict[tuple[str, str], tuple[int, str]] = {}
        self._reader = BatchingThread(
            "abilities-store-reader", self._read_batch, lambda: None, self._end_reading
        )
        self._writer = BatchingThread(
            "abilities-store-writer", self._write_batch, self._flush, self._end_writing
        )

    @property
    def queue_size(self) -> int:
        """See `MemoryStore.waiting`."""
        return self._reader.queue_size + self._writer.queue_size

    async def change(self, namespace: str, change: Change) -> WriteResult:
        """See `MemoryStore.change`."""
        return await self._writer.run(lambda c: writes.write(c, namespace, change, self._quota))

    async def read(self, namespace: str, keys: Sequence[str]) -> list[StoredMemory | Exception]:
        """See `MemoryStore.read`."""
        return await self._reader.run(lambda c: reads.read(c, namespace, keys))

    async def read_linked(self, namespace: str, key: str, offset: int, limit: int) -> StoredMemory:
        """See `MemoryStore.read_linked`."""
        return await self._reader.run(lambda c: reads.read_linked(c, namespace, key, offset, limit))

    async def read_backlinks(self, namespace: str, key: str, offset: int, limit: int) -> Backlinks:
        """See `MemoryStore.backlinks`."""
        return await self._reader.run(lambda c: reads.backlinks(c, namespace, key, offset, limit))

    async def walk(self, namespace: str, key: str, limits: WalkLimits) -> WalkResult:
        """See `MemoryStore.walk`."""
        return await self._reader.run(lambda c: reads.walk(c, namespace, key, limits))

    async def query(self, namespace: str, query: Query) -> MemoryPage:
        """See `MemoryStore.query`."""
        return await self._reader.run(lambda c: queries.query(c, namespace, query))

    async def read_stats(self, namespace: str) -> Stats:
        """See `MemoryStore.stats`."""
        return await self._reader.run(lambda c: queries.read_stats(c, namespace))

    async def read_page(
        self, after: tuple[str, str], limit: int
    ) -> list[StoredMemory | DamagedMemory]:
        """See `MemoryStore.page`."""
        return await self._reader.run(lambda c: transfer.page(c, after, limit))

    async def count_memories(self) -> int:
        """See `MemoryStore.size`."""
        return await self._reader.run(transfer.size)

    async def import_batch(
        self, memories: Sequence[IncomingMemory], *, replace: bool = False, dry_run: bool = False
    ) -> list[Outcome | Exception]:
        """See `MemoryStore.put`."""
        how = BatchOptions(replace, dry_run, self._quota)
        if dry_run:
            return await self._reader.run(lambda c: transfer.put(c, memories, how))
        # A job each, because a savepoint costs what has been written since it began; commits are shared all the same.
        jobs = (partial(transfer.put, memories=[memory], how=how) for memory in memories)
        return [outcome for (outcome,) in await asyncio.gather(*map(self._writer.run, jobs))]

    async def check(self, progress: Callable[[int], None], *, full: bool) -> list[IntegrityFinding]:
        """See `MemoryStore.check`; on a thread and a connection of its own, so that reads go on."""
        return await asyncio.to_thread(self._check, progress, full)

    def _check(self, progress: Callable[[int], None], full: bool) -> list[IntegrityFinding]:
        with closing(self.connect(writing=False)) as connection:
            connection.execute("BEGIN")
            findings = [*self._file.traces(), *check(connection, progress)]
        if not full:
            return findings
        with self._file.locked(), closing(self.connect(writing=True)) as connection:
            return [*findings, check_words(connection)]

    def count_access(self, namespace: str, key: str, now: str) -> None:
        """See `MemoryStore.touch`; written with the next change, or after a second without one."""
        with self._touching:
            if len(self._touches) < MAX_TOUCHES:
                count, _ = self._touches.get((namespace, key), (0, ""))
                self._touches[namespace, key] = (count + 1, now)
        self._writer.wake()

    async def close(self) -> None:
        """See `MemoryStore.close`."""
        await self._reader.close()
        await self._writer.close()
        self._file.close()

    def _read_batch(self, jobs: Sequence[ThreadJob]) -> list[Any]:
        """One snapshot for all that waits; it is younger than anything its callers know of."""
        try:
            return [self._guarded(partial(self._in_snapshot, job.work)) for job in jobs]
        finally:
            self._end_snapshot()

    def _in_snapshot(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._reading is None:
            self._reading = self.connect(writing=False)
        try:
            if not self._reading.in_transaction:
                self._begin_snapshot(self._reading)
            return work(self._reading)
        except (sqlite3.Error, UnicodeDecodeError):
            self._end_snapshot()
            raise

    def _begin_snapshot(self, connection: sqlite3.Connection) -> None:
        self._file.check_in_place()
        connection.execute("BEGIN")
        try:
            check_version(connection)
        except Refused:
            self._end_snapshot()
            raise

    def _end_snapshot(self) -> None:
        if self._reading is not None and self._reading.in_transaction:
            self._reading.execute("ROLLBACK")

    def _write_batch(self, jobs: Sequence[ThreadJob]) -> list[Any]:
        """One transaction for all that waits; each change in a savepoint of its own."""
        results = self._guarded(lambda: self._in_transaction([job.work for job in jobs]))
        return [results] * len(jobs) if isinstance(results, Exception) else results

    def _guarded(self, work: Callable[[], T]) -> "T | Exception":
        """The work's result or exception; after damage was met, nothing is written any more."""
        result = _attempt(work)
        if isinstance(result, Refused) and result.reason == "corrupted":
            self._damaged = True
        return result

    def _in_transaction(self, works: Sequence[Callable[[sqlite3.Connection], Any]]) -> list[Any]:
        if self._damaged:
            raise Refused("corrupted")
        if self._writing is None:
            self._writing = self.connect(writing=True)
        connection = self._writing
        with self._file.locked():
            self._file.check_in_place()
            connection.execute("BEGIN IMMEDIATE")
            try:
                check_version(connection)
                results = [_in_savepoint(connection, work) for work in works]
                self._write_touches(connection)
                self._file.check_in_place()
                connection.execute("COMMIT")
                return results
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def _write_touches(self, connection: sqlite3.Connection) -> None:
        with self._touching:
            touches, self._touches = self._touches, {}
        for (namespace, key), (count, now) in touches.items():
            writes.touch(connection, namespace, key, count, now)

    def _flush(self) -> None:
        if self._touches:
            _attempt(lambda: self._in_transaction([]))

    def connect(self, *, writing: bool) -> sqlite3.Connection:
        """A connection to the file, as the store's own threads use one. Raises Refused."""
        with self._opening:
            connection = self._file.open(writing=writing)
        # What damage makes of a text need not be UTF-8; its hash shows that, without failing its neighbours.
        connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
        connection.create_function(
            "link_hash", 5, lambda *link: hash_values(link), deterministic=True
        )
        connection.create_function("folded", 1, str.casefold, deterministic=True)
        return connection

    def _end_reading(self) -> None:
        self._close(self._reading)

    def _end_writing(self) -> None:
        self._flush()
        self._close(self._writing)

    def _close(self, connection: sqlite3.Connection | None) -> None:
        """Close under the lock, because the last connection to close writes the log back into the file."""
        if connection is not None:
            with suppress(Refused, OSError), self._file.locked():
                connection.close()


def _in_savepoint(
    connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]
) -> "T | Exception":
    """The change's result, or what refused it alone; a failing store fails the whole transaction."""
    connection.execute("SAVEPOINT change")
    try:
        result: T | Exception = work(connection)
    except (sqlite3.Error, UnicodeDecodeError):
        raise
    except Exception as error:
        connection.execute("ROLLBACK TO change")
        result = error
    connection.execute("RELEASE change")
    return result


def _attempt(work: Callable[[], T]) -> "T | Exception":
    """The work's result, or the exception in terms of the caller."""
    try:
        return work()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        return translate_sqlite_error(error)
    except Exception as error:
        return error
