"""What every source of an import yields, and the first of them: our own exports.

Remarks on a whole source: how many of its rows have something that is not kept as it was.

Memories as other systems have them, before they are adjusted to our limits.

Read files line by line, in bounded memory however long a file or a line is.

A stream is one file, read in large chunks: here the hop to a thread that `aiofiles` makes per chunk
is cheap. Many small files are a batch instead: see `abilities.helpers.threads.workers`.
"""

from codecs import BOM_UTF8
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import aiofiles

from abilities.declarations.memory import Importance, Type
from abilities.declarations.values import JsonObject, as_object
from abilities.helpers.store.history import Entry, seal
from abilities.helpers.store.model import IncomingMemory
from abilities.helpers.transfer.export_lines import (
    UnusableLine,
    complete_fields,
    is_history,
    keep_sound,
    parse_entry,
    parse_fields,
    parse_heading,
    parse_line_json,
)


class Kind(NamedTuple):
    """What a remark counts, in the singular and in the plural."""

    one: str
    many: str


MEMORIES = Kind("memory", "memories")
LINKS = Kind("link", "links")
RELATIONS = Kind("relation", "relations")
ROWS = Kind("row", "rows")


class CountedRemark(NamedTuple):
    """A sentence that holds for some rows; ``subject`` names them, for example ``160 links``."""

    subject: str
    rows: int
    words: str


