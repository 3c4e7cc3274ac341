"""Texts: decoding bytes, requesting a part, cutting it, and continuing after the cut.

Decoding loses no byte. One *marker* replaces each undecodable byte sequence, and is a lone
surrogate, which no valid text contains, and its code point gives the number of bytes. So every
position in the text leads back to a byte. Readers see U+FFFD instead of a marker, exactly as
``bytes.decode(errors="replace")`` returns it.

A cut never splits a character, neither its bytes nor what a reader sees as one character.
"""

import codecs
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal, NamedTuple

from abilities.declarations.refusals import Refused

_MARKER_BASE = 0xD800
"""The code point ``_MARKER_BASE + n`` replaces n undecodable bytes."""

_MARKERS = [chr(_MARKER_BASE + length) for length in (1, 2, 3, 4)]
_ERROR_HANDLER = "abilities.mark"

_ESCAPE_BASE = 0xDC00
"""The handler "surrogateescape" replaces a byte by the code point ``_ESCAPE_BASE + byte``."""

_ESCAPED_BYTES = [chr(_ESCAPE_BASE + byte) for byte in range(0x80, 0x100)]

_CONTINUATIONS = _ESCAPED_BYTES[:64]

# The escaped first two bytes of characters of three and four bytes (The Unicode Standard, table
# 3-7): possible first bytes, and the range of the second.
_BEGINNINGS_OF_THREE = (
    ("\udce0", "[\udca0-\udcbf]"),
    (
        "\udce1\udce2\udce3\udce4\udce5\udce6\udce7\udce8\udce9\udcea\udceb\udcec\udcee\udcef",
        "[\udc80-\udcbf]",
    ),
    ("\udced", "[\udc80-\udc9f]"),
)
_BEGINNINGS_OF_FOUR = (
    ("\udcf0", "[\udc90-\udcbf]"),
    ("\udcf1\udcf2\udcf3", "[\udc80-\udcbf]"),
    ("\udcf4", "[\udc80-\udc8f]"),
)

# Undecodable sequences of several bytes, longer ones first: the possible first bytes, a pattern and
# a marker. The longest beginning of a character is one sequence (The Unicode Standard, section 3.9:
# substitution of maximal subparts); any other byte is a sequence alone.
_SEQUENCES = [
    (firsts, re.compile(f"[{firsts}]{second}[\udc80-\udcbf]"), _MARKERS[2])
    for firsts, second in _BEGINNINGS_OF_FOUR
] + [
    (firsts, re.compile(f"[{firsts}]{second}"), _MARKERS[1])
    for firsts, second in _BEGINNINGS_OF_FOUR + _BEGINNINGS_OF_THREE
]

# The codecs module's own functions: `bytes.decode` cannot leave an incomplete end for later.
_DECODERS = {
    "utf-8": codecs.utf_8_decode,
    "utf-16-le": codecs.utf_16_le_decode,
    "utf-16-be": codecs.utf_16_be_decode,
}


def _mark(error: UnicodeError) -> tuple[str, int]:
    """Replace an undecodable byte sequence by a marker; an error handler for codecs."""
    assert isinstance(error, UnicodeDecodeError)
    length = error.end - error.start
    return chr(_MARKER_BASE + length), error.end


codecs.register_error(_ERROR_HANDLER, _mark)


@dataclass(frozen=True, slots=True)
class Encoding:
    """An encoding of a text.

    ``bom`` is the size of the byte order mark in bytes, ``unit`` the size of a code unit: 1 or 2.
    """

    name: str
    bom: int
    unit: int

    @property
    def codec(self) -> str:
        """The codec for the bytes after the byte order mark."""
        if self.unit == 1:
            return "utf-8"

        return self.name


UTF_8 = Encoding("utf-8", bom=0, unit=1)

_ENCODINGS_BY_BOM = {
    codecs.BOM_UTF8: Encoding("utf-8-sig", bom=3, unit=1),
    codecs.BOM_UTF16_LE: Encoding("utf-16-le", bom=2, unit=2),
    codecs.BOM_UTF16_BE: Encoding("utf-16-be", bom=2, unit=2),
}


