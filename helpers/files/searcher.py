"""Search the files that `Files` would read, in the text that it would return.

A search finds the lines that match a literal or a pattern of RE2. A line is matched without its
line end, LF or CR LF.
"""

import re
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import wait
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple, Self

from abilities.declarations.refusals import Refused
from abilities.helpers.documents.documents import Converting
from abilities.helpers.files import file_walk, redaction
from abilities.helpers.files.confinement import Policy, parse_path
from abilities.helpers.files.file_walk import FileWalk, FolderMemory, FoundFile
from abilities.helpers.files.globs import Glob
from abilities.helpers.files.reader import ReadingSession, Root
from abilities.helpers.files.window import decode_text
from abilities.helpers.text import Encoding, back_off, detect_encoding, replace_markers
from abilities.helpers.threads.workers import Worker

MAX_CHARS = 1_000
"""Characters of a literal or pattern."""

MAX_BLOCK = 2_000
"""Characters of a block that are shown. A longer block has a single matching line."""

FIRST_FILE_SECONDS = 0.5
"""The least time for the first file of a call, so that every call makes progress."""

MAX_FILE_BYTES = 5_000_000
"""The largest file that is searched."""

MAX_BYTES = 200_000_000
"""Bytes of files that one call searches."""

FIELD = "search"
"""The argument that a refusal names."""

# A pattern whose states take too much memory costs some nanoseconds per byte and step. So bounded,
# a piece that is searched at once takes at most about a quarter of a second.
_MAX_STEPS = 40_000_000
_MAX_PIECE = 1_000_000

# RE2's own word boundaries know only ASCII.
_BESIDE_WORDS = rb"(?:^|[^\pL\pM\pN_])(?:%b)(?:[^\pL\pM\pN_]|$)"

_REPLACEMENT = "\ufffd"

_POLL_SECONDS = 0.05
"""How often a search that waits for a document looks whether it is over."""

_BEFORE_MATCH = 500  # characters that are shown before the match in a line that is cut

# The file is gone, or not shared: a listing would not have it either.
_UNSEEN = ("not_found", "no_workspace", "is_directory", "dangling_link", "denied")

_MARKS = tuple({redaction.format_mark(kind) for kind, _ in redaction.SHAPES})

Check = Callable[[], None]


class Matcher(NamedTuple):
    """Finds a literal or pattern. The raw bytes of each UTF-8 file with a match have ``needle``.

    ``find(text, start, check)`` yields the position of the first match in each line that has one.
    ``text`` is UTF-8, and a line begins at ``start``. ``check`` is called between matches, and may
    raise to stop the search.
    """

    needle: bytes
    find: Callable[[bytes, int, Check], Iterator[int]]


def build_matcher(text: str, *, is_regex: bool, redacts: bool, is_whole: bool = False) -> Matcher:
    """Return a matcher for a literal or a pattern of RE2.

    If it ``is_whole``, no letter, digit or underscore may be beside a match.

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

    needle = b"" if is_regex else find_needle(text, redacts=redacts)
    if not is_regex and not is_whole:
        return Matcher(needle, partial(_find_literal, raw))

    pattern = raw if is_regex else re.escape(raw)
    try:
        compiled, steps = redaction.compile_line_pattern(pattern)
        if is_whole:
            compiled, steps = redaction.compile_line_pattern(_BESIDE_WORDS % pattern)
    except ValueError:
        raise Refused("invalid_pattern", FIELD) from None

    most = min(_MAX_PIECE, _MAX_STEPS // steps)
    return Matcher(needle, partial(_find_pattern, compiled, most))


def find_needle(text: str, *, redacts: bool) -> bytes:
    """Return bytes that are in every UTF-8 file whose shown text contains a literal.

    A literal may begin or end in the mark of a secret; these parts are left out. The result is
    empty if no bytes are certain to be in the file.

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


def _find_literal(literal: bytes, text: bytes, start: int, check: Check) -> Iterator[int]:
    place = text.find(literal, start)

    while place >= 0:
        yield place
        check()
        place = text.find(literal, find_line_end(text, place))


