"""Stored memories as the records that callers read, and the answers made of such records.

A walk answers with the records of the memories that it reached, and with the memories that its
limits left out.
"""

from collections.abc import Sequence
from typing import NamedTuple

import orjson

from abilities.declarations.fields import Detail
from abilities.declarations.limits import MAX_CONTENT_CHARS, MAX_ITEMS, MAX_REMEMBERED_BYTES
from abilities.declarations.memory import USUAL_LINK_TYPE, Direction
from abilities.declarations.refusals import Fault, Refused
from abilities.declarations.values import JsonObject, drop_empty, json_size
from abilities.helpers.reply.budget import (
    MIN_SHARE,
    Bound,
    count_fitting_chars,
    measure_escaped,
)
from abilities.helpers.reply.envelope import (
    FOUND_MEMORY,
    MEMORY,
    WRITTEN,
    Entry,
    FoundItem,
    Item,
    RecordDraft,
    RecordForm,
    ReplyRecord,
    choose_shape,
    finish_records,
    is_cut,
    is_failed,
    shape_record,
)
from abilities.helpers.search.passages import split_sentences
from abilities.helpers.store.model import Position, StoredMemory
from abilities.helpers.store.protocol import Backlinks, WalkResult, WriteResult
from abilities.helpers.text import WHOLE, Piece, Range, slice_text
from abilities.helpers.walk import RANK_ONE, Step, WalkLimits, WalkOutcome

_REQUEST_RESERVE = 256
"""Bytes kept free for the rest of an answer's next request."""

_PAGE_RESERVE = 384
"""Bytes kept free for a page's other fields, and for the cursor of the next request."""

_WALK_RESERVE = 256
"""Bytes kept free for the next requests of a walk and its number of failures."""

_NUMBER_DIGITS = 16
_DAY_CHARS = len("YYYY-MM-DD")

_LEAST_SENTENCE = 48
"""Bytes below which a cut sentence says too little to be shown with a file."""


def to_memory_data(
    stored: StoredMemory,
    *,
    counters: bool = False,
    links: bool = False,
    key: bool = True,
    version: bool = False,
) -> JsonObject:
    """Return a memory's fields that have a value.

    ``counters`` shows when and how often it was read, ``links`` the links that were read with it,
    ``key`` its key. The version is shown with the counters, with the links, and with ``version``.
    """
    row = stored.row
    data = drop_empty(
        {
            "id": row.id,
            "key": row.key,
            "from": stored.origin,
            "type": row.type,
            "content": row.content,
            "summary": row.summary,
            "category": row.category,
            "tags": orjson.loads(row.tags),
            "about": orjson.loads(row.about),
            "importance": row.importance,
            **describe_replacement(stored),
            "created_at": row.created_at,
            "updated_at": row.updated_at,
        }
    )
    if not key:
        del data["key"]

    # Reads leave the counters out, so that the same request gives the same bytes.
    if counters:
        data["accessed_at"] = stored.accessed_at
        data["access_count"] = stored.access_count
    if links and stored.links:
        data["links"] = [link.to_data() for link in stored.links]
    if stored.links_total:
        data["links_total"] = stored.links_total

    data["metadata"] = {"memory_score": row.score, **orjson.loads(row.metadata)}

    # A caller who reads many at once does not change them, so their versions are not worth bytes.
    if counters or links or version:
        data["version"] = row.version
        if row.expires_at:
            data["expires_at"] = row.expires_at

    return data


def describe_replacement(stored: StoredMemory) -> JsonObject:
    """Return whether a memory is archived and what replaced it, or since when it replaces one."""
    archived = bool(stored.row.archived)
    return drop_empty(
        {"archived": archived, "replaced_by": stored.replaced_by, "since": stored.since}
    )


