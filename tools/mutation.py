"""Find changes of the code that no test notices: `make mutants`.

Each of cosmic-ray's mutants of a module runs against that module's own tests, in a copy of the
tree. Results are kept in `.mutation/`, so an interrupted run continues where it stopped; a module
starts anew when it or its tests change. Survivors that `equivalent_mutants.py` explains are only
counted.

    python -m tools.mutation [MODULE ...]      # for example helpers/walk.py; all of them by default
"""

import ast
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from tools.equivalent_mutants import (
    BREAKER,
    BUDGET,
    CONFINEMENT,
    EXPLANATIONS,
    TEXT,
    WALK,
    Explanation,
)

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / ".mutation"

TESTS = {
    WALK: ["tests/memories/test_walk.py"],
    BUDGET: ["tests/files/test_properties.py", "-k", "budget or share or fits or bound"],
    TEXT: [
        "tests/files/test_properties.py",
        "tests/surfaces/test_acceptance.py",
        "-k",
        "not mcp and not http and not stdio and not cli",
    ],
    BREAKER: ["tests/files/test_circuit_breaker.py"],
    CONFINEMENT: [
        "tests/files/test_confinement.py",
        "tests/files/test_failures.py",
        "tests/surfaces/test_acceptance.py",
        "-k",
        "python or confinement or failures",
    ],
}
"""The modules that are mutated, and pytest's arguments for the tests of each."""

SIZES = {"ABILITIES_RACE_TRIES": "2000", "ABILITIES_EXAMPLES": "30"}
"""Small sizes of the long tests, which run once per mutant."""

EXCLUDED_OPERATORS = [
    r"core/ReplaceBinaryOperator_"
    r"(?!Add_Sub|Sub_Add|Mul_Div|FloorDiv_Mul|Mod_Mul|BitOr_BitAnd|BitAnd_BitOr).*",
    r"core/ReplaceComparisonOperator_.*_(Is|IsNot)",
]
"""Further operators for the same sign, which would show nothing more."""


class Definition(NamedTuple):
    """A function, class or constant of a module, and its lines."""

    name: str
    first_line: int
    last_line: int


class Survivor(NamedTuple):
    """A mutant that no test noticed."""

    module: str
    function: str
    operator: str
    line: int

    def is_explained(self) -> bool:
        """Whether an explanation covers this operator in this function."""
        return any(self[:3] == explanation[:3] for explanation in EXPLANATIONS)