def _find_pattern(
    pattern: re.Pattern[bytes], most: int, text: bytes, start: int, check: Check
) -> Iterator[int]:
    """Search pieces of a text of at most ``most`` bytes, and then each line that was found.

    Searching pieces is fast, and finds every line that matches on its own.
    """
    # A line ends before CR LF. The replacement is as long, so that positions stay the same.
    lines = text.replace(b"\r\n", b"\n\n")

    while start < len(text):
        # A piece has whole lines. A line that is longer is searched up to the piece's length.
        end = following = min(start + most, len(text))
        if end < len(text):
            last_line_end = text.rfind(b"\n", start, end) + 1
            if last_line_end > start:
                end = following = last_line_end
            else:
                following = find_line_end(text, end)

        while start < end:
            match = pattern.search(lines, start, end)
            check()
            if match is None:
                break

            place = match.span()[0]
            if place == end and text[end - 1 : end] == b"\n":
                break  # this is the line after the piece

            first = text.rfind(b"\n", 0, place) + 1
            start = find_line_end(text, place)
            line = text[first:start].removesuffix(b"\n").removesuffix(b"\r")
            match_in_line = pattern.search(line[:most])
            if match_in_line is not None:
                yield first + match_in_line.span()[0]

        start = following


def find_line_end(text: bytes, place: int) -> int:
    """Return the end of the line at a position, after its line end."""
    line_end = text.find(b"\n", place)
    if line_end < 0:
        return len(text)

    return line_end + 1


class HiddenLines(NamedTuple):
    """The number of line ends that marks hide in a shown line; shown lines count from 0."""

    line: int
    line_ends: int


@dataclass(frozen=True)
class ShownText:
    """A file's text with marks in place of secrets, and U+FFFD in place of undecodable bytes."""

    raw: bytes
    hidden: tuple[HiddenLines, ...] = ()

    @cached_property
    def starts(self) -> list[int]:
        """The position of each line, and of the end."""
        starts = [0, *(match.end() for match in re.finditer(b"\n", self.raw))]
        if starts[-1] < len(self.raw):
            starts.append(len(self.raw))

        return starts

    def get_lines(self, first: int, end: int) -> str:
        """Return the lines from one number to another (exclusive)."""
        return self.raw[self.starts[first] : self.starts[end]].decode()

    def number_line(self, line: int) -> int:
        """Return the number, from 1, of the file's first line in a shown line."""
        number = line + 1
        for hidden in self.hidden:
            if hidden.line < line:
                number += hidden.line_ends

        return number

    def skip_lines(self, number: int) -> int:
        """Return the first shown line that begins after a line of the file."""
        line = number
        for hidden in self.hidden:
            if self.number_line(hidden.line) <= number:
                line = max(line - hidden.line_ends, hidden.line + 1)

        return min(line, len(self.starts) - 1)


@dataclass
class TextBlock:
    """Lines of a text, from ``first`` to ``end`` (exclusive).

    ``lines`` are those that match, and ``match`` is the position of the first match.
    """

    first: int
    end: int
    lines: list[int]
    match: int


def find_blocks(
    text: ShownText, matches: Iterable[int], context: int, start: int
) -> Iterator[TextBlock]:
    """Yield blocks of the matching lines, with ``context`` lines before and after each.

    ``matches`` has a position per matching line, in order. No block begins before the line
    ``start``. Blocks that would touch are joined, unless the result would be too long to be shown.
    Then the next block begins after the first, so that a search may continue there and find the
    same.
    """
    block: TextBlock | None = None

    for match in matches:
        count = len(text.starts) - 1
        line = bisect_right(text.starts, match, hi=count) - 1
        first = max(line - context, start)
        end = min(line + context + 1, count)

        if block is not None:
            size = text.starts[end] - text.starts[block.first]
            if first <= block.end and size <= MAX_BLOCK:
                block.end = end
                block.lines.append(line)
                continue

            block.end = min(block.end, line)
            yield block
            first = max(first, block.end)

        block = TextBlock(first, end, [line], match)

    if block is not None:
        yield block