def detect_encoding(head: bytes) -> Encoding:
    """Return the encoding that a byte order mark indicates, or UTF-8 without one."""
    for bom, encoding in _ENCODINGS_BY_BOM.items():
        if head.startswith(bom):
            return encoding

    return UTF_8


def decode(raw: bytes, encoding: Encoding, *, final: bool) -> tuple[str, bool]:
    """Return the text of some bytes, and whether it has markers for undecodable bytes.

    Unless ``final``, an incomplete character at the end is left out, to be decoded with more bytes.
    """
    decode_bytes = _DECODERS[encoding.codec]

    try:
        return decode_bytes(raw, "strict", final)[0], False
    except UnicodeDecodeError:
        if encoding.unit == 2:
            return decode_bytes(raw, _ERROR_HANDLER, final)[0], True

    # A text in another encoding has many undecodable bytes, and calling the handler for each of
    # them is slow. So they are escaped first, and markers replace the escapes.
    text: str = decode_bytes(raw, "surrogateescape", final)[0]
    if _has_any(text, _CONTINUATIONS):
        for firsts, pattern, marker in _SEQUENCES:
            if _has_any(text, firsts):
                text = pattern.sub(marker, text)

    for escaped in _ESCAPED_BYTES:
        text = text.replace(escaped, _MARKERS[0])

    return text, True


def _has_any(text: str, chars: Iterable[str]) -> bool:
    return any(char in text for char in chars)


def byte_length(text: str, encoding: Encoding) -> int:
    """Return the number of bytes that a text was decoded from; a marker counts for several."""
    if encoding.unit == 1 and text.isascii():
        return len(text)  # most texts, without encoding them

    try:
        return len(text.encode(encoding.codec))
    except UnicodeEncodeError:
        length = len(text.encode(encoding.codec, "surrogatepass"))

    # Each marker was counted with its own size instead of the size of its sequence.
    marker_size = len(_MARKERS[0].encode(encoding.codec, "surrogatepass"))
    for size, marker in enumerate(_MARKERS, 1):
        length += text.count(marker) * (size - marker_size)

    return length


def replace_markers(text: str) -> str:
    """Return the text as readers see it, with U+FFFD for each marker."""
    for marker in _MARKERS:
        text = text.replace(marker, "\ufffd")

    return text


def count_replaced(text: str) -> int:
    """Return the number of markers in a decoded text."""
    return sum(map(text.count, _MARKERS))


BACK_OFF = 32
"""The most code points that a cut moves back to keep a user-perceived character whole."""

VERSION_WINDOW = 4096
"""Bytes before a resume point that its version covers."""

VERSION_DIGITS = 12
"""Hexadecimal digits of a version: 48 bits."""

# 18 digits: a position always fits into 64 bits.
_RANGE = re.compile(
    r"""
    L- (?P<trailing>\d{1,18})
    | L (?P<first>\d{1,18})  (?P<dash> - (?: L? (?P<last>\d{1,18}) )? )?
    | byte= (?P<start>\d{1,18})  (?: - (?P<end>\d{1,18}) )?  (?: @ (?P<version>[0-9a-z]{1,32}) )?
    """,
    re.ASCII | re.VERBOSE,
)

# UTF-16 (The Unicode Standard, table 3-5): a high and a low surrogate are one character.
_HIGH_SURROGATES = range(0xD800, 0xDC00)
_LOW_SURROGATES = range(0xDC00, 0xE000)

# Characters that join the one before them (Unicode Standard Annex 29, grapheme clusters).
_FIRST_COMBINING = "\u0300"  # below it nothing joins, except LF after CR
_ZERO_WIDTH_JOINER = "\u200d"  # as in the emoji of a family
_MARK_CATEGORIES = frozenset({"Mn", "Mc", "Me"})  # accents, vowel signs, variation selectors
_EMOJI_MODIFIERS = range(0x1F3FB, 0x1F400)  # skin tones
_TAGS = range(0xE0020, 0xE0080)  # as in the flag of Scotland
_REGIONAL_INDICATORS = range(0x1F1E6, 0x1F200)  # two of these letters are one flag
_HANGUL_JAMO = range(0x1100, 0x1200)  # the letters of Korean syllables
_HANGUL_VOWELS_AND_TRAILS = range(0x1160, 0x1200)  # jamo that continue a syllable
_HANGUL_SYLLABLES = range(0xAC00, 0xD7A4)  # composed syllables, which jamo may continue