class RemarkCounter:
    """Counts rows by kind and sentence, so that a report has one remark for all of them."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[Kind, str]] = Counter()

    def add(self, kind: Kind, words: str, count: int = 1) -> None:
        """Count rows that a sentence holds for."""
        if count:
            self._counts[kind, words] += count

    def list_remarks(self) -> Iterator[CountedRemark]:
        """Yield the remarks, each sentence once, in the order in which they first came up."""
        for (kind, words), count in self._counts.items():
            noun = kind.many
            if count == 1:
                noun = kind.one

            yield CountedRemark(f"{count:,} {noun}", count, words)


class ForeignLink(NamedTuple):
    """A link as another system has it; ``weight`` may be any number, also NaN or infinite."""

    name: str
    type: str
    weight: float
    term: str = ""


@dataclass(frozen=True)
class ForeignMemory:
    """A memory as another system has it, with texts and values of any size.

    Times are RFC 3339 UTC in milliseconds. Without ``created_at`` it is a memory of a system that
    keeps neither times nor counters.
    """

    name: str
    content: str
    type: Type = "core"
    importance: Importance = "medium"
    score: float | None = None
    category: str = ""
    summary: str = ""
    tags: Sequence[str] = ()
    links: Sequence[ForeignLink] = ()
    metadata: JsonObject = field(default_factory=JsonObject)
    archived: bool = False
    created_at: str | None = None
    updated_at: str | None = None
    accessed_at: str | None = None
    access_count: int = 0


CHUNK = 1 << 20
MAX_LINE = 64 << 20
"""The longest line that is read, in bytes; longer ones are skipped and reported."""


class Line(NamedTuple):
    """A line of a file, without its newline.

    ``text`` is None if the line is longer than `MAX_LINE`. ``end`` is the offset of the first byte
    after the line, and ``is_whole`` is false for a last line without a newline.
    """

    number: int
    text: bytes | None
    end: int
    is_whole: bool = True


async def read_lines(path: Path) -> AsyncIterator[Line]:
    """Yield the lines of a file; blank lines are left out."""
    splitter = _LineSplitter()

    async with aiofiles.open(path, "rb") as file:
        while chunk := await file.read(CHUNK):
            for line in splitter.feed(chunk):
                yield line

    last_line = splitter.finish()
    if last_line is not None:
        yield last_line


class _LineSplitter:
    """Cuts chunks of a file into lines; it holds no more than one line at a time."""

    def __init__(self) -> None:
        self._number = 0
        self._end = 0
        self._rest = b""
        self._is_skipping = False

    def feed(self, chunk: bytes) -> Iterator[Line]:
        """Yield the lines that end in a chunk."""
        *texts, rest = (self._rest + chunk).split(b"\n")

        for text in texts:
            self._number += 1
            self._end += len(text) + 1

            if self._is_skipping or len(text) > MAX_LINE:
                yield Line(self._number, None, self._end)
            elif text.strip():
                yield Line(self._number, _strip_mark(self._number, text), self._end)

            self._is_skipping = False

        self._rest = rest
        if len(rest) > MAX_LINE:
            # The text is dropped, so that memory stays bounded; only its length still counts.
            self._end += len(rest)
            self._rest = b""
            self._is_skipping = True

    def finish(self) -> Line | None:
        """Return the last line if the file does not end with a newline."""
        end = self._end + len(self._rest)

        if self._is_skipping:
            return Line(self._number + 1, None, end, is_whole=False)

        if self._rest.strip():
            number = self._number + 1
            return Line(number, _strip_mark(number, self._rest), end, is_whole=False)

        return None


def _strip_mark(number: int, text: bytes) -> bytes:
    """Return the text of a line without the byte order mark that some editors begin a file with."""
    return text.removeprefix(BOM_UTF8) if number == 1 else text


_NO_ID = "No id; it was made of the namespace and the key."


class SourceItem(NamedTuple):
    """One line or row of a source: its memories, and what was adjusted; or why it is unusable.

    ``past`` is the history of one memory, by rising version; such an item has no memories.
    ``place`` names it for people, for example ``line 12``. ``position`` is how far the source was
    read, in bytes or memories. ``notes`` and ``unusable`` are sentences. If ``rows`` is set, the
    item is none of them: its notes are remarks on that many rows.
    """

    place: str
    position: int
    memories: list[IncomingMemory]
    notes: list[str]
    unusable: str | None = None
    rows: int | None = None
    past: tuple[Entry, ...] = ()


Source = AsyncIterator[SourceItem]


class Destination(NamedTuple):
    """Where memories go: those that name no namespace, or all of them, into ``namespace``."""

    namespace: str
    takes_all: bool


async def read_export(path: Path, destination: Destination, now: str) -> Source:
    """Read an export, or lines that people wrote, whose memories have no ids yet."""
    past: list[Entry] = []
    past_end = end = 0
    remarks = RemarkCounter()

    async for line in read_lines(path):
        place = f"line {line.number}"
        end = line.end
        try:
            text = get_text(line)
            if line.number == 1 and parse_heading(text):
                continue
            read = _read_line(text, destination, now)
        except UnusableLine as error:
            yield SourceItem(place, line.end, [], [], str(error))
            continue

        # The history of a memory is handed on as a whole.
        is_same = isinstance(read, Entry) and past and _get_owner(read) == _get_owner(past[-1])
        if past and not is_same:
            yield _make_past(past, past_end)
            past = []

        if isinstance(read, Entry):
            past.append(read)
            past_end = line.end
        else:
            if read.provisional:
                remarks.add(MEMORIES, _NO_ID)
            yield SourceItem(place, line.end, [read], [])

    if past:
        yield _make_past(past, past_end)

    for item in list_remarks(remarks, end):
        yield item


def _read_line(text: bytes, destination: Destination, now: str) -> IncomingMemory | Entry:
    """Return what is on a line, in the namespace that it goes to. Raises UnusableLine."""
    namespace = destination.namespace
    if is_history(text):
        entry = parse_entry(text)
        return seal(entry._replace(namespace=namespace)) if destination.takes_all else entry

    value = parse_line_json(text)
    fields = as_object(value)
    has_no_id = fields is not None and "id" not in fields
    if fields is not None and has_no_id:
        if destination.takes_all:
            fields["namespace"] = namespace
        value = complete_fields(fields, namespace, now)

    stored = parse_fields(value)
    if destination.takes_all:
        stored = stored._replace(row=stored.row._replace(namespace=namespace))

    return IncomingMemory(stored, provisional=has_no_id)


def _get_owner(entry: Entry) -> tuple[str, str]:
    return entry.namespace, entry.id


def _make_past(entries: Sequence[Entry], position: int) -> SourceItem:
    """Return an item for the history of one memory."""
    first = entries[0]
    return SourceItem(f"history of {first.id}", position, [], [], past=tuple(keep_sound(entries)))


def list_remarks(remarks: RemarkCounter, position: int) -> Iterator[SourceItem]:
    """Yield an item per counted remark, for the end of a source."""
    for remark in remarks.list_remarks():
        yield SourceItem(remark.subject, position, [], [remark.words], rows=remark.rows)


def get_text(line: Line) -> bytes:
    """Return the text of a line. Raises UnusableLine if it is too long."""
    if line.text is None:
        raise UnusableLine(f"The line is too long; the limit is {MAX_LINE >> 20} MiB.")

    return line.text
