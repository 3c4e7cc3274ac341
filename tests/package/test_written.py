"""What is committed and follows from the code is what the code would write."""

from pathlib import Path

import pytest

from tests.support.sources import ROOT
from tools import reference
from tools.write import list_texts

TEXTS = list_texts()


@pytest.mark.requirement("R5.7.5")
@pytest.mark.parametrize(
    "path", [path for path in TEXTS if path != reference.PAGE], ids=lambda path: path.name
)
def test_a_file_is_what_the_code_says(path: Path) -> None:
    assert path.read_text() == TEXTS[path](), "make write"


@pytest.mark.requirement("R3.8.4", "R3.8.5")
@pytest.mark.thorough
def test_the_reference_is_that_of_the_declarations() -> None:
    assert reference.PAGE.read_text() == reference.page(), "make write"


def test_no_ability_has_left_its_declaration_behind() -> None:
    schemas = set((ROOT / "declarations" / "schemas").iterdir())

    assert schemas == {path for path in TEXTS if path.parent.name == "schemas"}
