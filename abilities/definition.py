"""The definition of an ability, a typed tool with a name, and of the context that it runs in.

The JSON Schema of its arguments has three forms. The brief one is for models, which get it with
every call: it has only the fields and rules that a model needs. The full one has every bound, for
refusals and for people. The exact one accepts exactly the valid arguments, for programs.

Valid arguments cost only pydantic's validation. Mistakes are explained by the full schema, so that
refusals by plugins' abilities are as helpful as by built-in ones.
"""

import inspect
import json
import re
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, Literal, Self, TypeGuard, TypeVar, cast

import orjson
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from abilities.declarations import refusals
from abilities.declarations.fields import BRIEF, EXACT, REFUSED, UNOFFERED, Detail, OutputFormat
from abilities.declarations.memory import TEXT_FORM
from abilities.declarations.suggestions import suggest_argument, suggest_value
from abilities.declarations.values import (
    UNSAID,
    JsonObject,
    as_object,
    has_control_character,
    has_surrogate,
)
from abilities.helpers.files.files import Files
from abilities.helpers.memory.helper import MemoryHelper
from abilities.helpers.reply.budget import Bound

MAX_TITLE = 100
"""Characters of an ability's title."""

MAX_DESCRIPTION = 4_000
"""Characters of an ability's description; every client sends it to its model with every call."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
"""A name that every kind of client accepts; OpenAI's limit of 64 characters is the lowest."""

_RESOURCE = re.compile(r"[a-z][a-z0-9+.-]*://\{([a-z][a-z0-9_]*)\}")

_PACKAGE = __name__.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Context:
    """The context of a call, which an ability's ``run`` receives besides the arguments.

    Read files and memories through ``files`` and ``memory``, never with ``open()``: they enforce
    the caller's directories and namespace, the limits and the deny list.

    An answer that is larger than ``max_response_bytes`` as JSON is refused. If ``read_only`` is
    true, the caller may not change anything, and the registry refuses abilities that would. If
    ``may_purge`` is true, the caller may delete memories with their history. The history records
    ``caller`` with each change.

    ``remembers`` is whether files come with what is remembered about them.

    ``disabled`` names the abilities that the settings do not offer, so that others do not do the
    same in another way. ``output_format`` and ``detail`` are the defaults for the arguments of
    built-in abilities; ``structured`` means that the payload is also sent as JSON.

    To fail the whole call, raise `Refused` with a reason, or `AbilityError`.
    """

    namespace: str
    files: Files
    memory: MemoryHelper
    max_response_bytes: int
    read_only: bool = False
    disabled: tuple[str, ...] = ()
    output_format: OutputFormat = "json"
    structured: bool = False
    detail: Detail = "full"
    caller: str = "python"
    may_purge: bool = False
    remembers: bool = False

    @property
    def bound(self) -> Bound:
        """The bound of an answer, counted in the format in which it is sent."""
        if self.output_format != "text":
            return Bound(self.max_response_bytes)

        return Bound(self.max_response_bytes, "both" if self.structured else "text")


Run = Callable[[Context, Any], Awaitable[BaseModel | JsonObject]]
"""The function behind an ability: ``async def run(context, arguments) -> answer``."""


