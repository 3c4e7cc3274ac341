"""MCP over stdio: a line pump that answers what the SDK would drop, and keeps stdout to the protocol.

Lines are bounded and read on a thread of their own. What is no JSON gets -32700, what is JSON but no
JSON-RPC message -32600; the SDK passes over both in silence, and its client waits. When the input ends,
begun requests are answered before the server stops. Whatever else the process prints goes to stderr.
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
from typing import Any

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
"""How long begun requests may take after the input has ended; a call takes ten at most."""
_AHEAD = 64  # messages read before the first of them is taken up

_PIPE_BYTES = 1024 * 1024  # the most that Linux grants everybody (pipe(7))
_log = logging.getLogger("abilities")
_TOO_LONG = b""  # stands for a line over the limit; a line that was read is never empty


async def serve_stdio(abilities: Abilities) -> None:
    """Serve MCP on this process's stdin and stdout until stdin ends or nobody reads stdout any more."""
    server = create_server(abilities)
    with _claimed() as (source, wire):
        to_server, requests = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        answers, from_server = anyio.create_memory_object_stream[SessionMessage](0)
        pump = _Pump(source, wire)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(pump.feed, to_server)
                group.start_soon(pump.drain, from_server)
                await server.run(requests, answers, server.create_initialization_options())
                group.cancel_scope.cancel()
        except* BrokenPipeError:
            _log.info("the client went away")


class _Pump:
    """Carries messages between two descriptors and the server's streams."""

    def __init__(self, source: int, wire: int) -> None:
        self._source = source
        self._wire = wire
        self._begun: set[Any] = set()
        self._settled = asyncio.Event()

    async def feed(self, to_server: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        """Pass every well-formed line on, answer the others, and end when the input has and all is answered."""
        lines = _Lines(self._source, asyncio.get_running_loop())
        async with to_server:
            while (line := await lines.next()) is not None:
                message = self._message(line)
                if message is not None:
                    if isinstance(message, types.JSONRPCRequest):
                        self._begun.add(message.id)
                    await to_server.send(SessionMessage(message))
            with anyio.move_on_after(DRAIN_SECONDS):
                while self._begun:
                    self._settled.clear()
                    await self._settled.wait()

    async def drain(self, from_server: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Write what the server sends."""
        async with from_server:
            async for outgoing in from_server:
                message = outgoing.message
                self._write(
                    orjson.dumps(message.model_dump(mode="json", by_alias=True, exclude_unset=True))
                )
                if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
                    self._begun.discard(message.id)
                    self._settled.set()

    def _message(self, line: bytes) -> types.JSONRPCMessage | None:
        """A line as a message; None when it is none and has been answered."""
        try:
            parsed = parse_json(line)
        except ValueError:
            self._refuse(
                None,
                types.PARSE_ERROR,
                "Parse error: each line must be one JSON message, 1 MiB at most.",
            )
            return None
        try:
            return types.jsonrpc_message_adapter.validate_python(parsed, by_name=False)
        except ValidationError:
            name = (as_object(parsed) or {}).get("id")
            known = name if isinstance(name, str | int) and not isinstance(name, bool) else None
            self._refuse(
                known, types.INVALID_REQUEST, "Invalid request: not a JSON-RPC 2.0 message."
            )
            return None

    def _refuse(self, name: str | int | None, code: int, message: str) -> None:
        self._write(
            orjson.dumps(
                {"jsonrpc": "2.0", "id": name, "error": {"code": code, "message": message}}
            )
        )

    def _write(self, line: bytes) -> None:
        """Write a whole line. A client that does not read blocks its own server, and nothing else."""
        left = memoryview(b"%b\n" % line)
        while left:
            left = left[os.write(self._wire, left) :]


class _Lines:
    """Lines of a descriptor, read by a daemon thread that stays a bounded number of lines ahead."""

    def __init__(self, source: int, loop: asyncio.AbstractEventLoop) -> None:
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._room = threading.BoundedSemaphore(_AHEAD)
        self._loop = loop
        threading.Thread(
            target=self._read, args=(source,), name="abilities-stdin", daemon=True
        ).start()

    async def next(self) -> bytes | None:
        """The next line, or None at the end of the input."""
        line = await self._queue.get()
        self._room.release()
        return line

    def _read(self, source: int) -> None:
        for line in chain(_split(source), (None,)):
            self._room.acquire()
            if self._loop.is_closed():
                return
            self._loop.call_soon_threadsafe(self._queue.put_nowait, line)


def _split(source: int) -> Iterator[bytes]:
    """Lines of a descriptor without their ends; blank ones are left out, one over the limit is `_TOO_LONG`."""
    held, skipping = bytearray(), False
    while chunk := os.read(source, 65536):
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            held += part
            if skipping or len(held) > MAX_LINE:
                yield _TOO_LONG
            elif held.strip():
                yield bytes(held)
            held, skipping = bytearray(), False
        held += rest
        if len(held) > MAX_LINE:
            held, skipping = bytearray(), True
    if skipping or held.strip():
        yield _TOO_LONG if skipping else bytes(held)


def _widen(wire: int) -> None:
    """Let a whole reply into the pipe at once, where the system can; by default a reader is woken every 64 KiB."""
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with suppress(OSError):
            fcntl.fcntl(wire, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


@contextmanager
def _claimed() -> Generator[tuple[int, int]]:
    """Stdin and stdout for the protocol alone: others read nothing and print to stderr meanwhile."""
    sys.stdout.flush()
    source, wire, nothing = os.dup(0), os.dup(1), os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    _widen(wire)
    try:
        yield source, wire
    finally:
        sys.stdout.flush()
        os.dup2(source, 0)
        os.dup2(wire, 1)
        os.close(nothing)
