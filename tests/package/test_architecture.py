"""The architecture: which folder may import which, and what is public."""

import ast
import builtins
import re
import sys
from graphlib import TopologicalSorter
from typing import get_args

import pytest

import abilities
from abilities.declarations.refusals import FAULTS, Reason
from tests.support.sources import ROOT, list_modules

_TABLE_OF_IMPORTS = """
declarations:
helpers.walk:
helpers.durable:
helpers.importing:
helpers.threads: declarations
helpers.embedder: declarations
helpers.tokens: declarations helpers.durable
helpers.grants: declarations helpers.tokens
helpers.text: declarations
helpers.search: helpers.importing helpers.text
helpers.documents: declarations helpers.threads
helpers.files: declarations helpers.documents helpers.text helpers.threads
helpers.reply: declarations helpers.text
helpers.store: declarations helpers.durable helpers.files helpers.search helpers.walk
helpers.store.sqlite: declarations helpers.durable helpers.search helpers.store helpers.threads
helpers.store.postgres: declarations helpers.search helpers.store helpers.threads
helpers.store.opening: helpers.search helpers.store helpers.store.postgres helpers.store.sqlite
helpers.memory: declarations helpers.embedder helpers.files helpers.reply helpers.search
    helpers.store helpers.text helpers.threads helpers.walk
helpers.batch: declarations helpers.files helpers.memory helpers.reply helpers.search helpers.store
    helpers.text helpers.walk
helpers.transfer: declarations helpers.durable helpers.files helpers.store helpers.text
errors: declarations
definition: declarations helpers.files helpers.memory helpers.reply
registry: declarations definition errors helpers.reply helpers.threads
decorator: declarations definition
plugins: declarations definition errors helpers.documents registry
embedders: errors helpers.embedder helpers.memory plugins
settings: declarations helpers.files helpers.memory helpers.search helpers.store
    helpers.store.opening helpers.tokens
builtin: declarations definition helpers.batch helpers.files helpers.memory helpers.reply
    helpers.store helpers.text helpers.walk
application: builtin declarations definition embedders helpers.embedder helpers.files helpers.memory
    helpers.store helpers.store.opening helpers.threads plugins registry settings
abilities: application declarations decorator definition errors helpers.files helpers.reply registry
    settings
prompts: application declarations definition helpers.files helpers.memory helpers.store registry
adapters: application declarations definition errors helpers.threads prompts registry
    settings
adapters.langgraph_store: adapters declarations definition errors helpers.memory helpers.search
    helpers.store
explorer: adapters builtin declarations decorator definition helpers.files helpers.memory
    helpers.reply registry
server: adapters application builtin declarations definition errors explorer helpers.grants
    helpers.reply helpers.threads helpers.tokens prompts registry settings
clients: declarations helpers.durable settings
hooks: application builtin declarations helpers.durable helpers.files helpers.memory prompts
    settings
mirror: declarations definition helpers.files helpers.memory helpers.store
cli: adapters application builtin clients declarations definition embedders errors helpers.embedder
    helpers.files helpers.grants helpers.importing helpers.memory helpers.reply helpers.store
    helpers.store.opening helpers.store.sqlite helpers.tokens helpers.transfer helpers.walk hooks
    mirror prompts registry server settings
__main__: cli hooks
"""
ALLOWED_IMPORTS = {
    row: targets.split()
    for row, targets in re.findall(r"^([\w.]+):((?:.|\n )*)", _TABLE_OF_IMPORTS, re.M)
}
"""The rows of the law: each names a module or folder, and lists the rows that it may import.

Everything that is not listed is forbidden. Names stand without their leading ``abilities.``.

- A module belongs to the longest row that begins its name, and may always import its own row.
- The row ``abilities`` stands for ``abilities/__init__.py`` alone.
- ``helpers`` has no row: only a docstring lies directly in it, and nobody may import it.
"""

MODULE_NAMES = {module.name for module in list_modules()}
FOLDER_NAMES = sorted({name.rpartition(".")[0] for name in MODULE_NAMES} & MODULE_NAMES)


def find_row(name: str) -> str | None:
    """Return the row that a module belongs to; None if the table has none for it."""
    if name == "abilities":
        return name

    package, _, short_name = name.partition(".")
    if package != "abilities":
        return None

    rows = [row for row in ALLOWED_IMPORTS if f"{short_name}.".startswith(f"{row}.")]
    return max(rows, key=len, default=None)


def list_imports(tree: ast.Module) -> set[str]:
    """Return the modules of the product that a source imports, wherever in it."""
    imported: set[str] = set()

    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, "imports are absolute"
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                imported.add(submodule if submodule in MODULE_NAMES else node.module)

    top_names = ("abilities", "helpers", "declarations")
    return {name for name in imported if name.split(".")[0] in top_names}


def list_arrows(name: str, tree: ast.Module) -> set[tuple[str | None, str | None]]:
    """Return the arrows from a module's row to the other rows that its source imports."""
    row = find_row(name)
    return {(row, target) for target in map(find_row, list_imports(tree)) if target != row}


@pytest.mark.requirement("R5.5.1")
def test_arrows_run_one_way() -> None:
    arrows = set[tuple[str | None, str | None]]()
    for module in list_modules():
        arrows |= list_arrows(module.name, module.parse())

    # Each arrow that is used is listed, and each one that is listed is used.
    assert arrows == {(row, to) for row, targets in ALLOWED_IMPORTS.items() for to in targets}


