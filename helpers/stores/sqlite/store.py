"""The embedded store: one SQLite file, served by a writer thread and by reader threads.

The writer commits all waiting changes together; a reader serves all waiting reads from one
snapshot.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from typing_extensions import override

from abilities.declarations.faults import Refused
from abilities.declarations.memory import Direction
from abilities.helpers.search.recall import RecallRequest
from abilities.helpers.search.terms import Language
from abilities.helpers.stores.changes import BatchOptions, Change, Outcome, list_outcomes
from abilities.helpers.stores.model import (
    AccessCounters,
    DamagedMemory,
    IncomingMemory,
    StoredMemory,
)
from abilities.helpers.stores.protocol import (
    MAX_TOUCHES,
    Backlinks,
    IntegrityFinding,
    Mark,
    MemoryPage,
    Recalled,
    ServableStore,
    Stats,
    WalkResult,
    WriteResult,
)
from abilities.helpers.stores.query import Query
from abilities.helpers.stores.requests import check_change, check_names, check_query
from abilities.helpers.stores.sqlite import queries, reads, recall, transfer, walks, writes
from abilities.helpers.stores.sqlite.errors import (
    attempt,
    translate_for_read,
)
from abilities.helpers.stores.sqlite.file import StoreFile
from abilities.helpers.stores.sqlite.integrity import check_search_index, check_store
from abilities.helpers.stores.sqlite.links import prepare_link_writes
from abilities.helpers.stores.sqlite.log import StoreConnection
from abilities.helpers.stores.sqlite.marks import read_mark, write_mark
from abilities.helpers.stores.sqlite.ping import StorePing
from abilities.helpers.stores.sqlite.reader import StoreReader, Work
from abilities.helpers.stores.sqlite.recall_index import read_language
from abilities.helpers.stores.sqlite.savepoints import run_in_savepoint
from abilities.helpers.stores.sqlite.schema import check_version
from abilities.helpers.stores.sqlite.search import has_terms
from abilities.helpers.stores.sqlite.thread import BatchingThread, ThreadJob
from abilities.helpers.walk import WalkLimits

Result = TypeVar("Result")
Jobs = Iterable[ThreadJob[sqlite3.Connection]]

_OPERATOR = ""
"""Whose turn it is with work on all namespaces, such as imports. No namespace has that name."""

_NO_ACCESS = AccessCounters("", 0)


class SqliteStore(ServableStore):
    """A store in one file, which is opened when first needed, and created if there never was one.

    ``max_memories`` is the most that one namespace may hold; None sets no limit. ``language`` is
    that of the recall index, if the store has none yet.
    """

    def __init__(
        self, path: Path, *, max_memories: int | None = None, language: str = "english"
    ) -> None:
        self._file = StoreFile(path, language)
        self._quota = max_memories
        self._damaged = False
        self._opening = threading.Lock()

        # One connection per thread, opened and used by it alone.
        connect = partial(self.connect, writing=False)
        self._reader = StoreReader(connect, self._file.check_in_place, self._close)
        self._ping = StorePing(connect, self._file.check_in_place, self._close)
        self._writing: StoreConnection | None = None
        self._writer = BatchingThread[sqlite3.Connection](
            "abilities-store-writer", self._write_batch, self._rest, self._end_writing
        )

        # Accesses that are not written yet, by namespace and key.
        self._accesses: dict[tuple[str, str], AccessCounters] = {}
        self._counting = threading.Lock()

    @property
    @override
    def queue_size(self) -> int:
        return self._reader.queue_size + self._writer.queue_size

    @override
    async def prepare(self) -> None:
        await self._reader.prepare()

    @override
    async def change(self, namespace: str, change: Change) -> WriteResult:
        check_change(namespace, change)
        return await self._writer.run(
            namespace, lambda c: writes.apply_change(c, namespace, change, self._quota)
        )

    @override
    async def read(self, namespace: str, keys: Sequence[str]) -> list[StoredMemory | Exception]:
        check_names(namespace, *keys)
        return await self._read(namespace, lambda c: reads.read(c, namespace, keys))

    @override
    async def read_linked(self, namespace: str, key: str, offset: int, limit: int) -> StoredMemory:
        check_names(namespace, key)
        return await self._read(
            namespace, lambda c: reads.read_linked(c, namespace, key, offset, limit)
        )

    @override
    async def read_backlinks(self, namespace: str, key: str, offset: int, limit: int) -> Backlinks:
        check_names(namespace, key)
        return await self._read(
            namespace, lambda c: reads.read_backlinks(c, namespace, key, offset, limit)
        )

    @override
    async def walk(
        self, namespace: str, key: str, limits: WalkLimits, direction: Direction = "out"
    ) -> WalkResult:
        check_names(namespace, key)
        return await self._read(
            namespace, lambda c: walks.walk(c, namespace, key, limits, direction)
        )

    @override
    async def query(self, namespace: str, query: Query) -> MemoryPage:
        check_query(namespace, query)
        return await self._read(namespace, lambda c: queries.run_query(c, namespace, query))

    @override
    async def recall(
        self, namespace: str, request: RecallRequest, room: int, starts: Sequence[int]
    ) -> Recalled:
        check_names(namespace)
        return await self._read(
            namespace, lambda c: recall.recall(c, namespace, request, room, starts)
        )

    @override
    async def read_language(self) -> Language:
        return await self._read(_OPERATOR, read_language)

    @override
    async def read_stats(self, namespace: str) -> Stats:
        return await self._read(namespace, lambda c: queries.read_stats(c, namespace))

    @override
    async def ping(self) -> None:
        await self._ping.run()

    @override
    async def read_page(
        self, after: tuple[str, str], limit: int
    ) -> list[StoredMemory | DamagedMemory]:
        return await self._read(_OPERATOR, lambda c: transfer.read_page(c, after, limit))

    @override
    async def count_memories(self) -> int:
        return await self._read(_OPERATOR, transfer.count_memories)

    @override
    async def import_batch(
        self, memories: Sequence[IncomingMemory], *, replace: bool = False, dry_run: bool = False
    ) -> list[Outcome | Exception]:
        options = BatchOptions(replace, dry_run, self._quota)
        if dry_run:
            return await self._read(_OPERATOR, lambda c: transfer.try_imports(c, memories, options))

        # One job per memory, because a savepoint costs as much as was written since it began.
        # Jobs that wait together share a commit all the same.
        waiting: list[Awaitable[Outcome]] = []
        for memory in memories:
            job = partial(transfer.import_memory, incoming=memory, options=options)
            waiting.append(self._writer.run(_OPERATOR, job))

        settled = await asyncio.gather(*waiting, return_exceptions=True)
        return list_outcomes(settled)

    @override
    async def set_mark(self, mark: Mark) -> None:
        await self._writer.run(_OPERATOR, lambda c: write_mark(c, mark))

    @override
    async def has_mark(self, mark: Mark) -> bool:
        # Not on the reader, which may be busy with a migration for minutes.
        return await asyncio.to_thread(read_mark, self._file.path, mark)

    @override
    async def check(self, progress: Callable[[int], None], *, full: bool) -> list[IntegrityFinding]:
        # On a thread and a connection of its own, so that reads go on.
        return await asyncio.to_thread(self._check, progress, full)

    def _check(self, progress: Callable[[int], None], full: bool) -> list[IntegrityFinding]:
        with closing(self.connect(writing=False)) as connection:
            connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
            connection.execute("PRAGMA temp_store = FILE")  # finding repeated versions sorts all
            connection.execute("BEGIN")
            version, *findings = check_store(connection, progress)
            findings = [version, *self._file.check_side_files(), *findings]

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
        self._file.interrupt()
        await self._ping.close()
        await self._reader.close()
        await self._writer.close()
        self._file.close()

    def connect(self, *, writing: bool) -> StoreConnection:
        """Return a connection to the file as the store's own threads use one. Raises Refused."""
        # Both threads may be the first to open the file, and it must be created only once.
        with self._opening:
            connection = self._file.open(writing=writing)

        # A damaged text need not be UTF-8: its hash reveals that, and its neighbors do not fail.
        # No lone surrogates: what no hash covers is shown, and bound to the next statement.
        connection.text_factory = partial(str, encoding="utf-8", errors="replace")
        if writing:
            prepare_link_writes(connection)
        connection.create_function("has_terms", -1, has_terms, deterministic=True)
        return connection

    async def _read(self, namespace: str, work: Work[Result]) -> Result:
        try:
            return await self._reader.run(namespace, work)
        except Refused as error:
            self._note_damage(error)
            raise translate_for_read(error) from error.__cause__

    def _write_batch(self, jobs: Jobs) -> Sequence[object] | Exception:
        """Run waiting writes in one transaction, each in a savepoint of its own."""
        results = attempt(lambda: self._run_in_transaction(jobs))
        self._note_damage(results)
        return results

    def _run_in_transaction(self, jobs: Jobs) -> list[object]:
        if self._damaged:
            raise Refused("corrupted")
        if self._writing is None:
            self._writing = self.connect(writing=True)

        connection = self._writing
        with self._file.lock():
            try:
                return self._commit(connection, jobs)
            except Exception as error:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                if isinstance(error, Refused) and error.reason == "storage_moved":
                    self._save_log(connection)
                raise

    def _commit(self, connection: StoreConnection, jobs: Jobs) -> list[object]:
        self._file.check_in_place(connection)
        connection.execute("BEGIN IMMEDIATE")
        check_version(connection)

        # First the accesses, which were counted by the keys from before the changes.
        self._write_accesses(connection)
        results = [run_in_savepoint(connection, job.work) for job in jobs]

        # A change to a file that was moved is not acknowledged, nor one whose log is gone since.
        self._file.check_in_place(connection)
        connection.execute("COMMIT")
        self._file.check_in_place(connection)
        return results

    def _save_log(self, connection: StoreConnection) -> None:
        # What cannot be saved now is tried again while the thread rests.
        with suppress(Refused, sqlite3.Error):
            self._file.save_log(connection)

    def _write_accesses(self, connection: sqlite3.Connection) -> None:
        # Taken out before they are written: if that fails, they are lost, which is best effort.
        with self._counting:
            accesses, self._accesses = self._accesses, {}

        for (namespace, key), access in accesses.items():
            writes.count_access(connection, namespace, key, access)

    def _rest(self) -> None:
        """Do what is due while no change waits: a second after the last one, and every second."""
        self._flush_accesses()
        if self._writing is not None:
            attempt(partial(self._tend_log, self._writing))

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

    def _note_damage(self, result: object) -> None:
        """Once damage was met, nothing is written any more."""
        if isinstance(result, Refused) and result.reason == "corrupted":
            self._damaged = True

    def _end_writing(self) -> None:
        self._flush_accesses()
        if self._writing is not None:
            self._close(self._writing)

    def _close(self, connection: StoreConnection) -> None:
        """Close under the lock, because the last connection to close writes the log back."""
        with suppress(Refused, OSError), self._file.lock():
            connection.close()
