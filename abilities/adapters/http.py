"""Abilities over HTTP: a route per ability, whose payload is that of every surface.

JSON as requests bring it, read so strictly that no two readers can take it for different values.

The standard library's parser, because faster ones do not report duplicate fields.
"""

import json
import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from abilities import schemas
from abilities.application import Abilities
from abilities.declarations.limits import MAX_METADATA_DEPTH
from abilities.declarations.refusals import Fault, Refused
from abilities.declarations.values import JsonObject, as_object, json_bytes
from abilities.definition import Ability
from abilities.registry import AbilityRegistry, Reply, build_failed_reply

MAX_DEPTH = MAX_METADATA_DEPTH + 1
"""How deep the JSON of a call's arguments may be nested: metadata is one of them."""

_JSON = "application/json"

# A string matches as a whole, so that the brackets in it do not count. The closing quote is
# optional: without it, the search would start again at every quote of a string that never ends.
_STRINGS_AND_BRACKETS = re.compile(r'"(?:[^"\\]+|\\.)*"?|[\[\]{}]', re.DOTALL)


def is_json(content_type: str | None) -> bool:
    """Return whether a Content-Type header names JSON, with or without parameters."""
    media_type, _, _ = (content_type or "").partition(";")
    return media_type.strip().lower() == _JSON


def parse_document(body: bytes, max_depth: int = MAX_DEPTH) -> object:
    """Return the value of a JSON document.

    Integers with more digits than Python converts (4,300) become infinite. Raises ValueError for
    anything that is not JSON, including NaN, invalid UTF-8 and lone surrogates, for two fields of
    the same name, and for nesting deeper than ``max_depth``.
    """
    text = body.decode()
    _check_depth(text, max_depth)

    value: object = json.loads(
        text,
        object_pairs_hook=_refuse_duplicates,
        parse_constant=_refuse_constant,
        parse_int=_parse_integer,
    )

    # Only an escape can bring a lone surrogate; UTF-8 has none.
    if "\\u" in text:
        json.dumps(value, ensure_ascii=False).encode()

    return value


def _check_depth(text: str, max_depth: int) -> None:
    """Raise ValueError for JSON that is nested too deep; the parser would raise RecursionError."""
    # Few brackets cannot be nested deep. Counting them is much faster than the loop below.
    if text.count("[") + text.count("{") <= max_depth:
        return

    depth = 0

    for match in _STRINGS_AND_BRACKETS.finditer(text):
        token = match[0]

        if token in ("[", "{"):
            depth += 1
            if depth > max_depth:
                raise ValueError("the JSON is nested too deep")
        elif token in ("]", "}"):
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


def _parse_integer(digits: str) -> int | float:
    limit = sys.get_int_max_str_digits()

    if limit and len(digits) > limit:
        return float(digits)

    return int(digits)


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

_REASON_STATUS = {"key_taken": 409, "version_conflict": 412}
"""The status of reasons that have one of their own."""

