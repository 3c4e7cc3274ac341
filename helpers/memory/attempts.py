"""Attempts at a plan of several changes: why one failed, and how long to wait before the next."""

import asyncio
import random
from collections.abc import Sequence

from abilities.declarations.faults import Refused
from abilities.helpers.stores.protocol import WriteResult

_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.1
"""Seconds that a plan waits at most before it is made anew, the first time and ever."""


def find_cause(results: Sequence[WriteResult | Exception]) -> Exception | None:
    """Return why changes that belong together were not made; None if they were."""
    for result in results:
        is_other = isinstance(result, Refused) and result.reason == "rolled_back"
        if isinstance(result, Exception) and not is_other:
            return result

    return None


async def pause(tries: int) -> None:
    """Wait longer the more tries there were, at random, or those who met would meet again."""
    longest = min(_FIRST_PAUSE * 2**tries, _LONGEST_PAUSE)
    await asyncio.sleep(random.uniform(0, longest))  # noqa: S311 - nothing secret
