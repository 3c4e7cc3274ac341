"""The store for those who outgrow one machine: a database that any number of processes share."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from typing_extensions import override

from abilities.declarations.faults import Refused
from abilities.declarations.memory import Direction
from abilities.helpers.search.recall import RecallRequest
from abilities.helpers.search.terms import Language
from abilities.helpers.stores import entries as history
from abilities.helpers.stores import past
from abilities.helpers.stores.changes import BatchOptions, Change, Outcome, list_outcomes
from abilities.helpers.stores.entries import StoreRules
from abilities.helpers.stores.history import DamagedEntry, Entry
from abilities.helpers.stores.model import DamagedMemory, IncomingMemory, StoredMemory
from abilities.helpers.stores.originals import RepairReport, name_originals
from abilities.helpers.stores.postgres import (
    changing,
    listing,
    queries,
    reads,
    recall,
    recall_index,
    transfer,
    walks,
)
from abilities.helpers.stores.postgres.calls import OPERATOR, Calls
from abilities.helpers.stores.postgres.marks import read_mark, write_mark
from abilities.helpers.stores.postgres.statements import Connection
from abilities.helpers.stores.postgres.transaction import bind
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
from abilities.helpers.stores.requests import check_change, check_names, check_query, check_values
from abilities.helpers.stores.timeline import (
    ChangePage,
    HistoryLimits,
    MemoryChange,
    MemoryHistory,
    MemoryName,
)
from abilities.helpers.walk import WalkLimits

Parameters = ParamSpec("Parameters")
ResultT = TypeVar("ResultT")

PING_SECONDS = 0.5
"""How long a ping waits for a connection that others use, before it makes one of its own."""


class PostgresStore(ServableStore):
    """A store in PostgreSQL. Connections are made when they are first needed.

    They belong to an event loop on a thread of the store's own, so that calls may come from any
    loop. ``max_memories`` is the most that one namespace may hold; None sets no limit.
    ``language`` is that of the recall index if the store is created or has none yet. ``history``
    says what the store keeps of what its changes replaced. Raises ValueError for a URL that libpq
    cannot read.
    """

    def __init__(
        self,
        url: str,
        *,
        max_memories: int | None = None,
        language: Language | None = None,
        history: HistoryLimits = HistoryLimits(),  # noqa: B008 - it is immutable
    ) -> None:
        self._rules = StoreRules(max_memories, history)
        self._calls = Calls(url, language or Language(), self._rules)

    @property
    @override
    def queue_size(self) -> int:
        return self._calls.queue_size

    @override
    async def prepare(self) -> None:
        await self._calls.prepare()

    @override
    async def change(self, namespace: str, change: Change) -> WriteResult:
        check_change(namespace, change)
        await self._flush_before([change])
        work = partial(
            changing.apply_change,
            namespace=namespace,
            change=change,
            rules=self._rules,
        )
        result = await self._calls.write_current(namespace, change.now, work)
        self._clean_after([change])
        return result

    @override
    async def change_many(
        self, namespace: str, changes: Sequence[Change], *, atomic: bool
    ) -> list[WriteResult | Exception]:
        for change in changes:
            check_change(namespace, change)
        if not changes:
            return []

        await self._flush_before(changes)
        work = partial(
            changing.apply_changes,
            namespace=namespace,
            changes=changes,
            rules=self._rules,
            atomic=atomic,
        )
        now = changes[0].now
        outcomes = await self._calls.write_current(namespace, now, work, size=len(changes))
        self._clean_after(changes)
        return outcomes

    async def _flush_before(self, changes: Sequence[Change]) -> None:
        # Accesses are counted by key, which a rename changes.
        if any(change.new_key is not None for change in changes):
            await self._calls.flush_accesses()

    def _clean_after(self, changes: Sequence[Change]) -> None:
        if any(change.kind == "purge" for change in changes):
            self._calls.clean_soon()

    @override
    async def list_memories(
        self, namespace: str, prefix: str, after: str, limit: int, *, archived: bool
    ) -> list[MemoryLine | DamagedMemory]:
        check_names(namespace, prefix, after)
        work = partial(listing.list_memories, archived=archived)
        return await self._read(namespace, work, namespace, prefix, after, limit)

    @override
    async def read(self, namespace: str, keys: Sequence[str]) -> list[StoredMemory | Exception]:
        check_names(namespace, *keys)
        return await self._read(namespace, reads.read, namespace, keys)

    @override
    async def read_linked(self, namespace: str, key: str, offset: int, limit: int) -> StoredMemory:
        check_names(namespace, key)
        return await self._read(namespace, reads.read_linked, namespace, key, offset, limit)

    @override
    async def read_backlinks(self, namespace: str, key: str, offset: int, limit: int) -> Backlinks:
        check_names(namespace, key)
        return await self._read(namespace, reads.read_backlinks, namespace, key, offset, limit)

    @override
    async def walk(
        self, namespace: str, key: str, limits: WalkLimits, direction: Direction = "out"
    ) -> WalkResult:
        check_names(namespace, key)
        return await self._read(namespace, walks.walk, namespace, key, limits, direction)

    @override
    async def read_language(self) -> Language:
        return await self._read(OPERATOR, recall_index.read_language)

    @override
    async def recall(
        self, namespace: str, request: RecallRequest, room: int, starts: Sequence[int]
    ) -> Recalled:
        check_names(namespace)
        return await self._read(namespace, recall.recall, namespace, request, room, starts)

    @override
    async def query(self, namespace: str, query: Query) -> MemoryPage:
        check_query(namespace, query)
        return await self._read(namespace, queries.run_query, namespace, query)

    @override
    async def read_stats(self, namespace: str) -> Stats:
        return await self._read(namespace, queries.read_stats, namespace)

    @override
    async def read_history(
        self, namespace: str, name: MemoryName, before: int | None, limit: int
    ) -> MemoryHistory:
        check_values(namespace, name, before)
        return await self._read(namespace, bind(past.read_history), namespace, name, before, limit)

    @override
    async def read_version(
        self, namespace: str, name: MemoryName, moment: int | str
    ) -> StoredMemory:
        check_values(namespace, name, moment)
        return await self._read(namespace, bind(past.read_version), namespace, name, moment)

    @override
    async def read_changes(self, namespace: str, since: int, limit: int) -> ChangePage:
        check_names(namespace)
        return await self._read(namespace, bind(past.read_changes), namespace, since, limit)

    @override
    async def read_latest_changes(
        self, namespace: str, before: int | None, limit: int
    ) -> list[MemoryChange]:
        check_names(namespace)
        return await self._read(namespace, bind(past.read_latest_changes), namespace, before, limit)

    @override
    async def compact(self, now: str) -> int:
        trimmed = 0
        for namespace in await self._read(OPERATOR, bind(history.list_namespaces)):
            work = partial(
                bind(history.trim),
                namespace=namespace,
                limits=self._rules.history,
                now=now,
            )
            while portion := await self._calls.write(namespace, work, is_patient=True):
                trimmed += portion

        return trimmed

    @override
    async def read_entries(
        self, after: tuple[str, str, int], limit: int
    ) -> list[Entry | DamagedEntry]:
        return await self._read(OPERATOR, transfer.read_entries, after, limit)

    @override
    async def import_entries(self, entries: Sequence[Entry]) -> int:
        imported = 0
        for owner, group in history.group_entries(entries).items():
            limits = self._rules.history
            work = partial(bind(history.import_entries), entries=group, limits=limits)
            imported += await self._calls.write(owner.namespace, work, is_patient=True)

        return imported

    @override
    async def ping(self) -> None:
        try:
            await self._calls.read_within(PING_SECONDS, OPERATOR, _find_nothing)
        except Refused as refused:
            if refused.reason != "timeout":
                raise
            await self._calls.probe()

    @override
    async def read_page(
        self, after: tuple[str, str], limit: int
    ) -> list[StoredMemory | DamagedMemory]:
        return await self._read(OPERATOR, transfer.read_page, after, limit)

    @override
    async def count_memories(self) -> int:
        return await self._read(OPERATOR, transfer.count_memories)

    @override
    async def import_batch(
        self, memories: Sequence[IncomingMemory], *, replace: bool = False, dry_run: bool = False
    ) -> list[Outcome | Exception]:
        options = BatchOptions(replace, dry_run, self._rules.quota)
        imports = [self._import_memory(memory, options) for memory in memories]

        # All together, so that memories of one namespace share transactions.
        settled = await asyncio.gather(*imports, return_exceptions=True)
        return list_outcomes(settled)

    async def _import_memory(self, memory: IncomingMemory, options: BatchOptions) -> Outcome:
        limits = self._rules.history
        if options.dry_run:
            work = partial(transfer.import_memory, limits=limits)
            return await self._read(OPERATOR, work, memory, options)

        namespace = memory.stored.row.namespace
        job = partial(transfer.import_memory, incoming=memory, options=options, limits=limits)
        # Many are queued together, and the last ones may wait for long.
        return await self._calls.write(namespace, job, is_patient=True)

    @override
    async def set_mark(self, mark: Mark) -> None:
        await self._calls.write(OPERATOR, partial(write_mark, mark=mark))

    @override
    async def has_mark(self, mark: Mark) -> bool:
        return await self._read(OPERATOR, read_mark, mark)

    @override
    async def check(self, progress: Callable[[int], None], *, full: bool) -> list[IntegrityFinding]:
        """Check every memory and link, in one snapshot.

        ``full`` changes nothing: the inside of an index is PostgreSQL's own to check (pg_amcheck).
        """
        await self.prepare()

        return await self._calls.check(progress)

    async def repair(
        self, originals: Path | None, progress: Callable[[int], None], *, dry_run: bool
    ) -> RepairReport:
        """Mend the store while it is in use, one namespace at a time; leave a sound one alone.

        ``originals`` is a new file for the damaged rows as they stood; without it, one in the
        current folder is made. A dry run changes nothing. Raises FileExistsError, OSError, Refused.
        """
        await self.prepare()

        path = originals or name_originals(Path("memories"))
        return await self._calls.repair(path, progress, dry_run=dry_run)

    @override
    def count_access(self, namespace: str, key: str, now: str) -> None:
        self._calls.count_access(namespace, key, now)

    @override
    async def close(self) -> None:
        await self._calls.close()

    async def _read(
        self,
        whose: str,
        function: Callable[Concatenate[Connection, Parameters], Awaitable[ResultT]],
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> ResultT:
        return await self._calls.read(whose, function, *args, **kwargs)


async def _find_nothing(connection: Connection) -> None:
    """Let the transaction of a read begin and end."""
