"""Answers about the past of memories, and lists of memories."""

from collections.abc import Sequence

from abilities.declarations.memory import Direction
from abilities.declarations.values import JsonObject, json_size
from abilities.helpers.reply.budget import Bound
from abilities.helpers.store.history import (
    ChangePage,
    MemoryChange,
    MemoryHistory,
    list_changed,
)
from abilities.helpers.store.model import DamagedMemory, StoredMemory
from abilities.helpers.store.query import MemoryLine

_NUMBERS_RESERVE = 64
"""Bytes kept free for the digits of numbers that are known last."""

SHOWN_LINKS = 20
"""Links on a page of a memory's links or of its backlinks."""


def show_links(stored: StoredMemory, offset: int, direction: Direction) -> StoredMemory:
    """Return a memory of the past with a page of its links, the heaviest first.

    Its former backlinks are not known.
    """
    links = sorted(stored.links, key=lambda link: (-link.weight, link.target, link.type))
    shown = links[offset : offset + SHOWN_LINKS]
    if direction == "in":
        shown = []

    return stored._replace(links=tuple(shown), links_total=len(links))


def build_history_answer(page: MemoryHistory, given: JsonObject, bound: Bound) -> JsonObject:
    """Return `memory_history`'s answer; its next request repeats the ``given`` arguments."""
    newest = page.entries[0] if page.entries else None
    answer: JsonObject = {}

    if page.row is not None:
        answer.update(id=page.row.id, key=page.row.key, version=page.row.version)
    else:
        if newest is not None:
            answer.update(id=newest.id, key=newest.key)
        answer["deleted"] = True
    if page.origin:
        answer["from"] = page.origin
    if page.earliest:
        answer["earliest"] = page.earliest

    entries: list[JsonObject] = []
    for entry in page.entries:
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
        entries.append(data)

    before = page.entries[-1].version if page.entries else 0
    widest: JsonObject = {**given, "before": before}
    count = _count_fitting(entries, answer, widest, bound)

    answer["entries"] = entries[:count]
    if count < len(entries) or page.has_more:
        answer["next_request"] = {**given, "before": page.entries[count - 1].version}

    return answer


def build_changes_answer(
    pages: Sequence[ChangePage], given: JsonObject, bound: Bound
) -> JsonObject:
    """Return `memory_changes`'s answer; its next request repeats the ``given`` arguments.

    The first page is that of the own namespace.
    """
    changes = [describe_change(change, page.origin) for page in pages for change in page.changes]
    answer: JsonObject = {"changes": [], **_name_next(pages)}
    if not all(page.is_complete for page in pages):
        answer["complete"] = False

    count = _count_fitting(changes, answer, _name_request(given, answer), bound)
    answer["changes"] = changes[:count]

    left = count
    shown: list[ChangePage] = []
    for page in pages:
        if left < len(page.changes):
            page = _cut_changes(page, left, given)
        shown.append(page)
        left -= len(page.changes)

    answer |= _name_next(shown)
    if any(page.has_more for page in shown):
        answer["next_request"] = _name_request(given, answer)

    return answer


def _name_request(given: JsonObject, answer: JsonObject) -> JsonObject:
    """Return the request for what follows an answer."""
    request = {**given, "since": answer["next"]}
    if "next_others" in answer:
        request["since_others"] = answer["next_others"]

    return request


def _cut_changes(page: ChangePage, count: int, given: JsonObject) -> ChangePage:
    """Return the first changes of a page."""
    following = given.get("since_others", {}).get(page.origin, 0)
    if count:
        following = page.changes[count - 1].version

    return page._replace(changes=page.changes[:count], next=following, has_more=True)


def _name_next(pages: Sequence[ChangePage]) -> JsonObject:
    """Return the versions after which the next changes follow."""
    own, *others = pages
    named: JsonObject = {"next": own.next}
    if others:
        named["next_others"] = {page.origin: page.next for page in others}

    return named


def describe_change(change: MemoryChange, origin: str = "") -> JsonObject:
    """Return the fields of a change."""
    data: JsonObject = {"version": change.version, "id": change.id}
    if change.key:
        data["key"] = change.key
    if origin:
        data["from"] = origin

    data.update(action=change.action, at=change.made_at, by=change.caller)
    return data


def build_list_answer(
    lines: Sequence[MemoryLine | DamagedMemory], limit: int, given: JsonObject, bound: Bound
) -> JsonObject:
    """Return `memory_list`'s answer: up to ``limit`` memories, and the request for more."""
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
    """Return the fields of a memory in a list."""
    data: JsonObject = {"key": line.key}
    if line.origin:
        data["from"] = line.origin
    if isinstance(line, DamagedMemory):
        return {**data, "reason": line.reason}

    data.update(type=line.type, size=line.size, version=line.version)
    if line.summary:
        data["summary"] = line.summary
    if line.archived:
        data["archived"] = True

    return data


def _count_fitting(
    entries: Sequence[JsonObject], envelope: JsonObject, request: JsonObject, bound: Bound
) -> int:
    """Return how many entries fit, from the front; at least one, so that requests make progress."""
    room = bound.room - json_size({**envelope, "next_request": request}) - _NUMBERS_RESERVE

    for count, entry in enumerate(entries):
        room -= json_size(entry) + 1
        if room < 0:
            return max(count, 1)

    return len(entries)
