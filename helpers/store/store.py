"""`SqlStore`: all methods of a `ServableStore`, over the transactions of an engine."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from typing_extensions import override

from abilities.declarations.refusals import Refused
from abilities.declarations.values import utc_now
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
)
from abilities.helpers.store.changes import Change, Outcome, list_outcomes
from abilities.helpers.store.changing import BatchUndone
from abilities.helpers.store.engine import (
    OPERATOR,
    READ_SECONDS,
    Engine,
    MemoriesDue,
    Transaction,
    Work,
    write_mark,
)
from abilities.helpers.store.history import Entry
from abilities.helpers.store.model import IncomingMemory, StoredMemory, check_names
from abilities.helpers.store.past import StoreRules
from abilities.helpers.store.protocol import (
    IntegrityFinding,
    Mark,
    ServableStore,
    WriteResult,
)
from abilities.helpers.store.reads import DueMemory

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


def _reading(
    function: Callable[Concatenate[Transaction, Parameters], Coroutine[Any, Any, ResultT]],
    whose: str | None = None,
) -> Callable[Concatenate[Any, Parameters], Coroutine[Any, Any, ResultT]]:
    """Return the method that calls a function with a snapshot.

    It waits in the queue of ``whose``, by default that of the namespace, the first argument.
    """

    async def read(
        self: "SqlStore", /, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> ResultT:
        namespace = whose
        if namespace is None:
            namespace = cast(str, args[0] if args else kwargs["namespace"])
        return await self.read_snapshot(namespace, function, *args, **kwargs)

    return read


class _Reads:
    """The methods that only read, as attributes, which a class of a protocol may only inherit."""

    list_memories = _reading(reads.list_memories)
    read = _reading(reads.read)
    read_linked = _reading(reads.read_linked)
    read_backlinks = _reading(reads.read_backlinks)
    read_stats = _reading(queries.read_stats)
    query = _reading(queries.run_query)
    walk = _reading(reads.walk)
    recall = _reading(recalling.recall)
    find_alike = _reading(recalling.find_alike)
    read_history = _reading(past.read_history)
    read_version = _reading(past.read_version)
    read_changes = _reading(past.read_changes)
    read_latest_changes = _reading(past.read_latest_changes)
    read_page = _reading(moving.read_page, OPERATOR)
    read_entries = _reading(moving.read_entries, OPERATOR)
    count_memories = _reading(moving.count_memories, OPERATOR)


class SqlStore(_Reads, ServableStore):
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
        work = partial(changing.apply_change, namespace=namespace, change=change, rules=self._rules)
        return await self._change(namespace, [change], work)

    @override
    async def change_many(
        self, namespace: str, changes: Sequence[Change], *, atomic: bool
    ) -> list[WriteResult | Exception]:
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
        self, namespace: str, changes: Sequence[Change], work: Work[ResultT]
    ) -> ResultT:
        check_names(namespace)
        is_purge = any(change.kind == "purge" for change in changes)

        async def make() -> ResultT:
            result = await self._engine.write(namespace, work, size=len(changes))
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
        expire = partial(changing.expire_memories, namespace=namespace, now=now, rules=self._rules)
        after: DueMemory | None = reads.FIRST_DUE
        while after is not None:
            after = await self._engine.write(namespace, partial(expire, after=after))

    async def read_snapshot(
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
        check_names(whose)

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
    async def read_language(self) -> Language:
        if self._language is None:  # it never changes
            self._language = await self.read_snapshot(OPERATOR, recall_index.read_language)

        return self._language

    @override
    async def find_about(
        self, namespace: str, paths: Sequence[str]
    ) -> dict[str, list[StoredMemory]]:
        began_at, changes = time.monotonic(), self._changes
        if began_at < max(self._no_about_until, self._idle.get(namespace, 0)):
            return {}

        check_names(namespace, *paths)
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
    async def ping(self) -> None:
        await self._engine.ping()

    @override
    async def import_batch(
        self, memories: Sequence[IncomingMemory], *, replace: bool = False, dry_run: bool = False
    ) -> list[Outcome | Exception]:
        rules = self._rules
        if dry_run:
            work = partial(moving.try_imports, memories=memories, rules=rules, replace=replace)
            return await self.read_snapshot(OPERATOR, work)

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
    async def compact(self, now: str) -> int:
        deleted = 0
        for namespace in await self.read_snapshot(OPERATOR, past.list_namespaces):
            work = partial(past.trim, namespace=namespace, limits=self._rules.history, now=now)
            number = past.MOST_TRIMMED
            while number == past.MOST_TRIMMED:
                number = await self._engine.write(namespace, work, is_patient=True)
                deleted += number

        return deleted

    @override
    async def import_entries(self, entries: Sequence[Entry]) -> int:
        by_memory: dict[tuple[str, str], list[Entry]] = {}
        for entry in entries:
            by_memory.setdefault((entry.namespace, entry.id), []).append(entry)

        stored = 0
        for (namespace, _), group in by_memory.items():
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
