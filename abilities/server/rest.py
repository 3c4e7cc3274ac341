"""Memories at addresses of their own: the abilities about them as REST clients expect them."""

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope
from typing_extensions import override

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
from abilities.declarations.values import JsonObject
from abilities.definition import Ability
from abilities.replies import build_failed_reply


class _Operation(NamedTuple):
    """An address that calls an ability.

    ``name`` is part of the operation's id in OpenAPI. Placeholders in ``path`` name arguments. The
    others are in the body if the method has one, else in the query, in which those in ``lists`` may
    be repeated.
    """

    name: str
    method: str
    path: str
    ability: Ability
    lists: tuple[str, ...] = ()

    @property
    def has_body(self) -> bool:
        return self.method in ("POST", "PATCH")


_OPERATIONS = (
    _Operation("query", "GET", "/api/memories", query_memories, lists=("tags",)),
    _Operation("store", "POST", "/api/memories", store_memory),
    _Operation("update", "PATCH", "/api/memories/by-id/{id}", update_memory),
    _Operation("delete", "DELETE", "/api/memories/by-id/{id}", delete_memory),
    _Operation("stats", "GET", "/api/stats", get_memory_stats),
    _Operation("walk", "GET", "/api/memories/{key}/bulk", bulk_read_memory),
    _Operation("read", "GET", "/api/memories/{key}", memory_get),
)


class _RawRoute(APIRoute):
    """A route that matches the path as it was sent: a ``%2F`` is part of a key, a ``/`` is not."""

    @override
    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        # Some ASGI servers leave the query in the raw path.
        raw_path, _, _ = scope["raw_path"].partition(b"?")
        return super().matches({**scope, "path": raw_path.decode("latin-1")})


def add_memories(app: FastAPI) -> None:
    """Offer ``/api/stats`` and ``/api/memories``, and below it KEY, KEY/bulk and by-id/ID."""
    for operation in _OPERATIONS:
        app.router.add_api_route(
            operation.path,
            _create_endpoint(operation),
            name=operation.name,
            methods=[operation.method],
            summary=operation.ability.title,
            openapi_extra=_describe(operation),
            route_class_override=_RawRoute,
        )


def _create_endpoint(operation: _Operation) -> Callable[[Request], Awaitable[Response]]:
    name = operation.ability.name

    # The endpoints have no docstrings: FastAPI would publish them.
    async def call_by_body(request: Request) -> Response:
        return await call_with_body(name, request, request.path_params)

    async def call_by_address(request: Request) -> Response:
        try:
            arguments = _read_query(request, operation.lists) | _read_path(request)
        except Refused as error:
            fault = Fault.from_reason(error.reason, field=error.field)
            return to_response(build_failed_reply(fault))

        return await call_ability(get_abilities(request), name, arguments)

    return call_by_body if operation.has_body else call_by_address


def _read_query(request: Request, lists: Sequence[str]) -> JsonObject:
    """Return the query parameters. Raises Refused for one that is repeated and not in ``lists``."""
    parameters: JsonObject = {}

    for name, value in request.query_params.multi_items():
        if name in lists:
            parameters.setdefault(name, []).append(value)
        elif name not in parameters:
            parameters[name] = value
        else:
            raise Refused("invalid_parameter", name if name.isidentifier() else None)

    return parameters


def _read_path(request: Request) -> JsonObject:
    """Return the arguments in the path. A key is percent-decoded; an id has no such characters.

    Raises Refused("invalid_key").
    """
    arguments: JsonObject = dict(request.path_params)

    if "key" in arguments:
        try:
            arguments["key"] = unquote_to_bytes(arguments["key"]).decode()
        except UnicodeDecodeError:
            raise Refused("invalid_key", "key") from None

    return arguments


def _describe(operation: _Operation) -> JsonObject:
    """Return what OpenAPI says about an operation, with the ability's arguments in their places."""
    has_body = operation.has_body
    schema = schemas.build_exact_schema(operation.ability, nullable=has_body)
    fields: JsonObject = schema["properties"]
    required: list[str] = schema.get("required", [])

    in_path = [name for name in fields if f"{{{name}}}" in operation.path]
    others = [name for name in fields if name not in in_path]
    in_query = [] if has_body else others

    parameters: list[JsonObject] = []
    for name in (*in_path, *in_query):
        parameter = {
            "name": name,
            "in": "path" if name in in_path else "query",
            "schema": fields[name],
            "required": name in required,
            "description": fields[name]["description"],
        }
        parameters.append(parameter)

    schema["properties"] = {name: fields[name] for name in others}
    schema["required"] = [name for name in required if name in others]
    body = schema if has_body else None
    return {**describe_operation(operation.ability, body=body), "parameters": parameters}