def cut_block(text: ShownText, block: TextBlock) -> tuple[str, bool]:
    """Return the shown part of a block, and whether it is less than the block.

    If a block is too long, only its first matching line is shown, or a part of it with the match.
    """
    shown = text.get_lines(block.first, block.end)
    if len(shown) <= MAX_BLOCK:
        return shown, False

    number = block.lines[0]
    line = text.get_lines(number, number + 1)
    if len(line) <= MAX_BLOCK:
        return line, True

    chars_before = len(text.raw[text.starts[number] : block.match].decode(errors="ignore"))
    start = back_off(line, max(chars_before - _BEFORE_MATCH, 0))
    part = line[start : start + MAX_BLOCK + 1]
    return part[: back_off(part, MAX_BLOCK)], True


def show_text(raw: bytes, encoding: Encoding, *, redacts: bool) -> ShownText:
    """Return the text of a whole file as reading it would show it.

    Raises Refused: binary_file.
    """
    text, has_markers = decode_text(raw[encoding.bom :], encoding, final=True)
    secrets: list[redaction.Secret] = []
    if redacts:
        secrets = redaction.find_secrets(text)

    if not secrets:
        if has_markers or encoding.bom:
            return ShownText(replace_markers(text).encode())

        return ShownText(raw)

    shown, marks = redaction.redact(text, secrets, encoding)
    hidden: list[HiddenLines] = []
    position = line = 0

    for secret, mark in zip(secrets, marks, strict=True):
        line += shown.count("\n", position, mark.start)
        position = mark.end
        count = text.count("\n", secret.start, secret.end)
        if count:
            hidden.append(HiddenLines(line, count))

    return ShownText(replace_markers(shown).encode(), tuple(hidden))


class SearchRequest(NamedTuple):
    """A search for a literal, or a pattern of RE2, in the lines of files that match a glob.

    ``context`` is the number of lines that are shown before and after each match. At most ``limit``
    hits are returned, beginning after ``after``: the position of a file, and one of its lines. With
    ``is_whole``, no letter, digit or underscore may be beside a match.
    """

    text: str
    is_regex: bool
    glob: Glob
    context: int
    limit: int
    after: tuple[str, int] = ("", 0)
    is_whole: bool = False


class Hit(NamedTuple):
    """A block of a file: lines that match, with the lines around them.

    ``path`` reads the block from the root ``source``, for example ``src/app.py#L10-L14``.
    ``position`` is the file's place in the order of a listing. ``lines`` are the numbers of the
    matching lines, and ``last_line`` is the number of the block's last line. ``text`` is the block
    as reading it returns it; if it ``is_cut``, only a matching line, up to 2,000 characters of it.
    """

    path: str
    position: str
    source: str
    last_line: int
    lines: tuple[int, ...]
    text: str
    is_cut: bool

    @property
    def place(self) -> tuple[str, int]:
        """The place after it, from which a search continues."""
        return self.position, self.last_line


@dataclass
class SearchResult:
    """The hits in the order of the files, and then of their lines.

    ``searched`` counts the files that were searched. ``skipped`` counts files that are binary,
    unreadable, too large or too slow to search, and folders that could not be entered. ``after`` is
    the place to continue from, None at the end. The search ``is_over_time`` if its time or bytes
    ended it, and not the limit.
    """

    hits: list[Hit] = field(default_factory=list[Hit])
    searched: int = 0
    skipped: int = 0
    after: tuple[str, int] | None = None
    is_over_time: bool = False


class _OutOfTime(Exception):
    """The search's time is over."""


