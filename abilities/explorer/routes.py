"""The explorer's addresses: its pages, what they ask beside the abilities, and calls answered in both formats."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from abilities.adapters.http import get_abilities, parse_body, to_response
from abilities.declarations.faults import Fault
from abilities.explorer.pages import PAGES, StaticPage
from abilities.explorer.views import MAX_BYTES, VIEWS
from abilities.helpers.reply.render import render
from abilities.replies import Reply, failed_reply


def add_explorer(app: FastAPI) -> None:
    """Offer the pages, ``POST /api/explorer/VIEW`` and ``POST /api/explorer/try/NAME``."""
    for path, page in PAGES.items():
        app.add_api_route(path, _sender(page), include_in_schema=False)
    app.add_api_route("/api/explorer/try/{name}", _try, methods=["POST"], include_in_schema=False)
    app.add_api_route("/api/explorer/{name}", _view, methods=["POST"], include_in_schema=False)


def _sender(page: StaticPage) -> Callable[[], Awaitable[Response]]:
    async def send() -> Response:
        return Response(page.body, headers=page.headers, media_type=page.kind)

    return send


async def _view(name: str, request: Request) -> Response:
    """What a view answers."""
    if name not in VIEWS:
        return to_response(failed_reply(Fault.from_reason("unknown_address")))
    arguments = await _arguments(request)
    if isinstance(arguments, Response):
        return arguments
    context = replace(get_abilities(request).context, max_response_bytes=MAX_BYTES)
    return to_response(await VIEWS.reply(name, arguments, context))


async def _try(name: str, request: Request) -> Response:
    """One call of an ability, and its answer as it would be sent in either format."""
    arguments = await _arguments(request)
    if isinstance(arguments, Response):
        return arguments
    reply = await get_abilities(request).reply(name, arguments)
    both = {
        "failed": reply.failed,
        "json": render(reply.payload),
        "toon": render(reply.payload, "toon"),
    }
    return to_response(Reply(both, render(both), failed=False))


async def _arguments(request: Request) -> dict[str, Any] | Response:
    try:
        return parse_body(request.headers.get("content-type"), await request.body())
    except ValueError:
        return to_response(failed_reply(Fault.from_reason("malformed_request")))
