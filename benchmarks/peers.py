"""MCP servers in processes of their own, spoken to by the barest client: a line out, a line in."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

NPM = Path(__file__).parent.parent / ".venv" / "bench"
RIVAL = "@modelcontextprotocol/server-filesystem"
RIVAL_VERSION = "2026.8.31"
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}


class Peer:
    """A running server after its handshake; ``received`` is the length of the last answer in bytes."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **environment},
        )
        self._number = 0
        self.received = 0

    def __enter__(self) -> Self:
        self.ask("initialize", HELLO)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
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


def ours(agent: Path, workspace: Path) -> Peer:
    """``abilities mcp`` on two roots."""
    environment = {
        "ABILITIES_AGENT_DIR": str(agent),
        "ABILITIES_WORKSPACE_DIR": str(workspace),
        "ABILITIES_MAX_RESPONSE_BYTES": "1000000",
    }
    return Peer([sys.executable, "-m", "abilities", "mcp"], environment)


def rival(workspace: Path) -> Peer:
    """The official filesystem server, installed with npm on first use."""
    script = NPM / "node_modules" / RIVAL / "dist" / "index.js"
    if not script.exists():
        npm = shutil.which("npm")
        assert npm, "comparing with the official server needs Node.js and npm"
        NPM.mkdir(parents=True, exist_ok=True)
        install = [npm, "install", "--silent", "--no-audit", "--no-fund", f"{RIVAL}@{RIVAL_VERSION}"]
        subprocess.run(install, cwd=NPM, check=True)
    return Peer(["node", str(script), str(workspace)], {})