@dataclass(frozen=True, slots=True)
class Ability:
    """A typed tool that every surface can offer.

    ``name`` is in snake_case, at most 64 characters long. ``input`` and ``answer`` are pydantic
    models. The arguments are validated by ``input`` before ``run`` is awaited; ``run`` returns an
    instance of ``answer``, or a dict with the same fields. Unless the ability is built in, both
    happen on an event loop of its package, within 10 seconds.

    By ``read_only``, ``idempotent`` and ``destructive``, clients decide whether to ask the user
    before a call. ``resource`` is a URI with a placeholder for one argument, for example
    ``memory://{key}``; MCP clients can read the answer as a resource at such a URI.

    A description names no other ability, because that one may not be offered. ``see_also`` has
    sentences by the names of other abilities; the sentence of the first one that is offered is
    added to the description.

    Raises ValueError for an unusable name, title, description or resource, and TypeError for a
    field of another type.
    """

    name: str
    title: str
    description: str
    input: type[BaseModel]
    answer: type[BaseModel]
    run: Run
    read_only: bool = False
    idempotent: bool = False
    destructive: bool = False
    resource: str | None = None
    see_also: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)

    package: str = field(init=False, repr=False, compare=False)
    """The top-level package of its function; the abilities of a package share an event loop."""

    is_built_in: bool = field(init=False, repr=False, compare=False)
    """Whether it is one of this package, which runs on the event loop of its caller."""

    def __post_init__(self) -> None:
        texts: list[object] = [self.name, self.title, self.description, self.resource or ""]
        texts += self.see_also.values()
        flags: list[object] = [self.read_only, self.idempotent, self.destructive]

        if not all(isinstance(text, str) for text in texts):
            raise TypeError(
                "an ability's name, title, description, resource and see_also are strings"
            )

        if not all(isinstance(flag, bool) for flag in flags):
            raise TypeError("an ability's read_only, idempotent and destructive are booleans")

        if not (is_model(self.input) and is_model(self.answer)):
            raise TypeError("an ability's input and answer are pydantic models")

        if not callable(self.run):
            raise TypeError("an ability's run is an async function")

        run: object = self.run
        while isinstance(run, partial):
            run = run.func

        package = str(getattr(run, "__module__", None)).partition(".")[0]
        # The only way to set a field of a frozen class.
        object.__setattr__(self, "package", package)
        object.__setattr__(self, "is_built_in", package == _PACKAGE)

        if not _NAME.fullmatch(self.name):
            raise ValueError(
                f"an ability's name is snake_case, 64 characters at most: {self.name[:100]!r}"
            )

        if not self.description.strip():
            raise ValueError(f"ability {self.name} needs a description, by which models choose it")

        _check_text(f"title of {self.name}", self.title, MAX_TITLE)
        _check_text(f"description of {self.name}", self.description, MAX_DESCRIPTION)

        if self.resource is None:
            return

        # Clients read resources without asking the user, so reading one must not change anything.
        match = _RESOURCE.fullmatch(self.resource)
        is_resource = match is not None and match[1] in self.input.model_fields
        if not (is_resource and self.read_only):
            raise ValueError(
                f"ability {self.name}: a resource is read at 'scheme://{{argument}}', "
                "by an ability that is read_only"
            )

    def __call__(self, *arguments: Any, **named: Any) -> Awaitable[Any]:
        """Call the original function, for tests: nothing is validated or bounded."""
        function: Callable[..., Awaitable[Any]] = inspect.unwrap(self.run)
        return function(*arguments, **named)

    def describe_beside(self, offered: Container[str]) -> Self:
        """Return the ability with its description for clients that have these abilities."""
        for name, sentence in self.see_also.items():
            if name in offered:
                description = f"{self.description} {sentence}"
                return replace(self, description=description, see_also={})

        return self


def built_in(
    title: str, description: str, answer: type[BaseModel], **properties: Any
) -> Callable[[Run], Ability]:
    """Turn a function of a context and a model into the built-in ability of its name.

    One that is read-only is idempotent too.
    """
    properties = {"idempotent": properties.get("read_only", False), **properties}

    def make_ability(run: Run) -> Ability:
        _, model, _ = run.__annotations__.values()
        return Ability(run.__name__, title, description, model, answer, run, **properties)

    return make_ability


@dataclass(frozen=True, slots=True)
class LazyAbility:
    """An ability that is imported when it is needed; ``load`` returns the same one every time."""

    name: str
    load: Callable[[], Ability]


def _check_text(name: str, text: str, max_chars: int) -> None:
    """Raise ValueError for a text that is too long, or that some client cannot show."""
    if len(text) > max_chars:
        raise ValueError(f"the {name} is longer than {max_chars:,} characters")

    printable = text.replace("\n", "").replace("\t", "")
    if has_surrogate(text) or has_control_character(printable):
        raise ValueError(f"the {name} contains a control character or a surrogate")


def is_model(hint: object) -> TypeGuard[type[BaseModel]]:
    """Return whether a type is a pydantic model."""
    return isinstance(hint, type) and issubclass(hint, BaseModel)


Form = Literal["brief", "full", "exact"]

MAX_SCHEMA_BYTES = 64 * 1024
"""A schema as JSON; clients send the schemas of all abilities to their models with every call."""

_EXPECTED_BYTES = 64_000
"""Clients pass answers up to this size on to their model. Larger ones need a hint."""

_MAX_NODES = 10_000
"""Objects of a schema whose references are replaced by their definitions."""

_ENDLESS = "the schema is too large, or refers to itself"

_MAX_ERRORS = 200
"""Errors to look at: a caller with more of them must not keep the server busy."""

_EVIDENT: JsonObject = {
    "additionalProperties": False,
    "default": False,
    "minLength": 1,
    "minItems": 1,
}
"""Keywords that a model takes for granted.

It sends no empty values and no undescribed fields, and leaves out a false flag.
"""

