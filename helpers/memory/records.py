"""Stored memories as the records that callers read: single, and in a walk."""

from collections.abc import Sequence

import orjson

from abilities.declarations.detail import Detail
from abilities.declarations.faults import Fault
from abilities.declarations.limits import MAX_ITEMS
from abilities.declarations.memory import Direction
from abilities.declarations.values import JsonObject
from abilities.helpers.reply.bound import Bound
from abilities.helpers.reply.budget import MIN_SHARE
from abilities.helpers.reply.detail import (
    MEMORY,
    choose_shape,
    is_cut,
    is_failed,
    shape_walk,
    shape_written,
)
from abilities.helpers.reply.envelope import (
    Entry,
    FailedRecord,
    FoundItem,
    RecordDraft,
    ReplyRecord,
    finish_records,
)
from abilities.helpers.reply.items import Item
from abilities.helpers.reply.render import json_size
from abilities.helpers.stores.model import StoredMemory
from abilities.helpers.stores.protocol import Backlinks, WalkResult, WriteResult
from abilities.helpers.text.pieces import Piece
from abilities.helpers.walk import (
    RANK_ONE,
    Candidate,
    Step,
    WalkLimits,
    WalkOutcome,
)

_RESERVED_BYTES = 256
"""Kept free for a walk's next requests and its count of failures, which are known last."""


def to_memory_data(
    stored: StoredMemory,
    *,
    counters: bool = False,
    links: bool = False,
    key: bool = True,
    version: bool = False,
) -> JsonObject:
    """Return a memory's fields, without those that have no value.

    ``counters`` shows when and how often it was read, ``links`` the links that were read with it,
    ``key`` its key. The version is shown with the counters, with the links, and with ``version``.
    """
    row = stored.row
    data: JsonObject = {"id": row.id}

    if key:
        data["key"] = row.key

    data["type"] = row.type
    data["content"] = row.content

    if row.summary:
        data["summary"] = row.summary
    if row.category:
        data["category"] = row.category
    if tags := orjson.loads(row.tags):
        data["tags"] = tags

    data["importance"] = row.importance

    if row.archived:
        data["archived"] = True

    data["created_at"] = row.created_at
    data["updated_at"] = row.updated_at

    # Reads leave the counters out, so that the same request gives the same bytes.
    if counters:
        data["accessed_at"] = stored.accessed_at
        data["access_count"] = stored.access_count
    if links and stored.links:
        data["links"] = [link.to_data() for link in stored.links]
    if stored.links_total:
        data["links_total"] = stored.links_total

    data["metadata"] = {"memory_score": row.score, **orjson.loads(row.metadata)}

    # Who reads many at once does not change them: there a version is not worth its bytes.
    if counters or links or version:
        data["version"] = row.version

    return data


def draft_memory_record(
    stored: StoredMemory,
    data: JsonObject,
    bound: Bound,
    trailing: JsonObject | None = None,
    detail: Detail = "full",
) -> RecordDraft:
    """Return the draft of a record that is named by its key and continues as a stored target."""
    key = stored.row.key
    content = stored.row.content
    target: JsonObject = {"type": "stored", "key": key}

    def continue_at(point: str) -> Item:
        return {**target, "resume": point}

    piece = Piece(content, total_chars=len(content))
    size_bytes = len(content.encode())
    found = FoundItem({**data, "content": ""}, piece, target, continue_at, size_bytes)
    return RecordDraft(found, bound, {"key": key}, trailing, choose_shape(MEMORY, detail))


def build_memory_answer(
    stored: StoredMemory, backlinks: Backlinks | None, bound: Bound, detail: Detail
) -> JsonObject:
    """Return `memory_get`'s answer: one record, in full detail with the links that were read."""
    is_full = detail == "full"
    data = to_memory_data(stored, links=is_full, key=False, version=True)

    if is_full:
        data["backlinks_total"] = stored.backlinks_total
    if is_full and backlinks is not None and backlinks.links:
        data["backlinks"] = [link.to_data(incoming=True) for link in backlinks.links]

    room = bound.room
    draft = _draft_with_links(stored, data, bound, room, detail)
    (record,) = finish_records([draft], room)
    return record.payload


def describe_mending(result: WriteResult) -> JsonObject:
    """Return what a change's answer says of a memory that was damaged; nothing of a sound one."""
    if result.mended is None:
        return {}

    return {"mended": list(result.mended)}


def build_write_answer(
    result: WriteResult, frame: JsonObject, bound: Bound, detail: Detail
) -> JsonObject:
    """Return a write's answer: ``frame`` with its ``memory``, which is cut if it does not fit.

    A concise answer names the memory and its version, and sends nothing back.
    """
    stored = result.stored
    assert stored is not None  # only a deletion leaves nothing

    frame = {**frame, **describe_mending(result)}
    if detail == "concise":
        return shape_written(to_memory_data(stored, version=True), frame)

    room = bound.max_bytes - json_size(frame)
    data = to_memory_data(stored, counters=True, links=True)
    draft = _draft_with_links(stored, data, bound, room, detail)
    (record,) = finish_records([draft], room)

    answer = {**frame, "memory": record.payload["data"]}
    if "truncation" in record.payload:
        answer["truncation"] = record.payload["truncation"]

    return answer


