"""How an SQLite store is read and written: its file, and the threads with their connections."""

import asyncio
import logging
import threading
from contextlib import suppress
from functools import partial
from typing import TypeVar

from abilities.declarations.faults import Refused
from abilities.declarations.values import utc_now
from abilities.helpers.stores.entries import StoreRules
from abilities.helpers.stores.sqlite.changing import expire_due
from abilities.helpers.stores.sqlite.damaged_texts import replace_damage
from abilities.helpers.stores.sqlite.errors import translate_for_read
from abilities.helpers.stores.sqlite.expiry import (
    FIRST_DUE,
    DueMemory,
    MemoriesDue,
    read_without_due,
)
from abilities.helpers.stores.sqlite.file import StoreFile
from abilities.helpers.stores.sqlite.links import prepare_link_writes
from abilities.helpers.stores.sqlite.log import StoreConnection
from abilities.helpers.stores.sqlite.ping import StorePing
from abilities.helpers.stores.sqlite.purging import begin_merging, go_on_merging
from abilities.helpers.stores.sqlite.reader import StoreReader, Work
from abilities.helpers.stores.sqlite.search import has_terms
from abilities.helpers.stores.sqlite.writer import StoreWriter

Result = TypeVar("Result")

_log = logging.getLogger("abilities.store")

OPERATOR = ""
"""Whose turn it is with work on all namespaces, such as imports. No namespace has that name."""


class StoreAccess:
    """Reads and writes a store on its threads."""

    def __init__(self, file: StoreFile, rules: StoreRules) -> None:
        self.file = file
        self._rules = rules
        self._opening = threading.Lock()

        # One connection per thread, opened and used by it alone.
        connect = partial(self.connect, writing=False)
        self._reader = StoreReader(connect, file.check_in_place, self._close)
        self._ping = StorePing(connect, file.check_in_place, self._close)
        self.writer = StoreWriter(file, partial(self.connect, writing=True), self._close)

    @property
    def queue_size(self) -> int:
        """How many reads and writes are queued."""
        return self._reader.queue_size + self.writer.queue_size

    async def prepare(self) -> None:
        """Open the store, however long that takes. Raises Refused."""
        await self._reader.prepare()

    async def ping(self) -> None:
        """Raise Refused if the store does not answer."""
        await self._ping.run()

    async def close(self) -> None:
        """Finish what has begun, and close all."""
        self.file.interrupt()
        await self._ping.close()
        await self._reader.close()
        await self.writer.close()
        self.file.close()

    def connect(self, *, writing: bool) -> StoreConnection:
        """Return a connection to the file as the store's own threads use one. Raises Refused."""
        # Both threads may be the first to open the file, and it must be created only once.
        with self._opening:
            connection = self.file.open(writing=writing)

        if writing:
            connection.text_factory = replace_damage
            prepare_link_writes(connection)
        connection.create_function("has_terms", -1, has_terms, deterministic=True)
        return connection

    async def read(self, namespace: str, work: Work[Result]) -> Result:
        """Read what a namespace has, after memories that have expired were archived."""
        now = utc_now()
        guarded = work
        if namespace != OPERATOR:
            guarded = partial(read_without_due, namespace=namespace, now=now, work=work)

        try:
            try:
                return await self._reader.run(namespace, guarded)
            except MemoriesDue:
                await self._expire(namespace, now)
            return await self._reader.run(namespace, work)
        except Refused as error:
            self.writer.note_damage(error)
            raise translate_for_read(error) from error.__cause__

    async def _expire(self, namespace: str, now: str) -> None:
        """Archive what has expired, as far as the store can be written."""
        after: DueMemory | None = FIRST_DUE
        with suppress(Refused):
            while after is not None:
                job = partial(
                    expire_due, namespace=namespace, now=now, rules=self._rules, after=after
                )
                after = await self.writer.run(namespace, job)

    async def write(self, namespace: str, job: Work[Result], *, is_purge: bool) -> Result:
        """Do a write of a namespace. Of what it purges, nothing is left in the file afterwards."""
        if not is_purge:
            return await self.writer.run(namespace, job)

        # It is finished even if the caller is cancelled.
        return await asyncio.shield(asyncio.create_task(self._purge(namespace, job)))

    async def _purge(self, namespace: str, job: Work[Result]) -> Result:
        """Do a write, and remove from the file what it removed from the store."""
        result = await self.writer.run(namespace, job)

        try:
            await self._remove_words()
        except Refused as error:
            _log.warning(
                "Words of purged memories remain in the search index until the next purge: %s",
                error.reason,
            )
        return result

    async def _remove_words(self) -> None:
        """Remove what is left of deleted memories in the search index and in the log."""
        await self.writer.run(OPERATOR, begin_merging, is_patient=True)

        # In several transactions, so that other writes need not wait for all of it.
        is_unfinished = True
        while is_unfinished:
            is_unfinished = await self.writer.run(OPERATOR, go_on_merging, is_patient=True)

        await self.writer.run(OPERATOR, self.writer.cut_log_after, is_patient=True)

    def _close(self, connection: StoreConnection) -> None:
        """Close under the lock, because the last connection to close writes the log back."""
        with suppress(Refused, OSError), self.file.lock():
            connection.close()
