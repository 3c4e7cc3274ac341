"""The official SDK's server behind streams, for one client over stdio."""

from collections.abc import Awaitable, Callable
from functools import partial

import anyio
import mcp_types as types
import orjson
from mcp.shared.message import ServerMessageMetadata, SessionMessage

from abilities.adapters.mcp import create_server
from abilities.adapters.messages import (
    Notification,
    Request,
    RequestId,
    format_answer,
    format_error,
)
from abilities.application import Abilities

_OPENING = 0
"""The number of the request that opens the connection again; all others are positive."""


class SdkServer:
    """A server of the SDK, which knows each request by a number instead of its id.

    ``write`` sends a line to the client, and ``forget`` is called with the number of each request
    that is answered, or that never will be; it returns the client's id.
    """

    def __init__(
        self,
        abilities: Abilities,
        write: Callable[[bytes], Awaitable[None]],
        forget: Callable[[int], RequestId],
    ) -> None:
        self._server = create_server(abilities)
        self._write = write
        self._forget = forget
        # No buffers: what the server has not taken yet waits as a line, of which there are few.
        self._to_server, self._requests = anyio.create_memory_object_stream[
            SessionMessage | Exception
        ](0)
        self._answers, self._from_server = anyio.create_memory_object_stream[SessionMessage](0)

    async def run(self) -> None:
        """Answer requests until the server is closed."""
        options = self._server.create_initialization_options()
        options.capabilities.experimental = None  # before 2.3 the SDK sends an empty object

        async with anyio.create_task_group() as group:
            group.start_soon(self._drain)
            await self._server.run(self._requests, self._answers, options)

    async def open(self, opening: Request) -> None:
        """Receive the request that opened the connection, which is answered already."""
        await self._to_server.send(SessionMessage(_to_sdk_request(opening, _OPENING)))

    async def begin(self, number: int, request: Request) -> None:
        """Receive a request."""
        # Requests that the client cancels are never answered; this is how they end.
        metadata = ServerMessageMetadata(on_request_unanswered=partial(self._end, number))
        await self._to_server.send(SessionMessage(_to_sdk_request(request, number), metadata))

    async def notify(self, notification: Notification) -> None:
        """Receive a notification; one that cancels a request names its number."""
        message = types.JSONRPCNotification(jsonrpc="2.0", **notification._asdict())
        await self._to_server.send(SessionMessage(message))

    async def close(self) -> None:
        """Let `run` return when all requests are answered."""
        await self._to_server.aclose()

    async def _end(self, number: int) -> None:
        self._forget(number)

    async def _drain(self) -> None:
        async with self._from_server:
            async for outgoing in self._from_server:
                line = self._format(outgoing.message)
                if line is not None:
                    await self._write(line)

    def _format(self, message: types.JSONRPCMessage) -> bytes | None:
        """Return a message of the server as a line, and forget the request that it answers."""
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            if message.id == _OPENING:
                return None

            assert isinstance(message.id, int)
            return _format_answer(self._forget(message.id), message)

        return orjson.dumps(message.model_dump(mode="json", by_alias=True, exclude_unset=True))


def _to_sdk_request(request: Request, number: int) -> types.JSONRPCRequest:
    return types.JSONRPCRequest(
        jsonrpc="2.0", id=number, method=request.method, params=request.params
    )


def _format_answer(
    request_id: RequestId, message: types.JSONRPCResponse | types.JSONRPCError
) -> bytes:
    if isinstance(message, types.JSONRPCResponse):
        return format_answer(request_id, "result", message.result)

    error = message.error.model_dump(mode="json", exclude_none=True)
    return format_error(request_id, error)
