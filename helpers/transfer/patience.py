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


async def call_patiently(work: Callable[[], Awaitable[Result]]) -> Result:
    """Do work again while a store refuses it, until it succeeds or failed for `PATIENCE_SECONDS`.

    The work must change nothing if it is done twice, because a store may lose the connection after
    it has committed a change. Raises its error, unless that passes in time.
    """
    gives_up_at: float | None = None
    while True:
        try:
            return await work()
        except Refused as refused:
            if not is_passing(refused):
                raise

            now = time.monotonic()
            if gives_up_at is None:
                gives_up_at = now + PATIENCE_SECONDS
                _log.warning("Waiting for the store, up to %.0f seconds.", PATIENCE_SECONDS)
            if now >= gives_up_at:
                raise

        await asyncio.sleep(PAUSE_SECONDS)
