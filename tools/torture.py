"""``make torture``: the ten figures that the acceptance table wants reached, and one more, at full size, in one table.

Each figure is a part of the test suite at a size of its own, and what its tests note of it; times are noted, and for
people to judge. A figure whose tests passed is not run again until the code changes, so a run that was stopped goes
on; ``--fresh`` forgets. ``--quick`` takes less than ten minutes.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parent.parent
KEPT = ROOT / ".torture"
PROPERTIES = "properties or openapi or walk"
Sizes = dict[str, int]


class Figure(NamedTuple):
    """Something to reach: pytest's arguments, the sizes of the tests in full and quickly, and what atheris fuzzes."""

    goal: str
    tests: list[str]
    full: Sizes
    quick: Sizes
    fuzzed: dict[str, int]


FIGURES = {
    1: Figure(
        "0 escapes in 1,000,000 raced tries of each of four kinds",
        ["tests/files/test_confinement.py", "-k", "race"],
        {"RACE_TRIES": 1_000_000},
        {"RACE_TRIES": 100_000},
        {},
    ),
    2: Figure(
        "special files < 50 ms; an item <= 2 s; a call <= 10 s; exit < 3 s",
        ["tests/files/test_workers.py", "-k", "stuck or special"],
        {},
        {},
        {},
    ),
    3: Figure(
        "1,000 cancelled calls leave nothing; 64 calls with 256 descriptors",
        ["tests/files/test_workers.py", "-k", "thousand or sixty_four"],
        {},
        {},
        {},
    ),
    4: Figure(
        "64 calls of 25 files: p99 <= 300 ms, <= 128 MiB over idle",
        ["tests/surfaces/test_load.py", "-k", "sixty_four or piles_up"],
        {"SOAK": 60},
        {"SOAK": 10},
        {},
    ),
    5: Figure(
        "0 acknowledged writes lost in 500 rounds of kill -9 and 100 power cuts",
        [
            "tests/stores/test_stores.py",
            "tests/stores/test_postgres.py",
            "tools/power_cuts.py",
            "-k",
            "kill_9 or power or loss",
        ],
        {"KILLS": 500, "CUTS": 100},
        {"KILLS": 40, "CUTS": 10},
        {},
    ),
    6: Figure(
        "8 processes for 60 s: no BUSY, nothing lost, p99 <= 100 ms, slowest to fastest <= 3x",
        ["tests/stores/test_stores.py", "-k", "eight_processes"],
        {"WRITING": 60},
        {"WRITING": 10},
        {},
    ),
    7: Figure(
        "2,000 flips: <= 5 % unseen, none after a check; 100 of 100 live backups whole",
        [
            "tests/stores/test_stores.py",
            "tests/stores/test_transfer.py",
            "-k",
            "flipped or backups_of",
        ],
        {"FLIPS": 2_000, "BACKUPS": 100},
        {"FLIPS": 200, "BACKUPS": 10},
        {},
    ),
    8: Figure(
        "100,000 examples and 10,000,000 executions: no unknown exception, no eighth code, no 5xx but 503",
        [
            *(f"tests/test_{name}.py" for name in ("properties", "openapi", "postgres", "stores")),
            "-k",
            PROPERTIES,
        ],
        {"EXAMPLES": 20_000, "API_EXAMPLES": 200, "GRAPHS": 2_000},
        {"EXAMPLES": 200, "API_EXAMPLES": 5, "GRAPHS": 100},
        {"door": 10_000_000, "reader": 10_000_000, "walk": 1_000_000, "renderers": 1_000_000},
    ),
    9: Figure(
        "20 hostile headers refused on 127.0.0.1 and 0.0.0.0; 200 slow connections closed",
        [
            "tests/surfaces/test_load.py",
            "tests/surfaces/test_server.py",
            "-k",
            "hostile or slow_and_idle",
        ],
        {},
        {},
        {},
    ),
    10: Figure(
        "no path, errno, class name, SQL or hostile string in a trusted field",
        [
            "tests/surfaces/test_acceptance.py",
            "tests/files/test_failures.py",
            "tests/surfaces/test_telemetry.py",
            "tests/memories/test_memories.py",
        ],
        {},
        {},
        {},
    ),
    11: Figure(
        "1,000,000 memories imported, exported and checked in bounded memory",
        ["tests/stores/test_transfer.py", "-k", "bounded_however"],
        {"MEMORIES": 1_000_000},
        {"MEMORIES": 5_000},
        {},
    ),
}
QUICK_FUZZ_SECONDS = 15


