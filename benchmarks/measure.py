"""Measure several variants of one thing in one shuffled run: noise disturbs all alike."""

import random
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple

Work = Callable[[], Awaitable[object] | object]
"""A variant: a function, sync or async."""


class Prepared(NamedTuple):
    """A variant that something comes before which is not measured."""

    before: Callable[[], object]
    work: Work


class Measured(NamedTuple):
    """One line of the results.

    ``wanted`` is a bound of the value such as ``<= 4x``, or empty if nothing is wanted. ``value``
    is None if it could not be measured; ``note`` then says why. ``low`` and ``high`` are the
    quartiles of the rounds. ``bound`` is the setting ``max_response_bytes`` of a row about
    replies, and None for all others. ``processor`` is the same ratio in processor time of the
    client and of all servers. ``over_ms`` and ``under_ms`` are the medians that were divided.
    """

    goal: str
    what: str
    wanted: str
    value: float | None
    low: float | None = None
    high: float | None = None
    bound: int | None = None
    processor: float | None = None
    over_ms: float | None = None
    under_ms: float | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the value is within its bound; None if nothing is wanted or measured."""
        if not self.wanted or self.value is None:
            return None

        sign, number = self.wanted.split()[:2]
        bound = float(number.rstrip("x"))
        return self.value >= bound if sign == ">=" else self.value <= bound


class Timings:
    """The seconds of wall time and of processor time that each variant took in each round."""

    def __init__(self, names: Iterable[str]) -> None:
        self._wall: dict[str, list[float]] = {name: [] for name in names}
        self._processor: dict[str, list[float]] = {name: [] for name in self._wall}

    def __contains__(self, name: object) -> bool:
        return name in self._wall

    def __getitem__(self, name: str) -> float:
        """Return the median seconds of a variant."""
        return statistics.median(self._wall[name])

    def add(self, name: str, wall: float, processor: float) -> None:
        """Add a round of a variant."""
        self._wall[name].append(wall)
        self._processor[name].append(processor)

    def ratio(
        self,
        goal: str,
        what: str,
        wanted: str,
        over: str,
        under: str,
        *,
        bound: int | None = None,
        note: str = "",
    ) -> Measured:
        """Return the ratio of two medians, with the quartiles of the ratios of the rounds."""
        pairs = zip(self._wall[over], self._wall[under], strict=True)
        ratios = [numerator / denominator for numerator, denominator in pairs]
        low, _, high = statistics.quantiles(ratios, n=4, method="inclusive")

        return Measured(
            goal,
            what,
            wanted,
            self[over] / self[under],
            low,
            high,
            bound=bound,
            processor=self._divide_processor(over, under),
            over_ms=self[over] * 1000,
            under_ms=self[under] * 1000,
            note=note,
        )

    def _divide_processor(self, over: str, under: str) -> float | None:
        """Return the ratio of processor time, or None if it is too little to be counted."""
        numerator = statistics.median(self._processor[over])
        denominator = statistics.median(self._processor[under])
        return numerator / denominator if numerator and denominator else None


async def run_shuffled(
    variants: Mapping[str, Work | Prepared],
    rounds: int,
    *,
    warmup_rounds: int = 3,
    processes: Iterable[int] = (),
) -> Timings:
    """Run all variants ``rounds`` times, each time in another order, after some that do not count.

    At most as many rounds warm up as count. The processor time is that of this process and of
    ``processes``, the ids of servers.
    """
    timings = Timings(variants)
    warmup_rounds = min(warmup_rounds, rounds)
    chance = random.Random(1)
    order = list(variants)
    servers = tuple(processes)

    for turn in range(-warmup_rounds, rounds):
        chance.shuffle(order)

        for name in order:
            wall, processor = await measure_once(variants[name], servers)
            if turn >= 0:
                timings.add(name, wall, processor)

    return timings


async def measure_once(variant: Work | Prepared, servers: tuple[int, ...]) -> tuple[float, float]:
    """Return the seconds of wall time and of processor time that a variant takes."""
    if isinstance(variant, Prepared):
        variant.before()
        variant = variant.work

    processor_began = read_processor_time(servers)
    began = time.perf_counter()

    result = variant()
    if isinstance(result, Awaitable):
        await result

    wall = time.perf_counter() - began
    return wall, read_processor_time(servers) - processor_began


def read_processor_time(servers: tuple[int, ...]) -> float:
    """Return the processor seconds of this process and of others; on Linux, others count too."""
    seconds = time.process_time()
    if sys.platform == "linux":
        seconds += sum(time.clock_gettime(_build_clock_id(server)) for server in servers)

    return seconds


def _build_clock_id(process: int) -> int:
    """Return the clock of another process, as clock_getcpuclockid(3) does: nanoseconds."""
    return (~process << 3) | 2
