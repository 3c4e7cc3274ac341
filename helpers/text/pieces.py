"""Pieces: parts of a decoded text that know how to continue.

Ranges: the part of a text that a suffix or a resume point asks for.

Find where a text may be cut: between characters, as its bytes and as its readers see them.
"""

import re
import unicodedata
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal, NamedTuple

from abilities.declarations.refusals import Refused
from abilities.helpers.text.codec import UTF_8, Encoding, byte_length

# 18 digits: a position always fits into 64 bits.
_RANGE = re.compile(
    r"""
    L- (?P<trailing>\d{1,18})
    | L (?P<first>\d{1,18})  (?P<dash> - (?: L? (?P<last>\d{1,18}) )? )?
    | byte= (?P<start>\d{1,18})  (?: - (?P<end>\d{1,18}) )?  (?: @ (?P<version>[0-9a-z]{1,32}) )?
    """,
    re.ASCII | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Range:
    """The requested part of a text: lines (from 1, inclusive) or bytes (end exclusive).

    ``first_line`` tells the two apart; a ``last_line`` or ``end`` of None is the end of the text.
    ``trailing_lines`` asks for so many lines at the end instead. ``version`` is the hash of the
    bytes before ``start`` that a resume point carries.
    """

    first_line: int | None = None
    last_line: int | None = None
    trailing_lines: int | None = None
    start: int = 0
    end: int | None = None
    version: str | None = None
    is_whole: bool = False


WHOLE = Range(is_whole=True)
"""All of a text, requested without any range. Unlike ``byte=0``, it may be read in one go."""


def split_suffix(item: str) -> tuple[str, str]:
    """Split a path from its last ``#`` suffix if that is a range; else the suffix is empty."""
    path, mark, suffix = item.rpartition("#")
    if mark and _RANGE.fullmatch(suffix):
        return path, suffix

    return item, ""


def parse_range(text: str) -> Range:
    """Return the range of a suffix, such as ``L10-L40``, ``L-50`` or ``byte=20480-40960@0f3a56b1``.

    Raises Refused: invalid_range.
    """
    match = _RANGE.fullmatch(text)
    if match is None:
        raise Refused("invalid_range")

    if match["trailing"]:
        return _parse_trailing_lines(match)
    if match["first"]:
        return _parse_lines(match)

    return _parse_bytes(match)


def _parse_lines(match: re.Match[str]) -> Range:
    """Return the lines of ``L10`` (one line), ``L10-`` (to the end), ``L10-L40`` or ``L10-40``."""
    first = int(match["first"])
    last: int | None = first
    if match["dash"]:
        last = _parse_optional(match["last"])

    if first < 1 or (last is not None and last < first):
        raise Refused("invalid_range")

    return Range(first_line=first, last_line=last)


def _parse_trailing_lines(match: re.Match[str]) -> Range:
    """Return the lines of ``L-50``, the last 50."""
    count = int(match["trailing"])
    if count < 1:
        raise Refused("invalid_range")

    return Range(trailing_lines=count)


def _parse_bytes(match: re.Match[str]) -> Range:
    start = int(match["start"])
    end = _parse_optional(match["end"])

    if end is not None and end < start:
        raise Refused("invalid_range")

    return Range(start=start, end=end, version=match["version"])


def _parse_optional(digits: str | None) -> int | None:
    return int(digits) if digits else None


BACK_OFF = 32
"""Code points that a cut moves back at most to keep a user-perceived character whole."""

# UTF-16 (The Unicode Standard, table 3-5): a high and a low surrogate are one character.
_HIGH_SURROGATES = range(0xD800, 0xDC00)
_LOW_SURROGATES = range(0xDC00, 0xE000)

# UTF-8 (The Unicode Standard, table 3-7): the first byte says how many bytes its character has.
_LEADS_OF_TWO = range(0xC2, 0xE0)
_LEADS_OF_THREE = range(0xE0, 0xF0)
_LEADS_OF_FOUR = range(0xF0, 0xF5)

# What joins with the character before it (Unicode Standard Annex 29, grapheme clusters).
_FIRST_COMBINING = "\u0300"  # below it nothing joins, except LF after CR
_ZERO_WIDTH_JOINER = "\u200d"  # as in the emoji of a family
_MARK_CATEGORIES = frozenset({"Mn", "Mc", "Me"})  # accents, vowel signs, variation selectors
_EMOJI_MODIFIERS = range(0x1F3FB, 0x1F400)  # skin tones
_TAGS = range(0xE0020, 0xE0080)  # as in the flag of Scotland
_REGIONAL_INDICATORS = range(0x1F1E6, 0x1F200)  # two of these letters are one flag
_HANGUL_JAMO = range(0x1100, 0x1200)  # the letters of Korean syllables
_HANGUL_VOWELS_AND_TRAILS = range(0x1160, 0x1200)  # jamo that continue a syllable
_HANGUL_SYLLABLES = range(0xAC00, 0xD7A4)  # composed syllables, which jamo may continue


def splits_character(raw: bytes, position: int, encoding: Encoding) -> bool:
    """Return whether a position lies inside a valid character.

    ``raw`` are the bytes around the position; three on each side are enough.
    """
    if encoding.unit == 2:
        return _splits_surrogate_pair(raw, position, encoding)

    return _splits_utf_8_sequence(raw, position)


def _splits_surrogate_pair(raw: bytes, position: int, encoding: Encoding) -> bool:
    if position < 2:
        return False

    order: Literal["little", "big"] = "little" if encoding.name == "utf-16-le" else "big"
    before = int.from_bytes(raw[position - 2 : position], order)
    after = int.from_bytes(raw[position : position + 2], order)
    return before in _HIGH_SURROGATES and after in _LOW_SURROGATES


def _splits_utf_8_sequence(raw: bytes, position: int) -> bool:
    """Look for a first byte, three before the position at most, whose character goes beyond it."""
    for distance in range(1, min(3, position) + 1):
        start = position - distance
        length = _sequence_length(raw[start])

        if length > distance and _is_one_character(raw[start : start + length], length):
            return True

    return False


def _sequence_length(lead: int) -> int:
    """Return how many bytes a character has that begins with this byte."""
    if lead in _LEADS_OF_TWO:
        return 2

    if lead in _LEADS_OF_THREE:
        return 3

    if lead in _LEADS_OF_FOUR:
        return 4

    return 1


def _is_one_character(raw: bytes, length: int) -> bool:
    if len(raw) != length:
        return False

    try:
        return len(raw.decode()) == 1
    except UnicodeDecodeError:
        return False


def back_off(text: str, position: int) -> int:
    """Return the last place up to ``position`` that does not split a user-perceived character.

    Follows Unicode Standard Annex 29 for what readers meet: combining marks, variation selectors,
    emoji sequences and flags, Hangul syllables, CR LF. Moves back 32 code points at most and never
    to the start of the text: if that is not enough, the cut stays at ``position``.
    """
    if position >= len(text):
        return len(text)

    for candidate in range(position, max(position - BACK_OFF, 0), -1):
        if not _is_joined(text, candidate):
            return candidate

    return position


def _is_joined(text: str, position: int) -> bool:
    """Return whether the characters on both sides of a position are seen as one."""
    before, after = text[position - 1], text[position]
    if after < _FIRST_COMBINING:
        return before == "\r" and after == "\n"

    return (
        _ZERO_WIDTH_JOINER in (before, after)
        or _extends_character(after)
        or _continues_syllable(before, after)
        or _splits_flag(text, position)
    )


def _extends_character(after: str) -> bool:
    point = ord(after)
    return (
        unicodedata.category(after) in _MARK_CATEGORIES
        or point in _EMOJI_MODIFIERS
        or point in _TAGS
    )


def _continues_syllable(before: str, after: str) -> bool:
    if ord(after) not in _HANGUL_VOWELS_AND_TRAILS:
        return False

    return ord(before) in _HANGUL_JAMO or ord(before) in _HANGUL_SYLLABLES


def _splits_flag(text: str, position: int) -> bool:
    """Return whether a cut would part the two regional indicators of a flag.

    Indicators pair up from the left, so an odd number of them before the cut is half a flag.
    Counting ends after twice the distance that a cut moves back.
    """
    if ord(text[position]) not in _REGIONAL_INDICATORS:
        return False

    count = 0
    limit = min(position, 2 * BACK_OFF)
    while count < limit and ord(text[position - 1 - count]) in _REGIONAL_INDICATORS:
        count += 1

    return count % 2 == 1


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
