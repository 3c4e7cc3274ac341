"""Reach the goals of durability, confinement and fuzzing at full size: `make torture`.

Each figure is a part of the test suite at a size of its own; the table shows its goal, and what its
tests measured. A figure that passed is not run again until the code changes, so an interrupted run
continues where it stopped; `--fresh` forgets. `--quick` takes less than ten minutes.
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypedDict

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / ".torture"
LOGS = RESULTS / "logs"
QUICK_FUZZ_SECONDS = 15

Sizes = dict[str, int]


@dataclass(frozen=True)
class Figure:
    """Something to reach: pytest's arguments, sizes for its tests, and what is fuzzed.

    Sizes are settings of the tests without their prefix ``ABILITIES_``; ``fuzzed`` says how often
    each target of `tools.fuzz` runs.
    """

    goal: str
    tests: list[str]
    full: Sizes = field(default_factory=dict[str, int])
    quick: Sizes = field(default_factory=dict[str, int])
    fuzzed: dict[str, int] = field(default_factory=dict[str, int])


class Result(TypedDict):
    """What a figure reached: sentences of its tests, and the seconds that it took."""

    passed: bool
    reached: list[str]
    seconds: int


class FuzzResult(NamedTuple):
    """Whether a target withstood, and how often it ran, in words."""

    passed: bool
    words: str


FIGURES = {
    1: Figure(
        "0 escapes in 1,000,000 raced attempts of each of four kinds",
        ["tests/files/test_confinement.py", "-k", "race"],
        full={"RACE_TRIES": 1_000_000},
        quick={"RACE_TRIES": 100_000},
    ),
    2: Figure(
        "special files < 50 ms; an item <= 2 s; a call <= 10 s; exit < 3 s",
        ["tests/files/test_workers.py", "-k", "stuck or special"],
    ),
    3: Figure(
        "1,000 cancelled calls leave nothing; 64 calls with 256 descriptors",
        ["tests/files/test_workers.py", "-k", "thousand or sixty_four"],
    ),
    4: Figure(
        "64 calls of 25 files: p99 <= 300 ms, <= 128 MiB over idle",
        ["tests/surfaces/test_load.py", "-k", "sixty_four or piles_up"],
        full={"SOAK": 60},
        quick={"SOAK": 10},
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
        full={"KILLS": 500, "CUTS": 100},
        quick={"KILLS": 40, "CUTS": 10},
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
            "tests/stores/test_transfer.py",
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
            "tests/surfaces/test_openapi.py",
            "tests/stores/test_postgres.py",
            "tests/stores/test_stores.py",
            "-k",
            "properties or openapi or walk",
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
        [
            "tests/surfaces/test_load.py",
            "tests/surfaces/test_server.py",
            "-k",
            "hostile or slow_and_idle",
        ],
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
        ["tests/stores/test_transfer.py", "-k", "bounded_however"],
        full={"MEMORIES": 1_000_000},
        quick={"MEMORIES": 5_000},
    ),
}


def run_figure(number: int, *, quick: bool) -> Result:
    """Run the tests of a figure, then fuzz its targets."""
    figure = FIGURES[number]
    began = time.monotonic()

    passed, reached = run_tests(number, figure.quick if quick else figure.full)
    for target, runs in figure.fuzzed.items():
        fuzzed = fuzz(target, runs, quick=quick)
        passed = passed and fuzzed.passed
        reached.append(fuzzed.words)

    return Result(passed=passed, reached=reached, seconds=round(time.monotonic() - began))


def run_tests(number: int, sizes: Sizes) -> tuple[bool, list[str]]:
    """Run the tests of a figure; return whether they passed, and what they measured."""
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{number}.log"
    environment = {f"ABILITIES_{name}": str(size) for name, size in sizes.items()}
    options = ["-p", "no:cacheprovider", "-o", "faulthandler_timeout=0"]

    with (
        tempfile.NamedTemporaryFile("r", suffix=".jsonl") as measurements,
        log.open("w") as output,
    ):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *FIGURES[number].tests],
            cwd=ROOT,
            env={**os.environ, **environment, "ABILITIES_FIGURES": measurements.name},
            stdout=output,
            stderr=output,
        )
        lines = [json.loads(line) for line in measurements]

    # A test may measure something for several figures.
    reached = [words for figure, words in lines if figure == number]
    counts = re.findall(r"(\d+) passed", log.read_text())

    # A selection that matches no test must not pass for one whose tests all passed.
    if done.returncode != 0 or not counts:
        return False, [*reached, f"FAILED: see {log.relative_to(ROOT)}"]

    return True, [*reached, f"{counts[-1]} tests passed"]


def fuzz(target: str, runs: int, *, quick: bool) -> FuzzResult:
    """Fuzz a target.

    What crashes it stays in `.torture/`, and what the fuzzer learned in `.torture/corpus/`.
    """
    corpus = RESULTS / "corpus" / target
    corpus.mkdir(parents=True, exist_ok=True)
    limit = f"-max_total_time={QUICK_FUZZ_SECONDS}" if quick else f"-runs={runs}"
    options = [limit, f"-artifact_prefix={RESULTS}/{target}-", str(corpus)]

    done = subprocess.run(
        [sys.executable, "-m", "tools.fuzz", target, *options], cwd=ROOT, capture_output=True
    )

    output = done.stderr.decode(errors="replace")
    log = LOGS / f"fuzz-{target}.log"
    log.write_text(output)

    executions = re.search(r"Done (\d+) runs", output)
    if done.returncode != 0 or executions is None:
        return FuzzResult(False, f"fuzzing the {target} FAILED: see {log.relative_to(ROOT)}")
    return FuzzResult(True, f"atheris, the {target}: {int(executions[1]):,} executions")


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
        words = "\n".join(result["reached"])
        seconds = str(result["seconds"])
        table.add_row(str(number), FIGURES[number].goal, words, seconds, end_section=True)

    return table


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
        results[str(number)] = run_figure(number, quick=arguments.quick)
        path.write_text(json.dumps({"code": code, "figures": results}, indent=1))

    console.print(build_table(results, arguments.figures))
    has_failed = any(not results[str(number)]["passed"] for number in arguments.figures)
    return 1 if has_failed else 0


if __name__ == "__main__":
    sys.exit(main())
