"""Concise answers: each record as one flat object with only the fields that a model needs.

A concise answer is a projection of the full one: it takes values from it and computes none. This
module lists the fields. All functions leave out fields without a value.
"""

from typing import NamedTuple

from abilities.declarations.fields import Detail
from abilities.declarations.values import JsonObject, as_object, json_bytes

_DAY_CHARS = len("YYYY-MM-DD")

_EXPLAINED = ("reader_missing", "no_such_part")
"""Reasons whose message says what to do."""


class RecordShape(NamedTuple):
    """The fields of a concise record in their order: one list for success, one for failure.

    Besides the fields of a full record and of its data, there are ``score`` (combinedScore),
    ``link`` and ``direction`` (of its link, if they are not the usual ones), ``next`` (of its
    truncation), and ``reason`` and ``message`` of its error.
    """

    found: tuple[str, ...]
    failed: tuple[str, ...]


def _parse_shape(found: str, failed: str) -> RecordShape:
    return RecordShape(tuple(found.split()), tuple(failed.split()))


FILE = _parse_shape(
    "input success content source lines version remembered next",
    "input success reason message did_you_mean",
)
"""A record of `file_read_bulk`."""

TARGET = _parse_shape(
    "type date key from success content archived replaced_by next",
    "input success reason message did_you_mean",
)
"""A record of `memory_read_bulk`."""

MEMORY = _parse_shape(
    "key from content archived replaced_by version score depth parent link direction next",
    "key reason score depth parent link direction",
)
"""A stored memory, read alone or in a walk."""

ITEM = _parse_shape(
    "input success from content items archived replaced_by date source matched confidence "
    "unknown_words archived_words overview searched skipped did_you_mean finds limitsReached "
    "frontier more lines version remembered next",
    "input success reason message did_you_mean",
)
"""A record of `read`."""

FOUND_FILE = _parse_shape(
    "path content source lines version remembered next",
    "path reason message did_you_mean",
)
"""A file that matches a glob."""

HIT = _parse_shape("path content source next", "path reason")
"""A match of a search."""

DAY = _parse_shape("date content version next", "date reason")
"""The notes of a day."""

LISTED_MEMORY = _parse_shape("key from type size summary", "key reason")
"""A memory in a list, without its content."""

RECALLED = _parse_shape(
    "key filename heading content archived starts_at date score replaced_by since via link "
    "direction from next",
    "key reason from",
)
"""A memory, or a part of a note, that answers a question."""

_FOUND = ("key", "from", "content", "archived", "replaced_by", "date", "score", "next")
_WRITTEN = (
    *("id", "key", "action", "archived", "version", "created", "replaced", "similar", "mended"),
)
_LISTED = ("path", "source", "size_bytes")


def choose_shape(shape: RecordShape, detail: Detail) -> RecordShape | None:
    """Return the shape of records in this detail; None if they are full."""
    return shape if detail == "concise" else None


def shape_record(record: JsonObject, shape: RecordShape | None) -> JsonObject:
    """Return a full record in the shape, or unchanged if that is None."""
    if shape is None:
        return record

    values = {**record, **record.get("data", {})}
    if "combinedScore" in record:
        values["score"] = record["combinedScore"]
        link = values.pop("link", {})
        if "type" in link:
            values["link"] = link["type"]
        if "direction" in link:
            values["direction"] = link["direction"]
    if "truncation" in record:
        values["next"] = _flatten_item(record["truncation"]["next"])

    if "error" not in record:
        return _choose(values, shape.found)

    fault: JsonObject = record["error"]
    values["reason"] = fault["reason"]
    # Most reasons say enough. Only the message says how to correct a malformed item.
    if "field" in fault or "expected" in fault or fault["reason"] in _EXPLAINED:
        values["message"] = fault["message"]
    if fault.get("did_you_mean", "") not in values.get("message", ""):
        values["did_you_mean"] = fault["did_you_mean"]

    return _choose(values, shape.failed)


def shape_found(memory: JsonObject) -> JsonObject:
    """Return a memory found by a query, given its fields; ``date`` is its last change, in UTC."""
    day = memory["updated_at"][:_DAY_CHARS]
    values = {**memory, "date": day, "score": memory["metadata"]["memory_score"]}
    if "truncation" in memory:
        values["next"] = _flatten_item(memory["truncation"]["next"])

    return _choose(values, _FOUND)


def shape_written(memory: JsonObject, envelope: JsonObject) -> JsonObject:
    """Return the answer to a write, given the memory's fields and those of the full answer."""
    return _choose({**memory, **envelope}, _WRITTEN)


def shape_listed(file: JsonObject) -> JsonObject:
    """Return a file of a list."""
    return _choose(file, _LISTED)


def shape_walk(answer: JsonObject) -> JsonObject:
    """Return a walk whose metadata has only the limits reached and the keys left out.

    The records do not change. A walk that left nothing out has no metadata.
    """
    full: JsonObject = answer["metadata"]
    metadata: JsonObject = {}
    if full["limitsReached"]:
        metadata["limitsReached"] = full["limitsReached"]
    if full["frontier"]:
        metadata["frontier"] = [candidate["key"] for candidate in full["frontier"]]

    shaped = {**answer, "metadata": metadata}
    if not metadata:
        del shaped["metadata"]

    return shaped


def is_failed(record: JsonObject) -> bool:
    """Return whether the item of a record failed; the record is full or concise."""
    return "error" in record or "reason" in record


def is_cut(record: JsonObject) -> bool:
    """Return whether a part of a record's content is missing; the record is full or concise."""
    if "truncation" in record:
        return True

    # In a concise record, `next` is the only trace of a truncation.
    return "next" in record and ("content" in record or "items" in record)


def _choose(values: JsonObject, names: tuple[str, ...]) -> JsonObject:
    chosen = {name: values[name] for name in names if name in values}

    # Most files are in the workspace.
    if chosen.get("source") == "workspace":
        del chosen["source"]

    return chosen


def _flatten_item(item: object) -> object:
    """Return a path unchanged, the resume point of a target, or the JSON of any other object.

    The record itself has the other fields of a target.
    """
    target = as_object(item)
    if target is None:
        return item

    return target.get("resume") or json_bytes(target).decode()
