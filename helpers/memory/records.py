"""Stored memories as the records that callers read, and the answers that hold one of them."""

from collections.abc import Sequence
from typing import NamedTuple

import orjson

from abilities.declarations.fields import Detail
from abilities.declarations.limits import MAX_CONTENT_CHARS
from abilities.declarations.refusals import Fault, Refused
from abilities.declarations.values import JsonObject, json_size
from abilities.helpers.reply.budget import MIN_SHARE, Bound
from abilities.helpers.reply.detail import (
    MEMORY,
    choose_shape,
    shape_found,
    shape_written,
)
from abilities.helpers.reply.envelope import (
    FoundItem,
    Item,
    RecordDraft,
    finish_records,
)
from abilities.helpers.store.model import StoredMemory
from abilities.helpers.store.protocol import Backlinks, WriteResult
from abilities.helpers.store.query import Position
from abilities.helpers.text.pieces import WHOLE, Piece, Range, slice_text

_RESERVED_BYTES = 256
"""Kept free for the rest of an answer's next request, which is known last."""


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
        if row.expires_at:
            data["expires_at"] = row.expires_at

    return data


class RequestedPart(NamedTuple):
    """The part of a content to show, and the arguments that asked for it, to go on with."""

    requested: Range
    request: JsonObject


class TextSource(NamedTuple):
    """A memory's text: the part to show, and the arguments that show it, to go on with."""

    piece: Piece
    request: JsonObject


def draft_memory_record(
    stored: StoredMemory,
    data: JsonObject,
    piece: Piece,
    bound: Bound,
    trailing: JsonObject | None = None,
    detail: Detail = "full",
    request: JsonObject | None = None,
) -> RecordDraft:
    """Return the draft of a record that is named by its key and shows a piece of its content.

    It goes on as a stored target, or as a ``request`` does.
    """
    key = stored.row.key
    item: JsonObject = request or {"type": "stored", "key": key}

    def continue_at(point: str) -> Item:
        return {**item, "resume": point}

    size_bytes = len(stored.row.content.encode())
    found = FoundItem({**data, "content": ""}, piece, item, continue_at, size_bytes)
    return RecordDraft(found, bound, {"key": key}, trailing, choose_shape(MEMORY, detail))


def build_memory_answer(
    stored: StoredMemory,
    backlinks: Backlinks | None,
    bound: Bound,
    detail: Detail,
    part: RequestedPart,
) -> JsonObject:
    """Return `memory_get`'s answer: one record, in full detail with the links that were read.

    If the content does not fit, ``next_request`` goes on. Raises Refused: invalid_range, changed.
    """
    content = stored.row.content
    source = TextSource(slice_text(content, part.requested, len(content)), part.request)
    is_full = detail == "full"
    data = to_memory_data(stored, links=is_full, key=False, version=True)

    if is_full:
        data["backlinks_total"] = stored.backlinks_total
    if is_full and backlinks is not None and backlinks.links:
        data["backlinks"] = [link.to_data(incoming=True) for link in backlinks.links]

    room = bound.room - json_size(source.request) - _RESERVED_BYTES
    draft = _draft_with_links(stored, data, bound, room, detail, source)
    (record,) = finish_records([draft], room)
    if record.next_item is None:
        return record.payload

    return {**record.payload, "next_request": record.next_item}


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
    piece = slice_text(stored.row.content, WHOLE, len(stored.row.content))
    target: JsonObject = {"type": "stored", "key": stored.row.key}
    source = TextSource(piece, target)
    draft = _draft_with_links(stored, data, bound, room, detail, source)
    (record,) = finish_records([draft], room)

    answer = {**frame, "memory": record.payload["data"]}
    if "truncation" in record.payload:
        answer["truncation"] = record.payload["truncation"]

    return answer


def _draft_with_links(
    stored: StoredMemory,
    data: JsonObject,
    bound: Bound,
    room: int,
    detail: Detail,
    source: TextSource,
) -> RecordDraft:
    """Return a draft with as many of a memory's links as leave room for some of its content.

    Links and backlinks end at the same place, so that one offset continues both.
    """
    shown = data
    count = max(len(data.get("links", ())), len(data.get("backlinks", ())))

    while True:
        draft = draft_memory_record(
            stored, shown, source.piece, bound, detail=detail, request=source.request
        )
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


_PAGE_BYTES = 384
"""Kept free for a page's other fields, and for the cursor of the next request."""

_NUMBER_DIGITS = 16
_SORTED_BY_NUMBER = ("importance", "access_count")


class PageCursor(NamedTuple):
    """Where a page of memories begins: how many came before it, and the last one's position."""

    passed: int
    position: Position

    def format(self) -> str:
        """Return the cursor as it is sent."""
        return f"{self.passed}/{self.position.value}/{self.position.id}"


def parse_page_cursor(text: str, sort_by: str) -> PageCursor:
    """Return a cursor, given a text of the form that is declared.

    Raises Refused("invalid_format") if it is of another order.
    """
    passed, value, memory_id = text.split("/")

    is_number = len(value) <= _NUMBER_DIGITS
    if is_number != (sort_by in _SORTED_BY_NUMBER):
        rule = {"format": "as next_request has it"}
        raise Refused("invalid_format", "after", expected=rule)

    return PageCursor(int(passed), Position(int(value) if is_number else value, memory_id))


class FittedPage(NamedTuple):
    """As much of a page as fits.

    ``memories`` are those that could be read, and ``failed`` counts the others. ``consumed`` is how
    much of the page that is, from the front.
    """

    memories: list[JsonObject]
    failed: int
    consumed: int


def fit_page(
    page: Sequence[StoredMemory | Exception], bound: Bound, detail: Detail, given: JsonObject
) -> FittedPage:
    """Return as many memories of a page, from the front, as fit; at least one.

    ``given`` are the arguments that the next request repeats.
    """
    shown: list[JsonObject] = []
    used = _PAGE_BYTES + json_size(given)
    failed = 0

    for position, memory in enumerate(page):
        if isinstance(memory, Exception):
            Fault.from_exception(memory)  # logs it, unless it is a refusal
            failed += 1
            continue

        # The first one is shown at any size, or a caller would never get past it.
        data = _cut_content(to_memory_data(memory, counters=True))
        if detail == "concise":
            data = shape_found(data)

        used += json_size({**data, "content": ""}) + 1
        used += bound.measure_content(data["content"])
        if shown and used > bound.room:
            return FittedPage(shown, failed, position)

        shown.append(data)

    return FittedPage(shown, failed, len(page))


def _cut_content(data: JsonObject) -> JsonObject:
    """Return a memory's fields with the beginning of a long content, and how to read on."""
    content: str = data["content"]
    piece = slice_text(content, WHOLE, MAX_CONTENT_CHARS)
    if not piece.rest:
        return data

    shown = len(piece.text)
    following = {"type": "stored", "key": data["key"], "resume": piece.resume(shown)}
    truncation = {
        "reason": "max_chars",
        "returned_chars": shown,
        "total_chars": len(content),
        "next": following,
    }
    return {**data, "content": piece.text, "truncation": truncation}
