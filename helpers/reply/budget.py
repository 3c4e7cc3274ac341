"""Share the bytes of one reply among its items, counted as they are serialized: whole items first.

The fair level decides which items are small: the highest one to which all of them could be cut
(the max-min fair allocation of Bertsekas and Gallager, "Data Networks", 6.5.2; the weighted one if
items have weights). Those below it stay whole. The larger ones follow whole, the heavier first and
then in the order asked, as long as there is room; the next one is cut where the room ends, and
those behind it are left out. So one item of a reply is cut at most.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import orjson

from abilities.declarations.limits import MAX_WEIGHT
from abilities.declarations.values import text_size

MIN_SHARE = 64
"""Bytes of content that a cut item gets at least; with less room the item is left out."""

_COMMON_MULTIPLE = math.lcm(*range(1, MAX_WEIGHT + 1))


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


class Allotment:
    """The room of a reply beyond what its items take if all of them are left out.

    ``has_content`` is whether the reply brings its caller further already; when the room
    ``is_used_up``, no more are granted.
    """

    def __init__(self, spare: int) -> None:
        self.spare = spare
        self.has_content: bool = False
        self.is_used_up: bool = False

    def grant_whole(self, size: int, left_out: int) -> bool:
        """Return whether the next item is granted whole; it takes ``left_out`` if it is left out.

        If not, nothing has changed.
        """
        room = self.spare + left_out
        if self.is_used_up or size > room:
            return False

        self.has_content = True
        self.spare = room - size
        return True

    def grant(self, cost: Cost, least: int = MIN_SHARE) -> int | None:
        """Return the content bytes granted to the next item; None leaves it out.

        A grant of at least ``content`` is the whole item. Nothing is granted after an item that was
        cut or left out. The first item is cut rather than left out, to ``least`` bytes or more, so
        that every reply brings its caller further.
        """
        if self.grant_whole(cost.whole + cost.content, cost.left_out):
            return cost.content

        if self.is_used_up:
            return None

        self.is_used_up = True
        granted = self.spare + cost.left_out - cost.cut
        if not self.has_content:
            return max(granted, least)

        return granted if granted >= MIN_SHARE else None


def share(costs: Sequence[Cost], room: int) -> list[int | None]:
    """Return the content bytes granted to each item; all costs together stay within ``room``.

    A grant of at least ``content`` is the whole item. None leaves the item out; that never happens
    to all of them.
    """
    allotment = Allotment(room - sum(cost.left_out for cost in costs))
    grants: list[int | None] = [None] * len(costs)

    for index in rank([cost.content for cost in costs], allotment.spare):
        grants[index] = allotment.grant(costs[index])

    return grants


def rank(sizes: Sequence[int], room: int, weights: Sequence[int] | None = None) -> list[int]:
    """Return the items' indices in the order in which they are granted their room.

    Small ones come first, those at the front that need the least for their weight; then the others,
    the heaviest at the front. All else being equal, they stand as they were asked for.
    """
    if weights is None:
        weights = [1] * len(sizes)

    level = find_level(sizes, room, weights)
    small: list[int] = []
    large: list[int] = []

    for index, (size, weight) in enumerate(zip(sizes, weights, strict=True)):
        if size <= level * weight:
            small.append(index)
        else:
            large.append(index)

    small.sort(key=lambda index: _measure_height(sizes[index], weights[index]))
    large.sort(key=weights.__getitem__, reverse=True)
    return small + large


def find_level(sizes: Sequence[int], room: int, weights: Sequence[int] | None = None) -> int:
    """Return the highest level at which items of these sizes fit if they are cut there.

    At a level an item has that many bytes for each unit of its weight. What an item does not need
    raises the level for the others. If all items fit, the level is that of the tallest.
    """
    if weights is None:
        weights = [1] * len(sizes)

    level = 0
    weight_left = sum(weights)
    items = list(zip(sizes, weights, strict=True))
    items.sort(key=lambda item: _measure_height(*item))

    for size, weight in items:
        if size * weight_left > room * weight:
            return room // weight_left  # all that follow are as tall or taller

        level = -(-size // weight)
        room -= size
        weight_left -= weight

    return level


def _measure_height(size: int, weight: int) -> int:
    """Return a number that orders items by their bytes per unit of weight, exactly."""
    return size * _COMMON_MULTIPLE // weight


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


Counting = Literal["json", "text", "both"]
"""How a reply is sent: as JSON, in the text format, or in both at once.

TOON has no counting of its own: such a reply is made as JSON, and again with less room if needed.
"""

_TEXT_REPLY_BYTES = 8
"""What the text format adds to a reply: the first line's end and its first number.

A boundary and two line ends take no more than the name of the content in JSON.
"""


class Bound(NamedTuple):
    """The most bytes of one reply, and how they are counted.

    In both formats at once, each part counts as in the format in which it is larger.
    """

    max_bytes: int
    counting: Counting = "json"

    @property
    def room(self) -> int:
        """The bytes for the JSON of a reply with empty contents, and for its contents."""
        if self.counting == "json":
            return self.max_bytes

        return self.max_bytes - _TEXT_REPLY_BYTES

    def measure_content(self, content: str) -> int:
        """Return the bytes that a content takes."""
        if self.counting == "text":
            return text_size(content)

        return measure_escaped(content)

    def count_fitting_chars(self, content: str, room: int) -> int:
        """Return how many characters of a content fit into ``room`` bytes."""
        if self.counting != "text":
            return count_fitting_chars(content, room)

        fitting = content.encode()[: max(room, 0)]
        return len(fitting.decode(errors="ignore"))  # of the last character a part may be left
