"""One ASGI application: the HTTP API, MCP over streamable HTTP and the explorer, behind a guard."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import cache
from importlib.metadata import version
from typing import cast

from fastapi import FastAPI
from pydantic import AnyHttpUrl
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Scope
from typing_extensions import override

from abilities.adapters.http import add_ability_routes, refuse, to_response
from abilities.application import Abilities
from abilities.declarations.refusals import Fault, Refused
from abilities.declarations.suggestions import ADDRESSES
from abilities.declarations.values import JsonObject, json_bytes
from abilities.errors import format_install, is_installed
from abilities.explorer.pages import PAGES, Retrievals, add_explorer
from abilities.helpers.grants import SCOPES, GrantFile
from abilities.helpers.reply.formats import render
from abilities.helpers.tokens import TokenFile
from abilities.prompts import COMPLETION, PROMPTS
from abilities.registry import Reply
from abilities.server.callers import EXPLORER, MCP, METRICS, Caller, Callers, current_caller
from abilities.server.connections import read_headers
from abilities.server.events import EVENTS, ChangeEvents
from abilities.server.guard import Guard, HostCheck
from abilities.server.kv_memory import KV_MEMORY
from abilities.server.rest import PLAIN, Dialect, add_memories
from abilities.server.telemetry import Telemetry
from abilities.settings import LOOPBACK, Compat, Settings

METADATA = "/.well-known/oauth-protected-resource/mcp"
"""The address at which OAuth clients find out where to get a token (RFC 9728)."""

_ANY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104 - compared with, not listened on
_DIALECTS: dict[Compat | None, Dialect] = {None: PLAIN, "kv-memory": KV_MEMORY}
_HEALTH, _READY = "/healthz", "/readyz"
_METHOD_NOT_FOUND = -32601  # JSON-RPC's; without the SDK there is no constant to import
_OK = {"status": "ok"}
_PROMETHEUS = "text/plain; version=1.0.0; charset=utf-8"


def create_app(abilities: Abilities, address: str = LOOPBACK[0]) -> ASGIApp:
    """Create the application that serves an open `Abilities` at ``address``.

    If other machines can reach it, by the address or by an allowed name, every caller needs a
    token. Raises ValueError as `check_oauth` does.
    """
    check_oauth(abilities.settings, address)
    settings = abilities.settings
    prompts = [prompt.call_name for prompt in PROMPTS]
    writes = [ability.name for ability in abilities.registry if not ability.read_only]
    telemetry = Telemetry(
        [*abilities.registry.names, *prompts, COMPLETION],
        writes,
        lambda: abilities.queue_size,
        lambda: abilities.stuck_threads,
    )
    retrievals = Retrievals()

    async def observe(name: str, call: Callable[[], Awaitable[Reply]]) -> Reply:
        reply = await telemetry.observe(name, call)
        caller = current_caller.get()
        # Whatever people look at on the explorer's page was given to no agent.
        if name not in writes and caller.surface != EXPLORER:
            retrievals.add(caller.namespace, caller.name, name, reply.payload)
        return reply

    observed = abilities.with_middleware(observe)
    app = _create_api(observed, telemetry, retrievals)
    servers = [str(AnyHttpUrl(server)) for server in settings.authorization_servers]
    pages = set(PAGES)
    open_paths = {_HEALTH, _READY, METADATA, *PAGES}
    public_paths: list[str] = []
    grants: GrantFile | None = None

    if settings.oauth and settings.public_url is not None:
        # Needs the SDK, an optional dependency.
        from abilities.server import oauth

        servers = [settings.public_url]
        grants = GrantFile(settings.tokens_file)
        app.router.routes.extend(oauth.create_routes(grants, settings.public_url))
        pages |= {oauth.AUTHORIZE, oauth.APPROVE}
        open_paths.add(oauth.METADATA)
        public_paths = [oauth.AUTHORIZE, oauth.APPROVE, *oauth.ENDPOINTS]

    is_public = settings.oauth or is_beyond_loopback(settings, address)
    callers = Callers(observed, TokenFile(settings.tokens_file), grants, is_public=is_public)
    app.add_api_route(EVENTS, ChangeEvents(callers).respond, include_in_schema=False)

    discovery = _Discovery(servers, settings.public_url)
    if servers:
        app.add_api_route(METADATA, discovery.respond, include_in_schema=False)

    # A Host header has brackets around an IPv6 address.
    names = [f"[{name}]" if ":" in name else name for name in list_host_names(settings, address)]

    return Guard(
        app,
        hosts=HostCheck(names, pages),
        callers=callers,
        open_paths=open_paths,
        public_paths=public_paths,
        stream_paths=[EVENTS],
        challenge=discovery.challenge,
    )


def check_oauth(settings: Settings, address: str) -> None:
    """Raise ValueError if a server at ``address`` must not be an OAuth server."""
    if not settings.oauth:
        return

    url = settings.public_url
    if url is None:
        raise ValueError("oauth needs public_url, the address at which clients reach the server")
    if is_beyond_loopback(settings, address) and not url.startswith("https:"):
        raise ValueError(
            "oauth beyond this machine needs TLS: put a proxy or a tunnel in front of the server, "
            "and set public_url to its address, which begins with https"
        )
    if not is_installed("mcp"):
        raise ValueError(f"oauth needs MCP, which is not installed; run: {format_install('mcp')}")


def list_host_names(settings: Settings, address: str) -> list[str]:
    """Return the names and addresses that the Host header of a request may have, sorted."""
    return sorted({*LOOPBACK, *settings.host_names, address} - {*_ANY_ADDRESS})


def is_beyond_loopback(settings: Settings, address: str) -> bool:
    """Return whether other machines can reach a server at ``address``."""
    return not {address, *settings.host_names} <= {*LOOPBACK}


class _Discovery:
    """How OAuth clients of ``/mcp`` find out where to get a token, if there are ``servers``.

    ``url`` is the server's address. Without it, the address is as the caller wrote it; the guard
    has checked the host.
    """

    def __init__(self, servers: Sequence[str], url: str | None) -> None:
        self._servers = servers
        self._url = url

    def challenge(self, scope: Scope) -> str:
        """Return the WWW-Authenticate header for a request's scope (RFC 6750, RFC 9728)."""
        if not self._servers:
            return "Bearer"

        return f'Bearer resource_metadata="{self._find_origin(scope)}{METADATA}"'

    async def respond(self, request: Request) -> Response:
        """Answer a request for the metadata (RFC 9728)."""
        document = {
            "resource": f"{self._find_origin(request.scope)}{MCP}",
            "authorization_servers": self._servers,
            "scopes_supported": SCOPES,
            "bearer_methods_supported": ["header"],
            "resource_name": "agent-abilities",
        }
        return Response(json_bytes(document), media_type="application/json")

    def _find_origin(self, scope: Scope) -> str:
        if self._url is not None:
            return self._url

        (host,) = read_headers(scope)["host"]
        return f"{scope['scheme']}://{host}"


