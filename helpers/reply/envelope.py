"""Put the outcomes of many items into one reply that keeps its bound and says how to continue.

An item that was found becomes a `RecordDraft`, any other a finished `ReplyRecord`. `finish_records`
divides the room among the drafts and finishes them; `assemble_reply` builds the bulk reply. All
sizes are bytes as the reply's `Bound` counts them.

A concise record is a flat projection of the full one, which has only the fields that a model needs:
it takes values from it and computes none.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from abilities.declarations.fields import Detail
from abilities.declarations.refusals import Fault, Refused
from abilities.declarations.values import (
    JsonObject,
    as_object,
    drop_empty,
    json_bytes,
    json_size,
)
from abilities.helpers.reply.budget import Bound, ItemSize, share_room
from abilities.helpers.text import Piece, count_replaced, replace_markers, split_suffix

_EXPLAINED = ("reader_missing", "no_such_part")
"""Reasons whose message says what to do."""


class RecordShape(NamedTuple):
    """The fields of a concise record in their order: one list for success, one for failure.

    Besides the fields of a full record and of its data, there are ``score`` (combinedScore),
    ``link`` and ``direction`` (of its link, if they are not the usual ones), ``next`` (of its
    truncation), and ``reason`` and ``message`` of its error.
    """

    found: tuple[str, ...]
    failed: tuple[str, ...]


def _parse_shape(found: str, failed: str = "") -> RecordShape:
    return RecordShape(tuple(found.split()), tuple(failed.split()))


FILE = _parse_shape(
    "input success content source lines version remembered next",
    "input success reason message did_you_mean",
)
"""A record of `file_read_bulk`."""

TARGET = _parse_shape(
    "type date key from success content archived replaced_by next",
    "input success reason message did_you_mean",
)
"""A record of `memory_read_bulk`."""

MEMORY = _parse_shape(
    "key from content archived replaced_by version score depth parent link direction next",
    "key reason score depth parent link direction",
)
"""A stored memory, read alone or in a walk."""

ITEM = _parse_shape(
    "input success from content items archived replaced_by date source matched confidence "
    "unknown_words archived_words overview searched skipped did_you_mean finds limitsReached "
    "frontier more lines version remembered next",
    "input success reason message did_you_mean",
)
"""A record of `read`."""

FOUND_FILE = _parse_shape(
    "path content source lines version remembered next",
    "path reason message did_you_mean",
)
"""A file that matches a glob."""

HIT = _parse_shape("path content source next", "path reason")
"""A match of a search."""

DAY = _parse_shape("date content version next", "date reason")
"""The notes of a day."""

LISTED_MEMORY = _parse_shape("key from type size summary", "key reason")
"""A memory in a list, without its content."""

RECALLED = _parse_shape(
    "key filename heading content archived starts_at date score replaced_by since via link "
    "direction from next",
    "key reason from",
)
"""A memory, or a part of a note, that answers a question."""

FOUND_MEMORY = _parse_shape("key from content archived replaced_by date score next")
"""A memory that a query finds."""

WRITTEN = _parse_shape("id key action archived version created replaced similar mended")
"""A memory that was changed, with the fields of the full answer."""

LISTED_FILE = _parse_shape("path source size_bytes")
"""A file of a list."""


def choose_shape(shape: RecordShape, detail: Detail) -> RecordShape | None:
    """Return the shape of records in this detail; None if they are full."""
    return shape if detail == "concise" else None


def shape_record(record: JsonObject, shape: RecordShape | None) -> JsonObject:
    """Return a full record in the shape, or unchanged if that is None."""
    if shape is None:
        return record

    values = {**record, **record.get("data", {})}
    if "combinedScore" in record:
        values["score"] = record["combinedScore"]
        link = values.pop("link", {})
        if "type" in link:
            values["link"] = link["type"]
        if "direction" in link:
            values["direction"] = link["direction"]
    if "truncation" in record:
        values["next"] = _flatten_item(record["truncation"]["next"])

    names = shape.found
    if "error" in record:
        names = shape.failed
        fault: JsonObject = record["error"]
        values["reason"] = fault["reason"]
        # Most reasons say enough. Only the message says how to correct a malformed item.
        if "field" in fault or "expected" in fault or fault["reason"] in _EXPLAINED:
            values["message"] = fault["message"]
        if fault.get("did_you_mean", "") not in values.get("message", ""):
            values["did_you_mean"] = fault["did_you_mean"]

    # Most files are in the workspace.
    if values.get("source") == "workspace":
        del values["source"]

    return {name: values[name] for name in names if name in values}


def is_failed(record: JsonObject) -> bool:
    """Return whether the item of a record failed; the record is full or concise."""
    return "error" in record or "reason" in record


def is_cut(record: JsonObject) -> bool:
    """Return whether a part of a record's content is missing; the record is full or concise."""
    if "truncation" in record:
        return True

    # In a concise record, `next` is the only trace of a truncation.
    return "next" in record and ("content" in record or "items" in record)


