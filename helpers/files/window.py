"""Read the requested part of an open file as text, bounded in characters."""

import os
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from abilities.declarations.refusals import Refused
from abilities.helpers.files.redaction import REACH, Secret, find_secrets, format_mark, redact
from abilities.helpers.text import (
    VERSION_WINDOW,
    Encoding,
    Piece,
    Range,
    back_off,
    decode,
    detect_encoding,
    hash_version,
    splits_character,
)

SCAN_LIMIT = 64 * 1024 * 1024
"""Bytes from the start or the end of a file that are searched for lines."""

CHUNK = 64 * 1024
"""Bytes that are read at once, unless the bound needs more."""

_CHUNK = 256 * 1024  # is read at once to find lines
_FEW_BYTES = 512  # are searched for line ends one after another
_LONGEST_BOM = 4
_BEYOND = 2**62  # greater than every position in a file and every number of lines

Check = Callable[[], None]


def read_present(fd: int, size: int, position: int, count: int) -> bytes:
    """Read ``count`` bytes of a file that had ``size`` bytes when it was opened.

    There are fewer only if the file ended before them when it was opened. Raises
    Refused("changed") if it has become shorter since, and OSError.
    """
    present = min(count, size - position)
    raw = os.pread(fd, count, position)

    while len(raw) < present:
        more = os.pread(fd, present - len(raw), position + len(raw))
        if not more:
            raise Refused("changed")
        raw += more

    return raw


def count_lines(text: str) -> int:
    r"""Return the number of lines in a text; the last one may lack a line end.

    >>> count_lines("a\nb"), count_lines("a\nb\n")
    (2, 2)
    """
    line_ends = text.count("\n")
    if not text or text.endswith("\n"):
        return line_ends

    return line_ends + 1


class KnownLines:
    """A cache of the positions of lines in one file, so that several ranges cost one search.

    It is valid as long as the file stays the same. Counts and positions are all from the file's
    start, or all from its end.
    """

    def __init__(self) -> None:
        self._places: list[tuple[int, int]] = []

    def add(self, count: int, position: int) -> None:
        """Remember that ``count`` lines end before a position."""
        place = (count, position)
        index = bisect_left(self._places, place)
        if self._places[index : index + 1] != [place]:
            self._places.insert(index, place)

    def find_before(self, count: int, begin: int) -> tuple[int, int]:
        """Return the last known position before which fewer than ``count`` lines end.

        Returns the number of these lines, and the position. ``begin`` is the position of the first
        line.
        """
        # A position with exactly as many may be anywhere in the next line.
        index = bisect_left(self._places, (count, 0))
        return self._places[index - 1] if index else (0, begin)


class _OpenFile(NamedTuple):
    """An open file, its size when it was opened, and its encoding.

    Byte positions in requests and pieces count from ``origin``: the start of the file, or the first
    byte after a byte order mark. ``check`` is called between reads and may raise to stop them.
    ``reach`` is the number of characters around a part that decide whether something in it is a
    secret; 0 if secrets are shown.

    The methods raise Refused("changed") if the file has become shorter since it was opened.
    """

    fd: int
    size: int
    encoding: Encoding
    origin: int
    check: Check
    reach: int

    def read_before(self, position: int) -> bytes:
        """Read the bytes before a position: 4 KiB for its version, and more to find secrets."""
        length = max(VERSION_WINDOW, self.reach * self.encoding.unit)
        start = max(position - length, 0)
        if start == position:
            return b""

        return read_present(self.fd, self.size, start, position - start)

    def splits_character(self, position: int) -> bool:
        """Return whether a position is inside a character or the byte order mark."""
        if position >= self.size:
            return False

        bom, unit = self.encoding.bom, self.encoding.unit
        if position < bom or (position - bom) % unit:
            return True

        start = max(position - 4, bom)
        around = read_present(self.fd, self.size, start, 8)
        return splits_character(around, position - start, self.encoding)


