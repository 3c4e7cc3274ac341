"""Each extra alone does what it is for, and says in a sentence how to get the rest."""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from abilities import Settings
from abilities.errors import EXTRAS, is_installed
from tests.support.serving import serving
from tests.support.sources import ROOT
from tests.support.surfaces import environment
from tools import resolving

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


def run_without(
    extras: list[str], commands: list[list[str]], settings: Settings, home: Path
) -> list[tuple[int, str]]:
    """Return the exit codes and outputs of commands that run where extras are not installed.

    A command may begin with the URL of its store.
    """
    code = hide(*extras) + RUN_COMMANDS
    variables = {"PATH": "/usr/bin:/bin", "HOME": str(home), **environment(settings)}

    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(commands)],
        capture_output=True, text=True, env=variables, cwd=home,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    return [(answer[0], answer[1]) for answer in map(json.loads, done.stdout.splitlines())]


def test_every_extra_is_installed_where_the_tests_run() -> None:
    assert [extra for extra in EXTRAS if not is_installed(extra)] == []


def test_an_extra_is_there_only_if_all_of_its_modules_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp_types", None)  # as with version 1 of the SDK

    assert [extra for extra in EXTRAS if is_installed(extra)] == ["http", "postgres"]


@pytest.mark.thorough
def test_without_extras_commands_work_and_the_others_say_what_is_missing(
    settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "project").mkdir()
    memory = '{"type": "core", "key": "note", "content": "x"}'
    commands = [
        ["list"],
        ["call", "store_memory", memory],
        ["graph", "note"],
        ["doctor"],
        ["serve", "--port", "0"],
        ["explore", "--no-browser"],
        ["mcp"],
        ["--workspace-dir", str(tmp_path / "project"), "demo"],
        ["setup"],
        ["postgresql://localhost/none", "call", "get_memory_stats"],
    ]

    answers = run_without(["http", "mcp", "postgres"], commands, settings, tmp_path)

    codes = [code for code, _ in answers]
    assert codes[:3] == [0, 0, 0] and codes[4:] == [2, 2, 2, 2, 2, 2]
    assert (
        "none; not installed: http (abilities serve and explore), mcp (abilities mcp and"
        in (answers[3][1])
    )
    assert "pip install 'agent-abilities[http,mcp,postgres]'" in answers[3][1]
    named = [output.partition("agent-abilities[")[2].partition("]")[0] for _, output in answers]
    assert named[4:] == ["http", "http", "mcp", "mcp", "mcp", "postgres"]
    assert all("Traceback" not in output for _, output in answers)


def test_functions_for_frameworks_need_no_extra() -> None:
    code = hide("http", "mcp", "postgres") + "import abilities.adapters.functions"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr


def fetch(address: str, body: Any = None) -> tuple[int, Any]:
    """Return the status and the JSON that a server answers."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, {"Content-Type": "application/json"})

    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)


@pytest.mark.thorough
def test_http_alone_serves_everything_but_mcp(settings: Settings, tmp_path: Path) -> None:
    code = hide("mcp", "postgres") + "from abilities.cli.main import main; main()"

    with serving(settings, tmp_path, program=("-c", code)) as server:
        assert fetch(f"{server.address}/healthz") == (200, {"status": "ok"})
        assert len(fetch(f"{server.address}/api/abilities")[1]) > 10
        status, stats = fetch(f"{server.address}/api/abilities/get_memory_stats", {})
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        refused, answer = fetch(f"{server.address}/mcp", asked)
        said = server.stop()

    assert status == 200 and "error" not in stats
    assert refused == 501 and "agent-abilities[mcp]" in answer["error"]["message"]
    assert "MCP is not served: version 2 of the MCP SDK is not installed; run: pip" in said


@pytest.mark.thorough
def test_mcp_alone_serves_its_clients(settings: Settings, tmp_path: Path) -> None:
    code = hide("postgres") + "from abilities.cli.main import main; main()"
    # The SDK brings uvicorn and starlette itself, so only the others can be missing.
    code = code.replace("'psycopg',", "'psycopg', 'fastapi', 'prometheus_client',")
    variables = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **environment(settings)}
    client = {"name": "test", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 3, "method": "logging/setLevel", "params": {"level": "info"}},
    ]

    done = subprocess.run(
        [sys.executable, "-c", code, "mcp"], env=variables, cwd=tmp_path, timeout=60,
        input="".join(f"{json.dumps(message)}\n" for message in messages).encode(),
        capture_output=True,
    )  # fmt: skip

    answers = {answer["id"]: answer for answer in map(json.loads, done.stdout.splitlines())}
    assert done.returncode == 0 and sorted(answers) == [1, 2, 3], done.stderr
    assert len(answers[2]["result"]["tools"]) > 10
    assert b"Traceback" not in done.stderr


def test_the_page_about_compatibility_has_the_bounds_of_the_project() -> None:
    page = (ROOT / "docs" / "compatibility.md").read_text()

    assert resolving.format_requirements() in page
