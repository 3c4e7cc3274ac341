"""Wait for what must happen, however slow the machine is."""

import asyncio
import time
from collections.abc import Callable

GIVE_UP_SECONDS = 120.0
"""Only a test that fails waits as long."""

POLL_SECONDS = 0.01


async def wait_until(condition: Callable[[], bool]) -> None:
    """Let the event loop run until a condition holds. Raises AssertionError if it never does."""
    end = time.monotonic() + GIVE_UP_SECONDS
    while not condition():
        assert time.monotonic() < end, "what was waited for did not happen"
        await asyncio.sleep(POLL_SECONDS)
