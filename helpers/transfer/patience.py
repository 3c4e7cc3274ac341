"""Patience: long work continues after a store was unavailable for a while."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from abilities.declarations.refusals import Refused
from abilities.helpers.store.changes import is_passing

Result = TypeVar("Result")

PATIENCE_SECONDS = 120.0
"""How long work waits for a store without any progress.

A closed lid, a stopped process or the choice of a new leader takes less than a minute.
"""

PAUSE_SECONDS = 0.2

_log = logging.getLogger("abilities.store")


class Patience:
    """Retries work that a store refuses, until it succeeds or failed for `PATIENCE_SECONDS`.

    The work must change nothing if it is done twice, because a store may lose the connection after
    it has committed a change.
    """

    def __init__(self) -> None:
        self._gives_up_at: float | None = None

    async def call(self, work: Callable[[], Awaitable[Result]]) -> Result:
        """Return the result of work. Raises its error, unless that passes in time."""
        while True:
            try:
                result = await work()
            except Refused as refused:
                await self.wait(refused)
            else:
                self.succeed()
                return result

    async def wait(self, refused: Refused) -> None:
        """Wait a moment before the next attempt. Raises the refusal if it is time to give up."""
        if not is_passing(refused):
            raise refused

        now = time.monotonic()
        if self._gives_up_at is None:
            self._gives_up_at = now + PATIENCE_SECONDS
            _log.warning("Waiting for the store, up to %.0f seconds.", PATIENCE_SECONDS)
        if now >= self._gives_up_at:
            raise refused

        await asyncio.sleep(PAUSE_SECONDS)

    def succeed(self) -> None:
        """Note that the store answered."""
        self._gives_up_at = None
