"""Measure every goal against other programs: `make bench`.

Each is a ratio of medians from one shuffled run, with the quartiles of its rounds.
"""

import argparse
import asyncio
import sys
import tempfile
import time
import traceback
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from rich.console import Console

from benchmarks.chart import CHART, draw
from benchmarks.documents import write_documents
from benchmarks.idle import measure_idle
from benchmarks.in_process import measure_reader, measure_thread
from benchmarks.kv_memory import measure_kv_memory
from benchmarks.langchain_tools import measure_langchain, measure_langchain_real
from benchmarks.mcp_files import (
    measure_bytes,
    measure_files,
    measure_large_files,
    measure_real_files,
    measure_small_files,
)
from benchmarks.measure import Measured
from benchmarks.memories import measure_memories
from benchmarks.memory_server import measure_memory_server
from benchmarks.postgresql import measure_postgresql
from benchmarks.processes import measure_two_processes
from benchmarks.resources import (
    measure_characters,
    measure_import,
    measure_memory,
    measure_start,
)
from benchmarks.results import (
    Effort,
    Results,
    keep_results,
    load_results,
    replace_results,
    sort_results,
)
from benchmarks.served import (
    measure_http_files,
    measure_http_memories,
    measure_http_real_files,
    measure_http_walk,
)
from benchmarks.tokens import measure_tokens
from benchmarks.wording import build_tables

FULL = Effort(30, (1_000, 10_000, 1_000_000), (1_000, 10_000), (1_000, 10_000, 100_000))
QUICK = Effort(2, (200, 500, 1_000), (1_000,), (1_000,))

Goal = Callable[[Path, int], Awaitable[list[Measured]]]
"""Measures some rows in a folder with a number of rounds."""


def list_goals(effort: Effort) -> dict[str, Goal]:
    """Return what is measured, by name, in order."""
    return {
        "files": measure_files,
        "small-files": measure_small_files,
        "real-files": measure_real_files,
        "large-files": measure_large_files,
        "bytes": measure_bytes,
        "idle": measure_idle,
        "reader": measure_reader,
        "thread": measure_thread,
        "langchain": measure_langchain,
        "langchain-real": measure_langchain_real,
        "http-files": measure_http_files,
        "http-real-files": measure_http_real_files,
        "http-memories": measure_http_memories,
        "http-walk": measure_http_walk,
        "memory-server": partial(measure_memory_server, sizes=effort.graphs),
        "kv-memory": partial(measure_kv_memory, sizes=effort.kv_memory_graphs),
        "tokens": measure_tokens,
        "characters": measure_characters,
        "import": measure_import,
        "start": measure_start,
        "memory": measure_memory,
        "processes": measure_two_processes,
        "stores": partial(measure_memories, sizes=effort.stores),
        "postgresql": partial(measure_postgresql, sizes=effort.stores),
    }


TABLE_WIDTH = 160
"""Columns at least, for the table that is printed."""

NEEDS_ROOM = ("memory",)
"""Left out of quick runs: it writes a file of a gibibyte."""


async def measure_goals(
    goals: dict[str, Goal], rounds: int, console: Console
) -> tuple[list[Measured], list[str]]:
    """Measure each goal in a folder of its own; returns the results, and the goals that failed."""
    results: list[Measured] = []
    failed: list[str] = []

    for number, (name, goal) in enumerate(goals.items(), 1):
        console.print(f"{number:2} of {len(goals)}  {name}: {describe_goal(goal)}")
        began = time.monotonic()
        try:
            results += await measure_goal(goal, rounds)
        except Exception:  # the others are still worth half an hour
            traceback.print_exc()
            failed.append(name)
        console.print(f"           {time.monotonic() - began:.0f} s", style="dim")

    return sort_results(results), failed


async def measure_goal(goal: Goal, rounds: int) -> list[Measured]:
    """Measure one goal in a new folder that has both roots."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        for name in ("agent", "workspace"):
            (base / name).mkdir()

        return await goal(base, rounds)


def describe_goal(goal: Goal) -> str:
    """Return the first line of the docstring of a goal's function."""
    function = goal.func if isinstance(goal, partial) else goal
    return (function.__doc__ or "").partition("\n")[0]


def print_results(results: list[Measured], console: Console) -> None:
    """Print what was measured, in a table that is wide enough to be read."""
    console.print("Ratios of medians, each from one run; processor: the same ratio in its time.")
    for table in build_tables(Results(results)):
        if table.row_count:
            console.print(table, width=max(console.width, TABLE_WIDTH), crop=False, soft_wrap=True)


def parse_arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, help=f"rounds per measurement ({FULL.rounds})")
    parser.add_argument(
        "--only", nargs="+", choices=list(list_goals(FULL)), metavar="GOAL", help="measure these"
    )
    parser.add_argument(
        "--keep",
        action="store_true",
        help="write results.json, the chart and the documents' tables; with --only, their rows",
    )
    parser.add_argument("--quick", action="store_true", help="try everything, with tiny counts")
    arguments = parser.parse_args()

    if arguments.quick and arguments.keep:
        parser.error("--quick measures too little to be kept")
    return arguments


def main() -> None:
    """Measure, print and, with --keep, save."""
    arguments = parse_arguments()
    effort = QUICK if arguments.quick else FULL
    if arguments.rounds:
        effort = effort._replace(rounds=arguments.rounds)

    goals = list_goals(effort)
    if arguments.only:
        goals = {name: goals[name] for name in arguments.only}
    elif arguments.quick:
        goals = {name: goal for name, goal in goals.items() if name not in NEEDS_ROOM}

    console = Console()
    results, failed = asyncio.run(measure_goals(goals, effort.rounds, console))

    print_results(results, console)
    if arguments.keep:
        kept = replace_results(load_results(), results) if arguments.only else results
        keep_results(kept, effort)
        draw(kept, CHART)
        write_documents(kept)

    if failed:
        sys.exit(f"These could not be measured: {', '.join(failed)}.")


if __name__ == "__main__":
    main()