def _find_line(file: _OpenFile, count: int, known: KnownLines) -> int:
    """Return the byte position after ``count`` line ends, or the end of the file if it has fewer.

    Positions that the search passes are added to ``known``. Raises Refused: range_too_far if it
    goes beyond the first 64 MiB, changed; and OSError.
    """
    begin, encoding = file.encoding.bom, file.encoding
    if not count:
        return begin

    passed, position = known.find_before(count, begin)
    while True:
        file.check()
        # Chunks end at the same positions wherever the search began, so the limit is the same too.
        chunk = os.pread(file.fd, _CHUNK - (position - begin) % _CHUNK, position)
        if not chunk and position < file.size:
            raise Refused("changed")
        if not chunk:
            return position

        line_ends = _count_line_ends(chunk, encoding)
        if passed + line_ends >= count:
            position += _find_line_end(chunk, count - passed, encoding)
            known.add(count, position)
            return position

        passed += line_ends
        position += len(chunk)
        if position > SCAN_LIMIT:
            raise Refused("range_too_far")

        known.add(passed, position)


def _find_trailing(file: _OpenFile, count: int, known: KnownLines) -> int:
    """Return the byte position at which the last ``count`` lines begin, searching from the end.

    It is that of the first line if there are fewer. A line end at the file's end belongs to the
    last line. ``known`` counts from the end. Raises Refused: range_too_far if the search goes
    beyond the last 64 MiB, changed; and OSError.
    """
    begin, encoding, size = file.encoding.bom, file.encoding, file.size
    newline = "\n".encode(encoding.codec)
    end = size
    last = size - len(newline)
    may_end_in_newline = last >= begin and (size - begin) % encoding.unit == 0
    if may_end_in_newline and read_present(file.fd, size, last, len(newline)) == newline:
        end = last

    passed, distance = known.find_before(count, size - end)
    position = size - distance

    while position > begin:
        file.check()
        # Chunks begin at the same positions whatever the end, so that code units are whole.
        start = position - ((position - begin - 1) % _CHUNK + 1)
        chunk = read_present(file.fd, size, start, position - start)

        line_ends = _count_line_ends(chunk, encoding)
        if passed + line_ends >= count:
            # The first of the lines follows the line end of this number.
            number = passed + line_ends - count + 1
            position = start + _find_line_end(chunk, number, encoding)
            known.add(count - 1, size - position)
            return position

        passed += line_ends
        position = start
        if size - position > SCAN_LIMIT:
            raise Refused("range_too_far")

        known.add(passed, size - position)

    return begin


def _count_line_ends(chunk: bytes, encoding: Encoding) -> int:
    if encoding.unit == 1:
        return chunk.count(b"\n")  # much faster than finding each

    return sum(1 for _ in _find_line_ends(chunk, encoding))


def _find_line_end(chunk: bytes, count: int, encoding: Encoding) -> int:
    """Return the position after the line end with this number, counted from 1."""
    if encoding.unit == 2:
        return next(islice(_find_line_ends(chunk, encoding), count - 1, None))

    # By bisection, because counting is much faster than finding each.
    start, end = 0, len(chunk)
    while end - start > _FEW_BYTES:
        middle = (start + end) // 2
        line_ends = chunk.count(b"\n", start, middle)
        if line_ends >= count:
            end = middle
        else:
            count -= line_ends
            start = middle

    for _ in range(count):
        start = chunk.index(b"\n", start) + 1

    return start


def _find_line_ends(chunk: bytes, encoding: Encoding) -> Iterator[int]:
    """Yield the positions after line ends, in a chunk that begins with a whole code unit."""
    newline = "\n".encode(encoding.codec)
    index = chunk.find(newline)

    while index >= 0:
        if index % encoding.unit == 0:  # else these bytes are halves of two UTF-16 units
            yield index + len(newline)

        index = chunk.find(newline, index + 1)


class _Window(NamedTuple):
    """The requested part of a file: the bytes from ``start`` to ``end`` (exclusive).

    An ``end`` of None is the end of the file. ``lead`` are the bytes before ``start``, from
    `_OpenFile.read_before`; ``head`` are the bytes from ``start`` on that have been read already.
    ``lines`` is the number of lines in the file, if the requested lines are beyond its end.
    """

    start: int
    end: int | None
    lead: bytes
    head: bytes = b""
    lines: int | None = None


