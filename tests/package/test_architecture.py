"""The architecture: which folder may import which, what is public, and what is documented."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from typing import get_args

import pytest

import abilities
from abilities.declarations.refusals import FAULTS, Reason
from tests.support.sources import Module, list_modules

ALLOWED_IMPORTS: dict[str, tuple[str, ...]] = {
    "declarations": (),
    "helpers.walk": (),
    "helpers.durable": (),
    "helpers.threads": ("declarations",),
    "helpers.embedder": (
        "declarations",
        "helpers.threads",
    ),
    "helpers.tokens": (
        "declarations",
        "helpers.durable",
    ),
    "helpers.text": ("declarations",),
    "helpers.search": ("helpers.text",),
    "helpers.files": (
        "declarations",
        "helpers.text",
        "helpers.threads",
    ),
    "helpers.reply": (
        "declarations",
        "helpers.text",
    ),
    "helpers.store": (
        "declarations",
        "helpers.durable",
        "helpers.search",
        "helpers.walk",
    ),
    "helpers.store.sqlite": (
        "declarations",
        "helpers.durable",
        "helpers.search",
        "helpers.store",
        "helpers.threads",
    ),
    "helpers.store.postgres": (
        "declarations",
        "helpers.search",
        "helpers.store",
        "helpers.threads",
    ),
    "helpers.store.opening": (
        "helpers.search",
        "helpers.store",
        "helpers.store.postgres",
        "helpers.store.sqlite",
    ),
    "helpers.memory": (
        "declarations",
        "helpers.embedder",
        "helpers.files",
        "helpers.reply",
        "helpers.search",
        "helpers.store",
        "helpers.text",
        "helpers.threads",
        "helpers.walk",
    ),
    "helpers.batch": (
        "declarations",
        "helpers.files",
        "helpers.memory",
        "helpers.reply",
        "helpers.search",
        "helpers.store",
        "helpers.text",
        "helpers.walk",
    ),
    "helpers.transfer": (
        "declarations",
        "helpers.durable",
        "helpers.store",
    ),
    "errors": ("declarations",),
    "definition": (
        "declarations",
        "helpers.files",
        "helpers.memory",
        "helpers.reply",
    ),
    "registry": (
        "declarations",
        "definition",
        "errors",
        "helpers.reply",
        "helpers.threads",
        "schemas",
    ),
    "schemas": (
        "declarations",
        "definition",
    ),
    "decorator": (
        "declarations",
        "definition",
        "schemas",
    ),
    "plugins": (
        "declarations",
        "definition",
        "registry",
        "schemas",
    ),
    "embedders": ("helpers.embedder", "helpers.memory", "plugins"),
    "settings": (
        "declarations",
        "helpers.files",
        "helpers.memory",
        "helpers.search",
        "helpers.store",
        "helpers.store.opening",
        "helpers.tokens",
    ),
    "builtin": (
        "declarations",
        "definition",
        "helpers.batch",
        "helpers.files",
        "helpers.memory",
        "helpers.reply",
        "helpers.store",
        "helpers.text",
        "helpers.walk",
        "schemas",
    ),
    "application": (
        "builtin",
        "declarations",
        "definition",
        "embedders",
        "helpers.embedder",
        "helpers.files",
        "helpers.memory",
        "helpers.store",
        "helpers.store.opening",
        "helpers.threads",
        "plugins",
        "registry",
        "settings",
    ),
    "abilities": (
        "application",
        "declarations",
        "decorator",
        "definition",
        "errors",
        "helpers.files",
        "helpers.reply",
        "registry",
        "settings",
    ),
    "prompts": (
        "application",
        "declarations",
        "helpers.files",
        "helpers.memory",
        "helpers.store",
        "registry",
        "schemas",
    ),
    "adapters": (
        "application",
        "declarations",
        "definition",
        "errors",
        "helpers.threads",
        "prompts",
        "registry",
        "schemas",
        "settings",
    ),
    "adapters.deepagents": (
        "adapters",
        "declarations",
        "errors",
    ),
    "adapters.langgraph_store": (
        "adapters",
        "declarations",
        "definition",
        "errors",
        "helpers.memory",
        "helpers.search",
        "helpers.store",
    ),
    "explorer": (
        "adapters",
        "builtin",
        "declarations",
        "decorator",
        "definition",
        "helpers.files",
        "helpers.memory",
        "helpers.reply",
        "registry",
    ),
    "server": (
        "adapters",
        "application",
        "builtin",
        "declarations",
        "definition",
        "errors",
        "explorer",
        "helpers.reply",
        "helpers.threads",
        "helpers.tokens",
        "prompts",
        "registry",
        "schemas",
        "settings",
    ),
    "clients": (
        "declarations",
        "helpers.durable",
        "settings",
    ),
    "cli": (
        "adapters",
        "application",
        "builtin",
        "clients",
        "declarations",
        "definition",
        "embedders",
        "errors",
        "helpers.embedder",
        "helpers.files",
        "helpers.memory",
        "helpers.reply",
        "helpers.store",
        "helpers.store.opening",
        "helpers.store.sqlite",
        "helpers.tokens",
        "helpers.transfer",
        "helpers.walk",
        "prompts",
        "registry",
        "schemas",
        "server",
        "settings",
    ),
    "__main__": ("cli",),
}
"""The rows of the law: each names a module or folder, and lists the rows that it may import.

