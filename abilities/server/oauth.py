"""Where OAuth clients get their tokens (RFC 9728).

It is offered only if the settings name authorization servers.
"""

from collections.abc import Callable, Sequence

from fastapi import FastAPI
from pydantic import AnyHttpUrl
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from abilities.declarations.values import json_bytes
from abilities.server.headers import read_headers

METADATA = "/.well-known/oauth-protected-resource/mcp"


def add_metadata(app: FastAPI, servers: Sequence[str]) -> None:
    """Offer the metadata of ``/mcp``, if there are authorization servers to name."""
    if not servers:
        return

    async def metadata(request: Request) -> Response:
        document = {
            "resource": str(AnyHttpUrl(f"{_get_origin(request.scope)}/mcp")),
            "authorization_servers": [str(AnyHttpUrl(server)) for server in servers],
            "scopes_supported": ["read", "write", "purge"],
            "bearer_methods_supported": ["header"],
            "resource_name": "agent-abilities",
        }
        return Response(json_bytes(document), media_type="application/json")

    app.add_api_route(METADATA, metadata, include_in_schema=False)


def build_challenge(servers: Sequence[str]) -> Callable[[Scope], str]:
    """Return a function that builds the WWW-Authenticate header for a request's scope.

    The header points to the metadata if there are authorization servers (RFC 6750, RFC 9728).
    """

    def challenge(scope: Scope) -> str:
        if not servers:
            return "Bearer"

        return f'Bearer resource_metadata="{_get_origin(scope)}{METADATA}"'

    return challenge


def _get_origin(scope: Scope) -> str:
    """Return the server's address as its caller wrote it; the guard has checked the host."""
    (host,) = read_headers(scope)["host"]
    return f"{scope['scheme']}://{host}"
