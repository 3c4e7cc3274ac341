"""Reach the goals of durability, confinement and fuzzing at full size: `make torture`.

Each figure is a part of the test suite at a size of its own; the table shows its goal, and what its
tests measured. A figure that passed is not run again until the code changes, so an interrupted run
continues where it stopped; `--fresh` forgets. `--quick` takes less than ten minutes.
"""

import argparse
import hashlib
import json
import shutil
import sys
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tools.figures import RESULTS, ROOT, Figure, Result, run_blocks

FIGURES = {
    1: Figure(
        "0 escapes in 1,000,000 raced attempts of each of four kinds",
        ["tests/files/test_confinement.py", "-k", "race"],
        full={"RACE_TRIES": 1_000_000},
        quick={"RACE_TRIES": 100_000},
    ),
    2: Figure(
        "special files < 50 ms; an item <= 2 s; a call <= 10 s; exit < 3 s",
        ["tests/files/test_stalls.py"],
    ),
    3: Figure(
        "1,000 cancelled calls leave nothing; 64 calls with 256 descriptors",
        ["tests/files/test_cancellation.py"],
    ),
    4: Figure(
        "64 calls of 25 files: p99 <= 300 ms, <= 128 MiB over idle",
        ["tests/surfaces/test_load.py", "-k", "sixty_four or piles_up"],
        full={"SOAK": 60},
        quick={"SOAK": 10},
    ),
    5: Figure(
        "0 acknowledged writes lost in 500 rounds of kill -9, 100 of an import and of a repair, "
        "and 100 power cuts",
        [
            "tests/stores/test_stores.py",
            "tests/stores/test_postgres.py",
            "tests/stores/test_repair.py",
            "tests/transfer/test_transfer.py",
            "tools/power_cuts.py",
            "-k",
            "kill_9 or killed_import or repair_that_is_killed or power or loss",
        ],
        full={"KILLS": 500, "CUTS": 100, "KILLED_IMPORTS": 100, "KILLED_REPAIRS": 100},
        quick={"KILLS": 40, "CUTS": 10, "KILLED_IMPORTS": 6, "KILLED_REPAIRS": 10},
    ),
    6: Figure(
        "8 processes for 60 s: no BUSY, nothing lost, p99 <= 100 ms, slowest to fastest <= 3x",
        ["tests/stores/test_stores.py", "-k", "several_processes"],
        full={"WRITING": 60},
        quick={"WRITING": 10},
    ),
    7: Figure(
        "2,000 flips: <= 5 % unseen, none after a check; 100 of 100 live backups whole",
        [
            "tests/stores/test_stores.py",
            "tests/transfer/test_transfer.py",
            "-k",
            "flipped or backups_of",
        ],
        full={"FLIPS": 2_000, "BACKUPS": 100},
        quick={"FLIPS": 200, "BACKUPS": 10},
    ),
    8: Figure(
        "100,000 examples and 10,000,000 executions: "
        "no unknown exception, no eighth code, no 5xx but 503",
        [
            "tests/files/test_properties.py",
            "tests/surfaces/test_server.py",
            "tests/stores/test_postgres.py",
            "tests/stores/test_stores.py",
            "-k",
            "properties or schemathesis or walk",
        ],
        full={"EXAMPLES": 20_000, "API_EXAMPLES": 200, "GRAPHS": 2_000},
        quick={"EXAMPLES": 200, "API_EXAMPLES": 5, "GRAPHS": 100},
        fuzzed={
            "arguments": 10_000_000,
            "reader": 10_000_000,
            "walk": 1_000_000,
            "renderers": 1_000_000,
        },
    ),
    9: Figure(
        "20 hostile headers refused on 127.0.0.1 and 0.0.0.0; 200 slow connections closed",
        ["tests/surfaces/test_server.py", "-k", "hostile or slow_and_idle"],
    ),
    10: Figure(
        "no path, errno, class name, SQL or hostile string in a trusted field",
        [
            "tests/surfaces/test_acceptance.py",
            "tests/files/test_failures.py",
            "tests/surfaces/test_telemetry.py",
            "tests/memories/test_memories.py",
        ],
    ),
    11: Figure(
        "1,000,000 memories imported, exported and checked in bounded memory",
        ["tests/transfer/test_transfer.py", "-k", "bounded_however"],
        full={"MEMORIES": 1_000_000},
        quick={"MEMORIES": 5_000},
    ),
    12: Figure(
        "1,000,000 random operations, 100,000 of them on both kinds of store at once: "
        "what was acknowledged is there",
        ["tests/stores/test_law.py", "-s", "-k", "long_run or lockstep"],
        full={"LAW_RUN": 45_000, "LAW_LOCKSTEP": 5_000, "LAW_PROCESSES": 2, "LAW_SEED": 0},
        quick={"LAW_RUN": 2_000, "LAW_LOCKSTEP": 200, "LAW_PROCESSES": 2, "LAW_SEED": 0},
        blocks=20,
    ),
    13: Figure(
        "a tenant's p99 beside a rude one <= 5 times its p99 alone and <= 500 ms; nothing refused",
        ["tests/surfaces/test_load.py", "-k", "does_its_worst"],
        full={"HUB_LINKS": 100_000, "NEIGHBOR_CALLS": 1_000},
        quick={"HUB_LINKS": 1_000, "NEIGHBOR_CALLS": 120},
    ),
    14: Figure(
        "64 that never read, 260 slow bodies, 2,000 idle sockets with 1,024 descriptors: "
        ">= 99 % of good calls answered, <= 1 MB of log",
        ["tests/surfaces/test_rude_clients.py"],
        full={"GOOD_CALLS": 1_000, "IDLE_SOCKETS": 2_000, "DESCRIPTORS": 1_024},
        quick={"GOOD_CALLS": 100, "IDLE_SOCKETS": 2_000, "DESCRIPTORS": 1_024},
    ),
    15: Figure(
        "265 names of secrets refused, none of 200 ordinary; >= 95 of 100 secrets in contents "
        "replaced, none of 1,000 ordinary files touched",
        ["tests/files/test_secret_names.py", "tests/files/test_redaction.py"],
        full={"EXAMPLES": 20_000},
        quick={"EXAMPLES": 200},
    ),
    16: Figure(
        "files answer again <= 5 s after any stall or load ends, in every namespace",
        [
            "tests/files/test_stalls.py",
            "tests/files/test_circuit_breaker.py",
        ],
        full={"EXAMPLES": 20_000},
        quick={"EXAMPLES": 200},
    ),
    17: Figure(
        "a store of 20,000 memories migrated under 200 kills, and a database",
        ["tests/stores/test_migration.py", "-k", "kill"],
        full={"MIGRATED": 20_000, "MIGRATION_KILLS": 200},
        quick={"MIGRATED": 1_000, "MIGRATION_KILLS": 20},
    ),
    18: Figure(
        "200,000 memories imported: a thousand takes <= 3 times as long at the end",
        ["tests/transfer/test_transfer.py", "-k", "last_memories_of_an_import"],
        full={"IMPORTED": 200_000},
        quick={"IMPORTED": 10_000},
    ),
    19: Figure(
        "10,000 conditional updates by 8 processes, none lost; who follows changes misses none; "
        "3,000 sequences of lines over stdio, each answered as it is owed",
        [
            "tests/stores/test_store_history.py",
            "tests/surfaces/test_stdio.py",
            "-k",
            "conditional or follows or sequence_of_lines",
        ],
        full={"CONDITIONAL": 10_000, "FOLLOWED": 1_000, "INPUTS": 3_000},
        quick={"CONDITIONAL": 500, "FOLLOWED": 100, "INPUTS": 150},
    ),
    20: Figure(
        "generated names, searches, pages, plans, laws, stale ranks, recall indexes and kills of a "
        "history: as their oracles say, or as the files and stores were",
        [
            "tests/files/test_secret_names.py",
            "tests/files/test_search.py",
            "tests/files/test_lines.py",
            "tests/memories/test_pages.py",
            "tests/read/test_continuation.py",
            "tests/read/test_plan.py",
            "tests/stores/test_law.py",
            "tests/stores/test_ranking.py",
            "tests/stores/test_store_history.py",
            "tests/surfaces/test_stdio.py",
        ],
        full={
            "NAME_EXAMPLES": 3_000,
            "SEARCH_RACES": 2_000,
            "SHRINK_TRIES": 500,
            "PAGE_TRIALS": 25,
            "EXAMPLES": 500,
            "HISTORY_LAW": 200,
            "HISTORY_KILLS": 30,
            "INPUTS": 5_000,
        },
        quick={
            "NAME_EXAMPLES": 100,
            "SEARCH_RACES": 50,
            "SHRINK_TRIES": 40,
            "PAGE_TRIALS": 3,
            "EXAMPLES": 10,
            "HISTORY_LAW": 5,
            "HISTORY_KILLS": 3,
            "INPUTS": 150,
        },
    ),
    21: Figure(
        "a mirror: two clones with 1,000 edits each lose none, 10,000 hostile keys come back",
        ["tests/surfaces/test_mirror.py"],
        full={"MIRROR_EDITS": 1_000, "MIRROR_KEYS": 10_000, "MIRROR_KILLS": 40},
        quick={"MIRROR_EDITS": 40, "MIRROR_KEYS": 150, "MIRROR_KILLS": 2},
    ),
    22: Figure(
        "20,000 random callers and calls against a model of what each may see: no trace of more",
        ["tests/stores/test_namespace_visibility.py"],
        full={"NAMESPACE_WORLDS": 100, "NAMESPACE_STEPS": 100},
        quick={"NAMESPACE_WORLDS": 3, "NAMESPACE_STEPS": 60},
    ),
}


