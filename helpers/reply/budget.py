"""Divide the bytes of one reply among its items, as they are serialized: whole items first.

The fair level decides which items are small: the highest one to which all of them could be cut
(the max-min fair allocation of Bertsekas and Gallager, "Data Networks", 6.5.2; the weighted one if
items have weights). The small items stay whole. The larger ones follow whole, the heavier first and
then in the order of the request, as long as there is room. The next one is cut at the end of the
room, and the rest are left out. So at most one item of a reply is cut.

These terms mean the same in all code that builds replies:

- bound: the most bytes that a reply may take, and the format in which they are counted
- room: the bytes that are still free
- size: the bytes that something takes as it is sent
- overhead: the bytes of the fixed parts around a content or around records
- share: the bytes of content that one item gets of the room
- reserve: the bytes kept free for fields that are known last
"""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import orjson

from abilities.declarations.limits import MAX_WEIGHT
from abilities.declarations.values import JsonObject, json_size, text_size

MIN_SHARE = 64
"""The least share of an item that is cut; with less room the item is left out."""

Counting = Literal["json", "text", "both"]
"""How a reply is sent: as JSON, in the text format, or in both at once.

There is none for TOON: such a reply is built as JSON, and again with less room if needed.
"""

_COMMON_MULTIPLE = math.lcm(*range(1, MAX_WEIGHT + 1))

_TEXT_OVERHEAD = 8
"""The first line end and the first number of a reply in the text format.

A boundary and two line ends take no more than the name of the content in JSON.
"""


class Bound(NamedTuple):
    """The most bytes of one reply, and the format in which they are counted.

    In both formats at once, each part counts as in the format in which it is larger.
    """

    max_bytes: int
    counting: Counting = "json"

    @property
    def room(self) -> int:
        """The bytes for the JSON of a reply with empty contents, and for its contents."""
        if self.counting == "json":
            return self.max_bytes

        return self.max_bytes - _TEXT_OVERHEAD

    def measure_content(self, content: str) -> int:
        """Return the size of a content."""
        if self.counting == "text":
            return text_size(content)

        return measure_escaped(content)

    def count_fitting_chars(self, content: str, room: int) -> int:
        """Return how many characters of a content fit into ``room`` bytes."""
        if self.counting != "text":
            return count_fitting_chars(content, room)

        fitting = content.encode()[: max(room, 0)]
        return len(fitting.decode(errors="ignore"))  # the last character may be cut in two


class ItemSize(NamedTuple):
    """The size of one item in a reply, in bytes: whole, cut, or left out.

    ``content`` is counted after JSON escaping, and ``overhead`` is everything else. If the content
    is cut, that is ``cut_overhead``, with the place to continue. ``left_out`` is the whole record
    of an item without room.
    """

    overhead: int
    cut_overhead: int
    left_out: int
    content: int


class Allocator:
    """Allocates the room of a reply that already counts every item as left out.

    ``has_content`` is whether the reply has any content yet. Once the room ``is_used_up``, no
    further item gets a share.
    """

    def __init__(self, room: int) -> None:
        self.room = room
        self.has_content: bool = False
        self.is_used_up: bool = False

    def allocate(self, size: ItemSize, min_share: int = MIN_SHARE) -> int | None:
        """Return the share of the next item; None leaves it out.

        A share of ``size.content`` or more is the whole item. After an item that was cut or left
        out, no other gets a share. The first item is cut rather than left out, to ``min_share``
        bytes or more, so that every reply makes progress.
        """
        if self.is_used_up:
            return None

        # The room counts the item as left out, so the bytes of that record are free again.
        room = self.room + size.left_out
        whole = size.overhead + size.content
        if whole <= room:
            self.has_content = True
            self.room = room - whole
            return size.content

        self.is_used_up = True
        share = room - size.cut_overhead
        if not self.has_content:
            return max(share, min_share)

        return share if share >= MIN_SHARE else None


def share_room(sizes: Sequence[ItemSize], room: int) -> list[int | None]:
    """Return the share of each item; together the items stay within ``room``.

    A share of ``content`` bytes or more is the whole item. None leaves the item out; that never
    happens to all of them.

    >>> small = ItemSize(overhead=250, cut_overhead=420, left_out=200, content=1_000)
    >>> large = ItemSize(overhead=250, cut_overhead=420, left_out=200, content=9_000)
    >>> share_room([large, small, large], 8_000)
    [6130, 1000, None]
    """
    allocator = Allocator(room - sum(size.left_out for size in sizes))
    shares: list[int | None] = [None] * len(sizes)

    for index in rank([size.content for size in sizes], allocator.room):
        shares[index] = allocator.allocate(sizes[index])

    return shares


def rank(sizes: Sequence[int], room: int, weights: Sequence[int] | None = None) -> list[int]:
    """Return the items' indices in the order in which they get room.

    Small ones come first, by their size per unit of weight; then the others, the heaviest first.
    Ties keep the order of the request.

    >>> rank([900, 30, 800, 10], room=700)
    [3, 1, 0, 2]
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

    At a level, an item has that many bytes for each unit of its weight. An item that needs less
    raises the level for the others. If all items fit, the level is that of the tallest.

    >>> find_level([100, 900, 500], room=900)
    400
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


def count_fitting(entries: Sequence[JsonObject], room: int) -> int:
    """Return how many entries fit, from the front; at least one, so that requests make progress."""
    for count, entry in enumerate(entries):
        room -= json_size(entry) + 1
        if room < 0:
            return max(count, 1)

    return len(entries)


def measure_escaped(text: str) -> int:
    """Return the size of a text inside a JSON string.

    >>> measure_escaped('"')
    2
    """
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