def _flatten_item(item: object) -> object:
    """Return a path unchanged, the resume point of a target, or the JSON of any other object.

    The record itself has the other fields of a target.
    """
    target = as_object(item)
    if target is None:
        return item

    return target.get("resume") or json_bytes(target).decode()


MAX_ITEM_CHARS = 1024
"""A longer item is never valid; only the beginning that its record repeats is counted."""

MAX_ITEMS_BYTES = 8192
"""All items of one call together, as JSON, without the places where they continue."""

MAX_CONTINUED_BYTES = 2 * MAX_ITEMS_BYTES
"""The same with those places, so that the request for the rest of a call is never too long."""

INPUT_CHARS = 200
"""Characters of an invalid item that its record repeats."""

_WIDEST_COUNT = 10**6
"""No count of characters in a record has more digits than this."""

_COUNTS_RESERVE = 16
"""Bytes for the counts of a summary, which have one digit each in an empty reply."""

_LEFT_OUT_FAULT = Fault.from_reason("response_budget").to_payload()

# Python's strings can hold lone surrogates, but UTF-8 cannot.
_SURROGATE = re.compile("[\ud800-\udfff]")

Item = str | JsonObject
"""A path or a target, as it is sent, such as "notes.md#L1-L20"."""


class BulkRequest(NamedTuple):
    """A bulk call: its items, the name of their argument, and all arguments that were given.

    ``shape`` is that of its records; None if they are full.
    """

    items_argument: str
    items: Sequence[object]
    arguments: JsonObject
    shape: RecordShape | None = None


def check_items_size(request: BulkRequest) -> int:
    """Return the size of all items of a call together, in bytes. Raises Refused: too_long."""
    total = _measure_items(request.items)
    if total <= MAX_ITEMS_BYTES:
        return total

    # A continued item is longer than the item that the caller wrote.
    asked: list[object] = []
    for item in request.items:
        fields = as_object(item)
        if isinstance(item, str):
            asked.append(split_suffix(item)[0])
        elif fields is None:
            asked.append(item)
        else:
            fields = {name: fields[name] for name in fields if name not in ("resume", "after")}
            if isinstance(fields.get("file"), str):
                fields["file"] = split_suffix(fields["file"])[0]
            asked.append(fields)

    if _measure_items(asked) > MAX_ITEMS_BYTES or total > MAX_CONTINUED_BYTES:
        rule = {"max_bytes": MAX_ITEMS_BYTES}
        raise Refused("too_long", request.items_argument, expected=rule)

    return total


def _measure_items(items: Sequence[object]) -> int:
    """Return the bytes of items as JSON."""
    texts: list[str] = []

    for item in items:
        text = format_item(item)
        if len(text) > MAX_ITEM_CHARS:
            # It fails alone: one bad item must not fail the others.
            text = text[:INPUT_CHARS]
        texts.append(text)

    return json_size(texts) - 1 - len(texts)  # without the brackets and the commas


def is_sendable(item: object) -> bool:
    """Return whether JSON can represent an item: no lone surrogates, no integers over 64 bits.

    >>> is_sendable({"note": "today"}), is_sendable(2**64)
    (True, False)
    """
    try:
        json_bytes(item)
    except TypeError:
        return False

    return True


