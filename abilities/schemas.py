"""The JSON Schemas of abilities, and their declarations for MCP, OpenAI and Anthropic clients.

The schema of arguments has three forms. The brief one is for models, which get it with every call:
it has what a model needs to make a call. The full one has every bound, for refusals and for people.
The exact one accepts exactly the arguments that are accepted, for programs.

Checking arguments and answers; after a failure, finding out all that is wrong with arguments.

Good arguments cost nothing but pydantic's validation. What is wrong is explained by the ability's
published schema, so that plugins' abilities teach as the built-in ones do.
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeVar, cast

import orjson
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from abilities.declarations.fields import BRIEF, EXACT, REFUSED, UNOFFERED, UNSAID
from abilities.declarations.memory import TEXT_FORM
from abilities.declarations.refusals import (
    MAX_MISTAKES,
    Fault,
    Mistake,
    Place,
    Reason,
    Refused,
    build_bounds,
    build_rule,
    explain_unknown,
    find_place,
    join_names,
    name_unknown_field,
)
from abilities.declarations.suggestions import suggest_argument, suggest_value
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


_REASONS: dict[str, Reason] = {
    "missing": "missing_argument",
    "extra_forbidden": "unknown_argument",
    "greater_than": "out_of_range",
    "greater_than_equal": "out_of_range",
    "less_than": "out_of_range",
    "less_than_equal": "out_of_range",
    "multiple_of": "out_of_range",
    "int_parsing_size": "out_of_range",
    "string_too_long": "too_long",
    "bytes_too_long": "too_long",
    "string_too_short": "too_short",
    "bytes_too_short": "too_short",
    "too_long": "too_many",
    "too_short": "too_few",
    "literal_error": "not_one_of",
    "enum": "not_one_of",
    "int_parsing": "wrong_type",
    "int_from_float": "wrong_type",
    "float_parsing": "wrong_type",
    "bool_parsing": "wrong_type",
    "finite_number": "wrong_type",
}
"""Reasons by pydantic's types of errors; those that end in ``_type`` are wrong types too."""

_MAX_ERRORS = 200
"""Errors that are looked at; whoever makes more of them must not keep the server busy."""

M = TypeVar("M", bound=BaseModel)


def validate_arguments(model: type[M], arguments: object) -> M:
    """Return the arguments as their model; None stands for no arguments.

    Raises Refused for the first argument that is wrong, with all that are in its ``fields``.
    """
    if arguments is None:
        arguments = {}

    try:
        return model.model_validate(arguments)
    except ValidationError as error:
        errors = error.errors(include_url=False)

    raise Refused.from_mistakes(_Request(model, arguments).find_mistakes(errors))


def validate_answer(model: type[M], answer: object) -> M:
    """Return an answer as its model. Raises ValueError, whose text holds nothing of the answer."""
    try:
        return model.model_validate(answer)
    except ValidationError as error:
        # What is logged must not hold contents, as the error itself does.
        places = [mistake["loc"] for mistake in error.errors(include_input=False)[:3]]

    raise ValueError(f"the answer is not what {model.__name__} declares, at {places}")


