"""MCP servers in their own processes, with the smallest client: a line out, a line in."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from abilities.declarations.values import JsonObject

HERE = Path(__file__).parent
PACKAGES = HERE / "package.json"
NPM = HERE.parent / ".venv" / "npm"
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
"""With the environment's own Node.js first."""

DEFAULT_BOUND = 64_000
LARGE_BOUND = 1_000_000
"""Two values of ``max_response_bytes``: the default, and room for 25 whole files in one reply."""

HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}


class Peer:
    """A running server after its handshake; ``received`` is the last line's length in bytes."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PATH": PATH, **environment},
        )
        self._last_id = 0
        self.received = 0

    def __enter__(self) -> Self:
        self.request("initialize", HELLO)
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

    def request(self, method: str, params: JsonObject) -> JsonObject:
        """Send a request and return its result."""
        self._last_id += 1
        self._send({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})

        assert self._process.stdout
        while True:
            line = self._process.stdout.readline()
            assert line, "the server ended"

            message = json.loads(line)
            if message.get("id") == self._last_id:
                self.received = len(line)
                result: JsonObject = message["result"]
                return result

    def call(self, name: str, arguments: JsonObject) -> str:
        """Call a tool and return its text."""
        result = self.request("tools/call", {"name": name, "arguments": arguments})
        assert not result.get("isError"), result
        return "".join(part["text"] for part in result["content"])

    def _send(self, message: JsonObject) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()


def start_ours(
    agent: Path, workspace: Path, store: Path | None = None, *, bound: int = LARGE_BOUND
) -> Peer:
    """Start ``abilities mcp`` on two roots; ``bound`` is the most bytes of a reply."""
    environment = {
        "ABILITIES_AGENT_DIR": str(agent),
        "ABILITIES_WORKSPACE_DIR": str(workspace),
        "ABILITIES_MAX_RESPONSE_BYTES": str(bound),
        "ABILITIES_STORE_URL": f"sqlite:///{store or agent / 'memory.db'}",
    }
    return Peer([sys.executable, "-m", "abilities", "mcp"], environment)


def start_filesystem_server(workspace: Path) -> Peer:
    """Start the official filesystem server."""
    return Peer(["node", find_script("server-filesystem"), str(workspace)], {})


def start_memory_server(file: Path) -> Peer:
    """Start the official memory server."""
    return Peer(["node", find_script("server-memory")], {"MEMORY_FILE_PATH": str(file)})


def find_script(name: str) -> str:
    """Return the path of an official server; all are installed with npm on first use."""
    installed = NPM / "package.json"
    if not installed.exists() or installed.read_text() != PACKAGES.read_text():
        install_servers()

    return str(NPM / "node_modules" / "@modelcontextprotocol" / name / "dist" / "index.js")


def install_servers() -> None:
    """Install the official servers beside the environment."""
    npm = shutil.which("npm", path=PATH)
    assert npm, "the official servers need Node.js and npm; `make bench` installs them"

    NPM.mkdir(parents=True, exist_ok=True)
    shutil.copy(PACKAGES, NPM)
    subprocess.run(
        [
            npm,
            "install",
            "--silent",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--no-package-lock",
        ],
        cwd=NPM,
        check=True,
        env={**os.environ, "PATH": PATH},
    )
