"""The rules of a JSON Schema in the short form in which faults tell them.

A rule is an object such as ``{"type": "integer", "minimum": 1, "maximum": 6}``. Its keys are
``type`` and the values of `_CONSTRAINTS`; ``items`` is the rule of an array's items, ``required``
maps an object's required fields to their rules.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple, cast

from abilities.declarations.values import JsonObject, as_object

_CONSTRAINTS = {
    "enum": "one_of",
    "minimum": "minimum",
    "maximum": "maximum",
    "exclusiveMinimum": "exclusive_minimum",
    "exclusiveMaximum": "exclusive_maximum",
    "multipleOf": "multiple_of",
    "minLength": "min_length",
    "maxLength": "max_length",
    "pattern": "pattern",
    "format": "format",
    "minItems": "min_items",
    "maxItems": "max_items",
}
"""Keys of a rule, by the keywords of JSON Schema."""

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")


class Place(NamedTuple):
    """Where in a schema a value belongs: its field as faults name it, and its schema.

    ``parts`` counts the steps of the location that led here; a step that the schema does not
    describe ends the way.
    """

    field: str
    schema: JsonObject
    parts: int


def find_place(schema: JsonObject, location: Sequence[str | int]) -> Place:
    """Follow a location into a schema, as far as the schema describes it.

    >>> links = {"type": "array", "items": {"properties": {"key": {"type": "string"}}}}
    >>> find_place({"properties": {"links": links}}, ("links", 2, "key"))
    Place(field='links[2].key', schema={'type': 'string'}, parts=3)
    """
    place = Place("", schema, 0)

    for part in location:
        if isinstance(part, int):
            field = f"{place.field}[{part}]"
            inner = as_object(place.schema.get("items"))
        else:
            field = join_names(place.field, part)
            inner = as_object(place.schema.get("properties", {}).get(part))

        if inner is None:
            break
        place = Place(field, inner, place.parts + 1)

    return place


def join_names(field: str, name: str) -> str:
    """Return the name of a field within another: ``links[2]`` and ``key`` make ``links[2].key``."""
    if not field:
        return name

    return f"{field}.{name}"


def name_unknown_field(within: str, name: str) -> str:
    """Return an unknown field as faults name it, given the field that it is within.

    A name that is no plain identifier could be an instruction, and is not repeated.
    """
    if _PLAIN_NAME.fullmatch(name):
        return join_names(within, name)

    return within


def build_rule(schema: JsonObject) -> JsonObject:
    """Return the rule that a schema states: the type and every bound.

    >>> build_rule({"type": "integer", "minimum": 1, "maximum": 6, "default": 3})
    {'type': 'integer', 'minimum': 1, 'maximum': 6}
    """
    rule = build_bounds(schema)

    # The values of a choice say their type themselves.
    if "type" in schema and "one_of" not in rule:
        rule = {"type": schema["type"], **rule}

    items = as_object(schema.get("items"))
    if items:
        rule["items"] = build_rule(items)

    required = _build_required_rules(schema)
    if required:
        rule["required"] = required

    return rule


def build_bounds(schema: JsonObject) -> JsonObject:
    """Return the rule that a schema states without its type: bounds, choices and forms."""
    if "const" in schema:
        return {"one_of": [schema["const"]]}

    return {
        short_name: schema[keyword]
        for keyword, short_name in _CONSTRAINTS.items()
        if keyword in schema
    }


def _build_required_rules(schema: JsonObject) -> JsonObject:
    names = cast(list[str], schema.get("required", []))
    fields: JsonObject = schema.get("properties", {})

    return {name: build_rule(fields.get(name, {})) for name in names}
