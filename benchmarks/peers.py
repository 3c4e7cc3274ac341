"""MCP servers in processes of their own, spoken to by the barest client: a line out, a line in."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

HERE = Path(__file__).parent
NPM = HERE.parent / ".venv" / "npm"
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
"""With the environment's own Node.js first."""
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}


class Peer:
    """A running server after its handshake; ``received`` is the length of the last answer in bytes."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PATH": PATH, **environment},
        )
        self._number = 0
        self.received = 0

    def __enter__(self) -> Self:
        self.ask("initialize", HELLO)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its result."""
        self._number += 1
        self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        assert self._process.stdout
        while True:
            line = self._process.stdout.readline()
            assert line, "the server ended"
            answer = json.loads(line)
            if answer.get("id") == self._number:
                self.received = len(line)
                result: dict[str, Any] = answer["result"]
                return result

    def call(self, name: str, arguments: dict[str, Any]) -> str:
        """Call a tool and return its text."""
        result = self.ask("tools/call", {"name": name, "arguments": arguments})
        assert not result.get("isError"), result
        return "".join(part["text"] for part in result["content"])

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()


def ours(agent: Path, workspace: Path, store: Path | None = None) -> Peer:
    """``abilities mcp`` on two roots."""
    environment = {
        "ABILITIES_AGENT_DIR": str(agent),
        "ABILITIES_WORKSPACE_DIR": str(workspace),
        "ABILITIES_MAX_RESPONSE_BYTES": "1000000",
        "ABILITIES_STORE_URL": f"sqlite:///{store or agent / 'memory.db'}",
    }
    return Peer([sys.executable, "-m", "abilities", "mcp"], environment)


def filesystem(workspace: Path) -> Peer:
    """The official filesystem server."""
    return Peer(["node", _script("server-filesystem"), str(workspace)], {})


def memory(file: Path) -> Peer:
    """The official memory server."""
    return Peer(["node", _script("server-memory")], {"MEMORY_FILE_PATH": str(file)})


def _script(name: str) -> str:
    """Where an official server is; installed with npm on first use."""
    given = (HERE / "package.json").read_text()
    if not (NPM / "package.json").exists() or (NPM / "package.json").read_text() != given:
        npm = shutil.which("npm", path=PATH)
        assert npm, (
            "comparing with the official servers needs Node.js and npm; make bench installs them"
        )
        NPM.mkdir(parents=True, exist_ok=True)
        shutil.copy(HERE / "package.json", NPM)
        install = [
            npm,
            "install",
            "--silent",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--no-package-lock",
        ]
        subprocess.run(install, cwd=NPM, check=True, env={**os.environ, "PATH": PATH})
    return str(NPM / "node_modules" / "@modelcontextprotocol" / name / "dist" / "index.js")
