"""Read files line by line, in bounded memory however long a file or a line is.

A stream is one file, read in large chunks: here the hop to a thread that `aiofiles` makes per chunk
is cheap. Many small files are a batch instead: see `abilities.helpers.threads.workers`.
"""

from codecs import BOM_UTF8
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import NamedTuple

import aiofiles

CHUNK = 1 << 20
MAX_LINE = 64 << 20
"""The longest line that is read, in bytes; longer ones are skipped and reported."""


class Line(NamedTuple):
    """A line of a file, without its newline.

    ``text`` is None if the line is longer than `MAX_LINE`. ``end`` is the offset of the first byte
    after the line, and ``is_whole`` is false for a last line without a newline.
    """

    number: int
    text: bytes | None
    end: int
    is_whole: bool = True


async def read_lines(path: Path) -> AsyncIterator[Line]:
    """Yield the lines of a file; blank lines are left out."""
    splitter = _LineSplitter()

    async with aiofiles.open(path, "rb") as file:
        while chunk := await file.read(CHUNK):
            for line in splitter.feed(chunk):
                yield line

    last_line = splitter.finish()
    if last_line is not None:
        yield last_line


class _LineSplitter:
    """Cuts chunks of a file into lines; it holds no more than one line at a time."""

    def __init__(self) -> None:
        self._number = 0
        self._end = 0
        self._rest = b""
        self._is_skipping = False

    def feed(self, chunk: bytes) -> Iterator[Line]:
        """Yield the lines that end in a chunk."""
        *texts, rest = (self._rest + chunk).split(b"\n")

        for text in texts:
            self._number += 1
            self._end += len(text) + 1

            if self._is_skipping or len(text) > MAX_LINE:
                yield Line(self._number, None, self._end)
            elif text.strip():
                yield Line(self._number, _strip_mark(self._number, text), self._end)

            self._is_skipping = False

        self._rest = rest
        if len(rest) > MAX_LINE:
            # The text is dropped, so that memory stays bounded; only its length still counts.
            self._end += len(rest)
            self._rest = b""
            self._is_skipping = True

    def finish(self) -> Line | None:
        """Return the last line if the file does not end with a newline."""
        end = self._end + len(self._rest)

        if self._is_skipping:
            return Line(self._number + 1, None, end, is_whole=False)

        if self._rest.strip():
            number = self._number + 1
            return Line(number, _strip_mark(number, self._rest), end, is_whole=False)

        return None


def _strip_mark(number: int, text: bytes) -> bytes:
    """Return the text of a line without the byte order mark that some editors begin a file with."""
    return text.removeprefix(BOM_UTF8) if number == 1 else text
