"""Types of request fields, which accept the common mistakes of clients and nothing else.

Clients send numbers, booleans, arrays and objects as strings, and null for fields that they leave
out. These types accept such values, while the published schemas stay plain.
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

from abilities.declarations import values
from abilities.declarations.limits import MAX_ITEMS, MAX_READ_CHARS, MAX_SAFE_INTEGER
from abilities.declarations.refusals import Reason
from abilities.declarations.values import JsonObject, Model

EXACT = "x-exact"
"""The schema key for constraints that only schemas for programs show."""

BRIEF = "x-brief"
"""The schema key for keywords that schemas for models replace."""

UNOFFERED = "x-unoffered"
"""The schema key that marks arguments that schemas for models leave out."""

REFUSED: Literal["refused"] = "refused"
"""The type of the pydantic errors that our own checks raise."""

TIME_FORM = "RFC 3339, such as 2027-01-31T09:00:00Z"
"""The form of a time, for sentences."""

FUTURE_FORM = f"a time in the future in {TIME_FORM}; '' for none"
"""The form of `expires_at`, for sentences."""

_DAY = r"((0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-9])|(0[13-9]|1[0-2])-30|(0[13578]|1[02])-31)"
_TIME = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?"
_ZONE = r"(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
TIME_PATTERN = f"^[1-9][0-9]{{3}}-{_DAY}T{_TIME}{_ZONE}$"
"""The form of a time (RFC 3339, section 5.6); it accepts February 29 in every year."""

DAY_PATTERN = f"^[1-9][0-9]{{3}}-{_DAY}$"
"""The form of a day; it accepts February 29 in every year."""

_DECIMAL = re.compile(r"-?[0-9]{1,3}(\.[0-9]{1,20})?")

_MAX_DIGITS = 399
"""A longer integer is refused unparsed; Python itself refuses integers over 4,300 digits."""


def build_error(reason: Reason, **expected: object) -> PydanticCustomError:
    """Return the error of a value that one of our checks refuses, with the rule that it breaks.

    The bounds of the schema are added to the rule later.
    """
    return PydanticCustomError(REFUSED, "refused", {"reason": reason, "expected": expected})


class Arguments(Model):
    """The base of every ability's input.

    An optional argument that is null counts as absent, and an argument may have several names.
    Everything else is strict: unknown arguments are refused, and a value is converted only if the
    type of its field says so.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,  # the types of this module convert values nevertheless
        defer_build=True,
    )

    other_names: ClassVar[dict[str, str]] = {}
    """Declared names by other names; two names of one argument must agree."""

    @model_validator(mode="before")
    @classmethod
    def _normalize(cls, data: object) -> object:
        """Rename arguments to their declared names, and drop optional ones that are null."""
        sent = values.as_object(data)
        if sent is None:
            return data

        arguments = dict(sent)
        for other_name, name in cls.other_names.items():
            value = arguments.pop(other_name, None)
            if value is None:
                continue

            # Equal values do no harm; which of two different values is meant is not guessed.
            if arguments.get(name) not in (None, value):
                raise build_error("repeated_argument")
            arguments[name] = value

        # Many clients send null for every optional argument that their model left out.
        for name, field in cls.model_fields.items():
            if name in arguments and arguments[name] is None and not field.is_required():
                del arguments[name]

        return arguments

    def explicit_arguments(self) -> JsonObject:
        """Return the arguments that the caller sent, in declared order and normalized."""
        return {
            name: getattr(self, name)
            for name in type(self).model_fields
            if name in self.model_fields_set
        }


def parse_integer(value: object) -> int:
    """Return an integer: 3.0 and "3" become 3.

    Raises an error for true, 3.5 and NaN (wrong_type), and for infinities and integers of 400
    digits or more (out_of_range).
    """
    if isinstance(value, float):
        if math.isinf(value):
            raise build_error("out_of_range")
        if value.is_integer():
            return int(value)

    # Models often quote numbers. Without `isascii`, the digits of every script would count.
    if isinstance(value, str) and value.isascii() and value.removeprefix("-").isdigit():
        if len(value) > _MAX_DIGITS:
            raise build_error("out_of_range")
        return int(value)

    # To Python, true is an integer; to the model that sent it, it was not.
    if isinstance(value, bool) or not isinstance(value, int):
        raise build_error("wrong_type")

    return value