class SearchSession:
    """One search on one thread. Leaves no descriptor behind."""

    def __init__(self, roots: Sequence[Root], policy: Policy, worker: Worker) -> None:
        self._policy = policy
        self._worker = worker
        self._deadline = self._file_deadline = time.monotonic() + file_walk.SECONDS
        self._walk = FileWalk(roots, policy, FolderMemory(), worker)
        self._reading = ReadingSession(roots, policy, worker, "not_found")
        self._closing = ExitStack()
        self._result = SearchResult()
        self._files = 0
        self._bytes = 0

    def __enter__(self) -> Self:
        self._closing.enter_context(self._walk)
        self._closing.enter_context(self._reading)
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def search(self, request: SearchRequest) -> SearchResult:
        """Search one file after the other, as far as the limit and the time allow.

        Raises Refused: too_short, too_long, invalid_format, invalid_pattern; timeout,
        root_unavailable, access_denied, resource_exhausted.
        """
        result = self._result
        matcher = build_matcher(
            request.text,
            is_regex=request.is_regex,
            redacts=self._policy.redacts,
            is_whole=request.is_whole,
        )

        with closing(self._walk.find_files(request.glob, request.after[0])) as files:
            for found in files:
                self._worker.check()
                self._search_file(found, matcher, request)
                if result.after is not None:
                    break
            else:
                if self._walk.stopped_at is not None:
                    result.after = (self._walk.stopped_at, 0)

        result.is_over_time = result.after is not None and len(result.hits) < request.limit
        result.skipped += self._walk.skipped
        return result

    def _search_file(self, found: FoundFile, matcher: Matcher, request: SearchRequest) -> None:
        """Add a file's hits to the result, or stop the search there."""
        result = self._result
        self._files += 1
        self._file_deadline = self._deadline
        now = time.monotonic()
        if self._files == 1:
            self._file_deadline = max(self._deadline, now + FIRST_FILE_SECONDS)
        elif self._bytes + found.stat.st_size > MAX_BYTES or now > self._deadline:
            result.after = (found.position, 0)
            return

        count, searched = len(result.hits), result.searched
        try:
            source, text = self._read_text(found, matcher)
            result.searched += 1
            if text is None:
                return

            for hit in self._find_hits(found.position, source, text, matcher, request):
                if len(result.hits) == request.limit:
                    result.after = result.hits[-1].place
                    return

                result.hits.append(hit)
        except Refused as error:
            if error.reason == "resource_exhausted":
                raise
            if error.reason not in _UNSEEN:
                result.skipped += 1
        except _OutOfTime:
            if len(result.hits) > count:
                result.after = result.hits[-1].place
            elif self._files > 1:
                result.searched = searched
                result.after = (found.position, 0)
            else:
                result.skipped += 1  # it takes longer than a call has

    def _read_text(self, found: FoundFile, matcher: Matcher) -> tuple[str, ShownText | None]:
        """Return the root that a file was read from, and its text; None if nothing can match.

        Raises Refused, and _OutOfTime if it is a document that is still being converted.
        """
        # Opened again by its name, so that it is confined even if it was replaced meanwhile.
        file = self._reading.open(parse_path(found.path), found.source)
        try:
            raw = self._reading.read_bytes(file, MAX_FILE_BYTES)
        except Converting as document:
            while not document.text.done():
                self._worker.check()
                if time.monotonic() > self._file_deadline:
                    raise _OutOfTime from None

                wait([document.text], timeout=_POLL_SECONDS)

            return self._read_text(found, matcher)

        self._bytes += len(raw)

        encoding = detect_encoding(raw)
        if encoding.unit == 1 and matcher.needle not in raw and b"\0" not in raw:
            return file.root.name, None

        return file.root.name, show_text(raw, encoding, redacts=self._policy.redacts)

    def _find_hits(
        self, position: str, source: str, text: ShownText, matcher: Matcher, request: SearchRequest
    ) -> Iterator[Hit]:
        """Yield the hits in a file. Raises _OutOfTime."""

        def check() -> None:
            self._worker.check()
            if time.monotonic() > self._file_deadline:
                raise _OutOfTime

        start = begin = 0
        if position == request.after[0] and request.after[1]:
            start = text.skip_lines(request.after[1])
            begin = text.starts[start]

        matches = matcher.find(text.raw, begin, check)
        for block in find_blocks(text, matches, request.context, start):
            lines = tuple(map(text.number_line, block.lines))
            last_line = text.number_line(block.end) - 1
            path = f"{position}#L{text.number_line(block.first)}-L{last_line}"
            shown, is_cut = cut_block(text, block)
            yield Hit(path, position, source, last_line, lines, shown, is_cut)
