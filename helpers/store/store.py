"""`SqlStore`: all methods of a `ServableStore`, over the transactions of an engine."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import astuple
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

from typing_extensions import override

from abilities.declarations.memory import Direction
from abilities.declarations.refusals import Refused
from abilities.declarations.values import utc_now
from abilities.helpers.search.recall import RecallRequest
from abilities.helpers.search.terms import Language
from abilities.helpers.store import (
    about,
    changing,
    moving,
    past,
    queries,
    reads,
    recall_index,
    recalling,
    walking,
)
from abilities.helpers.store.changes import (
    Change,
    Outcome,
    check_names,
    check_values,
    list_outcomes,
)
from abilities.helpers.store.changing import BatchUndone, DueMemory
from abilities.helpers.store.engine import (
    OPERATOR,
    READ_SECONDS,
    Engine,
    MemoriesDue,
    write_mark,
)
from abilities.helpers.store.history import (
    ChangePage,
    DamagedEntry,
    Entry,
    MemoryChange,
    MemoryHistory,
    MemoryName,
)
from abilities.helpers.store.model import DamagedMemory, IncomingMemory, StoredMemory
from abilities.helpers.store.past import StoreRules
from abilities.helpers.store.protocol import (
    Backlinks,
    IntegrityFinding,
    Mark,
    Recalled,
    ServableStore,
    Stats,
    WalkResult,
    WriteResult,
)
from abilities.helpers.store.query import MemoryLine, MemoryPage, Query
from abilities.helpers.store.transaction import Transaction
from abilities.helpers.walk import WalkLimits

_log = logging.getLogger("abilities")

Parameters = ParamSpec("Parameters")
ResultT = TypeVar("ResultT")

PAUSE_SECONDS = 10.0
"""How long reads skip what they can do without, such as archiving, after it failed."""

ABOUT_SECONDS = 0.5
"""The longest wait for memories about files, because the files are read without them too."""

IDLE_SECONDS = 0.2
"""How late the first memory about a file may show that another process stored."""

MOST_IDLE = 1_000
"""Namespaces that are known to have no memories about files."""


class SqlStore(ServableStore):
    """A store over any engine. It is opened when first used."""

    def __init__(self, engine: Engine, rules: StoreRules) -> None:
        self._engine = engine
        self._rules = rules
        self._no_expiry_until = 0.0
        self._language: Language | None = None
        self._no_about_until = 0.0
        self._idle: dict[str, float] = {}
        """Until when namespaces count as without memories about files, unless this store changes.

        A call of many small files would take a fifth longer if each asked the database.
        """
        self._changes = 0

    @property
    @override
    def queue_size(self) -> int:
        return self._engine.queue_size

    @override
    async def prepare(self) -> None:
        await self._engine.prepare()

    @override
    async def change(self, namespace: str, change: Change) -> WriteResult:
        check_names(namespace)
        work = partial(changing.apply_change, namespace=namespace, change=change, rules=self._rules)
        return await self._change(namespace, [change], work)

    @override
    async def change_many(
        self, namespace: str, changes: Sequence[Change], *, atomic: bool
    ) -> list[WriteResult | Exception]:
        check_names(namespace)
        if not changes:
            return []

        work = partial(
            changing.apply_changes,
            namespace=namespace,
            changes=changes,
            rules=self._rules,
            atomic=atomic,
        )
        try:
            return await self._change(namespace, changes, work)
        except BatchUndone as undone:
            return undone.outcomes

    async def _change(
        self,
        namespace: str,
        changes: Sequence[Change],
        work: Callable[..., Coroutine[Any, Any, ResultT]],
    ) -> ResultT:
        """Make changes, and archive expired memories first.

        ``work`` must take the keyword argument ``ignore_due``.
        """
        write = partial(self._engine.write, namespace, size=len(changes))
        is_purge = any(change.kind == "purge" for change in changes)

        async def make() -> ResultT:
            try:
                result = await write(work)
            except MemoriesDue:
                await self._expire(namespace, changes[0].now)
                result = await write(partial(work, ignore_due=True))
            self._note_change()
            if is_purge:
                await self._engine.clean()
            return result

        # Accesses are counted by key, so those of a former key are written before a rename.
        if any(change.new_key is not None for change in changes):
            await self._engine.flush_accesses()
        if is_purge:  # a cancelled caller must not keep the engine from cleaning
            return await asyncio.shield(asyncio.create_task(make()))

        return await make()

    async def _expire(self, namespace: str, now: str) -> None:
        """Archive the memories that expired by ``now``, a limited number per transaction."""
        after: DueMemory | None = changing.FIRST_DUE
        while after is not None:
            work = partial(
                changing.expire_memories,
                namespace=namespace,
                now=now,
                after=after,
                rules=self._rules,
            )
            after = await self._engine.write(namespace, work)

    async def _read(
        self,
        whose: str,
        function: Callable[Concatenate[Transaction, Parameters], Coroutine[Any, Any, ResultT]],
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> ResultT:
        """Call a function with a snapshot, in the queue of a namespace; return its result.

        Expired memories of the namespace are archived first. If that fails, or takes more than half
        of the remaining time, the read continues without it.
        """

        def work(transaction: Transaction) -> Coroutine[Any, Any, ResultT]:
            return function(transaction, *args, **kwargs)

        if whose == OPERATOR or time.monotonic() < self._no_expiry_until:
            return await self._engine.read(whose, work, READ_SECONDS)

        end = time.monotonic() + READ_SECONDS
        now = utc_now()
        with suppress(MemoriesDue):
            return await self._engine.read(whose, work, READ_SECONDS, now=now)

        try:
            async with asyncio.timeout((end - time.monotonic()) / 2):
                await self._expire(whose, now)
        except (Refused, TimeoutError):
            self._no_expiry_until = time.monotonic() + PAUSE_SECONDS

        return await self._engine.read(whose, work, end - time.monotonic())

    @override
    async def list_memories(
        self, namespace: str, prefix: str, after: str, limit: int, *, archived: bool
    ) -> list[MemoryLine | DamagedMemory]:
        check_names(namespace, prefix, after)
        work = partial(reads.list_memories, archived=archived)
        return await self._read(namespace, work, namespace, prefix, after, limit)

    @override
    async def read(
        self, namespace: str, keys: Sequence[str], *, dated: bool = False
    ) -> list[StoredMemory | Exception]:
        check_names(namespace, *keys)
        work = reads.read_dated if dated else reads.read
        return await self._read(namespace, work, namespace, keys)

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
        return await self._read(namespace, walking.walk, namespace, key, limits, direction)

    @override
    async def read_language(self) -> Language:
        if self._language is None:  # it never changes
            self._language = await self._read(OPERATOR, recall_index.read_language)

        return self._language

    @override
    async def recall(
        self, namespace: str, request: RecallRequest, room: int, starts: Sequence[int]
    ) -> Recalled:
        check_names(namespace)
        return await self._read(namespace, recalling.recall, namespace, request, room, starts)

    @override
    async def find_about(
        self, namespace: str, paths: Sequence[str]
    ) -> dict[str, list[StoredMemory]]:
        check_names(namespace, *paths)
        began_at, changes = time.monotonic(), self._changes
        if began_at < max(self._no_about_until, self._idle.get(namespace, 0)):
            return {}

        work = partial(about.find_about, namespace=namespace, paths=paths, now=utc_now())
        found: dict[str, list[StoredMemory]] | None = None
        try:
            async with asyncio.timeout(ABOUT_SECONDS):
                if await self._engine.exists():
                    found = await self._engine.read(namespace, work, ABOUT_SECONDS)
        except (Refused, TimeoutError) as error:
            _log.warning("files are read without their memories for a while: %r", error)
            self._no_about_until = began_at + PAUSE_SECONDS

        if found is None and changes == self._changes:
            if len(self._idle) >= MOST_IDLE:
                self._idle.clear()
            self._idle[namespace] = began_at + IDLE_SECONDS

        return found or {}

    def _note_change(self) -> None:
        self._changes += 1
        self._idle.clear()

    @override
    async def query(self, namespace: str, query: Query) -> MemoryPage:
        check_names(namespace)
        check_values(astuple(query))
        return await self._read(namespace, queries.run_query, namespace, query)

    @override
    async def read_stats(self, namespace: str) -> Stats:
        check_names(namespace)
        return await self._read(namespace, queries.read_stats, namespace)

    @override
    async def ping(self) -> None:
        await self._engine.ping()

    @override
    async def read_page(
        self, after: tuple[str, str], limit: int
    ) -> list[StoredMemory | DamagedMemory]:
        return await self._read(OPERATOR, moving.read_page, after, limit)

    @override
    async def count_memories(self) -> int:
        return await self._read(OPERATOR, moving.count_memories)

    @override
    async def import_batch(
        self, memories: Sequence[IncomingMemory], *, replace: bool = False, dry_run: bool = False
    ) -> list[Outcome | Exception]:
        rules = self._rules
        if dry_run:
            work = partial(moving.try_imports, memories=memories, rules=rules, replace=replace)
            return await self._read(OPERATOR, work)

        # One write per memory, because the cost of a savepoint grows with the writes in it.
        # The engine still runs waiting writes together in one transaction.
        waiting: list[Awaitable[Outcome]] = []
        for memory in memories:
            store = partial(moving.import_memory, incoming=memory, rules=rules, replace=replace)
            namespace = memory.stored.row.namespace
            waiting.append(self._engine.write(namespace, store, is_patient=True))

        settled = await asyncio.gather(*waiting, return_exceptions=True)
        self._note_change()
        return list_outcomes(settled)

    @override
    async def read_history(
        self, namespace: str, name: MemoryName, before: int | None, limit: int
    ) -> MemoryHistory:
        check_values(namespace, name, before)
        return await self._read(namespace, past.read_history, namespace, name, before, limit)

    @override
    async def read_version(
        self, namespace: str, name: MemoryName, moment: int | str
    ) -> StoredMemory:
        check_values(namespace, name, moment)
        return await self._read(namespace, past.read_version, namespace, name, moment)

    @override
    async def read_changes(self, namespace: str, since: int, limit: int) -> ChangePage:
        check_names(namespace)
        return await self._read(namespace, past.read_changes, namespace, since, limit)

    @override
    async def read_latest_changes(
        self, namespace: str, before: int | None, limit: int
    ) -> list[MemoryChange]:
        check_names(namespace)
        return await self._read(namespace, past.read_latest_changes, namespace, before, limit)

    @override
    async def compact(self, now: str) -> int:
        deleted = 0
        for namespace in await self._read(OPERATOR, past.list_namespaces):
            work = partial(past.trim, namespace=namespace, limits=self._rules.history, now=now)
            number = past.MOST_TRIMMED
            while number == past.MOST_TRIMMED:
                number = await self._engine.write(namespace, work, is_patient=True)
                deleted += number

        return deleted

    @override
    async def read_entries(
        self, after: tuple[str, str, int], limit: int
    ) -> list[Entry | DamagedEntry]:
        return await self._read(OPERATOR, moving.read_entries, after, limit)

    @override
    async def import_entries(self, entries: Sequence[Entry]) -> int:
        stored = 0
        for (namespace, _), group in past.group_entries(entries).items():
            work = partial(past.import_entries, entries=group, limits=self._rules.history)
            stored += await self._engine.write(namespace, work, is_patient=True)

        return stored

    @override
    async def set_mark(self, mark: Mark) -> None:
        await self._engine.write(OPERATOR, partial(write_mark, mark=mark))

    @override
    async def has_mark(self, mark: Mark) -> bool:
        return await self._engine.has_mark(mark)

    @override
    async def check(self, progress: Callable[[int], None], *, full: bool) -> list[IntegrityFinding]:
        return await self._engine.check(progress, full=full)

    @override
    def count_access(self, namespace: str, key: str, now: str) -> None:
        self._engine.count_access(namespace, key, now)

    @override
    async def close(self) -> None:
        await self._engine.close()
