"""Measure several ways of doing one thing in one interleaved run, so that a noisy machine is noisy to all."""

import statistics
import time
from collections.abc import Awaitable, Callable, Mapping

Work = Callable[[], Awaitable[object] | object]


async def medians(ways: Mapping[str, Work], rounds: int, warm: int = 3) -> dict[str, float]:
    """The median seconds of each way over ``rounds`` rounds, each round beginning with another way."""
    names = list(ways)
    taken: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(-warm, rounds):
        order = names[turn % len(names) :] + names[: turn % len(names)]
        for name in order:
            seconds = await _timed(ways[name])
            if turn >= 0:
                taken[name].append(seconds)
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


async def _timed(work: Work) -> float:
    began = time.perf_counter()
    result = work()
    if isinstance(result, Awaitable):
        await result
    return time.perf_counter() - began
