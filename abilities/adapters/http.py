"""HTTP routes for the abilities.

Each ability has one POST route. Its response body is the same payload that every other surface
returns. A route that cannot serve a request raises Refused, which the guard answers.
"""

from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from abilities import definition
from abilities.application import Abilities
from abilities.declarations.refusals import Fault, Refused
from abilities.declarations.values import JsonObject, as_object, is_json, json_bytes, parse_document
from abilities.definition import Ability
from abilities.registry import AbilityRegistry, Reply, build_failed_reply

RETRY_SECONDS = 1
"""Value of the Retry-After header when the server is busy."""

STATUS = {
    "INVALID_INPUT": 400,
    "NOT_FOUND": 404,
    "PERMISSION_ERROR": 403,
    "STORAGE_ERROR": 503,
    "LIMIT_EXCEEDED": 429,
    "CORRUPTED_DATA": 500,
    "INTERNAL_ERROR": 500,
}
"""HTTP status of a call that failed as a whole, by the code of its fault."""

_REASON_STATUS = {"key_taken": 409, "version_conflict": 412}
"""Statuses of single reasons, which take precedence over the code's."""

_JSON = "application/json"

_MEDIA_TYPES = {"json": _JSON, "text": "text/plain", "toon": "text/toon"}
"""The media types of the formats of replies."""

_ERROR: JsonObject = {
    "description": "The call failed as a whole.",
    "content": {
        _JSON: {
            "schema": {
                "type": "object",
                "required": ["error"],
                "properties": {"error": definition.build_schema(Fault)},
            }
        }
    },
}


async def read_arguments(request: Request) -> JsonObject:
    """Return the JSON object in a request's body. Raises Refused: malformed_request."""
    arguments = None
    if is_json(request.headers.get("content-type")):
        with suppress(ValueError):
            arguments = as_object(parse_document(await request.body()))

    if arguments is None:
        raise Refused("malformed_request")

    return arguments


def get_abilities(request: Request) -> Abilities:
    """Return the application that the caller may use, which the guard put into the scope."""
    abilities: Abilities = request.scope["abilities"]
    return abilities


def add_ability_routes(app: FastAPI, registry: AbilityRegistry) -> None:
    """Add the routes of a registry's abilities to an app.

    ``GET /api/abilities`` lists them. ``POST /api/abilities/NAME`` calls one, with the arguments as
    a JSON object in the body.
    """

    # Cached because there are few distinct lists: one for each profile, and its read-only part.
    @lru_cache(maxsize=100)
    def describe(names: tuple[str, ...]) -> bytes:
        chosen = [ability for ability in registry if ability.name in names]
        return json_bytes([definition.describe_fully(ability) for ability in chosen])

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
    """Add the route of one ability, which OpenAPI describes with the schemas of that ability."""

    async def call(request: Request) -> Response:
        offered = get_abilities(request).registry
        if ability.name not in offered:
            return refuse_unknown(ability.name, offered)

        return await call_with_body(ability.name, request, {})

    body = definition.build_exact_schema(ability, nullable=True)
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
    """Return the 404 response to a call of an ability that is not in a registry."""
    fault = Fault.from_refusal(registry.explain_unknown(name))
    return refuse(fault, status=404)


def describe_responses(ability: Ability) -> JsonObject:
    """Return the OpenAPI description of the responses of a route that calls an ability."""
    content: JsonObject = {_JSON: {"schema": definition.build_schema(ability.answer)}}
    if "output_format" in ability.input.model_fields:
        for name in ("text", "toon"):
            content[_MEDIA_TYPES[name]] = {"schema": {"type": "string"}}

    return {"200": {"description": "The answer.", "content": content}, "default": _ERROR}


def describe_body(schema: JsonObject) -> JsonObject:
    """Return the OpenAPI description of a request body with this JSON schema."""
    return {"required": True, "content": {_JSON: {"schema": schema}}}


async def call_with_body(name: str, request: Request, given: Mapping[str, object]) -> Response:
    """Call an ability with the arguments of a request's body and those ``given`` elsewhere.

    Raises Refused: malformed_request, repeated_argument.
    """
    arguments = join_arguments(await read_arguments(request), given)
    return await call_ability(get_abilities(request), name, arguments)


def join_arguments(sent: JsonObject, given: Mapping[str, object]) -> JsonObject:
    """Return arguments together with those that were given elsewhere.

    Raises Refused: repeated_argument.
    """
    for name in given:
        if name in sent:
            raise Refused("repeated_argument", name)

    return {**sent, **given}


async def call_ability(abilities: Abilities, name: str, arguments: JsonObject) -> Response:
    """Call an ability and return its reply as a response in the requested format."""
    return to_response(await abilities.reply(name, arguments))


def to_response(reply: Reply, *, status: int | None = None) -> Response:
    """Return a reply as a response. Without a ``status``, it follows from the reply's fault."""
    if status is None:
        status = get_status(reply.payload["error"]) if reply.failed else 200

    headers: dict[str, str] = {}
    if status in (429, 503):
        headers["Retry-After"] = str(RETRY_SECONDS)

    version = find_version(reply.payload)
    if version is not None:
        headers["ETag"] = f'"v{version}"'

    return Response(reply.text.encode(), status, headers, media_type=_MEDIA_TYPES[reply.format])


def refuse(fault: Fault, *, status: int | None = None) -> Response:
    """Return the response to a request that fails before any call."""
    return to_response(build_failed_reply(fault), status=status)


def find_version(payload: JsonObject) -> int | None:
    """Return the version of the memory in a payload, or None if it is not about one memory."""
    for holder in (payload, payload.get("memory"), payload.get("data")):
        fields = as_object(holder) or {}
        if isinstance(fields.get("version"), int):
            return int(fields["version"])

    return None


def get_status(fault: JsonObject) -> int:
    """Return the HTTP status for a fault in its JSON form."""
    return _REASON_STATUS.get(fault["reason"], STATUS[fault["code"]])
