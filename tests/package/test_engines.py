"""Engines give transactions; what a store does with them is written once, outside of them."""

import re
from pathlib import Path

import pytest

from tests.support.sources import ROOT

ENGINES = ROOT / "helpers/store"
SHARED_TABLES = (
    "counters",
    "history",
    "link_counts",
    "links",
    "purged",
    "recall_recent",
    "recall_terms",
    "stale_ranks",
    "tags",
    "versions",
)
SALVAGED = {"repair.py": ["FROM links", "FROM history", "FROM link_counts"]}
"""The tables that are read row by row where they are damaged."""

_STATEMENT = re.compile(rf"\b(FROM|JOIN|INTO|UPDATE|TABLE)\s+({'|'.join(SHARED_TABLES)})\b", re.I)


def find_algorithms(path: Path) -> list[str]:
    """Return where a module of an engine has statements on what is derived from memories."""
    return [match[0] for match in _STATEMENT.finditer(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_no_algorithm_lives_in_an_engine(engine: str) -> None:
    modules = sorted((ENGINES / engine).glob("*.py"))
    assert len(modules) > 5

    for module in modules:
        assert find_algorithms(module) == SALVAGED.get(module.name, []), module.name


def test_an_algorithm_in_an_engine_is_noticed(tmp_path: Path) -> None:
    module = tmp_path / "links.py"
    module.write_text('_BEST = "SELECT rank FROM links WHERE source = ?"\n')
    assert find_algorithms(module) == ["FROM links"]


_TABLE = re.compile(r"^CREATE TABLE (\w+) \(\n(.+?)^\)", re.M | re.S)
_OWN_COLUMNS = {("sqlite", "shelf"): {"memory"}}
_OWN_TABLES = {"words"}
"""What finds substrings is each engine's own."""


def read_columns(engine: str) -> dict[str, set[str]]:
    """Return the columns of the tables of an engine's schema."""
    schema = (ENGINES / engine / "schema.sql").read_text(encoding="utf-8")
    tables: dict[str, set[str]] = {}
    for name, body in _TABLE.findall(schema):
        columns = {line.split()[0] for line in body.splitlines() if re.match(r" {4}[a-z]", line)}
        tables[name] = columns - _OWN_COLUMNS.get((engine, name), set())

    return {name: columns for name, columns in tables.items() if name not in _OWN_TABLES}


def test_both_engines_have_the_same_tables() -> None:
    tables = read_columns("sqlite")
    assert set(SHARED_TABLES) | {"memories", "shelf"} <= tables.keys()
    assert tables == read_columns("postgres")
