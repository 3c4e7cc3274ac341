"""MCP over stdio: every request gets one answer, and stdout has nothing but the protocol.

The official SDK (`mcp`) answers the requests. This module is its transport, and is stricter than
the SDK's own: a line that is not JSON is answered with -32700, and JSON that is not a JSON-RPC
request with -32600. The SDK would ignore both, and the client would wait forever. Anything else
that the process prints goes to stderr.

All queues are bounded. When too many requests are in flight, or the client does not read its
answers, the next requests wait in the pipe. When the input ends, the server answers the requests
that have begun, and stops.

One thread reads lines and another one writes them, so that neither blocks the event loop. Polling
is no alternative: a descriptor may be a pipe, a socket, a terminal or a file, and not all of these
can be watched. The threads are daemons because a blocking read or write cannot be canceled, and
must not delay the end of the process.
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
from typing import Any

import anyio
import mcp_types as types
import orjson
from mcp.server.lowlevel import Server
from mcp.shared.message import ServerMessageMetadata, SessionMessage

from abilities.adapters.mcp import (
    InvalidMessage,
    RequestId,
    create_server,
    format_answer,
    format_error,
    is_id,
    parse_message,
)
from abilities.application import Abilities

MAX_LINE = 1024 * 1024
"""Maximum length of an incoming line in bytes. A longer one is skipped."""

TOO_LONG = b""
"""The placeholder for a line over the limit. Lines that were read are never empty."""

MAX_REQUESTS = 64
"""Maximum number of requests in flight. The next ones wait."""

DRAIN_SECONDS = 12.0
"""How long the server waits for progress after the input has ended.

Progress is an answer that is ready, or a part of one that the client takes. A call takes at most
ten seconds.
"""

_READ_AHEAD = 64
"""Lines that are read before the first of them is processed."""

_WRITE_AHEAD = 16
"""Lines that are accepted before the first of them is written."""

_CHUNK_BYTES = 64 * 1024

_PIPE_BYTES = 1024 * 1024
"""The largest pipe that Linux grants to every process (pipe(7))."""

_HANG_UP_SECONDS = 1.0
"""How often a blocked reader checks whether the other side has hung up."""

_HANG_UP = select.POLLHUP | getattr(select, "POLLRDHUP", 0)  # sockets can be half closed

_CANCELLED = "notifications/cancelled"

_log = logging.getLogger("abilities")


async def serve_stdio(abilities: Abilities) -> None:
    """Serve MCP on this process's stdin and stdout until stdin ends or stdout is closed.

    From then on the rest of the process reads nothing from stdin, and prints to stderr.
    """
    sys.stdout.flush()

    # Descriptors rather than sys.stdin and sys.stdout: subprocesses and C libraries use them too.
    stdin, stdout = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)

    # A pipe holds 64 KiB by default, and its reader would be woken once per that much of a reply.
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with suppress(OSError):
            fcntl.fcntl(stdout, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    # The parent process may have made them non-blocking, but our threads wait on them.
    os.set_blocking(stdin, True)
    os.set_blocking(stdout, True)

    await serve_pipes(abilities, stdin, stdout)


async def serve_pipes(abilities: Abilities, stdin: int, stdout: int) -> None:
    """Serve MCP on two descriptors until the input ends or the output is closed."""
    connection = _Connection(create_server(abilities), LineReader(stdin), LineWriter(stdout))

    try:
        await connection.serve()
    except* BrokenPipeError:
        _log.info("the client went away")
    except* _Stalled:
        _log.info("the client takes no answers")


class LineReader:
    """Reads the lines of a descriptor, a bounded number of them ahead.

    ``ended`` is set when no more input can come, even if some lines are not taken yet.
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
        hang_up = _watch(self._descriptor, _HANG_UP)
        is_open = True

        while is_open:
            chunk = self._read_chunk()
            is_open = bool(chunk)

            for line in splitter.split(chunk):
                # Without room nothing is read, so the end of the input would go unnoticed.
                while not self._room.acquire(timeout=_HANG_UP_SECONDS):
                    if any(events & _HANG_UP for _, events in hang_up.poll(0)):
                        _call_in_loop(self._loop, self.ended.set)

                is_open &= _call_in_loop(self._loop, self._lines.put_nowait, line)

        _call_in_loop(self._loop, self._lines.put_nowait, None)
        _call_in_loop(self._loop, self.ended.set)

    def _read_chunk(self) -> bytes:
        """Wait for input and return it. At the end of the input it is empty."""
        while True:
            try:
                return os.read(self._descriptor, _CHUNK_BYTES)
            except BlockingIOError:  # another process that shares the descriptor made it so
                _watch(self._descriptor, select.POLLIN).poll()
            except OSError:  # the terminal or socket is gone
                return b""


def _watch(descriptor: int, events: int) -> select.poll:
    poll = select.poll()
    poll.register(descriptor, events)
    return poll