_REASONS: dict[str, refusals.Reason] = {
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
"""Reasons by pydantic's types of errors. A type that ends in ``_type`` is a wrong type too."""

M = TypeVar("M", bound=BaseModel)


def build_schema(model: type[BaseModel], form: Form = "full") -> JsonObject:
    """Return the JSON Schema of a model, which the caller may change.

    In an answer, an optional field without a value is left out; it is never null.
    """
    return cast(JsonObject, orjson.loads(_encode_schema(model, form)))


def build_exact_schema(ability: Ability, *, nullable: bool) -> JsonObject:
    """Return the JSON Schema that accepts exactly the valid arguments, for programs.

    With ``nullable`` it also accepts null for an optional argument.
    """
    schema = build_schema(ability.input, "exact")
    if not nullable:
        return schema

    required = schema.get("required", [])
    for name, argument in schema["properties"].items():
        if name in required:
            continue

        # Clients show the description of the field itself, not that of one of its alternatives.
        outer = {key: value for key, value in argument.items() if key in ("description", "default")}
        constraints = {key: value for key, value in argument.items() if key not in outer}
        schema["properties"][name] = {"anyOf": [constraints, {"type": "null"}], **outer}

    return schema


def check_schemas(ability: Ability) -> None:
    """Raise ValueError, or an exception of building them, for schemas that cannot be published."""
    arguments = build_schema(ability.input, "brief")
    answer = build_schema(ability.answer)
    takes_object = arguments.get("type") == "object" and "properties" in arguments
    if not takes_object or answer.get("type") != "object":
        raise ValueError("an ability's input and answer must be models of objects")

    build_exact_schema(ability, nullable=True)


def build_annotations(ability: Ability) -> dict[str, bool]:
    """Return MCP's hints about the effects of a call; no ability reaches beyond this machine."""
    return {
        "readOnlyHint": ability.read_only,
        "destructiveHint": ability.destructive,
        "idempotentHint": ability.idempotent,
        "openWorldHint": False,
    }


def describe_tool(ability: Ability, *, max_response_bytes: int, structured: bool) -> JsonObject:
    """Return an ability as a tool of our MCP server, its fields in the order of sending.

    Its output schema is included only for ``structured`` content.
    """
    # Hints that MCP assumes, or that mean nothing beside the others, are left out.
    hints = build_annotations(ability)
    for name in ("readOnlyHint", "idempotentHint"):
        if not hints[name]:
            del hints[name]

    if ability.read_only:
        del hints["destructiveHint"]

    tool: JsonObject = {
        "annotations": dict(sorted(hints.items())),
        "description": ability.description,
        "inputSchema": build_schema(ability.input, "brief"),
        "name": ability.name,
    }
    if max_response_bytes > _EXPECTED_BYTES:
        tool = {"_meta": {"anthropic/maxResultSizeChars": max_response_bytes}, **tool}
    if structured:
        tool["outputSchema"] = build_schema(ability.answer)

    tool["title"] = ability.title
    return tool


def build_declaration(ability: Ability) -> JsonObject:
    """Return the declarations of an ability for the clients ``mcp``, ``openai``, ``anthropic``."""
    name = ability.name
    description = ability.description
    schema = build_schema(ability.input, "brief")

    return {
        "name": name,
        "mcp": {
            "name": name,
            "title": ability.title,
            "description": description,
            "inputSchema": schema,
            "outputSchema": build_schema(ability.answer),
            "annotations": build_annotations(ability),
        },
        "openai": {
            "type": "function",
            "function": {"name": name, "description": description, "parameters": schema},
        },
        "anthropic": {"name": name, "description": description, "input_schema": schema},
    }


def describe_fully(ability: Ability) -> JsonObject:
    """Return the MCP declaration of an ability with the full schema of its arguments."""
    declared: JsonObject = build_declaration(ability)["mcp"]
    return {**declared, "inputSchema": build_schema(ability.input)}


def format_declaration(ability: Ability) -> str:
    """Return a declaration as the text of its file."""
    return json.dumps(build_declaration(ability), indent=2, ensure_ascii=False) + "\n"


@cache
def _encode_schema(model: type[BaseModel], form: Form) -> bytes:
    """Return the schema of a model as JSON: bytes, because a cached value must not change."""
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})

    # The docstring of a model of arguments repeats the ability's description.
    if form == "brief":
        schema.pop("description", None)

    try:
        simple = _Simplifier(definitions, form).simplify(schema)
    except RecursionError:
        raise ValueError(_ENDLESS) from None

    encoded = orjson.dumps(simple)
    if len(encoded) > MAX_SCHEMA_BYTES:
        raise ValueError(f"the schema of {model.__name__} is larger than {MAX_SCHEMA_BYTES} bytes")

    return encoded