class Session:
    """cosmic-ray's work on one module, in a folder of its own with a copy of the tree."""

    def __init__(self, module: str) -> None:
        self.module = module
        self._source = ROOT / module
        self._folder = RESULTS / f"{self._source.stem}-{self._hash_inputs()[:12]}"
        self._tree = self._folder / "tree"
        self._database = self._folder / "session.sqlite"
        self._settings = self._folder / "settings.toml"

    def run(self) -> list[Survivor]:
        """Try the mutants that were not tried yet, and return all that survived."""
        self._copy_tree()
        self._write_settings()

        self._call("cosmic-ray", "baseline", self._settings)
        if not self._database.exists():
            self._call("cosmic-ray", "init", self._settings, self._database)
            self._call("cr-filter-operators", self._database, self._settings)
        self._call("cosmic-ray", "exec", self._settings, self._database)

        return list(self._read_survivors())

    def _hash_inputs(self) -> str:
        """Return a hash of the module and its tests: results hold only for these."""
        tests = [ROOT / name for name in TESTS[self.module] if name.endswith(".py")]
        contents = [path.read_bytes() for path in (self._source, *tests)]
        return hashlib.sha256(b"".join(contents)).hexdigest()

    def _copy_tree(self) -> None:
        # The tree of an interrupted run may still have a mutant in it.
        shutil.rmtree(self._tree, ignore_errors=True)
        self._folder.mkdir(parents=True, exist_ok=True)

        ignored = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info")
        shutil.copytree(ROOT, self._tree, symlinks=True, ignore=ignored)

    def _write_settings(self) -> None:
        pytest = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        command = " ".join(json.dumps(part) for part in [*pytest, *TESTS[self.module]])

        self._settings.write_text(
            "[cosmic-ray]\n"
            f"module-path = {json.dumps(self.module)}\n"
            "timeout = 120.0\n"
            "excluded-modules = []\n"
            f"test-command = {json.dumps(command)}\n"
            "[cosmic-ray.distributor]\n"
            'name = "local"\n'
            "[cosmic-ray.filters.operators-filter]\n"
            f"exclude-operators = {json.dumps(EXCLUDED_OPERATORS)}\n"
        )

    def _call(self, program: str, *arguments: str | Path) -> str:
        done = subprocess.run(
            [Path(sys.executable).parent / program, *arguments],
            cwd=self._tree,
            env={**os.environ, **SIZES, "PYTHONPATH": str(self._tree)},
            check=True,
            stdout=subprocess.PIPE,
        )
        return done.stdout.decode()

    def _read_survivors(self) -> Iterator[Survivor]:
        lines = self._call("cosmic-ray", "dump", self._database).splitlines()
        definitions = list_definitions(self._source.read_text())
        tried = 0

        for line in lines:
            item, result = json.loads(line)
            if not result or result["worker_outcome"] != "normal":
                continue

            tried += 1
            if result["test_outcome"] == "survived":
                yield self._describe(item, definitions)

        print(f"{self.module}: {tried} mutants", flush=True)
        assert tried, "nothing was mutated"

    def _describe(self, item: dict[str, Any], definitions: list[Definition]) -> Survivor:
        (mutation,) = item["mutations"]
        line = mutation["start_pos"][0]
        operator = mutation["operator_name"].removeprefix("core/")
        return Survivor(self.module, find_definition(definitions, line), operator, line)


def list_definitions(source: str) -> list[Definition]:
    """Return the functions, classes and constants of a source, with their qualified names."""
    definitions: list[Definition] = []
    pending: list[tuple[str, ast.stmt]] = [("", node) for node in ast.parse(source).body]

    while pending:
        prefix, node = pending.pop()
        first_line = node.lineno
        last_line = node.end_lineno or first_line

        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{prefix}{node.name}"
            first_line = min([first_line, *(mark.lineno for mark in node.decorator_list)])
            definitions.append(Definition(name, first_line, last_line))
            pending += [(f"{name}.", inner) for inner in node.body]
        elif isinstance(node, ast.Assign | ast.AnnAssign) and not prefix:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            definitions += [
                Definition(ast.unparse(target), first_line, last_line) for target in targets
            ]

    return definitions


def find_definition(definitions: Iterable[Definition], line: int) -> str:
    """Return the name of the innermost definition with a line; '' if there is none."""
    around = [
        definition
        for definition in definitions
        if definition.first_line <= line <= definition.last_line
    ]
    innermost = min(around, key=lambda d: d.last_line - d.first_line, default=None)
    return innermost.name if innermost else ""


def list_outdated() -> list[Explanation]:
    """Return the explanations of functions that do not exist."""
    names: dict[str, set[str]] = {}
    for module in {explanation.module for explanation in EXPLANATIONS}:
        definitions = list_definitions((ROOT / module).read_text())
        names[module] = {definition.name for definition in definitions}

    return [
        explanation
        for explanation in EXPLANATIONS
        if explanation.function not in names[explanation.module]
    ]


def main() -> int:
    """Mutate the named modules, or all; return 1 if a mutant survived that nobody explained."""
    outdated = list_outdated()
    for explanation in outdated:
        print(f"{explanation.module} has no {explanation.function}; mend equivalent_mutants.py")
    if outdated:
        return 1

    table = Table("module", "survived, explained", "survived", "where")
    unexplained = 0

    for module in sys.argv[1:] or TESTS:
        survivors = Session(module).run()
        new = [survivor for survivor in survivors if not survivor.is_explained()]
        words = [f"{module}:{mutant.line} {mutant.function}: {mutant.operator}" for mutant in new]
        table.add_row(module, str(len(survivors) - len(new)), str(len(new)), "\n".join(words))
        unexplained += len(new)

    Console().print(table)
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