def shape_remembered(memories: Sequence[StoredMemory]) -> list[JsonObject]:
    """Return memories as the record of a file shows them: key, first sentence, day of last change.

    Together they take 300 bytes as JSON; if a sentence became too short, there are fewer of them.
    """
    for count in range(len(memories), 0, -1):
        records: list[JsonObject] = []
        room = MAX_REMEMBERED_BYTES - 1

        for place, memory in enumerate(memories[:count]):
            row = memory.row
            beginning = (row.summary or row.content)[:MAX_REMEMBERED_BYTES]
            sentence = " ".join(beginning.split())
            for span in split_sentences(sentence)[:1]:
                sentence = sentence[: span.end]

            record: JsonObject = {"key": row.key, "text": "", "date": row.updated_at[:_DAY_CHARS]}
            share = room // (count - place) - json_size(record) - 1
            record["text"] = shorten_text(sentence, share)
            records.append(record)
            room -= json_size(record) + 1
            if share < min(_LEAST_SENTENCE, measure_escaped(sentence)):
                break
        else:
            return records

    return []


def shorten_text(text: str, room: int) -> str:
    """Return a text that takes at most ``room`` bytes in JSON, cut after a word if it is cut.

    >>> shorten_text("Never deploy on Fridays.", 20)
    'Never deploy on…'
    """
    if measure_escaped(text) <= room:
        return text

    cut = text[: count_fitting_chars(text, room - len("…".encode()))]
    return cut[: max(cut.rfind(" "), len(cut) // 2)] + "…"


def name_target(stored: StoredMemory) -> JsonObject:
    """Return the target of `memory_read_bulk` that names a memory."""
    return drop_empty({"type": "stored", "key": stored.row.key, "from": stored.origin})


def draft_memory_record(
    stored: StoredMemory,
    data: JsonObject,
    piece: Piece,
    bound: Bound,
    trailing: JsonObject | None = None,
    detail: Detail = "full",
    request: JsonObject | None = None,
) -> RecordDraft:
    """Return the draft of a memory's record, with its key and a piece of its content.

    It continues as a stored target, or as a ``request`` does.
    """
    key = stored.row.key
    item: JsonObject = request or name_target(stored)

    def continue_at(point: str) -> Item:
        return {**item, "resume": point}

    size_bytes = len(stored.row.content.encode())
    found = FoundItem({**data, "content": ""}, piece, item, continue_at, size_bytes)
    form = RecordForm({"key": key}, trailing or {}, choose_shape(MEMORY, detail))
    return RecordDraft(found, bound, form)


def build_memory_answer(
    stored: StoredMemory,
    backlinks: Backlinks | None,
    bound: Bound,
    detail: Detail,
    part: Range,
    request: JsonObject,
) -> JsonObject:
    """Return `memory_get`'s answer: one record, in full detail with the links that were read.

    If the part of the content does not fit, ``next_request`` reads on, with the arguments of the
    ``request``. Raises Refused: invalid_range, changed.
    """
    is_full = detail == "full"
    data = to_memory_data(stored, links=is_full, key=False, version=True)

    if is_full:
        data["backlinks_total"] = stored.backlinks_total
    if is_full and backlinks is not None and backlinks.links:
        data["backlinks"] = [link.to_data(incoming=True) for link in backlinks.links]

    room = bound.room - json_size(request) - _REQUEST_RESERVE
    record = _finish_with_links(stored, data, part, request, bound, room, detail)
    if record.next_item is None:
        return record.payload

    return {**record.payload, "next_request": record.next_item}


def describe_mending(result: WriteResult) -> JsonObject:
    """Return the fields of a change's answer about the mending of a damaged memory."""
    if result.mended is None:
        return {}

    return {"mended": list(result.mended)}


def build_write_answer(
    result: WriteResult, envelope: JsonObject, bound: Bound, detail: Detail
) -> JsonObject:
    """Return a write's answer: ``envelope`` with the ``memory``, which is cut if it does not fit.

    A concise answer names the memory and its version, and sends nothing back.
    """
    stored = result.stored
    assert stored is not None  # only a deletion leaves nothing

    envelope = {**envelope, **describe_mending(result)}
    if detail == "concise":
        return shape_record({**to_memory_data(stored, version=True), **envelope}, WRITTEN)

    room = bound.max_bytes - json_size(envelope)
    data = to_memory_data(stored, counters=True, links=True)
    request = name_target(stored)
    record = _finish_with_links(stored, data, WHOLE, request, bound, room, detail)

    answer = {**envelope, "memory": record.payload["data"]}
    if "truncation" in record.payload:
        answer["truncation"] = record.payload["truncation"]

    return answer


def _finish_with_links(
    stored: StoredMemory,
    data: JsonObject,
    part: Range,
    request: JsonObject,
    bound: Bound,
    room: int,
    detail: Detail,
) -> ReplyRecord:
    """Return a record with as many of a memory's links as leave room for some of its content.

    Links and backlinks end at the same place, so that one offset continues both. Raises Refused:
    invalid_range, changed.
    """
    piece = slice_text(stored.row.content, part, len(stored.row.content))
    shown = dict(data)
    count = max(len(data.get("links", ())), len(data.get("backlinks", ())))

    while True:
        draft = draft_memory_record(stored, shown, piece, bound, detail=detail, request=request)
        fits = draft.size <= room or draft.measure().cut_overhead + MIN_SHARE <= room
        if fits or not count:
            return finish_records([draft], room)[0]

        count -= 1
        for name in ("links", "backlinks"):
            links = data.get(name, [])[:count]
            if links:
                shown[name] = links
            else:
                shown.pop(name, None)


class PageCursor(NamedTuple):
    """The start of a page: the number of memories before it, and the position of the last one.

    The place of a namespace is only sent if it is not the first.

    >>> PageCursor(20, Position("2025-12-24T08:00:00.000Z", "7f3a")).format()
    '20/2025-12-24T08:00:00.000Z/7f3a'
    """

    passed: int
    position: Position

    def format(self) -> str:
        """Return the cursor as it is sent."""
        value, memory_id, place = self.position
        cursor = f"{self.passed}/{value}/{memory_id}"
        return f"{cursor}/{place}" if place else cursor


def parse_page_cursor(text: str, sort_by: str) -> PageCursor:
    """Return the cursor of a text, which has the declared form.

    Raises Refused("invalid_format") if it is from a page of another order.
    """
    passed, value, memory_id, *place = text.split("/")

    # Any other order is by a time, which is longer.
    is_number = len(value) <= _NUMBER_DIGITS
    if is_number != (sort_by in ("importance", "access_count")):
        rule = {"format": "as next_request has it"}
        raise Refused("invalid_format", "after", expected=rule)

    position = Position(int(value) if is_number else value, memory_id, *map(int, place))
    return PageCursor(int(passed), position)


def fit_page(
    page: Sequence[StoredMemory | Exception], bound: Bound, detail: Detail, given: JsonObject
) -> tuple[list[JsonObject], int, int]:
    """Return as many memories of a page, from the front, as fit; at least one.

    ``given`` are the arguments that the next request repeats. The numbers are those of memories
    that cannot be read, and of all in the part of the page that fits.
    """
    shown: list[JsonObject] = []
    room = bound.room - _PAGE_RESERVE - json_size(given)
    failed = 0

    for position, memory in enumerate(page):
        if isinstance(memory, Exception):
            Fault.from_exception(memory)  # logs it, unless it is a refusal
            failed += 1
            continue

        # The first one is shown at any size; otherwise no caller could get past it.
        data = to_memory_data(memory, counters=True)
        content = memory.row.content
        piece = slice_text(content, WHOLE, MAX_CONTENT_CHARS)
        if piece.rest:
            chars = len(piece.text)
            target = {**name_target(memory), "resume": piece.resume(chars)}
            data["content"] = piece.text
            data["truncation"] = {
                "reason": "max_chars",
                "returned_chars": chars,
                "total_chars": len(content),
                "next": target,
            }
        if detail == "concise":
            data["date"] = memory.row.updated_at[:_DAY_CHARS]
            data["score"] = data["metadata"]["memory_score"]
            data = shape_record(data, FOUND_MEMORY)

        room -= json_size({**data, "content": ""}) + 1
        room -= bound.measure_content(data["content"])
        if shown and room < 0:
            return shown, failed, position

        shown.append(data)

    return shown, failed, len(page)


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
        frontier = [candidate["key"] for candidate in metadata["frontier"]]
        limits_reached = metadata["limitsReached"]
        short = drop_empty({"limitsReached": limits_reached, "frontier": frontier})
        envelope["metadata"] = short
        if not short:
            del envelope["metadata"]

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
        form = RecordForm({"key": step.key}, trailing, choose_shape(MEMORY, detail))
        return ReplyRecord(form.build_failed(fault.to_payload()))

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
