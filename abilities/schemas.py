"""The JSON Schemas of abilities, and their declarations for MCP, OpenAI and Anthropic clients.

The schema of arguments has three forms. The brief one is for models, which get it with every call:
it has what a model needs to make a call. The full one has every bound, for refusals and for people.
The exact one accepts exactly the arguments that are accepted, for programs.
"""

import json
import math
from functools import cache
from typing import Any, Literal, cast

import orjson
from pydantic import BaseModel

from abilities.declarations.faults import Fault
from abilities.declarations.fields import BRIEF, EXACT, UNOFFERED, UNSAID
from abilities.declarations.values import JsonObject, as_object
from abilities.definition import Ability

MAX_SCHEMA_BYTES = 64 * 1024
"""A schema as JSON; clients send the schemas of all abilities to their models with every call."""

Form = Literal["brief", "full", "exact"]

_MAX_NODES = 10_000
"""Objects and arrays of a schema whose references are replaced by what they refer to."""


def build_input_schema(ability: Ability) -> JsonObject:
    """Return the JSON Schema of an ability's arguments, as models read it."""
    return _build_schema(ability.input, "brief")


def build_full_schema(ability: Ability) -> JsonObject:
    """Return the JSON Schema of an ability's arguments with all bounds and descriptions."""
    return build_arguments_schema(ability.input)


def build_arguments_schema(model: type[BaseModel]) -> JsonObject:
    """Return the JSON Schema of arguments by their model, as `build_full_schema` does."""
    return _build_schema(model, "full")


def build_fault_schema() -> JsonObject:
    """Return the JSON Schema of a fault."""
    return _build_schema(Fault, "full")


def build_exact_schema(ability: Ability, *, nullable: bool) -> JsonObject:
    """Return the JSON Schema of exactly the arguments that are accepted, for programs.

    With ``nullable`` it says that null may stand for an optional argument.
    """
    schema = _build_schema(ability.input, "exact")
    if not nullable:
        return schema

    required = schema.get("required", [])
    for name, field in schema["properties"].items():
        if name not in required:
            schema["properties"][name] = _make_nullable(field)

    return schema


def build_output_schema(ability: Ability) -> JsonObject:
    """Return the JSON Schema of an ability's answer.

    Optional fields are left out of an answer when they have no value; they are never null.
    """
    return build_model_schema(ability.answer)


def build_model_schema(model: type[BaseModel]) -> JsonObject:
    """Return the JSON Schema of a model whose values are sent, in plain form."""
    return _build_schema(model, "full")


def check_schemas(ability: Ability) -> None:
    """Raise ValueError, or whatever building them raises, for schemas that cannot be published."""
    taken, answered = build_input_schema(ability), build_output_schema(ability)
    is_sendable = "properties" in taken and answered.get("type") == "object"
    if taken.get("type") != "object" or not is_sendable:
        raise ValueError("an ability's input and answer must be models of objects")

    build_exact_schema(ability, nullable=True)


def build_annotations(ability: Ability) -> dict[str, bool]:
    """Return MCP's hints about what a call does; no ability reaches beyond this machine."""
    return {
        "readOnlyHint": ability.read_only,
        "destructiveHint": ability.destructive,
        "idempotentHint": ability.idempotent,
        "openWorldHint": False,
    }


def build_declaration(ability: Ability) -> JsonObject:
    """Return an ability as each client wants it declared: ``mcp``, ``openai``, ``anthropic``."""
    name = ability.name
    description = ability.description
    schema = build_input_schema(ability)

    return {
        "name": name,
        "mcp": {
            "name": name,
            "title": ability.title,
            "description": description,
            "inputSchema": schema,
            "outputSchema": build_output_schema(ability),
            "annotations": build_annotations(ability),
        },
        "openai": {
            "type": "function",
            "function": {"name": name, "description": description, "parameters": schema},
        },
        "anthropic": {"name": name, "description": description, "input_schema": schema},
    }


def describe_fully(ability: Ability) -> JsonObject:
    """Return an ability as MCP declares it, with the full schema of its arguments."""
    declared: JsonObject = build_declaration(ability)["mcp"]
    return {**declared, "inputSchema": build_full_schema(ability)}


def format_declaration(ability: Ability) -> str:
    """Return a declaration as the text of its file."""
    return json.dumps(build_declaration(ability), indent=2, ensure_ascii=False) + "\n"


def _make_nullable(field: JsonObject) -> JsonObject:
    """Return a field's schema that also allows null; its description and default stay outside."""
    # Clients show the description of the field itself, not that of one of its alternatives.
    outer = {key: value for key, value in field.items() if key in ("description", "default")}
    constraints = {key: value for key, value in field.items() if key not in outer}

    return {"anyOf": [constraints, {"type": "null"}], **outer}


def _build_schema(model: type[BaseModel], form: Form) -> JsonObject:
    """Return a schema that the caller may change."""
    return cast(JsonObject, orjson.loads(_encode_schema(model, form)))


