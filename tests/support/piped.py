"""MCP over two pipes to a server in this process, as a client of any manners would use them."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson

from abilities import Abilities, Ability, AbilityRegistry, Settings
from abilities.adapters.stdio import serve_pipes
from abilities.application import Offer, Resources
from abilities.helpers.store.opening import open_store
from tests.support.catalog import BUILT_IN

GIVE_UP_SECONDS = 60.0
"""Only a test that fails waits as long."""

HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
"""The params of ``initialize``, which opens a connection of the earlier revisions."""

ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
"""The ``_meta`` of each request of the current revision."""


class Piped:
    """A client that sends lines, and reads answers only when it is told to."""

    def __init__(self, abilities: Abilities, reader: asyncio.StreamReader, stdin: int) -> None:
        self.abilities = abilities
        self._reader = reader
        self._stdin = stdin
        self.is_closed = False

    async def send(self, *lines: bytes) -> None:
        """Send lines, each in one piece, as soon as the pipe has room."""
        data = b"".join(line + b"\n" for line in lines)
        await asyncio.to_thread(_write, self._stdin, data)

    async def request(self, request_id: object, method: str, params: Any = None) -> None:
        await self.send(build_request(request_id, method, params))

    async def cancel(self, request_id: object) -> None:
        params = {"requestId": request_id}
        await self.send(build_line(method="notifications/cancelled", params=params))

    async def read(self) -> dict[str, Any]:
        line = await asyncio.wait_for(self._reader.readline(), GIVE_UP_SECONDS)
        assert line, "the server has closed its output"
        message: dict[str, Any] = json.loads(line)  # orjson makes large integers floats
        return message

    async def read_line(self) -> bytes:
        return await asyncio.wait_for(self._reader.readline(), GIVE_UP_SECONDS)

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            os.close(self._stdin)


def build_line(**fields: Any) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", **fields})


def build_request(request_id: object, method: str, params: Any = None) -> bytes:
    return build_line(id=request_id, method=method, params=params or {})


def build_call(request_id: object, name: str, **arguments: Any) -> bytes:
    return build_request(request_id, "tools/call", {"name": name, "arguments": arguments})


@asynccontextmanager
async def open_piped(
    settings: Settings, *more: Ability, hello: dict[str, Any] | None = HELLO
) -> AsyncIterator[Piped]:
    """Serve the built-in abilities and ``more`` over pipes, to a client that has said hello."""
    resources = Resources(
        Offer(AbilityRegistry([*BUILT_IN, *more], read_only=True)).narrow(settings.tools),
        [],
        settings.policy,
        open_store(settings.store_url, max_memories=None),
    )
    abilities = Abilities(resources, settings)
    their_stdin, our_stdin = os.pipe()
    our_stdout, their_stdout = os.pipe()

    server = asyncio.create_task(serve_pipes(abilities, their_stdin, their_stdout))
    reader = asyncio.StreamReader(limit=2**22)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(our_stdout, "rb", 0)
    )

    client = Piped(abilities, reader, our_stdin)
    try:
        if hello is not None:
            await client.request("hello", "initialize", hello)
            assert (await client.read())["id"] == "hello"

        yield client

        client.close()
        await asyncio.wait_for(server, GIVE_UP_SECONDS)
    finally:
        client.close()
        server.cancel()
        await asyncio.gather(server, return_exceptions=True)
        transport.close()
        os.close(their_stdin)
        os.close(their_stdout)
        await resources.close()


def _write(descriptor: int, data: bytes) -> None:
    remaining = memoryview(data)
    while remaining:
        remaining = remaining[os.write(descriptor, remaining) :]
