"""Fields of a request: lenient about the shapes that clients get wrong, strict about everything else."""

import math
import re
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, cast

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

from abilities.declarations.model import Model
from abilities.declarations.values import as_object, parse_json

EXACT = "x-exact"
"""Where a schema has what only `exact` ones show: what programs check by, and models need not read."""

COUNT = 2**53 - 1
"""The largest number that every JSON client counts to."""

_DECIMAL = re.compile(r"-?[0-9]{1,3}(\.[0-9]{1,20})?")


class Arguments(Model):
    """The base of every ability's input: lenient about shapes that clients get wrong, strict otherwise."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    other_names: ClassVar[dict[str, str]] = {}
    """Further names that arguments are known by; two names of one argument may not disagree."""

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, data: Any) -> Any:
        if (given := as_object(data)) is None:
            return data
        for other, name in cls.other_names.items():
            if given.get(other) is not None:
                if given.get(name) not in (None, given[other]):
                    raise PydanticCustomError(
                        "invalid_parameter", "Two names of one argument disagree."
                    )
                given = {**given, name: given[other]}
            given = {key: value for key, value in given.items() if key != other}
        optional = {name for name, field in cls.model_fields.items() if not field.is_required()}
        return {
            name: value
            for name, value in given.items()
            if value is not None or name not in optional
        }

    def explicit_arguments(self) -> dict[str, Any]:
        """The arguments that the caller gave, in the declared order and their normal form."""
        return {
            name: getattr(self, name)
            for name in type(self).model_fields
            if name in self.model_fields_set
        }


def _integer(value: Any) -> int:
    """``"3"`` and ``3.0`` are 3; booleans, fractions, NaN and other scripts' digits are not numbers here."""
    if (
        isinstance(value, str)
        and value.removeprefix("-").isdigit()
        and value.isascii()
        and len(value) < 400
    ):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise PydanticCustomError("invalid_parameter", "The value is not a whole number.")
    return value


def _chars(value: Any) -> int:
    """A number of characters, whose faults are told apart."""
    try:
        number = (
            MAX_CHARS + 1 if isinstance(value, float) and math.isinf(value) else _integer(value)
        )
    except PydanticCustomError:
        raise PydanticCustomError("wrong_type", "The value has the wrong type.") from None
    if not 1 <= number <= MAX_CHARS:
        raise PydanticCustomError("out_of_range", "The value is outside its range.")
    return number


def _boolean(value: Any) -> Any:
    """``"true"`` and ``"false"`` are the booleans they say; nothing else is."""
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value


def _number(value: Any) -> float:
    """``"0.5"`` and 1 are numbers; booleans, NaN and infinities are not."""
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise PydanticCustomError("invalid_parameter", "The value is not a number.")
    return float(value)


def _object(value: Any) -> Any:
    """An object sent as a string that holds a JSON object is taken as that object."""
    if not isinstance(value, str):
        return value
    try:
        return as_object(parse_json(value)) or value
    except ValueError:
        return value


def _array(value: Any) -> Any:
    """An array sent as a string that holds a JSON array is taken as that array."""
    if not isinstance(value, str):
        return value
    try:
        parsed = parse_json(value)
    except ValueError:
        return value
    return cast(object, parsed) if isinstance(parsed, list) else value


class Checked:
    """A further check of a text, after its type and length; ``pattern`` says the same in exact schemas."""

    def __init__(self, check: Callable[[str], str], *, pattern: str) -> None:
        self._check = check
        self._pattern = pattern

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """The text's own schema, then the check (pydantic)."""
        return no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """The text's own, with what only exact schemas show (pydantic)."""
        return {**handler(schema), EXACT: {"pattern": self._pattern}}


Integer = BeforeValidator(_integer)

Number = BeforeValidator(_number)

Boolean = BeforeValidator(_boolean)

Object = BeforeValidator(_object)

Array = BeforeValidator(_array)

MAX_ITEMS = 25


def items_schema(item: dict[str, Any]) -> WithJsonSchema:
    """A bulk request's items: of one kind in the published schema, anything in exact ones, as each fails alone."""
    items: dict[str, Any] = {"type": "array", "items": item, "minItems": 1, "maxItems": MAX_ITEMS}
    return WithJsonSchema({**items, EXACT: {"items": {"anyOf": [item, {}]}}})


DEFAULT_CHARS = 20_000

MAX_CHARS = 100_000

MaxChars = Annotated[int, Field(ge=1, le=MAX_CHARS), BeforeValidator(_chars)]
"""Characters of one item's content, 1 to 100,000."""
