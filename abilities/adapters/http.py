"""Abilities over HTTP: a route per ability, whose answer is byte for byte that of every surface."""

import json
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from abilities import schemas
from abilities.application import Abilities
from abilities.declarations.faults import Fault
from abilities.declarations.values import JsonObject, as_object
from abilities.definition import Ability
from abilities.registry import AbilityRegistry
from abilities.replies import Reply, build_failed_reply

MAX_DEPTH = 16
"""How deep the JSON of a request may be nested."""
RETRY_SECONDS = 1
"""When to try again, for callers of a busy server (the Retry-After header)."""

STATUS = {
    "INVALID_INPUT": 400,
    "NOT_FOUND": 404,
    "PERMISSION_ERROR": 403,
    "STORAGE_ERROR": 503,
    "LIMIT_EXCEEDED": 429,
    "CORRUPTED_DATA": 500,
    "INTERNAL_ERROR": 500,
}
"""The status of a call that failed as a whole, by the code of its fault."""
_CONFLICTS = ("key_taken",)
"""Reasons whose status is 409, whatever their code."""

_JSON = "application/json"
_TOON = "text/toon"
_ERROR: JsonObject = {
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
    """Return the application that the request's caller may use; the guard has put it there."""
    abilities: Abilities = request.scope["abilities"]
    return abilities


def add_ability_routes(app: FastAPI, registry: AbilityRegistry) -> None:
    """Offer the abilities of a registry.

    ``GET /api/abilities`` lists them; ``POST /api/abilities/NAME`` takes the arguments as JSON.
    """

    # The endpoints have no docstrings: FastAPI would publish them.
    async def list_abilities(request: Request) -> list[JsonObject]:
        offered = get_abilities(request).offered
        return [schemas.build_declaration(ability)["mcp"] for ability in offered]

    async def unknown(name: str) -> Response:
        return to_response(build_failed_reply(Fault.from_reason("unknown_ability")), status=404)

    summary = "List the abilities and their schemas"
    app.add_api_route("/api/abilities", list_abilities, summary=summary)

    for ability in registry:
        _add_ability_route(app, ability)

    app.add_api_route("/api/abilities/{name}", unknown, methods=["POST"], include_in_schema=False)


def _add_ability_route(app: FastAPI, ability: Ability) -> None:
    """Add a route for one ability alone, so that OpenAPI has its schemas."""

    async def call(request: Request) -> Response:
        return await call_with_body(ability.name, request, {})

    body = schemas.build_exact_schema(ability, nullable=True)
    app.add_api_route(
        f"/api/abilities/{ability.name}",
        call,
        methods=["POST"],
        summary=ability.title,
        description=ability.description,
        openapi_extra=describe_operation(ability, body=body),
    )


def describe_operation(ability: Ability, *, body: JsonObject | None = None) -> JsonObject:
    """Return what OpenAPI says about a route that calls an ability.

    ``body`` is the schema of the request's body, if the route takes one.
    """
    content: JsonObject = {_JSON: {"schema": schemas.build_output_schema(ability)}}
    if "output_format" in ability.input.model_fields:
        content[_TOON] = {"schema": {"type": "string"}}

    answer: JsonObject = {"description": "The answer.", "content": content}
    operation: JsonObject = {"responses": {"200": answer, "default": _ERROR}}
    if body is not None:
        operation["requestBody"] = {"required": True, "content": {_JSON: {"schema": body}}}

    return operation


async def call_with_body(name: str, request: Request, in_path: Mapping[str, object]) -> Response:
    """Call an ability with the arguments in a request's body and those in its path.

    A body that repeats an argument of the path is refused.
    """
    try:
        body = parse_body(request.headers.get("content-type"), await request.body())
    except ValueError:
        return to_response(build_failed_reply(Fault.from_reason("malformed_request")))

    if in_path.keys() & body.keys():
        fault = Fault.from_reason("invalid_parameter", field=next(iter(in_path)))
        return to_response(build_failed_reply(fault))

    return await call_ability(get_abilities(request), name, {**body, **in_path})


async def call_ability(abilities: Abilities, name: str, arguments: JsonObject) -> Response:
    """Call an ability and return its reply as a response, in the requested format."""
    reply = await abilities.reply(name, arguments)

    if arguments.get("output_format") == "toon" and not reply.failed:
        return to_response(reply, media=f"{_TOON}; charset=utf-8")

    return to_response(reply)


def to_response(reply: Reply, *, status: int | None = None, media: str = _JSON) -> Response:
    """Return a reply as a response; its status follows from its fault, if none is given."""
    if status is None:
        status = get_status(reply.payload["error"]) if reply.failed else 200

    headers: dict[str, str] = {}
    if status in (429, 503):
        headers["Retry-After"] = str(RETRY_SECONDS)

    return Response(reply.text.encode(), status, headers, media_type=media)


def get_status(fault: JsonObject) -> int:
    """Return the status of a call that failed as a whole, by its fault as JSON."""
    if fault["reason"] in _CONFLICTS:
        return 409

    return STATUS[fault["code"]]


def parse_body(content_type: str | None, body: bytes) -> JsonObject:
    """Return the JSON object in a request's body.

    Raises ValueError for anything else: another media type, invalid UTF-8, NaN, two fields of the
    same name, and nesting deeper than `MAX_DEPTH`.
    """
    media_type, _, _ = (content_type or "").partition(";")
    if media_type.strip().lower() != _JSON:
        raise ValueError("the media type is not application/json")

    # The standard library's parser, because faster ones do not report duplicate fields.
    text = body.decode()
    _check_depth(text)
    value = json.loads(text, object_pairs_hook=_refuse_duplicates, parse_constant=_refuse_constant)

    arguments = as_object(value)
    if arguments is None:
        raise ValueError("the body is not a JSON object")
    return arguments


def _check_depth(text: str) -> None:
    """Raise ValueError for JSON that is nested too deep; the parser would raise RecursionError."""
    # Few brackets cannot be nested deep. Counting them is much faster than the loop below.
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return

    depth = 0
    in_string = False
    is_escaped = False

    for char in text:
        if in_string:
            in_string = is_escaped or char != '"'
            is_escaped = char == "\\" and not is_escaped
        elif char == '"':
            in_string = True
        elif char in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise ValueError("the JSON is nested too deep")
        elif char in "]}":
            depth -= 1


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> JsonObject:
    """Return the fields of an object. Raises ValueError if two have the same name."""
    fields = dict(pairs)

    if len(fields) != len(pairs):
        raise ValueError("two fields have the same name")

    return fields


def _refuse_constant(name: str) -> float:
    """Raise ValueError for NaN and infinities, which Python's parser takes but JSON has not."""
    raise ValueError(f"{name} is not JSON")
