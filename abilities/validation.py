"""Checking arguments and answers; after a failure, finding out all that is wrong with arguments.

Good arguments cost nothing but pydantic's validation. What is wrong is explained by the ability's
published schema, so that plugins' abilities teach as the built-in ones do.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from abilities.declarations.faults import (
    MAX_MISTAKES,
    Mistake,
    Place,
    Refused,
    build_bounds,
    build_rule,
    explain_unknown,
    find_place,
    join_names,
    name_unknown_field,
)
from abilities.declarations.fields import REFUSED
from abilities.declarations.memory import TEXT_FORM
from abilities.declarations.reasons import Reason
from abilities.declarations.suggestions import suggest_argument, suggest_value
from abilities.declarations.values import JsonObject, as_object
from abilities.schemas import build_arguments_schema

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