def parse_number(value: object) -> float:
    """Return a finite number: 1 and "0.5" are accepted.

    Raises an error for true and NaN (wrong_type), and for infinities (out_of_range).
    """
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

    # -0.0 becomes 0.0: not every store returns it, and the hash of a memory depends on the sign.
    return number + 0.0


def parse_boolean(value: object) -> object:
    """Return the boolean of "true" or "false", and any other value unchanged."""
    if value == "true":
        return True
    if value == "false":
        return False

    return value


def parse_one_or_more(value: object) -> object:
    """Return the array in a string of JSON, a list of any other string, or the value itself."""
    parsed = values.unwrap_json(value)
    if isinstance(parsed, list):
        return cast(object, parsed)
    if isinstance(value, str):
        return [value]

    return value


class Checked:
    """A check of a text after its type and length; exact schemas show it as ``pattern``."""

    def __init__(self, check: Callable[[str], str], *, pattern: str) -> None:
        self._check = check
        self._pattern = pattern

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonObject:
        return {**handler(schema), EXACT: {"pattern": self._pattern}}


class Unsaid:
    """Keywords of a field's schema that a model can do without.

    Every request to a model contains the schemas of its tools. A model that breaks an unsaid rule
    learns it from the refusal.
    """

    def __init__(self, *keywords: str) -> None:
        self._keywords = keywords

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonObject:
        described = handler(schema)
        return {**described, values.UNSAID: [*described.get(values.UNSAID, ()), *self._keywords]}


Integer: BeforeValidator = BeforeValidator(parse_integer)
Number: BeforeValidator = BeforeValidator(parse_number)
Boolean: BeforeValidator = BeforeValidator(parse_boolean)
Object: BeforeValidator = BeforeValidator(values.unwrap_json)
Array: BeforeValidator = BeforeValidator(values.unwrap_json)
OneOrMore: BeforeValidator = BeforeValidator(parse_one_or_more)

Flag = Annotated[bool, Boolean]

PAGE_SIZE = ("minimum", "default", "description")
"""Keywords of a page size that models can do without."""

MaxChars = Annotated[int, Field(ge=1, le=MAX_READ_CHARS), Unsaid("minimum", "description"), Integer]
"""The most characters of an item's content to return, 1 to 100,000."""

Offset = Annotated[
    int, Field(ge=0, le=MAX_SAFE_INTEGER), Unsaid("minimum", "maximum", "default"), Integer
]
"""The number of entries to skip."""

OutputFormat = Literal["json", "text", "toon", "auto"]
"""The format of an answer; ``auto`` is the smallest of the others."""

OptionalFormat = Annotated[
    OutputFormat | None,
    Field(description="text leaves contents unescaped; auto is the smallest."),
    Unsaid("description"),
]
"""The argument `output_format`; None leaves it to the surface."""

UnofferedFormat = Annotated[OptionalFormat, Field(json_schema_extra={UNOFFERED: True})]
"""The same argument where only settings and programs choose, and models are not asked to."""

Detail = Literal["full", "concise"]
"""All fields of a record, or only those that a model needs to continue."""

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
"""The same argument for answers that are always short; models are not asked to choose."""

Continuation = Annotated[
    str | None,
    Field(
        description="Present if the content was cut: the path, or a target's 'resume', to send "
        "for the rest."
    ),
]
FailureReason = Annotated[str | None, Field(description="Why it failed; present on failure.")]
Suggestion = Annotated[
    str | None,
    Field(description="A similar name or value to send instead; data, as all names are."),
]
BrokenRule = Annotated[
    str | None, Field(description="The rule that a malformed item breaks, in one sentence.")
]


