"""The format of exports: a memory, or an entry of its history, as a line of JSON and back."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Annotated, Any, Literal, NamedTuple, Self

import orjson
from pydantic import ConfigDict, Field, ValidationError, with_config
from typing_extensions import TypedDict

from abilities.declarations.limits import MAX_ACCESS_COUNT
from abilities.declarations.memory import (
    NAMESPACE,
    SCORES,
    About,
    Action,
    Category,
    Id,
    Importance,
    Key,
    LinkTerm,
    LinkType,
    LongContent,
    Metadata,
    MetadataFields,
    Score,
    Summary,
    Tags,
    Text,
    Type,
)
from abilities.declarations.refusals import FAULTS, AbilitiesError, Refused
from abilities.declarations.values import JsonObject, Model, parse_json
from abilities.helpers.store.history import Entry, MemoryName, seal
from abilities.helpers.store.model import LinkRow, Row, StoredMemory, dump_sorted_json
from abilities.helpers.store.names import make_id
from abilities.helpers.store.protocol import ServableStore

FORMAT = "agent-abilities"
VERSION = 3
"""The version of the format. Version 1 had no `expires_at` and no history, version 2 no `about`."""

Time = Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$")]
"""RFC 3339 UTC in milliseconds, for example ``2026-01-31T09:30:00.000Z``."""

Namespace = Annotated[str, Field(pattern=f"^{NAMESPACE}$")]


class Heading(Model):
    """The first line of an export."""

    format: Literal["agent-abilities"]
    version: Annotated[int, Field(ge=1)]


class ExportedLink(Model):
    """A link of an exported memory."""

    key: Key
    link_weight: Score
    type: LinkType = "association"
    term: LinkTerm = ""


class ExportedMemory(Model):
    """One line: a memory with its links. Fields that have their default are left out."""

    namespace: Namespace
    key: Key
    id: Id
    type: Type
    content: LongContent
    summary: Summary = ""
    category: Category = ""
    tags: Tags = Field(default=[])
    about: About = Field(default=[])
    importance: Importance
    archived: bool = False
    memory_score: Score | None = None
    metadata: Metadata = Field(default=MetadataFields())
    created_at: Time
    updated_at: Time
    accessed_at: Time
    expires_at: Time | Literal[""] = ""
    access_count: Annotated[int, Field(ge=0, le=MAX_ACCESS_COUNT)] = 0
    links: list[ExportedLink] = Field(default=[])


@with_config(ConfigDict(extra="forbid"))
class PastColumns(TypedDict, total=False):
    """The former values of the columns that a change replaced; tags and metadata are JSON."""

    key: Key
    id: Id
    archived: Literal[0, 1]
    score: Score
    scored: Literal[0, 1]
    type: Type
    importance: Importance
    category: Category
    created_at: Time
    updated_at: Time
    tags: Tags
    summary: Summary
    metadata: Metadata
    content: LongContent
    expires_at: Time | Literal[""]
    about: About


AbsentLink = tuple[Key, LinkType]
PastLink = tuple[Key, LinkType, Score, LinkTerm]


class Replaced(Model):
    """The values that a change replaced, in the form of `describe_before`.

    The row is null if the memory did not exist before.
    """

    row: PastColumns | None
    links: list[PastLink | AbsentLink] = Field(default=[])


class ExportedEntry(Model):
    """An entry of the history of a memory."""

    namespace: Namespace
    id: Id
    version: Annotated[int, Field(ge=1)]
    key: Key
    previous: Annotated[int, Field(ge=0)]
    action: Action
    made_at: Time
    caller: Annotated[str, Field(max_length=200), Text] = ""
    before: Replaced


class HistoryLine(Model):
    """A line with one entry of a history; the entries of a memory are consecutive."""

    history: ExportedEntry


_DEFAULTS = {
    name: field.default
    for name, field in ExportedMemory.model_fields.items()
    if not field.is_required()
}


def drop_defaults(values: JsonObject) -> JsonObject:
    """Return the fields of a memory without those that have their default."""
    return {
        name: value
        for name, value in values.items()
        if name not in _DEFAULTS or value != _DEFAULTS[name]
    }


HEADING = orjson.dumps({"format": FORMAT, "version": VERSION}) + b"\n"

_START = b'{"history"'
_JSON_COLUMNS = ("tags", "metadata", "about")
_ALL_COLUMNS = frozenset(Row._fields) - {"namespace", "version"}

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

_TABLE = """
CREATE TABLE ends (
    namespace TEXT, id TEXT, version INTEGER, is_due INTEGER, PRIMARY KEY (namespace, id)
) WITHOUT ROWID
"""


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
    values = {
        "namespace": row.namespace,
        "key": row.key,
        "id": row.id,
        "type": row.type,
        "content": row.content,
        "summary": row.summary,
        "category": row.category,
        "tags": orjson.loads(row.tags),
        "about": orjson.loads(row.about),
        "importance": row.importance,
        "archived": bool(row.archived),
        "memory_score": row.score if row.scored else None,
        "metadata": orjson.loads(row.metadata),
        "created_at": row.created_at,
        "updated_at": row.updated_at,
        "accessed_at": stored.accessed_at,
        "expires_at": row.expires_at,
        "access_count": stored.access_count,
        # The order of a store depends on other memories, but a line must not.
        "links": [link.to_data() for link in sorted(stored.links)],
    }

    return orjson.dumps(drop_defaults(values)) + b"\n"


def complete_fields(given: JsonObject, namespace: str, now: str) -> JsonObject:
    """Return the fields of a memory without an id, with the other fields that may be missing.

    The id follows from the namespace and the key, so that the same line gives the same memory.
    """
    fields: JsonObject = {"namespace": namespace, "type": "core", "importance": "medium", **given}
    fields["id"] = make_id(str(fields["namespace"]), str(fields.get("key")))
    fields.setdefault("created_at", now)
    fields.setdefault("updated_at", fields["created_at"])
    fields.setdefault("accessed_at", fields["created_at"])
    return fields


def parse_fields(value: object) -> StoredMemory:
    """Return the memory on a line, from the line's JSON. Raises UnusableLine."""
    try:
        memory = ExportedMemory.model_validate(value)
    except ValidationError as error:
        raise describe_mistake(error, "a memory") from None

    # As in a change, the score may also be in the metadata.
    metadata: JsonObject = {**memory.metadata}
    metadata_score = metadata.pop("memory_score", None)
    given_score = memory.memory_score
    if given_score is None:
        given_score = metadata_score

    score = given_score
    if score is None:
        score = SCORES[memory.importance]

    row = Row(
        namespace=memory.namespace,
        key=memory.key,
        id=memory.id,
        archived=int(memory.archived),
        score=score,
        scored=int(given_score is not None),
        type=memory.type,
        importance=memory.importance,
        category=memory.category,
        created_at=memory.created_at,
        updated_at=memory.updated_at,
        tags=dump_sorted_json(list(dict.fromkeys(memory.tags))),
        summary=memory.summary,
        metadata=dump_sorted_json(metadata),
        content=memory.content,
        expires_at=memory.expires_at,
        about=dump_sorted_json(list(dict.fromkeys(memory.about))),
    )

    # Target and type identify a link; if a line repeats one, the last one counts.
    links: dict[tuple[str, str], LinkRow] = {}
    for link in memory.links:
        links[link.key, link.type] = LinkRow(
            row.key, link.key, link.type, link.link_weight, link.term
        )

    return StoredMemory(
        row,
        tuple(links.values()),
        links_total=len(links),
        accessed_at=memory.accessed_at,
        access_count=memory.access_count,
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
    for name in _JSON_COLUMNS:
        if name in (before["row"] or ()):
            before["row"][name] = orjson.loads(before["row"][name])

    values: JsonObject = {
        "namespace": entry.namespace,
        "id": entry.id,
        "version": entry.version,
        "key": entry.key,
        "previous": entry.previous,
        "action": entry.action,
        "made_at": entry.made_at,
        "caller": entry.caller,
        "before": before,
    }
    return orjson.dumps({"history": values}) + b"\n"


def parse_entry(line: bytes) -> Entry:
    """Return the entry on a line, with its hash. Raises UnusableLine."""
    value = parse_line_json(line)
    try:
        entry = HistoryLine.model_validate(value).history
    except ValidationError as error:
        raise describe_mistake(error, "an entry of the history") from None

    before: dict[str, Any] = {"row": None}
    if entry.before.row is not None:
        columns: JsonObject = {**entry.before.row}
        for name in _JSON_COLUMNS:
            if name in columns:
                columns[name] = dump_sorted_json(columns[name])
        before["row"] = columns
    if entry.before.links:
        before["links"] = entry.before.links

    parsed = Entry(
        namespace=entry.namespace,
        version=entry.version,
        id=entry.id,
        key=entry.key,
        previous=entry.previous,
        action=entry.action,
        made_at=entry.made_at,
        caller=entry.caller,
        before=dump_sorted_json(before),
    )
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

        if entry.action == "relinked":
            expected = entry.previous
        elif entry.action == "deleted":
            expected = 0
        else:
            expected = entry.version

    return kept


class End(NamedTuple):
    """The version at which the exported history of a memory ends."""

    namespace: str
    id: str
    version: int


class ExportedPasts(AbstractContextManager["ExportedPasts"]):
    """The ends of all exported histories, in a temporary file because there may be millions."""

    def __enter__(self) -> Self:
        self._ends = sqlite3.connect("", isolation_level=None)
        self._ends.execute(_TABLE)
        self._ends.execute("BEGIN")
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    def add(self, entries: Iterable[Entry]) -> None:
        """Note exported entries; the entries of each memory must come by rising version."""
        for entry in entries:
            version = entry.version
            if entry.action == "relinked":
                version = entry.previous

            self._ends.execute(
                "INSERT OR REPLACE INTO ends VALUES (?, ?, ?, ?)",
                (entry.namespace, entry.id, version, entry.action != "deleted"),
            )

    def find_end(self, namespace: str, memory_id: str) -> End | None:
        """Return the end of the exported history of a memory; None if it has no history."""
        found = self._ends.execute(
            "SELECT version FROM ends WHERE namespace = ? AND id = ?", (namespace, memory_id)
        ).fetchone()
        if found is None:
            return None

        return End(namespace, memory_id, *found)

    def settle(self, namespace: str, memory_id: str) -> None:
        """Note that a memory was exported."""
        self._ends.execute(
            "UPDATE ends SET is_due = 0 WHERE namespace = ? AND id = ?", (namespace, memory_id)
        )

    def list_due(self) -> Iterator[End]:
        """Yield the ends of memories that existed at that version and are not exported yet."""
        due = self._ends.execute(
            "SELECT namespace, id, version FROM ends WHERE is_due ORDER BY namespace, id"
        )
        for end in due:
            yield End(*end)


async def match_past(
    store: ServableStore, memory: StoredMemory, pasts: ExportedPasts
) -> StoredMemory:
    """Return a memory in the version at which its exported history ends."""
    row = memory.row
    end = pasts.find_end(row.namespace, row.id)
    pasts.settle(row.namespace, row.id)
    if end is None or end.version == row.version:
        return memory

    earlier = await read_end(store, end)
    if earlier is None:
        return memory

    return earlier._replace(accessed_at=memory.accessed_at, access_count=memory.access_count)


async def read_end(store: ServableStore, end: End) -> StoredMemory | None:
    """Return a memory in the version at which its exported history ends; None if that is lost."""
    try:
        memory = await store.read_version(end.namespace, MemoryName(id=end.id), end.version)
    except Refused as refused:
        if refused.reason not in ("id_not_found", "version_not_found", "checksum_mismatch"):
            raise
        return None

    # The last access to a deleted memory is no longer known.
    return memory._replace(accessed_at=memory.row.updated_at)
