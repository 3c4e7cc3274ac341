"""The format of exports: a memory, or an entry of its history, as a line of JSON and back."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import orjson
from pydantic import ConfigDict, Field, ValidationError, with_config
from typing_extensions import TypedDict

from abilities.declarations import memory as declared
from abilities.declarations.limits import MAX_ACCESS_COUNT
from abilities.declarations.refusals import FAULTS, AbilitiesError
from abilities.declarations.values import JsonObject, Model, parse_json
from abilities.helpers.store.history import Entry, seal
from abilities.helpers.store.model import LinkRow, Row, StoredMemory, dump_sorted_json

VERSION = 3
"""The version of the format. Version 1 had no `expires_at` and no history, version 2 no `about`."""

Time = Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$")]
"""RFC 3339 UTC in milliseconds, for example ``2026-01-31T09:30:00.000Z``."""

Namespace = Annotated[str, Field(pattern=f"^{declared.NAMESPACE}$")]


class Heading(Model):
    """The first line of an export."""

    format: Literal["agent-abilities"]
    version: Annotated[int, Field(ge=1)]


class ExportedLink(Model):
    """A link of an exported memory."""

    key: declared.Key
    link_weight: declared.Score
    type: declared.LinkType = "association"
    term: declared.LinkTerm = ""


class ExportedMemory(Model):
    """One line: a memory with its links. Fields that have their default are left out."""

    namespace: Namespace
    key: declared.Key
    id: declared.Id
    type: declared.Type
    content: declared.LongContent
    summary: declared.Summary = ""
    category: declared.Category = ""
    tags: declared.Tags = Field(default=[])
    about: declared.About = Field(default=[])
    importance: declared.Importance
    archived: bool = False
    memory_score: declared.Score | None = None
    metadata: declared.Metadata = Field(default=declared.MetadataFields())
    created_at: Time
    updated_at: Time
    accessed_at: Time
    expires_at: Time | Literal[""] = ""
    access_count: Annotated[int, Field(ge=0, le=MAX_ACCESS_COUNT)] = 0
    links: list[ExportedLink] = Field(default=[])


@with_config(ConfigDict(extra="forbid"))
class PastColumns(TypedDict, total=False):
    """The former values of the columns that a change replaced; tags and metadata are JSON."""

    key: declared.Key
    id: declared.Id
    archived: Literal[0, 1]
    score: declared.Score
    scored: Literal[0, 1]
    type: declared.Type
    importance: declared.Importance
    category: declared.Category
    created_at: Time
    updated_at: Time
    tags: declared.Tags
    summary: declared.Summary
    metadata: declared.Metadata
    content: declared.LongContent
    expires_at: Time | Literal[""]
    about: declared.About


AbsentLink = tuple[declared.Key, declared.LinkType]
PastLink = tuple[declared.Key, declared.LinkType, declared.Score, declared.LinkTerm]


class Replaced(Model):
    """The values that a change replaced, in the form of `describe_before`.

    The row is null if the memory did not exist before.
    """

    row: PastColumns | None
    links: list[PastLink | AbsentLink] = Field(default=[])


class ExportedEntry(Model):
    """An entry of the history of a memory."""

    namespace: Namespace
    id: declared.Id
    version: Annotated[int, Field(ge=1)]
    key: declared.Key
    previous: Annotated[int, Field(ge=0)]
    action: declared.Action
    made_at: Time
    caller: Annotated[str, Field(max_length=200), declared.Text] = ""
    before: Replaced


class HistoryLine(Model):
    """A line with one entry of a history; the entries of a memory are consecutive."""

    history: ExportedEntry


_DEFAULTS = {name: field.default for name, field in ExportedMemory.model_fields.items()}
"""By field; pydantic has a default of its own for required ones."""

HEADING = orjson.dumps({"format": "agent-abilities", "version": VERSION}) + b"\n"

_ENTRY_FIELDS = tuple(ExportedEntry.model_fields)
_START = b'{"history"'
_JSON_COLUMNS = ("tags", "metadata", "about")
_ALL_COLUMNS = frozenset(Row._fields) - {"namespace", "version"}
_COLUMNS = [name for name in Row._fields if name in _DEFAULTS]

_RULES = {
    "missing": "is missing",
    "extra_forbidden": "is unknown",
    "model_type": "must be a JSON object",
    "dict_type": "must be a JSON object",
    "list_type": "must be a list",
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "literal_error": "must be {expected}",
    "string_pattern_mismatch": "must match {pattern}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "string_too_long": "must be at most {max_length} characters long",
    "too_long": "must have at most {max_length} items",
}
"""The rule that a line breaks, by the type of pydantic's error."""


class UnusableLine(AbilitiesError):
    """A line or file without a usable memory; the message is for the person who imports it."""


def parse_heading(line: bytes) -> Heading | None:
    """Return the heading of an export if the line is one, else None."""
    try:
        return Heading.model_validate(parse_json(line))
    except ValueError:
        return None


def format_line(stored: StoredMemory) -> bytes:
    """Return a memory as a line with its newline; the same memory always gives the same bytes."""
    row = stored.row
    values: JsonObject = row._asdict()
    for name in _JSON_COLUMNS:
        values[name] = orjson.loads(values[name])

    values["archived"] = bool(row.archived)
    values["memory_score"] = row.score if row.scored else None
    values["accessed_at"] = stored.accessed_at
    values["access_count"] = stored.access_count
    # The order of a store depends on other memories, but a line must not.
    values["links"] = [link.to_data() for link in sorted(stored.links)]

    fields = {name: values[name] for name, default in _DEFAULTS.items() if values[name] != default}
    return orjson.dumps(fields) + b"\n"


