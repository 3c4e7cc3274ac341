"""``make bench``: every goal as a ratio of medians from one interleaved run, with the quartiles of its rounds."""

import argparse
import asyncio
import os
import platform
import sqlite3
import tempfile
from functools import partial
from pathlib import Path

import orjson
from rich.console import Console
from rich.table import Table

from benchmarks.chart import draw
from benchmarks.files import OF_FILES, goal_18
from benchmarks.measure import Measured
from benchmarks.memories import goals_of_memories
from benchmarks.postgresql import goals_of_postgresql
from benchmarks.rivals import goals_against_the_memory_server
from benchmarks.served import goals_of_servers

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
CHART = HERE.parent / "docs" / "benchmarks.svg"


async def measured(rounds: int, large: int, console: Console, *, quick: bool) -> list[Measured]:
    """Run every goal, and say what is running; the quick way leaves out files of a gibibyte."""
    found: list[Measured] = []
    of_stores = [partial(goals, large=large) for goals in (goals_of_memories, goals_of_postgresql)]
    of_files = [goal for goal in OF_FILES if not (quick and goal is goal_18)]
    goals = (*of_files, goals_of_servers, goals_against_the_memory_server, *of_stores)
    with tempfile.TemporaryDirectory() as scratch:
        base = Path(scratch)
        for name in ("agent", "workspace"):
            (base / name).mkdir()
        for number, goal in enumerate(goals, 1):
            words = getattr(goal, "func", goal).__doc__ or ""
            console.print(f"{number:2} of {len(goals)}  {words}")
            found += await goal(base, rounds)
    return sorted(found, key=lambda line: int(line.goal))


def show(found: list[Measured], console: Console) -> None:
    """Print the table."""
    table = Table(
        "goal",
        "what",
        "wanted",
        "measured",
        "quartiles",
        "",
        title="Ratios of medians, each from one run",
    )
    for line in found:
        between = "" if line.low is None else f"{line.low:.2f} to {line.high:.2f}"
        verdict = "met" if line.met else "[red]short[/]"
        table.add_row(line.goal, line.what, line.wanted, f"{line.value:.2f}", between, verdict)
    console.print(table)


def save(found: list[Measured], rounds: int, large: int) -> None:
    """Keep the results and draw the chart."""
    machine = {
        "processors": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
    }
    lines = [{**line._asdict(), "met": line.met} for line in found]
    document = {
        "machine": {**machine, "sqlite": sqlite3.sqlite_version},
        "rounds": rounds,
        "memories": large,
        "results": lines,
    }
    RESULTS.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")
    draw(found, CHART)


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30, help="rounds a measurement")
    parser.add_argument(
        "--memories", type=int, default=1_000_000, help="memories in the largest store"
    )
    parser.add_argument("--keep", action="store_true", help="write results.json and the chart")
    parser.add_argument(
        "--quick", action="store_true", help="4 rounds and 20,000 memories, without goal 18"
    )
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.rounds, chosen.memories = 4, 20_000
    console = Console()
    found = asyncio.run(measured(chosen.rounds, chosen.memories, console, quick=chosen.quick))
    show(found, console)
    if chosen.keep:
        save(found, chosen.rounds, chosen.memories)


if __name__ == "__main__":
    main()
