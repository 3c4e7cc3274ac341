"""The closed set of reasons why something could not be answered, each with its code and sentence.

A reason decides everything else about a fault: its code, its sentence, and whether the same request
may succeed later. Nothing outside this table ever reaches a caller. The sentences of wrong
arguments are the general ones; `mistakes` makes them precise if the rule is known.

Refusals, and the faults that callers see of them.
"""

import logging
import re
import secrets
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, Self, cast

from pydantic import Field

from abilities.declarations.values import JsonObject, Model, as_object

Code = Literal[
    "INVALID_INPUT",
    "NOT_FOUND",
    "STORAGE_ERROR",
    "PERMISSION_ERROR",
    "CORRUPTED_DATA",
    "LIMIT_EXCEEDED",
    "INTERNAL_ERROR",
]

Reason = Literal[
    "not_a_string",
    "empty_path",
    "absolute_path",
    "parent_traversal",
    "backslash",
    "drive_path",
    "control_character",
    "invalid_unicode",
    "path_too_long",
    "path_too_deep",
    "trailing_slash",
    "is_directory",
    "binary_file",
    "invalid_range",
    "changed",
    "memories_changed",
    "invalid_target",
    "invalid_item",
    "invalid_date",
    "invalid_key",
    "date_not_allowed",
    "missing_argument",
    "unknown_argument",
    "repeated_argument",
    "wrong_type",
    "out_of_range",
    "too_long",
    "too_short",
    "too_many",
    "too_few",
    "not_one_of",
    "invalid_format",
    "invalid_pattern",
    "malformed_request",
    "unknown_address",
    "foreign_host",
    "foreign_origin",
    "unauthorized",
    "scope",
    "overloaded",
    "unknown_ability",
    "disabled",
    "not_found",
    "no_workspace",
    "dangling_link",
    "memory_file_not_found",
    "symlink_escape",
    "symlink_loop",
    "symlink_refused",
    "denied",
    "not_regular_file",
    "access_denied",
    "hard_link",
    "memory_not_found",
    "id_not_found",
    "invalid_id",
    "key_taken",
    "version_conflict",
    "version_not_found",
    "rolled_back",
    "purged",
    "read_only",
    "storage_denied",
    "storage_missing",
    "checksum_mismatch",
    "invalid_stored_value",
    "corrupted",
    "response_budget",
    "response_too_large",
    "storage_quota",
    "range_too_far",
    "resource_exhausted",
    "io_error",
    "timeout",
    "root_unavailable",
    "unavailable",
    "busy",
    "storage_full",
    "storage_error",
    "storage_moved",
    "schema_too_new",
    "schema_too_old",
    "schema_unpublished",
    "internal",
]
"""Every cause that a caller can be told of; the type checker holds each refusal against it."""


class Meaning(NamedTuple):
    """What a reason stands for: its code, and one sentence of at most 120 characters.

    ``lasting`` marks a STORAGE_ERROR that no later attempt gets past: somebody must mend it first.
    """

    code: Code
    message: str
    lasting: bool = False

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.code == "STORAGE_ERROR" and not self.lasting


