"""Write `tests/SPECIFICATION.md` from the requirements and the tests' marks: `make write`.

The requirements stand in `tests/package/requirements.toml`. A test names those that it proves in
`@pytest.mark.requirement("R1.1.1")`.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "tests" / "SPECIFICATION.md"
REQUIREMENTS = ROOT / "tests" / "package" / "requirements.toml"
_ID = re.compile(r"R((\d)\.\d+)\.\d+")
_HEAD = """\
# Specification

This package implements five specifications. Under the headings of each document, this page lists
its requirements in our own words, how each is met, and the tests that prove it. Where the package
does something else on purpose, the [differences](#differences) say why. `make write` writes
the page from `tests/package/requirements.toml` and the marks of the tests.
"""


class Requirement(NamedTuple):
    """A requirement of a document. ``deviation`` says what differs from it and why, or is empty."""

    id: str
    requirement: str
    met: str
    deviation: str = ""

    @property
    def document(self) -> str:
        """The number of the document, such as "1"."""
        return self._match_id()[2]

    @property
    def heading(self) -> str:
        """The number of the heading, such as "1.3"."""
        return self._match_id()[1]

    def _match_id(self) -> re.Match[str]:
        match = _ID.fullmatch(self.id)
        assert match is not None, f"{self.id} is not such as R1.2.3"
        return match


class Specification(NamedTuple):
    """All documents and headings by their numbers, and all requirements."""

    documents: dict[str, str]
    headings: dict[str, str]
    requirements: list[Requirement]


class MarkedTest(NamedTuple):
    """A test that proves a requirement, and its file relative to the root."""

    path: str
    name: str


Proofs = dict[str, list[MarkedTest]]
"""The tests by the requirements that their marks name."""


def read_specification() -> Specification:
    """Read the documents, headings and requirements."""
    tables = tomllib.loads(REQUIREMENTS.read_text(encoding="utf-8"))
    documents = tables.pop("documents")
    headings = tables.pop("headings")

    requirements = [Requirement(name, **fields) for name, fields in tables.items()]
    return Specification(documents, headings, requirements)


def find_proofs() -> Proofs:
    """Return the tests of the whole suite by the requirements that their marks name."""
    proofs: Proofs = {}

    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        source = path.read_text(encoding="utf-8")
        if "mark.requirement" not in source:
            continue
        for requirement, test in find_marks(source):
            marked = MarkedTest(str(path.relative_to(ROOT)), test)
            proofs.setdefault(requirement, []).append(marked)

    return proofs


def find_marks(source: str) -> Iterator[tuple[str, str]]:
    """Yield each requirement that a mark in a source names, with the name of the marked test."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue

        for mark in node.decorator_list:
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.requirement":
                for name in mark.args:
                    yield ast.literal_eval(name), node.name


def page() -> str:
    """Return the whole page."""
    specification = read_specification()
    proofs = find_proofs()
    requirements = specification.requirements

    parts = [_HEAD]
    for number, title in specification.documents.items():
        parts.append(f"## {number}. {title}\n")

        for heading, name in specification.headings.items():
            beneath = [item for item in requirements if item.heading == heading]
            if heading.startswith(f"{number}."):
                parts.append(describe_heading(name, beneath, proofs))

    parts.append(describe_differences(requirements))
    return "\n".join(parts)


def describe_heading(name: str, requirements: list[Requirement], proofs: Proofs) -> str:
    """Return the section of a heading: a table of its requirements."""
    rows = ["| | requirement | how it is met | tests |", "|---|---|---|---|"]

    for item in requirements:
        met = item.met
        if item.deviation:
            met += " *It [differs](#differences).*"

        tests = "<br>".join(format_link(test) for test in proofs.get(item.id, ()))
        rows.append(format_row(item.id, item.requirement, met, tests))

    return "\n".join([f"### {name}\n", *rows, ""])


def describe_differences(requirements: list[Requirement]) -> str:
    """Return the section that says what differs from the documents."""
    rows = ["| | requirement | what differs, and why |", "|---|---|---|"]

    for item in requirements:
        if item.deviation:
            rows.append(format_row(item.id, item.requirement, item.deviation))

    return "\n".join(["## Differences\n", *rows, ""])


def format_link(test: MarkedTest) -> str:
    """Return a test's name as a link to its file."""
    words = test.name.removeprefix("test_").replace("_", " ")
    return f"[{words}]({test.path.removeprefix('tests/')})"


def format_row(*cells: str) -> str:
    """Return a row of a table."""
    escaped = [cell.replace("|", "\\|") for cell in cells]
    return f"| {' | '.join(escaped)} |"
