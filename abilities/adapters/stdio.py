"""MCP over stdio: every request gets one answer, and stdout carries nothing but the protocol.

A line that is not JSON is answered with -32700, and JSON that is not a JSON-RPC request with
-32600; the SDK would ignore both, and the client would wait forever. Whatever else the process
prints goes to stderr.

All that waits is bounded. Beyond a number of requests in flight the next ones wait in the pipe, and
so they do if the client does not take its answers. When the input ends, the requests that have
begun are answered before the server stops.
"""

import asyncio
import fcntl
import itertools
import logging
import os
import sys
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import anyio
import mcp_types as types
import orjson
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import ServerMessageMetadata, SessionMessage

from abilities.adapters.mcp import create_server
from abilities.adapters.messages import (
    CANCELLED,
    InvalidMessage,
    Notification,
    Request,
    RequestId,
    format_answer,
    format_error,
    is_id,
    parse_message,
)
from abilities.adapters.pipes import LineReader, LineWriter
from abilities.application import Abilities

MAX_REQUESTS = 64
"""Requests that may be in flight at the same time; the next ones wait."""
DRAIN_SECONDS = 12.0
"""How long the server waits for an answer to be ready and taken after the input has ended.

A call takes at most ten seconds.
"""

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
    server = create_server(abilities)
    # No buffers: what the server has not taken yet waits as a line, of which there are few.
    to_server, requests = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    answers, from_server = anyio.create_memory_object_stream[SessionMessage](0)
    pump = _MessagePump(LineReader(stdin), LineWriter(stdout))

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(pump.feed, to_server)
            group.start_soon(pump.drain, from_server)
            group.start_soon(pump.give_up, group.cancel_scope)
            group.start_soon(pump.writer.wait_for_failure)
            await server.run(requests, answers, server.create_initialization_options())
            group.cancel_scope.cancel()  # the pump may still wait for a line
    except* BrokenPipeError:  # nobody reads any more
        _log.info("the client went away")


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


class _MessagePump:
    """Carries messages between the lines of a client and the server's streams."""

    def __init__(self, reader: LineReader, writer: LineWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._requests = RequestsInFlight()

    async def feed(self, to_server: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        """Hand each message to the server, and answer the lines that are none.

        Returns when the input has ended and all requests are answered.
        """
        async with to_server:
            while (line := await self.reader.read()) is not None:
                message = await self._receive(line)
                if message is not None:
                    await to_server.send(message)

            await self._requests.wait_until_none()
            await self.writer.flush()

    async def drain(self, from_server: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Write what the server sends."""
        async with from_server:
            async for outgoing in from_server:
                await self.writer.write(self._format(outgoing.message))

    async def give_up(self, scope: anyio.CancelScope) -> None:
        """Cancel a scope if the input has ended and nothing more is answered or taken."""
        await self.reader.ended.wait()
        count = -1

        while count != self.writer.count:
            count = self.writer.count
            await asyncio.sleep(DRAIN_SECONDS)

        scope.cancel()

    async def _receive(self, line: bytes) -> SessionMessage | None:
        """Return the message in a line, as the server gets it; None if it gets none."""
        try:
            message = parse_message(line)
        except InvalidMessage as invalid:
            await self.writer.write(invalid.answer)
            return None

        if isinstance(message, Request):
            return await self._begin(message)

        if isinstance(message, Notification):
            return self._translate(message)

        return None

    async def _begin(self, request: Request) -> SessionMessage | None:
        """Return a request under its number, when there is room for it."""
        if request.id in self._requests:
            # Without the id, because that would answer the request that has it.
            sentence = "Invalid request: its id is that of a request in flight."
            refusal = InvalidMessage(types.INVALID_REQUEST, sentence=sentence)
            await self.writer.write(refusal.answer)
            return None

        number = await self._requests.add(request.id)
        # Requests that the client cancels are never answered; this is how they end.
        metadata = ServerMessageMetadata(on_request_unanswered=partial(self._forget, number))
        return SessionMessage(request._replace(id=number).to_message(), metadata)

    async def _forget(self, number: int) -> None:
        self._requests.remove(number)

    def _translate(self, notification: Notification) -> SessionMessage | None:
        """Return a notification with the number of the request that it cancels, if it does.

        Returns None if it cancels what is not in flight.
        """
        if notification.method != CANCELLED:
            return SessionMessage(notification.to_message())

        params = notification.params or {}
        number = self._requests.find(params.get("requestId"))
        if number is None:
            return None

        cancelled = Notification(CANCELLED, {**params, "requestId": number})
        return SessionMessage(cancelled.to_message())

    def _format(self, message: types.JSONRPCMessage) -> bytes:
        """Return a message of the server as a line, and forget the request that it answers."""
        if isinstance(message, types.JSONRPCResponse):
            return format_answer(self._requests.remove(message.id), "result", message.result)

        if isinstance(message, types.JSONRPCError):
            error = message.error.model_dump(mode="json", exclude_none=True)
            return format_error(self._requests.remove(message.id), error)

        return orjson.dumps(message.model_dump(mode="json", by_alias=True, exclude_unset=True))


class RequestsInFlight:
    """The ids of the requests that have begun, each with the number that the server knows it by.

    Clients choose ids of any size and may take "1" and 1 for two; the SDK does not.
    """

    def __init__(self) -> None:
        self._numbers: dict[RequestId, int] = {}
        self._ids: dict[int, RequestId] = {}
        self._next = itertools.count(1)
        self._room = asyncio.Semaphore(MAX_REQUESTS)
        self._is_empty = asyncio.Event()
        self._is_empty.set()

    def __len__(self) -> int:
        return len(self._ids)

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
