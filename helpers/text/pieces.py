"""Pieces: parts of a decoded text that know how to continue."""

from hashlib import blake2b
from typing import NamedTuple

from abilities.declarations.faults import Refused
from abilities.helpers.text.codec import UTF_8, Encoding, byte_length
from abilities.helpers.text.cutting import back_off, splits_character
from abilities.helpers.text.ranges import Range

VERSION_WINDOW = 4096
"""Bytes before a resume point that its version stands for."""

VERSION_DIGITS = 12
"""Hexadecimal digits of a version: 48 bits."""


def hash_version(before: bytes) -> str:
    """Return the version of a resume point: a hash of the 4 KiB before it (BLAKE2b, 48 bits)."""
    return blake2b(before[-VERSION_WINDOW:], digest_size=VERSION_DIGITS // 2).hexdigest()


class Mark(NamedTuple):
    """A part of a piece's text that stands for ``size`` bytes of other text in its source."""

    start: int
    end: int
    size: int


class Piece(NamedTuple):
    """A part of a decoded text that can be shortened further and says how to fetch the rest.

    ``text`` begins at byte ``start`` of its source, and ``lead`` is up to 4 KiB of the bytes
    before it. ``rest`` is true if more of the requested part follows. ``total_chars`` is the
    length of the whole requested part, if known. ``end`` is the byte that a bounded request ends
    before. ``marks`` are in order. ``raw`` holds the text's own bytes if encoding the text would
    not give them back, because it has markers or marks. ``lines`` is how many lines the whole
    source has, if all of it was read.
    """

    text: str
    encoding: Encoding = UTF_8
    start: int = 0
    lead: bytes = b""
    rest: bool = False
    total_chars: int | None = None
    end: int | None = None
    raw: bytes | None = None
    marks: tuple[Mark, ...] = ()
    lines: int | None = None

    def find_cut(self, chars: int) -> int:
        """Return where to cut to keep ``chars`` characters at most, and no character or mark split.

        Only a mark at the start may be longer than that: a cut is never to nothing.
        """
        place = back_off(self.text, chars)

        for mark in self.marks:
            if mark.start < place < mark.end:
                return mark.start or mark.end

        return place

    def count_marks(self, chars: int) -> int:
        """Return how many marks are in the first ``chars`` characters, which end in none."""
        return sum(mark.end <= chars for mark in self.marks)

    def measure(self, chars: int) -> int:
        """Return how many bytes the first ``chars`` characters came from."""
        length = position = 0

        for mark in self.marks[: self.count_marks(chars)]:
            length += byte_length(self.text[position : mark.start], self.encoding) + mark.size
            position = mark.end

        return length + byte_length(self.text[position:chars], self.encoding)

    def resume(self, chars: int) -> str:
        """Return the resume point after the first ``chars`` characters.

        For example ``byte=20480@0f3a56b1c2d4``, or ``byte=20480-40960@0f3a56b1c2d4`` of a bounded
        request.
        """
        length = self.measure(chars)

        if self.raw is not None:
            before = self.raw[max(length - VERSION_WINDOW, 0) : length]
        else:
            # As many characters as the window has bytes always fill it.
            last_chars = self.text[max(chars - VERSION_WINDOW, 0) : chars]
            before = last_chars.encode(self.encoding.codec)[-VERSION_WINDOW:]

        return self._format_point(length, hash_version(self.lead + before))

    def widest_resume(self) -> str:
        """Return a string as long as the longest resume point of this piece."""
        length = self.measure(len(self.text))
        return self._format_point(length, "0" * VERSION_DIGITS)

    def _format_point(self, length: int, version: str) -> str:
        start = self.start + length
        if self.end is None:
            return f"byte={start}@{version}"

        return f"byte={start}-{self.end}@{version}"


def slice_text(text: str, requested: Range, max_chars: int) -> Piece:
    """Return the requested part of a text that is already in memory, ``max_chars`` of it at most.

    Byte positions are those of the text's UTF-8.

    Raises Refused: invalid_range, changed.
    """
    raw = text.encode()
    start, end = requested.start, len(raw)
    if requested.end is not None:
        end = min(requested.end, len(raw))

    lead = raw[max(start - VERSION_WINDOW, 0) : start]
    is_shorter = start > len(raw)
    if requested.version is not None and (is_shorter or hash_version(lead) != requested.version):
        raise Refused("changed")

    for position in (start, end):
        if position < len(raw) and splits_character(raw, position, UTF_8):
            raise Refused("invalid_range")

    part = raw[start:end].decode()
    length = back_off(part, max_chars)
    return Piece(
        text=part[:length],
        encoding=UTF_8,
        start=start,
        lead=lead,
        rest=length < len(part),
        total_chars=len(part),
        end=requested.end,
    )
