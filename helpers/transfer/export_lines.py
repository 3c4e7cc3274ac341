"""Write a stored memory as a line of JSON, and read it back without loss."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Self

import orjson
from pydantic import ValidationError

from abilities.declarations.memory import SCORES
from abilities.declarations.refusals import FAULTS, AbilitiesError, Refused
from abilities.declarations.transfer import (
    FORMAT,
    VERSION,
    ExportedMemory,
    Heading,
    HistoryLine,
    Replaced,
    drop_defaults,
)
from abilities.declarations.values import JsonObject, parse_json
from abilities.helpers.store.history import Entry, MemoryName, seal
from abilities.helpers.store.model import LinkRow, Row, StoredMemory, dump_sorted_json
from abilities.helpers.store.names import make_id
from abilities.helpers.store.protocol import ServableStore

HEADING = orjson.dumps({"format": FORMAT, "version": VERSION}) + b"\n"


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
"""The rules that lines break, by the types of pydantic's errors."""


class UnusableLine(AbilitiesError):
    """A line or a file that holds no memory; its text is a sentence for the person importing it."""


def parse_heading(line: bytes) -> Heading | None:
    """Return the heading if the line is one, else None."""
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
        "importance": row.importance,
        "archived": bool(row.archived),
        "memory_score": row.score if row.scored else None,
        "metadata": orjson.loads(row.metadata),
        "created_at": row.created_at,
        "updated_at": row.updated_at,
        "accessed_at": stored.accessed_at,
        "expires_at": row.expires_at,
        "access_count": stored.access_count,
        # Stores return links best first, which depends on other memories: their order must not.
        "links": [link.to_data() for link in sorted(stored.links)],
    }

    return orjson.dumps(drop_defaults(values)) + b"\n"


def complete_fields(given: JsonObject, namespace: str, now: str) -> JsonObject:
    """Return the fields of a memory that has no id, with the others that such a line may lack.

    The id follows from the namespace and the key, so that the same line gives the same memory.
    """
    fields: JsonObject = {"namespace": namespace, "type": "core", "importance": "medium", **given}
    fields["id"] = make_id(str(fields["namespace"]), str(fields.get("key")))
    fields.setdefault("created_at", now)
    fields.setdefault("updated_at", fields["created_at"])
    fields.setdefault("accessed_at", fields["created_at"])
    return fields


def parse_fields(value: object) -> StoredMemory:
    """Return the memory that the JSON of a line describes. Raises UnusableLine."""
    memory = _validate(value)

    # As in a change, the score may also come in the metadata.
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
    )

    # Target and type identify a link; if a line has one twice, the last one counts.
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


def _validate(value: object) -> ExportedMemory:
    try:
        return ExportedMemory.model_validate(value)
    except ValidationError as error:
        raise describe_mistake(error, "a memory") from None


def describe_mistake(error: ValidationError, kind: str) -> UnusableLine:
    """Return what is wrong first with a line that should hold something of a kind."""
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


_START = b'{"history"'
_JSON_COLUMNS = ("tags", "metadata")
_ALL_COLUMNS = frozenset(Row._fields) - {"namespace", "version"}


def is_history(line: bytes) -> bool:
    """Return whether a line is one of the history, sound or not."""
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

    parsed = Entry(
        namespace=entry.namespace,
        version=entry.version,
        id=entry.id,
        key=entry.key,
        previous=entry.previous,
        action=entry.action,
        made_at=entry.made_at,
        caller=entry.caller,
        before=_dump_replaced(entry.before),
    )
    if not _is_possible(parsed):
        raise UnusableLine("The entry of the history fits no memory.")

    return seal(parsed)


def _dump_replaced(replaced: Replaced) -> str:
    before: dict[str, Any] = {"row": None}
    if replaced.row is not None:
        columns: JsonObject = {**replaced.row}
        for name in _JSON_COLUMNS:
            if name in columns:
                columns[name] = dump_sorted_json(columns[name])
        before["row"] = columns

    if replaced.links:
        before["links"] = replaced.links
    return dump_sorted_json(before)


def _is_possible(entry: Entry) -> bool:
    """Return whether an entry can be undone, whatever came before it."""
    columns: JsonObject | None = orjson.loads(entry.before)["row"]
    if (columns is None) != (entry.previous == 0):
        return False
    if columns is None:
        return entry.action in ("created", "imported", "restored")
    if entry.action == "deleted":
        return columns.keys() == _ALL_COLUMNS and columns["id"] == entry.id

    return "id" not in columns and (entry.action != "relinked" or not columns)


class _Position(NamedTuple):
    """Where the entries of a memory have led: to which version, and whether it was there then."""

    version: int
    exists: bool


def keep_sound(entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries of one memory from which its past can be made, by rising version.

    If one does not follow the one before it, those before it lead nowhere.
    """
    kept: list[Entry] = []
    position: _Position | None = None

    for entry in entries:
        if position is not None and not _follows(entry, kept[-1], position):
            kept = []
        kept.append(entry)
        position = _move_on(entry)

    return kept


def _follows(entry: Entry, last: Entry, position: _Position) -> bool:
    if entry.version <= last.version:
        return False
    if not position.exists:
        return entry.previous == 0

    return entry.previous == position.version


def _move_on(entry: Entry) -> _Position:
    if entry.action == "relinked":
        return _Position(entry.previous, exists=True)

    return _Position(entry.version, exists=entry.action != "deleted")


_TABLE = """
CREATE TABLE ends (
    namespace TEXT, id TEXT, version INTEGER, is_due INTEGER, PRIMARY KEY (namespace, id)
) WITHOUT ROWID
"""


class End(NamedTuple):
    """The version to which the exported history of a memory leads."""

    namespace: str
    id: str
    version: int


class ExportedPasts(AbstractContextManager["ExportedPasts"]):
    """The ends of all exported histories, in a temporary file, as there may be millions."""

    def __enter__(self) -> Self:
        self._ends = sqlite3.connect("", isolation_level=None)
        self._ends.execute(_TABLE)
        self._ends.execute("BEGIN")
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    def add(self, entries: Iterable[Entry]) -> None:
        """Note entries that were exported, those of each memory by rising version."""
        for entry in entries:
            version = entry.version
            if entry.action == "relinked":
                version = entry.previous

            self._ends.execute(
                "INSERT OR REPLACE INTO ends VALUES (?, ?, ?, ?)",
                (entry.namespace, entry.id, version, entry.action != "deleted"),
            )

    def find_end(self, namespace: str, memory_id: str) -> End | None:
        """Return where the exported history of a memory ends; None if it has none."""
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
        """Yield the ends of the memories that were there, but were not exported yet."""
        due = self._ends.execute(
            "SELECT namespace, id, version FROM ends WHERE is_due ORDER BY namespace, id"
        )
        for end in due:
            yield End(*end)


async def match_past(
    store: ServableStore, memory: StoredMemory, pasts: ExportedPasts
) -> StoredMemory:
    """Return a memory as it was where its exported history ends."""
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
    """Return a memory as it was where its exported history ends; None if nobody knows any more."""
    try:
        memory = await store.read_version(end.namespace, MemoryName(id=end.id), end.version)
    except Refused as refused:
        if refused.reason not in ("id_not_found", "version_not_found", "checksum_mismatch"):
            raise
        return None

    # Nobody knows any more when a deleted memory was last accessed.
    return memory._replace(accessed_at=memory.row.updated_at)
