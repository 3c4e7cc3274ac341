"""Measure several ways of doing one thing in one interleaved run, so that a noisy machine is noisy to all."""

import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

Work = Callable[[], Awaitable[object] | object]


class Measured(NamedTuple):
    """One line of the results: what was wanted (``<= 4x``), what was found, and its quartiles over the rounds."""

    goal: str
    what: str
    wanted: str
    value: float
    low: float | None = None
    high: float | None = None

    @property
    def met(self) -> bool:
        """Whether the value is on the right side."""
        sign, bound = self.wanted.split()[0], float(self.wanted.split()[1].rstrip("x"))
        return self.value >= bound if sign == ">=" else self.value <= bound


class Taken:
    """The seconds that each way took in each round."""

    def __init__(self, rounds: Mapping[str, list[float]]) -> None:
        self._rounds = rounds

    def __getitem__(self, name: str) -> float:
        """The median seconds of a way."""
        return statistics.median(self._rounds[name])

    def ratio(self, goal: str, what: str, wanted: str, over: str, under: str) -> Measured:
        """The ratio of two medians, with the quartiles of the rounds' own ratios."""
        ratios = [a / b for a, b in zip(self._rounds[over], self._rounds[under], strict=True)]
        low, _, high = statistics.quantiles(ratios, n=4)
        return Measured(goal, what, wanted, self[over] / self[under], low, high)


async def interleaved(ways: Mapping[str, Work], rounds: int, warm: int = 3) -> Taken:
    """Run all ways ``rounds`` times, each round beginning with another one, after some rounds that do not count."""
    names = list(ways)
    taken: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(-warm, rounds):
        order = names[turn % len(names) :] + names[: turn % len(names)]
        for name in order:
            seconds = await _timed(ways[name])
            if turn >= 0:
                taken[name].append(seconds)
    return Taken(taken)


async def _timed(work: Work) -> float:
    began = time.perf_counter()
    result = work()
    if isinstance(result, Awaitable):
        await result
    return time.perf_counter() - began
