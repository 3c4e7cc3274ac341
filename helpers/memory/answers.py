"""A walk over stored memories as callers read it: its records, and what the limits left out.

The answer of `remember`: one short record per operation, in the order of the operations.
"""

from collections.abc import Sequence
from typing import Literal

from abilities.declarations.fields import Detail
from abilities.declarations.limits import MAX_CONTENT_CHARS, MAX_ITEMS
from abilities.declarations.memory import USUAL_LINK_TYPE, Direction
from abilities.declarations.refusals import Fault, Refused
from abilities.declarations.remember import RememberInput
from abilities.declarations.values import JsonObject, json_size
from abilities.helpers.memory.helper import Outcome, Write
from abilities.helpers.memory.records import draft_memory_record, to_memory_data
from abilities.helpers.reply.budget import Bound
from abilities.helpers.reply.detail import MEMORY, choose_shape, is_cut, is_failed, shape_walk
from abilities.helpers.reply.envelope import Entry, FailedRecord, Item, ReplyRecord, finish_records
from abilities.helpers.store.model import StoredMemory
from abilities.helpers.store.protocol import WalkResult, WriteResult
from abilities.helpers.text.pieces import WHOLE, slice_text
from abilities.helpers.walk import RANK_ONE, Candidate, Step, WalkLimits, WalkOutcome

_WALK_RESERVED_BYTES = 256
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

    room = bound.room - json_size(frame) - _WALK_RESERVED_BYTES
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


_RESERVED_BYTES = 512
"""Kept free for the other formats, which may be a little longer than JSON."""

_RULE_FIELDS = ("field", "expected", "did_you_mean")

Shortening = Literal["none", "rules", "keys"]
"""What records leave out so that an answer fits: nothing, the rules of faults, also the keys."""


def build_remember_answer(
    arguments: RememberInput,
    operations: Sequence[Write | Refused],
    outcomes: Sequence[Outcome],
    bound: Bound,
) -> JsonObject:
    """Return the answer; what was made is always told, if need be with shorter records."""
    faults = [
        Fault.from_exception(outcome, "remember") if isinstance(outcome, Exception) else None
        for outcome in outcomes
    ]

    steps: tuple[Shortening, ...] = ("none", "rules", "keys")
    answer: JsonObject = {}
    for shortening in steps:
        answer = _build(arguments, operations, outcomes, faults, shortening)
        if json_size(answer) + _RESERVED_BYTES <= bound.max_bytes:
            break

    return answer


def _build(
    arguments: RememberInput,
    operations: Sequence[Write | Refused],
    outcomes: Sequence[Outcome],
    faults: Sequence[Fault | None],
    shortening: Shortening,
) -> JsonObject:
    records: list[JsonObject] = []
    is_full = arguments.detail == "full"

    for index, (operation, outcome, fault) in enumerate(
        zip(operations, outcomes, faults, strict=True)
    ):
        if isinstance(outcome, WriteResult):
            data = _describe(operation, outcome, is_full=is_full, with_key=shortening != "keys")
            shown = {"success": True, "data": data} if is_full else data
        else:
            assert fault is not None
            error = _shorten(fault.to_payload(), shortening)
            shown = {"success": False, "error": error} if is_full else _flatten(error)
        records.append({"input": index, **shown})

    failed = sum(fault is not None for fault in faults)
    return {
        "results": records,
        "summary": {
            "requested": len(records),
            "succeeded": len(records) - failed,
            "failed": failed,
            "truncated": 0,
            "returned_chars": 0,
        },
    }


def _describe(
    operation: Write | Refused, result: WriteResult, *, is_full: bool, with_key: bool
) -> JsonObject:
    """Return what an operation did, without what is usual or known."""
    data: JsonObject = {"id": result.id}

    if result.stored is not None:
        if with_key:
            data["key"] = result.stored.row.key
    elif isinstance(operation, Write) and "key" in operation.arguments:
        # Of a memory that was deleted, its name is all that is left.
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
    if is_full:
        data["updated_fields"] = list(result.updated)
    if is_full and result.mended is not None:
        data["mended"] = list(result.mended)

    return data


def _shorten(error: JsonObject, shortening: Shortening) -> JsonObject:
    if shortening == "none":
        return error

    # A fault lists up to ten wrong fields; the first one is told in any case.
    return {
        name: error[name] for name in error if name not in ("fields", "expected", "did_you_mean")
    }


def _flatten(error: JsonObject) -> JsonObject:
    """Return the failure of a concise record: why, and the rule if one is broken."""
    flat: JsonObject = {"reason": error["reason"]}

    if error["reason"] == "version_conflict" and "expected" in error:
        return {"version": error["expected"]["version"], **flat}

    if "field" in error:
        flat["field"] = error["field"]
    # Most reasons say all there is; a malformed operation is corrected by its rule.
    if any(name in error for name in _RULE_FIELDS):
        flat["message"] = error["message"]

    return flat
