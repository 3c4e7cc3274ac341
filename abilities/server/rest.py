"""Memories at addresses of their own: the abilities about them as REST clients expect them."""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple
from urllib.parse import unquote

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
    describe_body,
    describe_responses,
    find_repetition,
    get_abilities,
    to_response,
)
from abilities.application import Abilities
from abilities.builtin.bulk_read_memory import bulk_read_memory, memory_get
from abilities.builtin.memories import (
    delete_memory,
    get_memory_stats,
    query_memories,
    store_memory,
    update_memory,
)
from abilities.builtin.memory_history import memory_history
from abilities.builtin.remember import remember
from abilities.declarations.refusals import Fault, Refused
from abilities.declarations.values import JsonObject
from abilities.definition import Ability
from abilities.registry import AbilityRegistry, build_failed_reply

_TAG = re.compile(r'"v([0-9]{1,16})"', re.ASCII)
"""The header ETag of a memory's version."""


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
    def settled(self) -> list[str]:
        """The arguments that the path settles: a key leaves no choice of an id.

        An id leaves the choice of a key, which is then the memory's new one.
        """
        names: tuple[str, ...] = ()
        if "{key}" in self.path:
            names = ("key", "id")
        elif "{id}" in self.path:
            names = ("id",)

        return [name for name in names if name in self.ability.input.model_fields]

    @property
    def has_body(self) -> bool:
        return self.method in ("POST", "PATCH")


class Dialect(NamedTuple):
    """How calls are answered at an address: by a call, by a refusal before it, and in OpenAPI."""

    call: Callable[[Abilities, str, JsonObject], Awaitable[Response]]
    refuse: Callable[[Fault], Response]
    describe_responses: Callable[[Ability], JsonObject]


def _refuse(fault: Fault) -> Response:
    return to_response(build_failed_reply(fault))


PLAIN = Dialect(call_ability, _refuse, describe_responses)
"""Answers as every surface gives them."""

_OPERATIONS = (
    _Operation("query", "GET", "/api/memories", query_memories, lists=("tags",)),
    _Operation("store", "POST", "/api/memories", store_memory),
    _Operation("update", "PATCH", "/api/memories/by-id/{id}", update_memory),
    _Operation("delete", "DELETE", "/api/memories/by-id/{id}", delete_memory),
    _Operation("update_key", "PATCH", "/api/memories/{key}", update_memory),
    _Operation("delete_key", "DELETE", "/api/memories/{key}", delete_memory),
    _Operation("stats", "GET", "/api/stats", get_memory_stats),
    _Operation("remember", "POST", "/api/memories:batch", remember),
    _Operation("history", "GET", "/api/memories/{key}/history", memory_history),
)
_READS = (
    _Operation("walk", "GET", "/api/memories/{key}/bulk", bulk_read_memory),
    _Operation("read", "GET", "/api/memories/{key}", memory_get),
)
"""The addresses that another dialect may answer."""


class _RawRoute(APIRoute):
    """A route that matches the path as it was sent: a ``%2F`` is part of a key, a ``/`` is not."""

    @override
    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        # Some ASGI servers leave the query in the raw path.
        raw_path, _, _ = scope["raw_path"].partition(b"?")
        return super().matches({**scope, "path": raw_path.decode("latin-1")})


def add_memories(app: FastAPI, registry: AbilityRegistry, reads: Dialect) -> None:
    """Offer ``/api/stats`` and ``/api/memories``, and below it KEY, KEY/bulk and by-id/ID.

    ``reads`` is the dialect of KEY and KEY/bulk. An address whose ability is not in the registry
    does not exist.
    """
    dialects = [(operation, PLAIN) for operation in _OPERATIONS]
    dialects += [(operation, reads) for operation in _READS]

    for operation, dialect in dialects:
        ability = registry.get(operation.ability.name)
        if ability is None:
            continue

        app.router.add_api_route(
            operation.path,
            _create_endpoint(operation, dialect),
            name=operation.name,
            methods=[operation.method],
            summary=ability.title,
            openapi_extra=_describe(operation, ability, dialect),
            route_class_override=_RawRoute,
        )


