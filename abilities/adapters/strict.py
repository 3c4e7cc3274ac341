"""Strict schemas, in which every field is required, and null replaces an optional one.

Some frameworks and model services accept only strict schemas, or make one of every schema. Such an
object has no fields beyond those described. Their own conversion of an ability's schema would not
describe the arguments that the ability takes.
"""

from typing import cast

from abilities.adapters.functions import Function
from abilities.declarations.values import JsonObject, as_object
from abilities.schemas import build_arguments_schema

NULL: JsonObject = {"type": "null"}
JSON_TEXT: JsonObject = {"type": "string", "description": "A JSON object."}
"""The strict schema of an object with any fields. Built-in abilities accept its text, too."""


def build_strict_schema(function: Function) -> JsonObject:
    """Return the strict schema of a function's arguments.

    Pass the arguments that a model sends for it through `leave_out_null`.
    """
    brief, full = function.schema, build_arguments_schema(function.model)
    fields = {
        name: full["properties"][name] if _has_open_object(field) else field
        for name, field in brief["properties"].items()
    }

    return _make_strict({**brief, "properties": fields, "additionalProperties": False})


def leave_out_null(value: object, schema: JsonObject) -> object:
    """Return arguments without the nulls that replace optional fields in a strict schema.

    >>> field = {"anyOf": [{"type": "integer"}, NULL]}
    >>> leave_out_null({"limit": None}, {"properties": {"limit": field}})
    {}
    """
    for alternative in schema.get("anyOf", []):
        value = leave_out_null(value, alternative)

    if isinstance(value, list):
        items = cast(list[object], value)
        return [leave_out_null(item, schema.get("items", {})) for item in items]

    given = as_object(value)
    if given is None:
        return value

    fields: JsonObject = schema.get("properties", {})
    return {
        name: leave_out_null(item, fields.get(name, {}))
        for name, item in given.items()
        if item is not None or NULL not in fields.get(name, {}).get("anyOf", [])
    }


def _has_open_object(schema: JsonObject) -> bool:
    """Return whether any object in a schema may have fields that are not described."""
    if schema.get("type") == "object":
        if schema.get("additionalProperties", "properties" not in schema):
            return True
        return any(_has_open_object(field) for field in schema["properties"].values())

    inner = [*schema.get("anyOf", []), *schema.get("oneOf", [])]
    if "items" in schema:
        inner.append(schema["items"])
    return any(_has_open_object(part) for part in inner)


def _make_strict(schema: JsonObject) -> JsonObject:
    strict = dict(schema)
    if "items" in schema:
        strict["items"] = _make_strict(schema["items"])

    alternatives = schema.get("anyOf", schema.get("oneOf", []))
    if alternatives:
        strict.pop("oneOf", None)
        strict["anyOf"] = [_make_strict(alternative) for alternative in alternatives]

    if schema.get("type") != "object":
        return strict

    if schema.get("additionalProperties", "properties" not in schema):
        return dict(JSON_TEXT)

    required = schema.get("required", [])
    strict["properties"] = {}

    for name, field in schema["properties"].items():
        inner = _make_strict(field)
        if name not in required:
            # Descriptions and defaults stay outside of the alternatives, which are not nested.
            outer: JsonObject = {
                key: inner.pop(key) for key in ("description", "default") if key in inner
            }
            options = inner["anyOf"] if list(inner) == ["anyOf"] else [inner]
            inner = {"anyOf": [*options, NULL], **outer}

        strict["properties"][name] = inner

    strict["required"] = list(schema["properties"])
    strict["additionalProperties"] = False
    return strict
