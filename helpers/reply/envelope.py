"""Put the outcomes of many items into one reply that keeps its bound and says how to go on."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from abilities.declarations.faults import Fault, Refused
from abilities.helpers.reply.budget import Cost, count_fitting_chars, escaped_size, share
from abilities.helpers.reply.render import json_bytes, json_size
from abilities.helpers.text.codec import count_replaced, replace_markers
from abilities.helpers.text.cutting import back_off
from abilities.helpers.text.pieces import Piece

MAX_ITEM_CHARS = 1024
"""An item longer than this is wrong in itself, and only its beginning is repeated in the reply."""
MAX_ITEMS_BYTES = 8192
"""All items of one call together, as JSON."""
_INPUT_CHARS = 200
_WIDEST = 10**6  # no count of characters in a record is wider
_DIGITS = 16  # the summary's counts grow by no more than this from an empty reply's

Item = str | dict[str, Any]
"""A path or a target, as it is sent."""

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class FoundItem:
    """An item that was found.

    ``data`` is the record's data with an empty ``content`` in its place; ``again`` is the item to send
    for the same content, and ``resume`` makes the item to send for the rest from a resume point. A record
    begins with ``head`` (by default the input) and ends with ``tail``.
    """

    data: dict[str, Any]
    piece: Piece
    repeat: Item
    resume: Callable[[str], Item]
    head: dict[str, Any] | None = None
    tail: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class BulkRequest:
    """What a bulk call was asked: its items, the argument that carried them, and all arguments given."""

    argument: str
    items: Sequence[object]
    given: dict[str, Any]


def check_items_size(request: BulkRequest) -> None:
    """Refuse a call whose items are too large together. Raises Refused("invalid_parameter")."""
    texts = (_text(item) for item in request.items)
    if (
        sum(
            json_size(text if len(text) <= MAX_ITEM_CHARS else text[:_INPUT_CHARS])
            for text in texts
        )
        > MAX_ITEMS_BYTES
    ):
        raise Refused("invalid_parameter", request.argument)


def build_reply(
    request: BulkRequest, outcomes: Sequence[FoundItem | Exception], max_bytes: int
) -> dict[str, Any]:
    """One reply of at most ``max_bytes`` as JSON: a record an item, in order, and the request for the rest."""
    entries = [
        RecordDraft(item, outcome)
        if isinstance(outcome, FoundItem)
        else FailedRecord(item, Fault.from_exception(outcome))
        for item, outcome in zip(request.items, outcomes, strict=True)
    ]
    answers = [entry for entry in entries if isinstance(entry, RecordDraft)]
    failures = sum(
        json_size(entry.record) + 1 for entry in entries if isinstance(entry, FailedRecord)
    )
    settle_drafts(answers, max_bytes - failures - json_size(_reply(request, [], [""])) - _DIGITS)
    return _reply(request, entries, [entry.rest for entry in entries if entry.rest is not None])


def settle_drafts(answers: list["RecordDraft"], room: int) -> None:
    """Grant every answer its content, or all of them a fair share where there is too little room."""
    grants: list[int | None] = [answer.content for answer in answers]
    if sum(answer.whole + answer.content for answer in answers) > room:
        grants = share([answer.cost() for answer in answers], room)
    for answer, granted in zip(answers, grants, strict=True):
        answer.settle(granted)


def _reply(
    request: BulkRequest, entries: Sequence["RecordDraft | FailedRecord"], rest: Sequence[Item]
) -> dict[str, Any]:
    records = [entry.record for entry in entries]
    succeeded = sum(record["success"] for record in records)
    reply: dict[str, Any] = {
        "results": records,
        "summary": {
            "requested": len(request.items),
            "succeeded": succeeded,
            "failed": len(records) - succeeded,
            "truncated": sum("truncation" in record for record in records),
            "returned_chars": sum(entry.chars for entry in entries),
        },
    }
    if rest:
        reply["next_request"] = {**request.given, request.argument: rest}
    return reply


class FailedRecord:
    """An item that could not be read."""

    chars = 0
    rest: Item | None = None

    def __init__(
        self,
        item: object,
        fault: Fault,
        head: dict[str, Any] | None = None,
        tail: dict[str, Any] | None = None,
    ) -> None:
        text = _text(item)
        wrong = fault.code == "INVALID_INPUT"
        self.record = build_failed_record(
            head or {"input": text[:_INPUT_CHARS] if wrong else text}, fault, tail
        )


class RecordDraft:
    """An item that was found; a record once it is settled how much of its content fits."""

    def __init__(self, item: object, found: FoundItem) -> None:
        self.record: dict[str, Any] = {}
        self.rest: Item | None = None
        self.chars = 0
        self._head = {"input": _text(item)} if found.head is None else found.head
        self._found = found
        self._piece = found.piece
        self._text = (
            replace_markers(found.piece.text) if found.piece.raw is not None else found.piece.text
        )
        self.content = escaped_size(self._text)
        self.whole = self._frame(cut=found.piece.rest)

    def cost(self) -> Cost:
        """What this item takes whole, cut, or left out."""
        left_out = json_size(self._left_out()) + _rest_size(self._found.repeat)
        return Cost(self.whole, max(self._frame(cut=True), self.whole), left_out, self.content)

    def settle(self, granted: int | None) -> None:
        """Make the record, with as much of the content as was granted."""
        if granted is None:
            self.record, self.rest = self._left_out(), self._found.repeat
            return
        fits = granted >= self.content
        self.chars = (
            len(self._text)
            if fits
            else back_off(self._text, max(count_fitting_chars(self._text, granted), 1))
        )
        if self._piece.rest or self.chars < len(self._text):
            self.rest = self._found.resume(self._piece.resume(self.chars))
        self.record = self._record(self.chars, self.rest, self.chars)

    def _frame(self, *, cut: bool) -> int:
        """Bytes of everything but the content, at their widest."""
        rest = self._found.resume(self._piece.widest_resume()) if cut else None
        return json_size(self._record(0, rest, _WIDEST)) + _rest_size(rest)

    def _record(self, chars: int, rest: Item | None, returned: int) -> dict[str, Any]:
        piece = self._piece
        data = {**self._found.data, "content": self._text[:chars]}
        if piece.raw is not None and (
            replaced := count_replaced(piece.text[:chars] if chars else piece.text)
        ):
            data["replaced"] = replaced
        record: dict[str, Any] = {**self._head, "success": True, "data": data, **self._found.tail}
        if rest is not None:
            reason = "max_chars" if chars == len(self._text) or returned == _WIDEST else "budget"
            total = {} if piece.total_chars is None else {"total_chars": piece.total_chars}
            record["truncation"] = {
                "reason": reason,
                "returned_chars": returned,
                **total,
                "next": rest,
            }
        return record

    def _left_out(self) -> dict[str, Any]:
        return build_failed_record(
            self._head, Fault.from_reason("response_budget"), self._found.tail
        )


def build_failed_record(
    head: dict[str, Any], fault: Fault, tail: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The record of something that could not be read."""
    return {**head, "success": False, "error": fault.to_payload(), **(tail or {})}


def _rest_size(rest: Item | None) -> int:
    """Bytes that an item adds: the comma after its record, and its place in the next request."""
    return 1 + (0 if rest is None else json_size(rest) + 1)


def _text(item: object) -> str:
    """An item as the reply repeats it: a string as it is, anything else as compact JSON."""
    if not isinstance(item, str):
        try:
            return json_bytes(item).decode()
        except TypeError:
            return "?"
    return _SURROGATE.sub("\ufffd", item)
