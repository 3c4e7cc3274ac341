"""What is not installed, and what is not imported: each does without, and says what is missing."""

import ast
import json
import sys
import textwrap
from importlib import import_module
from pathlib import Path

import click
import httpx
import pytest

import abilities
from abilities import Settings
from abilities.cli.main import _COMMANDS, main
from abilities.errors import EXTRAS, FRAMEWORKS, is_installed
from abilities.helpers.importing import defer_packages
from tests.support.piped import HELLO, build_line, build_request
from tests.support.programs import run_code
from tests.support.serving import serving
from tests.support.sources import ROOT
from tests.support.surfaces import environment

MODULES = {
    "http": ["fastapi", "httptools", "opentelemetry", "prometheus_client", "pythonjsonlogger",
             "starlette", "uvicorn"],
    "mcp": ["mcp", "mcp_types"],
    "postgres": ["psycopg", "psycopg_pool"],
}  # fmt: skip
"""What is not there without an extra. MCP's SDK brings parts of the others."""

RUN_COMMANDS = """
import json, sys
from click.testing import CliRunner
from abilities.cli.main import main
for arguments in json.loads(sys.argv[1]):
    changed = {"ABILITIES_STORE_URL": arguments.pop(0)} if "://" in arguments[0] else {}
    done = CliRunner().invoke(main, arguments, input="", env=changed)
    print(json.dumps([done.exit_code, done.output]))
"""


def hide(*extras: str) -> str:
    """Return code after which the modules of extras cannot be imported."""
    names = [module for extra in extras for module in MODULES[extra]]
    return f"import sys; sys.modules.update(dict.fromkeys({names}))\n"


def test_an_extra_is_there_only_if_all_of_its_modules_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp_types", None)  # as with version 1 of the SDK

    assert [extra for extra in EXTRAS if is_installed(extra)] == ["http", "postgres"]


@pytest.mark.thorough
def test_without_extras_commands_work_and_the_others_say_what_is_missing(
    settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "project").mkdir()
    working = [
        ["list"],
        ["call", "store_memory", '{"type": "core", "key": "note", "content": "x"}'],
        ["graph", "note"],
        ["doctor"],
    ]
    refused = {  # a command may begin with the URL of its store
        ("serve", "--port", "0"): "http",
        ("explore", "--no-browser"): "http",
        ("mcp",): "mcp",
        ("--workspace-dir", str(tmp_path / "project"), "demo"): "mcp",
        ("setup",): "mcp",
        ("postgresql://localhost/none", "call", "get_memory_stats"): "postgres",
    }

    code = hide("http", "mcp", "postgres") + RUN_COMMANDS
    variables = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **environment(settings)}
    done = run_code(code, json.dumps([*working, *refused]), env=variables, cwd=tmp_path)

    answers = [json.loads(line) for line in done.stdout.splitlines()]
    codes = [code for code, _ in answers]
    named = [output.partition("agent-abilities[")[2].partition("]")[0] for _, output in answers]
    assert codes[:3] == [0, 0, 0] and codes[4:] == [2] * len(refused), done.stderr
    assert named == ["", "", "", "http,mcp,postgres", *refused.values()]
    assert all("Traceback" not in output for _, output in answers)


@pytest.mark.thorough
def test_http_alone_serves_everything_but_mcp(settings: Settings, tmp_path: Path) -> None:
    code = hide("mcp", "postgres") + "from abilities.cli.main import main; main()"

    with serving(settings, tmp_path, program=("-c", code)) as server:
        with httpx.Client(base_url=server.address) as client:
            health = client.get("/healthz").json()
            listed = client.get("/api/abilities").json()
            stats = client.post("/api/abilities/get_memory_stats", json={})
            asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            refused = client.post("/mcp", json=asked)
        said = server.stop()

    assert health == {"status": "ok"} and len(listed) > 10 and stats.status_code == 200
    assert refused.status_code == 501
    assert "agent-abilities[mcp]" in refused.json()["error"]["message"]
    assert "MCP is not served" in said


