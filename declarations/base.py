"""The envelope every ability speaks: records, faults, truncation, and the bounded fields of a request.

A fault's ``reason`` decides everything else about it: its code, its sentence and whether asking again
can help. The table `FAULTS` is closed; nothing outside it ever reaches a caller.
"""

import math
import re
import unicodedata
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Generic, Literal, Self, TypeVar, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError, from_json
from pydantic_core.core_schema import no_info_after_validator_function

Code = Literal[
    "INVALID_INPUT",
    "NOT_FOUND",
    "STORAGE_ERROR",
    "PERMISSION_ERROR",
    "CORRUPTED_DATA",
    "LIMIT_EXCEEDED",
    "INTERNAL_ERROR",
]

FAULTS: dict[str, tuple[Code, str]] = {
    "not_a_string": ("INVALID_INPUT", "Path must be a string."),
    "empty_path": ("INVALID_INPUT", "Path is empty."),
    "absolute_path": ("INVALID_INPUT", "Use a path relative to the workspace."),
    "parent_traversal": ("INVALID_INPUT", "Path must not contain '..' components."),
    "backslash": ("INVALID_INPUT", "Use '/' as the separator."),
    "drive_path": ("INVALID_INPUT", "Drive letters are not allowed."),
    "control_character": ("INVALID_INPUT", "Path contains a control character."),
    "invalid_unicode": ("INVALID_INPUT", "Path is not valid Unicode."),
    "path_too_long": ("INVALID_INPUT", "Path is too long: at most 1,024 characters, 255 bytes a component."),
    "path_too_deep": ("INVALID_INPUT", "Path has more than 32 components."),
    "trailing_slash": ("INVALID_INPUT", "Path must name a file."),
    "is_directory": ("INVALID_INPUT", "Path is a directory."),
    "binary_file": ("INVALID_INPUT", "File is not text."),
    "invalid_range": ("INVALID_INPUT", "The range is not valid for this file."),
    "changed": ("INVALID_INPUT", "The file changed; read it again from the start."),
    "invalid_target": ("INVALID_INPUT", "The target's type must be long_term, short_term or stored."),
    "invalid_date": ("INVALID_INPUT", "date must be YYYY-MM-DD."),
    "invalid_key": ("INVALID_INPUT", "key must be 1 to 200 plain characters, no space at either end."),
    "out_of_range": ("INVALID_INPUT", "The value is outside its range."),
    "wrong_type": ("INVALID_INPUT", "The value has the wrong type."),
    "invalid_parameter": ("INVALID_INPUT", "An argument is missing, unknown or malformed; follow the input schema."),
    "malformed_request": ("INVALID_INPUT", "The request is no plain JSON object, too large or too slow."),
    "unknown_address": ("NOT_FOUND", "There is nothing at this address for this method."),
    "foreign_host": ("PERMISSION_ERROR", "This server is not addressed by that name."),
    "foreign_origin": ("PERMISSION_ERROR", "Pages of other sites may not call this server."),
    "unauthorized": ("PERMISSION_ERROR", "A valid token is needed: send 'Authorization: Bearer TOKEN'."),
    "scope": ("PERMISSION_ERROR", "This token may read; it may not change anything."),
    "overloaded": ("LIMIT_EXCEEDED", "Too many calls at the same time; try again."),
    "unknown_ability": ("INVALID_INPUT", "No ability has this name."),
    "not_found": ("NOT_FOUND", "No such file in the agent directory or workspace."),
    "memory_file_not_found": ("NOT_FOUND", "No memory file for this target."),
    "symlink_escape": ("PERMISSION_ERROR", "The link leads outside its root."),
    "symlink_loop": ("PERMISSION_ERROR", "The links lead in a circle."),
    "symlink_refused": ("PERMISSION_ERROR", "Symbolic links are not followed here."),
    "denied": ("PERMISSION_ERROR", "This file is not shared with agents."),
    "not_regular_file": ("PERMISSION_ERROR", "Not a regular file."),
    "access_denied": ("PERMISSION_ERROR", "File is not readable."),
    "hard_link": ("PERMISSION_ERROR", "Files with more than one name are not shared here."),
    "memory_not_found": ("NOT_FOUND", "No memory with this key."),
    "id_not_found": ("NOT_FOUND", "No memory with this id."),
    "invalid_id": ("INVALID_INPUT", "id must be a lower-case UUID of version 4, as a memory's id is shown."),
    "key_taken": ("INVALID_INPUT", "The id and the key name different memories."),
    "read_only": ("PERMISSION_ERROR", "Storage is read-only; memories can be read, not changed."),
    "undecodable": ("CORRUPTED_DATA", "Stored memory is damaged."),
    "checksum_mismatch": ("CORRUPTED_DATA", "The stored memory does not match its checksum."),
    "invalid_stored_value": ("CORRUPTED_DATA", "The stored memory holds a value that cannot be."),
    "corrupted": ("CORRUPTED_DATA", "The store is damaged; it is left untouched. Restore a copy of it."),
    "response_budget": ("LIMIT_EXCEEDED", "Response limit reached; request this item separately."),
    "response_too_large": ("LIMIT_EXCEEDED", "The answer is over the response limit; ask for less."),
    "storage_quota": ("LIMIT_EXCEEDED", "The memory limit is reached; delete memories that are not needed."),
    "range_too_far": ("LIMIT_EXCEEDED", "The lines lie beyond the first 64 MiB; use #byte= to go there."),
    "resource_exhausted": ("STORAGE_ERROR", "The system is short of resources; try again."),
    "io_error": ("STORAGE_ERROR", "The file could not be read."),
    "timeout": ("STORAGE_ERROR", "Reading took too long; try again."),
    "root_unavailable": ("STORAGE_ERROR", "The directory that holds this file is not available."),
    "unavailable": ("STORAGE_ERROR", "The memory store is not available."),
    "busy": ("STORAGE_ERROR", "Storage is busy; try again."),
    "storage_full": ("STORAGE_ERROR", "Storage is full; nothing was changed."),
    "storage_error": ("STORAGE_ERROR", "Storage could not be read or written."),
    "storage_moved": ("STORAGE_ERROR", "The store was moved or deleted; nothing was changed."),
    "schema_too_new": ("STORAGE_ERROR", "The store was written by a newer version; nothing was changed."),
    "internal": ("INTERNAL_ERROR", "Unexpected error."),
}
"""reason -> (code, the one sentence said about it, at most 120 characters)."""

