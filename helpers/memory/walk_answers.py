"""A walk over stored memories as callers read it: its records, and what the limits left out."""

from collections.abc import Sequence

from abilities.declarations.faults import Fault
from abilities.declarations.fields import Detail
from abilities.declarations.limits import MAX_CONTENT_CHARS, MAX_ITEMS
from abilities.declarations.memory import USUAL_LINK_TYPE, Direction
from abilities.declarations.values import JsonObject, json_size
from abilities.helpers.memory.records import draft_memory_record, to_memory_data
from abilities.helpers.reply.budget import Bound
from abilities.helpers.reply.detail import MEMORY, choose_shape, is_cut, is_failed, shape_walk
from abilities.helpers.reply.envelope import Entry, FailedRecord, Item, ReplyRecord, finish_records
from abilities.helpers.store.model import StoredMemory
from abilities.helpers.store.protocol import WalkResult
from abilities.helpers.text.pieces import slice_text
from abilities.helpers.text.ranges import WHOLE
from abilities.helpers.walk import RANK_ONE, Candidate, Step, WalkLimits, WalkOutcome

_RESERVED_BYTES = 256
"""Kept free for a walk's next requests and its count of failures, which are known last."""


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
    best_first = sorted(range(len(steps)), key=lambda place: find_rank(steps[place]), reverse=True)
    finished = finish_records([entries[place] for place in best_first], room)
    by_place = dict(zip(best_first, finished, strict=True))

    return [by_place[place] for place in range(len(steps))]


def find_rank(step: Step) -> int:
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
    trailing = describe_step(step, direction)
    if isinstance(memory, Exception):
        fault = Fault.from_exception(memory)
        return FailedRecord(fault, {"key": step.key}, trailing, choose_shape(MEMORY, detail))

    # Many memories share one reply: of the metadata only what ranked them is worth its bytes.
    data = to_memory_data(memory, key=False, version=detail == "concise")
    data["metadata"] = {"memory_score": memory.row.score}
    piece = slice_text(memory.row.content, WHOLE, MAX_CONTENT_CHARS)
    return draft_memory_record(memory, data, piece, bound, trailing, detail)


def describe_step(step: Step, direction: Direction) -> JsonObject:
    """Return how a walk reached a memory; nothing for the one that it began with."""
    if step.parent is None or step.link is None:
        return {}

    # What is usual is left out, as everywhere.
    link: JsonObject = {}
    if step.link.type != USUAL_LINK_TYPE:
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
