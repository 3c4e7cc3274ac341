"""MCP over stdio: every request gets one answer, and stdout carries nothing but the protocol.

The official SDK's server answers (`mcp`). This is its transport, stricter than the SDK's own: a
line that is not JSON is answered with -32700, and JSON that is not a JSON-RPC request with -32600.
The SDK would ignore both, and the client would wait forever. Whatever else the process prints goes
to stderr.

All that waits is bounded. Beyond a number of requests in flight the next ones wait in the pipe, and
so they do if the client does not take its answers. When the input ends, the requests that have
begun are answered before the server stops.

Lines over pipes, none of which blocks the loop. What waits on either side is bounded.

A thread reads and another one writes: a descriptor may be a pipe, a socket, a terminal or a file,
not all of which can be watched. Threads are daemons: a blocking read or write can neither be
cancelled nor delay the end of the process.
"""

import asyncio
import fcntl
import itertools
import logging
import os
import select
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import anyio
import orjson
from mcp.server.lowlevel import Server
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)

from abilities.adapters.mcp import create_server
from abilities.adapters.messages import (
    InvalidMessage,
    RequestId,
    format_answer,
    format_error,
    is_id,
    parse_message,
)
from abilities.application import Abilities

MAX_LINE = 1024 * 1024
"""Bytes of one incoming line; a longer one is skipped."""
TOO_LONG = b""
"""Stands for a line over the limit; a line that was read is never empty."""

_READ_AHEAD = 64
"""Lines that are read before anybody takes the first of them."""
_WRITE_AHEAD = 16
"""Lines that are accepted before the first of them is written."""
_CHUNK_BYTES = 64 * 1024
_HANG_UP_SECONDS = 1.0
"""How often a reader that is not read from looks whether the other side is still there."""
_HANG_UP = select.POLLHUP | getattr(select, "POLLRDHUP", 0)  # a socket may be closed by half


class LineReader:
    """Reads the lines of a descriptor, a bounded number of them ahead.

    ``ended`` is set when no more input can come, even if lines of it are not read yet.
    """

    def __init__(self, descriptor: int) -> None:
        self.ended = asyncio.Event()
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._room = threading.Semaphore(_READ_AHEAD)

        threading.Thread(target=self._read_lines, name="abilities-stdin", daemon=True).start()

    async def read(self) -> bytes | None:
        """Return the next line, or None at the end of the input."""
        line = await self._lines.get()
        self._room.release()
        return line

    def _read_lines(self) -> None:
        splitter = LineSplitter()
        is_open = True

        while is_open:
            chunk = self._read_chunk()
            is_open = bool(chunk)
            for line in splitter.split(chunk):
                self._wait_for_room()
                is_open &= _notify(self._loop, self._lines.put_nowait, line)

        _notify(self._loop, self._lines.put_nowait, None)
        _notify(self._loop, self.ended.set)

    def _read_chunk(self) -> bytes:
        """Return what is there when something is, or nothing at the end."""
        while True:
            try:
                return os.read(self._descriptor, _CHUNK_BYTES)
            except BlockingIOError:  # made so by somebody who shares the descriptor
                _watch(self._descriptor, select.POLLIN).poll()
            except OSError:  # a terminal or a socket that has gone
                return b""

    def _wait_for_room(self) -> None:
        """Wait until a line is taken, and look now and then whether more can come."""
        hang_up = _watch(self._descriptor, _HANG_UP)

        while not self._room.acquire(timeout=_HANG_UP_SECONDS):
            if any(events & _HANG_UP for _, events in hang_up.poll(0)):
                _notify(self._loop, self.ended.set)


def _watch(descriptor: int, events: int) -> select.poll:
    poll = select.poll()
    poll.register(descriptor, events)
    return poll


