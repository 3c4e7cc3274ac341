"""Read parts of an open file: present bytes, and lines without holding the file in memory.

A line ends at LF, which belongs to it. A file that has become shorter since it was opened is never
taken for one that ends there.
"""

import os
from collections.abc import Callable, Iterator
from itertools import islice

from abilities.declarations.faults import Refused
from abilities.helpers.text.codec import Encoding

SCAN_LIMIT = 64 * 1024 * 1024
"""Bytes from the start of a file within which lines are looked for."""

_CHUNK = 256 * 1024


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


def skip_lines(
    fd: int, size: int, position: int, count: int, encoding: Encoding, check: Callable[[], None]
) -> int:
    """Return the byte position after ``count`` line ends, counted from ``position``.

    If there are fewer, this is the end of the file, which had ``size`` bytes when it was opened.
    ``check`` is called before each read and may raise to stop the search.

    Raises Refused: range_too_far if the search goes beyond the first 64 MiB, changed if the file
    has become shorter; and OSError.
    """
    while count > 0:
        check()
        chunk = os.pread(fd, _CHUNK, position)
        if not chunk and position < size:
            raise Refused("changed")
        if not chunk:
            break

        line_ends = _count_line_ends(chunk, encoding)
        if line_ends >= count:
            nth_end = islice(_find_line_ends(chunk, encoding), count - 1, None)
            return position + next(nth_end)

        count -= line_ends
        position += len(chunk)
        if position > SCAN_LIMIT:
            raise Refused("range_too_far")

    return position


def _count_line_ends(chunk: bytes, encoding: Encoding) -> int:
    if encoding.unit == 1:
        return chunk.count(b"\n")  # much faster than looking at each

    return sum(1 for _ in _find_line_ends(chunk, encoding))


def _find_line_ends(chunk: bytes, encoding: Encoding) -> Iterator[int]:
    """Yield the positions that follow a line end, in a chunk that begins with a whole code unit."""
    newline = "\n".encode(encoding.codec)
    index = chunk.find(newline)

    while index >= 0:
        if index % encoding.unit == 0:  # else these are halves of two UTF-16 units
            yield index + len(newline)

        index = chunk.find(newline, index + 1)
