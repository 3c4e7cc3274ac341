"""Measure every goal: `make bench`.

Each is a ratio of medians from one interleaved run, with the quartiles of its rounds.
"""

import argparse
import asyncio
import os
import platform
import sqlite3
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import orjson
from rich.console import Console
from rich.table import Table

from benchmarks.chart import draw
from benchmarks.files import GOALS_OF_FILES
from benchmarks.measure import Measured
from benchmarks.memories import measure_memories
from benchmarks.postgresql import measure_postgresql
from benchmarks.resources import GOALS_OF_RESOURCES, measure_goal_18
from benchmarks.rivals import measure_memory_server
from benchmarks.served import measure_servers
from benchmarks.tokens import measure_tokens

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
CHART = HERE.parent / "docs" / "benchmarks.svg"

QUICK_ROUNDS = 4
QUICK_MEMORIES = 20_000

Goal = Callable[[Path, int], Awaitable[list[Measured]]]
"""Measures some goals in a folder with a number of rounds."""


class Size(NamedTuple):
    """How much is measured: rounds per measurement, and memories in the largest store."""

    rounds: int
    memories: int


async def measure_all(size: Size, console: Console, *, quick: bool) -> list[Measured]:
    """Measure every goal, and print which one is running; quickly without files of a gibibyte."""
    goals: list[Goal] = [
        *GOALS_OF_FILES,
        *GOALS_OF_RESOURCES,
        measure_tokens,
        measure_servers,
        measure_memory_server,
        partial(measure_memories, large=size.memories),
        partial(measure_postgresql, large=size.memories),
    ]
    if quick:
        goals.remove(measure_goal_18)

    results: list[Measured] = []
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        for name in ("agent", "workspace"):
            (base / name).mkdir()

        for number, goal in enumerate(goals, 1):
            console.print(f"{number:2} of {len(goals)}  {describe_goal(goal)}")
            results += await goal(base, size.rounds)

    return sorted(results, key=lambda result: int(result.goal))


def describe_goal(goal: Goal) -> str:
    """Return the first line of the docstring of a goal's function."""
    function = goal.func if isinstance(goal, partial) else goal
    return (function.__doc__ or "").partition("\n")[0]


def print_results(results: list[Measured], console: Console) -> None:
    """Print the table."""
    title = "Ratios of medians, each from one run"
    table = Table("goal", "what", "wanted", "measured", "quartiles", "", title=title)

    for result in results:
        quartiles = "" if result.low is None else f"{result.low:.2f} to {result.high:.2f}"
        verdict = "met" if result.met else "[red]short[/]"
        value = f"{result.value:.2f}"
        table.add_row(result.goal, result.what, result.wanted, value, quartiles, verdict)

    console.print(table)


def save_results(results: list[Measured], size: Size) -> None:
    """Write results.json and draw the chart."""
    document = {
        "machine": {
            "processors": os.cpu_count(),
            "system": platform.system(),
            "python": platform.python_version(),
            "sqlite": sqlite3.sqlite_version,
        },
        "rounds": size.rounds,
        "memories": size.memories,
        "results": [{**result._asdict(), "met": result.met} for result in results],
    }

    RESULTS.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")
    draw(results, CHART)


def parse_arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30, help="rounds per measurement")
    parser.add_argument(
        "--memories", type=int, default=1_000_000, help="memories in the largest store"
    )
    parser.add_argument("--keep", action="store_true", help="write results.json and the chart")
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"{QUICK_ROUNDS} rounds and {QUICK_MEMORIES:,} memories, without goal 18",
    )
    return parser.parse_args()


def main() -> None:
    """Measure, print and, with --keep, save."""
    arguments = parse_arguments()
    size = Size(arguments.rounds, arguments.memories)
    if arguments.quick:
        size = Size(QUICK_ROUNDS, QUICK_MEMORIES)

    console = Console()
    results = asyncio.run(measure_all(size, console, quick=arguments.quick))

    print_results(results, console)
    if arguments.keep:
        save_results(results, size)


if __name__ == "__main__":
    main()