class LineSplitter:
    """Splits chunks of input into lines, without line ends and without blank lines.

    A line over the limit becomes `TOO_LONG`, and is never kept in memory as a whole.
    """

    def __init__(self) -> None:
        self._line = bytearray()
        self._is_skipping = False

    def split(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines that end in a chunk. An empty chunk ends the last line."""
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
    """Writes lines to a descriptor, in order. ``count`` grows with every piece that is written."""

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
        """Accept a line for writing when there is room for it.

        Raises BrokenPipeError if the other side is closed.
        """
        await self._room.acquire()

        if self._failed.is_set():
            self._room.release()  # for other waiting writers
            raise BrokenPipeError

        self._lines.append(line + b"\n")
        self._has_lines.release()

    async def flush(self) -> None:
        """Wait until all lines are written. Raises BrokenPipeError if they cannot be."""
        for _ in range(_WRITE_AHEAD):
            await self._room.acquire()

        for _ in range(_WRITE_AHEAD):
            self._room.release()

        if self._failed.is_set():
            raise BrokenPipeError

    async def wait_for_failure(self) -> None:
        """Wait until the other side is closed, and raise BrokenPipeError."""
        await self._failed.wait()
        raise BrokenPipeError

    def _write_lines(self) -> None:
        while True:
            self._has_lines.acquire()
            remaining = memoryview(self._lines.popleft())

            try:
                while remaining:
                    written = os.write(self._descriptor, remaining[:_CHUNK_BYTES])
                    remaining = remaining[written:]
                    self.count += 1
            except OSError:
                # The release wakes a waiting writer, which then sees the failure.
                _call_in_loop(self._loop, self._failed.set)
                _call_in_loop(self._loop, self._room.release)
                return

            if not _call_in_loop(self._loop, self._room.release):
                return


def _call_in_loop(
    loop: asyncio.AbstractEventLoop, call: Callable[..., object], *values: object
) -> bool:
    """Schedule a call in a loop from another thread; return False if the loop is closed."""
    try:
        loop.call_soon_threadsafe(call, *values)
    except RuntimeError:
        return False

    return True


class _Stalled(Exception):
    """The input has ended, and the answers make no more progress."""


class _Connection:
    """Passes the messages of one client to the SDK's server, and its answers to the client."""

    def __init__(self, server: Server[Any], reader: LineReader, writer: LineWriter) -> None:
        self._server = server
        self._reader = reader
        self._writer = writer
        self._requests = _RequestsInFlight()
        # No buffers: messages that the server has not taken wait as lines, which are bounded.
        self._to_server, self._received = anyio.create_memory_object_stream[
            SessionMessage | Exception
        ](0)
        self._sent, self._from_server = anyio.create_memory_object_stream[SessionMessage](0)

    async def serve(self) -> None:
        """Serve until the input has ended and all requests are answered.

        Raises BrokenPipeError if the client closes its side of the output, and _Stalled if the
        input has ended but the client takes no answers.
        """
        options = self._server.create_initialization_options()
        options.capabilities.experimental = None  # before 2.3 the SDK sends an empty object

        async with asyncio.TaskGroup() as group:
            watchers = [
                group.create_task(self._give_up()),
                group.create_task(self._writer.wait_for_failure()),
            ]
            serving = group.create_task(self._server.run(self._received, self._sent, options))
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
        """Raise _Stalled when the input has ended and the output makes no more progress."""
        await self._reader.ended.wait()
        count = -1

        while count != self._writer.count:
            count = self._writer.count
            await asyncio.sleep(DRAIN_SECONDS)

        raise _Stalled

    async def _receive(self, line: bytes) -> None:
        """Pass on a message when there is room for it, or answer a line that is no message."""
        try:
            message = parse_message(line)
            if isinstance(message, types.JSONRPCRequest) and message.id in self._requests:
                # Answered without the id, which would answer the request in flight.
                sentence = "Invalid request: its id is that of a request in flight."
                raise InvalidMessage(types.INVALID_REQUEST, sentence=sentence)
        except InvalidMessage as invalid:
            await self._writer.write(invalid.answer)
            return

        # The server sees a number in place of the client's id.
        if isinstance(message, types.JSONRPCRequest):
            number = await self._requests.add(message.id)
            request = message.model_copy(update={"id": number})

            # A request that the client cancels is never answered, and ends by this callback.
            metadata = ServerMessageMetadata(on_request_unanswered=partial(self._forget, number))
            await self._to_server.send(SessionMessage(request, metadata))

        elif isinstance(message, types.JSONRPCNotification):
            if message.method == _CANCELLED:
                params = message.params or {}
                cancelled = self._requests.find(params.get("requestId"))
                if cancelled is None:
                    return

                params = {**params, "requestId": cancelled}
                message = message.model_copy(update={"params": params})

            await self._to_server.send(SessionMessage(message))

    async def _forget(self, number: int) -> None:
        self._requests.remove(number)

    async def _send_answers(self) -> None:
        """Write the server's messages, and forget the requests that they answer."""
        async with self._from_server:
            async for outgoing in self._from_server:
                message = outgoing.message

                if isinstance(message, types.JSONRPCResponse):
                    request_id = self._requests.remove(message.id)
                    line = format_answer(request_id, "result", message.result)
                elif isinstance(message, types.JSONRPCError):
                    request_id = self._requests.remove(message.id)
                    error = message.error.model_dump(mode="json", exclude_none=True)
                    line = format_error(request_id, error)
                else:
                    dumped = message.model_dump(mode="json", by_alias=True, exclude_unset=True)
                    line = orjson.dumps(dumped)

                await self._writer.write(line)


class _RequestsInFlight:
    """The ids of the requests that are not answered yet, and the server's numbers for them.

    The server gets numbers because clients may use ids of any size, and may use both "1" and 1,
    which the SDK does not distinguish.
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
        """Wait until there is room for one more request, and return a number for it."""
        await self._room.acquire()

        number = next(self._next)
        self._numbers[request_id] = number
        self._ids[number] = request_id
        self._is_empty.clear()
        return number

    def find(self, request_id: object) -> int | None:
        """Return the number of the request in flight with this id, or None."""
        return self._numbers.get(request_id) if is_id(request_id) else None

    def remove(self, number: object) -> RequestId:
        """Forget the request with this number, and return its id."""
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
