"""Decode bytes to text without losing one, and cut text where a reader would.

While a text is held, each undecodable byte sequence stands in it as one marker (a lone surrogate, which
no valid text contains) that tells how many bytes it stands for. So a position in the text always leads
back to the byte it came from, and a reader is shown U+FFFD, as ``bytes.decode(errors="replace")`` does.
"""

import codecs
import re
import unicodedata
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

BACK_OFF = 32
"""Code points a cut moves back at most to keep a user-perceived character whole."""
VERSION_WINDOW = 4096
"""Bytes before a resume point that its version stands for."""
VERSION_DIGITS = 12

_MARK = 0xDC80
_MARKERS = re.compile("[\udc81-\udc84]")
_JOINER = "\u200d"
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


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


def detect(head: bytes) -> Encoding:
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
        return len(text) if text.isascii() and encoding.unit == 1 else len(text.encode(encoding.codec))
    except UnicodeEncodeError:
        plain = _MARKERS.sub("", text)
        return len(plain.encode(encoding.codec)) + sum(ord(m) - _MARK for m in _MARKERS.findall(text))


def shown(text: str) -> str:
    """The text as a reader sees it, U+FFFD for each marker."""
    return _MARKERS.sub("\ufffd", text)


def count_replaced(text: str) -> int:
    """How many characters of a decoded text stand for bytes that do not decode."""
    return len(_MARKERS.findall(text))


def version_of(before: bytes) -> str:
    """The version of a resume point: a hash of the 4 KiB before it (BLAKE2b, 48 bits)."""
    return blake2b(before[-VERSION_WINDOW:], digest_size=VERSION_DIGITS // 2).hexdigest()


def splits_character(around: bytes, at: int, encoding: Encoding) -> bool:
    """Whether position ``at`` in ``around`` (some bytes before and after it) lies inside of a valid character."""
    if encoding.unit == 2:
        order = "little" if encoding.name == "utf-16-le" else "big"
        before, after = (int.from_bytes(around[i : i + 2], order) for i in (max(at - 2, 0), at))  # type: ignore[arg-type]
        return at >= 2 and 0xD800 <= before < 0xDC00 and 0xDC00 <= after < 0xE000
    for back in range(1, min(3, at) + 1):
        lead = around[at - back]
        length = 2 if 0xC2 <= lead < 0xE0 else 3 if 0xE0 <= lead < 0xF0 else 4 if 0xF0 <= lead < 0xF5 else 1
        if length > back and _is_valid(around[at - back : at - back + length], length):
            return True
    return False


def _is_valid(raw: bytes, length: int) -> bool:
    try:
        return len(raw) == length and len(raw.decode()) == 1
    except UnicodeDecodeError:
        return False


def back_off(text: str, at: int) -> int:
    """The last place up to ``at`` where the text may be cut without splitting a user-perceived character.

    Follows Unicode Standard Annex 29 in what readers meet: combining marks, variation selectors, emoji
    sequences and flags, Hangul syllables, CR LF. Moves back 32 code points at most and never to the
    very start: then the cut stays where it was asked for.
    """
    if at >= len(text):
        return len(text)
    for place in range(at, max(at - BACK_OFF, 0), -1):
        if not _joined(text, place):
            return place
    return at


def _joined(text: str, at: int) -> bool:
    before, after = text[at - 1], text[at]
    if after < "\u0300":
        return before == "\r" and after == "\n"
    return (
        before == _JOINER
        or after == _JOINER
        or unicodedata.category(after) in ("Mn", "Mc", "Me")
        or "\U0001f3fb" <= after <= "\U0001f3ff"
        or "\U000e0020" <= after <= "\U000e007f"
        or ("\u1160" <= after <= "\u11ff" and "\u1100" <= before <= "\u11ff")
        or _inside_flag(text, at)
        or ("\u1160" <= after <= "\u11ff" and "\uac00" <= before <= "\ud7a3")
    )


def _inside_flag(text: str, at: int) -> bool:
    """Whether a cut would part the two regional indicators of a flag."""
    run = 0
    while run < at and run < 2 * BACK_OFF and "\U0001f1e6" <= text[at - 1 - run] <= "\U0001f1ff":
        run += 1
    return run % 2 == 1 and "\U0001f1e6" <= text[at] <= "\U0001f1ff"


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
            window = self.text[max(chars - VERSION_WINDOW, 0) : chars].encode(self.encoding.codec)[-VERSION_WINDOW:]
        return self._point(taken, version_of(self.lead + window))

    def widest_resume(self) -> str:
        """A string as long as the longest resume point of this piece."""
        return self._point(byte_length(self.text, self.encoding), "0" * VERSION_DIGITS)

    def _point(self, taken: int, version: str) -> str:
        end = "" if self.end is None else f"-{self.end}"
        return f"byte={self.start + taken}{end}@{version}"
