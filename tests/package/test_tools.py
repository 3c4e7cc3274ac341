"""The developers' tools: what they quote from the code exists."""

import builtins
import re
import tomllib
from pathlib import Path

import pytest

from tests.support.forked import Forked
from tools import adapters, power_cuts, ways
from tools.mutation import Definition, find_definition, list_definitions, list_outdated


def test_every_explained_mutant_is_in_a_function_that_exists() -> None:
    assert list_outdated() == []


def test_a_mutant_is_found_by_the_innermost_definition() -> None:
    source = "LIMIT = 3\n\n@mark\nclass A:\n    @mark\n    def b(self):\n        return 1\n"

    definitions = list_definitions(source)

    assert sorted(definitions) == [
        Definition("A", 3, 7),
        Definition("A.b", 5, 7),
        Definition("LIMIT", 1, 1),
    ]
    assert [find_definition(definitions, line) for line in (1, 2, 3, 5, 7)] == [
        "LIMIT",
        "",
        "A",
        "A.b",
        "A.b",
    ]


def test_each_adapter_for_a_framework_is_tried_beside_it() -> None:
    tests = (adapters.ROOT / "tests" / "adapters").glob("test_*.py")

    names = [framework.name for framework in adapters.FRAMEWORKS]

    assert sorted(names) == sorted(path.stem.removeprefix("test_") for path in tests)
    assert all(framework.example.exists() for framework in adapters.FRAMEWORKS)


def test_the_settings_of_the_tests_need_no_package_that_a_framework_lacks() -> None:
    project = tomllib.loads((adapters.ROOT / "pyproject.toml").read_text())
    filters = project["tool"]["pytest"]["ini_options"]["filterwarnings"]

    categories = [parts[2] for each in filters if len(parts := each.split(":")) > 2]

    assert all(hasattr(builtins, category) for category in categories)


def test_a_framework_that_cannot_be_installed_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    python = tmp_path / "crewai" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho nothing resolves\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(adapters, "ENVIRONMENTS", tmp_path)
    monkeypatch.setattr("sys.argv", ["adapters", "crewai"])

    assert adapters.main() == 1

    shown = capsys.readouterr().out
    assert "nothing resolves" in shown
    assert shown.endswith("FAILED: crewai>=1.15 could not be installed.\n")


def test_a_framework_without_an_adapter_is_not_known(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["adapters", "crewai", "none"])

    assert adapters.main() == 2

    assert capsys.readouterr().out.startswith("There is no adapter for none. There are: openai_")


async def test_the_ways_of_calls_lead_from_the_registry_to_the_files_and_the_store(
    tmp_path: Path,
) -> None:
    recorded = await ways.record(tmp_path)

    assert recorded.keys() == ways.CALLS.keys()
    for way in recorded.values():
        assert "AbilityRegistry.call" in way.modules["abilities.registry"]
        assert way.moves >= len(way.modules)
    assert "abilities.helpers.files.reader" in recorded["file_read_bulk"].modules
    assert "abilities.helpers.store.walking" in recorded["bulk_read_memory"].modules


async def test_the_calls_that_contributors_read_enter_what_is_named(tmp_path: Path) -> None:
    recorded = await ways.record(tmp_path)
    page = (adapters.ROOT / "CONTRIBUTING.md").read_text()

    tables = re.findall(r"^\| `(\w+)` \| what happens \|\n\|.*\n((?:\|.*\n)+)", page, re.M)

    assert [name for name, _ in tables] == ["file_read_bulk", "bulk_read_memory"]
    for name, rows in tables:
        steps = re.findall(r"^\| `([\w.]+)` `([\w.]+)` \|", rows, re.M)
        assert len(steps) == rows.count("\n")
        for module, function in steps:
            assert function in recorded[name].modules.get(module, ()), (module, function)


@pytest.mark.parametrize("synchronous", ["FULL", "NORMAL"])
def test_the_writer_whose_power_is_cut_writes(synchronous: str, tmp_path: Path) -> None:
    writer = Forked(power_cuts.WRITER, tmp_path / "m.db", synchronous)

    acknowledged = writer.stdout.readline()
    writer.kill()
    writer.communicate()

    assert acknowledged.strip().isdigit()
