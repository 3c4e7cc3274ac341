"""Abilities over HTTP: a route for each one in the registry, its answer byte for byte that of every surface."""

import json
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from abilities import schemas
from abilities.application import Abilities
from abilities.declarations.faults import Fault
from abilities.declarations.values import as_object
from abilities.definition import Ability
from abilities.registry import AbilityRegistry
from abilities.replies import Reply, failed_reply

MAX_DEPTH = 16
"""How deep the JSON of a request may be nested."""
RETRY_SECONDS = 1

STATUS = {
    "INVALID_INPUT": 400,
    "NOT_FOUND": 404,
    "PERMISSION_ERROR": 403,
    "STORAGE_ERROR": 503,
    "LIMIT_EXCEEDED": 429,
    "CORRUPTED_DATA": 500,
    "INTERNAL_ERROR": 500,
}
_CONFLICTS = ("key_taken",)
_JSON = "application/json"
_TOON = "text/toon"
_ERROR: dict[str, Any] = {
    "description": "The call failed as a whole.",
    "content": {
        _JSON: {
            "schema": {
                "type": "object",
                "required": ["error"],
                "properties": {"error": Fault.model_json_schema()},
            }
        }
    },
}


def get_abilities(request: Request) -> Abilities:
    """The application that the request's caller may use, which the guard put into its scope."""
    found: Abilities = request.scope["abilities"]
    return found


def add_ability_routes(app: FastAPI, registry: AbilityRegistry) -> None:
    """Offer the registry: ``GET /api/abilities``, and ``POST /api/abilities/NAME`` with the arguments as JSON."""

    async def list_abilities(request: Request) -> list[dict[str, Any]]:
        return [
            schemas.build_declaration(ability)["mcp"] for ability in get_abilities(request).offered
        ]

    async def unknown(name: str) -> Response:
        return to_response(failed_reply(Fault.from_reason("unknown_ability")), status=404)

    app.add_api_route(
        "/api/abilities", list_abilities, summary="List the abilities and their schemas"
    )
    for ability in registry:
        add_ability_route(app, ability)
    app.add_api_route("/api/abilities/{name}", unknown, methods=["POST"], include_in_schema=False)


def add_ability_route(app: FastAPI, ability: Ability) -> None:
    """A route of its own for one ability, so that its schemas are published."""

    async def call(request: Request) -> Response:
        return await call_with_body(ability.name, request, {})

    app.add_api_route(
        f"/api/abilities/{ability.name}",
        call,
        methods=["POST"],
        summary=ability.title,
        description=ability.description,
        openapi_extra=describe_operation(
            ability, body=schemas.build_exact_schema(ability, nullable=True)
        ),
    )


def describe_operation(ability: Ability, *, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """What OpenAPI says of a route that calls an ability: its body, where it takes one, and its answers."""
    content: dict[str, Any] = {_JSON: {"schema": schemas.build_output_schema(ability)}}
    if "output_format" in ability.input.model_fields:
        content[_TOON] = {"schema": {"type": "string"}}
    found: dict[str, Any] = {
        "responses": {"200": {"description": "The answer.", "content": content}, "default": _ERROR}
    }
    if body is not None:
        found["requestBody"] = {"required": True, "content": {_JSON: {"schema": body}}}
    return found


async def call_with_body(name: str, request: Request, named: dict[str, Any]) -> Response:
    """A call whose arguments are the body; what the address names already must not stand there again."""
    try:
        arguments = parse_body(request.headers.get("content-type"), await request.body())
    except ValueError:
        return to_response(failed_reply(Fault.from_reason("malformed_request")))
    if named.keys() & arguments.keys():
        return to_response(
            failed_reply(Fault.from_reason("invalid_parameter", field=next(iter(named))))
        )
    return await call_ability(get_abilities(request), name, {**arguments, **named})


async def call_ability(abilities: Abilities, name: str, arguments: object) -> Response:
    """Call an ability and answer with what it says."""
    reply = await abilities.reply(name, arguments)
    toon = not reply.failed and (as_object(arguments) or {}).get("output_format") == "toon"
    return to_response(reply, media=f"{_TOON}; charset=utf-8" if toon else _JSON)


def to_response(reply: Reply, *, status: int | None = None, media: str = _JSON) -> Response:
    """A reply as a response; its status follows from the fault."""
    headers: dict[str, str] = {}
    if status is None:
        status = get_status(reply.payload["error"]) if reply.failed else 200
    if status in (429, 503):
        headers["Retry-After"] = str(RETRY_SECONDS)
    return Response(reply.text.encode(), status, headers, media_type=media)


def get_status(fault: dict[str, Any]) -> int:
    """The status of a call that failed as a whole."""
    return 409 if fault["reason"] in _CONFLICTS else STATUS[fault["code"]]


def parse_body(kind: str | None, body: bytes) -> dict[str, Any]:
    """The JSON object of a request. Raises ValueError.

    Refused are other media types, invalid UTF-8, NaN, two fields of one name, and nesting over `MAX_DEPTH`.
    """
    if (kind or "").partition(";")[0].strip().lower() != _JSON:
        raise ValueError("not application/json")
    text = body.decode()
    _check_depth(text)
    found = as_object(json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant))
    if found is None:
        raise ValueError("not an object")
    return found


def _check_depth(text: str) -> None:
    depth, inside, escaped = 0, False, False
    for char in text:
        if inside:
            inside, escaped = escaped or char != '"', char == "\\" and not escaped
        elif char == '"':
            inside = True
        elif char in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise ValueError("nested too deep")
        elif char in "]}":
            depth -= 1


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("two fields of one name")
    return found


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")