class _Simplifier:
    """Brings a schema into plain form.

    References are replaced by their definitions, because not every client follows them. Keywords
    without information are dropped: generated titles, and null as another way to leave a field out
    (but not null as an item of a list).
    """

    def __init__(self, definitions: JsonObject, form: Form) -> None:
        self._definitions = definitions
        self._form: Form = form
        self._nodes = 0

    def simplify(self, node: object, *, is_field: bool = False) -> Any:
        """Return a part of the schema. Raises ValueError if it is too large."""
        if isinstance(node, list):
            return [self.simplify(item) for item in cast(list[object], node)]

        schema = as_object(node)
        if schema is None:
            return node

        self._count_node()
        schema = self._inline_reference(schema)
        if is_field:
            schema = _drop_null(schema)
        schema = _apply_form(self._inline_reference(schema), self._form)

        simple: JsonObject = {}
        for key, value in schema.items():
            if key == "properties":
                # These keys are names of fields, and a field may be named "title" too.
                fields: JsonObject = value
                simple[key] = {
                    name: self.simplify(field, is_field=True)
                    for name, field in fields.items()
                    if self._form != "brief" or UNOFFERED not in field
                }
            elif key != "title" or not isinstance(value, str):
                simple[key] = self.simplify(value)

        return simple

    def _inline_reference(self, schema: JsonObject) -> JsonObject:
        """Replace a reference by its definition; keys next to the reference take precedence."""
        while "$ref" in schema:
            self._count_node()
            others = dict(schema)
            name = others.pop("$ref").rpartition("/")[2]
            schema = {**self._definitions[name], **others}

        return schema

    def _count_node(self) -> None:
        # Thirty definitions that refer to the next one twice are a billion nodes.
        self._nodes += 1
        if self._nodes > _MAX_NODES:
            raise ValueError(_ENDLESS)


def _apply_form(schema: JsonObject, form: Form) -> JsonObject:
    """Apply or drop the keywords of a schema that only some forms have."""
    applied = dict(schema)
    exact: JsonObject = applied.pop(EXACT, {})
    brief: JsonObject = applied.pop(BRIEF, {})
    unsaid: list[str] = applied.pop(UNSAID, [])
    applied.pop(UNOFFERED, None)

    if form == "exact":
        applied.update(exact)
    elif form == "brief":
        applied.update(brief)
        evident = [key for key, value in _EVIDENT.items() if applied.get(key) is value]
        for keyword in (*unsaid, *evident):
            applied.pop(keyword, None)

    return applied


def _drop_null(schema: JsonObject) -> JsonObject:
    """Drop null as an alternative and as a default."""
    alternatives = [option for option in schema.get("anyOf", []) if option != {"type": "null"}]
    if len(alternatives) == 1:
        others = dict(schema)
        del others["anyOf"]
        (only,) = alternatives
        unsaid: list[str] = [*only.get(UNSAID, ()), *schema.get(UNSAID, ())]
        exact: JsonObject = {**only.get(EXACT, {}), **schema.get(EXACT, {})}
        schema = {**only, **others, UNSAID: unsaid, EXACT: exact}
    elif alternatives:
        schema = {**schema, "anyOf": alternatives}

    if "default" in schema and schema["default"] is None:
        schema = dict(schema)
        del schema["default"]

    return schema


def validate_arguments(model: type[M], arguments: object) -> M:
    """Return the arguments as their model; None means no arguments.

    Raises Refused for the first wrong argument; its ``fields`` has all of them.
    """
    if arguments is None:
        arguments = {}

    try:
        return model.model_validate(arguments)
    except ValidationError as error:
        errors = error.errors(include_url=False)

    raise refusals.Refused.from_mistakes(_Request(model, arguments).find_mistakes(errors))


def validate_answer(model: type[M], answer: object) -> M:
    """Return an answer as its model. Raises ValueError, without any content of the answer."""
    try:
        return model.model_validate(answer)
    except ValidationError as error:
        # The error itself has contents, which must not be logged.
        places = [mistake["loc"] for mistake in error.errors(include_input=False)[:3]]

    raise ValueError(f"the answer does not match {model.__name__} at {places}")


