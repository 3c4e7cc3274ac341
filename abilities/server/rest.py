"""Memories at addresses of their own: the abilities about them, as services are used to call them."""

from collections.abc import Callable
from typing import Any
from urllib.parse import unquote_to_bytes

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from abilities import schemas
from abilities.adapters.http import (
    call_ability,
    call_with_body,
    describe_operation,
    get_abilities,
    to_response,
)
from abilities.builtin.bulk_read_memory import bulk_read_memory, memory_get
from abilities.builtin.memories import (
    delete_memory,
    get_memory_stats,
    query_memories,
    store_memory,
    update_memory,
)
from abilities.declarations.faults import Fault, Refused
from abilities.definition import Ability
from abilities.replies import failed_reply


class _RawRoute(APIRoute):
    """A route by the path as it was sent: a ``%2F`` is part of a key, a ``/`` is not."""

    def matches(self, scope: Any) -> tuple[Match, Any]:
        """Match against the raw path (Starlette matches the decoded one)."""
        return super().matches(
            {**scope, "path": scope["raw_path"].partition(b"?")[0].decode("latin-1")}
        )


def add_memories(app: FastAPI) -> None:
    """Offer ``/api/memories`` with ``/KEY``, ``/KEY/bulk`` and ``/by-id/ID`` beneath it, and ``/api/stats``."""

    async def query(request: Request) -> Response:
        return await _asked(query_memories, request, lambda: _parameters(request, many=("tags",)))

    async def store(request: Request) -> Response:
        return await call_with_body(store_memory.name, request, {})

    async def update(request: Request) -> Response:
        return await call_with_body(update_memory.name, request, {"id": request.path_params["id"]})

    async def delete(request: Request) -> Response:
        return await _asked(
            delete_memory,
            request,
            lambda: {**_parameters(request), "id": request.path_params["id"]},
        )

    async def stats(request: Request) -> Response:
        return await _asked(get_memory_stats, request, lambda: _parameters(request))

    async def read(request: Request) -> Response:
        return await _asked(
            memory_get, request, lambda: {**_parameters(request), "key": _key(request)}
        )

    async def walk(request: Request) -> Response:
        return await _asked(
            bulk_read_memory, request, lambda: {**_parameters(request), "key": _key(request)}
        )

    def add(method: str, path: str, call: Callable[..., Any], ability: Ability) -> None:
        described = _described(ability, path, body=method in ("POST", "PATCH"))
        app.router.add_api_route(
            path,
            call,
            methods=[method],
            summary=ability.title,
            openapi_extra=described,
            route_class_override=_RawRoute,
        )

    add("GET", "/api/memories", query, query_memories)
    add("POST", "/api/memories", store, store_memory)
    add("PATCH", "/api/memories/by-id/{id}", update, update_memory)
    add("DELETE", "/api/memories/by-id/{id}", delete, delete_memory)
    add("GET", "/api/stats", stats, get_memory_stats)
    add("GET", "/api/memories/{key}/bulk", walk, bulk_read_memory)
    add("GET", "/api/memories/{key}", read, memory_get)


def _described(ability: Ability, path: str, *, body: bool) -> dict[str, Any]:
    """What OpenAPI says: arguments named in the path, and the others in the body or as query parameters."""
    schema = schemas.build_exact_schema(ability, nullable=body)
    fields: dict[str, Any] = schema["properties"]
    required: list[str] = schema.get("required", [])
    named = [name for name in fields if f"{{{name}}}" in path]
    asked = [] if body else [name for name in fields if name not in named]
    schema["properties"] = {name: field for name, field in fields.items() if name not in named}
    schema["required"] = [name for name in required if name not in named]
    parameters = [
        {"name": name, "in": "path" if name in named else "query", "schema": fields[name]}
        | {"required": name in required, "description": fields[name]["description"]}
        for name in (*named, *asked)
    ]
    return {**describe_operation(ability, body=schema if body else None), "parameters": parameters}


async def _asked(
    ability: Ability, request: Request, arguments: Callable[[], dict[str, Any]]
) -> Response:
    """A call whose arguments are in the address."""
    try:
        found = arguments()
    except Refused as error:
        return to_response(failed_reply(Fault.from_reason(error.reason, field=error.field)))
    return await call_ability(get_abilities(request), ability.name, found)


def _parameters(request: Request, many: tuple[str, ...] = ()) -> dict[str, Any]:
    """The query parameters; one that is given twice is refused. Raises Refused."""
    found: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        if name in many:
            found.setdefault(name, []).append(value)
        elif name in found:
            raise Refused("invalid_parameter", name if name.isidentifier() else None)
        else:
            found[name] = value
    return found


def _key(request: Request) -> str:
    """The key in an address. Raises Refused("invalid_key")."""
    try:
        return unquote_to_bytes(request.path_params["key"]).decode()
    except UnicodeDecodeError:
        raise Refused("invalid_key", "key") from None
