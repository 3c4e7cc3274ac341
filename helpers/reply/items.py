"""The items of a bulk request: what they may be, and how their records repeat them."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from abilities.declarations.faults import Refused
from abilities.declarations.values import JsonObject, as_object
from abilities.helpers.reply.detail import RecordShape
from abilities.helpers.reply.encoding import json_bytes, json_size
from abilities.helpers.text.ranges import split_suffix

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