class _Request:
    """Arguments that their model has refused."""

    def __init__(self, model: type[BaseModel], arguments: object) -> None:
        self._schema = build_schema(model)
        self._given = as_object(arguments) or {}
        # Further names of arguments; the models of plugins need not have any.
        self._other_names: dict[str, str] = getattr(model, "other_names", {})

    def find_mistakes(self, errors: Sequence[ErrorDetails]) -> list[refusals.Mistake]:
        """Return the mistakes behind pydantic's errors, at most one per argument.

        Pydantic reports errors in the order of the model's fields, and unknown arguments last.
        """
        mistakes: dict[str | None, refusals.Mistake] = {}
        misnamed: set[str | None] = set()

        for error in errors[:_MAX_ERRORS]:
            place = refusals.find_place(self._schema, error["loc"])
            field = self._name_field(error, place)
            # All unknown arguments whose names cannot be repeated are one mistake.
            if field in mistakes:
                continue

            mistake = self._explain(error, place, field)
            mistakes[field] = mistake
            if mistake.reason == "unknown_argument" and mistake.did_you_mean is not None:
                misnamed.add(refusals.join_names(place.field, mistake.did_you_mean))
            if len(mistakes) == refusals.MAX_MISTAKES:
                break

        # An argument under a wrong name is one mistake, so it does not count as missing too.
        return [
            mistake
            for mistake in mistakes.values()
            if mistake.reason != "missing_argument" or mistake.field not in misnamed
        ]

    def _name_field(self, error: ErrorDetails, place: refusals.Place) -> str | None:
        """Return the name of a field as the caller knows it, None if it cannot be named."""
        reason = _find_reason(error)
        if reason == "unknown_argument":
            return refusals.name_unknown_field(place.field, str(error["loc"][-1])) or None

        if reason == "repeated_argument":
            # The second of two names of one argument.
            own_names: set[str] = set()
            for name in self._given:
                own_name = self._other_names.get(name, name)
                if own_name in own_names:
                    return name
                own_names.add(own_name)

            return None

        # The caller may have sent the field under another name.
        for other_name, name in self._other_names.items():
            is_sent = other_name in self._given and name not in self._given
            if place.field == name and is_sent:
                return other_name

        return place.field or None

    def _explain(
        self, error: ErrorDetails, place: refusals.Place, field: str | None
    ) -> refusals.Mistake:
        reason = _find_reason(error)
        if reason == "unknown_argument":
            name = str(error["loc"][-1])
            offered: JsonObject = place.schema.get("properties", {})
            suggestion = self._suggest_name(name, offered, is_field=len(error["loc"]) > 1)
            return refusals.explain_unknown(name, offered, suggestion, within=place.field)

        if reason == "repeated_argument":
            return refusals.Mistake(field=field, reason=reason)

        expected = _build_expected(reason, place.schema, error)
        did_you_mean = None
        if reason == "not_one_of":
            did_you_mean = suggest_value(error["input"], expected.get("one_of", []))

        return refusals.Mistake(
            field=field,
            reason=reason,
            expected=expected or None,
            did_you_mean=did_you_mean,
        )

    def _suggest_name(self, name: str, offered: Iterable[str], *, is_field: bool) -> str | None:
        """Return the name that was probably meant: of an item's field, or of an unused argument."""
        if is_field:
            return suggest_argument(name, offered)

        sent = {self._other_names.get(other, other) for other in self._given}
        candidates = [other for other in offered if other not in sent]
        candidates += [other for other, own in self._other_names.items() if own not in sent]

        suggestion = suggest_argument(name, candidates)
        if suggestion is None:
            return None
        return self._other_names.get(suggestion, suggestion)


def _find_reason(error: ErrorDetails) -> refusals.Reason:
    kind = error["type"]

    if kind == REFUSED:
        return cast(refusals.Reason, error.get("ctx", {})["reason"])
    if kind in _REASONS:
        return _REASONS[kind]
    if kind.endswith("_type"):
        return "wrong_type"

    return "invalid_format"


def _build_expected(reason: refusals.Reason, schema: JsonObject, error: ErrorDetails) -> JsonObject:
    """Return the rule that a value violates, with all bounds, so that one correction is enough."""
    # The arguments as a whole are of a wrong type.
    if not error["loc"] and reason == "wrong_type":
        return {"type": "object"}

    if reason in ("wrong_type", "missing_argument"):
        return refusals.build_rule(schema)

    expected = refusals.build_bounds(schema)
    if error["type"] == "string_unicode":
        expected["format"] = TEXT_FORM
    elif error["type"] == REFUSED:
        # A rule of a declaration's own check, which a schema cannot express.
        expected.update(error.get("ctx", {})["expected"])

    return expected
