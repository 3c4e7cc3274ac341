"""MCP servers in their own processes, with the smallest client: a line out, a line in."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import orjson

from abilities.declarations.values import JsonObject
from benchmarks.packages import find_node, find_server
from benchmarks.ready_made import write_results

DEFAULT_BOUND = 64_000
LARGE_BOUND = 1_000_000
BOUNDS = (DEFAULT_BOUND, LARGE_BOUND)
"""Two values of ``max_response_bytes``: the default, and room for 25 whole files in one reply."""

HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}


class Peer:
    """A running server; a context manager makes the handshake, and ends it.

    ``received`` is the length of the last line in bytes, and ``process_id`` the server's.
    """

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **environment},
        )
        self.process_id = self._process.pid
        self._last_id = 0
        self.received = 0

    def __enter__(self) -> Self:
        self.greet()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.stop()

    def greet(self) -> None:
        """Make the handshake, before the first call."""
        self.request("initialize", HELLO)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def stop(self) -> None:
        """End the server."""
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


def read_to_the_end(peer: Peer, tool: str, arguments: JsonObject) -> list[str]:
    """Call one of our tools, follow next_request to the last byte, and return the replies."""
    replies = [peer.call(tool, arguments)]
    while request := find_next_request(replies[-1]):
        replies.append(peer.call(tool, request))

    return replies


def find_next_request(reply: str) -> JsonObject | None:
    """Return what fetches the rest of a reply: its first line says it, in each of our formats."""
    first_line, _, _ = reply.partition("\n")
    request: JsonObject | None = orjson.loads(first_line).get("next_request")
    return request


def find_content(record: JsonObject) -> str:
    """Return the content of a record, which concise records hold without an envelope."""
    content: str = record.get("data", record)["content"]
    return content


def start_ours(
    base: Path,
    workspace: Path,
    store: Path | None = None,
    *,
    bound: int = LARGE_BOUND,
    tools: str = "all",
) -> Peer:
    """Start ``abilities mcp``; ``bound`` is the most bytes of a reply."""
    environment = {
        "ABILITIES_AGENT_DIR": str(base / "agent"),
        "ABILITIES_WORKSPACE_DIR": str(workspace),
        "ABILITIES_MAX_RESPONSE_BYTES": str(bound),
        "ABILITIES_STORE_URL": f"sqlite:///{store or base / 'memory.db'}",
    }
    return Peer([sys.executable, "-m", "abilities", "mcp", "--tools", tools], environment)


@contextmanager
def start_at_both_bounds(
    base: Path, workspace: Path, store: Path | None = None
) -> Iterator[dict[int, Peer]]:
    """Start ``abilities mcp`` twice, at the default bound and at the large one."""
    with ExitStack() as stack:
        yield {
            bound: stack.enter_context(start_ours(base, workspace, store, bound=bound))
            for bound in BOUNDS
        }


@contextmanager
def start_ready_made(base: Path, replies: dict[int, list[str]]) -> Iterator[dict[int, Peer]]:
    """Start a server for each bound that answers calls with ready-made replies, in turn."""
    with ExitStack() as stack:
        peers: dict[int, Peer] = {}
        for bound, texts in replies.items():
            file = base / f"replies-{bound}.jsonl"
            write_results(file, texts)
            command = [sys.executable, "-m", "benchmarks.ready_made", str(file)]
            peers[bound] = stack.enter_context(Peer(command, {}))

        yield peers


def start_filesystem_server(*folders: Path) -> Peer:
    """Start the official filesystem server."""
    return Peer([find_node(), find_server("server-filesystem"), *map(str, folders)], {})


def start_memory_server(file: Path) -> Peer:
    """Start the official memory server."""
    return Peer([find_node(), find_server("server-memory")], {"MEMORY_FILE_PATH": str(file)})


def start_basic_memory(home: Path, notes: Path, command: str) -> Peer:
    """Index a folder of notes, and start basic-memory with it; ``home`` is for its own files."""
    environment = {
        "HOME": str(home),
        "BASIC_MEMORY_HOME": str(notes),
        "BASIC_MEMORY_CONFIG_DIR": str(home / "config"),
        "BASIC_MEMORY_SEMANTIC_SEARCH_ENABLED": "false",
        "BASIC_MEMORY_AUTO_UPDATE": "false",
    }
    index = [command, "reindex", "--full", "--search"]
    subprocess.run(index, env={**os.environ, **environment}, check=True, capture_output=True)
    return Peer([command, "mcp"], environment)