@dataclass(frozen=True, slots=True)
class Range:
    """The requested part of a text: lines (from 1, inclusive) or bytes (end exclusive).

    A range of lines has a ``first_line``; if ``last_line`` or ``end`` is None, the range extends to
    the end of the text. ``trailing_lines`` requests that many lines at the end instead.
    ``version`` is the hash of the bytes before ``start``, which a resume point contains.
    """

    first_line: int | None = None
    last_line: int | None = None
    trailing_lines: int | None = None
    start: int = 0
    end: int | None = None
    version: str | None = None
    is_whole: bool = False

    @property
    def is_beginning(self) -> bool:
        """Whether the part begins where the text does, and continues no earlier part."""
        begins = self.first_line in (None, 1) and self.trailing_lines is None
        return begins and self.start == 0 and self.version is None


WHOLE = Range(is_whole=True)
"""All of a text, requested without any range. Unlike ``byte=0``, it may be read at once."""


def split_suffix(item: str) -> tuple[str, str]:
    """Split the last ``#`` suffix from a path if it is a range; else the suffix is empty.

    >>> split_suffix("app.py#L10-L40"), split_suffix("notes#2.md")
    (('app.py', 'L10-L40'), ('notes#2.md', ''))
    """
    path, mark, suffix = item.rpartition("#")
    if mark and _RANGE.fullmatch(suffix):
        return path, suffix

    return item, ""


def parse_range(text: str) -> Range:
    """Return the range of a suffix.

    The forms are ``L10`` (one line), ``L10-`` (to the end), ``L10-L40`` or ``L10-40``, ``L-50``
    (the last 50 lines), and ``byte=20480-40960@0f3a56b1`` with an optional end and version.

    Raises Refused: invalid_range.
    """
    match = _RANGE.fullmatch(text)
    if match is None:
        raise Refused("invalid_range")

    if match["trailing"]:
        count = int(match["trailing"])
        if count < 1:
            raise Refused("invalid_range")
        return Range(trailing_lines=count)

    if match["first"]:
        first = int(match["first"])
        last: int | None = first
        if match["dash"]:
            last = _parse_optional(match["last"])

        if first < 1 or (last is not None and last < first):
            raise Refused("invalid_range")
        return Range(first_line=first, last_line=last)

    start = int(match["start"])
    end = _parse_optional(match["end"])
    if end is not None and end < start:
        raise Refused("invalid_range")
    return Range(start=start, end=end, version=match["version"])


def _parse_optional(digits: str | None) -> int | None:
    return int(digits) if digits else None


def splits_character(raw: bytes, position: int, encoding: Encoding) -> bool:
    """Return whether a position is inside a valid character.

    ``raw`` contains the bytes around the position; three on each side are enough.
    """
    if encoding.unit == 2:
        if position < 2:
            return False

        order: Literal["little", "big"] = "little" if encoding.name == "utf-16-le" else "big"
        before = int.from_bytes(raw[position - 2 : position], order)
        after = int.from_bytes(raw[position : position + 2], order)
        return before in _HIGH_SURROGATES and after in _LOW_SURROGATES

    # Invalid bytes become one surrogate each, so only a valid sequence becomes one character.
    for start in range(max(position - 3, 0), position):
        longest = min(start + 4, len(raw))
        for end in range(position + 1, longest + 1):
            text = raw[start:end].decode(errors="surrogateescape")
            if len(text) == 1:
                return True

    return False


