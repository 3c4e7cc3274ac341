"""One ASGI application: the HTTP API, MCP over streamable HTTP and the explorer, behind a guard."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import cast

from fastapi import FastAPI
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp
from typing_extensions import override

from abilities.adapters.http import add_ability_routes, to_response
from abilities.adapters.mcp import create_server
from abilities.application import Abilities
from abilities.declarations.faults import Fault
from abilities.declarations.values import JsonObject
from abilities.explorer.pages import PAGES
from abilities.explorer.routes import add_explorer
from abilities.helpers.reply.render import render
from abilities.helpers.tokens import TokenFile
from abilities.replies import Reply, build_failed_reply
from abilities.server.callers import Callers
from abilities.server.guard import Guard
from abilities.server.oauth import METADATA, add_metadata, build_challenge
from abilities.server.rest import add_memories
from abilities.server.telemetry import Telemetry
from abilities.settings import Settings

LOOPBACK = ("127.0.0.1", "::1", "localhost")
"""The names of addresses that only this machine can reach."""

_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - compared with, not listened on
_HEALTH, _READY = "/healthz", "/readyz"
_OK = {"status": "ok"}
_PROMETHEUS = "text/plain; version=1.0.0; charset=utf-8"


class _Api(FastAPI):
    """The HTTP API; its OpenAPI document says that a token may be needed."""

    @override
    def openapi(self) -> JsonObject:
        if self.openapi_schema is None:
            document = super().openapi()  # kept in openapi_schema, so this happens once
            components = document.setdefault("components", {})
            components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            document["security"] = [{}, {"token": []}]

        return super().openapi()


def create_app(abilities: Abilities, address: str = LOOPBACK[0]) -> ASGIApp:
    """Create the application that serves an open `Abilities` at ``address``.

    If callers from other machines can come, by the address or by an allowed name, all callers need
    a token.
    """
    settings = abilities.settings
    telemetry = Telemetry(abilities.registry, lambda: abilities.queue_size)
    observed = abilities.with_middleware(telemetry.observe)

    app = _create_api(observed, telemetry)
    add_metadata(app, settings.authorization_servers)

    demanded = is_beyond_loopback(settings, address)
    return Guard(
        app,
        hosts=[_format_host(name) for name in list_host_names(settings, address)],
        callers=Callers(observed, TokenFile(settings.tokens_file), demanded=demanded),
        open_paths=(_HEALTH, _READY, METADATA, *PAGES),
        challenge=build_challenge(settings.authorization_servers),
    )


def list_host_names(settings: Settings, address: str) -> list[str]:
    """Return the names and addresses that requests may address the server by, sorted."""
    return sorted({*LOOPBACK, *settings.allowed_hosts, address} - {*_EVERYWHERE})


def is_beyond_loopback(settings: Settings, address: str) -> bool:
    """Whether callers from other machines can come."""
    return not {address, *settings.allowed_hosts} <= {*LOOPBACK}


def _format_host(name: str) -> str:
    """Return a name or address as a Host header has it: IPv6 addresses are in brackets."""
    return f"[{name}]" if ":" in name else name


def _create_api(abilities: Abilities, telemetry: Telemetry) -> FastAPI:
    """Create all routes, for requests that the guard lets through."""
    server = create_server(abilities)
    mcp = server.streamable_http_app(
        # Stateless, so that any process can answer any request, and none holds sessions.
        stateless_http=True,
        json_response=True,
        # The guard checks hosts and origins, before the SDK sees anything of a request.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        async with server.session_manager.run():
            yield

    app = _Api(
        title="agent-abilities",
        version=version("agent-abilities"),
        lifespan=lifespan,
        # FastAPI's pages load their scripts from another host; the explorer has its own at /docs.
        docs_url=None,
        redoc_url=None,
        # FastAPI's spans hold addresses and with them keys; those of the telemetry hold none.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    _add_operations(app, abilities, telemetry)
    add_ability_routes(app, abilities.registry)
    add_memories(app)
    add_explorer(app)

    for route in mcp.routes:
        # Without sessions there is nothing to listen to, so GET stays refused (405).
        endpoint = cast(Route, route).endpoint
        app.router.routes.append(Route("/mcp", endpoint, methods=["POST"]))

    # Starlette's own responses to these are plain text or have another shape.
    app.add_exception_handler(404, _answer_not_found)
    app.add_exception_handler(405, _answer_not_allowed)
    app.add_exception_handler(Exception, _leave_to_guard)
    return app


def _add_operations(app: FastAPI, abilities: Abilities, telemetry: Telemetry) -> None:
    """Offer what operators look after a server with: health, readiness and metrics.

    The endpoints have no docstrings: FastAPI would publish them.
    """

    async def health() -> dict[str, str]:
        return _OK

    async def ready() -> Response:
        if not await abilities.is_ready():
            return to_response(build_failed_reply(Fault.from_reason("unavailable")))

        return to_response(Reply(_OK, render(_OK), failed=False))

    async def metrics() -> Response:
        return Response(telemetry.format_metrics(), media_type=_PROMETHEUS)

    app.add_api_route(_HEALTH, health, name="_health", summary="Whether the process answers")
    app.add_api_route(_READY, ready, summary="Whether the store answers too")
    app.add_api_route("/metrics", metrics, include_in_schema=False)


async def _answer_not_found(_: Request, __: Exception) -> Response:
    return to_response(build_failed_reply(Fault.from_reason("unknown_address")))


async def _answer_not_allowed(request: Request, _: Exception) -> Response:
    methods: set[str] = set()

    for route in cast(list[Route], request.app.router.routes):
        match, _scope = route.matches(request.scope)

        if match != Match.NONE:
            methods.update(route.methods or ())

    response = to_response(build_failed_reply(Fault.from_reason("unknown_address")), status=405)
    response.headers["Allow"] = ", ".join(sorted(methods))
    return response


async def _leave_to_guard(_: Request, error: Exception) -> Response:
    """Pass an unexpected exception on to the guard, which answers everything that fails."""
    raise error