def hash_code() -> str:
    """Return a hash of the product and its tests: a result holds only for these."""
    sources: list[Path] = []

    for folder in ("abilities", "helpers", "declarations", "tests"):
        for suffix in ("py", "sql", "c"):
            sources += (ROOT / folder).rglob(f"*.{suffix}")

    contents = [path.read_bytes() for path in sorted(sources) if not path.is_symlink()]
    return hashlib.sha256(b"".join(contents)).hexdigest()


def load_results(path: Path, code: str) -> dict[str, Result]:
    """Return the results of earlier runs by figure; none if the code has changed since."""
    if not path.exists():
        return {}

    document = json.loads(path.read_text())
    results: dict[str, Result] = document.get("figures", {})
    return results if document.get("code") == code else {}


def build_table(results: dict[str, Result], numbers: list[int]) -> Table:
    """Return the table of goals and what was reached."""
    table = Table("figure", "goal", "reached", "seconds", title="What was reached")

    for number in numbers:
        result = results[str(number)]
        words = "\n".join(count_repeated(result["reached"]))
        seconds = str(result["seconds"])
        table.add_row(str(number), FIGURES[number].goal, words, seconds, end_section=True)

    return table


def count_repeated(sentences: list[str]) -> list[str]:
    """Return each sentence once, with how often it was said if the blocks repeated it."""
    counted: list[str] = []
    for sentence, count in Counter(sentences).items():
        counted.append(sentence if count == 1 else f"{count} times: {sentence}")

    return counted


