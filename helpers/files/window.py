"""Read the part of an open file that was asked for, as text, never more than the bound."""

import os
from collections.abc import Callable

from abilities.declarations.faults import Refused
from abilities.helpers.files.lines import skip_lines
from abilities.helpers.text.codec import UTF_8, Encoding, byte_length, decode, detect_encoding
from abilities.helpers.text.cutting import back_off, splits_character
from abilities.helpers.text.pieces import VERSION_WINDOW, Piece, hash_version
from abilities.helpers.text.ranges import WHOLE, Range

CHUNK = 64 * 1024

Check = Callable[[], None]


def read_piece(
    fd: int, size: int, asked: Range, max_chars: int, check: Check, text_offsets: bool = False
) -> Piece:
    """Read what ``asked`` names of a file of ``size`` bytes, ``max_chars`` characters of it at most.

    Byte positions count from the start of the file, with ``text_offsets`` from the first byte after a
    byte order mark. ``check`` is called between reads and may raise to end them.
    Raises Refused: binary_file, invalid_range, changed, range_too_far; and OSError.
    """
    if asked is WHOLE:
        raw = os.read(fd, (size if size <= CHUNK else min(size, max(CHUNK, max_chars))) + 1)
        if len(raw) == size and (text := _plain(raw)) is not None and len(text) <= max_chars:
            return Piece(text, UTF_8, 0, b"", False, len(text))
        encoding = detect_encoding(raw)
        start, end = encoding.bom, None
        lead, raw = raw[:start], raw[start:] if start else raw
    else:
        encoding = detect_encoding(os.pread(fd, 4, 0))
        start, end = _bounds(fd, size, asked, encoding, check, encoding.bom if text_offsets else 0)
        lead = _before(fd, start)
        raw = b""
    text, marked, raw, ended = _window(fd, raw, (start, end, size), encoding, max_chars, check)
    keep = back_off(text, max_chars)
    shift = encoding.bom if text_offsets else 0
    kept = text[:keep]
    return Piece(
        text=kept,
        encoding=encoding,
        start=start - shift,
        lead=lead,
        rest=not ended or keep < len(text),
        total_chars=len(text) if ended else None,
        end=None if end is None else end - shift,
        raw=raw[: byte_length(kept, encoding)] if marked else None,
    )


def _plain(raw: bytes) -> str | None:
    """The text of what most files are, valid UTF-8 without a byte order mark, by the shortest way; else None."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text or text[:1] == "\ufeff" else text


def _window(
    fd: int,
    raw: bytes,
    bounds: tuple[int, int | None, int],
    encoding: Encoding,
    max_chars: int,
    check: Check,
) -> tuple[str, bool, bytes, bool]:
    """Read on until there is one character more than asked for, or the end is met."""
    start, end, size = bounds
    stop = end if end is not None else 1 << 62
    ended = (bool(raw) and start + len(raw) == size) or start >= stop
    while True:
        _refuse_binary(raw, encoding)
        text, marked = decode(raw, encoding, final=ended)
        if ended or len(text) > max_chars:
            break
        check()
        position = start + len(raw)
        bytes_a_char = len(raw) // len(text) + 1 if text else 1
        wanted = max(CHUNK, (max_chars + 1 - len(text)) * bytes_a_char)
        more = os.pread(fd, min(wanted, stop - position), position)
        ended = not more or position + len(more) >= stop
        raw += more
    if encoding.unit == 2 and "\0" in text:
        raise Refused("binary_file")
    return text, marked, raw, ended


def _refuse_binary(raw: bytes, encoding: Encoding) -> None:
    if encoding.unit == 1 and b"\0" in raw:
        raise Refused("binary_file")


def _bounds(
    fd: int, size: int, asked: Range, encoding: Encoding, check: Check, shift: int
) -> tuple[int, int | None]:
    """First byte and end (exclusive; None is the end of the file) of what was asked for."""
    if asked.first_line is not None:
        start = skip_lines(fd, encoding.bom, asked.first_line - 1, encoding, check)
        if asked.last_line is None:
            return start, None
        return start, skip_lines(fd, start, asked.last_line - asked.first_line + 1, encoding, check)
    start = asked.start + shift or encoding.bom
    end = None if asked.end is None else asked.end + shift
    if asked.version is not None and (
        start > size or hash_version(_before(fd, start)) != asked.version
    ):
        raise Refused("changed")
    for position in (start, end):
        if position is not None and _splits(fd, size, position, encoding):
            raise Refused("invalid_range")
    if end is not None and end < start:
        raise Refused("invalid_range")
    return min(start, size), end


def _splits(fd: int, size: int, position: int, encoding: Encoding) -> bool:
    if position >= size:
        return False
    if position < encoding.bom or (position - encoding.bom) % encoding.unit:
        return True
    first = max(position - 4, encoding.bom)
    return splits_character(os.pread(fd, 8, first), position - first, encoding)


def _before(fd: int, position: int) -> bytes:
    first = max(position - VERSION_WINDOW, 0)
    return os.pread(fd, position - first, first) if position else b""
