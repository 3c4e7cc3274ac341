"""Refusals, and the faults that callers see of them."""

import logging
import re
import secrets
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self, cast

from pydantic import Field

from abilities.declarations.model import Model
from abilities.declarations.reasons import FAULTS, SHOWN_REASONS, Code, Reason
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


MAX_MISTAKES = 10
"""Wrong arguments of one call that a fault lists."""

MAX_SENTENCE_CHARS = 120
"""Characters of a fault's sentence."""

_TYPES = {
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "string": "a string",
    "array": "an array",
    "object": "an object",
}
_PLURALS = {"string": "strings", "integer": "integers", "number": "numbers", "object": "objects"}


class Mistake(Model):
    """One wrong argument."""

    field: str | None = Field(
        default=None,
        description="The argument, such as depth or links[2].link_weight.",
    )
    reason: str = Field(description="What is wrong with it.")
    expected: JsonObject | None = Field(default=None, description="The rule that it breaks.")
    did_you_mean: str | None = Field(default=None, description="The name or value to send instead.")


def explain_unknown(
    name: str, offered: JsonObject, suggestion: str | None, *, within: str = ""
) -> Mistake:
    """Return the mistake of an unknown name, given the schemas of the names that are offered.

    ``within`` is the field that holds it. The rule is that of the suggested name, because the value
    may be wrong too; without a suggestion the rule lists the names.
    """
    expected: JsonObject | None = None
    if suggestion is not None:
        expected = build_rule(offered[suggestion])
    elif offered:
        expected = {"one_of": list(offered)}

    return Mistake(
        field=name_unknown_field(within, name) or None,
        reason="unknown_argument",
        expected=expected,
        did_you_mean=suggestion,
    )


def describe_mistake(mistake: Mistake) -> str | None:
    """Return one sentence of at most 120 characters that says the rule; None if it is not known.

    The sentence holds names, bounds and values of the schema alone, nothing that a caller sent.

    >>> describe_mistake(
    ...     Mistake(field="depth", reason="out_of_range", expected={"minimum": 1, "maximum": 6})
    ... )
    'depth must be 1 to 6.'
    """
    if mistake.reason in _NAMELESS:
        return _suggest(_NAMELESS[mistake.reason], mistake.did_you_mean)

    describe_rule = _RULES.get(mistake.reason)
    if describe_rule is None:
        return None

    rule = describe_rule(mistake.expected or {})
    if rule is None:
        return None

    sentence = f"{mistake.field or 'The arguments'} {rule}."
    if len(sentence) <= MAX_SENTENCE_CHARS:
        return sentence

    return _shorten(sentence)


_NAMELESS = {
    "unknown_argument": "There is no such argument",
    "unknown_ability": "No ability has this name",
    "unknown_address": "Nothing is at this address",
}
"""The beginnings of sentences that must not name the field, because its name is the caller's."""


def _suggest(sentence: str, name: str | None) -> str | None:
    if name is None:
        return None

    suggestion = f"{sentence}; did you mean '{name}'?"
    if len(suggestion) > MAX_SENTENCE_CHARS:
        return None

    return suggestion


def _shorten(sentence: str) -> str | None:
    """Return a sentence that ends with a list, without the values that are too many."""
    head, colon, _ = sentence.partition(": ")
    shortest = f"{head}{colon}…"
    if not colon or len(shortest) > MAX_SENTENCE_CHARS:
        return None

    kept, _, _ = sentence[: MAX_SENTENCE_CHARS - 2].rpartition(", ")
    if len(kept) <= len(head):
        return None

    return f"{kept}, …"


def _describe_missing(_: JsonObject) -> str:
    return "is missing"


def _describe_type(expected: JsonObject) -> str | None:
    kind = expected.get("type")
    if kind not in _TYPES:
        return None

    words = f"must be {_TYPES[kind]}"
    if kind == "array":
        plural = _PLURALS.get(expected.get("items", {}).get("type"))
        return f"{words} of {plural}" if plural else words

    if "minimum" in expected and "maximum" in expected:
        return f"{words} from {_describe_bounds(expected)}"

    return words