Everything that is not listed is forbidden. Names stand without their leading ``abilities.``.

- A module belongs to the longest row that begins its name, and may always import its own row.
- The row ``abilities`` stands for ``abilities/__init__.py`` alone.
- ``helpers`` has no row: only a docstring lies directly in it, and nobody may import it.
"""

MODULE_NAMES = {module.name for module in list_modules()}
FOLDER_NAMES = sorted({name.rpartition(".")[0] for name in MODULE_NAMES} & MODULE_NAMES)
EMPTY_MODULE = "abilities.helpers"


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
            imported |= list_imports_from(node)

    top_names = ("abilities", "helpers", "declarations")
    return {name for name in imported if name.split(".")[0] in top_names}


def list_imports_from(node: ast.ImportFrom) -> set[str]:
    """Return what ``from X import a, b`` imports: X, or X.a if that is a module itself."""
    assert node.level == 0, "imports are absolute"
    assert node.module is not None

    imported: set[str] = set()
    for alias in node.names:
        submodule = f"{node.module}.{alias.name}"
        imported.add(submodule if submodule in MODULE_NAMES else node.module)

    return imported


def list_violations(name: str, imported: set[str]) -> set[str]:
    """Return the imports of a module that its row does not allow."""
    row = find_row(name)
    assert row is not None, f"{name} belongs to no row of the table"

    allowed = {row, *ALLOWED_IMPORTS[row]}
    return {target for target in imported if find_row(target) not in allowed}


def list_public_definitions(module: Module) -> Iterator[tuple[str, bool]]:
    """Yield each public module, class, function and method, and whether it has a docstring.

    A method that overrides another has the docstring of the one that it overrides.
    """
    tree = module.parse()
    yield module.name, ast.get_docstring(tree) is not None

    definitions: list[tuple[str, ast.AST]] = [(module.name, node) for node in tree.body]
    while definitions:
        parent, node = definitions.pop()
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if node.name.startswith("_"):
            continue

        name = f"{parent}.{node.name}"
        # An overload is documented where it is written out.
        marks = [ast.unparse(mark) for mark in node.decorator_list]
        overrides = any("override" in mark or mark == "overload" for mark in marks)
        yield name, overrides or ast.get_docstring(node) is not None

        if isinstance(node, ast.ClassDef):
            definitions += [(name, member) for member in node.body]


@pytest.mark.requirement("R5.5.1")
def test_arrows_run_one_way() -> None:
    import_count = 0

    for module in list_modules():
        imported = list_imports(module.parse())
        import_count += len(imported)

        if module.name == EMPTY_MODULE:
            assert not imported
        else:
            assert not list_violations(module.name, imported), module.name

    assert import_count > 300


def test_no_two_rows_import_each_other() -> None:
    order = list(TopologicalSorter(ALLOWED_IMPORTS).static_order())

    assert sorted(order) == sorted(ALLOWED_IMPORTS)


def test_every_arrow_of_the_table_is_used() -> None:
    used: set[tuple[str | None, str | None]] = set()

    for module in list_modules():
        row = find_row(module.name)
        used |= {(row, find_row(target)) for target in list_imports(module.parse())}

    listed = {(row, target) for row, targets in ALLOWED_IMPORTS.items() for target in targets}
    assert listed <= used


@pytest.mark.parametrize("row", ALLOWED_IMPORTS)
def test_each_row_forbids_what_it_does_not_list(row: str) -> None:
    forbidden = ALLOWED_IMPORTS.keys() - {row, *ALLOWED_IMPORTS[row]}
    importer = get_module_name(row)

    for other in forbidden:
        target = get_module_name(other)
        tree = ast.parse(f"def later():\n    from {target} import anything")
        assert list_violations(importer, list_imports(tree)) == {target}

    assert forbidden


def get_module_name(row: str) -> str:
    """Return the full name of the module or folder that a row stands for."""
    return row if row == "abilities" else f"abilities.{row}"


@pytest.mark.parametrize("target", ["abilities.helpers", "abilities.utils", "helpers.walk"])
def test_what_has_no_row_cannot_be_imported(target: str) -> None:
    tree = ast.parse(f"import {target}")

    assert list_violations("abilities.cli.main", list_imports(tree)) == {target}


def test_a_module_without_a_row_is_a_violation_itself() -> None:
    with pytest.raises(AssertionError, match="belongs to no row"):
        list_violations("abilities.utils", set())


def test_one_statement_may_import_a_module_and_a_name() -> None:
    tree = ast.parse("from abilities import schemas, Settings")

    assert list_imports(tree) == {"abilities.schemas", "abilities"}


@pytest.mark.requirement("R5.5.2")
def test_memory_is_reached_through_its_helper_alone() -> None:
    helper_users: set[str] = set()
    store_users: set[str] = set()

    for module in list_modules():
        imported = list_imports(module.parse())
        imports_store = any("helpers.store" in target for target in imported)

        if "abilities.helpers.memory.helper" in imported:
            helper_users.add(module.name)
        if imports_store and not module.name.startswith("abilities.helpers"):
            store_users.add(module.name)

    assert helper_users == {
        "abilities.adapters.langgraph_store.items",
        "abilities.adapters.langgraph_store.searching",
        "abilities.adapters.langgraph_store.store",
        "abilities.application",
        "abilities.builtin.remember",
        "abilities.cli.memory",
        "abilities.definition",
        "abilities.explorer.views",
        "abilities.helpers.batch.items",
        "abilities.helpers.batch.memories",
        "abilities.helpers.memory.answers",
        "abilities.helpers.memory.overview",
    }
    assert store_users == {
        "abilities.adapters.langgraph_store.items",  # reads what a memory says of its item
        "abilities.adapters.langgraph_store.searching",  # says what to query
        "abilities.application",  # hands the store on
        "abilities.settings",  # asks what lies beside it, and checks its URL
        "abilities.cli.backups",  # copies it
        "abilities.cli.errors",  # says what is wrong with a copy
        "abilities.cli.session",  # opens it for the commands that look after it
        "abilities.cli.completion",  # looks whether it may be read for keys
        "abilities.cli.store",  # looks after the store
        "abilities.cli.store_checks",  # asks it whether it answers
        "abilities.prompts",  # tells keys from damaged memories
        "abilities.builtin.memories",  # says what to query
        "abilities.builtin.remember",  # says what to change
    }


def test_the_root_offers_exactly_these_names() -> None:
    names = [
        "Abilities",
        "Ability",
        "AbilityError",
        "AbilityRegistry",
        "Arguments",
        "Context",
        "Fault",
        "FileText",
        "Model",
        "Record",
        "Refused",
        "Settings",
        "ability",
        "parse_text",
        "render",
    ]

    assert abilities.__all__ == names == sorted(names)
    assert all(hasattr(abilities, name) for name in names)


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


def test_everything_public_is_documented() -> None:
    definitions = {
        name: is_documented
        for module in list_modules()
        for name, is_documented in list_public_definitions(module)
    }

    assert [name for name, is_documented in definitions.items() if not is_documented] == []
    assert len(definitions) > 600


def test_importing_the_package_loads_no_surface() -> None:
    surfaces = ("langchain_core", "mcp", "fastapi", "rich", "click", "toon_format")
    code = f"import sys, abilities; print([m for m in {surfaces} if m in sys.modules])"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)

    assert done.stdout == b"[]\n"
