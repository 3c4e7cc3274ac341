"""Find lines in a file without holding it in memory. A line ends at LF, and its end belongs to it."""

import os
from collections.abc import Callable, Iterator

from abilities.declarations.faults import Refused
from abilities.helpers.text.codec import Encoding

SCAN_LIMIT = 64 * 1024 * 1024
"""Bytes from the start of a file within which lines are looked for."""
_CHUNK = 256 * 1024


def skip_lines(
    fd: int, position: int, count: int, encoding: Encoding, check: Callable[[], None]
) -> int:
    """The byte position after ``count`` line ends from ``position``; the end of the file where there are fewer.

    Raises Refused("range_too_far") when the search goes beyond the first 64 MiB, and OSError.
    """
    while count > 0:
        check()
        chunk = os.pread(fd, _CHUNK, position)
        if not chunk:
            break
        ends = (
            chunk.count(b"\n")
            if encoding.unit == 1
            else sum(1 for _ in _line_ends(chunk, encoding))
        )
        if ends >= count:
            return position + _nth(_line_ends(chunk, encoding), count)
        count -= ends
        position += len(chunk)
        if position > SCAN_LIMIT:
            raise Refused("range_too_far")
    return position


def _nth(ends: Iterator[int], count: int) -> int:
    for _ in range(count - 1):
        next(ends)
    return next(ends)


def _line_ends(chunk: bytes, encoding: Encoding) -> Iterator[int]:
    """Positions in a chunk that follow a line end; a chunk begins between characters' units."""
    newline = "\n".encode(encoding.codec)
    at = chunk.find(newline)
    while at >= 0:
        if at % encoding.unit == 0:
            yield at + len(newline)
        at = chunk.find(newline, at + 1)
