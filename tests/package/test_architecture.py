"""The architecture: which folder may import which, what is public, and what is documented."""

import ast
import subprocess
import sys
from collections.abc import Iterable
from graphlib import TopologicalSorter

import pytest

import abilities
from tests.support.sources import Module, modules

ARROWS = {
    "abilities.declarations": (),
    "abilities.helpers.walk": (),
    "abilities.helpers.durable": (),
    "abilities.helpers.circuit_breaker": (),
    "abilities.helpers.batch": ("declarations", "helpers.circuit_breaker"),
    "abilities.helpers.workers": ("helpers.batch", "helpers.circuit_breaker"),
    "abilities.helpers.tokens": ("declarations", "helpers.durable"),
    "abilities.helpers.text": ("declarations",),
    "abilities.helpers.files": (
        "declarations",
        "helpers.batch",
        "helpers.text",
        "helpers.workers",
    ),
    "abilities.helpers.reply": ("declarations", "helpers.text"),
    "abilities.helpers.stores": ("declarations", "helpers.walk"),
    "abilities.helpers.stores.sqlite": (
        "declarations",
        "helpers.durable",
        "helpers.stores",
        "helpers.walk",
    ),
    "abilities.helpers.stores.postgres": ("declarations", "helpers.stores", "helpers.walk"),
    "abilities.helpers.stores.opening": (
        "helpers.stores",
        "helpers.stores.postgres",
        "helpers.stores.sqlite",
    ),
    "abilities.helpers.memory": (
        "declarations",
        "helpers.files",
        "helpers.reply",
        "helpers.stores",
        "helpers.text",
        "helpers.walk",
        "helpers.workers",
    ),
    "abilities.helpers.transfer": ("declarations", "helpers.durable", "helpers.stores"),
    "abilities.errors": ("declarations",),
    "abilities.definition": ("declarations", "helpers.files", "helpers.memory"),
    "abilities.registry": ("declarations", "definition", "errors", "helpers.reply", "replies"),
    "abilities.replies": ("declarations", "helpers.reply"),
    "abilities.plugins": ("definition", "registry"),
    "abilities.schemas": ("declarations", "definition"),
    "abilities.settings": (
        "declarations",
        "helpers.files",
        "helpers.memory",
        "helpers.stores.opening",
    ),
    "abilities.builtin": (
        "declarations",
        "definition",
        "helpers.files",
        "helpers.memory",
        "helpers.reply",
        "helpers.stores",
        "helpers.walk",
    ),
    "abilities.application": (
        "builtin",
        "declarations",
        "definition",
        "helpers.files",
        "helpers.memory",
        "helpers.stores",
        "helpers.stores.opening",
        "helpers.workers",
        "plugins",
        "registry",
        "replies",
        "settings",
    ),
    "abilities": (
        "application",
        "declarations",
        "definition",
        "errors",
        "helpers.files",
        "helpers.reply",
        "registry",
        "settings",
    ),
    "abilities.adapters": (
        "application",
        "declarations",
        "definition",
        "registry",
        "replies",
        "schemas",
        "settings",
    ),
    "abilities.explorer": (
        "adapters",
        "builtin",
        "declarations",
        "definition",
        "helpers.files",
        "helpers.memory",
        "helpers.reply",
        "registry",
        "replies",
    ),
    "abilities.server": (
        "adapters",
        "application",
        "builtin",
        "declarations",
        "definition",
        "explorer",
        "helpers.reply",
        "helpers.tokens",
        "replies",
        "schemas",
        "settings",
    ),
    "abilities.cli": (
        "adapters",
        "application",
        "builtin",
        "declarations",
        "definition",
        "helpers.files",
        "helpers.stores",
        "helpers.stores.opening",
        "helpers.stores.sqlite",
        "helpers.tokens",
        "helpers.transfer",
        "helpers.walk",
        "registry",
        "schemas",
        "server",
        "settings",
    ),
    "abilities.__main__": ("cli",),
}
"""Who may import whom, without the leading ``abilities.``; everything that is not listed is forbidden.

A module belongs to the longest row that begins its name, and may always import its own row. The root's row stands
for ``abilities/__init__.py`` alone; ``abilities.helpers`` has no row, because nothing lies in it directly but its
docstring.
"""

NAMES = {module.name for module in modules()}


def row_of(name: str) -> str | None:
    """The row that a module belongs to; None if the table has none for it."""
    rows = [
        row for row in ARROWS if name == row or (row != "abilities" and name.startswith(f"{row}."))
    ]
    return max(rows, key=len, default=None)


def imports(tree: ast.Module) -> set[str]:
    """The modules of the product that a source imports, wherever in it."""
    imported: set[str] = set()

    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            module = node.module or ""
            below = {f"{module}.{alias.name}" for alias in node.names} & NAMES
            imported |= below or {module}

    tops = ("abilities", "helpers", "declarations")
    return {name for name in imported if name.split(".")[0] in tops}


