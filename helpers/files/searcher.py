"""Search the files that `FileReader` would read, in the text that it would return."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from abilities.declarations.faults import Refused
from abilities.helpers.files.confinement import Policy
from abilities.helpers.files.file_walk import FileWalk, FolderMemory, FoundFile
from abilities.helpers.files.globs import Glob
from abilities.helpers.files.matching import (
    Matcher,
    ShownText,
    TextBlock,
    build_matcher,
    cut_block,
    find_blocks,
    show_text,
)
from abilities.helpers.files.paths import parse_path
from abilities.helpers.files.reader import ReadingSession
from abilities.helpers.files.roots import Root
from abilities.helpers.text.codec import detect_encoding
from abilities.helpers.threads.workers import Worker, WorkerPool

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
