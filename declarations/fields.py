"""Types for the fields of a request: lenient about a value's shape, strict about all else.

Clients send numbers, booleans, arrays and objects as strings, and null for what they leave out.
These types accept that and nothing more, while the published schemas stay plain.

Times and versions: when a memory expires, and which version a change expects.
"""

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, ClassVar, Literal, cast
from zoneinfo import ZoneInfo

from pydantic import (
    AfterValidator,
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

from abilities.declarations.limits import MAX_ITEMS, MAX_READ_CHARS, MAX_SAFE_INTEGER
from abilities.declarations.refusals import Reason
from abilities.declarations.values import (
    JsonObject,
    Model,
    as_object,
    format_utc,
    parse_json,
    utc_now,
)

EXACT = "x-exact"
"""The schema key for constraints that only programs check; schemas for models leave them out."""

UNSAID = "x-unsaid"
"""The schema key for the names of keywords that schemas for models leave out."""

BRIEF = "x-brief"
"""The schema key for keywords as schemas for models have them."""

UNOFFERED = "x-unoffered"
"""The schema key of arguments that schemas for models leave out."""

_DECIMAL = re.compile(r"-?[0-9]{1,3}(\.[0-9]{1,20})?")

_MAX_DIGITS = 399
"""A longer integer is refused unread; Python itself refuses those of more than 4,300 digits."""

REFUSED: Literal["refused"] = "refused"
"""The type of pydantic errors that our own checks raise."""

_BOOLEANS: dict[str, str | bool] = {"true": True, "false": False}


def build_error(reason: Reason, **expected: object) -> PydanticCustomError:
    """Return the error of a value that a check of ours refuses, with the rule that it breaks.

    Bounds that the schema states are added to the rule later.
    """
    return PydanticCustomError(REFUSED, "refused", {"reason": reason, "expected": expected})


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
        raise build_error("repeated_argument")

    renamed[name] = value
    return renamed


def _parse_integer(value: object) -> int:
    """Return a whole number: 3.0 and "3" are 3, but true, 3.5 and NaN are of the wrong type."""
    if isinstance(value, bool):  # to Python it is an integer; to the model it was not
        raise build_error("wrong_type")

    if isinstance(value, int):
        return value

    if isinstance(value, float):
        return _convert_float(value)

    # Models often quote numbers.
    if isinstance(value, str) and _is_decimal_integer(value):
        if len(value) > _MAX_DIGITS:
            raise build_error("out_of_range")
        return int(value)

    raise build_error("wrong_type")


def _convert_float(value: float) -> int:
    # Infinity is a number, and only too large.
    if math.isinf(value):
        raise build_error("out_of_range")

    if not value.is_integer():
        raise build_error("wrong_type")

    return int(value)


def _is_decimal_integer(text: str) -> bool:
    # Without the first check the digits of every script would count.
    return text.isascii() and text.removeprefix("-").isdigit()


def _parse_boolean(value: object) -> object:
    """Return the boolean that "true" or "false" stands for; anything else stays as it is."""
    if isinstance(value, str):
        return _BOOLEANS.get(value, value)

    return value


def _parse_number(value: object) -> float:
    """Return a finite number: 1 and "0.5" are accepted, but true, NaN and infinities refused."""
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        value = float(value)

    if isinstance(value, bool) or not isinstance(value, int | float):
        raise build_error("wrong_type")

    try:
        number = float(value)
    except OverflowError:  # an integer of more than 308 digits
        raise build_error("out_of_range") from None

    if math.isnan(number):
        raise build_error("wrong_type")
    if math.isinf(number):
        raise build_error("out_of_range")

    # -0.0 becomes 0.0: not every store gives it back, and the hash of a memory tells them apart.
    return number + 0.0


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


def _parse_one_or_more(value: object) -> object:
    """Return the array that a string of JSON holds, or of any other string a list of that alone."""
    parsed = _parse_array(value)
    if isinstance(parsed, str):
        return [parsed]

    return parsed


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


class Unsaid:
    """Keywords of a field's schema that a model does not need to make a call.

    Every request to a model holds the schemas that it reads; who breaks a rule that is not in them
    is told by a refusal.
    """

    def __init__(self, *keywords: str) -> None:
        self._keywords = keywords

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonObject:
        """Tell pydantic the field's JSON schema, with the names of those keywords."""
        described = handler(schema)
        return {**described, UNSAID: [*described.get(UNSAID, ()), *self._keywords]}


Integer: BeforeValidator = BeforeValidator(_parse_integer)
Number: BeforeValidator = BeforeValidator(_parse_number)
Boolean: BeforeValidator = BeforeValidator(_parse_boolean)
Object: BeforeValidator = BeforeValidator(_parse_object)
Array: BeforeValidator = BeforeValidator(_parse_array)
OneOrMore: BeforeValidator = BeforeValidator(_parse_one_or_more)

PAGE_SIZE = Unsaid("minimum", "default", "description")
"""What models are not told of how many entries an answer has at most."""

MaxChars = Annotated[int, Field(ge=1, le=MAX_READ_CHARS), Unsaid("minimum", "description"), Integer]
"""The most characters of an item's content to return, 1 to 100,000."""

Offset = Annotated[
    int, Field(ge=0, le=MAX_SAFE_INTEGER), Unsaid("minimum", "maximum", "default"), Integer
]
"""How many of a list to skip."""

OutputFormat = Literal["json", "text", "toon", "auto"]
"""How an answer is written; ``auto`` is the smallest of the others."""

OfferedFormat = Annotated[
    OutputFormat | None,
    Field(description="text leaves contents unescaped; auto is the smallest."),
    Unsaid("description"),
]
"""The format that a call asks for; without one, its surface decides."""

AskedFormat = Annotated[OfferedFormat, Field(json_schema_extra={UNOFFERED: True})]
"""The same where models are not asked to choose: that is for settings and for programs."""


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


Detail = Literal["full", "concise"]
"""All fields of a record, or what a model needs to go on."""

OptionalDetail = Annotated[
    Detail | None,
    Field(
        description="full, or concise: only what is needed to go on. By default models get concise "
        "answers and programs full ones."
    ),
    Unsaid("description"),
]
"""The argument `detail`; None leaves it to the settings."""

UnofferedDetail = Annotated[OptionalDetail, Field(json_schema_extra={UNOFFERED: True})]
"""The same for answers that are short in any case; models are not asked to choose."""

Continuation = Annotated[
    str | None,
    Field(
        description="Present if the content was cut: the path, or a target's 'resume', to send "
        "for the rest."
    ),
]
FailureReason = Annotated[str | None, Field(description="Why it failed; present on failure.")]
MeantInstead = Annotated[
    str | None,
    Field(description="What to send instead, if something is alike; data, as all names are."),
]
BrokenRule = Annotated[
    str | None, Field(description="The rule that a malformed item breaks, in one sentence.")
]


def parse_time_zone(name: str) -> str:
    """Return the name of a time zone. Raises ValueError for one that is not known."""
    if not name:
        return name

    try:
        return ZoneInfo(name).key
    except (ValueError, OSError, KeyError):
        raise ValueError("is not a known time zone; use a name such as 'Europe/Berlin'") from None


TimeZone = Annotated[str, AfterValidator(parse_time_zone)]
"""A time zone by its name, such as 'Europe/Berlin'; an empty name is the system's."""


TIME_FORM = "RFC 3339, such as 2027-01-31T09:00:00Z"
"""What a time looks like, in words."""

FUTURE_FORM = f"a time in the future in {TIME_FORM}; '' for none"
"""What `expires_at` can be, in words."""

_DAY = r"((0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-9])|(0[13-9]|1[0-2])-30|(0[13578]|1[02])-31)"
_TIME = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?"
_ZONE = r"(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
TIME_PATTERN = f"^[1-9][0-9]{{3}}-{_DAY}T{_TIME}{_ZONE}$"
"""The form of a time (RFC 3339, section 5.6), except for when February has 29 days."""


def parse_time(text: str) -> str | None:
    """Return a time in UTC with milliseconds, as it is stored; None if it is no time.

    >>> parse_time("2027-01-31T10:00:00+01:00")
    '2027-01-31T09:00:00.000Z'
    """
    # The pattern's own '$' would accept a line feed at the end.
    if not re.fullmatch(TIME_PATTERN[1:-1], text):
        return None

    # Python's own parser takes six digits at most.
    text = re.sub(r"(\.[0-9]{6})[0-9]+", r"\1", text)
    try:
        return format_utc(datetime.fromisoformat(text).astimezone(UTC))
    except (ValueError, OverflowError):  # the 29th of a short February; the year 10000
        return None


def _check_time(text: str) -> str:
    time = parse_time(text)
    if time is None:
        raise build_error("invalid_format", format=TIME_FORM)

    return time


def _check_expiry(text: str) -> str:
    """Return when a memory expires, in UTC; '' for one that stays."""
    if not text:
        return ""

    time = parse_time(text)
    if time is None or time <= utc_now():
        raise build_error("invalid_format", format=FUTURE_FORM)

    return time


Time = Annotated[str, Checked(_check_time, pattern=TIME_PATTERN)]
"""A time, normalized to UTC with milliseconds."""

Expiry = Annotated[str, Checked(_check_expiry, pattern=f"^$|{TIME_PATTERN}")]
"""When a memory expires, or '' for never."""

Version = Annotated[int, Field(ge=0, le=MAX_SAFE_INTEGER), Unsaid("minimum", "maximum"), Integer]

RestoredVersion = Annotated[
    int,
    Field(ge=1, le=MAX_SAFE_INTEGER),
    Unsaid("minimum", "maximum", "description"),
    Integer,
]

IF_VERSION = "Only if the memory has this version; 0 if there is none."
"""What `if_version` means, in words."""

IfVersion = Annotated[
    Version | None,
    Field(description=IF_VERSION),
    Unsaid("description"),
]
"""The version that a change expects; None for any."""

ReplacedVersion = Annotated[
    int | None,
    Field(
        description="Present if other content was stored there: its version, which can be restored."
    ),
]
"""The version whose content was replaced; None if none was."""

EXPIRY = "RFC 3339; then archived."
"""What `expires_at` means, in words."""

ExpiresAt = Annotated[Expiry | None, Field(description=EXPIRY)]
