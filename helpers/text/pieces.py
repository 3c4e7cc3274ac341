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


def hash_version(before: bytes) -> str:
    """The version of a resume point: a hash of the 4 KiB before it (BLAKE2b, 48 bits)."""
    return blake2b(before[-VERSION_WINDOW:], digest_size=VERSION_DIGITS // 2).hexdigest()


class Piece(NamedTuple):
    """A part of a decoded text that can be shortened further, and says how to fetch what is missing.

    ``text`` begins at byte ``start`` of its source; ``lead`` are up to 4 KiB of the bytes before it.
    ``rest`` is true when more of what was asked for follows; ``total_chars`` is the length of all that
    was asked for, where known; ``end`` is the byte that a bounded request ends before. ``raw`` holds the
    text's own bytes where they cannot be had by encoding it again.
    """

    text: str
    encoding: Encoding = UTF_8
    start: int = 0
    lead: bytes = b""
    rest: bool = False
    total_chars: int | None = None
    end: int | None = None
    raw: bytes | None = None

    def resume(self, chars: int) -> str:
        """The resume point after the first ``chars`` characters."""
        taken = byte_length(self.text[:chars], self.encoding)
        if self.raw is not None:
            window = self.raw[max(taken - VERSION_WINDOW, 0) : taken]
        else:
            window = self.text[max(chars - VERSION_WINDOW, 0) : chars].encode(self.encoding.codec)[
                -VERSION_WINDOW:
            ]
        return self._point(taken, hash_version(self.lead + window))

    def widest_resume(self) -> str:
        """A string as long as the longest resume point of this piece."""
        return self._point(byte_length(self.text, self.encoding), "0" * VERSION_DIGITS)

    def _point(self, taken: int, version: str) -> str:
        end = "" if self.end is None else f"-{self.end}"
        return f"byte={self.start + taken}{end}@{version}"


def slice_text(text: str, asked: Range, max_chars: int) -> Piece:
    """What ``asked`` names of a text that is held already; byte positions are those of its UTF-8.

    Raises Refused: invalid_range, changed.
    """
    raw = text.encode()
    start, end = asked.start, len(raw) if asked.end is None else min(asked.end, len(raw))
    lead = raw[max(start - VERSION_WINDOW, 0) : start]
    if asked.version is not None and (start > len(raw) or hash_version(lead) != asked.version):
        raise Refused("changed")
    if any(splits_character(raw, place, UTF_8) for place in (start, end) if place < len(raw)):
        raise Refused("invalid_range")
    part = raw[start:end].decode()
    keep = back_off(part, max_chars)
    return Piece(part[:keep], UTF_8, start, lead, keep < len(part), len(part), asked.end)