@cache
def _encode_schema(model: type[BaseModel], form: Form) -> bytes:
    """Return a model's schema as JSON; bytes, because what is cached must not change."""
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})
    _check_expansion(schema, definitions)

    # The docstring of a model of arguments says nothing that the ability's description does not.
    if form == "brief":
        schema.pop("description", None)

    encoded = orjson.dumps(_simplify(schema, definitions, form))
    if len(encoded) > MAX_SCHEMA_BYTES:
        raise ValueError(f"the schema of {model.__name__} is larger than {MAX_SCHEMA_BYTES} bytes")

    return encoded


def _check_expansion(schema: JsonObject, definitions: JsonObject) -> None:
    """Raise ValueError for a schema that would be too large, or endless, without references.

    Each definition is counted once: thirty that refer to the next one twice stand for a billion.
    """
    counts: dict[str, float] = {}

    def count(node: object) -> float:
        if isinstance(node, list):
            return 1 + sum(count(item) for item in cast(list[object], node))

        fields = as_object(node)
        if fields is None:
            return 0

        nodes = 1 + sum(count(value) for value in fields.values())
        if isinstance(fields.get("$ref"), str):
            nodes += count_definition(fields["$ref"].rpartition("/")[2])
        return nodes

    def count_definition(name: str) -> float:
        if name not in counts:
            counts[name] = math.inf  # what is met again, while it is counted, refers to itself
            counts[name] = count(definitions[name])

        return counts[name]

    if count(schema) > _MAX_NODES:
        raise ValueError("the schema is too large, or refers to itself")


def _simplify(node: object, definitions: JsonObject, form: Form, *, is_field: bool = False) -> Any:
    """Return a part of a schema in plain form.

    References are replaced by what they refer to, because not every client follows them. What tells
    a model nothing is dropped: generated titles, and null as another way to leave a field out. An
    item that is null is none of those.
    """
    if isinstance(node, list):
        items = cast(list[object], node)
        return [_simplify(item, definitions, form) for item in items]

    schema = as_object(node)
    if schema is None:
        return node

    schema = _inline_reference(schema, definitions)
    if is_field:
        schema = _drop_null(schema)
    schema = _settle_form(_inline_reference(schema, definitions), form)

    simple: JsonObject = {}
    for key, value in schema.items():
        if key == "properties":
            # These keys are names of fields, and a field may be named "title" too.
            fields: JsonObject = value
            simple[key] = {
                name: _simplify(field, definitions, form, is_field=True)
                for name, field in fields.items()
                if form != "brief" or UNOFFERED not in field
            }
        elif key != "title" or not isinstance(value, str):
            simple[key] = _simplify(value, definitions, form)

    return simple


def _inline_reference(schema: JsonObject, definitions: JsonObject) -> JsonObject:
    """Replace a reference by its definition; keys beside the reference override those in it."""
    while "$ref" in schema:
        others = dict(schema)
        name = others.pop("$ref").rpartition("/")[2]
        schema = {**definitions[name], **others}

    return schema


def _settle_form(schema: JsonObject, form: Form) -> JsonObject:
    """Apply what only some forms of a schema show, or drop it."""
    settled = dict(schema)
    exact: JsonObject = settled.pop(EXACT, {})
    brief: JsonObject = settled.pop(BRIEF, {})
    unsaid: list[str] = settled.pop(UNSAID, [])
    settled.pop(UNOFFERED, None)

    if form == "exact":
        settled.update(exact)
    elif form == "brief":
        settled.update(brief)
        for keyword in (*unsaid, *_find_evident(settled)):
            settled.pop(keyword, None)

    return settled


def _find_evident(schema: JsonObject) -> list[str]:
    """Return the keywords of a schema that a model takes for granted.

    It sends nothing empty and no fields that are not described, and leaves out a false flag.
    """
    return [key for key, value in _EVIDENT.items() if schema.get(key) is value]


_EVIDENT: JsonObject = {
    "additionalProperties": False,
    "default": False,
    "minLength": 1,
    "minItems": 1,
}


def _drop_null(schema: JsonObject) -> JsonObject:
    """Drop null as an alternative and as a default."""
    alternatives = [option for option in schema.get("anyOf", []) if option != {"type": "null"}]
    if len(alternatives) == 1:
        others = dict(schema)
        del others["anyOf"]
        unsaid: list[str] = [*alternatives[0].get(UNSAID, ()), *schema.get(UNSAID, ())]
        exact: JsonObject = {**alternatives[0].get(EXACT, {}), **schema.get(EXACT, {})}
        schema = {**alternatives[0], **others, UNSAID: unsaid, EXACT: exact}
    elif alternatives:
        schema = {**schema, "anyOf": alternatives}

    if "default" in schema and schema["default"] is None:
        schema = dict(schema)
        del schema["default"]

    return schema
