"""Search the files that `FileReader` would read, in the text that it would return.

Find the lines of a text in which a literal or a pattern of RE2 occurs.

A line is matched without its line end, LF or CR LF.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, Self

from abilities.declarations.refusals import Refused
from abilities.helpers.files.confinement import Policy, parse_path
from abilities.helpers.files.file_walk import FileWalk, FolderMemory, FoundFile
from abilities.helpers.files.globs import Glob
from abilities.helpers.files.reader import ReadingSession
from abilities.helpers.files.redaction import SHAPES, Secret, find_secrets, format_mark
from abilities.helpers.files.roots import Root
from abilities.helpers.text.codec import Encoding, decode, detect_encoding, replace_markers
from abilities.helpers.text.patterns import Pattern, compile_line_pattern
from abilities.helpers.text.pieces import back_off
from abilities.helpers.threads.workers import Worker, WorkerPool

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


SECONDS = 1.2
"""After that long no further file is looked into: the next call goes on. A call has 2 s."""

FIRST_FILE_SECONDS = 0.5
"""What the first file of a call has at least, so that every call goes on."""

MAX_FILE_BYTES = 5_000_000
"""The largest file that is looked into."""

MAX_BYTES = 200_000_000
"""Bytes of files that one call looks into."""

# The file is not there, or not shared: a listing would not have it either.
_UNSEEN = ("not_found", "no_workspace", "is_directory", "dangling_link", "denied")


class SearchRequest(NamedTuple):
    """What to search for: a literal, or a pattern of RE2, within lines of files that match a glob.

    ``context`` is how many lines are shown before and after each match. At most ``limit`` hits are
    returned, from those on that stand behind ``after``: a file's position, and a line of it. With
    ``is_whole`` neither a letter, a digit nor an underscore may stand beside a match.
    """

    text: str
    is_regex: bool
    glob: Glob
    context: int
    limit: int
    after: tuple[str, int] = ("", 0)
    is_whole: bool = False


class Hit(NamedTuple):
    """Lines that match, with the lines around them: a block of a file.

    ``path`` reads the block, for example ``src/app.py#L10-L14``, from the root ``source``;
    ``position`` is the file's place in the order of a listing. ``lines`` are the numbers of the
    matching lines, ``last_line`` is that of the block's last. ``text`` is the block as reading it
    returns it; if it ``is_cut``, it is a part of a matching line, at most 2,000 characters.
    """

    path: str
    position: str
    source: str
    last_line: int
    lines: tuple[int, ...]
    text: str
    is_cut: bool


@dataclass
class SearchResult:
    """The hits in the order of the files, and then of their lines.

    ``searched`` counts files that were looked into; ``skipped`` those that are binary, unreadable,
    too large or too slow to search, and folders that could not be entered. ``after`` is where
    to go on, None at the end; it ``is_over_time`` if time or bytes ended the search, and not the
    limit.
    """

    hits: list[Hit] = field(default_factory=list[Hit])
    searched: int = 0
    skipped: int = 0
    after: tuple[str, int] | None = None
    is_over_time: bool = False


class FileSearcher:
    """The one way to search files. Holds no descriptor between calls."""

    def __init__(self, roots: Sequence[Root], policy: Policy, workers: WorkerPool) -> None:
        self._roots = roots
        self._policy = policy
        self._workers = workers

    async def search(self, request: SearchRequest) -> SearchResult:
        """Search the files, as far as the limit and the time allow.

        Raises Refused: too_short, too_long, invalid_format, invalid_pattern; timeout,
        root_unavailable, access_denied, resource_exhausted.
        """
        (outcome,) = await self._workers.map(self._open_session, _SearchSession.search, [request])
        if isinstance(outcome, Exception):
            raise outcome

        return outcome

    def _open_session(self, worker: Worker) -> "_SearchSession":
        return _SearchSession(self._roots, self._policy, worker)


class _OutOfTime(Exception):
    """The search's time is over."""


