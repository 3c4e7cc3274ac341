"""The answers of `bulk_read_memory` and `remember`.

A walk answers with the records of the memories that it reached, and with the memories that its
limits left out. `remember` answers with one short record per operation, in their order.
"""

from collections.abc import Mapping, Sequence
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
from abilities.helpers.reply.envelope import Entry, Item, ReplyRecord, build_failed, finish_records
from abilities.helpers.store.model import StoredMemory
from abilities.helpers.store.protocol import WalkResult, WriteResult
from abilities.helpers.text.pieces import WHOLE, slice_text
from abilities.helpers.walk import RANK_ONE, Step, WalkLimits, WalkOutcome

_WALK_RESERVE = 256
"""Bytes kept free for the next requests of a walk and its number of failures."""

_FORMAT_RESERVE = 512
"""Bytes kept free for the other formats, which may be a little longer than JSON."""

Shortening = Literal["none", "rules", "keys"]
"""The fields that records omit so that an answer fits: none, rules of faults and what is similar,
or also keys."""


def build_walk_answer(
    result: WalkResult,
    limits: WalkLimits,
    direction: Direction,
    bound: Bound,
    detail: Detail,
    repeated: JsonObject,
) -> JsonObject:
    """Return `bulk_read_memory`'s answer: a memory and others, to which its links lead.

    If contents were cut or left out, ``next_requests`` are the arguments of `memory_read_bulk` that
    fetch them, each with the ``repeated`` ones.
    """
    metadata = _describe_walk(result.outcome, limits)
    envelope: JsonObject = {"targetMemory": {}, "associatedMemories": [], "metadata": metadata}
    if detail == "concise":
        envelope = shape_walk(envelope)

    steps = result.outcome.steps
    entries: list[Entry] = []
    for step, memory in zip(steps, result.memories, strict=True):
        entries.append(_build_entry(step, memory, direction, bound, detail))

    # The best get room first, but the records keep the order of the walk.
    room = bound.room - json_size(envelope) - _WALK_RESERVE
    best_first = sorted(range(len(steps)), key=lambda place: find_rank(steps[place]), reverse=True)
    finished = finish_records([entries[place] for place in best_first], room)
    records: dict[int, ReplyRecord] = dict(zip(best_first, finished, strict=True))

    payloads: list[JsonObject] = []
    targets: list[Item] = []
    for place in range(len(steps)):
        record = records[place]
        payloads.append(record.payload)
        metadata["failed"] += is_failed(record.payload)  # so has a record without room
        metadata["truncated"] += is_cut(record.payload)
        if record.next_item is not None:
            targets.append(record.next_item)

    answer = {**envelope, "targetMemory": payloads[0], "associatedMemories": payloads[1:]}
    requests: list[JsonObject] = []
    for start in range(0, len(targets), MAX_ITEMS):
        requests.append({"targets": targets[start : start + MAX_ITEMS], **repeated})
    if requests:
        answer["next_requests"] = requests

    return answer


def find_rank(step: Step) -> int:
    """Return the rank of the link that led to a memory; the start of a walk ranks above all."""
    if step.link is None:
        return RANK_ONE + 1

    return step.link.rank


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
        shape = choose_shape(MEMORY, detail)
        return ReplyRecord(build_failed(fault.to_payload(), {"key": step.key}, trailing, shape))

    # Many memories share one reply: of their metadata, only the score is worth its bytes.
    data = to_memory_data(memory, key=False, version=detail == "concise")
    data["metadata"] = {"memory_score": memory.row.score}
    piece = slice_text(memory.row.content, WHOLE, MAX_CONTENT_CHARS)
    return draft_memory_record(memory, data, piece, bound, trailing, detail)


def describe_step(step: Step, direction: Direction) -> JsonObject:
    """Return how a walk reached a memory, such as its depth; nothing for the first memory."""
    if step.parent is None or step.link is None:
        return {}

    # Usual values are omitted, as everywhere.
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
    frontier: list[JsonObject] = []
    for candidate in outcome.frontier:
        frontier.append(
            {
                "key": candidate.key,
                "from": candidate.source,
                "combinedScore": candidate.rank / RANK_ONE,
                "cutBy": candidate.cut_by,
            }
        )

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
        "frontier": frontier,
    }
    if outcome.has_more_frontier:
        description["frontier_more"] = True

    return description


def build_remember_answer(
    arguments: RememberInput,
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