SHARED_REASONS = {
    "memory_file_not_found": "not_found",
    "memory_not_found": "not_found",
    "id_not_found": "not_found",
    "storage_error": "io_error",
}
"""Sentences of their own for a reason that two kinds of item share."""


EXACT = "x-exact"
"""Where a schema has what only `exact` ones show: what programs check by, and models need not read."""
COUNT = 2**53 - 1
"""The largest number that every JSON client counts to."""

T = TypeVar("T")

_DECIMAL = re.compile(r"-?[0-9]{1,3}(\.[0-9]{1,20})?")


class Refused(Exception):
    """Something asked for cannot be had; ``reason`` is a key of `FAULTS`, the only thing a caller learns."""

    def __init__(self, reason: str, field: str | None = None) -> None:
        if reason not in FAULTS:
            raise ValueError(f"{reason!r} is no reason in FAULTS")
        super().__init__(reason)
        self.reason = reason
        self.field = field


class Model(BaseModel):
    """The frozen base of every declaration; unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)  # built when first used


class Fault(Model):
    """Why something could not be answered."""

    code: Code = Field(description="The kind of failure, one of seven.")
    reason: str = Field(description="The exact cause, from a closed set.")
    message: str = Field(description="One fixed sentence for the reason.")
    retryable: bool = Field(default=False, description="True when the same request may succeed later; default false.")
    field: str | None = Field(default=None, description="The argument at fault, for a wrong call.")
    ref: str | None = Field(default=None, description="For an internal error: the reference the log also has.")

    @classmethod
    def of(cls, reason: str, *, field: str | None = None, ref: str | None = None) -> Self:
        """The fault of a reason in `FAULTS`; a STORAGE_ERROR is retryable."""
        code, message = FAULTS[reason]
        return cls(
            code=code,
            reason=SHARED_REASONS.get(reason, reason),
            message=message,
            retryable=code == "STORAGE_ERROR",
            field=field,
            ref=ref,
        )

    def payload(self) -> dict[str, Any]:
        """The fault as JSON has it: fields at their default are left out."""
        return self.model_dump(exclude_defaults=True)


class Truncation(Model):
    """What is missing from a record's content, and how to fetch it."""

    reason: Literal["max_chars", "budget"] = Field(
        description="max_chars: the item's own limit; budget: its share of the reply."
    )
    returned_chars: int = Field(description="Characters of content in this record.")
    total_chars: int | None = Field(
        default=None, description="Characters of the whole part asked for, where known without reading further."
    )
    next: str | dict[str, Any] = Field(description="The path or target to send for the rest.")