FAULTS: dict[Reason, Meaning] = {
    "not_a_string": Meaning("INVALID_INPUT", "Path must be a string."),
    "empty_path": Meaning("INVALID_INPUT", "Path is empty."),
    "absolute_path": Meaning("INVALID_INPUT", "Use a path relative to the workspace."),
    "parent_traversal": Meaning("INVALID_INPUT", "Path must not contain '..' components."),
    "backslash": Meaning("INVALID_INPUT", "Use '/' as the separator."),
    "drive_path": Meaning("INVALID_INPUT", "Drive letters are not allowed."),
    "control_character": Meaning("INVALID_INPUT", "Path contains a control character."),
    "invalid_unicode": Meaning("INVALID_INPUT", "Path is not valid Unicode."),
    "path_too_long": Meaning(
        "INVALID_INPUT",
        "Path is too long: at most 1,024 characters, and 255 bytes per component.",
    ),
    "path_too_deep": Meaning("INVALID_INPUT", "Path has more than 32 components."),
    "trailing_slash": Meaning("INVALID_INPUT", "Path must name a file."),
    "is_directory": Meaning("INVALID_INPUT", "Path is a directory."),
    "binary_file": Meaning("INVALID_INPUT", "File is not text."),
    "invalid_range": Meaning("INVALID_INPUT", "The range or resume point is not valid here."),
    "changed": Meaning("INVALID_INPUT", "The file changed; read it again from the start."),
    "memories_changed": Meaning(
        "INVALID_INPUT",
        "The memories or notes changed; ask again without 'after'.",
    ),
    "invalid_target": Meaning(
        "INVALID_INPUT",
        "The target's type must be long_term, short_term or stored.",
    ),
    "invalid_item": Meaning(
        "INVALID_INPUT",
        "An item is a path, or an object with one of file, glob, search, note, memory or recall.",
    ),
    "invalid_date": Meaning("INVALID_INPUT", "date must be YYYY-MM-DD."),
    "invalid_key": Meaning(
        "INVALID_INPUT",
        "key must be 1 to 200 printable characters, with no space at either end.",
    ),
    "date_not_allowed": Meaning("INVALID_INPUT", "long_term takes no date."),
    "missing_argument": Meaning("INVALID_INPUT", "An argument is missing."),
    "unknown_argument": Meaning("INVALID_INPUT", "There is no such argument."),
    "repeated_argument": Meaning("INVALID_INPUT", "An argument is given twice; send it once."),
    "wrong_type": Meaning("INVALID_INPUT", "The value has the wrong type."),
    "out_of_range": Meaning("INVALID_INPUT", "The value is outside its range."),
    "too_long": Meaning("INVALID_INPUT", "The value is too long."),
    "too_short": Meaning("INVALID_INPUT", "The value is too short."),
    "too_many": Meaning("INVALID_INPUT", "There are too many items."),
    "too_few": Meaning("INVALID_INPUT", "There are too few items."),
    "not_one_of": Meaning("INVALID_INPUT", "The value is not one of those allowed."),
    "invalid_format": Meaning("INVALID_INPUT", "The value does not have the required form."),
    "invalid_pattern": Meaning(
        "INVALID_INPUT",
        "The pattern must be RE2 syntax and not too large: no look-around, no back-references.",
    ),
    "malformed_request": Meaning(
        "INVALID_INPUT",
        "Send a JSON object with Content-Type: application/json, within the size and time limits.",
    ),
    "unknown_address": Meaning(
        "NOT_FOUND",
        "There is nothing at this address for this method; MCP is at /mcp, and /docs has the rest.",
    ),
    "foreign_host": Meaning(
        "PERMISSION_ERROR",
        "This server does not answer to that host name; the setting allowed_hosts adds names.",
    ),
    "foreign_origin": Meaning("PERMISSION_ERROR", "Pages of other sites may not call this server."),
    "unauthorized": Meaning(
        "PERMISSION_ERROR",
        "A valid token is needed: send 'Authorization: Bearer TOKEN'.",
    ),
    "scope": Meaning(
        "PERMISSION_ERROR",
        "The scope does not allow that: 'read' changes nothing, 'write' does not purge.",
    ),
    "overloaded": Meaning("LIMIT_EXCEEDED", "Too many calls at the same time; try again."),
    "unknown_ability": Meaning("INVALID_INPUT", "No ability has this name."),
    "disabled": Meaning("PERMISSION_ERROR", "This ability is disabled here."),
    "not_found": Meaning("NOT_FOUND", "No such file in the agent directory or workspace."),
    "no_workspace": Meaning(
        "NOT_FOUND",
        "No workspace is set; start in a project folder or set workspace_dir.",
    ),
    "dangling_link": Meaning("NOT_FOUND", "The link leads to no file."),
    "memory_file_not_found": Meaning("NOT_FOUND", "No memory file for this target."),
    "symlink_escape": Meaning("PERMISSION_ERROR", "The link leads outside its root."),
    "symlink_loop": Meaning("PERMISSION_ERROR", "The links form a loop."),
    "symlink_refused": Meaning("PERMISSION_ERROR", "Symbolic links are not followed here."),
    "denied": Meaning("PERMISSION_ERROR", "This file is not shared with agents."),
    "not_regular_file": Meaning("PERMISSION_ERROR", "Not a regular file."),
    "access_denied": Meaning("PERMISSION_ERROR", "File is not readable."),
    "hard_link": Meaning("PERMISSION_ERROR", "Files with more than one name are not shared here."),
    "memory_not_found": Meaning("NOT_FOUND", "No memory with this key."),
    "id_not_found": Meaning("NOT_FOUND", "No memory with this id."),
    "invalid_id": Meaning(
        "INVALID_INPUT",
        "id must be a lower-case version 4 UUID, exactly as a memory's id is shown.",
    ),
    "key_taken": Meaning("INVALID_INPUT", "The id and the key name different memories."),
    "version_conflict": Meaning("INVALID_INPUT", "The memory changed; read it again."),
    "version_not_found": Meaning("NOT_FOUND", "The history of this memory has no such version."),
    "rolled_back": Meaning(
        "INVALID_INPUT", "Another operation of this call failed, so none of them was made."
    ),
    "purged": Meaning("INVALID_INPUT", "A memory with this id was purged; it is not revived."),
    "read_only": Meaning(
        "PERMISSION_ERROR",
        "Storage is read-only; memories can be read but not changed.",
    ),
    "storage_denied": Meaning(
        "PERMISSION_ERROR",
        "The memory store does not let this service in, or lacks rights that it needs.",
    ),
    "storage_missing": Meaning(
        "STORAGE_ERROR",
        "The database that store_url names does not exist.",
        lasting=True,
    ),
    "checksum_mismatch": Meaning(
        "CORRUPTED_DATA",
        "The stored memory does not match its checksum.",
    ),
    "invalid_stored_value": Meaning(
        "CORRUPTED_DATA",
        "The stored memory contains an invalid value.",
    ),
    "corrupted": Meaning(
        "CORRUPTED_DATA",
        "The store is damaged and was left untouched. Restore a backup.",
    ),
    "response_budget": Meaning(
        "LIMIT_EXCEEDED",
        "No room left in this response; the next request fetches this item.",
    ),
    "response_too_large": Meaning(
        "LIMIT_EXCEEDED",
        "The answer exceeds the response limit; ask for less.",
    ),
    "storage_quota": Meaning(
        "LIMIT_EXCEEDED",
        "The memory limit is reached; delete memories that are not needed.",
    ),
    "range_too_far": Meaning(
        "LIMIT_EXCEEDED",
        "The lines lie beyond the first or last 64 MiB; use #byte= to go there.",
    ),
    "resource_exhausted": Meaning("STORAGE_ERROR", "The system is short of resources; try again."),
    "io_error": Meaning("STORAGE_ERROR", "The file could not be read."),
    "timeout": Meaning("STORAGE_ERROR", "Reading took too long; try again."),
    "root_unavailable": Meaning(
        "STORAGE_ERROR",
        "The directory that holds this file is not available.",
    ),
    "unavailable": Meaning("STORAGE_ERROR", "The memory store is not available."),
    "busy": Meaning("STORAGE_ERROR", "Storage is busy; try again."),
    "storage_full": Meaning("STORAGE_ERROR", "Storage is full; nothing was changed."),
    "storage_error": Meaning("STORAGE_ERROR", "Storage could not be read or written."),
    "storage_moved": Meaning(
        "STORAGE_ERROR",
        "The store was moved or deleted; nothing was changed.",
        lasting=True,
    ),
    "schema_too_new": Meaning(
        "STORAGE_ERROR",
        "The store was written by a newer version; nothing was changed.",
        lasting=True,
    ),
    "schema_too_old": Meaning(
        "PERMISSION_ERROR",
        "The store is of an older version, and may not be changed here to bring it forward.",
    ),
    "schema_unpublished": Meaning(
        "STORAGE_ERROR",
        "The store was made before the first published version, which does not read it.",
        lasting=True,
    ),
    "internal": Meaning("INTERNAL_ERROR", "Unexpected error."),
}

SHOWN_REASONS: dict[Reason, Reason] = {
    "memories_changed": "changed",
    "memory_file_not_found": "not_found",
    "memory_not_found": "not_found",
    "id_not_found": "not_found",
    "storage_error": "io_error",
}
"""The reason that callers see instead, for causes with a sentence but no reason of their own."""


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
