"""MCP over stdio, with an answer to every line and a stdout that carries nothing but the protocol.

The SDK ignores lines that are not messages, and the client waits forever. Here a line that is not
JSON is answered with -32700, and JSON that is not a JSON-RPC message with -32600. Lines are bounded
in length and read on a thread of their own. When the input ends, the requests that have begun are
answered before the server stops. Whatever else the process prints goes to stderr.
"""

import asyncio
import fcntl
import logging
import os
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from typing import NamedTuple

import anyio
import mcp_types as types
import orjson
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from abilities.adapters.mcp import create_server
from abilities.application import Abilities
from abilities.declarations.values import as_object, parse_json

MAX_LINE = 1024 * 1024
"""Bytes of one incoming message; a longer line is skipped and answered with an error."""
DRAIN_SECONDS = 12.0
"""How long begun requests may take after the input has ended; a call takes at most ten seconds."""

_READ_AHEAD = 64
"""Lines that are read before the server takes the first of them."""
_READ_BYTES = 64 * 1024
_PIPE_BYTES = 1024 * 1024
"""The largest pipe that Linux grants to every process (pipe(7))."""
_TOO_LONG = b""
"""Stands for a line over the limit; a line that was read is never empty."""

_log = logging.getLogger("abilities")


async def serve_stdio(abilities: Abilities) -> None:
    """Serve MCP on this process's stdin and stdout until stdin ends or nobody reads stdout."""
    server = create_server(abilities)
    # No buffers: what the server has not taken yet waits as a line, of which there are few.
    to_server, requests = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    answers, from_server = anyio.create_memory_object_stream[SessionMessage](0)

    with _claim_stdio() as stdio:
        pump = _MessagePump(stdio)

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(pump.feed, to_server)
                group.start_soon(pump.drain, from_server)
                await server.run(requests, answers, server.create_initialization_options())
                group.cancel_scope.cancel()  # the pump may still wait for a line
        except* BrokenPipeError:  # nobody reads stdout any more
            _log.info("the client went away")


class _Stdio(NamedTuple):
    """The descriptors of the process's original stdin and stdout."""

    stdin: int
    stdout: int


@contextmanager
def _claim_stdio() -> Generator[_Stdio]:
    """Keep stdin and stdout for the protocol; others read nothing and print to stderr meanwhile."""
    sys.stdout.flush()
    # Descriptors rather than sys.stdin and sys.stdout: subprocesses and C libraries use them too.
    stdio = _Stdio(os.dup(0), os.dup(1))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    _widen_pipe(stdio.stdout)

    try:
        yield stdio
    finally:
        sys.stdout.flush()
        os.dup2(stdio.stdin, 0)
        os.dup2(stdio.stdout, 1)
        os.close(nothing)


def _widen_pipe(descriptor: int) -> None:
    """Make room in a pipe for a whole reply, if the system can.

    By default a pipe holds 64 KiB, and its reader is woken once per that much.
    """
    if not hasattr(fcntl, "F_SETPIPE_SZ"):
        return

    with suppress(OSError):
        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


class _MessagePump:
    """Carries messages between the process's stdio and the server's streams."""

    def __init__(self, stdio: _Stdio) -> None:
        self._stdio = stdio
        self._begun: set[str | int | None] = set()
        self._answered = asyncio.Event()

    async def feed(self, to_server: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        """Hand each message to the server, and answer the lines that are none.

        Returns when the input has ended and all requests are answered, or their time is over.
        """
        lines = _LineReader(self._stdio.stdin, asyncio.get_running_loop())

        async with to_server:
            while (line := await lines.read()) is not None:
                message = self._parse(line)
                if message is None:
                    continue

                if isinstance(message, types.JSONRPCRequest):
                    self._begun.add(message.id)
                await to_server.send(SessionMessage(message))

            with anyio.move_on_after(DRAIN_SECONDS):
                await self._wait_for_answers()

    async def _wait_for_answers(self) -> None:
        while self._begun:
            self._answered.clear()
            await self._answered.wait()

    async def drain(self, from_server: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Write what the server sends."""
        async with from_server:
            async for outgoing in from_server:
                message = outgoing.message
                payload = message.model_dump(mode="json", by_alias=True, exclude_unset=True)
                self._write(orjson.dumps(payload))

                if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
                    self._begun.discard(message.id)
                    self._answered.set()

    def _parse(self, line: bytes) -> types.JSONRPCMessage | None:
        """Return the message in a line; None if it holds none, after answering that."""
        try:
            value = parse_json(line)
        except ValueError:
            message = "Parse error: each line must be one JSON message, 1 MiB at most."
            self._refuse(None, types.PARSE_ERROR, message)
            return None

        try:
            return types.jsonrpc_message_adapter.validate_python(value, by_name=False)
        except ValidationError:
            message = "Invalid request: not a JSON-RPC 2.0 message."
            self._refuse(_find_id(value), types.INVALID_REQUEST, message)
            return None

    def _refuse(self, request_id: str | int | None, code: int, message: str) -> None:
        error = {"code": code, "message": message}
        self._write(orjson.dumps({"jsonrpc": "2.0", "id": request_id, "error": error}))

    def _write(self, line: bytes) -> None:
        """Write a whole line. A client that does not read blocks its own server, nothing else."""
        remaining = memoryview(line + b"\n")

        while remaining:
            written = os.write(self._stdio.stdout, remaining)
            remaining = remaining[written:]


def _find_id(value: object) -> str | int | None:
    """Return the id of something that looks like a request, if it has a valid one."""
    request_id: object = (as_object(value) or {}).get("id")

    if isinstance(request_id, bool) or not isinstance(request_id, str | int):
        return None

    return request_id


class _LineReader:
    """Reads lines from a descriptor on a daemon thread, a bounded number of lines ahead."""

    def __init__(self, descriptor: int, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._room = threading.BoundedSemaphore(_READ_AHEAD)

        # A daemon, because a blocking read can neither be cancelled nor delay the process's end.
        threading.Thread(
            target=self._fill_queue, args=(descriptor,), name="abilities-stdin", daemon=True
        ).start()

    async def read(self) -> bytes | None:
        """Return the next line, or None at the end of the input."""
        line = await self._queue.get()
        self._room.release()
        return line

    def _fill_queue(self, descriptor: int) -> None:
        for line in chain(_split_lines(descriptor), (None,)):
            self._room.acquire()

            # The server may have stopped while this thread was blocked in a read.
            if self._loop.is_closed():
                return
            self._loop.call_soon_threadsafe(self._queue.put_nowait, line)


def _split_lines(descriptor: int) -> Iterator[bytes]:
    """Yield the lines of a descriptor without their ends, and without blank ones.

    A line over the limit is yielded as `_TOO_LONG`, and never held in memory as a whole.
    """
    line = bytearray()
    is_skipping = False

    while chunk := os.read(descriptor, _READ_BYTES):
        *ends, rest = chunk.split(b"\n")

        for end in ends:
            line += end

            if is_skipping or len(line) > MAX_LINE:
                yield _TOO_LONG
            elif line.strip():
                yield bytes(line)

            line = bytearray()
            is_skipping = False

        line += rest
        if len(line) > MAX_LINE:
            line = bytearray()
            is_skipping = True

    if is_skipping:
        yield _TOO_LONG
    elif line.strip():
        yield bytes(line)
