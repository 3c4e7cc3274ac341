"""Find the lines of a text in which a literal or a pattern of RE2 occurs.

A line is matched without its line end, LF or CR LF.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from abilities.declarations.faults import Refused
from abilities.helpers.files.redaction import Secret, find_secrets, format_mark
from abilities.helpers.files.secret_shapes import SHAPES
from abilities.helpers.text.codec import Encoding, decode, replace_markers
from abilities.helpers.text.cutting import back_off
from abilities.helpers.text.patterns import Pattern, compile_line_pattern

MAX_CHARS = 1_000
"""Characters of a literal or pattern."""

FIELD = "search"
"""The argument that a refusal names."""

# A pattern whose states take too much memory costs some nanoseconds per byte and step. No piece
# that is searched at once takes longer than about a quarter of a second.
_MAX_STEPS = 40_000_000
_MAX_PIECE = 1_000_000

# RE2's own word boundaries know ASCII alone.
_BESIDE_WORDS = rb"(?:^|[^\pL\pM\pN_])(?:%b)(?:[^\pL\pM\pN_]|$)"

_REPLACEMENT = "\ufffd"

_MARKS = tuple({format_mark(shape.kind) for shape in SHAPES})

Check = Callable[[], None]


class Matcher(Protocol):
    """What is searched for. ``needle`` is in each UTF-8 file that has a match, in its raw bytes."""

    needle: bytes

    def find(self, text: bytes, start: int, check: Check) -> Iterator[int]:
        """Yield the position of the first match of each line that has one.

        ``text`` is UTF-8; a line begins at ``start``. ``check`` is called now and then, and may
        raise to stop the search.
        """
        ...


def build_matcher(text: str, *, is_regex: bool, redacts: bool, is_whole: bool = False) -> Matcher:
    """Return what finds a literal or a pattern of RE2.

    If it ``is_whole``, no letter, digit or underscore may stand beside a match.

    Raises Refused: too_short, too_long, invalid_format for a text with a line break or a lone
    surrogate, invalid_pattern.
    """
    if not text:
        raise Refused("too_short", FIELD, expected={"min_length": 1})

    if len(text) > MAX_CHARS:
        raise Refused("too_long", FIELD, expected={"max_length": MAX_CHARS})

    try:
        raw = text.encode()
    except UnicodeEncodeError:
        raise Refused("invalid_format", FIELD, expected={"format": "Unicode text"}) from None

    if "\n" in text or "\r" in text:
        raise Refused("invalid_format", FIELD, expected={"format": "text within one line"})

    if is_regex:
        return _PatternMatcher(raw, is_whole=is_whole)

    needle = find_needle(text, redacts=redacts)
    if is_whole:
        return _PatternMatcher(re.escape(raw), is_whole=True, needle=needle)

    return _LiteralMatcher(raw, needle)


def find_needle(text: str, *, redacts: bool) -> bytes:
    """Return what the raw bytes of every UTF-8 file hold whose shown text holds a literal.

    A literal may begin in the mark of a secret, and end in one: both parts are left out. The result
    is empty if nothing is certain to be there.

    >>> find_needle("items[", redacts=True), find_needle("secret", redacts=True)
    (b'items', b'')
    """
    if _REPLACEMENT in text:
        return b""

    if not redacts:
        return text.encode()

    start, end = 0, len(text)
    for mark in _MARKS:
        if text in mark or mark in text:
            return b""

        for length in range(1, min(len(mark), len(text))):
            if text.startswith(mark[-length:]):
                start = max(start, length)
            if text.endswith(mark[:length]):
                end = min(end, len(text) - length)

    return text[start:end].encode()


class _LiteralMatcher:
    def __init__(self, literal: bytes, needle: bytes) -> None:
        self.needle = needle
        self._literal = literal

    def find(self, text: bytes, start: int, check: Check) -> Iterator[int]:
        place = text.find(self._literal, start)

        while place >= 0:
            yield place
            check()
            place = text.find(self._literal, find_line_end(text, place))


class _PatternMatcher:
    """Finds a pattern. Whole pieces of a text are searched, and then each line that was found.

    Searching pieces is fast, and finds every line that matches by itself.
    """

    def __init__(self, pattern: bytes, *, is_whole: bool, needle: bytes = b"") -> None:
        self.needle = needle
        compiled = compile_line_pattern(pattern)
        if compiled is not None and is_whole:
            compiled = compile_line_pattern(_BESIDE_WORDS % pattern)
        if compiled is None:
            raise Refused("invalid_pattern", FIELD)

        self._pattern: Pattern = compiled
        self._piece = min(_MAX_PIECE, _MAX_STEPS // compiled.programsize)

    def find(self, text: bytes, start: int, check: Check) -> Iterator[int]:
        # As long, so that positions stay: a line ends before CR LF.
        lines = text.replace(b"\r\n", b"\n\n")

        while start < len(text):
            end, following = self._find_piece(text, start)

            while start < end:
                match = self._pattern.search(lines, start, end)
                check()
                if match is None:
                    break

                place = match.span()[0]
                if place == end and text[end - 1 : end] == b"\n":
                    break  # this is the line after the piece

                first = find_line_start(text, place)
                start = find_line_end(text, place)
                place_in_line = self._search_line(text[first:start])
                if place_in_line is not None:
                    yield first + place_in_line

            start = following

    def _find_piece(self, text: bytes, start: int) -> tuple[int, int]:
        """Return where a piece of whole lines ends, and where the next one begins.

        A line that is too long for a piece is searched up to there.
        """
        end = start + self._piece
        if end >= len(text):
            return len(text), len(text)

        last_line_end = text.rfind(b"\n", start, end) + 1
        if last_line_end > start:
            return last_line_end, last_line_end

        return end, find_line_end(text, end)

    def _search_line(self, line: bytes) -> int | None:
        """Return where a pattern matches in a line; None if it does not."""
        content = line.removesuffix(b"\n").removesuffix(b"\r")
        match = self._pattern.search(content[: self._piece])
        if match is None:
            return None

        return match.span()[0]


def find_line_start(text: bytes, place: int) -> int:
    """Return where the line begins that holds a position; a line end belongs to its line."""
    return text.rfind(b"\n", 0, place) + 1


def find_line_end(text: bytes, place: int) -> int:
    """Return where the line ends, with its line end, that holds a position."""
    line_end = text.find(b"\n", place)
    if line_end < 0:
        return len(text)

    return line_end + 1


MAX_BLOCK = 2_000
"""Characters that are shown of a block. It has several matching lines only if it is no longer."""

_BEFORE_MATCH = 500  # characters that are shown before the match in a line that is cut


@dataclass
class TextBlock:
    """Lines of a text from the byte ``start`` to ``end``; ``matches`` are positions in them."""

    start: int
    end: int
    matches: list[int]


def find_blocks(
    text: bytes, matches: Iterable[int], context: int, start: int
) -> Iterator[TextBlock]:
    """Yield the blocks of lines that match, with ``context`` lines before and after each.

    ``matches`` has a position per matching line, in order. No block begins before ``start``. Blocks
    that would touch are one, unless it would be too long to be shown; then the next one begins
    behind it, so that a search may go on there and find the same.
    """
    block: TextBlock | None = None

    for match in matches:
        line = find_line_start(text, match)
        first = max(_go_back(text, line, context), start)
        end = _go_forward(text, match, context + 1)

        if block is not None:
            touches = first <= block.end
            if touches and end - block.start <= MAX_BLOCK:
                block.end = end
                block.matches.append(match)
                continue

            block.end = min(block.end, line)
            yield block
            first = max(first, block.end)

        block = TextBlock(first, end, [match])

    if block is not None:
        yield block


def cut_block(text: bytes, block: TextBlock) -> tuple[str, bool]:
    """Return what is shown of a block, and whether that is less than the block.

    Of a block that is too long, it is the first matching line, or the part of it around the match.
    """
    shown = text[block.start : block.end].decode()
    if len(shown) <= MAX_BLOCK:
        return shown, False

    match = block.matches[0]
    line = text[find_line_start(text, match) : find_line_end(text, match)].decode()
    if len(line) <= MAX_BLOCK:
        return line, True

    chars_before = text[find_line_start(text, match) : match].decode(errors="ignore")
    start = 0
    if len(chars_before) > _BEFORE_MATCH:
        start = back_off(line, len(chars_before) - _BEFORE_MATCH)

    part = line[start : start + MAX_BLOCK + 1]
    return part[: back_off(part, MAX_BLOCK)], True


def _go_back(text: bytes, line: int, count: int) -> int:
    """Return where the line begins that stands ``count`` lines before another."""
    for _ in range(count):
        if line == 0:
            break
        line = find_line_start(text, line - 1)

    return line


def _go_forward(text: bytes, place: int, count: int) -> int:
    """Return the end of a line that stands ``count`` - 1 lines behind that of a position."""
    for _ in range(count):
        place = find_line_end(text, place)

    return place


class HiddenLines(NamedTuple):
    """How many line ends are behind marks in a shown line; shown lines count from 0."""

    line: int
    line_ends: int


class ShownText(NamedTuple):
    """A file's text with marks in the place of secrets, and U+FFFD for what does not decode."""

    raw: bytes
    hidden: tuple[HiddenLines, ...] = ()

    def number_line(self, line: int) -> int:
        """Return the number, from 1, of the first line of the file that is in a shown line."""
        number = line + 1
        for hidden in self.hidden:
            if hidden.line < line:
                number += hidden.line_ends

        return number

    def skip_lines(self, number: int) -> tuple[int, int]:
        """Return the place of the first shown line that begins behind a line of the file.

        That is its byte position, and its number among the shown lines, from 0.
        """
        if number == 0:
            return 0, 0

        line = number
        for hidden in self.hidden:
            if self.number_line(hidden.line) <= number:
                line = max(line - hidden.line_ends, hidden.line + 1)

        skipped = self.raw.split(b"\n", line)
        if len(skipped) <= line:
            return len(self.raw), len(skipped)

        return len(self.raw) - len(skipped[line]), line


def show_text(raw: bytes, encoding: Encoding, *, redacts: bool) -> ShownText:
    """Return the text of a whole file as it is shown.

    Raises Refused: binary_file.
    """
    if encoding.unit == 1 and b"\0" in raw:
        raise Refused("binary_file")

    text, has_markers = decode(raw[encoding.bom :], encoding, final=True)
    if encoding.unit == 2 and "\0" in text:
        raise Refused("binary_file")

    secrets: list[Secret] = []
    if redacts:
        secrets = find_secrets(text)

    if secrets:
        return _hide_secrets(text, secrets)

    if has_markers or encoding.bom:
        return ShownText(replace_markers(text).encode())

    return ShownText(raw)


def _hide_secrets(text: str, secrets: list[Secret]) -> ShownText:
    parts: list[str] = []
    hidden: list[HiddenLines] = []
    position = line = 0

    for secret in secrets:
        before = text[position : secret.start]
        line += before.count("\n")
        parts += (before, format_mark(secret.kind))

        count = text.count("\n", secret.start, secret.end)
        if count:
            hidden.append(HiddenLines(line, count))

        position = secret.end

    parts.append(text[position:])
    return ShownText(replace_markers("".join(parts)).encode(), tuple(hidden))
