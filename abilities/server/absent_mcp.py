"""The MCP endpoint of a server whose installation lacks the SDK: it says how to get it."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from abilities.adapters.messages import METHOD_NOT_FOUND, InvalidMessage
from abilities.extras import format_install

_SENTENCE = f"MCP is not installed on this server; its operator can run: {format_install('mcp')}"
_NOT_IMPLEMENTED = 501


def create_absent_route() -> Route:
    """Create the route that refuses every message."""
    return Route("/mcp", _refuse, methods=["POST"])


async def _refuse(_: Request) -> Response:
    refusal = InvalidMessage(METHOD_NOT_FOUND, sentence=_SENTENCE)
    return Response(refusal.answer, _NOT_IMPLEMENTED, media_type="application/json")
