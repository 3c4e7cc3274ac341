"""One ASGI application: the HTTP API, MCP over streamable HTTP, the explorer, and the guard before all."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any, cast

from fastapi import FastAPI
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from abilities.adapters.http import add_ability_routes, to_response
from abilities.adapters.mcp import create_server
from abilities.application import Abilities
from abilities.declarations.faults import Fault
from abilities.explorer.pages import PAGES
from abilities.explorer.routes import add_explorer
from abilities.helpers.reply.render import render
from abilities.helpers.tokens import TokenFile
from abilities.replies import Reply, failed_reply
from abilities.server.callers import Callers
from abilities.server.guard import App, Guard
from abilities.server.oauth import METADATA, add_metadata, build_challenge
from abilities.server.rest import add_memories
from abilities.server.telemetry import Telemetry
from abilities.settings import Settings

LOOPBACK = ("127.0.0.1", "::1", "localhost")
"""The addresses that only this machine reaches."""
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - named, not listened to
_HEALTH, _READY = "/healthz", "/readyz"
_OK = {"status": "ok"}
_TEXT = "text/plain; version=1.0.0; charset=utf-8"


class _Api(FastAPI):
    """The HTTP API; its description says that a token may be needed."""

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document, made once."""
        if self.openapi_schema is None:
            found = super().openapi()
            found.setdefault("components", {})["securitySchemes"] = {
                "token": {"type": "http", "scheme": "bearer"}
            }
            found["security"] = [{}, {"token": []}]
        return super().openapi()


def create_app(abilities: Abilities, address: str = LOOPBACK[0]) -> App:
    """The application for an open `Abilities`, as it is served at ``address``.

    Where callers from beyond this machine may come, by the address or by an allowed name, all need a token.
    """
    settings = abilities.settings
    watch = Telemetry(abilities.registry, lambda: abilities.queue_size)
    watched = abilities.with_middleware(watch.observe)
    app = _application(watched, watch)
    callers = Callers(
        watched, TokenFile(settings.tokens_file), demanded=is_beyond_loopback(settings, address)
    )
    hosts = [f"[{name}]" if ":" in name else name for name in list_host_names(settings, address)]
    add_metadata(app, settings.authorization_servers)
    return Guard(
        app,
        hosts,
        callers,
        (_HEALTH, _READY, METADATA, *PAGES),
        build_challenge(settings.authorization_servers),
    )


def list_host_names(settings: Settings, address: str) -> list[str]:
    """The names and addresses by which the server may be addressed, sorted."""
    return sorted({*LOOPBACK, *settings.allowed_hosts, address} - {*_EVERYWHERE})


def is_beyond_loopback(settings: Settings, address: str) -> bool:
    """Whether others than this machine's users may come."""
    return not {address, *settings.allowed_hosts} <= {*LOOPBACK}


def _application(abilities: Abilities, watch: Telemetry) -> FastAPI:
    """All routes, for callers whom the guard let through."""
    server = create_server(abilities)
    # Hosts and origins are checked by our own guard, before the SDK sees anything of a request.
    open_door = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    mcp = server.streamable_http_app(
        stateless_http=True, json_response=True, transport_security=open_door
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        async with server.session_manager.run():
            yield

    async def ready() -> Response:
        if await abilities.is_ready():
            return to_response(Reply(_OK, render(_OK), failed=False))
        return to_response(failed_reply(Fault.from_reason("unavailable")))

    async def metrics() -> Response:
        return Response(watch.metrics(), media_type=_TEXT)

    app = _Api(
        title="agent-abilities",
        version=version("agent-abilities"),
        lifespan=lifespan,
        docs_url=None,  # its own pages load what they show from another host; ours is at the same address
        redoc_url=None,
        telemetry={
            "tracing": False,
            "metrics": False,
            "logs": False,
        },  # its spans hold addresses, ours hold no keys
    )
    app.add_api_route(_HEALTH, _health, summary="Whether the process answers")
    app.add_api_route(_READY, ready, summary="Whether the store answers too")
    app.add_api_route("/metrics", metrics, include_in_schema=False)
    add_ability_routes(app, abilities.registry)
    add_memories(app)
    add_explorer(app)
    for route in mcp.routes:
        # Without sessions there is nothing to listen to: the stream that GET would open stays refused (405).
        app.router.routes.append(Route("/mcp", cast(Route, route).endpoint, methods=["POST"]))
    app.add_exception_handler(404, _not_found)
    app.add_exception_handler(405, _not_allowed)
    return app


async def _health() -> dict[str, str]:
    return _OK


async def _not_found(_: object, __: Exception) -> Response:
    return to_response(failed_reply(Fault.from_reason("unknown_address")))


async def _not_allowed(request: Request, _: Exception) -> Response:
    response = to_response(failed_reply(Fault.from_reason("unknown_address")), status=405)
    routes = cast(list[Route], request.app.router.routes)
    methods = {
        m
        for route in routes
        if route.matches(request.scope)[0] != Match.NONE
        for m in route.methods or ()
    }
    response.headers["Allow"] = ", ".join(sorted(methods))
    return response
