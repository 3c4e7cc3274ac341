"""The specifications' requirements and the acceptance table: each is proved by a marked test."""

import ast

from tests.support.sources import ROOT
from tools.specification import find_marks, find_proofs, read_specification

SPECIFICATION = read_specification()
REQUIREMENTS = {item.id for item in SPECIFICATION.requirements}


def test_every_requirement_of_the_five_specifications_is_proved_by_a_marked_test() -> None:
    assert list(SPECIFICATION.documents) == ["1", "2", "3", "4", "5"]
    assert len(REQUIREMENTS) >= 140
    assert REQUIREMENTS - find_proofs().keys() == set()


def test_every_mark_names_a_requirement() -> None:
    assert find_proofs().keys() - REQUIREMENTS == set()


def test_a_requirement_belongs_to_a_document_and_a_heading() -> None:
    assert {item.document for item in SPECIFICATION.requirements} == set(SPECIFICATION.documents)
    assert {item.heading for item in SPECIFICATION.requirements} == set(SPECIFICATION.headings)


def test_a_requirement_is_a_sentence_and_says_how_it_is_met() -> None:
    for item in SPECIFICATION.requirements:
        assert item.requirement.endswith("."), item.id
        assert item.met.endswith("."), item.id
        assert not item.deviation or item.deviation.endswith("."), item.id


def test_marks_are_found_in_a_source() -> None:
    source = '@pytest.mark.requirement("R1", "R2")\ndef test_a(): ...\n@other\ndef test_b(): ...\n'

    assert list(find_marks(source)) == [("R1", "test_a"), ("R2", "test_a")]


def test_every_test_of_the_specifications_plan_is_marked() -> None:
    source = (ROOT / "tests" / "memories" / "test_specification.py").read_text()
    planned = {
        node.name for node in ast.parse(source).body if isinstance(node, ast.AsyncFunctionDef)
    }

    proving = {test for _, test in find_marks(source)}

    assert planned - proving == {"link_in_a_circle"}, "every test is marked"


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
        {f"F{n}" for n in range(1, 39)}
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
        "F36": "files/test_stalls.py",
    }
    for row in rows - elsewhere.keys():
        assert f'"{row}' in text or f"test_{row.lower()}_" in text, row
    assert all((ROOT / "tests" / file).exists() for file in elsewhere.values())
