"""An MCP server that reads nothing: it answers calls with ready-made results, in turn.

What is left is the client's own time and the pipe's: no server can be faster.
"""

import fcntl
import itertools
import os
import sys
from pathlib import Path

import orjson

_PIPE_BYTES = 1024 * 1024
_CHUNK_BYTES = 64 * 1024


def write_results(file: Path, replies: list[str]) -> None:
    """Write the results of calls that are answered with these texts, one per line."""
    results = [
        {"content": [{"text": reply, "type": "text"}], "isError": False} for reply in replies
    ]
    file.write_bytes(b"\n".join(map(orjson.dumps, results)))


def serve(file: Path) -> None:
    """Answer each request on stdin: a call with the next result of a file, others with none."""
    if hasattr(fcntl, "F_SETPIPE_SZ"):  # as our server does
        fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    results = itertools.cycle(file.read_bytes().split(b"\n"))

    for line in sys.stdin.buffer:
        request = orjson.loads(line)
        if "id" not in request:
            continue

        result = next(results) if request["method"] == "tools/call" else b"{}"
        _write(b'{"jsonrpc":"2.0","id":%d,"result":%b}\n' % (request["id"], result))


def _write(line: bytes) -> None:
    remaining = memoryview(line)
    while remaining:
        written = os.write(1, remaining[:_CHUNK_BYTES])
        remaining = remaining[written:]


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
