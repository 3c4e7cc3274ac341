"""The embedded store: one SQLite file, served by a writer thread and a reader thread.

The writer commits all waiting changes together; the reader serves all waiting reads from one
snapshot.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from typing_extensions import override

from abilities.declarations.faults import Refused
from abilities.helpers.stores.changes import BatchOptions, Change, Outcome
from abilities.helpers.stores.model import (
    AccessCounters,
    DamagedMemory,
    IncomingMemory,
    StoredMemory,
    hash_values,
)
from abilities.helpers.stores.protocol import (
    MAX_TOUCHES,
    Backlinks,
    IntegrityFinding,
    MemoryPage,
    Query,
    ServableStore,
    Stats,
    WalkResult,
    WriteResult,
)
from abilities.helpers.stores.sqlite import queries, reads, transfer, writes
from abilities.helpers.stores.sqlite.file import StoreFile, translate_sqlite_error
from abilities.helpers.stores.sqlite.integrity import check_search_index, check_store
from abilities.helpers.stores.sqlite.schema import check_version
from abilities.helpers.stores.sqlite.thread import BatchingThread, ThreadJob
from abilities.helpers.walk import WalkLimits

Result = TypeVar("Result")
Work = Callable[[sqlite3.Connection], Result]
Jobs = Sequence[ThreadJob[sqlite3.Connection]]

_NO_ACCESS = AccessCounters("", 0)


class SqliteStore(ServableStore):
    """A store in one file, which is opened when first needed, and created if there never was one.

    ``max_memories`` is the most that one namespace may hold; None sets no limit.
    """

    def __init__(self, path: Path, *, max_memories: int | None = None) -> None:
        self._file = StoreFile(path)
        self._quota = max_memories
        self._damaged = False
        self._opening = threading.Lock()

        # One connection per thread, opened and used by it alone.
        self._reading: sqlite3.Connection | None = None
        self._writing: sqlite3.Connection | None = None
        self._reader = BatchingThread[sqlite3.Connection](
            "abilities-store-reader", self._read_batch, lambda: None, self._end_reading
        )
        self._writer = BatchingThread[sqlite3.Connection](
            "abilities-store-writer", self._write_batch, self._flush_accesses, self._end_writing
        )

        # Accesses that are not written yet, by namespace and key.
        self._accesses: dict[tuple[str, str], AccessCounters] = {}
        self._counting = threading.Lock()

    @property
    @override
    def queue_size(self) -> int:
        return self._reader.queue_size + self._writer.queue_size

    @override
    async def change(self, namespace: str, change: Change) -> WriteResult:
        return await self._writer.run(
            lambda c: writes.apply_change(c, namespace, change, self._quota)
        )

    @override
    async def read(self, namespace: str, keys: Sequence[str]) -> list[StoredMemory | Exception]:
        return await self._reader.run(lambda c: reads.read(c, namespace, keys))

    @override
    async def read_linked(self, namespace: str, key: str, offset: int, limit: int) -> StoredMemory:
        return await self._reader.run(lambda c: reads.read_linked(c, namespace, key, offset, limit))

    @override
    async def read_backlinks(self, namespace: str, key: str, offset: int, limit: int) -> Backlinks:
        return await self._reader.run(
            lambda c: reads.read_backlinks(c, namespace, key, offset, limit)
        )

    @override
    async def walk(self, namespace: str, key: str, limits: WalkLimits) -> WalkResult:
        return await self._reader.run(lambda c: reads.walk(c, namespace, key, limits))

    @override
    async def query(self, namespace: str, query: Query) -> MemoryPage:
        return await self._reader.run(lambda c: queries.run_query(c, namespace, query))

    @override
    async def read_stats(self, namespace: str) -> Stats:
        return await self._reader.run(lambda c: queries.read_stats(c, namespace))

    @override
    async def read_page(
        self, after: tuple[str, str], limit: int
    ) -> list[StoredMemory | DamagedMemory]:
        return await self._reader.run(lambda c: transfer.read_page(c, after, limit))

    @override
    async def count_memories(self) -> int:
        return await self._reader.run(transfer.count_memories)

    @override
    async def import_batch(
        self, memories: Sequence[IncomingMemory], *, replace: bool = False, dry_run: bool = False
    ) -> list[Outcome | Exception]:
        options = BatchOptions(replace, dry_run, self._quota)
        if dry_run:
            return await self._reader.run(lambda c: transfer.import_memories(c, memories, options))

        # One job per memory, because a savepoint costs as much as was written since it began.
        # Jobs that wait together share a commit all the same.
        jobs: list[Work[list[Outcome | Exception]]] = []
        for memory in memories:
            jobs.append(partial(transfer.import_memories, memories=[memory], options=options))

        results = await asyncio.gather(*map(self._writer.run, jobs))
        return [outcome for (outcome,) in results]

    @override
    async def check(self, progress: Callable[[int], None], *, full: bool) -> list[IntegrityFinding]:
        # On a thread and a connection of its own, so that reads go on.
        return await asyncio.to_thread(self._check, progress, full)

    def _check(self, progress: Callable[[int], None], full: bool) -> list[IntegrityFinding]:
        with closing(self.connect(writing=False)) as connection:
            connection.execute("BEGIN")
            findings = [*self._file.check_side_files(), *check_store(connection, progress)]

        if full:
            with self._file.lock(), closing(self.connect(writing=True)) as connection:
                findings.append(check_search_index(connection))

        return findings

    @override
    def count_access(self, namespace: str, key: str, now: str) -> None:
        """Count an access; it is written with the next change, or after a second without one."""
        name = (namespace, key)
        with self._counting:
            if len(self._accesses) < MAX_TOUCHES:
                earlier = self._accesses.get(name, _NO_ACCESS)
                self._accesses[name] = AccessCounters(now, earlier.access_count + 1)

        self._writer.wake()

    @override
    async def close(self) -> None:
        await self._reader.close()
        await self._writer.close()
        self._file.close()

    def connect(self, *, writing: bool) -> sqlite3.Connection:
        """Return a connection to the file as the store's own threads use one. Raises Refused."""
        # Both threads may be the first to open the file, and it must be created only once.
        with self._opening:
            connection = self._file.open(writing=writing)

        # A damaged text need not be UTF-8: its hash reveals that, and its neighbors do not fail.
        connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
        connection.create_function(
            "link_hash", 5, lambda *link: hash_values(link), deterministic=True
        )
        connection.create_function("folded", 1, str.casefold, deterministic=True)
        return connection

    def _read_batch(self, jobs: Jobs) -> list[object]:
        """Run all waiting reads in one snapshot, newer than anything that their callers know of."""
        try:
            return [self._attempt(partial(self._run_in_snapshot, job.work)) for job in jobs]
        finally:
            self._end_snapshot()

    def _run_in_snapshot(self, work: Work[Result]) -> Result:
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

    def _write_batch(self, jobs: Jobs) -> Sequence[object]:
        """Run all waiting writes in one transaction, each in a savepoint of its own."""
        results = self._attempt(lambda: self._run_in_transaction([job.work for job in jobs]))
        if isinstance(results, Exception):
            return [results] * len(jobs)

        return results

    def _run_in_transaction(self, works: Sequence[Work[object]]) -> list[object]:
        if self._damaged:
            raise Refused("corrupted")
        if self._writing is None:
            self._writing = self.connect(writing=True)

        connection = self._writing
        with self._file.lock():
            self._file.check_in_place()
            connection.execute("BEGIN IMMEDIATE")
            try:
                check_version(connection)
                results = [_run_in_savepoint(connection, work) for work in works]
                self._write_accesses(connection)
                self._file.check_in_place()  # a change to a file that was moved is not acknowledged
                connection.execute("COMMIT")
                return results
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def _write_accesses(self, connection: sqlite3.Connection) -> None:
        # Taken out before they are written: if that fails, they are lost, which is best effort.
        with self._counting:
            accesses, self._accesses = self._accesses, {}

        for (namespace, key), access in accesses.items():
            writes.count_access(connection, namespace, key, access)

    def _flush_accesses(self) -> None:
        if self._accesses:
            _attempt(lambda: self._run_in_transaction([]))

    def _attempt(self, work: Callable[[], Result]) -> Result | Exception:
        """Return the result or exception; once damage was met, nothing is written any more."""
        result = _attempt(work)
        if isinstance(result, Refused) and result.reason == "corrupted":
            self._damaged = True

        return result

    def _end_reading(self) -> None:
        self._close(self._reading)

    def _end_writing(self) -> None:
        self._flush_accesses()
        self._close(self._writing)

    def _close(self, connection: sqlite3.Connection | None) -> None:
        """Close under the lock, because the last connection to close writes the log back."""
        if connection is None:
            return

        with suppress(Refused, OSError), self._file.lock():
            connection.close()


def _run_in_savepoint(connection: sqlite3.Connection, work: Work[Result]) -> Result | Exception:
    """Return the change's result, or the exception that fails this change alone.

    An error of the database itself is raised, and fails the whole transaction.
    """
    connection.execute("SAVEPOINT change")
    try:
        result: Result | Exception = work(connection)
    except (sqlite3.Error, UnicodeDecodeError):
        raise
    except Exception as error:
        connection.execute("ROLLBACK TO change")
        result = error

    connection.execute("RELEASE change")
    return result


def _attempt(work: Callable[[], Result]) -> Result | Exception:
    """Return the work's result or exception, an error of SQLite translated."""
    try:
        return work()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        return translate_sqlite_error(error)
    except Exception as error:
        return error
