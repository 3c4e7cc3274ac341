"""Read the requested part of an open file as text, never more of it than the bound."""

import os
from collections.abc import Callable
from typing import NamedTuple

from abilities.declarations.faults import Refused
from abilities.helpers.files.lines import skip_lines
from abilities.helpers.text.codec import Encoding, byte_length, decode, detect_encoding
from abilities.helpers.text.cutting import back_off, splits_character
from abilities.helpers.text.pieces import VERSION_WINDOW, Piece, hash_version
from abilities.helpers.text.ranges import Range

CHUNK = 64 * 1024
"""Bytes that are read at once, if the bound does not ask for more."""

_LONGEST_BOM = 4
_NO_END = 1 << 62  # beyond the end of every file

Check = Callable[[], None]


class _OpenFile(NamedTuple):
    """An open file, its size when it was opened, and its encoding.

    Byte positions in requests and pieces count from ``origin``: the start of the file, or the first
    byte after a byte order mark. ``check`` is called between reads and may raise to stop them.
    """

    fd: int
    size: int
    encoding: Encoding
    origin: int
    check: Check

    def read_before(self, position: int) -> bytes:
        """Read up to 4 KiB that end at a position, as a version stands for them."""
        if not position:
            return b""

        start = max(position - VERSION_WINDOW, 0)
        return os.pread(self.fd, position - start, start)

    def splits_character(self, position: int) -> bool:
        """Return whether a position lies inside a character or of the byte order mark."""
        if position >= self.size:
            return False

        bom, unit = self.encoding.bom, self.encoding.unit
        if position < bom or (position - bom) % unit:
            return True

        start = max(position - 4, bom)
        return splits_character(os.pread(self.fd, 8, start), position - start, self.encoding)


class _Window(NamedTuple):
    """The requested part of a file: the bytes from ``start`` to ``end`` (exclusive).

    An ``end`` of None is the end of the file. ``lead`` is up to 4 KiB of the bytes before
    ``start``; ``head`` is the part from ``start`` on that has been read already.
    """

    start: int
    end: int | None
    lead: bytes
    head: bytes = b""


class _WindowText(NamedTuple):
    """A window's text, either complete or at least one character longer than the bound."""

    text: str
    raw: bytes
    has_markers: bool
    is_complete: bool


def read_piece(
    fd: int, size: int, requested: Range, max_chars: int, check: Check, text_offsets: bool = False
) -> Piece:
    """Read the requested part of a file of ``size`` bytes, ``max_chars`` characters of it at most.

    Byte positions count from the start of the file; with ``text_offsets`` from the first byte
    after a byte order mark. ``check`` is called between reads and may raise to stop them. For the
    whole file ``fd`` must stand at its start.

    Raises Refused: binary_file, invalid_range, changed, range_too_far; and OSError.
    """
    if not requested.is_whole:
        file = _describe_file(fd, size, os.pread(fd, _LONGEST_BOM, 0), check, text_offsets)
        window = _find_window(file, requested)
        return _read_window(file, window, max_chars)

    count = size
    if size > CHUNK:
        count = min(size, max(CHUNK, max_chars))
    head = os.read(fd, count + 1)  # the byte beyond the size tells whether the file has grown

    # Most files are small plain UTF-8: one read, one decode, and no more objects than the piece.
    if len(head) == size:
        text = _decode_plain(head)
        if text is not None and len(text) <= max_chars:
            return Piece(text, total_chars=len(text))

        if text is not None:
            length = back_off(text, max_chars)
            return Piece(text[:length], rest=True, total_chars=len(text))

    file = _describe_file(fd, size, head, check, text_offsets)
    bom = file.encoding.bom
    window = _Window(bom, None, lead=head[:bom], head=head[bom:])
    return _read_window(file, window, max_chars)


def _describe_file(fd: int, size: int, head: bytes, check: Check, text_offsets: bool) -> _OpenFile:
    """Tell a file's encoding by its first bytes."""
    encoding = detect_encoding(head)
    origin = encoding.bom if text_offsets else 0
    return _OpenFile(fd, size, encoding, origin, check)


