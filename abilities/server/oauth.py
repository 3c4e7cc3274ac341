"""What OAuth clients ask of a resource server: where tokens come from (RFC 9728), told where the settings say so."""

from collections.abc import Callable, Sequence

from fastapi import FastAPI
from mcp.shared.auth import ProtectedResourceMetadata
from pydantic import AnyHttpUrl
from starlette.requests import Request
from starlette.responses import Response

from abilities.server.guard import Scope

METADATA = "/.well-known/oauth-protected-resource/mcp"


def add_metadata(app: FastAPI, servers: Sequence[str]) -> None:
    """Offer the metadata of ``/mcp``, if there are authorization servers to name."""

    async def metadata(request: Request) -> Response:
        told = ProtectedResourceMetadata(
            resource=AnyHttpUrl(f"{_origin(request.scope)}/mcp"),
            authorization_servers=[AnyHttpUrl(server) for server in servers],
            scopes_supported=["read", "write"],
            resource_name="agent-abilities",
        )
        return Response(told.model_dump_json(exclude_none=True), media_type="application/json")

    if servers:
        app.add_api_route(METADATA, metadata, include_in_schema=False)


def build_challenge(servers: Sequence[str]) -> Callable[[Scope], str]:
    """What a caller without a token is told in WWW-Authenticate (RFC 6750, RFC 9728)."""

    def challenge(scope: Scope) -> str:
        return f'Bearer resource_metadata="{_origin(scope)}{METADATA}"' if servers else "Bearer"

    return challenge


def _origin(scope: Scope) -> str:
    """The server's address as its caller has it; the guard let its name pass."""
    (host,) = (value.decode("latin-1") for name, value in scope["headers"] if name == b"host")
    return f"{scope['scheme']}://{host}"
