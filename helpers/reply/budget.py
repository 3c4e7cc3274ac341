"""Share the bytes of one reply among its items, counted as they are serialized.

Water-filling: items that need little are whole, and the others are cut at one common level, the
highest that fits (the max-min fair allocation of Bertsekas and Gallager, "Data Networks", 6.5.2).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

MIN_SHARE = 64
"""Bytes of content that a cut item gets at least; with less room the item is left out."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one item takes of a reply, in bytes."""

    whole: int
    """Everything but the content, if the content is complete."""
    cut: int
    """Everything but the content, if the content is cut; this includes how to continue."""
    left_out: int
    """The whole record that says there was no room."""
    content: int
    """The content, after JSON escaping."""

    @property
    def saved(self) -> int:
        """The content bytes up to which the whole item costs no more than a cut one."""
        return self.content + self.whole - self.cut

    def grant_at(self, level: int) -> int:
        """Return the content bytes that this item gets at a level."""
        if self.saved <= level:
            return self.content

        return max(level, MIN_SHARE)


def share(costs: Sequence[Cost], room: int) -> list[int | None]:
    """Return the content bytes granted to each item; all costs together stay within ``room``.

    A grant of at least ``content`` is the whole item. None leaves the item out: the last ones
    first, and the first item never. The result is deterministic, and the same for equal items.
    """
    included = len(costs)

    while True:
        left_out = sum(cost.left_out for cost in costs[included:])
        grants = _fill(costs[:included], room - left_out, is_last_try=included == 1)

        if grants is not None:
            return [*grants, *([None] * (len(costs) - included))]

        # Somebody would get less than the minimum: fewer items, each with a larger part.
        included -= 1


def _fill(costs: Sequence[Cost], room: int, *, is_last_try: bool) -> list[int | None] | None:
    """Return the grants at the highest level that fits; None if one would be below the minimum.

    Every item is costed as a cut one first. The rest of the room is divided equally, from the item
    that needs least to the one that needs most: what an item does not need raises the level for
    those after it.
    """
    spare = room - sum(cost.cut for cost in costs)
    needs = sorted(cost.saved for cost in costs)

    for index, need in enumerate(needs):
        level = spare // (len(needs) - index)
        if need > level:
            break  # so do all that follow: they need as much or more
        spare -= need
    else:
        return [cost.content for cost in costs]

    # The first item is cut rather than left out, so that every reply brings its caller further.
    if level < MIN_SHARE and not is_last_try:
        return None

    return [cost.grant_at(level) for cost in costs]


def measure_escaped(text: str) -> int:
    """Return the bytes that a text takes inside a JSON string."""
    return len(orjson.dumps(text)) - 2


def count_fitting_chars(text: str, room: int) -> int:
    """Return how many characters of a text fit into ``room`` bytes of a JSON string."""
    escaped = orjson.dumps(text)[1:-1]
    end = max(room, 0)

    # Cutting the escaped bytes is faster than measuring one prefix of the text after another.
    while True:
        try:
            return len(orjson.loads(b'"' + escaped[:end] + b'"'))
        except orjson.JSONDecodeError:
            end -= 1  # an escape or a character was cut in two; the longest has six bytes
