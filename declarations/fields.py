"""Types for the fields of a request: lenient about a value's shape, strict about all else.

Clients send numbers, booleans, arrays and objects as strings, and null for what they leave out.
These types accept that and nothing more, while the published schemas stay plain.
"""

import math
import re
from collections.abc import Callable
from typing import Annotated, ClassVar, cast

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError
from pydantic_core.core_schema import no_info_after_validator_function

from abilities.declarations.limits import MAX_ITEMS, MAX_READ_CHARS
from abilities.declarations.model import Model
from abilities.declarations.values import JsonObject, as_object, parse_json

EXACT = "x-exact"
"""The schema key for constraints that only programs check; schemas for models leave them out."""

_DECIMAL = re.compile(r"-?[0-9]{1,3}(\.[0-9]{1,20})?")

_MAX_DIGITS = 399
"""A longer integer is refused unread; Python itself refuses those of more than 4,300 digits."""

_BOOLEANS: dict[str, str | bool] = {"true": True, "false": False}


class Arguments(Model):
    """The base of every ability's input.

    An optional argument that is null counts as absent, and arguments may have further names.
    Everything else is strict: unknown arguments are refused, and types are not converted unless a
    field's own type says so.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,  # each field's own type says what is converted all the same
        defer_build=True,
    )

    other_names: ClassVar[dict[str, str]] = {}
    """Declared names by further names; two names of one argument must agree."""

    @model_validator(mode="before")
    @classmethod
    def _normalize(cls, data: object) -> object:
        """Rename arguments to their declared names, and drop optional ones that are null."""
        arguments = as_object(data)
        if arguments is None:
            return data

        for other_name, name in cls.other_names.items():
            arguments = _rename(arguments, other_name, name)

        # Many clients send null for every optional argument that their model left out.
        return {
            name: value
            for name, value in arguments.items()
            if value is not None or not cls._is_optional(name)
        }

    @classmethod
    def _is_optional(cls, name: str) -> bool:
        field = cls.model_fields.get(name)
        return field is not None and not field.is_required()

    def explicit_arguments(self) -> JsonObject:
        """Return the arguments that the caller gave, in declared order and normal form."""
        return {
            name: getattr(self, name)
            for name in type(self).model_fields
            if name in self.model_fields_set
        }


def _rename(arguments: JsonObject, other_name: str, name: str) -> JsonObject:
    """Return the arguments with one of them under its declared name."""
    if other_name not in arguments:
        return arguments

    renamed = dict(arguments)
    value = renamed.pop(other_name)
    if value is None:
        return renamed

    # Two equal values do no harm; which of two different ones is meant must not be guessed.
    if renamed.get(name) not in (None, value):
        raise PydanticCustomError("invalid_parameter", "Two names of one argument disagree.")

    renamed[name] = value
    return renamed


def _parse_integer(value: object) -> int:
    """Return a whole number: 3.0 and "3" are 3, but true, 3.5 and NaN are refused."""
    if isinstance(value, bool):  # to Python it is an integer; to the model it was not
        raise _not_an_integer()

    if isinstance(value, int):
        return value

    if isinstance(value, float) and value.is_integer():
        return int(value)

    # Models often quote numbers.
    if isinstance(value, str) and len(value) <= _MAX_DIGITS and _is_decimal_integer(value):
        return int(value)

    raise _not_an_integer()


def _is_decimal_integer(text: str) -> bool:
    # Without the first check the digits of every script would count.
    return text.isascii() and text.removeprefix("-").isdigit()


def _not_an_integer() -> PydanticCustomError:
    return PydanticCustomError("invalid_parameter", "The value is not a whole number.")


def _parse_char_limit(value: object) -> int:
    """Return a number of characters, and tell wrong types and wrong sizes apart."""
    # Infinity is a number, and only too large; NaN is of the wrong type.
    if isinstance(value, float) and math.isinf(value):
        raise _out_of_range()

    try:
        limit = _parse_integer(value)
    except PydanticCustomError:
        raise PydanticCustomError("wrong_type", "The value has the wrong type.") from None

    if not 1 <= limit <= MAX_READ_CHARS:
        raise _out_of_range()

    return limit


def _out_of_range() -> PydanticCustomError:
    return PydanticCustomError("out_of_range", "The value is outside its range.")


def _parse_boolean(value: object) -> object:
    """Return the boolean that "true" or "false" stands for; anything else stays as it is."""
    if isinstance(value, str):
        return _BOOLEANS.get(value, value)

    return value


def _parse_number(value: object) -> float:
    """Return a finite number: 1 and "0.5" are accepted, but true, NaN and infinities refused."""
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        return float(value)

    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _not_a_number()

    try:
        number = float(value)
    except OverflowError:  # an integer of more than 308 digits
        raise _not_a_number() from None

    if not math.isfinite(number):
        raise _not_a_number()

    return number


def _not_a_number() -> PydanticCustomError:
    return PydanticCustomError("invalid_parameter", "The value is not a number.")


def _parse_object(value: object) -> object:
    """Return the object that a string of JSON holds; anything else stays as it is."""
    parsed = _try_json(value)
    if isinstance(parsed, dict):
        return cast(object, parsed)

    return value


def _parse_array(value: object) -> object:
    """Return the array that a string of JSON holds; anything else stays as it is."""
    parsed = _try_json(value)
    if isinstance(parsed, list):
        return cast(object, parsed)

    return value


def _try_json(value: object) -> object:
    """Return the value of a string of JSON, or None for anything else."""
    if not isinstance(value, str):
        return None

    # Some clients encode nested arguments twice.
    try:
        return parse_json(value)
    except ValueError:
        return None


class Checked:
    """A check of a text after its type and length; exact schemas show it as ``pattern``."""

    def __init__(self, check: Callable[[str], str], *, pattern: str) -> None:
        self._check = check
        self._pattern = pattern

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Tell pydantic to check the text by its own schema first, then by ours."""
        return no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonObject:
        """Tell pydantic the text's JSON schema, with the pattern that only exact schemas show."""
        return {**handler(schema), EXACT: {"pattern": self._pattern}}


Integer: BeforeValidator = BeforeValidator(_parse_integer)
Number: BeforeValidator = BeforeValidator(_parse_number)
Boolean: BeforeValidator = BeforeValidator(_parse_boolean)
Object: BeforeValidator = BeforeValidator(_parse_object)
Array: BeforeValidator = BeforeValidator(_parse_array)

MaxChars = Annotated[int, Field(ge=1, le=MAX_READ_CHARS), BeforeValidator(_parse_char_limit)]
"""The most characters of an item's content to return, 1 to 100,000."""


def items_schema(item: JsonObject) -> WithJsonSchema:
    """Return the schema of a bulk request's items, given the schema of one item.

    Models see an array of such items. Exact schemas allow anything beside them, because the array
    is accepted whatever it holds: an item that is wrong fails alone.
    """
    any_item: JsonObject = {"anyOf": [item, {}]}

    return WithJsonSchema(
        {
            "type": "array",
            "items": item,
            "minItems": 1,
            "maxItems": MAX_ITEMS,
            EXACT: {"items": any_item},
        }
    )
