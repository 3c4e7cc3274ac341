"""Decode bytes to text without losing any byte.

In a decoded text, one *marker* replaces each undecodable byte sequence. A marker is a lone
surrogate, which no valid text contains, and its code point gives the number of bytes. So every
position in the text leads back to a byte. Readers see U+FFFD instead of a marker, exactly as
``bytes.decode(errors="replace")`` returns it.
"""

import codecs
import re
from collections.abc import Iterable
from dataclasses import dataclass

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
_BOMS = tuple(_ENCODINGS_BY_BOM)


def detect_encoding(head: bytes) -> Encoding:
    """Return the encoding that a byte order mark indicates, or UTF-8 without one."""
    if not head.startswith(_BOMS):
        return UTF_8  # most files, in one comparison

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
