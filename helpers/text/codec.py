"""Decode bytes to text without losing one, and cut text where a reader would.

While a text is held, each undecodable byte sequence stands in it as one marker (a lone surrogate, which
no valid text contains) that tells how many bytes it stands for. So a position in the text always leads
back to the byte it came from, and a reader is shown U+FFFD, as ``bytes.decode(errors="replace")`` does.
"""

import codecs
import re
from dataclasses import dataclass

_MARK = 0xDC80
_MARKERS = re.compile("[\udc81-\udc84]")
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


_DECODERS = {
    "utf-8": codecs.utf_8_decode,
    "utf-16-le": codecs.utf_16_le_decode,
    "utf-16-be": codecs.utf_16_be_decode,
}


def _mark(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return chr(_MARK + error.end - error.start), error.end


codecs.register_error("abilities.mark", _mark)


@dataclass(frozen=True, slots=True)
class Encoding:
    """How a text's bytes are to be read."""

    name: str
    bom: int
    unit: int

    @property
    def codec(self) -> str:
        """The codec of the bytes after the byte order mark."""
        return "utf-8" if self.unit == 1 else self.name


UTF_8 = Encoding("utf-8", bom=0, unit=1)


def detect_encoding(head: bytes) -> Encoding:
    """The encoding that a byte order mark announces; UTF-8 without one."""
    for bom, name in _BOMS:
        if head.startswith(bom):
            return Encoding(name, bom=len(bom), unit=1 if name == "utf-8-sig" else 2)
    return UTF_8


def decode(raw: bytes, encoding: Encoding, *, final: bool) -> tuple[str, bool]:
    """The text of some bytes, markers where they do not decode, and whether there are any.

    Without ``final`` a character cut in two at the end is left for later.
    """
    read = _DECODERS[encoding.codec]
    try:
        return read(raw, "strict", final)[0], False
    except UnicodeDecodeError:
        return read(raw, "abilities.mark", final)[0], True


def byte_length(text: str, encoding: Encoding) -> int:
    """How many bytes a decoded text came from, markers counted as what they stand for."""
    try:
        return (
            len(text) if text.isascii() and encoding.unit == 1 else len(text.encode(encoding.codec))
        )
    except UnicodeEncodeError:
        plain = _MARKERS.sub("", text)
        return len(plain.encode(encoding.codec)) + sum(
            ord(m) - _MARK for m in _MARKERS.findall(text)
        )


def replace_markers(text: str) -> str:
    """The text as a reader sees it, U+FFFD for each marker."""
    return _MARKERS.sub("\ufffd", text)


def count_replaced(text: str) -> int:
    """How many characters of a decoded text stand for bytes that do not decode."""
    return len(_MARKERS.findall(text))