def parse_fields(value: object) -> StoredMemory:
    """Return the memory on a line, from the line's JSON. Raises UnusableLine."""
    try:
        memory = ExportedMemory.model_validate(value)
    except ValidationError as error:
        raise describe_mistake(error, "a memory") from None

    # As in a change, the score may also be in the metadata.
    metadata: JsonObject = {**memory.metadata}
    score = metadata.pop("memory_score", None)
    if memory.memory_score is not None:
        score = memory.memory_score

    # Target and type identify a link; if a line repeats one, the last one counts.
    links: dict[tuple[str, str], LinkRow] = {}
    for link in memory.links:
        links[link.key, link.type] = LinkRow(
            memory.key, link.key, link.type, link.link_weight, link.term
        )

    fields: JsonObject = {**vars(memory), "metadata": metadata, "memory_score": score}
    fields["tags"] = list(dict.fromkeys(memory.tags))
    fields["about"] = list(dict.fromkeys(memory.about))
    return build_memory(fields, list(links.values()))


def build_memory(fields: JsonObject, links: list[LinkRow]) -> StoredMemory:
    """Return a memory of the values that a line has for all fields but the links."""
    score = fields["memory_score"]
    columns: JsonObject = {name: fields[name] for name in _COLUMNS}
    for name in _JSON_COLUMNS:
        columns[name] = dump_sorted_json(fields[name])
    columns["archived"] = int(fields["archived"])
    columns["scored"] = int(score is not None)
    columns["score"] = declared.SCORES[fields["importance"]] if score is None else score

    return StoredMemory(
        Row(**columns),
        tuple(links),
        links_total=len(links),
        accessed_at=fields["accessed_at"],
        access_count=fields["access_count"],
    )


def parse_line_json(line: bytes) -> Any:
    """Return the JSON value on a line. Raises UnusableLine."""
    try:
        return parse_json(line)
    except ValueError as error:
        raise UnusableLine(f"The line is not valid JSON: {error}.") from None


def describe_mistake(error: ValidationError, kind: str) -> UnusableLine:
    """Return the first mistake of a line that should be of a kind, for example "a memory"."""
    first = error.errors()[0]
    field = ".".join(map(str, first["loc"]))
    context = first.get("ctx", {})

    if first["type"] == "refused":
        rule = f"is wrong: {FAULTS[context['reason']].message.rstrip('.')}"
    else:
        rule = _RULES.get(first["type"], "has a value that is not allowed").format(**context)

    if not field:
        return UnusableLine(f"The line is not {kind}: it {rule}.")
    return UnusableLine(f"The field {field} {rule}.")


def is_history(line: bytes) -> bool:
    """Return whether a line is an entry of the history, sound or not."""
    return line.startswith(_START)


def format_entry(entry: Entry) -> bytes:
    """Return an entry as a line with its newline."""
    before: JsonObject = orjson.loads(entry.before)
    row: JsonObject = before["row"] or {}
    for name in _JSON_COLUMNS:
        if name in row:
            row[name] = orjson.loads(row[name])

    fields: JsonObject = {name: getattr(entry, name) for name in _ENTRY_FIELDS}
    fields["before"] = before
    return orjson.dumps({"history": fields}) + b"\n"


def parse_entry(line: bytes) -> Entry:
    """Return the entry on a line, with its hash. Raises UnusableLine."""
    value = parse_line_json(line)
    try:
        entry = HistoryLine.model_validate(value).history
    except ValidationError as error:
        raise describe_mistake(error, "an entry of the history") from None

    before: JsonObject = {"row": None}
    if entry.before.row is not None:
        before["row"] = {**entry.before.row}
        for name in before["row"].keys() & _JSON_COLUMNS:
            before["row"][name] = dump_sorted_json(before["row"][name])
    if entry.before.links:
        before["links"] = entry.before.links

    columns: JsonObject = {**vars(entry), "before": dump_sorted_json(before)}
    parsed = Entry(**columns)
    if not _is_possible(parsed):
        raise UnusableLine("The entry of the history is not possible for any memory.")

    return seal(parsed)


def _is_possible(entry: Entry) -> bool:
    """Return whether an entry can be undone, regardless of earlier entries."""
    columns: JsonObject | None = orjson.loads(entry.before)["row"]
    if (columns is None) != (entry.previous == 0):
        return False
    if columns is None:
        return entry.action in ("created", "imported", "restored")
    if entry.action == "deleted":
        return set(_ALL_COLUMNS) == {*columns, "about"} and columns["id"] == entry.id

    return "id" not in columns and (entry.action != "relinked" or not columns)


def keep_sound(entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries of one memory from which its past can be rebuilt, by rising version.

    If an entry does not follow the one before it, all earlier entries are useless.
    """
    kept: list[Entry] = []
    expected = 0  # the previous version of the next entry; 0 after a deletion

    for entry in entries:
        if kept and (entry.version <= kept[-1].version or entry.previous != expected):
            kept = []
        kept.append(entry)
        expected = {"deleted": 0, "relinked": entry.previous}.get(entry.action, entry.version)

    return kept
