"""MCP over streamable HTTP: the SDK's endpoint behind a reader and a writer of our own.

What is no message never reaches the SDK, and no error leaves in its words.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import orjson
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import INVALID_REQUEST, JSONRPCRequest
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from abilities.adapters.http import is_json, to_response
from abilities.adapters.messages import InvalidMessage, RequestId, format_error, parse_message
from abilities.declarations.refusals import Fault
from abilities.declarations.values import as_object
from abilities.registry import build_failed_reply
from abilities.server.guard import replay_body

_PATH = "/mcp"
_JSON = "application/json"
_NUMBER = 1
"""The id under which the SDK gets each request: callers' ids may be too large for it."""
_RESULT = b'{"jsonrpc":"2.0","id":%d,"result":' % _NUMBER
_NOT_ACCEPTABLE = "Invalid request: the Accept header must allow application/json."
_UNASKED = "Invalid request: this server asks for nothing, so it takes no responses."


def create_mcp_route(server: Server[Any]) -> Route:
    """Create the route of a server, for requests that the guard lets through."""
    app = server.streamable_http_app(
        # Stateless, so that any process can answer any request, and none holds sessions.
        stateless_http=True,
        json_response=True,
        # The guard checks hosts and origins, before the SDK sees anything of a request.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    (route,) = cast(Sequence[Route], app.routes)

    # Without sessions there is nothing to listen to, so GET stays refused (405).
    return Route(_PATH, _McpEndpoint(route.endpoint), methods=["POST"])


class _McpEndpoint:
    """An ASGI application that answers the messages which callers post."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a message (ASGI)."""
        request = HttpRequest(scope, receive)
        response = await self._respond(request)
        await response(scope, receive, send)

    async def _respond(self, request: HttpRequest) -> Response:
        if not is_json(request.headers.get("content-type")):
            return to_response(build_failed_reply(Fault.from_reason("malformed_request")))

        try:
            message = parse_message(await request.body())
            if message is None:
                raise InvalidMessage(INVALID_REQUEST, sentence=_UNASKED)
        except InvalidMessage as invalid:
            return Response(invalid.answer, 400, media_type=_JSON)

        request_id: RequestId | None = None
        if isinstance(message, JSONRPCRequest):
            request_id = message.id
            message = message.model_copy(update={"id": _NUMBER})

        # Not with model_dump_json, which makes null of an integer that was too large to read.
        body = json.dumps(message.model_dump(exclude_unset=True)).encode()
        received = await self._ask(request, body)
        return _translate(received, request_id)

    async def _ask(self, request: HttpRequest, body: bytes) -> "_Received":
        """Return what the SDK responds to a message."""
        status = 500
        content = bytearray()

        async def collect(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            content.extend(message.get("body", b""))

        await self._app(request.scope, replay_body(body, request.receive), collect)
        return _Received(status, bytes(content))


class _Received(NamedTuple):
    """A response of the SDK."""

    status: int
    body: bytes


def _translate(received: _Received, request_id: RequestId | None) -> Response:
    """Return a response of the SDK with the caller's id, and with our words if it is an error."""
    if received.body.startswith(_RESULT):
        shown_id = json.dumps(request_id, ensure_ascii=False).encode()
        result = received.body.removeprefix(_RESULT)
        body = b'{"jsonrpc":"2.0","id":%b,"result":%b' % (shown_id, result)
        return Response(body, received.status, media_type=_JSON)

    if received.status == 202:
        return Response(status_code=202)

    if received.status == 406:
        refusal = InvalidMessage(INVALID_REQUEST, request_id, _NOT_ACCEPTABLE)
        return Response(refusal.answer, 406, media_type=_JSON)

    error = as_object((as_object(orjson.loads(received.body)) or {}).get("error"))
    assert error is not None
    return Response(format_error(request_id, error), received.status, media_type=_JSON)