class _WindowText(NamedTuple):
    """A window's text: complete, or at least one character longer than the bound."""

    text: str
    raw: bytes
    has_markers: bool
    is_complete: bool


def read_piece(
    fd: int,
    size: int,
    requested: Range,
    max_chars: int,
    check: Check,
    *,
    text_offsets: bool = False,
    redacts: bool = False,
    known_lines: KnownLines | None = None,
) -> Piece:
    """Read the requested part of a file of ``size`` bytes, up to ``max_chars`` characters of it.

    Byte positions count from the start of the file; with ``text_offsets``, from the first byte
    after a byte order mark. ``check`` is called between reads and may raise to stop them. To read
    the whole file, ``fd`` must be positioned at its start. With ``redacts``, secrets are replaced
    by marks; then a piece that begins with a mark may be longer than ``max_chars`` by that mark. To
    read several parts of one file, pass its ``known_lines`` to each call.

    Raises Refused: binary_file, invalid_range, changed, range_too_far; and OSError.
    """
    reach = REACH if redacts else 0
    if not requested.is_whole:
        beginning = read_present(fd, size, 0, _LONGEST_BOM)
        file = _describe_file(fd, size, beginning, check, text_offsets, reach)
        window = _find_window(file, requested, known_lines or KnownLines())
        return _read_window(file, window, max_chars)

    count = size
    if size > CHUNK:
        count = min(size, max(CHUNK, max_chars + reach))
    head = os.read(fd, count + 1)  # a byte beyond the size means that the file has grown
    if len(head) < count:
        head += read_present(fd, size, len(head), count - len(head))

    # Most files are small plain UTF-8: one read, one decoding, and no object but the piece.
    if len(head) == size:
        text = _decode_plain(head)
        if text is not None and not (redacts and find_secrets(text)):
            total = len(text)
            length = back_off(text, max_chars)
            is_cut = length < total
            return Piece(text[:length], rest=is_cut, total_chars=total, lines=count_lines(text))

    file = _describe_file(fd, size, head, check, text_offsets, reach)
    bom = file.encoding.bom
    window = _Window(bom, None, lead=head[:bom], head=head[bom:])
    return _read_window(file, window, max_chars)


def _describe_file(
    fd: int, size: int, head: bytes, check: Check, text_offsets: bool, reach: int
) -> _OpenFile:
    """Return an open file with the encoding that its first bytes show."""
    encoding = detect_encoding(head)
    origin = encoding.bom if text_offsets else 0
    return _OpenFile(fd, size, encoding, origin, check, reach)