class _SearchSession:
    """One search on one thread. Leaves no descriptor behind."""

    def __init__(self, roots: Sequence[Root], policy: Policy, worker: Worker) -> None:
        self._policy = policy
        self._worker = worker
        self._deadline = self._file_deadline = time.monotonic() + SECONDS
        self._walk = FileWalk(roots, policy, worker, FolderMemory(), SECONDS)
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
        """Look into one file after the other."""
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
                    self._stop((self._walk.stopped_at, 0), request)

        result.skipped += self._walk.skipped
        return result

    def _search_file(self, found: FoundFile, matcher: Matcher, request: SearchRequest) -> None:
        """Add a file's hits to the result, or say there that the search stops."""
        result = self._result
        if self._is_over(found.stat.st_size):
            self._stop((found.position, 0), request)
            return

        try:
            source, text = self._read_text(found, matcher)
        except Refused as error:
            self._skip(error)
            return

        result.searched += 1
        if text is None:
            return

        count = len(result.hits)
        try:
            for hit in self._find_hits(found.position, source, text, matcher, request):
                if len(result.hits) == request.limit:
                    self._stop_behind_last_hit(request)
                    return

                result.hits.append(hit)
        except _OutOfTime:
            if len(result.hits) > count:
                self._stop_behind_last_hit(request)
            elif self._files > 1:
                result.searched -= 1
                self._stop((found.position, 0), request)
            else:
                result.skipped += 1  # it takes longer than a call has

    def _is_over(self, size: int) -> bool:
        """Whether there is no time for a file of a size; there always is for the first one."""
        self._files += 1
        self._file_deadline = self._deadline
        now = time.monotonic()
        if self._files == 1:
            self._file_deadline = max(self._deadline, now + FIRST_FILE_SECONDS)
            return False

        return self._bytes + size > MAX_BYTES or now > self._deadline

    def _stop_behind_last_hit(self, request: SearchRequest) -> None:
        last = self._result.hits[-1]
        self._stop((last.position, last.last_line), request)

    def _stop(self, after: tuple[str, int], request: SearchRequest) -> None:
        self._result.after = after
        self._result.is_over_time = len(self._result.hits) < request.limit

    def _skip(self, error: Refused) -> None:
        """Count a file that cannot be searched, unless nobody may know of it."""
        if error.reason == "resource_exhausted":
            raise error

        if error.reason not in _UNSEEN:
            self._result.skipped += 1

    def _read_text(self, found: FoundFile, matcher: Matcher) -> tuple[str, ShownText | None]:
        """Return the root that a file was read from, and its text; None if nothing matches.

        Raises Refused.
        """
        # Opened anew by its name: whatever has happened to it since it was found, it is confined.
        file = self._reading.open(parse_path(found.path), found.source)
        raw = self._reading.read_bytes(file, MAX_FILE_BYTES)
        self._bytes += len(raw)

        encoding = detect_encoding(raw)
        if encoding.unit == 1 and matcher.needle not in raw and b"\0" not in raw:
            return file.root.name, None

        return file.root.name, show_text(raw, encoding, redacts=self._policy.redacts)

    def _find_hits(
        self,
        position: str,
        source: str,
        text: ShownText,
        matcher: Matcher,
        request: SearchRequest,
    ) -> Iterator[Hit]:
        """Yield the hits in a file. Raises _OutOfTime."""
        counted, line = 0, 0
        if position == request.after[0]:
            counted, line = text.skip_lines(request.after[1])

        matches = matcher.find(text.raw, counted, self._check)
        for block in find_blocks(text.raw, matches, request.context, counted):
            line += text.raw.count(b"\n", counted, block.start)
            counted = block.start
            yield _build_hit(position, source, text, block, line)

    def _check(self) -> None:
        self._worker.check()
        if time.monotonic() > self._file_deadline:
            raise _OutOfTime


def _build_hit(position: str, source: str, text: ShownText, block: TextBlock, line: int) -> Hit:
    """Return a block of a text as a hit, given the number of its first shown line, from 0."""
    first_line = text.number_line(line)
    lines: list[int] = []
    place = block.start

    for match in block.matches:
        line += text.raw.count(b"\n", place, match)
        place = match
        lines.append(text.number_line(line))

    following = line + text.raw.count(b"\n", place, block.end)
    if not text.raw.endswith(b"\n", block.start, block.end):
        following += 1  # the last line of the file, which has no line end
    last_line = text.number_line(following) - 1

    shown, is_cut = cut_block(text.raw, block)
    path = f"{position}#L{first_line}-L{last_line}"
    return Hit(path, position, source, last_line, tuple(lines), shown, is_cut)
