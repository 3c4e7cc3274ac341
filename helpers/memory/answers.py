"""The answers about many memories: writes, histories, changes and lists.

`remember` answers with one short record per operation, in their order. Histories,
changes and lists come in pages, of which the first entries are shown that fit.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from abilities.declarations.memory import Direction
from abilities.declarations.refusals import Fault, Refused
from abilities.declarations.values import JsonObject, drop_empty, json_size
from abilities.helpers.memory.helper import SHOWN_LINKS, Outcome, Write
from abilities.helpers.reply.budget import Bound, count_fitting
from abilities.helpers.store.history import ChangePage, MemoryChange, MemoryHistory, list_changed
from abilities.helpers.store.model import DamagedMemory, MemoryLine, StoredMemory
from abilities.helpers.store.protocol import WriteResult

if TYPE_CHECKING:
    from abilities.declarations.remember import RememberInput

_NUMBERS_RESERVE = 64
"""Bytes kept free for the digits of numbers that are known last."""

_FORMAT_RESERVE = 512
"""Bytes kept free for the other formats, which may be a little longer than JSON."""

Shortening = Literal["none", "rules", "keys"]
"""The fields that records omit so that an answer fits: none, rules of faults and what is similar,
or also keys."""


def build_remember_answer(
    arguments: "RememberInput",
    operations: Sequence[Write | Refused],
    outcomes: Sequence[Outcome],
    similar: Mapping[str, list[JsonObject]],
    bound: Bound,
) -> JsonObject:
    """Return the answer; every outcome has its record, a shorter one if need be.

    ``similar`` has what says nearly the same as the stored memories, by their keys.
    """
    # Once, because this logs unexpected exceptions.
    described: list[WriteResult | JsonObject] = []
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            described.append(Fault.from_exception(outcome, "remember").to_payload())
        else:
            described.append(outcome)

    failed = sum(isinstance(outcome, Exception) for outcome in outcomes)
    summary: JsonObject = {
        "requested": len(outcomes),
        "succeeded": len(outcomes) - failed,
        "failed": failed,
        "truncated": 0,
        "returned_chars": 0,
    }

    is_full = arguments.detail == "full"
    shortenings: tuple[Shortening, ...] = ("none", "rules", "keys")
    answer: JsonObject = {}
    for shortening in shortenings:
        records: list[JsonObject] = []
        for operation, result in zip(operations, described, strict=True):
            shown: JsonObject
            if isinstance(result, WriteResult):
                alike: Mapping[str, list[JsonObject]] = similar if shortening == "none" else {}
                shown = _describe_write(operation, result, is_full, alike, shortening != "keys")
            else:
                shown = _describe_failure(result, is_full, shortening)
            records.append({"input": len(records), **shown})

        answer = {"results": records, "summary": summary}
        if json_size(answer) + _FORMAT_RESERVE <= bound.max_bytes:
            break

    return answer


def _describe_write(
    operation: Write | Refused,
    result: WriteResult,
    is_full: bool,
    similar: Mapping[str, list[JsonObject]],
    with_key: bool,
) -> JsonObject:
    """Return the effects of an operation, without usual values and known ones."""
    data: JsonObject = {"id": result.id}

    if result.stored is not None:
        if with_key:
            data["key"] = result.stored.row.key
    elif isinstance(operation, Write) and "key" in operation.arguments:
        # Of a deleted memory, only its name is left.
        data["key"] = operation.arguments["key"]

    data["version"] = result.version
    if result.stored is None:
        data["deleted"] = True
    elif result.stored.row.archived:
        data["archived"] = True
    if is_full or result.created:
        data["created"] = result.created
    if result.replaced:
        data["replaced"] = result.replaced
    is_store = isinstance(operation, Write) and operation.kind == "store"
    if is_store and data.get("key") in similar:
        data["similar"] = similar[data["key"]]
    if is_full:
        data["updated_fields"] = list(result.updated)
    if is_full and result.mended is not None:
        data["mended"] = list(result.mended)

    return {"success": True, "data": data} if is_full else data


def _describe_failure(error: JsonObject, is_full: bool, shortening: Shortening) -> JsonObject:
    if shortening != "none":
        # A fault lists up to ten wrong fields; the first one is named in any case.
        rules = ("fields", "expected", "did_you_mean")
        error = {name: value for name, value in error.items() if name not in rules}
    if is_full:
        return {"success": False, "error": error}

    reason: str = error["reason"]
    if reason == "version_conflict" and "expected" in error:
        return {"version": error["expected"]["version"], "reason": reason}

    flat: JsonObject = {"reason": reason}
    if "field" in error:
        flat["field"] = error["field"]
    if "did_you_mean" in error:
        flat["did_you_mean"] = error["did_you_mean"]
    # Most reasons say enough. Only the message says how to correct a malformed operation.
    if any(name in error for name in ("field", "expected", "did_you_mean")):
        flat["message"] = error["message"]

    return flat


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
    latest = page.row or next(iter(page.entries), None)
    answer: JsonObject = {}
    if latest is not None:
        answer.update(id=latest.id, key=latest.key)
    if page.row is not None:
        answer["version"] = page.row.version
    else:
        answer["deleted"] = True
    answer |= drop_empty({"from": page.origin, "earliest": page.earliest})

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
    names = drop_empty({"key": change.key, "from": origin})
    return {
        "version": change.version,
        "id": change.id,
        **names,
        "action": change.action,
        "at": change.made_at,
        "by": change.caller,
    }


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
    names: JsonObject = {"key": line.key, **drop_empty({"from": line.origin})}
    if isinstance(line, DamagedMemory):
        return {**names, "reason": line.reason}

    further = drop_empty({"summary": line.summary, "archived": line.archived})
    return {**names, "type": line.type, "size": line.size, "version": line.version, **further}


def _count_fitting(
    entries: Sequence[JsonObject], envelope: JsonObject, request: JsonObject, bound: Bound
) -> int:
    room = bound.room - json_size({**envelope, "next_request": request}) - _NUMBERS_RESERVE
    return count_fitting(entries, room)