def _describe_range(expected: JsonObject) -> str | None:
    bounds = _describe_bounds(expected)
    if bounds is None:
        return None

    return f"must be {bounds}"


def _describe_bounds(expected: JsonObject) -> str | None:
    """Return the bounds of a number in words, the first of them that the rule has."""
    if "minimum" in expected and "maximum" in expected:
        return f"{expected['minimum']} to {expected['maximum']}"

    for name, words in _BOUNDS.items():
        if name in expected:
            return f"{words} {expected[name]}"

    return None


_BOUNDS = {
    "minimum": "at least",
    "maximum": "at most",
    "exclusive_minimum": "more than",
    "exclusive_maximum": "less than",
    "multiple_of": "a multiple of",
}


def _describe_maximum(expected: JsonObject) -> str | None:
    if "max_bytes" in expected:
        return f"takes at most {expected['max_bytes']} bytes in total"

    units = {"max_length": "character", "max_items": "item"}
    return _describe_amount(expected, units, "takes at most")


def _describe_minimum(expected: JsonObject) -> str | None:
    units = {"min_length": "character", "min_items": "item"}
    return _describe_amount(expected, units, "needs at least")


def _describe_amount(expected: JsonObject, units: dict[str, str], words: str) -> str | None:
    for name, unit in units.items():
        if name in expected:
            amount = expected[name]
            ending = "" if amount == 1 else "s"
            return f"{words} {amount} {unit}{ending}"

    return None


def _describe_choice(expected: JsonObject) -> str | None:
    values: list[object] = expected.get("one_of", [])
    if not values:
        return None

    return f"must be one of: {', '.join(str(value) for value in values)}"


def _describe_format(expected: JsonObject) -> str | None:
    if "format" in expected:
        return f"must have this form: {expected['format']}"
    if "pattern" in expected:
        return f"must match {expected['pattern']}"

    return None


_RULES: dict[str, Callable[[JsonObject], str | None]] = {
    "missing_argument": _describe_missing,
    "wrong_type": _describe_type,
    "out_of_range": _describe_range,
    "too_long": _describe_maximum,
    "too_many": _describe_maximum,
    "too_short": _describe_minimum,
    "too_few": _describe_minimum,
    "not_one_of": _describe_choice,
    "invalid_format": _describe_format,
}
"""What a sentence says after the field's name, by the reason."""


_log = logging.getLogger("abilities")


class AbilitiesError(Exception):
    """The root of every exception that this package raises; `abilities.errors` draws the tree."""


class Refused(AbilitiesError):
    """What was requested cannot be served.

    ``reason`` is a key of `FAULTS`. If an argument is at fault, ``field`` names it, ``expected`` is
    the rule that it breaks (see `rules`), and ``did_you_mean`` the name or value to send instead;
    if several are, ``fields`` lists them all. None of this may hold what a caller sent, except that
    ``field`` may be the plain name of an unknown argument.
    """

    def __init__(
        self,
        reason: Reason,
        field: str | None = None,
        *,
        expected: JsonObject | None = None,
        did_you_mean: str | None = None,
        fields: Sequence[Mistake] = (),
    ) -> None:
        # A plugin may run without a type checker; a made-up reason must not reach a caller.
        # Plugins raise this too, and not all of them are type-checked.
        if reason not in FAULTS:
            raise ValueError(f"{reason!r} is not a reason in FAULTS")

        super().__init__(reason)
        self.reason: Reason = reason
        self.field = field
        self.expected = expected
        self.did_you_mean = did_you_mean
        self.fields = fields

    @classmethod
    def from_mistakes(cls, mistakes: Sequence[Mistake]) -> "Refused":
        """Return the refusal of wrong arguments, of which the first names the reason."""
        first = mistakes[0]
        several = mistakes if len(mistakes) > 1 else ()

        return Refused(
            cast(Reason, first.reason),
            first.field,
            expected=first.expected,
            did_you_mean=first.did_you_mean,
            fields=several,
        )

    @property
    def message(self) -> str:
        """The sentence that callers see: that of the broken rule if it is known."""
        general = FAULTS[self.reason].message
        # Most refusals are about things that are not there, and have no rule.
        if self.field is None and self.expected is None and self.did_you_mean is None:
            return general

        mistake = Mistake(
            field=self.field,
            reason=self.reason,
            expected=self.expected,
            did_you_mean=self.did_you_mean,
        )
        return describe_mistake(mistake) or general