@dataclass(frozen=True, slots=True)
class _Request:
    """Arguments that their model has refused."""

    model: type[BaseModel]
    arguments: object

    def find_mistakes(self, errors: Sequence[ErrorDetails]) -> list[Mistake]:
        """Return the mistakes behind pydantic's errors, at most one per argument.

        Pydantic reports errors in the order of the model's fields, and unknown arguments last.
        """
        schema = build_arguments_schema(self.model)
        mistakes: dict[str | None, Mistake] = {}
        misnamed: set[str | None] = set()

        for error in errors[:_MAX_ERRORS]:
            place = find_place(schema, error["loc"])
            field = self._name_field(error, place)
            # Unknown arguments whose names are not repeated are one mistake.
            if field in mistakes:
                continue

            mistake = self._explain(error, place, field)
            mistakes[field] = mistake
            if mistake.reason == "unknown_argument" and mistake.did_you_mean is not None:
                misnamed.add(join_names(place.field, mistake.did_you_mean))
            if len(mistakes) == MAX_MISTAKES:
                break

        return _drop_misnamed(mistakes.values(), misnamed)

    def _name_field(self, error: ErrorDetails, place: Place) -> str | None:
        """Return the field of an error as the caller knows it, None if it cannot be named."""
        reason = _find_reason(error)

        if reason == "unknown_argument":
            return name_unknown_field(place.field, str(error["loc"][-1])) or None
        if reason == "repeated_argument":
            return self._find_repeated_name()

        return self._find_sent_name(place.field) or None

    def _explain(self, error: ErrorDetails, place: Place, field: str | None) -> Mistake:
        reason = _find_reason(error)

        if reason == "unknown_argument":
            return self._explain_unknown(error, place)
        if reason == "repeated_argument":
            return Mistake(field=field, reason=reason)

        expected = _build_expected(reason, place.schema, error)
        did_you_mean = None
        if reason == "not_one_of":
            did_you_mean = suggest_value(error["input"], expected.get("one_of", []))

        return Mistake(
            field=field,
            reason=reason,
            expected=expected or None,
            did_you_mean=did_you_mean,
        )

    def _explain_unknown(self, error: ErrorDetails, place: Place) -> Mistake:
        """Return the mistake of an unknown argument, or of an unknown field of an item."""
        name = str(error["loc"][-1])
        offered: JsonObject = place.schema.get("properties", {})
        suggestion = self._suggest(name, offered, is_argument=len(error["loc"]) == 1)

        return explain_unknown(name, offered, suggestion, within=place.field)

    def _suggest(self, name: str, offered: Iterable[str], *, is_argument: bool) -> str | None:
        """Return what an unknown name probably means, other than arguments that were given."""
        if not is_argument:
            return suggest_argument(name, offered)

        other_names = _get_other_names(self.model)
        given = as_object(self.arguments) or {}
        given_names = {other_names.get(other, other) for other in given}

        candidates = [other for other in offered if other not in given_names]
        candidates += [other for other, own in other_names.items() if own not in given_names]

        suggestion = suggest_argument(name, candidates)
        if suggestion is None:
            return None
        return other_names.get(suggestion, suggestion)

    def _find_repeated_name(self) -> str | None:
        """Return the second of two names of one argument."""
        other_names = _get_other_names(self.model)
        own_names: set[str] = set()

        for name in as_object(self.arguments) or {}:
            own_name = other_names.get(name, name)
            if own_name in own_names:
                return name
            own_names.add(own_name)

        return None

    def _find_sent_name(self, field: str) -> str:
        """Return a field under the name by which the caller sent it, if that is a further one."""
        given = as_object(self.arguments) or {}

        for other_name, name in _get_other_names(self.model).items():
            if field == name and other_name in given and name not in given:
                return other_name

        return field


def _drop_misnamed(mistakes: Iterable[Mistake], misnamed: set[str | None]) -> list[Mistake]:
    """Drop missing arguments that were given under a wrong name: that is one mistake, not two."""
    return [
        mistake
        for mistake in mistakes
        if mistake.reason != "missing_argument" or mistake.field not in misnamed
    ]


def _find_reason(error: ErrorDetails) -> Reason:
    kind = error["type"]

    if kind == REFUSED:
        return cast(Reason, error.get("ctx", {})["reason"])
    if kind in _REASONS:
        return _REASONS[kind]
    if kind.endswith("_type"):
        return "wrong_type"

    return "invalid_format"


def _build_expected(reason: Reason, schema: JsonObject, error: ErrorDetails) -> JsonObject:
    """Return the rule that a value breaks, with all bounds, so that one correction is enough."""
    # The arguments as a whole; what belongs in them is for the schema to tell.
    if not error["loc"] and reason == "wrong_type":
        return {"type": "object"}

    if reason in ("wrong_type", "missing_argument"):
        return build_rule(schema)

    expected = build_bounds(schema)
    if error["type"] == "string_unicode":
        expected["format"] = TEXT_FORM
    elif error["type"] == REFUSED:
        # What a declaration's own check knows, and no schema can say.
        expected.update(error.get("ctx", {})["expected"])

    return expected


def _get_other_names(model: type[BaseModel]) -> dict[str, str]:
    """Return the further names of a model's arguments; plugins' models need not have any."""
    other_names: dict[str, str] = getattr(model, "other_names", {})
    return other_names
