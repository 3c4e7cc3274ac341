"""A REST API for memories: addresses such as ``/api/memories/KEY`` that call abilities."""

import re
from collections.abc import Awaitable, Callable
from typing import NamedTuple
from urllib.parse import unquote

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope
from typing_extensions import override

from abilities import definition
from abilities.adapters import http
from abilities.application import Abilities
from abilities.builtin import memories
from abilities.builtin.memories import memory_history
from abilities.builtin.memory_reads import bulk_read_memory, memory_get
from abilities.builtin.remember import remember
from abilities.declarations.refusals import Fault, Refused
from abilities.declarations.values import JsonObject
from abilities.definition import Ability
from abilities.registry import AbilityRegistry

_TAG = re.compile(r'"v([0-9]{1,16})"', re.ASCII)
"""The header ETag of a memory's version."""


class _Operation(NamedTuple):
    """An address that calls an ability.

    ``name`` is part of the operation's id in OpenAPI. Placeholders in ``path`` are arguments. Other
    arguments are in the body if the method has one, else in the query. In a query, the arguments
    in ``lists`` may be repeated.
    """

    name: str
    method: str
    path: str
    ability: Ability
    lists: tuple[str, ...] = ()

    @property
    def determined(self) -> list[str]:
        """The arguments that the path determines.

        A key in the path rules out an id as an argument. An id in the path does not rule out a key,
        which is then the memory's new one.
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
    """The shape of the responses at an address.

    ``call`` calls an ability by its name, ``refuse`` answers a refusal outside of the ability, and
    ``describe_responses`` describes both for OpenAPI.
    """

    call: Callable[[Abilities, str, JsonObject], Awaitable[Response]]
    refuse: Callable[[Fault], Response]
    describe_responses: Callable[[Ability], JsonObject]


PLAIN = Dialect(http.call_ability, http.refuse, http.describe_responses)
"""Responses as on every other surface."""

_OPERATIONS = (
    _Operation("query", "GET", "/api/memories", memories.query_memories, lists=("tags",)),
    _Operation("store", "POST", "/api/memories", memories.store_memory),
    _Operation("update", "PATCH", "/api/memories/by-id/{id}", memories.update_memory),
    _Operation("delete", "DELETE", "/api/memories/by-id/{id}", memories.delete_memory),
    _Operation("update_key", "PATCH", "/api/memories/{key}", memories.update_memory),
    _Operation("delete_key", "DELETE", "/api/memories/{key}", memories.delete_memory),
    _Operation("stats", "GET", "/api/stats", memories.get_memory_stats),
    _Operation("remember", "POST", "/api/memories:batch", remember),
    _Operation("history", "GET", "/api/memories/{key}/history", memory_history),
)
_READS = (
    _Operation("walk", "GET", "/api/memories/{key}/bulk", bulk_read_memory),
    _Operation("read", "GET", "/api/memories/{key}", memory_get),
)
"""The addresses that may have another dialect."""


class _RawRoute(APIRoute):
    """A route that matches the path as it was sent: a ``%2F`` is part of a key, a ``/`` is not."""

    @override
    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        # Some ASGI servers leave the query in the raw path.
        raw_path, _, _ = scope["raw_path"].partition(b"?")
        return super().matches({**scope, "path": raw_path.decode("latin-1")})


def add_memories(app: FastAPI, registry: AbilityRegistry, reads: Dialect) -> None:
    """Add ``/api/stats`` and ``/api/memories``, and below it KEY, KEY/bulk and by-id/ID.

    ``reads`` is the dialect of KEY and KEY/bulk. An address is left out if its ability is not in
    the registry.
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

    # The endpoint has no docstring, because FastAPI would publish it.
    async def endpoint(request: Request) -> Response:
        abilities = http.get_abilities(request)
        if name not in abilities.registry:
            raise Refused("unknown_address")

        given = _read_given(request, operation)
        if operation.has_body:
            return await http.call_with_body(name, request, given)

        values: dict[str, list[str]] = {}
        for parameter, value in request.query_params.multi_items():
            values.setdefault(parameter, []).append(value)

        in_query: JsonObject = {}
        for parameter, sent in values.items():
            is_list = parameter in operation.lists or len(sent) > 1
            in_query[parameter] = sent if is_list else sent[0]

        try:
            return await dialect.call(abilities, name, http.join_arguments(in_query, given))
        except Refused as refusal:
            return dialect.refuse(Fault.from_refusal(refusal))

    return endpoint


def _read_given(request: Request, operation: _Operation) -> JsonObject:
    """Return the arguments in the path and in the header If-Match.

    An argument that the path rules out is None. Raises Refused: version_conflict.
    """
    arguments: JsonObject = {**dict.fromkeys(operation.determined), **request.path_params}
    if "key" in arguments:
        # Bytes other than UTF-8 become surrogates, which a key may not contain. An id needs no
        # decoding.
        arguments["key"] = unquote(arguments["key"], errors="surrogateescape")

    sent = request.headers.get("if-match", "*").strip()
    if sent == "*" or "if_version" not in operation.ability.input.model_fields:
        return arguments

    # A tag in a form that we never send matches no version (RFC 9110, section 13.1.1).
    match = _TAG.fullmatch(sent)
    if match is None:
        raise Refused("version_conflict")

    return {**arguments, "if_version": int(match[1])}


def _describe(operation: _Operation, ability: Ability, dialect: Dialect) -> JsonObject:
    """Return the OpenAPI description of an operation, with each argument in its place."""
    has_body = operation.has_body
    schema = definition.build_exact_schema(ability, nullable=has_body)
    fields: JsonObject = schema["properties"]
    required: list[str] = schema.get("required", [])

    in_path = [name for name in fields if f"{{{name}}}" in operation.path]
    others = [name for name in fields if name not in operation.determined]
    in_query = [] if has_body else others

    # No part of an address can be left out or null.
    plain: JsonObject = definition.build_exact_schema(ability, nullable=False)["properties"]
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
        described["requestBody"] = http.describe_body(schema)

    return described


def _describe_parameter(place: str, name: str, schema: JsonObject, required: bool) -> JsonObject:
    return {
        "name": name,
        "in": place,
        "schema": schema,
        "required": required,
        "description": schema["description"],
    }
