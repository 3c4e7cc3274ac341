"""Pages of stored memories: as many as fit into one answer."""

from collections.abc import Sequence
from typing import NamedTuple

from abilities.declarations.detail import Detail
from abilities.declarations.faults import Fault
from abilities.declarations.values import JsonObject
from abilities.helpers.memory.records import to_memory_data
from abilities.helpers.reply.bound import Bound
from abilities.helpers.reply.detail import shape_found
from abilities.helpers.reply.render import json_size
from abilities.helpers.stores.model import StoredMemory

_RESERVED_BYTES = 256
"""Kept free for a page's other fields."""


class FittedPage(NamedTuple):
    """As much of a page as fits.

    ``memories`` are those that could be read, and ``failed`` counts the others. ``consumed`` is how
    much of the page that is, from the front.
    """

    memories: list[JsonObject]
    failed: int
    consumed: int


def fit_page(page: Sequence[StoredMemory | Exception], bound: Bound, detail: Detail) -> FittedPage:
    """Return as many memories of a page, from the front, as fit; at least one."""
    shown: list[JsonObject] = []
    used = _RESERVED_BYTES
    failed = 0

    for position, memory in enumerate(page):
        if isinstance(memory, Exception):
            Fault.from_exception(memory)  # logs it, unless it is a refusal
            failed += 1
            continue

        # The first one is shown at any size, or a caller would never get past it.
        data = to_memory_data(memory, counters=True)
        if detail == "concise":
            data = shape_found(data)

        used += json_size({**data, "content": ""}) + 1
        used += bound.measure_content(data["content"])
        if shown and used > bound.room:
            return FittedPage(shown, failed, position)

        shown.append(data)

    return FittedPage(shown, failed, len(page))
