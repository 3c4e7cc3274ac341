"""Put the outcomes of many items into one reply that keeps its bound and says how to go on.

An item that was found becomes a `RecordDraft`, any other a `FailedRecord`. `finish_records` shares
the room among the drafts and turns every entry into its `ReplyRecord`; `build_reply` makes a bulk
reply of them. All sizes are bytes as the reply's `Bound` counts them.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from abilities.declarations.refusals import Fault, Refused
from abilities.declarations.values import JsonObject, as_object, json_bytes, json_size
from abilities.helpers.reply.budget import Bound, Cost, share
from abilities.helpers.reply.detail import RecordShape, is_cut, shape_record
from abilities.helpers.text.codec import count_replaced, replace_markers
from abilities.helpers.text.pieces import Piece, split_suffix

MAX_ITEM_CHARS = 1024
"""A longer item cannot be valid; only the beginning that its record repeats is counted."""

MAX_ITEMS_BYTES = 8192
"""All items of one call together, as JSON, without what says where they go on."""

MAX_CONTINUED_BYTES = 2 * MAX_ITEMS_BYTES
"""The same with that, so that the request for the rest of a call is never too long."""

_PLACES = ("resume", "after")
"""Fields of an item that say where it goes on."""

INPUT_CHARS = 200
"""How much of an invalid item its record repeats."""

# Python's strings can hold lone surrogates, but UTF-8 cannot.
_SURROGATE = re.compile("[\ud800-\udfff]")

Item = str | JsonObject
"""A path or a target, as it is sent."""


class BulkRequest(NamedTuple):
    """A bulk call: its items, the argument that held them, and all arguments that were given.

    ``shape`` is that of its records; None if they are full.
    """

    items_argument: str
    items: Sequence[object]
    arguments: JsonObject
    shape: RecordShape | None = None


def check_items_size(request: BulkRequest) -> int:
    """Return the size of all items of a call together, in bytes. Raises Refused: too_long."""
    total = _measure(request.items)
    if total <= MAX_ITEMS_BYTES:
        return total

    asked = _measure([_strip_place(item) for item in request.items])
    if asked > MAX_ITEMS_BYTES or total > MAX_CONTINUED_BYTES:
        rule = {"max_bytes": MAX_ITEMS_BYTES}
        raise Refused("too_long", request.items_argument, expected=rule)

    return total


def _measure(items: Sequence[object]) -> int:
    """Return the bytes of items as JSON."""
    texts: list[str] = []

    for item in items:
        text = format_item(item)
        if len(text) > MAX_ITEM_CHARS:
            # It fails by itself, and one bad item must not fail the others.
            text = text[:INPUT_CHARS]
        texts.append(text)

    return json_size(texts) - 1 - len(texts)  # without the brackets and commas between them


def _strip_place(item: object) -> object:
    """Return an item without what says where it goes on."""
    if isinstance(item, str):
        return split_suffix(item)[0]

    fields = as_object(item)
    if fields is None:
        return item

    fields = {name: value for name, value in fields.items() if name not in _PLACES}
    if isinstance(fields.get("file"), str):
        fields["file"] = split_suffix(fields["file"])[0]
    return fields


def is_sendable(item: object) -> bool:
    """Return whether JSON can hold an item: no lone surrogates, no integers over 64 bits."""
    try:
        json_bytes(item)
    except TypeError:
        return False

    return True


def format_item(item: object) -> str:
    """Return an item as its record repeats it: a string as it is, anything else as compact JSON."""
    if isinstance(item, str):
        return item if item.isascii() else _SURROGATE.sub("\ufffd", item)

    try:
        return json_bytes(item).decode()
    except TypeError:
        return "?"  # an integer that is too large, for example


_WIDEST_COUNT = 10**6
"""No count of characters in a record has more digits than this."""

_COUNT_DIGITS = 16
"""Bytes reserved for the counts of a summary, which are all one digit wide in an empty reply."""

_LEFT_OUT_FAULT = Fault.from_reason("response_budget").to_payload()

CutReason = Literal["max_chars", "budget"]


class FoundItem(NamedTuple):
    """An item that was found.

    ``data`` is the data of its record, with an empty ``content`` that marks the place. ``item`` is
    what to send for the same content again; ``continue_at`` takes a resume point and returns what
    to send for the rest. ``size_bytes`` is the size of the whole source.
    """

    data: JsonObject
    piece: Piece
    item: Item
    continue_at: Callable[[str], Item]
    size_bytes: int


class ReplyRecord(NamedTuple):
    """A finished record: its payload, and how many characters of content are in it.

    ``next_item`` is what to send for content that was cut off or left out, if any was.
    """

    payload: JsonObject
    returned_chars: int = 0
    next_item: Item | None = None


class FailedRecord:
    """The record of an item without content: it could not be read, or there was no room for it.

    ``leading`` and ``trailing`` are the fields that the full record begins and ends with, and
    ``shape`` is that of a concise one.
    """

    returned_chars, next_item = 0, None

    def __init__(
        self,
        fault: Fault,
        leading: JsonObject,
        trailing: JsonObject | None = None,
        shape: RecordShape | None = None,
    ) -> None:
        self.payload = _build_failed(fault.to_payload(), leading, trailing, shape)


def build_left_out(
    size_bytes: int,
    leading: JsonObject,
    trailing: JsonObject | None = None,
    shape: RecordShape | None = None,
) -> JsonObject:
    """Return the payload of an item of a size that there was no room for, as a `FailedRecord`."""
    # A long batch has a score of them in each of its replies, and a model of each takes its time.
    error = {**_LEFT_OUT_FAULT, "size_bytes": size_bytes}
    return _build_failed(error, leading, trailing, shape)


def _build_failed(
    error: JsonObject,
    leading: JsonObject,
    trailing: JsonObject | None,
    shape: RecordShape | None,
) -> JsonObject:
    record: JsonObject = {**leading, "success": False, "error": error, **(trailing or {})}
    return shape_record(record, shape)


class RecordDraft:
    """The record of an item that was found, as long as it is open how much of its content fits.

    ``leading``, ``trailing`` and ``shape`` are those of a `FailedRecord`. ``content_size`` is the
    size of the content, ``frame_size`` that of everything else if nothing is cut for lack of room.
    """

    def __init__(
        self,
        found: FoundItem,
        bound: Bound,
        leading: JsonObject,
        trailing: JsonObject | None = None,
        shape: RecordShape | None = None,
    ) -> None:
        piece = found.piece

        self._found = found
        self._bound = bound
        self._piece = piece
        self._leading = leading
        self._trailing = trailing or {}
        self._shape = shape

        # Only a piece that keeps its raw bytes can have markers or marks in its text.
        self._content = piece.text if piece.raw is None else replace_markers(piece.text)

        self.content_size: int = bound.measure_content(self._content)
        self.frame_size: int = self._measure_frame(is_cut=piece.rest)

    def measure_cost(self, left_out: int | None = None) -> Cost:
        """Return what this item takes of a reply whole, cut, or left out, if that is not given."""
        if left_out is None:
            record = self._leave_out()
            left_out = measure_entry(record.payload, record.next_item)

        return Cost(
            whole=self.frame_size,
            cut=self._measure_frame(is_cut=True),
            left_out=left_out,
            content=self.content_size,
        )

    def finish(self, granted: int | None) -> ReplyRecord:
        """Return the record with as much content as fits into ``granted`` bytes.

        That is at least one character, unless the content is empty. None leaves the item out.
        """
        if granted is None:
            return self._leave_out()

        chars = self._count_granted_chars(granted)
        content = self._content[:chars]
        counts = self._count_changes(chars)

        # The piece itself ends where max_chars did; only the budget can shorten it further.
        reason: CutReason = "max_chars"
        if chars < len(self._content):
            reason = "budget"
        elif not self._piece.rest:
            return ReplyRecord(self._build_payload(content, counts), chars)

        next_item = self._found.continue_at(self._piece.resume(chars))
        truncation = self._build_truncation(reason, chars, next_item)
        return ReplyRecord(self._build_payload(content, counts, truncation), chars, next_item)

    def _count_granted_chars(self, granted: int) -> int:
        if granted >= self.content_size:
            return len(self._content)

        # At least one character, so that following the next requests always ends.
        fitting = self._bound.count_fitting_chars(self._content, granted)
        return self._piece.find_cut(max(fitting, 1))

    def _count_changes(self, chars: int) -> JsonObject:
        """Return what the first characters of the content show instead of the source, if any."""
        if self._piece.raw is None:
            return {}

        counts = {
            "replaced": count_replaced(self._piece.text[:chars]),
            "redacted": self._piece.count_marks(chars),
        }
        return {name: count for name, count in counts.items() if count}

    def _measure_frame(self, *, is_cut: bool) -> int:
        """Return the bytes of everything but the content, at the widest that it can become."""
        counts = self._count_changes(len(self._content))
        if not is_cut:
            return measure_entry(self._build_payload("", counts), None)

        next_item = self._found.continue_at(self._piece.widest_resume())
        # The final reason is not known yet; max_chars is the longer one.
        truncation = self._build_truncation("max_chars", _WIDEST_COUNT, next_item)
        return measure_entry(self._build_payload("", counts, truncation), next_item)

    def _build_payload(
        self, content: str, counts: JsonObject, truncation: JsonObject | None = None
    ) -> JsonObject:
        data = {**self._found.data, "content": content, **counts}
        payload: JsonObject = {**self._leading, "success": True, "data": data, **self._trailing}
        if truncation is not None:
            payload["truncation"] = truncation

        return shape_record(payload, self._shape)

    def _build_truncation(self, reason: CutReason, chars: int, next_item: Item) -> JsonObject:
        truncation: JsonObject = {"reason": reason, "returned_chars": chars}
        if self._piece.total_chars is not None:
            truncation["total_chars"] = self._piece.total_chars

        truncation["next"] = next_item
        return truncation

    def _leave_out(self) -> ReplyRecord:
        size = self._found.size_bytes
        payload = build_left_out(size, self._leading, self._trailing, self._shape)
        return ReplyRecord(payload, next_item=self._found.item)


Entry = RecordDraft | FailedRecord | ReplyRecord


def measure_room(request: BulkRequest, bound: Bound) -> int:
    """Return the bytes that the records and their next items may take in a reply."""
    # Whether there will be a next request is not known yet, so one is counted in any case.
    empty_reply = assemble_reply(request, [], [""])
    return bound.room - json_size(empty_reply) - _COUNT_DIGITS


def finish_records(entries: Sequence[Entry], room: int) -> list[ReplyRecord]:
    """Return the records of all entries, in the same order; together they fit into ``room``.

    Those that are no drafts take what they need; the drafts share the rest.
    """
    drafts = [entry for entry in entries if isinstance(entry, RecordDraft)]
    grants: Iterator[int | None] = iter(())
    if drafts:  # in a long batch, nothing is left to share when all of it is read
        others = [entry for entry in entries if not isinstance(entry, RecordDraft)]
        taken = sum(measure_entry(entry.payload, entry.next_item) for entry in others)
        grants = iter(_grant_contents(drafts, room - taken))

    records: list[ReplyRecord] = []
    for entry in entries:
        if isinstance(entry, RecordDraft):
            records.append(entry.finish(next(grants)))
        elif isinstance(entry, ReplyRecord):
            records.append(entry)
        else:
            records.append(ReplyRecord(entry.payload))

    return records


def _grant_contents(drafts: Sequence[RecordDraft], room: int) -> Sequence[int | None]:
    """Return the bytes of content that each draft may have; None for one that is left out."""
    needed = sum(draft.frame_size + draft.content_size for draft in drafts)

    # Most replies have room for everything; costs take time, and are worked out for the others.
    if needed <= room:
        return [draft.content_size for draft in drafts]

    return share([draft.measure_cost() for draft in drafts], room)


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


def measure_entry(payload: JsonObject, next_item: Item | None) -> int:
    """Return the bytes that a record and its item in the next request add to a reply."""
    size = json_size(payload) + 1  # a comma follows each
    if next_item is not None:
        size += json_size(next_item) + 1

    return size