def _decode_plain(raw: bytes) -> str | None:
    """Decode plain UTF-8 without a byte order mark; return None for anything else."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return None

    if "\0" in text or text[:1] == "\ufeff":
        return None

    return text


def _find_window(file: _OpenFile, requested: Range, known: KnownLines) -> _Window:
    """Find the requested lines or bytes.

    Raises Refused: invalid_range, range_too_far, and changed, also if the bytes before a range of
    bytes do not match its version.
    """
    begin = file.encoding.bom
    if requested.trailing_lines is not None:
        start = _find_trailing(file, requested.trailing_lines, known)
        return _Window(start, None, lead=file.read_before(start))

    end: int | None = None
    if requested.first_line is not None:
        start = _find_line(file, requested.first_line - 1, known)
        if requested.last_line is not None:
            end = _find_line(file, requested.last_line, known)

        lead = file.read_before(start)
        lines: int | None = None
        if start >= file.size > 0:
            ends, _ = known.find_before(_BEYOND, begin)
            last = lead.decode(file.encoding.codec, errors="replace")
            lines = ends + (not last.endswith("\n"))

        return _Window(start, end, lead=lead, lines=lines)

    start = requested.start + file.origin or begin
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
    """Read a window, replace its secrets by marks, and cut its text at the bound."""
    read = _read_text(file, window, max_chars + file.reach)
    secrets = _find_secrets(file, window, read, max_chars)
    decided = len(read.text) if read.is_complete else max_chars
    bound = _find_bound(max_chars, secrets, decided)

    # The text after the bound is not shown. It only decides whether a cut there splits a character.
    shown = [secret for secret in secrets if secret.start < bound]
    text, marks = redact(read.text[:bound], shown, file.encoding)
    uncut = Piece(text + read.text[bound : bound + 1], file.encoding, marks=marks)
    length = uncut.find_cut(min(max_chars, len(text)))

    total_chars, lines = None, window.lines
    if read.is_complete:
        total_chars = len(redact(read.text, secrets, file.encoding)[0])

    end = None
    if window.end is not None:
        end = window.end - file.origin
    elif read.is_complete and window.start == file.encoding.bom:
        lines = count_lines(read.text)

    piece = Piece(
        text=text[:length],
        encoding=file.encoding,
        start=window.start - file.origin,
        lead=window.lead[-VERSION_WINDOW:],
        rest=not read.is_complete or length < len(text) or bound < len(read.text),
        total_chars=total_chars,
        end=end,
        marks=marks[: uncut.count_marks(length)],
        lines=lines,
    )
    if not read.has_markers and not piece.marks:
        return piece

    return piece._replace(raw=read.raw[: piece.measure(length)])


def _find_secrets(
    file: _OpenFile, window: _Window, read: _WindowText, max_chars: int
) -> list[Secret]:
    """Find the secrets in a window, given the text around it; none if secrets are shown.

    A secret that begins before the window, or ends after it, is cut at the window's edge.
    """
    if not file.reach:
        return []

    lead, _ = decode(window.lead, file.encoding, final=True)
    text, following = read.text, ""
    if not read.is_complete:
        text = text[: max_chars + file.reach]
    elif window.end is not None:
        length = file.reach * file.encoding.unit
        beyond = os.pread(file.fd, length, window.end)
        following, _ = decode(beyond, file.encoding, final=True)

    secrets: list[Secret] = []
    for secret in find_secrets(lead + text + following):
        start = max(secret.start - len(lead), 0)
        end = min(secret.end - len(lead), len(text))
        if start < end:
            secrets.append(Secret(start, end, secret.kind))

    return secrets


def _find_bound(max_chars: int, secrets: Sequence[Secret], decided: int) -> int:
    """Return the end of the text that shows ``max_chars`` characters, or a few more.

    The end is not inside a secret. Only secrets that begin in the first ``decided`` characters are
    known.
    """
    bound = max_chars

    for secret in secrets:
        if secret.start >= min(bound, decided):
            break

        decided = max(decided, secret.end)
        hidden = secret.end - secret.start - len(format_mark(secret.kind))
        bound = max(bound + hidden, secret.end)

    return min(bound, decided)


def _read_text(file: _OpenFile, window: _Window, max_chars: int) -> _WindowText:
    """Read until there is one character more than the bound, or until the window's end."""
    raw, text, has_markers = window.head, "", False
    end = _BEYOND if window.end is None else window.end
    is_complete = window.start >= end or (bool(raw) and window.start + len(raw) == file.size)
    if raw:
        text, has_markers = decode_text(raw, file.encoding, final=is_complete)

    while not is_complete and len(text) <= max_chars:
        file.check()
        position = window.start + len(raw)
        bytes_per_char = len(raw) // len(text) + 1 if text else 1
        missing_chars = max_chars + 1 - len(text)
        count = max(CHUNK, missing_chars * bytes_per_char)
        more = os.pread(file.fd, min(count, end - position), position)
        if not more and position < file.size:
            raise Refused("changed")

        is_complete = not more or position + len(more) >= end
        raw += more
        text, has_markers = decode_text(raw, file.encoding, final=is_complete)

    return _WindowText(text, raw, has_markers, is_complete)


def decode_text(raw: bytes, encoding: Encoding, *, final: bool) -> tuple[str, bool]:
    """Decode bytes of a file, as `decode` does. Raises Refused if they are binary."""
    if encoding.unit == 1 and b"\0" in raw:
        raise Refused("binary_file")

    text, has_markers = decode(raw, encoding, final=final)
    # In UTF-16, only the text shows whether it is binary: most characters have a zero byte.
    if encoding.unit == 2 and "\0" in text:
        raise Refused("binary_file")

    return text, has_markers
