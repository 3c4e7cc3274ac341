"""The specifications' requirements and the acceptance table: each has a test, and each test is named."""

import ast
import tomllib
from typing import Any

from tests.support.sources import ROOT

REQUIREMENTS: list[dict[str, Any]] = tomllib.loads(
    (ROOT / "tests" / "package" / "requirements.toml").read_text()
)["requirement"]


def test_every_requirement_names_tests_that_exist() -> None:
    assert len({r["id"] for r in REQUIREMENTS}) == len(REQUIREMENTS) >= 45
    for requirement in REQUIREMENTS:
        assert requirement["text"] and requirement["tests"], requirement["id"]
        for test in requirement["tests"]:
            file, _, name = test.partition("::")
            names = {
                n.name
                for n in ast.walk(ast.parse((ROOT / "tests" / file).read_text()))
                if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)
            }
            assert name in names, f"{requirement['id']}: {test}"


def test_every_test_of_the_specifications_plan_is_named_by_a_requirement() -> None:
    tree = ast.parse((ROOT / "tests" / "memories" / "test_specification.py").read_text())
    planned = {n.name for n in tree.body if isinstance(n, ast.AsyncFunctionDef)} - {
        "test_reading_changes_nothing"
    }
    named = {
        test.partition("::")[2]
        for r in REQUIREMENTS
        for test in r["tests"]
        if test.startswith("memories/test_specification")
    }
    assert planned == named


def test_rows_b_and_s_of_the_acceptance_table_each_have_a_test() -> None:
    rows = {f"B{n}" for n in range(1, 11)} | {f"S{n}" for n in range(1, 15)} - {"S13"}
    text = "".join(
        path.read_text()
        for path in (ROOT / "tests").rglob("*.py")
        if path.name != "test_requirements.py"
    )
    for row in rows:
        assert f'"{row}' in text or f"test_{row.lower()}_" in text, row
    assert "test_a_cancelled_caller_does_not_stop_a_begun_write" in text  # S13


def test_rows_f_and_m_of_the_acceptance_table_each_have_a_test() -> None:
    rows = (
        {f"F{n}" for n in range(1, 38)}
        | {"F18a", "F18b", "F18c", "F31b", "F32b", "F32c"}
        | {f"M{n}" for n in range(1, 6)}
    )
    text = "".join(
        path.read_text()
        for path in (ROOT / "tests").rglob("*.py")
        if path.name != "test_requirements.py"
    )
    elsewhere = {
        "F21": "files/test_confinement.py",
        "F33": "files/test_properties.py",
        "F36": "files/test_workers.py",
    }
    for row in rows - elsewhere.keys():
        assert f'"{row}' in text or f"test_{row.lower()}_" in text, row
    assert all((ROOT / "tests" / file).exists() for file in elsewhere.values())