def _decode_plain(raw: bytes) -> str | None:
    """Decode valid UTF-8 without a byte order mark, in the shortest way; None for anything else."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return None

    if "\0" in text or text[:1] == "\ufeff":
        return None

    return text


def _find_window(file: _OpenFile, requested: Range) -> _Window:
    if requested.first_line is not None:
        return _find_lines(file, requested.first_line, requested.last_line)

    return _find_bytes(file, requested)


def _find_lines(file: _OpenFile, first_line: int, last_line: int | None) -> _Window:
    """Find lines, counted from 1; a ``last_line`` of None is the end of the file."""
    start = skip_lines(file.fd, file.encoding.bom, first_line - 1, file.encoding, file.check)

    end = None
    if last_line is not None:
        count = last_line - first_line + 1
        end = skip_lines(file.fd, start, count, file.encoding, file.check)

    return _Window(start, end, lead=file.read_before(start))


def _find_bytes(file: _OpenFile, requested: Range) -> _Window:
    """Find the bytes of a range, and check that they are those that its version stands for."""
    start = requested.start + file.origin or file.encoding.bom
    end = None
    if requested.end is not None:
        end = requested.end + file.origin

    lead = file.read_before(min(start, file.size))
    is_shorter = start > file.size
    if requested.version is not None and (is_shorter or hash_version(lead) != requested.version):
        raise Refused("changed")

    if file.splits_character(start):
        raise Refused("invalid_range")

    if end is not None and (end < start or file.splits_character(end)):
        raise Refused("invalid_range")

    return _Window(min(start, file.size), end, lead)


def _read_window(file: _OpenFile, window: _Window, max_chars: int) -> Piece:
    """Read a window, and cut its text at the bound."""
    read = _read_text(file, window, max_chars)
    length = back_off(read.text, max_chars)
    text = read.text[:length]

    total_chars = None
    if read.is_complete:
        total_chars = len(read.text)

    end = None
    if window.end is not None:
        end = window.end - file.origin

    raw = None
    if read.has_markers:
        raw = read.raw[: byte_length(text, file.encoding)]

    return Piece(
        text=text,
        encoding=file.encoding,
        start=window.start - file.origin,
        lead=window.lead,
        rest=not read.is_complete or length < len(read.text),
        total_chars=total_chars,
        end=end,
        raw=raw,
    )


def _read_text(file: _OpenFile, window: _Window, max_chars: int) -> _WindowText:
    """Read until there is one character more than the bound, or until the window's end."""
    raw, text, has_markers = window.head, "", False
    end = _NO_END if window.end is None else window.end
    is_complete = window.start >= end or (bool(raw) and window.start + len(raw) == file.size)
    if raw:
        text, has_markers = _decode_text(raw, file.encoding, final=is_complete)

    while not is_complete and len(text) <= max_chars:
        file.check()
        position = window.start + len(raw)
        count = _next_read_size(raw, text, max_chars)
        more = os.pread(file.fd, min(count, end - position), position)

        is_complete = not more or position + len(more) >= end
        raw += more
        text, has_markers = _decode_text(raw, file.encoding, final=is_complete)

    # Only the whole text tells in UTF-16, in which most characters have a zero byte.
    if file.encoding.unit == 2 and "\0" in text:
        raise Refused("binary_file")

    return _WindowText(text, raw, has_markers, is_complete)


def _decode_text(raw: bytes, encoding: Encoding, *, final: bool) -> tuple[str, bool]:
    """Decode the bytes that have been read so far, unless they are no text."""
    if encoding.unit == 1 and b"\0" in raw:
        raise Refused("binary_file")

    return decode(raw, encoding, final=final)


def _next_read_size(raw: bytes, text: str, max_chars: int) -> int:
    """Estimate how many bytes the missing characters take, by those that are decoded already."""
    bytes_per_char = 1
    if text:
        bytes_per_char = len(raw) // len(text) + 1

    missing_chars = max_chars + 1 - len(text)
    return max(CHUNK, missing_chars * bytes_per_char)
