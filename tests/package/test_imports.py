"""What is imported: a start must not wait for libraries that it does not use."""

import ast
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest

import abilities
from abilities.cli.importing import defer_packages
from abilities.cli.main import _COMMANDS, main
from tests.support.sources import ROOT

OPTIONAL = {
    "fastapi", "fastembed", "langchain_core", "mcp", "model2vec", "networkx", "numpy",
    "opentelemetry", "prometheus_client", "psycopg", "psycopg_pool", "starlette", "toon_format",
    "uvicorn",
}  # fmt: skip
"""Libraries of a surface, a store or a format that the commands below do not use."""

MODELS = {
    f"abilities.declarations.{name}"
    for name in (
        *("bulk_read_memory", "file_list", "kv_memory", "memories", "memory_history"),
        *("memory_read_bulk", "read", "recall", "remember"),
    )
}
"""Models of abilities: making them all takes longer than a call."""

COMMANDS = {
    "--help": (
        ["--help"],
        OPTIONAL | {"abilities.application", "asyncio", "orjson", "pydantic", "rich", "sqlite3"},
    ),
    "call": (
        ["call", "file_read_bulk", '{"paths": ["none.txt"]}'],
        OPTIONAL
        | (MODELS - {"abilities.declarations.read"})  # the items of a batch are those of `read`
        | {"abilities.helpers.store.postgres", "abilities.helpers.transfer", "rich"},
    ),
    "call of a stored memory": (
        ["call", "get_memory_stats"],
        OPTIONAL
        | (MODELS - {"abilities.declarations.memories"})
        | {"abilities.declarations.file_read_bulk", "abilities.helpers.batch", "rich"},
    ),
    "call --pretty": (["call", "get_memory_stats", "--pretty"], OPTIONAL),
}
"""Command lines, and the modules that none of them may import."""

CODE = """
import json, sys
from abilities.cli.main import main
sys.argv = ["abilities", *json.loads(sys.argv[1])]
try:
    main()
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_imports_no_library_that_it_does_not_use(name: str, tmp_path: Path) -> None:
    arguments, forbidden = COMMANDS[name]

    done = subprocess.run(
        [sys.executable, "-c", CODE, json.dumps(arguments)],
        cwd=tmp_path,
        env={"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout
    imported = set(json.loads(done.stderr.splitlines()[-1]))
    assert {"abilities.cli.main", "click"} <= imported
    assert imported & forbidden == set()


ASKING = """
import sys
before = set(sys.modules)
import abilities.hooks.asking
imported = set(sys.modules) - before
assert {name for name in imported if name.startswith("abilities.")} == {
    "abilities.hooks", "abilities.hooks.asking"
}
assert not {"asyncio", "click", "json", "orjson", "pydantic", "sqlite3"} & imported
"""


def test_a_hook_that_asks_a_server_imports_little() -> None:
    done = subprocess.run([sys.executable, "-c", ASKING], capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")


IMPORTING = """
import sys, abilities
surfaces = {"langchain_core", "mcp", "fastapi", "rich", "click", "toon_format"}
assert not surfaces & sys.modules.keys()

from abilities.cli.importing import defer_packages

defer_packages("mcp", "mcp.server")
import mcp.server.lowlevel
assert not {"mcp.client", "mcp.server.mcpserver"} & sys.modules.keys()

package = sys.modules["mcp"]
defer_packages("mcp")
assert sys.modules["mcp"] is package

from mcp import Client
from mcp.server import MCPServer, Server
assert Server is mcp.server.lowlevel.Server
assert {"mcp.client", "mcp.server.mcpserver"} <= sys.modules.keys()
assert mcp.Client is Client and not hasattr(mcp, "nothing")
"""


def test_importing_the_package_loads_no_surface_and_a_deferred_package_is_whole_when_used() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTING], capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")
    with pytest.raises(ModuleNotFoundError, match="no package 'no_such_package'"):
        defer_packages("no_such_package")


def test_the_list_of_commands_says_what_each_of_them_says() -> None:
    context = click.Context(main)
    commands = {name: main.get_command(context, name) for name in main.list_commands(context)}

    said = {name: command and command.get_short_help_str(200) for name, command in commands.items()}

    assert said == {name: summary for name, (_, summary) in _COMMANDS.items()}


def test_public_names_are_imported_from_where_type_checkers_see_them() -> None:
    tree = ast.parse((ROOT / "abilities" / "__init__.py").read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    seen = {alias.name: node.module or "" for node in imports for alias in node.names}

    assert sorted(abilities._MODULES) == abilities.__all__
    for name in abilities.__all__:
        assert getattr(abilities, name) is getattr(import_module(seen[name]), name)
    assert not hasattr(abilities, "Nothing")