class Fault(Model):
    """Why something could not be answered."""

    code: Code = Field(description="The kind of failure, one of seven.")
    reason: str = Field(description="The exact cause, from a closed set.")
    message: str = Field(description="One sentence that says the rule.")
    retryable: bool = Field(
        default=False,
        description="True if the same request may succeed later; default false.",
    )
    field: str | None = Field(
        default=None,
        description="The argument at fault, if one is, such as depth or links[2].link_weight.",
    )
    expected: JsonObject | None = Field(
        default=None,
        description=(
            'The rule for that argument, such as {"minimum": 1, "maximum": 6}, '
            '{"one_of": […]}, {"max_items": 25} or {"type": "integer"}.'
        ),
    )
    did_you_mean: str | None = Field(
        default=None,
        description="What to send instead, if something is alike; data, as all names are.",
    )
    fields: list[Mistake] | None = Field(
        default=None,
        description="All wrong arguments, 10 at most, if several are; the first is this one.",
    )
    size_bytes: int | None = Field(
        default=None,
        description="For response_budget: the size in bytes of the file or memory left out.",
    )
    ref: str | None = Field(
        default=None,
        description="For an internal error: the reference under which the log has the details.",
    )

    @classmethod
    def from_reason(
        cls,
        reason: Reason,
        *,
        field: str | None = None,
        ref: str | None = None,
        size_bytes: int | None = None,
    ) -> Self:
        """Return the fault of a reason."""
        return cls._build(Refused(reason, field), ref, size_bytes)

    @classmethod
    def from_refusal(cls, refusal: Refused) -> Self:
        """Return what a caller learns of a refusal."""
        return cls._build(refusal, None)

    @classmethod
    def _build(cls, refusal: Refused, ref: str | None, size_bytes: int | None = None) -> Self:
        meaning = FAULTS[refusal.reason]

        return cls(
            code=meaning.code,
            reason=SHOWN_REASONS.get(refusal.reason, refusal.reason),
            message=refusal.message,
            retryable=meaning.retryable,
            field=refusal.field,
            expected=refusal.expected,
            did_you_mean=refusal.did_you_mean,
            fields=list(refusal.fields) or None,
            size_bytes=size_bytes,
            ref=ref,
        )

    @classmethod
    def from_exception(cls, error: Exception, ability: str = "a call") -> Self:
        """Return what a caller may learn of an exception.

        An unexpected one becomes INTERNAL_ERROR with a reference, under which it is logged with the
        name of the ability.
        """
        if isinstance(error, Refused):
            return cls.from_refusal(error)

        # Not a bug, and logging it with its traceback could need memory that is not there.
        if isinstance(error, MemoryError):
            return cls.from_reason("resource_exhausted")

        # Operators find the details in the log by this reference; callers must not see them.
        ref = secrets.token_hex(6)
        _log.error("unexpected error in %s, ref %s", ability, ref, exc_info=error)
        return cls.from_reason("internal", ref=ref)

    def to_payload(self) -> dict[str, Any]:
        """Return the fault as it stands in JSON: fields at their default are left out."""
        return self.model_dump(exclude_defaults=True)
