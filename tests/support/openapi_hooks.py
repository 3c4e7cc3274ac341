"""What the generator of requests must know that no schema can say: bounds over several values."""

import json
import re
from typing import Any

import schemathesis

from abilities.declarations.fields import TIME_PATTERN
from abilities.declarations.limits import MAX_SAFE_INTEGER
from abilities.declarations.memories import QUERY_CURSOR_PATTERN
from abilities.declarations.memory_reads import RESUME_PATTERN
from abilities.declarations.recall import CURSOR_PATTERN

_NAMED_EITHER_WAY = (
    "/memory_history",
    "/memory_restore",
    "/abilities/update_memory",
    "/abilities/delete_memory",
)
"""The addresses of abilities that take a memory's key or its id."""


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Send no well-formed cursors, resume points, versions and ends of memories.

    Cursors would be of no ranking, of another order, or more than the questions. At its address a
    memory is deleted permanently: one that is archived can still be read, which no schema says.

    The generator asks no filter about values at the bounds of a schema.
    """
    _drop_places(case.query or {})
    query = case.query or {}
    is_archived = case.method == "DELETE" and str(query.get("permanent", "false")) == "false"
    if is_archived and case.path.endswith("/{key}"):
        case.query = {**query, "permanent": "true"}

    body = case.body
    if not isinstance(body, dict):
        return
    _drop_places(body)

    # Nor that one of two arguments is needed.
    is_nameless = body.get("key") is None and body.get("id") is None
    if case.path.endswith(_NAMED_EITHER_WAY) and is_nameless:
        body["key"] = "any"

    # Nor how many tokens the records of so many items need.
    if "items" in body and not _has_room_for_items(body):
        del body["max_tokens"]

    if "queries" not in body:
        return

    cursors = body.get("after")
    if isinstance(cursors, list) and all(_matches(CURSOR_PATTERN, cursor) for cursor in cursors):
        del body["after"]


def _drop_places(values: dict[str, Any]) -> None:
    """Take out well-formed resume points, cursors of `query_memories`, versions and times."""
    if _matches(RESUME_PATTERN, values.get("resume")):
        del values["resume"]
    if _matches(QUERY_CURSOR_PATTERN, values.get("after")):
        del values["after"]
    # No schema can say which versions there are, or that a time lies in the future.
    for name in ("if_version", "expires_at"):
        if name in values and is_well_formed(name, values[name]):
            del values[name]


def is_well_formed(name: str, value: Any) -> bool:
    """Return whether a value passes its schema."""
    if name == "if_version" and isinstance(value, str):
        return value.isdecimal()
    if name == "if_version":
        return isinstance(value, int | float) and 0 <= value <= MAX_SAFE_INTEGER
    return _matches(TIME_PATTERN, value)


def _matches(pattern: str, value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(pattern, value) is not None


@schemathesis.hook
def filter_body(context: Any, body: Any) -> bool:
    """Leave out what other tests try.

    That is metadata over 4 KiB or with integers over 64 bits, and recalls with cursors, with too
    few tokens for their questions, or with a question that is a list as JSON; and mixed batches
    that are too long.
    """
    if not isinstance(body, dict):
        return True
    if "queries" in body and not _has_room(body):
        return False
    if "items" in body and len(json.dumps(body["items"])) > 8_000:
        return False
    metadata = body.get("metadata")
    size = len(json.dumps(metadata, ensure_ascii=False).encode())
    return size <= 4096 and not _has_large_integer(metadata)


def _has_room(body: dict[str, Any]) -> bool:
    queries = body["queries"]
    if isinstance(queries, str):
        return not queries.lstrip().startswith("[") and not body.get("after")
    if not isinstance(queries, list):
        return True
    tokens = body.get("max_tokens", 16_000)
    is_enough = not isinstance(tokens, int) or tokens >= 400 + 300 * (len(queries) - 1)
    return is_enough and not body.get("after") and len(json.dumps(queries)) <= 8_000


def _has_room_for_items(body: dict[str, Any]) -> bool:
    items, tokens = body["items"], body.get("max_tokens")
    if not isinstance(items, list) or not isinstance(tokens, int | float):
        return True
    return 4 * tokens >= 1_000 + 300 * len(items) + 4 * len(json.dumps(items))


def _has_large_integer(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_large_integer, value.values()))
    if isinstance(value, list):
        return any(map(_has_large_integer, value))
    return isinstance(value, int) and not -(2**63) <= value < 2**64
