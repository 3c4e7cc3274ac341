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


class Result(NamedTuple):
    """The result of one run of a tool, or of a client with what was written for another one."""

    name: str
    passed: bool
    words: str


def run_setups(folder: Path, tools: Path, variables: dict[str, str]) -> Iterator[Result]:
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


def _run_typescript(client: Client, file: Path, tools: Path, variables: dict[str, str]) -> Result:
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
    return Result(f"TypeScript client, {client.name}", paths == ["a.txt"], words)


def _run_inspector(client: Client, file: Path, tools: Path, variables: dict[str, str]) -> Result:
    options = ["--config", str(file), "--server", "abilities", "--method", "tools/call"]
    options += ["--tool-name", "file_list", "--tool-arg", "pattern=*.txt", "output_format=json"]
    reply = call_inspector(tools, variables, *options)
    text = json.loads(reply["content"][0]["text"]) if reply.get("content") else {}
    paths = [found["path"] for found in text.get("files", [])]
    return Result(f"Inspector, {client.name}", paths == ["a.txt"], ", ".join(paths))


def call_inspector(tools: Path, variables: dict[str, str], *options: str) -> dict[str, Any]:
    """Return what the Inspector prints, nothing if it fails."""
    inspector = tools / "node_modules" / "@modelcontextprotocol" / "inspector"
    launcher = inspector / "clients" / "launcher" / "build" / "index.js"
    return _run(["node", str(launcher), "--cli", *options], tools, variables)


def _run(command: list[str], folder: Path, variables: dict[str, str]) -> dict[str, Any]:
    """Return the JSON object that a program prints, an empty one if it fails."""
    done = subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, timeout=SECONDS, text=True
    )

    try:
        done.check_returncode()
        reply: dict[str, Any] = json.loads(done.stdout)
    except (ValueError, subprocess.CalledProcessError):
        sys.stderr.write(done.stdout + done.stderr)
        return {}
    return reply