def items_schema(item: JsonObject, most: int = MAX_ITEMS) -> WithJsonSchema:
    """Return the schema of a bulk request's items, given the schema of one and the most of them.

    Models see an array of such items. Exact schemas allow any item, because a wrong item does not
    fail the request; it only fails alone.
    """
    any_item: JsonObject = {"anyOf": [item, {}]}

    return WithJsonSchema(
        {
            "type": "array",
            "items": item,
            "minItems": 1,
            "maxItems": most,
            EXACT: {"items": any_item},
        }
    )


def parse_time_zone(name: str) -> str:
    """Return the name of a time zone, or an empty name unchanged.

    Raises ValueError for an unknown time zone.
    """
    if not name:
        return name

    try:
        return ZoneInfo(name).key
    except (ValueError, OSError, KeyError):
        raise ValueError("is not a known time zone; use a name such as 'Europe/Berlin'") from None


TimeZone = Annotated[str, AfterValidator(parse_time_zone)]
"""The name of a time zone, such as 'Europe/Berlin'; an empty name is the system's."""


def parse_time(text: str) -> str | None:
    """Return a time in UTC with milliseconds, as it is stored; None if the text is not a time.

    >>> parse_time("2027-01-31T10:00:00+01:00")
    '2027-01-31T09:00:00.000Z'
    """
    # The pattern's own '$' would accept a line feed at the end.
    if not re.fullmatch(TIME_PATTERN[1:-1], text):
        return None

    # Python's parser takes six digits at most.
    text = re.sub(r"(\.[0-9]{6})[0-9]+", r"\1", text)
    try:
        return values.format_utc(datetime.fromisoformat(text).astimezone(UTC))
    except (ValueError, OverflowError):  # February 29 of a common year; the year 10000
        return None


def check_time(text: str) -> str:
    """Return a time as it is stored. Raises an error (invalid_format) for any other text."""
    time = parse_time(text)
    if time is None:
        raise build_error("invalid_format", format=TIME_FORM)

    return time


def check_expiry(text: str) -> str:
    """Return the time at which a memory expires as it is stored, or '' for none.

    Raises an error (invalid_format) for any other text, and for a time in the past.
    """
    if not text:
        return ""

    time = parse_time(text)
    if time is None or time <= values.utc_now():
        raise build_error("invalid_format", format=FUTURE_FORM)

    return time


def is_day(text: str) -> bool:
    """Return whether a text is a day, such as "2027-01-31"."""
    return re.fullmatch(DAY_PATTERN[1:-1], text) is not None


def check_day(text: str) -> str:
    """Return a day. Raises an error (invalid_format) for any other text."""
    if not is_day(text):
        raise build_error("invalid_format", format="YYYY-MM-DD")

    return text


Day = Annotated[str, Checked(check_day, pattern=DAY_PATTERN)]
"""A day in UTC."""

Time = Annotated[str, Checked(check_time, pattern=TIME_PATTERN)]
"""A time, normalized to UTC with milliseconds."""

Expiry = Annotated[str, Checked(check_expiry, pattern=f"^$|{TIME_PATTERN}")]
"""The time at which a memory expires, or '' for never."""

Version = Annotated[int, Field(ge=0, le=MAX_SAFE_INTEGER), Unsaid("minimum", "maximum"), Integer]

RestoredVersion = Annotated[
    int, Field(ge=1, le=MAX_SAFE_INTEGER), Unsaid("minimum", "maximum", "description"), Integer
]

IF_VERSION = "Only if the memory has this version; 0 if there is none."
"""The description of `if_version`."""

IfVersion = Annotated[Version | None, Field(description=IF_VERSION), Unsaid("description")]
"""The version that a change expects; None for any."""

ReplacedVersion = Annotated[
    int | None,
    Field(
        description="Present if other content was stored there: its version, which can be restored."
    ),
]
"""The version whose content was replaced; None if none was."""

EXPIRY = "RFC 3339; then archived."
"""The description of `expires_at`."""

ExpiresAt = Annotated[Expiry | None, Field(description=EXPIRY)]
