"""The embedded store: one SQLite file, with a writer thread and reader threads.

The writer commits all waiting changes together.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypeVar

from typing_extensions import override

from abilities.declarations.refusals import Refused
from abilities.helpers.store.changing import has_due
from abilities.helpers.store.engine import OPERATOR, Engine, MemoriesDue, Work, read_mark
from abilities.helpers.store.history import HistoryLimits
from abilities.helpers.store.past import StoreRules
from abilities.helpers.store.protocol import IntegrityFinding, Mark
from abilities.helpers.store.sqlite.backup import check_search_index, check_store
from abilities.helpers.store.sqlite.errors import STORE_ERRORS, translate_error, translate_for_read
from abilities.helpers.store.sqlite.file import StoreFile, connect_to_file, has_traces
from abilities.helpers.store.sqlite.log import StoreConnection
from abilities.helpers.store.sqlite.schema import read_version
from abilities.helpers.store.sqlite.search import begin_merging, go_on_merging
from abilities.helpers.store.sqlite.threads import StoreReader, StoreWriter, connect
from abilities.helpers.store.sqlite.transaction import run
from abilities.helpers.store.store import SqlStore

ResultT = TypeVar("ResultT")

DEFAULT_LIMITS = HistoryLimits()

_log = logging.getLogger("abilities.store")


class SqliteEngine(Engine):
    """The engine of a store in one file, which is opened or created when it is first needed.

    ``language`` is for the recall index of a new store.
    """

    def __init__(self, path: Path, language: str) -> None:
        self.file = StoreFile(path, language)
        self.reader = StoreReader(self.file)
        self.writer = StoreWriter(self.file)

    @property
    @override
    def queue_size(self) -> int:
        return self.reader.queue_size + self.writer.queue_size

    @override
    async def prepare(self) -> None:
        await self.reader.prepare()

    @override
    async def read(
        self,
        whose: str,
        work: Work[ResultT],
        seconds: float,
        *,
        now: str | None = None,
    ) -> ResultT:
        def find(connection: StoreConnection) -> ResultT:
            if now is not None and run(connection, has_due, whose, now):
                raise MemoriesDue
            return run(connection, work)

        try:
            return await self.reader.run(whose, find, seconds)
        except Refused as error:
            self.writer.note_damage(error)
            raise translate_for_read(error) from error.__cause__

    @override
    async def write(
        self, namespace: str, work: Work[ResultT], *, size: int = 1, is_patient: bool = False
    ) -> ResultT:
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
        return self.reader.is_open or await self.reader.exists()

    @override
    async def ping(self) -> None:
        try:
            await self.reader.ping()
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
        await self.reader.close()
        await self.writer.close()
        self.file.close()


class SqliteStore(SqlStore):
    """A store in one file, which is opened or created when it is first needed.

    ``max_memories`` limits the memories in each namespace; None sets no limit. ``language`` is for
    the recall index of a new store. ``history`` limits how long earlier versions are kept.
    """

    def __init__(
        self,
        path: Path,
        *,
        max_memories: int | None = None,
        language: str = "english",
        history: HistoryLimits = DEFAULT_LIMITS,
    ) -> None:
        self.engine = SqliteEngine(path, language)
        super().__init__(self.engine, StoreRules(max_memories, history))
