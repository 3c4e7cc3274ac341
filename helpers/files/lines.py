"""Read parts of an open file: present bytes, and lines without holding the file in memory.

A line ends at LF, which belongs to it. A file that has become shorter since it was opened is never
taken for one that ends there.
"""

import os
from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import islice

from abilities.declarations.faults import Refused
from abilities.helpers.text.codec import Encoding

SCAN_LIMIT = 64 * 1024 * 1024
"""Bytes from the start or the end of a file within which lines are looked for."""

_CHUNK = 256 * 1024
_FEW_BYTES = 512  # in which line ends are looked for one after another


def read_present(fd: int, size: int, position: int, count: int) -> bytes:
    """Read ``count`` bytes of a file that had ``size`` bytes when it was opened.

    There are fewer only if the file ended before them then. Raises Refused("changed") if it has
    become shorter since, and OSError.
    """
    present = min(count, size - position)
    raw = os.pread(fd, count, position)

    while len(raw) < present:
        more = os.pread(fd, present - len(raw), position + len(raw))
        if not more:
            raise Refused("changed")
        raw += more

    return raw


def count_lines(text: str) -> int:
    """Return how many lines a text has; the last one may lack a line end."""
    line_ends = text.count("\n")
    if not text or text.endswith("\n"):
        return line_ends

    return line_ends + 1


class KnownLines:
    """Where lines of one file begin, as far as they have been looked for.

    Kept for as long as the file stays the same, so that several parts of it cost one search. Counts
    and positions are all from its start, or all from its end.
    """

    def __init__(self) -> None:
        self._places: list[tuple[int, int]] = []

    def add(self, count: int, position: int) -> None:
        """Remember that ``count`` lines end before a position."""
        place = (count, position)
        index = bisect_left(self._places, place)
        if self._places[index : index + 1] != [place]:
            self._places.insert(index, place)

    def find_before(self, count: int, begin: int) -> tuple[int, int]:
        """Return the last known place before which fewer than ``count`` lines end.

        That is how many do, and its position; ``begin`` is the position of the first line.
        """
        # A place with as many may lie anywhere in the next line.
        index = bisect_left(self._places, (count, 0))
        return self._places[index - 1] if index else (0, begin)


def find_line(
    fd: int,
    size: int,
    begin: int,
    count: int,
    encoding: Encoding,
    check: Callable[[], None],
    known: KnownLines,
) -> int:
    """Return the byte position after ``count`` line ends, counted from ``begin``.

    If there are fewer, this is the end of the file, which had ``size`` bytes when it was opened.
    ``check`` is called before each read and may raise to stop the search. What the search passes
    becomes known.

    Raises Refused: range_too_far if the search goes beyond the first 64 MiB, changed if the file
    has become shorter; and OSError.
    """
    if not count:
        return begin

    passed, position = known.find_before(count, begin)
    while True:
        check()
        # Up to the same places wherever it began, so that the limit is the same too.
        chunk = os.pread(fd, _CHUNK - (position - begin) % _CHUNK, position)
        if not chunk and position < size:
            raise Refused("changed")
        if not chunk:
            return position

        line_ends = _count_line_ends(chunk, encoding)
        if passed + line_ends >= count:
            position += _find_line_end(chunk, count - passed, encoding)
            known.add(count, position)
            return position

        passed += line_ends
        position += len(chunk)
        if position > SCAN_LIMIT:
            raise Refused("range_too_far")

        known.add(passed, position)


def find_trailing(
    fd: int,
    size: int,
    begin: int,
    count: int,
    encoding: Encoding,
    check: Callable[[], None],
    known: KnownLines,
) -> int:
    """Return the byte position at which the last ``count`` lines begin, looked for from the end.

    If there are fewer, this is ``begin``. The file had ``size`` bytes when it was opened; a line
    end that it ends with belongs to the last line. ``known`` counts from the end.

    Raises Refused: range_too_far if the search goes beyond the last 64 MiB, changed if the file has
    become shorter; and OSError.
    """
    end = size - _measure_last_line_end(fd, size, begin, encoding)
    passed, distance = known.find_before(count, size - end)
    position = size - distance

    while position > begin:
        check()
        # From the same places wherever it ends, so that code units are whole.
        start = position - ((position - begin - 1) % _CHUNK + 1)
        chunk = read_present(fd, size, start, position - start)

        line_ends = _count_line_ends(chunk, encoding)
        if passed + line_ends >= count:
            # The first of the lines follows the line end of this number.
            number = passed + line_ends - count + 1
            position = start + _find_line_end(chunk, number, encoding)
            known.add(count - 1, size - position)
            return position

        passed += line_ends
        position = start
        if size - position > SCAN_LIMIT:
            raise Refused("range_too_far")

        known.add(passed, size - position)

    return begin


def _measure_last_line_end(fd: int, size: int, begin: int, encoding: Encoding) -> int:
    """Return how many bytes the line end has that a file ends with; 0 if it ends with none."""
    newline = "\n".encode(encoding.codec)
    start = size - len(newline)
    if start < begin or (size - begin) % encoding.unit:
        return 0

    return len(newline) if read_present(fd, size, start, len(newline)) == newline else 0


def _count_line_ends(chunk: bytes, encoding: Encoding) -> int:
    if encoding.unit == 1:
        return chunk.count(b"\n")  # much faster than looking at each

    return sum(1 for _ in _find_line_ends(chunk, encoding))


def _find_line_end(chunk: bytes, count: int, encoding: Encoding) -> int:
    """Return the position that follows the line end of this number, counted from 1."""
    if encoding.unit == 2:
        return next(islice(_find_line_ends(chunk, encoding), count - 1, None))

    # Halving: counting is much faster than looking at each.
    start, end = 0, len(chunk)
    while end - start > _FEW_BYTES:
        middle = (start + end) // 2
        line_ends = chunk.count(b"\n", start, middle)
        if line_ends >= count:
            end = middle
        else:
            count -= line_ends
            start = middle

    for _ in range(count):
        start = chunk.index(b"\n", start) + 1

    return start


def _find_line_ends(chunk: bytes, encoding: Encoding) -> Iterator[int]:
    """Yield the positions that follow a line end, in a chunk that begins with a whole code unit."""
    newline = "\n".encode(encoding.codec)
    index = chunk.find(newline)

    while index >= 0:
        if index % encoding.unit == 0:  # else these are halves of two UTF-16 units
            yield index + len(newline)

        index = chunk.find(newline, index + 1)
