"""The embedded store: one SQLite file, served by a writer thread and by reader threads.

The writer commits all waiting changes together; a reader serves all waiting reads from one
snapshot.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypeVar

from typing_extensions import override

from abilities.declarations.memory import Direction
from abilities.helpers.search.recall import RecallRequest
from abilities.helpers.search.terms import Language
from abilities.helpers.stores import entries as history
from abilities.helpers.stores import past
from abilities.helpers.stores.changes import BatchOptions, Change, Outcome, list_outcomes
from abilities.helpers.stores.entries import StoreRules
from abilities.helpers.stores.history import DamagedEntry, Entry
from abilities.helpers.stores.model import DamagedMemory, IncomingMemory, StoredMemory
from abilities.helpers.stores.protocol import (
    Backlinks,
    IntegrityFinding,
    Mark,
    Recalled,
    ServableStore,
    Stats,
    WalkResult,
    WriteResult,
)
from abilities.helpers.stores.query import MemoryLine, MemoryPage, Query
from abilities.helpers.stores.requests import check_change, check_names, check_query
from abilities.helpers.stores.sqlite import listing, queries, reads, recall, transfer, walks
from abilities.helpers.stores.sqlite.access import OPERATOR, StoreAccess
from abilities.helpers.stores.sqlite.batches import BatchUndone, apply_changes
from abilities.helpers.stores.sqlite.changing import apply_change
from abilities.helpers.stores.sqlite.file import StoreFile
from abilities.helpers.stores.sqlite.integrity import check_search_index, check_store
from abilities.helpers.stores.sqlite.marks import read_mark, write_mark
from abilities.helpers.stores.sqlite.recall_index import read_language
from abilities.helpers.stores.sqlite.transaction import run
from abilities.helpers.stores.timeline import (
    ChangePage,
    HistoryLimits,
    MemoryChange,
    MemoryHistory,
    MemoryName,
)
from abilities.helpers.walk import WalkLimits

Result = TypeVar("Result")

DEFAULT_LIMITS = HistoryLimits()


class SqliteStore(ServableStore):
    """A store in one file, which is opened when first needed, and created if there never was one.

    ``max_memories`` is the most that one namespace may hold; None sets no limit. ``language`` is
    that of the recall index, if the store has none yet. ``history`` says how long earlier versions
    are kept.
    """

    def __init__(
        self,
        path: Path,
        *,
        max_memories: int | None = None,
        language: str = "english",
        history: HistoryLimits = DEFAULT_LIMITS,
    ) -> None:
        rules = StoreRules(max_memories, history)
        self._rules = rules
        self.access = StoreAccess(StoreFile(path, language), rules)

    @property
    @override
    def queue_size(self) -> int:
        return self.access.queue_size

    @override
    async def prepare(self) -> None:
        await self.access.prepare()

    @override
    async def change(self, namespace: str, change: Change) -> WriteResult:
        check_change(namespace, change)
        job = partial(apply_change, namespace=namespace, change=change, rules=self._rules)
        return await self.access.write(namespace, job, is_purge=change.kind == "purge")

    @override
    async def change_many(
        self, namespace: str, changes: Sequence[Change], *, atomic: bool
    ) -> list[WriteResult | Exception]:
        check_names(namespace)
        job = partial(
            apply_changes, namespace=namespace, changes=changes, rules=self._rules, atomic=atomic
        )
        is_purge = any(change.kind == "purge" for change in changes)
        try:
            return await self.access.write(namespace, job, is_purge=is_purge)
        except BatchUndone as undone:
            return undone.list_outcomes(len(changes))

    @override
    async def list_memories(
        self, namespace: str, prefix: str, after: str, limit: int, *, archived: bool
    ) -> list[MemoryLine | DamagedMemory]:
        check_names(namespace, prefix, after)
        return await self.access.read(
            namespace,
            lambda c: listing.list_memories(c, namespace, prefix, after, limit, archived=archived),
        )

    @override
    async def read(self, namespace: str, keys: Sequence[str]) -> list[StoredMemory | Exception]:
        check_names(namespace, *keys)
        return await self.access.read(namespace, lambda c: reads.read(c, namespace, keys))

    @override
    async def read_linked(self, namespace: str, key: str, offset: int, limit: int) -> StoredMemory:
        check_names(namespace, key)
        return await self.access.read(
            namespace, lambda c: reads.read_linked(c, namespace, key, offset, limit)
        )

    @override
    async def read_backlinks(self, namespace: str, key: str, offset: int, limit: int) -> Backlinks:
        check_names(namespace, key)
        return await self.access.read(
            namespace, lambda c: reads.read_backlinks(c, namespace, key, offset, limit)
        )

    @override
    async def walk(
        self, namespace: str, key: str, limits: WalkLimits, direction: Direction = "out"
    ) -> WalkResult:
        check_names(namespace, key)
        return await self.access.read(
            namespace, lambda c: walks.walk(c, namespace, key, limits, direction)
        )

    @override
    async def query(self, namespace: str, query: Query) -> MemoryPage:
        check_query(namespace, query)
        return await self.access.read(namespace, lambda c: queries.run_query(c, namespace, query))

    @override
    async def recall(
        self, namespace: str, request: RecallRequest, room: int, starts: Sequence[int]
    ) -> Recalled:
        check_names(namespace)
        return await self.access.read(
            namespace, lambda c: recall.recall(c, namespace, request, room, starts)
        )

    @override
    async def read_language(self) -> Language:
        return await self.access.read(OPERATOR, read_language)

    @override
    async def read_stats(self, namespace: str) -> Stats:
        return await self.access.read(namespace, lambda c: queries.read_stats(c, namespace))

    @override
    async def ping(self) -> None:
        await self.access.ping()

    @override
    async def read_page(
        self, after: tuple[str, str], limit: int
    ) -> list[StoredMemory | DamagedMemory]:
        return await self.access.read(OPERATOR, lambda c: transfer.read_page(c, after, limit))

    @override
    async def count_memories(self) -> int:
        return await self.access.read(OPERATOR, transfer.count_memories)

    @override
    async def import_batch(
        self, memories: Sequence[IncomingMemory], *, replace: bool = False, dry_run: bool = False
    ) -> list[Outcome | Exception]:
        limits = self._rules.history
        options = BatchOptions(replace, dry_run, self._rules.quota)
        if dry_run:
            return await self.access.read(
                OPERATOR, lambda c: transfer.try_imports(c, memories, options, limits)
            )

        # One job per memory, because a savepoint costs as much as was written since it began.
        # Jobs that wait together share a commit all the same.
        waiting: list[Awaitable[Outcome]] = []
        for memory in memories:
            job = partial(transfer.import_memory, incoming=memory, options=options, limits=limits)
            waiting.append(self.access.writer.run(OPERATOR, job, is_patient=True))

        settled = await asyncio.gather(*waiting, return_exceptions=True)
        return list_outcomes(settled)

    @override
    async def read_history(
        self, namespace: str, name: MemoryName, before: int | None, limit: int
    ) -> MemoryHistory:
        check_names(namespace, *filter(None, name))
        return await self.access.read(
            namespace, lambda c: run(c, past.read_history, namespace, name, before, limit)
        )

    @override
    async def read_version(
        self, namespace: str, name: MemoryName, moment: int | str
    ) -> StoredMemory:
        check_names(namespace, *filter(None, name))
        return await self.access.read(
            namespace, lambda c: run(c, past.read_version, namespace, name, moment)
        )

    @override
    async def read_changes(self, namespace: str, since: int, limit: int) -> ChangePage:
        check_names(namespace)
        return await self.access.read(
            namespace, lambda c: run(c, past.read_changes, namespace, since, limit)
        )

    @override
    async def read_latest_changes(
        self, namespace: str, before: int | None, limit: int
    ) -> list[MemoryChange]:
        check_names(namespace)
        return await self.access.read(
            namespace, lambda c: run(c, past.read_latest_changes, namespace, before, limit)
        )

    @override
    async def compact(self, now: str) -> int:
        forgotten = 0
        for namespace in await self.access.read(
            OPERATOR, lambda c: run(c, history.list_namespaces)
        ):
            job = partial(
                run,
                function=history.trim,
                namespace=namespace,
                limits=self._rules.history,
                now=now,
            )
            is_unfinished = True
            while is_unfinished:
                number = await self.access.writer.run(OPERATOR, job, is_patient=True)
                forgotten += number
                is_unfinished = number == history.MOST_TRIMMED

        return forgotten

    @override
    async def read_entries(
        self, after: tuple[str, str, int], limit: int
    ) -> list[Entry | DamagedEntry]:
        return await self.access.read(OPERATOR, lambda c: transfer.read_entries(c, after, limit))

    @override
    async def import_entries(self, entries: Sequence[Entry]) -> int:
        stored = 0
        for group in history.group_entries(entries).values():
            job = partial(
                run,
                function=history.import_entries,
                entries=group,
                limits=self._rules.history,
            )
            stored += await self.access.writer.run(OPERATOR, job, is_patient=True)

        return stored

    @override
    async def set_mark(self, mark: Mark) -> None:
        await self.access.writer.run(OPERATOR, lambda c: write_mark(c, mark))

    @override
    async def has_mark(self, mark: Mark) -> bool:
        # Not on the reader, which may be busy with a migration for minutes.
        return await asyncio.to_thread(read_mark, self.access.file.path, mark)

    @override
    async def check(self, progress: Callable[[int], None], *, full: bool) -> list[IntegrityFinding]:
        # On a thread and a connection of its own, so that reads go on.
        return await asyncio.to_thread(self._check, progress, full)

    def _check(self, progress: Callable[[int], None], full: bool) -> list[IntegrityFinding]:
        with closing(self.access.connect(writing=False)) as connection:
            connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
            connection.execute("PRAGMA temp_store = FILE")  # finding repeated versions sorts all
            connection.execute("BEGIN")
            version, *findings = check_store(connection, progress)
            findings = [version, *self.access.file.check_side_files(), *findings]

        if full:
            with (
                self.access.file.lock(),
                closing(self.access.connect(writing=True)) as connection,
            ):
                findings.append(check_search_index(connection))

        return findings

    @override
    def count_access(self, namespace: str, key: str, now: str) -> None:
        self.access.writer.count_access(namespace, key, now)

    @override
    async def close(self) -> None:
        await self.access.close()
