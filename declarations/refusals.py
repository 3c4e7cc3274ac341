"""Refusals: why a request cannot be served, the fault that its caller receives, and its record.

Every refusal has a reason from a closed set. The reason decides the error code, the sentence, and
whether a retry may succeed. A refusal of an argument also names the field, the rule that it breaks
and a suggestion, and its sentence states that rule.
"""

import logging
import re
import secrets
from collections.abc import Sequence
from typing import Any, Generic, Literal, NamedTuple, Self, TypeVar, cast

from pydantic import Field

from abilities.declarations.values import JsonObject, Model, as_object, optional

Code = Literal[
    "INVALID_INPUT", "NOT_FOUND", "STORAGE_ERROR", "PERMISSION_ERROR", "CORRUPTED_DATA",
    "LIMIT_EXCEEDED", "INTERNAL_ERROR",
]  # fmt: skip

Reason = Literal[
    "not_a_string", "empty_path", "absolute_path", "parent_traversal", "backslash", "drive_path",
    "control_character", "invalid_unicode", "path_too_long", "path_too_deep", "trailing_slash",
    "is_directory", "binary_file", "reader_missing", "unreadable_document", "no_such_part",
    "invalid_range", "changed", "memories_changed", "invalid_target", "invalid_item",
    "invalid_date", "invalid_key", "date_not_allowed", "missing_argument", "unknown_argument",
    "repeated_argument", "wrong_type", "out_of_range", "too_long", "too_short", "too_many",
    "too_few", "not_one_of", "invalid_format", "invalid_pattern", "malformed_request",
    "unknown_ability", "invalid_id", "key_taken", "version_conflict", "rolled_back", "purged",
    "memory_archived", "unknown_address", "not_found", "no_workspace", "dangling_link",
    "memory_file_not_found", "memory_not_found", "id_not_found", "version_not_found",
    "foreign_host", "foreign_origin", "unauthorized", "scope", "disabled", "symlink_escape",
    "symlink_loop", "symlink_refused", "denied", "not_regular_file", "access_denied", "hard_link",
    "read_only", "storage_denied", "schema_too_old", "overloaded", "response_budget",
    "response_too_large", "storage_quota", "range_too_far", "storage_missing", "resource_exhausted",
    "io_error", "timeout", "root_unavailable", "unavailable", "busy", "storage_full",
    "storage_error", "storage_moved", "schema_too_new", "schema_unpublished", "checksum_mismatch",
    "invalid_stored_value", "corrupted", "internal",
]  # fmt: skip
"""All causes of a refusal; the type checker rejects any other."""

MAX_MISTAKES = 10
"""Wrong arguments of one call that a fault lists."""

MAX_SENTENCE_CHARS = 120
"""Characters of a fault's sentence."""

