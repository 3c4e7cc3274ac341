"""Abilities as CrewAI tools: `load_tools`.

Strict schemas: every field is required, and null stands for one that is left out.

Some frameworks and model services make each tool's schema a strict one, in which an object has no
fields but those described. What they would make of an ability's own schema is not what it takes.
"""

from collections.abc import Sequence
from copy import deepcopy
from typing import ClassVar, cast

from pydantic import BaseModel, ConfigDict, PrivateAttr, create_model
from typing_extensions import override

from abilities.adapters.host import Function, Source, check_namespace, load_functions
from abilities.declarations.values import JsonObject, as_object
from abilities.errors import Needs
from abilities.registry import Reply
from abilities.schemas import build_arguments_schema

NULL: JsonObject = {"type": "null"}
JSON_TEXT: JsonObject = {"type": "string", "description": "A JSON object."}
"""What a strict schema has for an object of any fields; built-in abilities take its text too."""


def build_strict_schema(function: Function) -> JsonObject:
    """Return the schema of a function's arguments as a strict one; `leave_out_null` undoes it."""
    brief, full = function.schema, build_arguments_schema(function.model)
    fields = {
        name: full["properties"][name] if _has_open_object(field) else field
        for name, field in brief["properties"].items()
    }

    return _make_strict({**brief, "properties": fields, "additionalProperties": False})


def leave_out_null(value: object, schema: JsonObject) -> object:
    """Return arguments without each null that stands for an optional field of a strict schema."""
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
    """Return whether an object somewhere in a schema may have fields that are not described."""
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
    strict = _make_strict(field)
    outer: JsonObject = {key: strict[key] for key in ("description", "default") if key in strict}
    inner = {key: value for key, value in strict.items() if key not in outer}

    # Alternatives are not nested: it would only be harder to read.
    options = inner["anyOf"] if list(inner) == ["anyOf"] else [inner]
    return {"anyOf": [*options, NULL], **outer}


with Needs("crewai"):
    from crewai.tools import BaseTool, ToolFailure


def load_tools(
    source: Source = None,
    *,
    only: Sequence[str] | None = None,
    read_only: bool = False,
    namespace: str | int | None = None,
    require_namespace: bool = False,
) -> list[BaseTool]:
    """Return the abilities as tools for an ``Agent``.

    The arguments, and what is raised for them, are those of `load_functions`.

    CrewAI tells a tool nothing about its run, so the tools are those of one ``namespace``, by
    default that of the source. Raises ValueError if ``require_namespace`` is set and there is
    none. A tool's result is the text of the
    answer. A call that failed as a whole is a ToolFailure with the text of the fault, and no result
    is kept for a later call.
    """
    if require_namespace:
        check_namespace(namespace, "pass namespace=… to load_tools()")

    functions = load_functions(source, only=only, read_only=read_only, caller="crewai")
    return [CrewTool.from_function(function, namespace) for function in functions]


class PassedArguments(BaseModel):
    """Arguments as the model sent them; a subclass has the schema that the model gets.

    It has no fields: with the ability's own model CrewAI would add defaults that nobody gave.
    """

    model_config = ConfigDict(extra="allow")
    offered: ClassVar[JsonObject] = {}

    @override
    @classmethod
    def model_json_schema(cls, *args: object, **kwargs: object) -> JsonObject:
        return deepcopy(cls.offered)  # CrewAI changes it


class CrewTool(BaseTool):
    """One ability as a CrewAI tool; its arguments are validated by the ability alone."""

    _function: Function = PrivateAttr()
    _namespace: str | int | None = PrivateAttr(default=None)

    @classmethod
    def from_function(cls, function: Function, namespace: str | int | None) -> "CrewTool":
        """Create the tool of a function for a namespace."""
        arguments = create_model(f"{function.name}_arguments", __base__=PassedArguments)
        arguments.offered = build_strict_schema(function)
        tool = cls(
            name=function.name,
            description=function.description,
            args_schema=arguments,
            cache_function=_is_lasting,
        )
        tool._function = function
        tool._namespace = namespace
        return tool

    @override
    def _run(self, **arguments: object) -> object:
        cleaned = self._clean(arguments)
        return _to_result(self._function.call_sync(cleaned, namespace=self._namespace))

    @override
    async def _arun(self, **arguments: object) -> object:
        cleaned = self._clean(arguments)
        return _to_result(await self._function.call(cleaned, namespace=self._namespace))

    def _clean(self, arguments: JsonObject) -> JsonObject:
        """Return the arguments without the nulls that CrewAI's strict schemas make a model send."""
        schema = cast(type[PassedArguments], self.args_schema).offered
        return cast(JsonObject, leave_out_null(arguments, schema))


def _to_result(reply: Reply) -> str | ToolFailure:
    if not reply.failed:
        return reply.text

    # Without a code, because CrewAI would add it to the text that the model gets.
    fault = reply.payload["error"]
    return ToolFailure(message=reply.text, retryable=fault.get("retryable", False), details=fault)


def _is_lasting(arguments: object = None, result: object = None) -> bool:
    """Return that no result may answer a later call: what was read may have changed."""
    return False
