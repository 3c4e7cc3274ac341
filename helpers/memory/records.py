"""Stored memories as the records that callers read: single, in a page, and in a walk."""

from collections.abc import Sequence
from typing import NamedTuple

import orjson

from abilities.declarations.faults import Fault
from abilities.declarations.values import JsonObject
from abilities.helpers.reply.envelope import (
    Entry,
    FailedRecord,
    FoundItem,
    Item,
    RecordDraft,
    finish_records,
)
from abilities.helpers.reply.render import json_size
from abilities.helpers.stores.model import StoredMemory
from abilities.helpers.stores.protocol import WalkResult
from abilities.helpers.text.pieces import Piece
from abilities.helpers.walk import Candidate, Step, WalkLimits, WalkOutcome

_RESERVED_BYTES = 256
"""Kept free for a page's other fields, and for a walk's count of failures, which is known last."""


def to_memory_data(
    stored: StoredMemory, *, counters: bool = False, links: bool = False, key: bool = True
) -> JsonObject:
    """Return a memory's fields, without those that have no value.

    ``counters`` shows when and how often it was read, ``links`` the links that were read with it,
    ``key`` its key.
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
    return data


def draft_memory_record(
    stored: StoredMemory, data: JsonObject, trailing: JsonObject | None = None
) -> RecordDraft:
    """Return the draft of a record that is named by its key and continues as a stored target."""
    key = stored.row.key
    content = stored.row.content
    target: JsonObject = {"type": "stored", "key": key}

    def continue_at(point: str) -> Item:
        return {**target, "resume": point}

    piece = Piece(content, total_chars=len(content))
    found = FoundItem({**data, "content": ""}, piece, target, continue_at)
    return RecordDraft(found, {"key": key}, trailing)


def build_memory_answer(stored: StoredMemory, max_bytes: int) -> JsonObject:
    """Return `memory_get`'s answer: one record with its links."""
    draft = draft_memory_record(stored, to_memory_data(stored, links=True, key=False))
    (record,) = finish_records([draft], max_bytes)
    return record.payload


def build_write_answer(stored: StoredMemory, frame: JsonObject, max_bytes: int) -> JsonObject:
    """Return a write's answer: ``frame`` with its ``memory``, which is cut if it does not fit."""
    draft = draft_memory_record(stored, to_memory_data(stored, counters=True, links=True))
    (record,) = finish_records([draft], max_bytes - json_size(frame))

    answer = {**frame, "memory": record.payload["data"]}
    if "truncation" in record.payload:
        answer["truncation"] = record.payload["truncation"]

    return answer


def build_walk_answer(result: WalkResult, limits: WalkLimits, max_bytes: int) -> JsonObject:
    """Return `bulk_read_memory`'s answer: a memory, what it leads to, what the limits left out."""
    metadata = _describe_walk(result.outcome, limits)
    frame: JsonObject = {"targetMemory": {}, "associatedMemories": [], "metadata": metadata}

    entries: list[Entry] = []
    for step, memory in zip(result.outcome.steps, result.memories, strict=True):
        entries.append(_build_entry(step, memory))

    room = max_bytes - json_size(frame) - _RESERVED_BYTES
    payloads: list[JsonObject] = []

    # Records that there was no room for have failed too, so that failures are counted last.
    for record in finish_records(entries, room):
        payloads.append(record.payload)
        metadata["failed"] += not record.payload["success"]

    return {**frame, "targetMemory": payloads[0], "associatedMemories": payloads[1:]}


def _build_entry(step: Step, memory: StoredMemory | Exception) -> Entry:
    trailing = _describe_step(step)
    if isinstance(memory, Exception):
        return FailedRecord(Fault.from_exception(memory), {"key": step.key}, trailing)

    # Many memories share one reply: of the metadata only what ranked them is worth its bytes.
    data = to_memory_data(memory, key=False)
    data["metadata"] = {"memory_score": memory.row.score}
    return draft_memory_record(memory, data, trailing)


def _describe_step(step: Step) -> JsonObject:
    """Return how a walk reached a memory; nothing for the one that it began with."""
    if step.parent is None or step.link is None:
        return {}

    # The usual type is left out, as everywhere.
    link: JsonObject = {}
    if step.link.type != "association":
        link["type"] = step.link.type
    link["link_weight"] = step.link.weight

    return {
        "depth": step.depth,
        "parent": step.parent.key,
        "link": link,
        "combinedScore": step.link.score,
    }


def _describe_walk(outcome: WalkOutcome, limits: WalkLimits) -> JsonObject:
    return {
        "depthReached": max(step.depth for step in outcome.steps),
        "totalRetrieved": len(outcome.steps),
        "failed": 0,
        "duplicatesSkipped": outcome.duplicates,
        "missingLinks": outcome.missing,
        "invalidLinks": outcome.invalid,
        "limits": limits._asdict(),
        "limitsReached": list(outcome.cut_by),
        "frontier": [_describe_candidate(candidate) for candidate in outcome.frontier],
    }


def _describe_candidate(candidate: Candidate) -> JsonObject:
    return {
        "key": candidate.key,
        "from": candidate.source,
        "combinedScore": candidate.score,
        "cutBy": candidate.cut_by,
    }


class FittedPage(NamedTuple):
    """As much of a page as fits.

    ``memories`` are those that could be read, and ``failed`` counts the others. ``consumed`` is how
    much of the page that is, from the front.
    """

    memories: list[JsonObject]
    failed: int
    consumed: int


def fit_page(page: Sequence[StoredMemory | Exception], max_bytes: int) -> FittedPage:
    """Return as many memories of a page, from the front, as fit; at least one."""
    shown: list[JsonObject] = []
    used = _RESERVED_BYTES
    failed = 0

    for position, memory in enumerate(page):
        if isinstance(memory, Exception):
            Fault.from_exception(memory)  # logs it, unless it is a refusal
            failed += 1
            continue

        # The first one is shown at any size, or a caller would never get past it.
        data = to_memory_data(memory, counters=True)
        used += json_size(data) + 1
        if shown and used > max_bytes:
            return FittedPage(shown, failed, position)

        shown.append(data)

    return FittedPage(shown, failed, len(page))