class Record(Model, Generic[T]):
    """One requested item's own outcome."""

    input: str = Field(description="The item as it was asked for.")
    success: bool = Field(description="Whether data is present; otherwise error says why not.")
    data: T | None = Field(default=None, description="What was found, on success.")
    error: Fault | None = Field(default=None, description="Why not, on failure.")
    truncation: Truncation | None = Field(default=None, description="Present when a part of the content is missing.")


class Summary(Model):
    """Counts over all records of a reply."""

    requested: int = Field(description="Items asked for, duplicates counted.")
    succeeded: int = Field(description="Records with data.")
    failed: int = Field(description="Records with an error.")
    truncated: int = Field(description="Successful records whose content was cut.")
    returned_chars: int = Field(description="Characters of content in the whole reply.")


class BulkReply(Model, Generic[T]):
    """One record per requested item, in the order asked, duplicates kept."""

    results: list[Record[T]] = Field(description="One record per item, in the order asked.")
    summary: Summary = Field(description="Counts over all records.")
    next_request: dict[str, Any] | None = Field(
        default=None,
        description="Arguments that fetch all that is left, ready to send to the same tool; absent when nothing is.",
    )


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
                    raise PydanticCustomError("invalid_parameter", "Two names of one argument disagree.")
                given = {**given, name: given[other]}
            given = {key: value for key, value in given.items() if key != other}
        optional = {name for name, field in cls.model_fields.items() if not field.is_required()}
        return {name: value for name, value in given.items() if value is not None or name not in optional}

    def given(self) -> dict[str, Any]:
        """The arguments that the caller gave, in the declared order and their normal form."""
        return {name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set}


BIDI_CONTROLS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_CONTROL_CATEGORIES = frozenset({"Cc", "Zl", "Zp"})


def has_control(text: str) -> bool:
    """Whether a text holds a control, a line or paragraph separator, or a bidirectional control."""
    return any(c in BIDI_CONTROLS or unicodedata.category(c) in _CONTROL_CATEGORIES for c in text)


def as_object(value: object) -> dict[str, Any] | None:
    """A value that is a JSON object, as such; None for anything else."""
    return cast(dict[str, Any], value) if isinstance(value, dict) else None


def parsed_json(text: str | bytes) -> Any:
    """A JSON document's value: strict about NaN, UTF-8 and lone surrogates, any size of integer. Raises ValueError."""
    return from_json(text, allow_inf_nan=False)


def _integer(value: Any) -> int:
    """``"3"`` and ``3.0`` are 3; booleans, fractions, NaN and other scripts' digits are not numbers here."""
    if isinstance(value, str) and value.removeprefix("-").isdigit() and value.isascii() and len(value) < 400:
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise PydanticCustomError("invalid_parameter", "The value is not a whole number.")
    return value


def _chars(value: Any) -> int:
    """A number of characters, whose faults are told apart."""
    try:
        number = MAX_CHARS + 1 if isinstance(value, float) and math.isinf(value) else _integer(value)
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
        return as_object(parsed_json(value)) or value
    except ValueError:
        return value


def _array(value: Any) -> Any:
    """An array sent as a string that holds a JSON array is taken as that array."""
    if not isinstance(value, str):
        return value
    try:
        parsed = parsed_json(value)
    except ValueError:
        return value
    return cast(object, parsed) if isinstance(parsed, list) else value


class Checked:
    """A further check of a text, after its type and length; ``pattern`` says the same in exact schemas."""

    def __init__(self, check: Callable[[str], str], *, pattern: str) -> None:
        self._check = check
        self._pattern = pattern

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """The text's own schema, then the check (pydantic)."""
        return no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
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
