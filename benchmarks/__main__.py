"""Measure every goal against other programs: `make bench`.

Each is a ratio of medians from one shuffled run, with the quartiles of its rounds.
"""

import argparse
import asyncio
import os
import sys

from rich.console import Console

from benchmarks.chart import CHART, draw
from benchmarks.documents import DOCUMENTS, fill_document
from benchmarks.goals import FULL, NEEDS_ROOM, QUICK, list_goals, measure_goals
from benchmarks.measure import Measured
from benchmarks.results import Results, keep_all, keep_some, load_results
from benchmarks.wording import build_tables

TABLE_WIDTH = 160
"""Columns at least, for the table that is printed."""


def print_results(results: list[Measured], console: Console) -> None:
    """Print what was measured, in a table that is wide enough to be read."""
    console.print("Ratios of medians, each from one run; processor: the same ratio in its time.")
    for table in build_tables(Results(results)):
        if table.row_count:
            console.print(table)


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
    # A container may set it, and then each server that is started compiles every module again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

    arguments = parse_arguments()
    effort = QUICK if arguments.quick else FULL
    if arguments.rounds:
        effort = effort._replace(rounds=arguments.rounds)

    goals = list_goals(effort)
    if arguments.only:
        goals = {name: goals[name] for name in arguments.only}
    elif arguments.quick:
        goals = {name: goal for name, goal in goals.items() if name not in NEEDS_ROOM}

    console = Console(width=max(Console().width, TABLE_WIDTH))
    results, failed = asyncio.run(measure_goals(goals, effort.rounds, console))

    print_results(results, console)
    if arguments.keep:
        if arguments.only:
            keep_some(results)
        else:
            keep_all(results, effort)
        draw(load_results(), CHART)
        for path in DOCUMENTS:
            path.write_text(fill_document(path))

    if failed:
        sys.exit(f"These could not be measured: {', '.join(failed)}.")


if __name__ == "__main__":
    main()