class LineSplitter:
    """Splits the chunks of an input into lines without their ends, and without blank ones.

    A line over the limit becomes `TOO_LONG`, and is never held in memory as a whole.
    """

    def __init__(self) -> None:
        self._line = bytearray()
        self._is_skipping = False

    def split(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines that end in a chunk; an empty one ends the last line."""
        *ends, rest = chunk.split(b"\n")
        if not chunk:
            ends.append(rest)

        for end in ends:
            self._line += end

            if self._is_skipping or len(self._line) > MAX_LINE:
                yield TOO_LONG
            elif self._line.strip():
                yield bytes(self._line)

            self._line = bytearray()
            self._is_skipping = False

        self._line += rest
        if len(self._line) > MAX_LINE:
            self._line = bytearray()
            self._is_skipping = True


class LineWriter:
    """Writes lines to a descriptor, in order. ``count`` grows with every piece that was taken."""

    def __init__(self, descriptor: int) -> None:
        self.count = 0
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Semaphore(_WRITE_AHEAD)
        self._failed = asyncio.Event()
        self._lines: deque[bytes] = deque()
        self._has_lines = threading.Semaphore(0)

        threading.Thread(target=self._write_lines, name="abilities-stdout", daemon=True).start()

    async def write(self, line: bytes) -> None:
        """Write a line, as soon as the lines before it leave room. Raises BrokenPipeError."""
        await self._room.acquire()

        if self._failed.is_set():
            self._room.release()  # for whoever waits as well
            raise BrokenPipeError

        self._lines.append(line + b"\n")
        self._has_lines.release()

    async def flush(self) -> None:
        """Wait until all lines are written. Raises BrokenPipeError."""
        for _ in range(_WRITE_AHEAD):
            await self._room.acquire()

        for _ in range(_WRITE_AHEAD):
            self._room.release()

        if self._failed.is_set():
            raise BrokenPipeError

    async def wait_for_failure(self) -> None:
        """Wait until nobody reads any more. Raises BrokenPipeError then."""
        await self._failed.wait()
        raise BrokenPipeError

    def _write_lines(self) -> None:
        while True:
            self._has_lines.acquire()

            try:
                self._write_line(self._lines.popleft())
            except OSError:
                # Whoever waits for room must learn of it.
                _notify(self._loop, self._failed.set)
                _notify(self._loop, self._room.release)
                return

            if not _notify(self._loop, self._room.release):
                return

    def _write_line(self, line: bytes) -> None:
        remaining = memoryview(line)

        while remaining:
            written = os.write(self._descriptor, remaining[:_CHUNK_BYTES])
            remaining = remaining[written:]
            self.count += 1


def _notify(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *values: object) -> bool:
    """Call something in a loop; return False if the loop has ended meanwhile."""
    try:
        loop.call_soon_threadsafe(call, *values)
    except RuntimeError:  # it is closed
        return False

    return True


MAX_REQUESTS = 64
"""Requests that may be in flight at the same time; the next ones wait."""

DRAIN_SECONDS = 12.0
"""How long the server waits for an answer to be ready and taken after the input has ended.

A call takes at most ten seconds.
"""

_CANCELLED = "notifications/cancelled"
_PIPE_BYTES = 1024 * 1024
"""The largest pipe that Linux grants to every process (pipe(7))."""

_log = logging.getLogger("abilities")


async def serve_stdio(abilities: Abilities) -> None:
    """Serve MCP on this process's stdin and stdout until stdin ends or nobody reads stdout.

    They stay the protocol's: a plugin may print until the process ends, and the client still read.
    """
    stdio = _claim_stdio()
    await serve_pipes(abilities, stdio.stdin, stdio.stdout)


async def serve_pipes(abilities: Abilities, stdin: int, stdout: int) -> None:
    """Serve MCP on two descriptors until the input ends or nobody reads the output."""
    connection = _Connection(create_server(abilities), LineReader(stdin), LineWriter(stdout))

    try:
        await connection.serve()
    except* BrokenPipeError:
        _log.info("the client went away")
    except* _NothingMoves:
        _log.info("the client takes no answers")


class _NothingMoves(Exception):
    """The input has ended, and nothing more is answered or taken."""


class _Stdio(NamedTuple):
    """The descriptors of the process's original stdin and stdout."""

    stdin: int
    stdout: int


def _claim_stdio() -> _Stdio:
    """Keep stdin and stdout for the protocol; others read nothing and print to stderr from now."""
    sys.stdout.flush()
    # Descriptors rather than sys.stdin and sys.stdout: subprocesses and C libraries use them too.
    stdio = _Stdio(os.dup(0), os.dup(1))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    _widen_pipe(stdio.stdout)

    # Whoever opened them may have made them non-blocking, but threads wait on them here.
    for descriptor in stdio:
        os.set_blocking(descriptor, True)

    return stdio


def _widen_pipe(descriptor: int) -> None:
    """Make room in a pipe for a whole reply, if the system can.

    By default a pipe holds 64 KiB, and its reader is woken once per that much.
    """
    if not hasattr(fcntl, "F_SETPIPE_SZ"):
        return

    with suppress(OSError):
        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


class _Connection:
    """Hands the messages of one client to the SDK's server, and its answers to the client."""

    def __init__(self, server: Server[Any], reader: LineReader, writer: LineWriter) -> None:
        self._server = server
        self._reader = reader
        self._writer = writer
        self._requests = _RequestsInFlight()
        # No buffers: what the server has not taken yet waits as a line, of which there are few.
        self._to_server, self._received = anyio.create_memory_object_stream[
            SessionMessage | Exception
        ](0)
        self._sent, self._from_server = anyio.create_memory_object_stream[SessionMessage](0)

    async def serve(self) -> None:
        """Answer until the input has ended and all requests are answered.

        Raises BrokenPipeError if nobody reads the answers any more, and _NothingMoves if the input
        has ended and they are not taken.
        """
        async with asyncio.TaskGroup() as group:
            watchers = [
                group.create_task(self._give_up()),
                group.create_task(self._writer.wait_for_failure()),
            ]
            serving = group.create_task(self._run_server())
            answering = group.create_task(self._send_answers())

            while (line := await self._reader.read()) is not None:
                await self._receive(line)

            await self._requests.wait_until_none()
            await self._to_server.aclose()
            await asyncio.wait([serving, answering])
            await self._writer.flush()

            for watcher in watchers:
                watcher.cancel()

    async def _give_up(self) -> None:
        """Raise _NothingMoves if the input has ended and nothing more is answered or taken."""
        await self._reader.ended.wait()
        count = -1

        while count != self._writer.count:
            count = self._writer.count
            await asyncio.sleep(DRAIN_SECONDS)

        raise _NothingMoves

    async def _run_server(self) -> None:
        """Let the SDK answer until nothing more is sent to it."""
        options = self._server.create_initialization_options()
        options.capabilities.experimental = None  # before 2.3 the SDK sends an empty object
        await self._server.run(self._received, self._sent, options)

    async def _receive(self, line: bytes) -> None:
        """Answer a line that is no message, and hand on a message when there is room for it."""
        try:
            message = parse_message(line)
            if isinstance(message, JSONRPCRequest) and message.id in self._requests:
                # Without the id, because that would answer the request that has it.
                sentence = "Invalid request: its id is that of a request in flight."
                raise InvalidMessage(INVALID_REQUEST, sentence=sentence)
        except InvalidMessage as invalid:
            await self._writer.write(invalid.answer)
            return

        if isinstance(message, JSONRPCRequest):
            await self._begin(message)
        elif isinstance(message, JSONRPCNotification):
            await self._notify(message)

    async def _begin(self, request: JSONRPCRequest) -> None:
        """Hand on a request, with a number in the place of its id."""
        number = await self._requests.add(request.id)
        # Requests that the client cancels are never answered; this is how they end.
        metadata = ServerMessageMetadata(on_request_unanswered=partial(self._forget, number))

        numbered = request.model_copy(update={"id": number})
        await self._to_server.send(SessionMessage(numbered, metadata))

    async def _forget(self, number: int) -> None:
        self._requests.remove(number)

    async def _notify(self, notification: JSONRPCNotification) -> None:
        """Hand on a notification; one that cancels a request names its number, if it has one."""
        if notification.method == _CANCELLED:
            params = notification.params or {}
            number = self._requests.find(params.get("requestId"))
            if number is None:
                return

            numbered = {**params, "requestId": number}
            notification = notification.model_copy(update={"params": numbered})

        await self._to_server.send(SessionMessage(notification))

    async def _send_answers(self) -> None:
        async with self._from_server:
            async for outgoing in self._from_server:
                await self._writer.write(self._format(outgoing.message))

    def _format(self, message: JSONRPCMessage) -> bytes:
        """Return a message of the server as a line, and forget the request that it answers."""
        if isinstance(message, JSONRPCResponse):
            return format_answer(self._requests.remove(message.id), "result", message.result)

        if isinstance(message, JSONRPCError):
            error = message.error.model_dump(mode="json", exclude_none=True)
            return format_error(self._requests.remove(message.id), error)

        return orjson.dumps(message.model_dump(mode="json", by_alias=True, exclude_unset=True))


class _RequestsInFlight:
    """The ids of the requests that are not answered yet, each with the server's number for it.

    Clients choose ids of any size and may take "1" and 1 for two; the SDK does not.
    """

    def __init__(self) -> None:
        self._numbers: dict[RequestId, int] = {}
        self._ids: dict[int, RequestId] = {}
        self._next = itertools.count(1)
        self._room = asyncio.Semaphore(MAX_REQUESTS)
        self._is_empty = asyncio.Event()
        self._is_empty.set()

    def __contains__(self, request_id: RequestId) -> bool:
        return request_id in self._numbers

    async def add(self, request_id: RequestId) -> int:
        """Return the number of a new request, as soon as there is room for one more."""
        await self._room.acquire()

        number = next(self._next)
        self._numbers[request_id] = number
        self._ids[number] = request_id
        self._is_empty.clear()
        return number

    def find(self, request_id: object) -> int | None:
        """Return the number of the request with an id, if it is in flight."""
        return self._numbers.get(request_id) if is_id(request_id) else None

    def remove(self, number: object) -> RequestId:
        """Forget a request by its number; return its id."""
        assert isinstance(number, int)
        request_id = self._ids.pop(number)
        del self._numbers[request_id]
        self._room.release()

        if not self._ids:
            self._is_empty.set()

        return request_id

    async def wait_until_none(self) -> None:
        """Wait until no request is in flight."""
        await self._is_empty.wait()