_MESSAGES: dict[Code, dict[Reason, str]] = {
    "INVALID_INPUT": {
        "not_a_string": "Path must be a string.",
        "empty_path": "Path is empty.",
        "absolute_path": "Use a path relative to the workspace.",
        "parent_traversal": "Path must not contain '..' components.",
        "backslash": "Use '/' as the separator.",
        "drive_path": "Drive letters are not allowed.",
        "control_character": "Path contains a control character.",
        "invalid_unicode": "Path is not valid Unicode.",
        "path_too_long": "Path is too long: at most 1,024 characters, and 255 bytes per component.",
        "path_too_deep": "Path has more than 32 components.",
        "trailing_slash": "Path must name a file.",
        "is_directory": "Path is a directory.",
        "binary_file": "File is not text.",
        "reader_missing": "To read documents, run pip install 'agent-abilities[documents]'.",
        "unreadable_document": "The document is encrypted, damaged, or too complex to read.",
        "no_such_part": "No such part; lines such as [page 3] name the parts, and #p3 reads one.",
        "invalid_range": "The range or resume point is not valid here.",
        "changed": "The file changed; read it again from the start.",
        "memories_changed": "The memories or notes changed; ask again without 'after'.",
        "invalid_target": "The target's type must be long_term, short_term or stored.",
        "invalid_item": (
            "An item is a path, or an object with one of file, glob, search, note, memory or "
            "recall."
        ),
        "invalid_date": "date must be YYYY-MM-DD.",
        "invalid_key": "key must be 1 to 200 printable characters, with no space at either end.",
        "date_not_allowed": "long_term takes no date.",
        "missing_argument": "An argument is missing.",
        "unknown_argument": "There is no such argument.",
        "repeated_argument": "An argument is given twice; send it once.",
        "wrong_type": "The value has the wrong type.",
        "out_of_range": "The value is outside its range.",
        "too_long": "The value is too long.",
        "too_short": "The value is too short.",
        "too_many": "There are too many items.",
        "too_few": "There are too few items.",
        "not_one_of": "The value is not one of those allowed.",
        "invalid_format": "The value does not have the required form.",
        "invalid_pattern": (
            "The pattern must be RE2 syntax and not too large: no look-around, no back-references."
        ),
        "malformed_request": (
            "Send a JSON object with Content-Type: application/json, within the size and time "
            "limits."
        ),
        "unknown_ability": "No ability has this name.",
        "invalid_id": "id must be a lower-case version 4 UUID, exactly as a memory's id is shown.",
        "key_taken": "The key is that of another memory.",
        "version_conflict": "The memory changed; read it again.",
        "rolled_back": "Another operation of this call failed, so none was applied.",
        "purged": "A memory with this id was purged and cannot come back.",
        "memory_archived": "The memory is archived; revive it, or name the one that replaced it.",
    },
    "NOT_FOUND": {
        "unknown_address": (
            "There is nothing at this address for this method; MCP is at /mcp, and /docs has the "
            "rest."
        ),
        "not_found": "No such file in the agent directory or workspace.",
        "no_workspace": "No workspace is set; start in a project folder or set workspace_dir.",
        "dangling_link": "The link points to no file.",
        "memory_file_not_found": "No memory file for this target.",
        "memory_not_found": "No memory with this key.",
        "id_not_found": "No memory with this id.",
        "version_not_found": "The history of this memory has no such version.",
    },
    "PERMISSION_ERROR": {
        "foreign_host": (
            "This server does not answer to that host name; the setting allowed_hosts adds names."
        ),
        "foreign_origin": "Pages of other sites may not call this server.",
        "unauthorized": "A valid token is needed: send 'Authorization: Bearer TOKEN'.",
        "scope": "The scope does not allow that: 'read' changes nothing, 'write' does not purge.",
        "disabled": "This ability is disabled here.",
        "symlink_escape": "The link points outside its root.",
        "symlink_loop": "The links form a loop.",
        "symlink_refused": "Symbolic links are not followed here.",
        "denied": "This file is not shared with agents.",
        "not_regular_file": "Not a regular file.",
        "access_denied": "File is not readable.",
        "hard_link": "Files with several hard links are not shared here.",
        "read_only": "Storage is read-only; memories can be read but not changed.",
        "storage_denied": (
            "The memory store denies access to this service, or a right that it needs."
        ),
        "schema_too_old": "The store has an older format, and this service may not upgrade it.",
    },
    "LIMIT_EXCEEDED": {
        "overloaded": "Too many calls at the same time; try again.",
        "response_budget": "No room left in this response; the next request fetches this item.",
        "response_too_large": "The answer exceeds the response limit; ask for less.",
        "storage_quota": "The memory limit is reached; delete memories that are not needed.",
        "range_too_far": "The lines are beyond the first or last 64 MiB; use #byte= to go there.",
    },
    "STORAGE_ERROR": {
        "storage_missing": "The database that store_url names does not exist.",
        "resource_exhausted": "The system is short of resources; try again.",
        "io_error": "The file could not be read.",
        "timeout": "Reading took too long; try again.",
        "root_unavailable": "The directory that holds this file is not available.",
        "unavailable": "The memory store is not available.",
        "busy": "Storage is busy; try again.",
        "storage_full": "Storage is full; nothing was changed.",
        "storage_error": "Storage could not be read or written.",
        "storage_moved": "The store was moved or deleted; nothing was changed.",
        "schema_too_new": "The store was written by a newer version; nothing was changed.",
        "schema_unpublished": (
            "The store was made before the first published version, and cannot be read."
        ),
    },
    "CORRUPTED_DATA": {
        "checksum_mismatch": "The stored memory does not match its checksum.",
        "invalid_stored_value": "The stored memory contains an invalid value.",
        "corrupted": "The store is damaged and was left untouched. Restore a backup.",
    },
    "INTERNAL_ERROR": {"internal": "Unexpected error."},
}
"""The sentence of each reason, at most 120 characters long.

The sentences about arguments are general; `describe_mistake` writes a precise one if the rule is
known.
"""

