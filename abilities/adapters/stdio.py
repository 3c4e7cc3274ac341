"""MCP over stdio: every request gets one answer, and stdout carries nothing but the protocol.

A line that is not JSON is answered with -32700, and JSON that is not a JSON-RPC request with
-32600; the SDK would ignore both, and the client would wait forever. Whatever else the process
prints goes to stderr.

Common requests are answered here (`direct`). All others go to the SDK's server (`sdk`), which is
imported and started when the first of them comes.

All that waits is bounded. Beyond a number of requests in flight the next ones wait in the pipe, and
so they do if the client does not take its answers. When the input ends, the requests that have
begun are answered before the server stops.
"""

import asyncio
import fcntl
import logging
import os
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from abilities.adapters.direct import CALL, DirectServer
from abilities.adapters.messages import (
    CANCELLED,
    INVALID_REQUEST,
    InvalidMessage,
    Notification,
    Request,
    parse_message,
)
from abilities.adapters.pipes import LineReader, LineWriter
from abilities.adapters.requests import RequestsInFlight
from abilities.application import Abilities
from abilities.declarations.values import JsonObject

if TYPE_CHECKING:
    from abilities.adapters.sdk import SdkServer

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
    connection = _Connection(abilities.for_caller("mcp"), LineReader(stdin), LineWriter(stdout))

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
    """Reads the messages of one client, and answers each here or through the SDK."""

    def __init__(self, abilities: Abilities, reader: LineReader, writer: LineWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._abilities = abilities
        self._requests = RequestsInFlight()
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._direct = DirectServer(abilities) if abilities.settings.mcp_loop == "own" else None
        self._sdk: SdkServer | None = None

    async def serve(self) -> None:
        """Answer until the input has ended and all requests are answered.

        Raises BrokenPipeError if nobody reads the answers any more, and _NothingMoves if the input
        has ended and they are not taken.
        """
        async with asyncio.TaskGroup() as group:
            watchers = (self._give_up(), self.writer.wait_for_failure())
            tasks = [group.create_task(watcher) for watcher in watchers]

            while (line := await self.reader.read()) is not None:
                await self._receive(line, group)

            await self._requests.wait_until_none()
            await self.writer.flush()

            if self._sdk is not None:
                await self._sdk.close()
            for task in tasks:
                task.cancel()

    async def _give_up(self) -> None:
        """Raise _NothingMoves if the input has ended and nothing more is answered or taken."""
        await self.reader.ended.wait()
        count = -1

        while count != self.writer.count:
            count = self.writer.count
            await asyncio.sleep(DRAIN_SECONDS)

        raise _NothingMoves

    async def _receive(self, line: bytes, group: asyncio.TaskGroup) -> None:
        """Answer a line that is no message, and hand on a message."""
        try:
            message = parse_message(line)
        except InvalidMessage as invalid:
            await self.writer.write(invalid.answer)
            return

        if isinstance(message, Request):
            await self._begin(message, group)
        elif isinstance(message, Notification):
            await self._notify(message, group)

    async def _begin(self, request: Request, group: asyncio.TaskGroup) -> None:
        """Begin to answer a request, when there is room for it."""
        if request.id in self._requests:
            # Without the id, because that would answer the request that has it.
            sentence = "Invalid request: its id is that of a request in flight."
            refusal = InvalidMessage(INVALID_REQUEST, sentence=sentence)
            await self.writer.write(refusal.answer)
            return

        number = await self._requests.add(request.id)
        direct = self._direct
        if direct is not None and not direct.is_open:
            direct.open(request)

        if direct is None or not direct.takes(request):
            sdk = await self._open_sdk(group)
            await sdk.begin(number, request)
        elif request.method == CALL:
            call = group.create_task(self._call(direct, request))
            call.add_done_callback(partial(self._end_call, number))
            self._calls[number] = call
        else:
            await self.writer.write(direct.answer(request))
            self._requests.remove(number)

    async def _call(self, direct: DirectServer, request: Request) -> None:
        """Call a tool, and send the answer."""
        await self.writer.write(await direct.call(request))

    def _end_call(self, number: int, call: asyncio.Task[None]) -> None:
        # A task that is cancelled before it could begin runs no line of its own.
        del self._calls[number]
        self._requests.remove(number)

    async def _notify(self, notification: Notification, group: asyncio.TaskGroup) -> None:
        """Cancel a request, or tell the SDK's server, if it serves this client."""
        if notification.method == CANCELLED:
            await self._cancel(notification.params or {})
            return

        if self._direct is not None and not self._direct.is_open:
            self._direct.open(None)

        # A connection that is open takes no notice of others, but one that is not may open by it.
        if self._direct is None or not self._direct.has_era:
            sdk = await self._open_sdk(group)
            await sdk.notify(notification)

    async def _cancel(self, params: JsonObject) -> None:
        """Cancel a request, if it is in flight."""
        number = self._requests.find(params.get("requestId"))
        if number is None:
            return

        if number in self._calls:
            self._calls[number].cancel()
        elif self._sdk is not None:
            await self._sdk.notify(Notification(CANCELLED, {**params, "requestId": number}))

    async def _open_sdk(self, group: asyncio.TaskGroup) -> "SdkServer":
        """Return the SDK's server; when it is first needed, it is imported and started."""
        if self._sdk is None:
            # It takes a third of a second, in which others are answered.
            server = await asyncio.to_thread(_import_sdk_server)
            self._sdk = server(self._abilities, self.writer.write, self._requests.remove)
            group.create_task(self._sdk.run())

            if self._direct is not None and self._direct.opening is not None:
                await self._sdk.open(self._direct.opening)

        return self._sdk


def _import_sdk_server() -> "type[SdkServer]":
    from abilities.adapters.sdk import SdkServer

    return SdkServer
