"""Strict schemas: every field is required, and null stands for one that is left out.

Some frameworks and model services make each tool's schema a strict one, in which an object has no
fields but those described. What they would make of an ability's own schema is not what it takes.
"""

from collections.abc import Mapping
from typing import Any, cast

from abilities.adapters.functions import Function
from abilities.declarations.values import JsonObject
from abilities.schemas import build_arguments_schema

NULL: JsonObject = {"type": "null"}
JSON_TEXT: JsonObject = {"type": "string", "description": "A JSON object."}
"""What a strict schema has for an object of any fields; abilities take its text as well."""


def build_strict_schema(function: Function) -> JsonObject:
    """Return the schema of a function's arguments as a strict one; `leave_out_null` undoes it."""
    brief, full = function.schema, build_arguments_schema(function.model)
    fields = {
        name: full["properties"][name] if _has_open_object(field) else field
        for name, field in brief["properties"].items()
    }

    strict: JsonObject = _make_strict({**brief, "properties": fields})
    return strict


def leave_out_null(value: Any, schema: JsonObject) -> Any:
    """Return arguments without each null that stands for an optional field of a strict schema."""
    for alternative in schema.get("anyOf", []):
        value = leave_out_null(value, alternative)

    if isinstance(value, list):
        items = cast(list[Any], value)
        return [leave_out_null(item, schema.get("items", {})) for item in items]

    if not isinstance(value, Mapping):
        return value

    given = cast(Mapping[str, Any], value)
    fields: JsonObject = schema.get("properties", {})
    return {
        name: leave_out_null(item, fields.get(name, {}))
        for name, item in given.items()
        if item is not None or NULL not in fields.get(name, {}).get("anyOf", [])
    }


def _has_open_object(schema: JsonObject) -> bool:
    """Return whether an object somewhere in a schema may have fields that are not described."""
    if schema.get("type") == "object":
        if schema.get("additionalProperties", "properties" not in schema):
            return True
        return any(_has_open_object(field) for field in schema["properties"].values())

    inner = [*schema.get("anyOf", []), *schema.get("oneOf", [])]
    if "items" in schema:
        inner.append(schema["items"])
    return any(_has_open_object(part) for part in inner)


def _make_strict(schema: JsonObject) -> Any:
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
        return JSON_TEXT

    required = schema.get("required", [])
    strict["properties"] = {
        name: _make_strict(field) if name in required else _make_optional(field)
        for name, field in schema["properties"].items()
    }
    strict["required"] = list(schema["properties"])
    strict["additionalProperties"] = False
    return strict


def _make_optional(field: JsonObject) -> JsonObject:
    """Return the strict schema of a field, or null; what describes the field stays outside."""
    strict: JsonObject = _make_strict(field)
    outer = {key: strict[key] for key in ("description", "default") if key in strict}
    inner = {key: value for key, value in strict.items() if key not in outer}

    # Alternatives are not nested: it would only be harder to read.
    options = inner["anyOf"] if list(inner) == ["anyOf"] else [inner]
    return {"anyOf": [*options, NULL], **outer}