def test_no_two_rows_import_each_other() -> None:
    TopologicalSorter(ALLOWED_IMPORTS).prepare()  # raises CycleError


def test_a_forbidden_import_is_noticed_wherever_it_stands() -> None:
    later = ast.parse("def later():\n    from abilities import definition, Settings, cli")

    assert list_arrows("abilities.registry", later) == {
        ("registry", "definition"),
        ("registry", "abilities"),
        ("registry", "cli"),
    }
    for nowhere in ("abilities.helpers", "abilities.utils", "helpers.walk"):
        assert list_arrows("abilities.cli.main", ast.parse(f"import {nowhere}")) == {("cli", None)}
    assert list_arrows("abilities.utils", ast.parse("import abilities.cli")) == {(None, "cli")}


def list_importers(of: str) -> set[str]:
    """Return the modules outside of the helpers that import a module, or from a folder."""
    return {
        module.name.removeprefix("abilities.")
        for module in list_modules()
        if not module.name.startswith("abilities.helpers")
        and any(f"{name}.".startswith(f"{of}.") for name in list_imports(module.parse()))
    }


@pytest.mark.requirement("R5.5.2")
def test_memory_is_reached_through_its_helper_alone() -> None:
    assert list_importers("abilities.helpers.memory.helper") == {
        *("adapters.langgraph_store.items", "adapters.langgraph_store", "application"),
        *("builtin.remember", "cli.memory", "definition", "mirror.syncing"),
    }
    assert list_importers("abilities.helpers.store") == {
        "adapters.langgraph_store.items",  # reads what a memory says of its item
        "adapters.langgraph_store",  # says what to query
        "application",  # hands the store on
        "settings",  # asks what lies beside it, and checks its URL
        "cli.memory",  # waits for a store that does not answer
        "cli.session",  # opens it for the commands that look after it
        "cli.completion",  # looks whether it may be read for keys
        "cli.store",  # looks after the store, and copies it
        "cli.checks",  # asks it whether it answers
        "mirror.notes",  # writes memories as files
        "mirror.syncing",  # compares them with files
        "mirror.folder",  # makes keys of paths, and shows names that are not UTF-8
        "prompts",  # tells keys from damaged memories
        "builtin.memories",  # says what to query
        "builtin.remember",  # says what to change
    }


def test_the_root_offers_exactly_these_names() -> None:
    names = (
        "Abilities Ability AbilityError AbilityRegistry Arguments Context Fault FileText Model "
        "Record Refused Settings ability parse_text render"
    )

    assert abilities.__all__ == names.split()
    assert all(hasattr(abilities, name) for name in abilities.__all__)


@pytest.mark.parametrize("folder", FOLDER_NAMES)
def test_no_name_hides_a_module(folder: str) -> None:
    module = __import__(folder, fromlist=["*"])

    for name in MODULE_NAMES:
        parent, _, last = name.rpartition(".")
        if parent == folder and last in vars(module):
            assert vars(module)[last] is sys.modules.get(name), f"{folder}.{last}"


def test_every_reason_has_a_fault_and_every_fault_a_reason() -> None:
    reasons = get_args(Reason)

    assert len(reasons) == len(set(reasons))
    assert set(reasons) == FAULTS.keys()


BUILT_IN_ERRORS = {
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException)
}
ERROR_ROOTS = {"AbilitiesError", "ClickException", "UsageError"}
"""Ours, and those by which the command line's library ends a command."""


def find_origins(name: str, bases: dict[str, list[str]]) -> set[str]:
    """Return the classes at which a class of ours begins."""
    if name in ERROR_ROOTS or name not in bases:
        return {name}

    return {origin for base in bases[name] for origin in find_origins(base, bases)}


def test_every_public_exception_is_beneath_the_root() -> None:
    bases: dict[str, list[str]] = {}
    for module in list_modules():
        for node in ast.walk(module.parse()):
            if isinstance(node, ast.ClassDef):
                bases[node.name] = [ast.unparse(base).rpartition(".")[2] for base in node.bases]

    for name in bases.keys() - ERROR_ROOTS:
        origins = find_origins(name, bases)
        is_public_error = not name.startswith("_") and origins & (BUILT_IN_ERRORS | ERROR_ROOTS)
        assert not is_public_error or origins & ERROR_ROOTS, name


ENGINES = ROOT / "helpers/store"
SHARED_TABLES = (
    "counters", "history", "link_counts", "links", "purged", "recall_recent", "recall_terms",
    "stale_ranks", "tags", "versions",
)  # fmt: skip
SALVAGED = {"repair.py": ["FROM links", "FROM history", "FROM link_counts"]}
"""The tables that are read row by row where they are damaged."""

_STATEMENT = re.compile(rf"\b(FROM|JOIN|INTO|UPDATE|TABLE)\s+({'|'.join(SHARED_TABLES)})\b", re.I)


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_no_algorithm_lives_in_an_engine(engine: str) -> None:
    """Engines give transactions; what a store does with them is written once, outside of them."""
    modules = sorted((ENGINES / engine).glob("*.py"))
    assert len(modules) > 3

    for module in modules:
        statements = [match[0] for match in _STATEMENT.finditer(module.read_text())]
        assert statements == SALVAGED.get(module.name, []), module.name


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