def violations(name: str, imported: Iterable[str]) -> set[str]:
    """The imports of a module that its row does not allow."""
    row = row_of(name)
    assert row is not None, f"{name} belongs to no row of the table"
    allowed = {row, *(f"abilities.{other}" for other in ARROWS[row])}
    return {target for target in imported if row_of(target) not in allowed}


def documented(module: Module) -> Iterable[tuple[str, bool]]:
    """Each public module, class, function and method, and whether it has a docstring."""
    tree = module.parse()
    yield module.name, ast.get_docstring(tree) is not None

    definitions: list[tuple[str, ast.AST]] = [(module.name, node) for node in tree.body]
    while definitions:
        place, node = definitions.pop()
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if node.name.startswith("_"):
            continue
        inherits = any("override" in ast.unparse(mark) for mark in node.decorator_list)
        yield f"{place}.{node.name}", inherits or ast.get_docstring(node) is not None
        if isinstance(node, ast.ClassDef):
            definitions += [(f"{place}.{node.name}", inner) for inner in node.body]


def test_arrows_run_one_way() -> None:
    arrows = 0

    for module in modules():
        if module.name == "abilities.helpers":
            assert not imports(module.parse())
            continue

        imported = imports(module.parse())
        assert not violations(module.name, imported)
        arrows += len(imported)

    assert arrows > 300


def test_no_two_rows_import_each_other() -> None:
    graph = {row: [f"abilities.{other}" for other in others] for row, others in ARROWS.items()}

    order = list(TopologicalSorter(graph).static_order())

    assert len(order) == len(ARROWS)


def test_every_arrow_of_the_table_is_used() -> None:
    used: set[tuple[str | None, str | None]] = set()

    for module in modules():
        if module.name != "abilities.helpers":
            used |= {(row_of(module.name), row_of(target)) for target in imports(module.parse())}

    listed = {(row, f"abilities.{other}") for row, others in ARROWS.items() for other in others}
    assert listed <= used


@pytest.mark.parametrize("row", ARROWS)
def test_each_row_forbids_what_it_does_not_list(row: str) -> None:
    allowed = {row, *(f"abilities.{other}" for other in ARROWS[row])}
    others = [other for other in ARROWS if other not in allowed]

    for other in others:
        source = ast.parse(f"from {other} import anything")
        assert violations(row, imports(source)) == {other}

    assert others


def test_memory_is_reached_through_its_helper_alone() -> None:
    imported = {module.name: imports(module.parse()) for module in modules()}

    knowing = {
        name for name, targets in imported.items() if "abilities.helpers.memory.helper" in targets
    }
    stores = {
        name
        for name, targets in imported.items()
        if any("helpers.stores" in target for target in targets)
        and not name.startswith("abilities.helpers")
    }

    assert knowing == {
        "abilities.application",
        "abilities.builtin.memory_read_bulk",
        "abilities.definition",
        "abilities.explorer.views",
    }
    assert stores == {
        "abilities.application",  # hands the store on
        "abilities.settings",  # checks its URL
        "abilities.cli.errors",  # says what is wrong with a copy
        "abilities.cli.session",  # opens it for the commands that look after it
        "abilities.cli.store",  # looks after the store
        "abilities.cli.store_checks",  # asks it whether it answers
        "abilities.builtin.memories",  # says what to query
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
        "render",
    ]

    assert abilities.__all__ == names == sorted(names)
    assert all(hasattr(abilities, name) for name in names)


def test_no_name_hides_a_module() -> None:
    folders = {name.rpartition(".")[0] for name in NAMES}

    for folder in folders & NAMES:
        module = __import__(folder, fromlist=["*"])
        for name in NAMES:
            parent, _, last = name.rpartition(".")
            if parent == folder and last in vars(module):
                assert vars(module)[last] is sys.modules.get(name), f"{folder}.{last}"


def test_everything_public_is_documented() -> None:
    described = {name: said for module in modules() for name, said in documented(module)}

    assert [name for name, said in described.items() if not said] == []
    assert len(described) > 600


def test_modules_and_functions_stay_small() -> None:
    lengths: list[int] = []

    for module in modules():
        assert module.path.read_text().count("\n") <= 350, module.name
        for node in ast.walk(module.parse()):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lengths.append((node.end_lineno or 0) - node.lineno + 1)

    lengths.sort()
    assert lengths[len(lengths) // 2] <= 14
    assert lengths[int(len(lengths) * 0.9)] <= 34


def test_importing_the_package_loads_no_surface() -> None:
    surfaces = ("langchain_core", "mcp", "fastapi", "rich", "click", "toon_format")
    code = f"import sys, abilities; print([m for m in {surfaces} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b"[]\n"