_MEDIA_TYPES = {"text": "text/plain", "toon": "text/toon"}
"""The media types of the formats that a reply may be in instead of JSON."""
_ERROR: JsonObject = {
    "description": "The call failed as a whole.",
    "content": {
        _JSON: {
            "schema": {
                "type": "object",
                "required": ["error"],
                "properties": {"error": schemas.build_fault_schema()},
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

    # Many callers have one of few lists: a profile, with or without the abilities that write.
    @lru_cache(maxsize=100)
    def describe(names: tuple[str, ...]) -> bytes:
        chosen = [ability for ability in registry if ability.name in names]
        return json_bytes([schemas.describe_fully(ability) for ability in chosen])

    # The endpoints have no docstrings: FastAPI would publish them.
    async def list_abilities(request: Request) -> Response:
        offered = get_abilities(request).offered
        names = tuple(ability.name for ability in offered)
        return Response(describe(names), media_type=_JSON)

    async def unknown(name: str, request: Request) -> Response:
        return refuse_unknown(name, get_abilities(request).registry)

    summary = "List the abilities and their schemas"
    app.add_api_route("/api/abilities", list_abilities, summary=summary)

    for ability in registry:
        _add_ability_route(app, ability)

    app.add_api_route("/api/abilities/{name}", unknown, methods=["POST"], include_in_schema=False)


def _add_ability_route(app: FastAPI, ability: Ability) -> None:
    """Add a route for one ability alone, so that OpenAPI has its schemas."""

    async def call(request: Request) -> Response:
        offered = get_abilities(request).registry
        if ability.name not in offered:
            return refuse_unknown(ability.name, offered)

        return await call_with_body(ability.name, request, {})

    body = schemas.build_exact_schema(ability, nullable=True)
    app.add_api_route(
        f"/api/abilities/{ability.name}",
        call,
        methods=["POST"],
        summary=ability.title,
        description=ability.description,
        openapi_extra={
            "requestBody": describe_body(body),
            "responses": describe_responses(ability),
        },
    )


def refuse_unknown(name: str, registry: AbilityRegistry) -> Response:
    """Return the response to a call of an ability that a registry does not have."""
    fault = Fault.from_refusal(registry.explain_unknown(name))
    return to_response(build_failed_reply(fault), status=404)


def describe_responses(ability: Ability) -> JsonObject:
    """Return what OpenAPI says about the responses of a route that calls an ability."""
    content: JsonObject = {_JSON: {"schema": schemas.build_output_schema(ability)}}
    if "output_format" in ability.input.model_fields:
        for media_type in _MEDIA_TYPES.values():
            content[media_type] = {"schema": {"type": "string"}}

    return {"200": {"description": "The answer.", "content": content}, "default": _ERROR}


def describe_body(schema: JsonObject) -> JsonObject:
    """Return what OpenAPI says about a request's body, given the schema of its JSON."""
    return {"required": True, "content": {_JSON: {"schema": schema}}}


async def call_with_body(name: str, request: Request, given: Mapping[str, object]) -> Response:
    """Call an ability with the arguments in a request's body and those given in other places.

    A body that repeats one of these is refused.
    """
    try:
        body = parse_body(request.headers.get("content-type"), await request.body())
    except ValueError:
        return to_response(build_failed_reply(Fault.from_reason("malformed_request")))

    refusal = find_repetition(body, given)
    if refusal is not None:
        return to_response(build_failed_reply(Fault.from_refusal(refusal)))

    return await call_ability(get_abilities(request), name, {**body, **given})


def find_repetition(arguments: JsonObject, given: Mapping[str, object]) -> Refused | None:
    """Return the refusal of arguments that repeat one given elsewhere; None if they do not."""
    for name in given:
        if name in arguments:
            return Refused("repeated_argument", name)

    return None


async def call_ability(abilities: Abilities, name: str, arguments: JsonObject) -> Response:
    """Call an ability and return its reply as a response, in the requested format."""
    reply = await abilities.reply(name, arguments)

    if reply.format == "json":
        return to_response(reply)

    return to_response(reply, media=f"{_MEDIA_TYPES[reply.format]}; charset=utf-8")


def to_response(reply: Reply, *, status: int | None = None, media: str = _JSON) -> Response:
    """Return a reply as a response; its status follows from its fault, if none is given."""
    if status is None:
        status = get_status(reply.payload["error"]) if reply.failed else 200

    headers: dict[str, str] = {}
    if status in (429, 503):
        headers["Retry-After"] = str(RETRY_SECONDS)

    version = find_version(reply.payload)
    if version is not None:
        headers["ETag"] = f'"v{version}"'

    return Response(reply.text.encode(), status, headers, media_type=media)


def find_version(payload: JsonObject) -> int | None:
    """Return the version of the one memory that a payload is about, or None."""
    for holder in (payload, payload.get("memory"), payload.get("data")):
        fields = as_object(holder) or {}
        if isinstance(fields.get("version"), int):
            return int(fields["version"])

    return None


def get_status(fault: JsonObject) -> int:
    """Return the status of a call that failed as a whole, by its fault as JSON."""
    return _REASON_STATUS.get(fault["reason"], STATUS[fault["code"]])


def parse_body(content_type: str | None, body: bytes) -> JsonObject:
    """Return the JSON object in a request's body.

    Raises ValueError for anything else: another media type, and what `parse_document` refuses.
    """
    if not is_json(content_type):
        raise ValueError("the media type is not application/json")

    arguments = as_object(parse_document(body))
    if arguments is None:
        raise ValueError("the body is not a JSON object")
    return arguments
