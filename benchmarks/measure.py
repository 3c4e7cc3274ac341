"""Measure several variants of one thing in one interleaved run: noise disturbs all alike."""

import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

Work = Callable[[], Awaitable[object] | object]
"""A variant: a function, sync or async."""


class Measured(NamedTuple):
    """One line of the results.

    ``wanted`` is a bound such as ``<= 4x``; ``low`` and ``high`` are the quartiles of the rounds.
    """

    goal: str
    what: str
    wanted: str
    value: float
    low: float | None = None
    high: float | None = None

    @property
    def met(self) -> bool:
        """Whether the value is within its bound."""
        sign, number = self.wanted.split()[:2]
        bound = float(number.rstrip("x"))
        return self.value >= bound if sign == ">=" else self.value <= bound


class Timings:
    """The seconds that each variant took in each round."""

    def __init__(self, rounds: Mapping[str, list[float]]) -> None:
        self._rounds = rounds

    def __contains__(self, name: object) -> bool:
        return name in self._rounds

    def __getitem__(self, name: str) -> float:
        """Return the median seconds of a variant."""
        return statistics.median(self._rounds[name])

    def ratio(self, goal: str, what: str, wanted: str, over: str, under: str) -> Measured:
        """Return the ratio of two medians, with the quartiles of the ratios of the rounds."""
        pairs = zip(self._rounds[over], self._rounds[under], strict=True)
        ratios = [numerator / denominator for numerator, denominator in pairs]
        low, _, high = statistics.quantiles(ratios, n=4)
        return Measured(goal, what, wanted, self[over] / self[under], low, high)


async def run_interleaved(
    variants: Mapping[str, Work], rounds: int, warmup_rounds: int = 3
) -> Timings:
    """Run all variants ``rounds`` times, after some rounds that do not count.

    Each round begins with another variant, so that none always runs after the same other one.
    """
    names = list(variants)
    seconds: dict[str, list[float]] = {name: [] for name in names}

    for turn in range(-warmup_rounds, rounds):
        first = turn % len(names)

        for name in names[first:] + names[:first]:
            elapsed = await measure_once(variants[name])
            if turn >= 0:
                seconds[name].append(elapsed)

    return Timings(seconds)


async def measure_once(work: Work) -> float:
    """Return the seconds that a variant takes."""
    began = time.perf_counter()

    result = work()
    if isinstance(result, Awaitable):
        await result

    return time.perf_counter() - began
