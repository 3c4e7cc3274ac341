"""Declarations: an ability as MCP, OpenAI and Anthropic clients are told of it."""

import json
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

import orjson
from pydantic import BaseModel

from abilities.declarations.fields import EXACT
from abilities.declarations.values import as_object
from abilities.definition import Ability


def build_input_schema(ability: Ability) -> dict[str, Any]:
    """The JSON Schema of an ability's arguments."""
    return _schema(ability.input)


def build_exact_schema(ability: Ability, *, nullable: bool) -> dict[str, Any]:
    """The JSON Schema of exactly the arguments that are accepted, for programs; null may stand for an optional one."""
    schema = cast(dict[str, Any], orjson.loads(_encoded_schema(ability.input, exact=True)))
    required = schema.get("required", [])
    for name, field in schema["properties"].items():
        if nullable and name not in required:
            kept = {key: field.pop(key) for key in ("description", "default") if key in field}
            schema["properties"][name] = {"anyOf": [field, {"type": "null"}], **kept}
    return schema


def build_output_schema(ability: Ability) -> dict[str, Any]:
    """The JSON Schema of an ability's answer; optional fields are left out of an answer, never null."""
    return _schema(ability.answer)


def build_annotations(ability: Ability) -> dict[str, bool]:
    """MCP's hints about what a call does; nothing here reaches beyond this machine."""
    return {
        "readOnlyHint": ability.read_only,
        "destructiveHint": ability.destructive,
        "idempotentHint": ability.idempotent,
        "openWorldHint": False,
    }


def build_declaration(ability: Ability) -> dict[str, Any]:
    """One ability in the form of each kind of client."""
    name, description, schema = ability.name, ability.description, build_input_schema(ability)
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


def format_declaration(ability: Ability) -> str:
    """A declaration as the text of its file."""
    return json.dumps(build_declaration(ability), indent=2, ensure_ascii=False) + "\n"


def find_schema_directory() -> Path:
    """Where the declarations of the built-in abilities are kept."""
    return Path(str(files("abilities.declarations"))) / "schemas"


def write_declarations(abilities: Iterable[Ability]) -> list[Path]:
    """Write one file an ability into `schema_directory`, remove others, and return what was written."""
    directory = find_schema_directory()
    texts = {
        directory / f"{ability.name}.json": format_declaration(ability) for ability in abilities
    }
    for path in set(directory.glob("*.json")) - texts.keys():
        path.unlink()
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    return list(texts)


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    """A copy of a model's schema, for whoever may change it."""
    return cast(dict[str, Any], orjson.loads(_encoded_schema(model, exact=False)))


@cache
def _encoded_schema(model: type[BaseModel], *, exact: bool) -> bytes:
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})
    return orjson.dumps(_plain(schema, definitions, exact))


def _plain(node: Any, definitions: dict[str, Any], exact: bool) -> Any:
    """Without references, which not every client follows, and without what tells a model nothing.

    That is generated titles, and null as another way to leave something out.
    """
    if isinstance(node, list):
        return [_plain(item, definitions, exact) for item in cast(Any, node)]
    if (found := as_object(node)) is None:
        return node
    if "$ref" in found:
        others = {key: value for key, value in found.items() if key != "$ref"}
        return _plain(
            {**definitions[found["$ref"].rpartition("/")[2]], **others}, definitions, exact
        )
    if EXACT in found:
        extra: dict[str, Any] = found[EXACT] if exact else {}
        return _plain(
            {key: value for key, value in found.items() if key != EXACT} | extra, definitions, exact
        )
    named = "properties" in found or found.get("type") == "object"
    kept = {
        key: {name: _plain(field, definitions, exact) for name, field in value.items()}
        if key == "properties" and named
        else _plain(value, definitions, exact)
        for key, value in found.items()
        if not (key == "title" and isinstance(value, str))
    }
    options = [option for option in kept.get("anyOf", []) if option != {"type": "null"}]
    if len(options) == 1:
        del kept["anyOf"]
        kept = {**options[0], **kept}
    if kept.get("default", 0) is None:
        del kept["default"]
    return kept
