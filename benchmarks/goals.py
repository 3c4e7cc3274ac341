"""What is measured: groups of rows by name, and how they are run."""

import tempfile
import time
import traceback
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from rich.console import Console

from benchmarks.growth import measure_growth
from benchmarks.idle import measure_idle
from benchmarks.in_process import measure_reader, measure_thread
from benchmarks.kv_memory import measure_kv_memory
from benchmarks.langchain_tools import measure_langchain, measure_langchain_real
from benchmarks.large_inputs import (
    measure_full_folder,
    measure_latin,
    measure_line_ranges,
    measure_tokens_file,
)
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
from benchmarks.pages import measure_pages, measure_postgresql_pages
from benchmarks.postgresql import measure_postgresql
from benchmarks.processes import measure_two_processes
from benchmarks.resources import measure_characters, measure_memory
from benchmarks.results import Effort, sort_results
from benchmarks.served import (
    measure_http_files,
    measure_http_memories,
    measure_http_real_files,
    measure_http_walk,
)
from benchmarks.starting import measure_import, measure_start
from benchmarks.tasks import measure_tasks
from benchmarks.tokens import measure_tokens
from benchmarks.waiting import measure_beside_slow_query, measure_clients
from benchmarks.walk_speed import measure_walk_speed
from benchmarks.writers import measure_process_writers

FULL = Effort(
    30, (1_000, 10_000, 1_000_000), (1_000, 10_000), (1_000, 10_000, 100_000), (100_000, 1_000_000)
)
QUICK = Effort(2, (100, 200, 400), (1_000,), (1_000,), (400,))

Goal = Callable[[Path, int], Awaitable[list[Measured]]]
"""Measures some rows in a folder with a number of rounds."""


def list_goals(effort: Effort) -> dict[str, Goal]:
    """Return what is measured, by name, in order."""
    large = effort.stores[-1]
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
        "tasks": measure_tasks,
        "characters": measure_characters,
        "import": measure_import,
        "start": measure_start,
        "memory": measure_memory,
        "processes": measure_two_processes,
        "stores": partial(measure_memories, sizes=effort.stores),
        "growth": partial(measure_growth, sizes=(effort.stores[0], *effort.growth)),
        "walk-speed": partial(measure_walk_speed, size=large),
        "pages": partial(measure_pages, size=large),
        "slow-query": partial(measure_beside_slow_query, size=large),
        "clients": measure_clients,
        "process-writers": measure_process_writers,
        "line-ranges": measure_line_ranges,
        "latin": measure_latin,
        "full-folder": measure_full_folder,
        "tokens-file": measure_tokens_file,
        "postgresql-pages": partial(measure_postgresql_pages, size=large // 10),
        "postgresql": partial(measure_postgresql, sizes=effort.stores),
    }


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
