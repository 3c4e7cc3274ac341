"""Strict schemas: each field is required, null is left out, and the calls are the same."""

from collections.abc import Iterator
from typing import Any

import jsonschema_rs

from abilities import Settings
from abilities.adapters.functions import NULL, build_strict_schema, leave_out_null, load_functions

FUNCTIONS = {function.name: function for function in load_functions(Settings())}
LINK = {"key": "b", "term": "word"}
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("file_read_bulk", {"paths": ["a.txt"]}),
    ("memory_read_bulk", {"targets": [{"type": "long_term"}, {"type": "stored", "key": "k"}]}),
    ("read", {"items": ["a.txt", {"memory": "k"}, {"search": "x", "in": "*.md"}]}),
    ("store_memory", {"type": "core", "content": "x", "links": [LINK], "metadata": '{"a": 1}'}),
    ("update_memory", {"id": "x", "links": [LINK], "remove_links": [{"key": "b"}]}),
    ("remember", {"operations": [{"op": "link", "key": "k", "links": [LINK]}], "atomic": True}),
    ("recall", {"queries": ["tea"]}),
    ("get_memory_stats", {}),
]


def list_objects(schema: Any) -> Iterator[dict[str, Any]]:
    """Return every object that a schema describes."""
    if isinstance(schema, list):
        for item in schema:
            yield from list_objects(item)
    elif isinstance(schema, dict):
        if schema.get("type") == "object":
            yield schema
        for value in schema.values():
            yield from list_objects(value)


def add_null(value: Any, schema: dict[str, Any]) -> Any:
    """Return arguments with null for each field that was left out."""
    for alternative in schema.get("anyOf", []):
        value = add_null(value, alternative)

    if isinstance(value, list):
        return [add_null(item, schema.get("items", {})) for item in value]

    if not isinstance(value, dict):
        return value

    fields = schema.get("properties", {})
    return {
        **dict.fromkeys(fields),
        **{name: add_null(item, fields.get(name, {})) for name, item in value.items()},
    }


def test_every_field_of_every_object_is_required_and_described() -> None:
    for name, function in FUNCTIONS.items():
        strict = build_strict_schema(function)

        jsonschema_rs.meta.validate(strict)
        assert list(strict["properties"]) == list(function.schema["properties"]), name
        for fields in list_objects(strict):
            assert fields["additionalProperties"] is False, name
            assert fields["required"] == list(fields["properties"]), name
        for field in function.schema.get("required", []):
            assert NULL not in strict["properties"][field].get("anyOf", []), name


def test_null_for_what_was_left_out_is_left_out() -> None:
    for name, arguments in CALLS:
        strict = build_strict_schema(FUNCTIONS[name])
        sent = add_null(arguments, strict)

        jsonschema_rs.validate(strict, sent)
        assert sent != arguments or not arguments, name
        assert leave_out_null(sent, strict) == arguments, name

    strict = build_strict_schema(FUNCTIONS["file_read_bulk"])
    offered_or_not = {"paths": None, "unknown": None, "detail": None}
    assert leave_out_null(offered_or_not, strict) == {"paths": None, "unknown": None}