def parse_arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, less than ten minutes")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    parser.add_argument(
        "figures",
        nargs="*",
        type=int,
        default=list(FIGURES),
        help="the numbers of the figures to run (default: all)",
    )
    return parser.parse_args()


def main() -> int:
    """Run what did not pass yet, and print the table; return 1 if something failed."""
    arguments = parse_arguments()
    if shutil.which("cc") is None:
        sys.exit("Simulated power cuts need a C compiler, for example Debian's gcc.")

    console = Console()
    path = RESULTS / ("quick.json" if arguments.quick else "full.json")
    code = hash_code()
    results = {} if arguments.fresh else load_results(path, code)

    for number in arguments.figures:
        earlier = results.get(str(number))
        if earlier and earlier["passed"]:
            console.print(f"Figure {number:2}: passed before")
            continue

        console.print(f"Figure {number:2}: {FIGURES[number].goal} ...")

        def save(result: Result, number: int = number) -> None:
            results[str(number)] = result
            path.write_text(json.dumps({"code": code, "figures": results}, indent=1))
            console.print(f"           {result['blocks']} of {FIGURES[number].blocks} blocks")

        run_blocks(number, FIGURES[number], earlier, save, quick=arguments.quick)

    console.print(build_table(results, arguments.figures))
    has_failed = any(not results[str(number)]["passed"] for number in arguments.figures)
    return 1 if has_failed else 0


if __name__ == "__main__":
    sys.exit(main())
