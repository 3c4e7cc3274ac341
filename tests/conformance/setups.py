"""Start what `abilities setup` wrote with the official TypeScript client and the Inspector."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from abilities.clients.changes import ServerChange
from abilities.clients.entry import ServerEntry
from abilities.clients.table import CLIENTS, Client, Machine

HERE = Path(__file__).parent
SCRIPT = "call_file_list.mjs"
SECONDS = 120


class SetupResult(NamedTuple):
    """What a client made of the configuration that was written for another one."""

    name: str
    passed: bool
    words: str


def run_setups(folder: Path, tools: Path, variables: dict[str, str]) -> Iterator[SetupResult]:
    """Set up every client in a made-up home, and start each server from its file.

    ``tools`` is the folder in which npm has installed the programs, ``variables`` the environment
    in which node is found.
    """
    home, project = folder / "home", folder / "project"
    for path in (home, project):
        path.mkdir()
    (project / "a.txt").write_text("read")
    shutil.copy(HERE / SCRIPT, tools)

    for client in CLIENTS.values():
        file = _set_up(client, home, project)
        yield _run_typescript(client, file, tools, variables)

        if client.keys[0] == "mcpServers":
            yield _run_inspector(client, file, tools, variables)


def _set_up(client: Client, home: Path, project: Path) -> Path:
    command = [sys.executable, "-m", "abilities", "--workspace-dir", ".", "setup", client.name]
    variables = {"PATH": os.environ["PATH"], "HOME": str(home)}
    subprocess.run(
        command, cwd=project, env=variables, check=True, capture_output=True, timeout=SECONDS
    )
    return client.find_file(Machine(home, variables), None)


def _run_typescript(
    client: Client, file: Path, tools: Path, variables: dict[str, str]
) -> SetupResult:
    change = ServerChange(client, ServerEntry("", (), {}))
    entry = change.read_back(file.read_text())
    server = {
        "command": entry.command,
        "args": entry.arguments,
        "env": {"PATH": "/usr/bin:/bin", **entry.variables},
        "cwd": "/",
    }

    reply = _run(["node", SCRIPT, json.dumps(server)], tools, variables)
    paths = [found["path"] for found in reply.get("files", [])]
    words = f"{reply.get('tools', 0)} tools, {', '.join(paths)}"
    return SetupResult(f"TypeScript client, {client.name}", paths == ["a.txt"], words)


def _run_inspector(
    client: Client, file: Path, tools: Path, variables: dict[str, str]
) -> SetupResult:
    modules = tools / "node_modules" / "@modelcontextprotocol"
    launcher = modules / "inspector" / "clients" / "launcher" / "build" / "index.js"
    command = ["node", str(launcher), "--cli", "--config", str(file), "--server", "abilities"]
    command += ["--method", "tools/call", "--tool-name", "file_list"]
    command += ["--tool-arg", "pattern=*.txt", "output_format=json"]

    reply = _run(command, tools, variables)
    text = json.loads(reply["content"][0]["text"]) if reply.get("content") else {}
    paths = [found["path"] for found in text.get("files", [])]
    return SetupResult(f"Inspector, {client.name}", paths == ["a.txt"], ", ".join(paths))


def _run(command: list[str], folder: Path, variables: dict[str, str]) -> dict[str, Any]:
    """Return the JSON object that a program prints, an empty one if it fails."""
    done = subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, timeout=SECONDS, text=True
    )

    try:
        reply: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        sys.stderr.write(done.stdout + done.stderr)
        return {}

    return reply
