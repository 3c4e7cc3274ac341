"""The specifications' requirements and the acceptance table: each is proved by a marked test."""

import ast
import tomllib

from abilities.declarations.values import JsonObject
from tests.support.sources import ROOT

PAGE = ROOT / "tests" / "package" / "requirements.toml"
SPECIFICATIONS: JsonObject = tomllib.loads(PAGE.read_text())["specification"]
REQUIREMENTS = {
    name: text for page in SPECIFICATIONS.values() for name, text in page["requirements"].items()
}


def marked_requirements(source: str) -> dict[str, set[str]]:
    """The tests of a source by the requirements that their marks name."""
    marked: dict[str, set[str]] = {}

    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for mark in node.decorator_list:
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.requirement":
                for name in mark.args:
                    marked.setdefault(ast.literal_eval(name), set()).add(node.name)

    return marked


def all_marked_requirements() -> dict[str, set[str]]:
    """The tests of the whole suite by the requirements that their marks name."""
    marked: dict[str, set[str]] = {}

    for path in (ROOT / "tests").rglob("test_*.py"):
        for name, tests in marked_requirements(path.read_text()).items():
            marked.setdefault(name, set()).update(tests)

    return marked


def test_every_requirement_of_the_five_specifications_is_proved_by_a_marked_test() -> None:
    assert sorted(SPECIFICATIONS) == ["1", "2", "3", "4", "5"]
    assert all(page["requirements"] for page in SPECIFICATIONS.values())
    assert len(REQUIREMENTS) >= 48
    assert REQUIREMENTS.keys() - all_marked_requirements().keys() == set()


def test_every_mark_names_a_requirement() -> None:
    assert all_marked_requirements().keys() - REQUIREMENTS.keys() == set()


def test_a_requirement_belongs_to_the_specification_that_lists_it() -> None:
    for number, page in SPECIFICATIONS.items():
        assert all(name.startswith(f"R{number}.") for name in page["requirements"])


def test_marks_are_found_in_a_source() -> None:
    source = '@pytest.mark.requirement("R1", "R2")\ndef test_a(): ...\n@other\ndef test_b(): ...\n'

    assert marked_requirements(source) == {"R1": {"test_a"}, "R2": {"test_a"}}


def test_every_test_of_the_specifications_plan_is_marked() -> None:
    source = (ROOT / "tests" / "memories" / "test_specification.py").read_text()
    planned = {
        node.name for node in ast.parse(source).body if isinstance(node, ast.AsyncFunctionDef)
    }

    proving = set().union(*marked_requirements(source).values())

    assert planned - proving == {"test_reading_changes_nothing"}


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
