"""Wrong arguments: what is wrong with each, and the sentence that teaches the rule it breaks."""

from collections.abc import Callable

from pydantic import Field

from abilities.declarations.model import Model
from abilities.declarations.rules import build_rule, name_unknown_field
from abilities.declarations.values import JsonObject

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
