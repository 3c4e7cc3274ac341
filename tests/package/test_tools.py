"""What developers use: the tiers of the tests, the tools, and the benchmarks."""

import re
from pathlib import Path

import pytest

from benchmarks.documents import BLOCKS, DOCUMENTS
from benchmarks.goals import QUICK, list_goals, measure_goal
from benchmarks.reasons import REASONS
from benchmarks.results import load_results
from tests.support.forked import Forked
from tests.support.sources import ROOT
from tools import power_cuts, ways
from tools.release import list_problems


def test_a_tag_names_the_version_and_the_latest_release_of_the_changelog() -> None:
    changelog = "## [Unreleased]\n\n## [0.2.0] - 2026-11-23\n\n## [0.1.0] - 2026-01-02\n"

    assert list_problems("v0.2.0", "0.2.0", changelog) == []
    assert len(list_problems("v0.2.0", "0.1.0", changelog)) == 2
    assert len(list_problems("v0.3.0", "0.3.0", changelog)) == 1


async def test_the_calls_that_contributors_read_enter_what_is_named(tmp_path: Path) -> None:
    recorded = await ways.record(tmp_path)
    page = (ROOT / "CONTRIBUTING.md").read_text()

    tables = re.findall(r"^\| `(\w+)` \| what happens \|\n\|.*\n((?:\|.*\n)+)", page, re.M)

    assert [name for name, _ in tables] == ["file_read_bulk", "bulk_read_memory"]
    for name, rows in tables:
        steps = re.findall(r"^\| `([\w.]+)` `([\w.]+)` \|", rows, re.M)
        assert len(steps) == rows.count("\n")
        for module, function in steps:
            assert function in recorded[name].modules.get(module, ()), (module, function)


def test_the_writer_whose_power_is_cut_writes(tmp_path: Path) -> None:
    writer = Forked(power_cuts.WRITER, tmp_path / "m.db", "NORMAL")

    acknowledged = writer.stdout.readline()
    writer.kill()
    writer.communicate()

    assert acknowledged.strip().isdigit()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["reader", "bytes", "http-walk", "process-writers"])
async def test_a_goal_can_be_measured(name: str) -> None:
    results = await measure_goal(list_goals(QUICK)[name], QUICK.rounds)

    assert results
    assert all(result.value is not None and result.value > 0 for result in results)


def test_each_goal_that_is_missed_has_its_limit_and_each_table_its_document() -> None:
    results = load_results()
    text = "".join(path.read_text() for path in DOCUMENTS)

    assert results and all(result.value is not None for result in results)
    for missed in (result for result in results if result.met is False):
        assert any(reason.explains(missed) for reason in REASONS), missed.what
    assert sorted(re.findall(r"<!-- benchmarks: ([\w-]+) -->", text)) == sorted(BLOCKS)