class _Api(FastAPI):
    """The HTTP API; its OpenAPI document says that a token may be needed."""

    @override
    def openapi(self) -> JsonObject:
        if self.openapi_schema is None:
            document = super().openapi()  # cached in openapi_schema, so this happens once
            components = document.setdefault("components", {})
            components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            document["security"] = [{}, {"token": []}]

        return super().openapi()


def _create_api(abilities: Abilities, telemetry: Telemetry, retrievals: Retrievals) -> FastAPI:
    """Create all routes, for requests that have passed the guard."""
    run_mcp: Callable[[], AbstractAsyncContextManager[None]]
    if is_installed("mcp"):
        # An optional dependency.
        from abilities.adapters.mcp import create_server
        from abilities.server.mcp import create_mcp_route

        server = create_server(abilities)
        mcp_route = create_mcp_route(server)
        run_mcp = server.session_manager.run
    else:
        mcp_route = Route("/mcp", refuse_mcp, methods=["POST"])
        run_mcp = nullcontext

    app = _Api(
        title="agent-abilities",
        version=version("agent-abilities"),
        lifespan=lambda _: run_mcp(),
        openapi_url=None,  # FastAPI would render the document anew for each request
        # FastAPI's pages load their scripts from another host; the explorer has its own at /docs.
        docs_url=None,
        redoc_url=None,
        # FastAPI's spans contain addresses and with them keys; those of the telemetry do not.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    # Rendered at the first request, when all routes have been added.
    render_once = cache(lambda: render(app.openapi()).encode())

    async def document(_: Request) -> Response:
        return Response(render_once(), media_type="application/json")

    app.router.routes.append(Route("/openapi.json", document))
    add_operations(app, abilities, telemetry)
    add_ability_routes(app, abilities.registry)
    add_memories(app, abilities.registry, _DIALECTS[abilities.settings.compat])
    add_explorer(app, retrievals)
    app.router.routes.append(mcp_route)

    # Starlette's own responses to these are plain text or have another shape.
    app.add_exception_handler(404, _answer_unmatched)
    app.add_exception_handler(405, _answer_unmatched)
    app.add_exception_handler(Exception, _leave_to_guard)
    return app


async def refuse_mcp(_: Request) -> Response:
    """Explain how to get MCP, on a server that is installed without the SDK."""
    message = f"MCP is not installed on this server; its operator can run: {format_install('mcp')}"
    error = {"code": _METHOD_NOT_FOUND, "message": message}
    answer = {"jsonrpc": "2.0", "id": None, "error": error}
    return Response(render(answer), 501, media_type="application/json")


def add_operations(app: FastAPI, abilities: Abilities, telemetry: Telemetry) -> None:
    """Add the addresses for operators: health, readiness and metrics.

    The endpoints have no docstrings, because FastAPI would publish them.
    """

    async def health() -> dict[str, str]:
        return _OK

    async def ready() -> Response:
        try:
            await abilities.check_ready()
        except Refused as refused:
            fault = Fault.from_refusal(refused)
            return refuse(fault, status=503)

        return to_response(Reply(_OK, render(_OK), failed=False))

    async def metrics(request: Request) -> Response:
        caller: Caller = request.scope["caller"]
        # With many namespaces, formatting takes a while.
        text = await asyncio.to_thread(telemetry.format_metrics, caller.metrics_namespace)
        return Response(text, media_type=_PROMETHEUS)

    app.add_api_route(_HEALTH, health, name="_health", summary="Whether the process answers")
    app.add_api_route(_READY, ready, summary="Whether the store answers too")
    app.add_api_route(METRICS, metrics, include_in_schema=False)


async def _answer_unmatched(request: Request, _: Exception) -> Response:
    """Answer a request that matches no route, by its address (404) or by its method (405)."""
    methods: set[str] = set()

    for route in cast(list[Route], request.app.router.routes):
        match, _scope = route.matches(request.scope)

        if match != Match.NONE:
            methods.update(route.methods or ())

    if not methods:
        meant = ADDRESSES.get(request.scope["path"].rstrip("/"))
        refusal = Refused("unknown_address", did_you_mean=meant)
        return refuse(Fault.from_refusal(refusal))

    response = refuse(Fault.from_reason("unknown_address"), status=405)
    response.headers["Allow"] = ", ".join(sorted(methods))
    return response


async def _leave_to_guard(_: Request, error: Exception) -> Response:
    """Pass an unexpected exception on to the guard, which answers every failure."""
    raise error
