"""Run the figures of `tools.torture`: their tests in blocks, and the fuzzer."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypedDict

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / ".torture"
LOGS = RESULTS / "logs"
QUICK_FUZZ_SECONDS = 15
FAILED = "FAILED"
"""Marks the sentences of what failed."""

Sizes = dict[str, int]


@dataclass(frozen=True)
class Figure:
    """Something to reach: pytest's arguments, sizes for its tests, and what is fuzzed.

    Sizes are settings of the tests without their prefix ``ABILITIES_``; ``fuzzed`` says how often
    each target of `tools.fuzz` runs. A figure of several ``blocks`` runs its tests as often at full
    size, and continues after the last block that passed.
    """

    goal: str
    tests: list[str]
    full: Sizes = field(default_factory=dict[str, int])
    quick: Sizes = field(default_factory=dict[str, int])
    fuzzed: dict[str, int] = field(default_factory=dict[str, int])
    blocks: int = 1


class Result(TypedDict):
    """What a figure reached: sentences of its tests, and the seconds that it took.

    ``blocks`` is how many of its blocks passed.
    """

    passed: bool
    reached: list[str]
    seconds: int
    blocks: int


class FuzzResult(NamedTuple):
    """Whether a target withstood, and how often it ran, in words."""

    passed: bool
    words: str


def run_blocks(
    number: int,
    figure: Figure,
    earlier: Result | None,
    save: Callable[[Result], None],
    *,
    quick: bool,
) -> None:
    """Run the blocks of a figure that did not pass yet, and save the result after each."""
    blocks = 1 if quick else figure.blocks
    result = earlier or Result(passed=False, reached=[], seconds=0, blocks=0)
    reached = [words for words in result["reached"] if FAILED not in words]

    while result["blocks"] < blocks:
        block = run_figure(number, figure, quick=quick)
        seconds = result["seconds"] + block["seconds"]
        done = result["blocks"] + block["passed"]
        is_complete = block["passed"] and done == blocks

        # What failed is shown, but not kept for the next attempt.
        shown = reached + block["reached"]
        result = Result(passed=is_complete, reached=shown, seconds=seconds, blocks=done)
        save(result)
        if not block["passed"]:
            return
        reached = shown


def run_figure(number: int, figure: Figure, *, quick: bool) -> Result:
    """Run the tests of a figure once, then fuzz its targets."""
    began = time.monotonic()

    passed, reached = run_tests(number, figure, quick=quick)
    for target, runs in figure.fuzzed.items():
        fuzzed = fuzz(target, runs, quick=quick)
        passed = passed and fuzzed.passed
        reached.append(fuzzed.words)

    seconds = round(time.monotonic() - began)
    return Result(passed=passed, reached=reached, seconds=seconds, blocks=int(passed))


def run_tests(number: int, figure: Figure, *, quick: bool) -> tuple[bool, list[str]]:
    """Run the tests of a figure; return whether they passed, and what they measured."""
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{number}.log"
    sizes = figure.quick if quick else figure.full
    environment = {f"ABILITIES_{name}": str(size) for name, size in sizes.items()}
    options = ["-p", "no:cacheprovider", "-o", "faulthandler_timeout=0"]

    with (
        tempfile.NamedTemporaryFile("r", suffix=".jsonl") as measurements,
        log.open("w") as output,
    ):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *figure.tests],
            cwd=ROOT,
            env={**os.environ, **environment, "ABILITIES_FIGURES": measurements.name},
            stdout=output,
            stderr=output,
        )
        lines = [json.loads(line) for line in measurements]

    # A test may measure something for several figures.
    reached = [words for measured, words in lines if measured == number]
    counts = re.findall(r"(\d+) passed", log.read_text())

    # A selection that matches no test must not pass for one whose tests all passed.
    if done.returncode != 0 or not counts:
        return False, [*reached, f"{FAILED}: see {log.relative_to(ROOT)}"]

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
        return FuzzResult(False, f"fuzzing the {target} {FAILED}: see {log.relative_to(ROOT)}")
    return FuzzResult(True, f"atheris, the {target}: {int(executions[1]):,} executions")
