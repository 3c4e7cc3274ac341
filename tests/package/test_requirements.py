"""The specifications' requirements and the acceptance table: each is proved by a marked test."""

import ast

from tests.support.sources import ROOT
from tools.specification import find_marks, find_proofs, read_specification

TESTS = ROOT / "tests"


def test_every_requirement_is_proved_by_a_mark_and_every_mark_names_a_requirement() -> None:
    specification = read_specification()
    requirements = {item.id for item in specification.requirements}

    assert list(specification.documents) == ["1", "2", "3", "4", "5"]
    assert len(requirements) >= 140
    assert requirements == find_proofs().keys()


def test_every_test_of_the_specifications_plan_is_marked() -> None:
    source = (TESTS / "memories" / "test_specification.py").read_text()
    planned = {
        node.name for node in ast.parse(source).body if isinstance(node, ast.AsyncFunctionDef)
    }

    assert planned - {test for _, test in find_marks(source)} == {"link_in_a_circle"}


def test_every_row_of_the_acceptance_table_has_a_test() -> None:
    numbers = {"B": 10, "F": 38, "M": 5, "S": 14}
    rows = {f"{letter}{n}" for letter, last in numbers.items() for n in range(1, last + 1)}
    rows |= {"F18a", "F18b", "F18c", "F31b", "F32b", "F32c"}
    elsewhere = {
        "F21": "files/test_confinement.py",
        "F33": "files/test_properties.py",
        "F36": "files/test_stalls.py",
    }
    text = "".join(
        path.read_text() for path in TESTS.rglob("*.py") if path.name != "test_requirements.py"
    )

    for row in rows - elsewhere.keys() - {"S13"}:
        assert f'"{row}' in text or f"test_{row.lower()}_" in text, row
    assert "test_a_cancelled_caller_does_not_stop_a_begun_write" in text  # S13
    assert all((TESTS / file).exists() for file in elsewhere.values())
