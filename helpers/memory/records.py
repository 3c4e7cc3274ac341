"""Stored memories as the records that callers read: single, in a page, and in a walk."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from abilities.declarations.faults import Fault
from abilities.helpers.reply.envelope import FailedRecord, FoundItem, RecordDraft, settle_drafts
from abilities.helpers.reply.render import json_size
from abilities.helpers.stores.model import StoredMemory
from abilities.helpers.stores.protocol import WalkResult
from abilities.helpers.text.pieces import Piece
from abilities.helpers.walk import Step, WalkLimits

_SLACK = 256  # the frame of a page, and a number in the walk's metadata that grows once its records are settled


def to_memory_data(
    stored: StoredMemory, *, counters: bool = False, links: bool = False, key: bool = True
) -> dict[str, Any]:
    """A memory's fields, those without a value left out; ``counters`` shows when and how often it was read."""
    row = stored.row
    optional = {"summary": row.summary, "category": row.category, "tags": orjson.loads(row.tags)}
    data: dict[str, Any] = {
        "id": row.id,
        **({"key": row.key} if key else {}),
        "type": row.type,
        "content": row.content,
    }
    data |= {name: value for name, value in optional.items() if value}
    data["importance"] = row.importance
    if row.archived:
        data["archived"] = True
    data |= {"created_at": row.created_at, "updated_at": row.updated_at}
    if counters:
        data |= {"accessed_at": stored.accessed_at, "access_count": stored.access_count}
    if links and stored.links:
        data["links"] = [link.to_data() for link in stored.links]
    if stored.links_total:
        data["links_total"] = stored.links_total
    data["metadata"] = {"memory_score": row.score, **orjson.loads(row.metadata)}
    return data


def draft_record(
    stored: StoredMemory, data: dict[str, Any], tail: dict[str, Any] | None = None
) -> RecordDraft:
    """A record of a memory that is named by its key, and is continued as a stored target."""
    key = stored.row.key

    def target(resume: str | None = None) -> dict[str, Any]:
        return {"type": "stored", "key": key, **({} if resume is None else {"resume": resume})}

    content = stored.row.content
    piece = Piece(content, total_chars=len(content))
    found = FoundItem(
        {**data, "content": ""}, piece, target(), target, head={"key": key}, tail=tail or {}
    )
    return RecordDraft(key, found)


def build_memory_answer(stored: StoredMemory, max_bytes: int) -> dict[str, Any]:
    """`memory_get`'s answer: one record with its links."""
    answer = draft_record(stored, to_memory_data(stored, links=True, key=False))
    settle_drafts([answer], max_bytes)
    return answer.record


def build_write_answer(
    stored: StoredMemory, frame: dict[str, Any], max_bytes: int
) -> dict[str, Any]:
    """A write's answer: ``frame`` with its ``memory``, the content cut where the whole would not fit."""
    answer = draft_record(stored, to_memory_data(stored, counters=True, links=True))
    settle_drafts([answer], max_bytes - json_size(frame))
    record = answer.record
    reply = {name: record["data"] if name == "memory" else value for name, value in frame.items()}
    return {**reply, "truncation": record["truncation"]} if "truncation" in record else reply


def build_walk_answer(result: WalkResult, limits: WalkLimits, max_bytes: int) -> dict[str, Any]:
    """`bulk_read_memory`'s answer: the target, what it leads to, and what the limits left out."""
    steps = result.outcome.steps
    entries = [
        _step_entry(step, memory) for step, memory in zip(steps, result.memories, strict=True)
    ]
    metadata = _metadata(result, limits)
    frame: dict[str, Any] = {"targetMemory": {}, "associatedMemories": [], "metadata": metadata}
    failures = sum(json_size(e.record) + 1 for e in entries if isinstance(e, FailedRecord))
    answers = [e for e in entries if isinstance(e, RecordDraft)]
    settle_drafts(answers, max_bytes - json_size(frame) - failures - _SLACK)
    target, *others = (e.record for e in entries)
    metadata["failed"] = sum(not record["success"] for record in (target, *others))
    return {"targetMemory": target, "associatedMemories": others, "metadata": metadata}


def _step_entry(step: Step, memory: StoredMemory | Exception) -> RecordDraft | FailedRecord:
    tail: dict[str, Any] = {}
    if step.parent is not None and step.link is not None:
        via: dict[str, Any] = {} if step.link.type == "association" else {"type": step.link.type}
        via["link_weight"] = step.link.weight
        tail = {
            "depth": step.depth,
            "parent": step.parent.key,
            "link": via,
            "combinedScore": step.link.score,
        }
    if isinstance(memory, Exception):
        return FailedRecord(step.key, Fault.from_exception(memory), {"key": step.key}, tail)
    data = to_memory_data(memory, key=False)
    data["metadata"] = {"memory_score": memory.row.score}
    return draft_record(memory, data, tail)


def _metadata(result: WalkResult, limits: WalkLimits) -> dict[str, Any]:
    walk = result.outcome
    return {
        "depthReached": max(step.depth for step in walk.steps),
        "totalRetrieved": len(walk.steps),
        "failed": 0,
        "duplicatesSkipped": walk.duplicates,
        "missingLinks": walk.missing,
        "invalidLinks": walk.invalid,
        "limits": limits._asdict(),
        "limitsReached": list(walk.cut_by),
        "frontier": [
            {"key": cut.key, "from": cut.source, "combinedScore": cut.score, "cutBy": cut.cut_by}
            for cut in walk.frontier
        ],
    }


class FittedPage(NamedTuple):
    """As much of a page as fits: the memories, how many could not be read, and how many places that took."""

    memories: list[dict[str, Any]]
    failed: int
    places: int


def fit_page(found: Sequence[StoredMemory | Exception], max_bytes: int) -> FittedPage:
    """As many memories of a page, from the front, as fit; at least one."""
    shown: list[dict[str, Any]] = []
    used, failures = _SLACK, 0
    for place, memory in enumerate(found):
        if isinstance(memory, Exception):
            Fault.from_exception(memory)  # logs what was not expected
            failures += 1
            continue
        data = to_memory_data(memory, counters=True)
        used += json_size(data) + 1
        if shown and used > max_bytes:
            return FittedPage(shown, failures, place)
        shown.append(data)
    return FittedPage(shown, failures, len(found))
