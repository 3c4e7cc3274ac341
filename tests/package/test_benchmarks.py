"""The benchmarks run, and the documents say what they measured."""

import re
import subprocess
import sys
import time
from functools import partial

import pytest

from benchmarks.documents import BLOCKS, DOCUMENTS, fill_blocks
from benchmarks.goals import QUICK, list_goals, measure_goal
from benchmarks.measure import Measured, Prepared, Work, read_processor_time, run_shuffled
from benchmarks.peers import BOUNDS
from benchmarks.reasons import REASONS
from benchmarks.results import Results, load_results, replace_results

WITHOUT_RIVALS = (
    "bytes",
    "reader",
    "thread",
    "langchain",
    "langchain-real",
    "http-files",
    "http-real-files",
    "http-memories",
    "http-walk",
    "characters",
    "import",
    "processes",
    "stores",
    "walk-speed",
    "pages",
    "slow-query",
    "clients",
    "process-writers",
    "latin",
)
"""The goals that need no other server and no database server."""

ABOUT_REPLIES = {"bytes", "langchain", "langchain-real", "http-files", "http-memories", "http-walk"}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", WITHOUT_RIVALS)
async def test_each_goal_can_be_measured(name: str) -> None:
    results = await measure_goal(list_goals(QUICK)[name], QUICK.rounds)

    assert results
    assert all(result.value is not None and result.value > 0 for result in results)
    if name in ABOUT_REPLIES:
        assert {result.bound for result in results} == set(BOUNDS)


def test_each_goal_that_is_missed_has_its_limit() -> None:
    results = load_results()
    missed = [result for result in results if result.met is False]

    assert results and all(result.value is not None for result in results)
    for result in missed:
        assert any(reason.explains(result) for reason in REASONS), result.what


async def test_each_variant_runs_once_per_round_in_an_order_that_changes() -> None:
    order: list[str] = []
    variants = {name: partial(order.append, name) for name in "abc"}

    await run_shuffled(variants, 20, warmup_rounds=0)

    rounds = ["".join(order[start : start + 3]) for start in range(0, len(order), 3)]
    assert len(rounds) == 20
    assert {"".join(sorted(one)) for one in rounds} == {"abc"}
    assert len(set(rounds)) > 3


async def test_what_comes_before_a_variant_is_not_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    monkeypatch.setattr(time, "perf_counter", lambda: clock.now)
    variants: dict[str, Work | Prepared] = {
        "plain": partial(clock.advance, 2.0),
        "prepared": Prepared(partial(clock.advance, 5.0), partial(clock.advance, 3.0)),
    }

    timings = await run_shuffled(variants, 4)

    assert (timings["plain"], timings["prepared"]) == (2.0, 3.0)


class Clock:
    """A clock that only moves when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def advance(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has clocks of other processes")
def test_the_processor_time_of_servers_counts() -> None:
    code = """
import time
while time.process_time() < 0.2:
    pass
print("busy enough", flush=True)
input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        assert server.stdout
        server.stdout.readline()
        alone = read_processor_time(())
        together = read_processor_time((server.pid,))
        server.communicate(b"\n")

    assert together - alone >= 0.2


def test_each_block_stands_in_a_document() -> None:
    text = "".join(path.read_text() for path in DOCUMENTS)

    assert sorted(re.findall(r"<!-- benchmarks: ([\w-]+) -->", text)) == sorted(BLOCKS)


def test_a_row_that_falls_short_stands_in_the_documents() -> None:
    short = Measured("1", "a row", ">= 2x", 1.5, 1.4, 1.6, bound=64_000, processor=1.2)
    text = "<!-- benchmarks: shortfalls -->\n<!-- end of benchmarks -->\n"

    filled = fill_blocks(text, Results([short]))

    assert "| a row | 64,000 | at least 2x | 1.50x (processor 1.20x) |" in filled


def test_a_row_that_is_measured_again_takes_the_place_of_the_old_one() -> None:
    old = [Measured("1", "a", "", 1.0, bound=64_000), Measured("1", "a", "", 2.0, bound=1_000_000)]
    new = [Measured("1", "a", "", 3.0, bound=64_000)]

    assert replace_results(old, new) == [new[0], old[1]]


@pytest.mark.parametrize(
    ("wanted", "value", "met"),
    [
        (">= 2x", 2.0, True),
        (">= 2x", 1.9, False),
        ("<= 300 ms", 300.0, True),
        ("<= 300 ms", 301.0, False),
        ("", 5.0, None),
        (">= 2x", None, None),
    ],
)
def test_a_goal_is_met_within_its_bound(wanted: str, value: float | None, met: bool | None) -> None:
    assert Measured("1", "a row", wanted, value).met is met
