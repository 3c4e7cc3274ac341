"""Share the bytes of one reply among its items, counted as they are serialized.

Water-filling: items that need little are whole, the others are cut at one common level, the highest
that fits (the max-min fair allocation of Bertsekas and Gallager, "Data Networks", 6.5.2).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

MIN_SHARE = 64
"""Bytes of content that a cut item must at least have room for; less than that and it is left for the next request."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one item takes of a reply, in bytes."""

    whole: int
    """Everything but its content, when the content is complete."""
    cut: int
    """Everything but its content, when it is cut, the way to continue included."""
    left_out: int
    """All of the record that says there was no room."""
    content: int
    """Its content after JSON escaping."""

    @property
    def saved(self) -> int:
        """Content bytes up to which the whole item costs no more than cutting it would."""
        return self.content + self.whole - self.cut


def share(costs: Sequence[Cost], room: int) -> list[int | None]:
    """Content bytes granted to each item so that the sum of all costs stays within ``room``.

    A grant of at least ``content`` is the whole item; None leaves the item out (the last ones first;
    the first item is never left out). Deterministic; the same for equal items.
    """
    kept = len(costs)
    while True:
        left_out = sum(cost.left_out for cost in costs[kept:])
        grants = _level(costs[:kept], room - left_out, last=kept == 1)
        if grants is not None:
            return [*grants, *([None] * (len(costs) - kept))]
        kept -= 1


def _level(costs: Sequence[Cost], room: int, *, last: bool) -> list[int | None] | None:
    """Grants at the highest level that fits; None when an item would get less than its minimum."""
    spare = room - sum(cost.cut for cost in costs)
    level, taken = 0, 0
    for place, saved in enumerate(ordered := sorted(cost.saved for cost in costs)):
        level = (spare - taken) // (len(ordered) - place)
        if saved > level:
            if level < MIN_SHARE and not last:
                return None
            break
        taken += saved
    else:
        return [cost.content for cost in costs]
    return [cost.content if cost.saved <= level else max(level, MIN_SHARE) for cost in costs]


def escaped_size(text: str) -> int:
    """Bytes of a text inside of a JSON string."""
    return len(orjson.dumps(text)) - 2


def count_fitting_chars(text: str, room: int) -> int:
    """How many characters of a text fit into ``room`` bytes of a JSON string."""
    escaped, end = orjson.dumps(text)[1:-1], max(room, 0)
    while True:
        try:
            return len(orjson.loads(b'"' + escaped[:end] + b'"'))
        except orjson.JSONDecodeError:
            end -= 1  # an escape or a character was cut in two; the longest has six bytes