def _draft_with_links(
    stored: StoredMemory, data: JsonObject, bound: Bound, room: int, detail: Detail
) -> RecordDraft:
    """Return a draft with as many of a memory's links as leave room for some of its content.

    Links and backlinks end at the same place, so that one offset continues both.
    """
    shown = data
    count = max(len(data.get("links", ())), len(data.get("backlinks", ())))

    while True:
        draft = draft_memory_record(stored, shown, bound, detail=detail)
        if draft.frame_size + draft.content_size <= room or not count:
            return draft
        if draft.measure_cost().cut + MIN_SHARE <= room:
            return draft

        count -= 1
        shown = _shorten_links(data, count)


def _shorten_links(data: JsonObject, count: int) -> JsonObject:
    """Return a memory's fields with up to ``count`` links in each direction."""
    shown = dict(data)
    for name in ("links", "backlinks"):
        links = data.get(name, [])[:count]
        if links:
            shown[name] = links
        else:
            shown.pop(name, None)

    return shown


def build_walk_answer(
    result: WalkResult,
    limits: WalkLimits,
    direction: Direction,
    bound: Bound,
    detail: Detail,
    repeated: JsonObject,
) -> JsonObject:
    """Return `bulk_read_memory`'s answer: a memory, what it leads to, what the limits left out.

    If contents were cut or left out, ``next_requests`` are the arguments of `memory_read_bulk` that
    fetch them, each with the ``repeated`` ones.
    """
    metadata = _describe_walk(result.outcome, limits)
    frame: JsonObject = {"targetMemory": {}, "associatedMemories": [], "metadata": metadata}
    if detail == "concise":
        frame = shape_walk(frame)

    entries: list[Entry] = []
    for step, memory in zip(result.outcome.steps, result.memories, strict=True):
        entries.append(_build_entry(step, memory, direction, bound, detail))

    room = bound.room - json_size(frame) - _RESERVED_BYTES
    payloads: list[JsonObject] = []
    next_items: list[Item] = []

    # Records that there was no room for have failed too, so that failures are counted last.
    for record in _finish_best_first(entries, result.outcome.steps, room):
        payloads.append(record.payload)
        metadata["failed"] += is_failed(record.payload)
        metadata["truncated"] += is_cut(record.payload)
        if record.next_item is not None:
            next_items.append(record.next_item)

    answer = {**frame, "targetMemory": payloads[0], "associatedMemories": payloads[1:]}
    if next_items:
        answer["next_requests"] = _build_next_requests(next_items, repeated)

    return answer


def _finish_best_first(
    entries: Sequence[Entry], steps: Sequence[Step], room: int
) -> list[ReplyRecord]:
    """Return the records of all entries, in the same order; the best are given room first."""
    best_first = sorted(range(len(steps)), key=lambda place: _find_rank(steps[place]), reverse=True)
    finished = finish_records([entries[place] for place in best_first], room)
    by_place = dict(zip(best_first, finished, strict=True))

    return [by_place[place] for place in range(len(steps))]


def _find_rank(step: Step) -> int:
    """Return the rank of the link that led to a memory; what a walk began with is above all."""
    if step.link is None:
        return RANK_ONE + 1

    return step.link.rank


def _build_next_requests(targets: Sequence[Item], repeated: JsonObject) -> list[JsonObject]:
    requests: list[JsonObject] = []
    for start in range(0, len(targets), MAX_ITEMS):
        requests.append({"targets": targets[start : start + MAX_ITEMS], **repeated})

    return requests


def _build_entry(
    step: Step,
    memory: StoredMemory | Exception,
    direction: Direction,
    bound: Bound,
    detail: Detail,
) -> Entry:
    trailing = _describe_step(step, direction)
    if isinstance(memory, Exception):
        fault = Fault.from_exception(memory)
        return FailedRecord(fault, {"key": step.key}, trailing, choose_shape(MEMORY, detail))

    # Many memories share one reply: of the metadata only what ranked them is worth its bytes.
    data = to_memory_data(memory, key=False, version=detail == "concise")
    data["metadata"] = {"memory_score": memory.row.score}
    return draft_memory_record(memory, data, bound, trailing, detail)


def _describe_step(step: Step, direction: Direction) -> JsonObject:
    """Return how a walk reached a memory; nothing for the one that it began with."""
    if step.parent is None or step.link is None:
        return {}

    # What is usual is left out, as everywhere.
    link: JsonObject = {}
    if step.link.type != "association":
        link["type"] = step.link.type
    link["link_weight"] = step.link.weight
    if direction == "both" and step.link.incoming:
        link["direction"] = "in"

    return {
        "depth": step.depth,
        "parent": step.parent.key,
        "link": link,
        "combinedScore": step.link.rank / RANK_ONE,
    }


def _describe_walk(outcome: WalkOutcome, limits: WalkLimits) -> JsonObject:
    description: JsonObject = {
        "depthReached": max(step.depth for step in outcome.steps),
        "totalRetrieved": len(outcome.steps),
        "failed": 0,
        "truncated": 0,
        "duplicatesSkipped": outcome.duplicates,
        "missingLinks": outcome.missing,
        "invalidLinks": outcome.invalid,
        "limits": limits._asdict(),
        "limitsReached": list(outcome.cut_by),
        "frontier": [_describe_candidate(candidate) for candidate in outcome.frontier],
    }
    if outcome.has_more_frontier:
        description["frontier_more"] = True

    return description


def _describe_candidate(candidate: Candidate) -> JsonObject:
    return {
        "key": candidate.key,
        "from": candidate.source,
        "combinedScore": candidate.rank / RANK_ONE,
        "cutBy": candidate.cut_by,
    }