def run(number: int, *, quick: bool) -> dict[str, Any]:
    """Run a figure and return whether its tests passed, what they noted, and the seconds."""
    figure, began = FIGURES[number], time.monotonic()
    folder = KEPT / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.NamedTemporaryFile("r", suffix=".jsonl") as noted,
        (folder / f"{number}.log").open("w") as log,
    ):
        sizes = {
            f"ABILITIES_{name}": str(size)
            for name, size in (figure.quick if quick else figure.full).items()
        }
        given = {**os.environ, **sizes, "ABILITIES_FIGURES": noted.name}
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "-o",
            "faulthandler_timeout=0",
        ]
        done = subprocess.run(
            [*command, *figure.tests], cwd=ROOT, env=given, stdout=log, stderr=log
        )
        reached = [
            words for at, words in map(json.loads, noted.read().splitlines()) if at == number
        ]
        (tests,) = re.findall(r"(\d+) passed", (folder / f"{number}.log").read_text())[-1:] or ["0"]
        passed = done.returncode == 0 and tests != "0"
        for target, runs in figure.fuzzed.items():
            ended, words = fuzz(target, runs, quick=quick)
            passed = passed and ended
            reached.append(words)
    reached.append(f"{tests} tests passed" if passed else f"FAILED: see .torture/logs/{number}.log")
    return {"passed": passed, "reached": reached, "seconds": round(time.monotonic() - began)}


def fuzz(target: str, runs: int, *, quick: bool) -> tuple[bool, str]:
    """Fuzz a target; what crashes it stays in .torture/, and what it learnt in .torture/corpus."""
    corpus = KEPT / "corpus" / target
    corpus.mkdir(parents=True, exist_ok=True)
    limit = [f"-max_total_time={QUICK_FUZZ_SECONDS}"] if quick else [f"-runs={runs}"]
    command = [
        sys.executable,
        "-m",
        "tools.fuzz",
        target,
        *limit,
        f"-artifact_prefix={KEPT}/{target}-",
        str(corpus),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True)
    said = done.stderr.decode(errors="replace")
    (KEPT / "logs" / f"fuzz-{target}.log").write_text(said)
    count = re.search(r"Done (\d+) runs", said)
    if done.returncode or count is None:
        return False, f"fuzzing the {target} FAILED: see .torture/logs/fuzz-{target}.log"
    return True, f"atheris, the {target}: {int(count[1]):,} executions"


def code() -> str:
    """What a result holds for: the code as it is."""
    files = sorted(
        path
        for name in ("abilities", "helpers", "declarations", "tests")
        for path in _sources(ROOT / name)
    )
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def _sources(folder: Path) -> list[Path]:
    return [
        path
        for suffix in ("py", "sql", "c")
        for path in folder.rglob(f"*.{suffix}")
        if not path.is_symlink()
    ]


def main() -> int:
    """Run what did not pass yet, and print the table; 1 when something failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, less than ten minutes")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    parser.add_argument(
        "figures", nargs="*", type=int, default=list(FIGURES), help="which figures; all"
    )
    chosen = parser.parse_args()
    if shutil.which("cc") is None:
        sys.exit("Simulated power cuts need a C compiler, as Debian's gcc.")
    console, place = Console(), KEPT / ("quick.json" if chosen.quick else "full.json")
    KEPT.mkdir(exist_ok=True)
    results: dict[str, Any] = (
        {} if chosen.fresh or not place.exists() else json.loads(place.read_text())
    )
    if results.get("code") != code():
        results = {"code": code()}
    for number in chosen.figures:
        if results.get(str(number), {}).get("passed"):
            console.print(f"Figure {number:2}: passed before")
            continue
        console.print(f"Figure {number:2}: {FIGURES[number].goal} ...")
        results[str(number)] = run(number, quick=chosen.quick)
        place.write_text(json.dumps(results, indent=1))
    table = Table(
        "figure", "goal", "reached", "seconds", title="What was reached" + " (quick)" * chosen.quick
    )
    for number in chosen.figures:
        result = results[str(number)]
        words = "\n".join(result["reached"])
        table.add_row(
            str(number), FIGURES[number].goal, words, str(result["seconds"]), end_section=True
        )
    console.print(table)
    return 0 if all(results[str(number)]["passed"] for number in chosen.figures) else 1


if __name__ == "__main__":
    sys.exit(main())
