"""Decode bytes to text without losing one.

While a text is held, each undecodable byte sequence stands in it as one *marker*: a lone surrogate,
which no valid text contains, and which says how many bytes it stands for. So a position in the text
always leads back to the byte it came from. A reader is shown U+FFFD in its place, exactly as
``bytes.decode(errors="replace")`` does.
"""

import codecs
import re
from dataclasses import dataclass

_MARKER_BASE = 0xDC80
"""The code point ``_MARKER_BASE + n`` marks n undecodable bytes."""

_MARKERS = re.compile("[\udc81-\udc84]")
_ERROR_HANDLER = "abilities.mark"

# The codecs module's own functions: `bytes.decode` cannot leave an incomplete end for later.
_DECODERS = {
    "utf-8": codecs.utf_8_decode,
    "utf-16-le": codecs.utf_16_le_decode,
    "utf-16-be": codecs.utf_16_be_decode,
}


def _mark(error: UnicodeError) -> tuple[str, int]:
    """Put a marker in the place of an undecodable byte sequence; an error handler for codecs."""
    assert isinstance(error, UnicodeDecodeError)
    length = error.end - error.start
    return chr(_MARKER_BASE + length), error.end


codecs.register_error(_ERROR_HANDLER, _mark)


@dataclass(frozen=True, slots=True)
class Encoding:
    """How a text's bytes are to be read.

    ``bom`` is the size of the byte order mark in bytes, ``unit`` the size of a code unit: 1 or 2.
    """

    name: str
    bom: int
    unit: int

    @property
    def codec(self) -> str:
        """The codec of the bytes after the byte order mark."""
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
    """Return the encoding that a byte order mark announces; UTF-8 without one."""
    if not head.startswith(_BOMS):
        return UTF_8  # most files, in one comparison

    for bom, encoding in _ENCODINGS_BY_BOM.items():
        if head.startswith(bom):
            return encoding

    return UTF_8


def decode(raw: bytes, encoding: Encoding, *, final: bool) -> tuple[str, bool]:
    """Return the text of some bytes, and whether it has markers for bytes that do not decode.

    Unless ``final``, an incomplete character at the end is left out, to be decoded with more bytes.
    """
    decode_bytes = _DECODERS[encoding.codec]

    try:
        return decode_bytes(raw, "strict", final)[0], False
    except UnicodeDecodeError:
        return decode_bytes(raw, _ERROR_HANDLER, final)[0], True


def byte_length(text: str, encoding: Encoding) -> int:
    """Return how many bytes a decoded text came from; a marker counts for several."""
    if encoding.unit == 1 and text.isascii():
        return len(text)  # most texts, without encoding them

    try:
        return len(text.encode(encoding.codec))
    except UnicodeEncodeError:
        return _marked_byte_length(text, encoding)


def _marked_byte_length(text: str, encoding: Encoding) -> int:
    length = len(_MARKERS.sub("", text).encode(encoding.codec))

    for marker in _MARKERS.findall(text):
        length += ord(marker) - _MARKER_BASE

    return length


def replace_markers(text: str) -> str:
    """Return the text as a reader sees it: U+FFFD for each marker."""
    return _MARKERS.sub("\ufffd", text)


def count_replaced(text: str) -> int:
    """Return how many characters of a decoded text stand for bytes that do not decode."""
    return len(_MARKERS.findall(text))
