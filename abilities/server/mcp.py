"""MCP over streamable HTTP: the SDK's endpoint, with our own parser and our own error messages."""

import json
from collections.abc import Sequence
from typing import Any, cast

import orjson
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import INVALID_REQUEST, JSONRPCRequest
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message

from abilities.adapters.mcp import InvalidMessage, RequestId, format_error, parse_message
from abilities.declarations.refusals import Refused
from abilities.declarations.values import as_object, is_json
from abilities.server.guard import replay_body

_PATH = "/mcp"
_JSON = "application/json"
_NUMBER = 1
"""The id of each request for the SDK: callers' ids may be too large for it."""
_RESULT = b'{"jsonrpc":"2.0","id":%d,"result":' % _NUMBER
_NOT_ACCEPTABLE = "Invalid request: the Accept header must allow application/json."
_UNASKED = "Invalid request: this server asks for nothing, so it takes no responses."


def create_mcp_route(server: Server[Any]) -> Route:
    """Create the route of a server, for requests that have passed the guard."""
    app = server.streamable_http_app(
        # Stateless, so that any process can answer any request without sessions.
        stateless_http=True,
        json_response=True,
        # The guard checks hosts and origins, before the SDK sees anything of a request.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    (route,) = cast(Sequence[Route], app.routes)

    sdk_app: ASGIApp = route.endpoint

    async def respond(request: HttpRequest) -> Response:
        if not is_json(request.headers.get("content-type")):
            raise Refused("malformed_request")

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

        # model_dump_json would turn an integer that was too large to read into null.
        body = json.dumps(message.model_dump(exclude_unset=True)).encode()

        status = 500
        content = bytearray()

        async def collect(part: Message) -> None:
            nonlocal status
            status = part.get("status", status)
            content.extend(part.get("body", b""))

        await sdk_app(request.scope, replay_body(body, request.receive), collect)
        return _translate(status, bytes(content), request_id)

    # Without sessions there is nothing to listen to, so GET is refused (405).
    return Route(_PATH, respond, methods=["POST"])


def _translate(status: int, body: bytes, request_id: RequestId | None) -> Response:
    """Return a response of the SDK with the caller's id, and errors in our own words."""
    if body.startswith(_RESULT):
        shown_id = json.dumps(request_id, ensure_ascii=False).encode()
        result = body.removeprefix(_RESULT)
        answer = b'{"jsonrpc":"2.0","id":%b,"result":%b' % (shown_id, result)
        return Response(answer, status, media_type=_JSON)

    if status == 202:
        return Response(status_code=202)

    if status == 406:
        refusal = InvalidMessage(INVALID_REQUEST, request_id, _NOT_ACCEPTABLE)
        return Response(refusal.answer, 406, media_type=_JSON)

    payload = as_object(orjson.loads(body)) or {}
    error = as_object(payload.get("error"))
    assert error is not None
    return Response(format_error(request_id, error), status, media_type=_JSON)