@pytest.mark.thorough
def test_mcp_alone_serves_its_clients(settings: Settings, tmp_path: Path) -> None:
    code = hide("postgres") + "from abilities.cli.main import main; main()"
    # The SDK brings uvicorn and starlette itself, so only the others can be missing.
    code = code.replace("'psycopg',", "'psycopg', 'fastapi', 'prometheus_client',")
    lines = (
        build_request(1, "initialize", HELLO),
        build_line(method="notifications/initialized"),
        build_request(2, "tools/list"),
        build_request(3, "logging/setLevel", {"level": "info"}),
    )

    variables = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **environment(settings)}
    typed = b"".join(line + b"\n" for line in lines).decode()
    done = run_code(code, "mcp", input=typed, env=variables, cwd=tmp_path)

    answers = {answer["id"]: answer for answer in map(json.loads, done.stdout.splitlines())}
    assert sorted(answers) == [1, 2, 3], done.stderr
    assert len(answers[2]["result"]["tools"]) > 10
    assert "Traceback" not in done.stderr


IMPORTED_AS = {
    "agent_framework": "agent_framework",
    "anthropic_memory": "anthropic",
    "crewai": "crewai",
    "deepagents": "deepagents",
    "google_adk": "google.adk",
    "langgraph_store": "langgraph",
    "llama_index": "llama_index",
    "openai_agents": "agents",
    "pydantic_ai": "pydantic_ai",
}
"""The modules of frameworks by their adapters; no extra installs them."""


def test_an_adapter_without_its_framework_says_what_to_type() -> None:
    code = f"""
    import importlib, sys
    import abilities.adapters.functions  # which needs no extra

    for adapter, module in {IMPORTED_AS!r}.items():
        sys.modules[module] = None
        try:
            importlib.import_module(f"abilities.adapters.{{adapter}}")
        except ImportError as error:
            print(error)
    """
    code = hide("http", "mcp", "postgres") + textwrap.dedent(code)

    done = run_code(code)

    assert IMPORTED_AS.keys() == FRAMEWORKS.keys()
    for adapter, line in zip(IMPORTED_AS, done.stdout.splitlines(), strict=True):
        assert f"adapters.{adapter} " in line
        assert line.endswith(f"pip install '{FRAMEWORKS[adapter]}'")


OPTIONAL = {
    "fastapi", "fastembed", "langchain_core", "mcp", "model2vec", "networkx", "numpy",
    "opentelemetry", "prometheus_client", "psycopg", "psycopg_pool", "starlette", "toon_format",
    "uvicorn",
}  # fmt: skip
"""Libraries of a surface, a store or a format that the commands below do not use."""

MODELS = {
    f"abilities.declarations.{name}"
    for name in ("kv_memory", "memories", "memory_reads", "read", "recall", "remember")
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
        | (MODELS - {"abilities.declarations.read"})
        | {"abilities.helpers.store.postgres", "abilities.helpers.transfer", "rich"},
    ),
    "call of a stored memory": (
        ["call", "get_memory_stats"],
        OPTIONAL
        | (MODELS - {"abilities.declarations.memories"})
        | {"abilities.helpers.batch", "rich"},
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

    done = run_code(CODE, json.dumps(arguments), cwd=tmp_path, env={"HOME": str(tmp_path)})

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
    assert run_code(ASKING).stderr == ""


ANSWERING = """
import sys
from abilities.hooks import answering
answering.answer_here("UserPromptSubmit", b'{"session_id": "s", "prompt": "Where is zephyr?"}')
from abilities.helpers.search.terms import Language, split_question
split_question("Where is zephyr?", Language())
optional = {"click", "fastapi", "langchain_core", "mcp", "psycopg", "rich", "starlette"}
assert not optional & sys.modules.keys()
assert "abilities.prompts" not in sys.modules
stemmers = {name for name in sys.modules if name.endswith("_stemmer")}
assert stemmers == {"snowballstemmer.english_stemmer"}, stemmers
from abilities.plugins import _find_points
assert not _find_points.cache_info().misses
"""


def test_a_hook_that_answers_by_itself_imports_no_surface_and_looks_for_no_plugin(
    tmp_path: Path,
) -> None:
    variables = {"HOME": str(tmp_path), "PYTHONSAFEPATH": "1"}

    assert run_code(ANSWERING, cwd=tmp_path, env=variables).stderr == ""


IMPORTING = """
import sys, abilities
surfaces = {"langchain_core", "mcp", "fastapi", "rich", "click", "toon_format"}
assert not surfaces & sys.modules.keys()

from abilities.helpers.importing import defer_packages

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
    assert run_code(IMPORTING).stderr == ""
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