def format_item(item: object) -> str:
    """Return an item as its record repeats it: strings unchanged, others as compact JSON.

    >>> format_item({"note": "today"})
    '{"note":"today"}'
    """
    if isinstance(item, str):
        return item if item.isascii() else _SURROGATE.sub("\ufffd", item)

    try:
        return json_bytes(item).decode()
    except TypeError:
        return "?"  # for example, an integer over 64 bits


CutReason = Literal["max_chars", "budget"]
"""The reason of a cut: the limit of the item itself, or the room of the reply."""


class FoundItem(NamedTuple):
    """An item that was found.

    ``data`` is the data of its record, with an empty ``content`` that marks the place. ``item``
    requests the same content again; ``continue_at`` takes a resume point and returns the item that
    requests the rest. ``size_bytes`` is the size of the whole source.
    """

    data: JsonObject
    piece: Piece
    item: Item
    continue_at: Callable[[str], Item]
    size_bytes: int


class ReplyRecord(NamedTuple):
    """A finished record: its payload, and the number of characters of content in it.

    ``next_item`` requests the content that was cut off or left out, if any was.
    """

    payload: JsonObject
    returned_chars: int = 0
    next_item: Item | None = None

    @property
    def size(self) -> int:
        """The bytes that the record and its item in the next request add to a reply."""
        size = json_size(self.payload) + 1  # a comma follows each
        if self.next_item is not None:
            size += json_size(self.next_item) + 1

        return size


class RecordForm(NamedTuple):
    """The parts of a record that do not depend on the outcome of its item.

    ``leading`` and ``trailing`` are the first and the last fields of a full record; ``shape`` is
    that of a concise one.
    """

    leading: JsonObject
    trailing: Mapping[str, object] = {}
    shape: RecordShape | None = None

    def build(self, data: JsonObject, truncation: JsonObject | None = None) -> JsonObject:
        """Return the payload of an item that was found."""
        record: JsonObject = {**self.leading, "success": True, "data": data, **self.trailing}
        if truncation is not None:
            record["truncation"] = truncation

        return shape_record(record, self.shape)

    def build_failed(self, error: JsonObject) -> JsonObject:
        """Return the payload of an item without content, given the payload of its fault."""
        record: JsonObject = {**self.leading, "success": False, "error": error, **self.trailing}
        return shape_record(record, self.shape)

    def build_left_out(self, size_bytes: int) -> JsonObject:
        """Return the payload of an item that was left out for lack of room."""
        # A long batch has many of them in each reply, and building a fault for each takes time.
        return self.build_failed({**_LEFT_OUT_FAULT, "size_bytes": size_bytes})


