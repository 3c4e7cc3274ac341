"""Pages of stored memories: as many as fit into one answer, and how to go on behind them."""

from collections.abc import Sequence
from typing import NamedTuple

from abilities.declarations.detail import Detail
from abilities.declarations.faults import Fault, Refused
from abilities.declarations.limits import MAX_CONTENT_CHARS
from abilities.declarations.values import JsonObject
from abilities.helpers.memory.records import to_memory_data
from abilities.helpers.reply.bound import Bound
from abilities.helpers.reply.detail import shape_found
from abilities.helpers.reply.encoding import json_size
from abilities.helpers.store.model import StoredMemory
from abilities.helpers.store.query import Position
from abilities.helpers.text.pieces import slice_text
from abilities.helpers.text.ranges import WHOLE

_RESERVED_BYTES = 384
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
    used = _RESERVED_BYTES + json_size(given)
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