_LASTING: frozenset[Reason] = frozenset(
    {"storage_missing", "storage_moved", "schema_too_new", "schema_unpublished"}
)
"""Storage errors that no retry gets past: an operator must repair the store first."""


class Meaning(NamedTuple):
    """The consequences of a reason: its code, its sentence, and whether a retry may succeed."""

    code: Code
    message: str
    retryable: bool


FAULTS: dict[Reason, Meaning] = {
    reason: Meaning(code, message, code == "STORAGE_ERROR" and reason not in _LASTING)
    for code, messages in _MESSAGES.items()
    for reason, message in messages.items()
}

SHOWN_REASONS: dict[Reason, Reason] = {
    "memories_changed": "changed",
    "memory_file_not_found": "not_found",
    "memory_not_found": "not_found",
    "id_not_found": "not_found",
    "storage_error": "io_error",
}
"""Broader reasons that callers see instead, for causes that only have a sentence of their own."""

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")

_RULE_KEYS = {
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
"""The keys of a rule, by the keywords of JSON Schema."""

_TYPES = {
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "string": "a string",
    "array": "an array",
    "object": "an object",
}
_PLURALS = {"string": "strings", "integer": "integers", "number": "numbers", "object": "objects"}

_MAXIMUM = {
    "max_bytes": "takes at most {} bytes in total",
    "max_length": "takes at most {} character{s}",
    "max_items": "takes at most {} item{s}",
}
_MINIMUM = {
    "min_length": "needs at least {} character{s}",
    "min_items": "needs at least {} item{s}",
}
_ONLY_READ = {"only_read_from": "names a memory that is only read, from namespace {}"}
_PHRASES: dict[str, dict[str, str]] = {
    "memory_not_found": _ONLY_READ,
    "id_not_found": _ONLY_READ,
    "out_of_range": {
        "minimum": "must be at least {}",
        "maximum": "must be at most {}",
        "exclusive_minimum": "must be more than {}",
        "exclusive_maximum": "must be less than {}",
        "multiple_of": "must be a multiple of {}",
    },
    "too_long": _MAXIMUM,
    "too_many": _MAXIMUM,
    "too_short": _MINIMUM,
    "too_few": _MINIMUM,
    "invalid_format": {"format": "must have this form: {}", "pattern": "must match {}"},
}
"""The predicate of a sentence, by its reason and by the first key that the rule has."""

_UNKNOWN_NAMES = {
    "unknown_argument": "There is no such argument",
    "unknown_ability": "No ability has this name",
    "unknown_address": "Nothing is at this address",
}
"""Beginnings of sentences about names that a caller made up, and that are not repeated."""

_log = logging.getLogger("abilities")


class Place(NamedTuple):
    """The place of a value in a schema: the name of its field, and the schema of that field.

    ``parts`` counts the parts of the location that the schema describes.
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
    """Return the name of an unknown field within another, or of the outer one alone.

    A name that is no plain identifier could be an instruction to a model, so it is not repeated.
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

    # Choices show their type themselves.
    if "type" in schema and "one_of" not in rule:
        rule = {"type": schema["type"], **rule}

    items = as_object(schema.get("items"))
    if items:
        rule["items"] = build_rule(items)

    required = cast(list[str], schema.get("required", []))
    if required:
        fields: JsonObject = schema.get("properties", {})
        rule["required"] = {name: build_rule(fields.get(name, {})) for name in required}

    return rule


def build_bounds(schema: JsonObject) -> JsonObject:
    """Return the rule that a schema states, without the type: bounds, choices and formats."""
    if "const" in schema:
        return {"one_of": [schema["const"]]}

    return {key: schema[keyword] for keyword, key in _RULE_KEYS.items() if keyword in schema}


class Mistake(Model):
    """One wrong argument."""

    field: str | None = optional("The argument, such as depth or links[2].link_weight.")
    reason: str = Field(description="What is wrong with it.")
    expected: JsonObject | None = optional("The rule that it breaks.")
    did_you_mean: str | None = optional("The name or value to send instead.")


def explain_unknown(
    name: str, offered: JsonObject, suggestion: str | None, *, within: str = ""
) -> Mistake:
    """Return the mistake of an unknown name, given the schemas of the offered names.

    ``within`` is the outer field. The rule is that of the suggested name, because the value may be
    wrong too; without a suggestion the rule lists the names.
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
    """Return a sentence of at most 120 characters that states the rule; None if it is not known.

    The sentence repeats names, bounds and values of the schema, and nothing that a caller sent.

    >>> describe_mistake(
    ...     Mistake(field="depth", reason="out_of_range", expected={"minimum": 1, "maximum": 6})
    ... )
    'depth must be 1 to 6.'
    """
    unknown = _UNKNOWN_NAMES.get(mistake.reason)
    if unknown is not None:
        sentence = f"{unknown}; did you mean '{mistake.did_you_mean}'?"
        if mistake.did_you_mean is None or len(sentence) > MAX_SENTENCE_CHARS:
            return None
        return sentence

    predicate = _describe_rule(mistake.reason, mistake.expected or {})
    if predicate is None:
        return None

    sentence = f"{mistake.field or 'The arguments'} {predicate}."
    if len(sentence) <= MAX_SENTENCE_CHARS:
        return sentence

    # Only a list can be shortened: the last values are left out.
    head, _, _ = sentence.partition(": ")
    kept, _, _ = sentence[: MAX_SENTENCE_CHARS - 2].rpartition(", ")
    if len(kept) <= len(head):
        return None

    return f"{kept}, …"


def _describe_rule(reason: str, rule: JsonObject) -> str | None:
    """Return the predicate of a sentence about a field; None if the rule does not say enough."""
    if reason == "missing_argument":
        return "is missing"

    if reason == "wrong_type":
        return _describe_type(rule)

    if reason == "not_one_of" and rule.get("one_of"):
        return f"must be one of: {', '.join(map(str, rule['one_of']))}"

    if reason == "out_of_range" and "minimum" in rule and "maximum" in rule:
        return f"must be {rule['minimum']} to {rule['maximum']}"

    for key, phrase in _PHRASES.get(reason, {}).items():
        if key in rule:
            ending = "" if rule[key] == 1 else "s"
            return phrase.format(rule[key], s=ending)

    return None


def _describe_type(rule: JsonObject) -> str | None:
    kind = rule.get("type")
    if kind not in _TYPES:
        return None

    predicate = f"must be {_TYPES[kind]}"
    if kind != "array":
        if "minimum" in rule and "maximum" in rule:
            return f"{predicate} from {rule['minimum']} to {rule['maximum']}"
        return predicate

    plural = _PLURALS.get(rule.get("items", {}).get("type"))
    if plural is None:
        return predicate

    return f"{predicate} of {plural}"


class AbilitiesError(Exception):
    """The root of every exception that this package raises; `abilities.errors` draws the tree."""


class Refused(AbilitiesError):
    """The request cannot be served.

    ``reason`` is a key of `FAULTS`. If an argument is at fault, ``field`` names it, ``expected`` is
    the rule that it breaks (see `build_rule`), and ``did_you_mean`` is the name or value to send
    instead. If several are at fault, ``fields`` lists them all. None of these may repeat anything
    that a caller sent, except that ``field`` may be the plain name of an unknown argument.

    Raises ValueError for a reason that is not in `FAULTS`.
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
        """Return the refusal of wrong arguments; the first one gives the reason."""
        first = mistakes[0]
        several = mistakes if len(mistakes) > 1 else ()

        return Refused(
            cast(Reason, first.reason),
            first.field,
            expected=first.expected,
            did_you_mean=first.did_you_mean,
            fields=several,
        )

    def to_mistake(self) -> Mistake:
        """Return the mistake of the argument at fault."""
        return Mistake(
            field=self.field,
            reason=self.reason,
            expected=self.expected,
            did_you_mean=self.did_you_mean,
        )

    @property
    def message(self) -> str:
        """The sentence that callers see: the broken rule, or the reason if no rule is known."""
        general = FAULTS[self.reason].message
        # Most refusals are about things that do not exist, and have no rule.
        if self.field is None and self.expected is None and self.did_you_mean is None:
            return general

        return describe_mistake(self.to_mistake()) or general


class Fault(Model):
    """Why a request or an item failed."""

    code: Code = Field(description="The kind of failure, one of seven.")
    reason: str = Field(description="The exact cause, from a closed set.")
    message: str = Field(description="One sentence that states the rule.")
    retryable: bool = optional(
        "True if the same request may succeed later; default false.", default=False
    )
    field: str | None = optional(
        "The argument at fault, if one is, such as depth or links[2].link_weight."
    )
    expected: JsonObject | None = optional(
        'The rule for that argument, such as {"minimum": 1, "maximum": 6}, '
        '{"one_of": […]}, {"max_items": 25} or {"type": "integer"}.'
    )
    did_you_mean: str | None = optional(
        "A similar name or value to send instead; data, as all names are."
    )
    fields: list[Mistake] | None = optional(
        "If several arguments are wrong: all of them, 10 at most, this one first."
    )
    size_bytes: int | None = optional(
        "For response_budget: the size in bytes of the file or memory left out."
    )
    ref: str | None = optional("For an internal error: the reference to its details in the log.")

    @classmethod
    def from_reason(cls, reason: Reason, *, ref: str | None = None) -> Self:
        """Return the fault of a reason."""
        return cls.from_refusal(Refused(reason), ref=ref)

    @classmethod
    def from_refusal(cls, refusal: Refused, *, ref: str | None = None) -> Self:
        """Return the fault that a caller sees for a refusal."""
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
            ref=ref,
        )

    @classmethod
    def from_exception(cls, error: Exception, ability: str = "a call") -> Self:
        """Return the fault that a caller sees for an exception.

        An unexpected exception becomes INTERNAL_ERROR. It is logged with the name of the ability,
        and with a reference by which operators find the details; callers see only the reference.
        """
        if isinstance(error, Refused):
            return cls.from_refusal(error)

        # Not a bug; and logging its traceback could need memory that is not available.
        if isinstance(error, MemoryError):
            return cls.from_reason("resource_exhausted")

        ref = secrets.token_hex(6)
        _log.error("unexpected error in %s, ref %s", ability, ref, exc_info=error)
        return cls.from_reason("internal", ref=ref)

    def to_payload(self) -> dict[str, Any]:
        """Return the fault as JSON values, without the fields that have their default."""
        return self.model_dump(exclude_defaults=True)