class RecordDraft:
    """The record of an item that was found, until it is known how much of its content fits.

    ``content_size`` is the size of the content, ``overhead`` that of everything else if nothing is
    cut for lack of room.
    """

    def __init__(self, found: FoundItem, bound: Bound, form: RecordForm) -> None:
        piece = found.piece

        self._found = found
        self._bound = bound
        self._piece = piece
        self._form = form

        # Only a piece that keeps its raw bytes can have markers or marks in its text.
        self._content = piece.text if piece.raw is None else replace_markers(piece.text)

        self.content_size: int = bound.measure_content(self._content)
        self.overhead: int = self._measure_overhead(is_cut=piece.rest)

    @property
    def size(self) -> int:
        """The bytes of the whole record."""
        return self.overhead + self.content_size

    def measure(self, left_out: int | None = None) -> ItemSize:
        """Return the sizes of this item; that of its record if left out may be given."""
        if left_out is None:
            left_out = self._leave_out().size

        return ItemSize(
            overhead=self.overhead,
            cut_overhead=self._measure_overhead(is_cut=True),
            left_out=left_out,
            content=self.content_size,
        )

    def finish(self, share: int | None) -> ReplyRecord:
        """Return the record with as much content as fits into ``share`` bytes.

        That is at least one character, unless the content is empty. None leaves the item out.
        """
        if share is None:
            return self._leave_out()

        chars = len(self._content)
        if share < self.content_size:
            # At least one character, so that a chain of next requests always ends.
            fitting = self._bound.count_fitting_chars(self._content, share)
            chars = self._piece.find_cut(max(fitting, 1))

        content = self._content[:chars]
        counts = self._count_changes(chars)

        # The piece already ends at max_chars; only the budget can shorten it further.
        reason: CutReason = "max_chars"
        if chars < len(self._content):
            reason = "budget"
        elif not self._piece.rest:
            return ReplyRecord(self._build_payload(content, counts), chars)

        next_item = self._found.continue_at(self._piece.resume(chars))
        truncation = self._build_truncation(reason, chars, next_item)
        return ReplyRecord(self._build_payload(content, counts, truncation), chars, next_item)

    def _count_changes(self, chars: int) -> JsonObject:
        """Return the numbers of replaced and redacted places in the first characters, if any."""
        if self._piece.raw is None:
            return {}

        replaced = count_replaced(self._piece.text[:chars])
        return drop_empty({"replaced": replaced, "redacted": self._piece.count_marks(chars)})

    def _measure_overhead(self, *, is_cut: bool) -> int:
        """Return the most bytes that everything but the content can take."""
        counts = self._count_changes(len(self._content))
        if not is_cut:
            return ReplyRecord(self._build_payload("", counts)).size

        next_item = self._found.continue_at(self._piece.widest_resume())
        # The reason is not known yet; max_chars is the longer one.
        truncation = self._build_truncation("max_chars", _WIDEST_COUNT, next_item)
        payload = self._build_payload("", counts, truncation)
        return ReplyRecord(payload, next_item=next_item).size

    def _build_payload(
        self, content: str, counts: JsonObject, truncation: JsonObject | None = None
    ) -> JsonObject:
        return self._form.build({**self._found.data, "content": content, **counts}, truncation)

    def _build_truncation(self, reason: CutReason, chars: int, next_item: Item) -> JsonObject:
        truncation: JsonObject = {"reason": reason, "returned_chars": chars}
        if self._piece.total_chars is not None:
            truncation["total_chars"] = self._piece.total_chars

        truncation["next"] = next_item
        return truncation

    def _leave_out(self) -> ReplyRecord:
        payload = self._form.build_left_out(self._found.size_bytes)
        return ReplyRecord(payload, next_item=self._found.item)


Entry = RecordDraft | ReplyRecord


def measure_room(request: BulkRequest, bound: Bound) -> int:
    """Return the bytes that the records and their next items may take in a reply."""
    # A next request is always counted, because it is not known yet whether there will be one.
    empty_reply = assemble_reply(request, [], [""])
    return bound.room - json_size(empty_reply) - _COUNTS_RESERVE


def finish_records(entries: Sequence[Entry], room: int) -> list[ReplyRecord]:
    """Return the records of all entries, in the same order; together they fit into ``room``.

    Finished records take their size; the drafts share the rest.
    """
    drafts: list[RecordDraft] = []
    for entry in entries:
        if isinstance(entry, RecordDraft):
            drafts.append(entry)
        else:
            room -= entry.size

    # Most replies have room for everything; only the others need the sizes of cut records.
    needed = sum(draft.size for draft in drafts)
    shares: Sequence[int | None] = [draft.content_size for draft in drafts]
    if needed > room:
        shares = share_room([draft.measure() for draft in drafts], room)

    finished = map(RecordDraft.finish, drafts, shares)
    return [next(finished) if isinstance(entry, RecordDraft) else entry for entry in entries]


def assemble_reply(
    request: BulkRequest, records: Sequence[ReplyRecord], next_items: Sequence[Item]
) -> JsonObject:
    """Return a bulk reply of finished records; ``next_items`` are left for its next request."""
    payloads: list[JsonObject] = []
    succeeded = truncated = returned_chars = 0

    for record in records:
        payloads.append(record.payload)
        succeeded += record.payload["success"]
        truncated += is_cut(record.payload)
        returned_chars += record.returned_chars

    reply: JsonObject = {
        "results": payloads,
        "summary": {
            "requested": len(request.items),
            "succeeded": succeeded,
            "failed": len(payloads) - succeeded,
            "truncated": truncated,
            "returned_chars": returned_chars,
        },
    }

    if next_items:
        reply["next_request"] = {**request.arguments, request.items_argument: next_items}

    return reply