def _create_endpoint(
    operation: _Operation, dialect: Dialect
) -> Callable[[Request], Awaitable[Response]]:
    name = operation.ability.name

    # The endpoints have no docstrings: FastAPI would publish them.
    async def call_by_body(request: Request) -> Response:
        if name not in get_abilities(request).registry:
            return _refuse(Fault.from_reason("unknown_address"))

        try:
            given = {**_read_path(request, operation), **_read_condition(request, operation)}
        except Refused as refusal:
            return dialect.refuse(Fault.from_refusal(refusal))

        return await call_with_body(name, request, given)

    async def call_by_address(request: Request) -> Response:
        if name not in get_abilities(request).registry:
            return _refuse(Fault.from_reason("unknown_address"))

        in_query = _read_query(request, operation.lists)
        try:
            given = {**_read_path(request, operation), **_read_condition(request, operation)}
        except Refused as refusal:
            return dialect.refuse(Fault.from_refusal(refusal))

        repeated = find_repetition(in_query, given)
        if repeated is not None:
            return dialect.refuse(Fault.from_refusal(repeated))

        return await dialect.call(get_abilities(request), name, {**in_query, **given})

    return call_by_body if operation.has_body else call_by_address


def _read_query(request: Request, lists: Sequence[str]) -> JsonObject:
    """Return the query parameters; one that is repeated, or one of ``lists``, has a list."""
    values: dict[str, list[str]] = {}
    for name, value in request.query_params.multi_items():
        values.setdefault(name, []).append(value)

    parameters: JsonObject = {}
    for name, given in values.items():
        is_list = name in lists or len(given) > 1
        parameters[name] = given if is_list else given[0]

    return parameters


def _read_path(request: Request, operation: _Operation) -> JsonObject:
    """Return the arguments that the path settles; one that it leaves no choice of is None.

    A key is percent-decoded; an id has no such characters.
    """
    arguments: JsonObject = {**dict.fromkeys(operation.settled), **request.path_params}

    if "key" in arguments:
        # Bytes that are not UTF-8 become surrogates, which no key may contain.
        arguments["key"] = unquote(arguments["key"], errors="surrogateescape")

    return arguments


def _read_condition(request: Request, operation: _Operation) -> JsonObject:
    """Return the argument that the header If-Match stands for, if the ability has it.

    Any other tag than one of ours is that of no version (RFC 9110, section 13.1.1). Raises Refused:
    version_conflict.
    """
    sent = request.headers.get("if-match", "*").strip()
    if sent == "*" or "if_version" not in operation.ability.input.model_fields:
        return {}

    match = _TAG.fullmatch(sent)
    if match is None:
        raise Refused("version_conflict")

    return {"if_version": int(match[1])}


def _describe(operation: _Operation, ability: Ability, dialect: Dialect) -> JsonObject:
    """Return what OpenAPI says about an operation, with the ability's arguments in their places."""
    has_body = operation.has_body
    schema = schemas.build_exact_schema(ability, nullable=has_body)
    fields: JsonObject = schema["properties"]
    required: list[str] = schema.get("required", [])

    in_path = [name for name in fields if f"{{{name}}}" in operation.path]
    others = [name for name in fields if name not in operation.settled]
    in_query = [] if has_body else others

    # No part of an address can be left out, or be null.
    plain: JsonObject = schemas.build_exact_schema(ability, nullable=False)["properties"]
    parameters = [_describe_parameter("path", name, plain[name], True) for name in in_path]
    for name in in_query:
        parameters.append(_describe_parameter("query", name, fields[name], name in required))

    described: JsonObject = {
        "parameters": parameters,
        "responses": dialect.describe_responses(ability),
    }
    if has_body:
        schema["properties"] = {name: fields[name] for name in others}
        schema["required"] = [name for name in required if name in others]
        described["requestBody"] = describe_body(schema)

    return described


def _describe_parameter(place: str, name: str, schema: JsonObject, required: bool) -> JsonObject:
    return {
        "name": name,
        "in": place,
        "schema": schema,
        "required": required,
        "description": schema["description"],
    }
