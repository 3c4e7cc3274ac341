"""Whether an SQLite store can be read, told soon even if its reads are slow."""

import asyncio
from collections.abc import Callable

from abilities.declarations.faults import Refused
from abilities.declarations.reasons import Reason
from abilities.helpers.stores.sqlite.errors import attempt, translate_for_read
from abilities.helpers.stores.sqlite.log import StoreConnection
from abilities.helpers.stores.sqlite.schema import check_version
from abilities.helpers.stores.sqlite.thread import BatchingThread, JobBatch

PING_SECONDS = 1.0
"""How long a ping waits for the store."""


class StorePing:
    """Tells whether a store can be read, on a thread and a connection of its own."""

    def __init__(
        self,
        connect: Callable[[], StoreConnection],
        check_in_place: Callable[[StoreConnection], None],
        close: Callable[[StoreConnection], None],
    ) -> None:
        self._connect = connect
        self._check_in_place = check_in_place
        self._close = close
        self._connection: StoreConnection | None = None
        self._thread = BatchingThread[None](
            "abilities-store-ping", self._answer, lambda: None, self._end
        )

    async def run(self) -> None:
        """Raise Refused if the store cannot be read: busy while it is opened, and others.

        It is a timeout if there is no answer within `PING_SECONDS`.
        """
        try:
            async with asyncio.timeout(PING_SECONDS):
                await self._thread.run("", lambda _: None, is_patient=True)
        except Refused as refused:
            raise translate_for_read(refused) from refused.__cause__
        except TimeoutError:
            reason: Reason = "timeout"
            if self._connection is None:
                reason = "busy"  # opening takes minutes if the store is migrated
            raise Refused(reason) from None

    async def close(self) -> None:
        """Answer the pings that wait, then end the thread."""
        await self._thread.close()

    def _answer(self, pings: JobBatch[None]) -> list[object]:
        """Look at the store once for all pings that wait."""
        answer = attempt(self._look)
        return [answer for _ in pings]

    def _look(self) -> None:
        if self._connection is None:
            self._connection = self._connect()

        self._check_in_place(self._connection)
        check_version(self._connection)

    def _end(self) -> None:
        if self._connection is not None:
            self._close(self._connection)