T = TypeVar("T")
AnyRecord = TypeVar("AnyRecord")


class Truncation(Model):
    """The part of a record's content that is missing, and how to fetch it."""

    reason: Literal["max_chars", "budget"] = Field(
        description="max_chars: the item's own limit; budget: the room in the reply."
    )
    returned_chars: int = Field(description="Characters of content in this record.")
    total_chars: int | None = optional(
        "Characters of the whole requested part, if known without reading further."
    )
    next: str | dict[str, Any] = Field(description="The path or target to send for the rest.")


class Record(Model, Generic[T]):
    """The outcome of one requested item."""

    input: str = Field(description="The item as requested.")
    success: bool = Field(description="Whether data is present; if not, error says why.")
    data: T | None = optional("What was found, on success.")
    error: Fault | None = optional("Why it failed, on failure.")
    truncation: Truncation | None = optional("Present if a part of the content is missing.")


class Summary(Model):
    """Counts over all records of a reply."""

    requested: int = Field(description="Requested items, duplicates counted.")
    succeeded: int = Field(description="Records with data.")
    failed: int = Field(description="Records with an error.")
    truncated: int = Field(description="Successful records whose content was cut.")
    returned_chars: int = Field(description="Characters of content in the whole reply.")


class ReplyOf(Model, Generic[AnyRecord]):
    """One record per requested item, in the order requested; duplicates are kept."""

    results: list[AnyRecord] = Field(description="One record per item, in the order requested.")
    summary: Summary = Field(description="Counts over all records.")
    next_request: dict[str, Any] | None = optional(
        "Arguments that fetch the rest, ready to send to the same tool; absent if nothing is left."
    )
