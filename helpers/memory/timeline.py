"""Answers that are pages of short entries: histories, changes and lists of memories."""

from collections.abc import Sequence

from abilities.declarations.values import JsonObject
from abilities.helpers.memory.records import to_memory_data
from abilities.helpers.memory.versions import VersionPair
from abilities.helpers.reply.bound import Bound
from abilities.helpers.reply.encoding import json_size
from abilities.helpers.store.history import (
    ChangePage,
    Entry,
    MemoryChange,
    MemoryHistory,
    list_changed,
)
from abilities.helpers.store.model import DamagedMemory
from abilities.helpers.store.query import MemoryLine

_RESERVED_BYTES = 64
"""Kept free for the digits of numbers that are known last."""


def build_history_answer(page: MemoryHistory, given: JsonObject, bound: Bound) -> JsonObject:
    """Return `memory_history`'s answer, for the arguments that were given."""
    newest = page.entries[0] if page.entries else None
    answer: JsonObject = {}

    if page.row is not None:
        answer.update(id=page.row.id, key=page.row.key, version=page.row.version)
    else:
        if newest is not None:
            answer.update(id=newest.id, key=newest.key)
        answer["deleted"] = True
    if page.earliest:
        answer["earliest"] = page.earliest

    entries = [_describe_entry(entry) for entry in page.entries]
    before = page.entries[-1].version if page.entries else 0
    widest: JsonObject = {**given, "before": before}
    count = _count_fitting(entries, answer, widest, bound)

    answer["entries"] = entries[:count]
    if count < len(entries) or page.has_more:
        answer["next_request"] = {**given, "before": page.entries[count - 1].version}

    return answer


def _describe_entry(entry: Entry) -> JsonObject:
    data: JsonObject = {
        "version": entry.version,
        "at": entry.made_at,
        "by": entry.caller,
        "action": entry.action,
    }
    changed = list_changed(entry)
    if changed and entry.action != "deleted":
        data["changed"] = changed

    data["size"] = len(entry.before.encode())
    return data


def build_changes_answer(page: ChangePage, given: JsonObject, bound: Bound) -> JsonObject:
    """Return `memory_changes`'s answer, for the arguments that were given."""
    changes = [describe_change(change) for change in page.changes]
    answer: JsonObject = {"changes": [], "next": page.next}
    if not page.is_complete:
        answer["complete"] = False

    count = _count_fitting(changes, answer, {**given, "since": page.next}, bound)
    answer["changes"] = changes[:count]
    if count < len(changes):
        answer["next"] = page.changes[count - 1].version
    if count < len(changes) or page.has_more:
        answer["next_request"] = {**given, "since": answer["next"]}

    return answer


def describe_change(change: MemoryChange) -> JsonObject:
    """Return a change as answers show it."""
    data: JsonObject = {"version": change.version, "id": change.id}
    if change.key:
        data["key"] = change.key

    data.update(action=change.action, at=change.made_at, by=change.caller)
    return data


def describe_pair(pair: VersionPair) -> JsonObject:
    """Return a memory in a version and before it, each with all its links, if there was one."""
    data: JsonObject = {}
    if pair.memory is not None:
        data["memory"] = to_memory_data(pair.memory, links=True)
    if pair.before is not None:
        data["before"] = to_memory_data(pair.before, links=True)

    return data


def build_list_answer(
    lines: Sequence[MemoryLine | DamagedMemory], limit: int, given: JsonObject, bound: Bound
) -> JsonObject:
    """Return `memory_list`'s answer: up to ``limit`` memories, and how to go on after them."""
    memories = [describe_line(line) for line in lines[:limit]]
    widest: JsonObject = {
        **given,
        "after": max((line.key for line in lines), key=json_size, default=""),
    }
    count = _count_fitting(memories, {"memories": []}, widest, bound)

    answer: JsonObject = {"memories": memories[:count]}
    if count < len(lines):
        answer["next_request"] = {**given, "after": lines[count - 1].key}

    return answer


def describe_line(line: MemoryLine | DamagedMemory) -> JsonObject:
    """Return a memory of a list as answers show it."""
    if isinstance(line, DamagedMemory):
        return {"key": line.key, "reason": line.reason}

    data: JsonObject = {
        "key": line.key,
        "type": line.type,
        "size": line.size,
        "version": line.version,
    }
    if line.summary:
        data["summary"] = line.summary
    if line.archived:
        data["archived"] = True

    return data


def _count_fitting(
    entries: Sequence[JsonObject], frame: JsonObject, request: JsonObject, bound: Bound
) -> int:
    """Return how many entries fit, from the front; at least one, so that requests get ahead."""
    room = bound.room - json_size({**frame, "next_request": request}) - _RESERVED_BYTES

    for count, entry in enumerate(entries):
        room -= json_size(entry) + 1
        if room < 0:
            return max(count, 1)

    return len(entries)