def back_off(text: str, position: int) -> int:
    """Return the last place up to ``position`` that does not split a user-perceived character.

    Follows Unicode Standard Annex 29 for combining marks, variation selectors, emoji sequences,
    flags, Hangul syllables, and CR LF. Moves back 32 code points at most, and never to the start of
    the text: if that is not enough, the cut stays at ``position``.
    """
    if position >= len(text):
        return len(text)

    for candidate in range(position, max(position - BACK_OFF, 0), -1):
        if not _is_joined(text, candidate):
            return candidate

    return position


def _is_joined(text: str, position: int) -> bool:
    """Return whether readers see the characters on both sides of a position as one."""
    before, after = text[position - 1], text[position]
    if after < _FIRST_COMBINING:
        return before == "\r" and after == "\n"

    if _ZERO_WIDTH_JOINER in (before, after) or unicodedata.category(after) in _MARK_CATEGORIES:
        return True

    point = ord(after)
    if point in _EMOJI_MODIFIERS or point in _TAGS:
        return True
    if point in _HANGUL_VOWELS_AND_TRAILS:
        return ord(before) in _HANGUL_JAMO or ord(before) in _HANGUL_SYLLABLES
    if point not in _REGIONAL_INDICATORS:
        return False

    # Indicators pair up from the left: an odd number before the cut means half a flag. Counting
    # ends after twice the distance that a cut moves back.
    count = 0
    limit = min(position, 2 * BACK_OFF)
    while count < limit and ord(text[position - 1 - count]) in _REGIONAL_INDICATORS:
        count += 1

    return count % 2 == 1


def hash_version(before: bytes) -> str:
    """Return the version of a resume point: a hash of the 4 KiB before it (BLAKE2b, 48 bits)."""
    return blake2b(before[-VERSION_WINDOW:], digest_size=VERSION_DIGITS // 2).hexdigest()


class Mark(NamedTuple):
    """A part of a piece's text that replaces ``size`` bytes of its source, such as a secret."""

    start: int
    end: int
    size: int


class Piece(NamedTuple):
    """A part of a decoded text that can be cut further, with a resume point for the rest.

    ``text`` begins at byte ``start`` of its source, and ``lead`` has up to 4 KiB of the bytes
    before it. ``rest`` is true if more of the requested part follows. ``total_chars`` is the
    length of the whole requested part, if known. ``end`` is the exclusive end of a bounded request
    in bytes. ``marks`` are in order. ``raw`` has the original bytes if encoding the text would not
    restore them, because it has markers or marks. ``lines`` is the number of lines of the whole
    source, if all of it was read.
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
        """Return a cut after at most ``chars`` characters that splits no character and no mark.

        A mark at the start is kept even if it is longer, so that the piece is never empty.
        """
        place = back_off(self.text, chars)

        for mark in self.marks:
            if mark.start < place < mark.end:
                return mark.start or mark.end

        return place

    def count_marks(self, chars: int) -> int:
        """Return the number of marks in the first ``chars`` characters, which end outside marks."""
        return sum(mark.end <= chars for mark in self.marks)

    def measure(self, chars: int) -> int:
        """Return the number of bytes that the first ``chars`` characters were decoded from."""
        length = position = 0

        for mark in self.marks[: self.count_marks(chars)]:
            before = self.text[position : mark.start]
            length += byte_length(before, self.encoding) + mark.size
            position = mark.end

        rest = self.text[position:chars]
        return length + byte_length(rest, self.encoding)

    def resume(self, chars: int) -> str:
        """Return the resume point after the first ``chars`` characters.

        For example ``byte=20480@0f3a56b1c2d4``, or ``byte=20480-40960@0f3a56b1c2d4`` for a bounded
        request.
        """
        length = self.measure(chars)

        if self.raw is not None:
            before = self.raw[max(length - VERSION_WINDOW, 0) : length]
        else:
            # A character has at least one byte, so this many characters fill the window.
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
    """Return the requested part of a text in memory, cut after ``max_chars`` characters.

    Byte positions count the UTF-8 of the text. Ranges of lines are not supported.

    Raises Refused: invalid_range, changed.
    """
    if requested.is_whole and len(text) <= max_chars:
        return Piece(text, total_chars=len(text))  # most contents are short

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
