"""Sources of an import: the items that every source yields, and the source for our own exports.

Files are read line by line, in bounded memory however long a file or a line is. A file is read in
large chunks, so that the hop to a thread that `aiofiles` makes per chunk is cheap. For many small
files, see `abilities.helpers.threads.workers` instead.
"""

import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import aiofiles

from abilities.declarations.memory import Importance, Type
from abilities.declarations.values import JsonObject, as_object
from abilities.helpers.store.history import Entry, seal
from abilities.helpers.store.mending import make_id
from abilities.helpers.store.model import IncomingMemory
from abilities.helpers.transfer import export_lines

CHUNK = 1 << 20

MAX_LINE = 64 << 20
"""The longest line that is read, in bytes; longer lines are skipped and reported."""

_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|["\[\]{}]', re.DOTALL)
"""A string of JSON, the quote of a string whose end is not read yet, or a bracket."""


class ForeignLink(NamedTuple):
    """A link of another system; ``weight`` may be any number, also NaN or infinite."""

    name: str
    type: str
    weight: float
    term: str = ""


@dataclass(frozen=True)
class ForeignMemory:
    """A memory of another system, with texts and values of any size.

    Times are RFC 3339 UTC in milliseconds. Without ``created_at``, it comes from a system that
    keeps neither times nor counters. If it is ``growing``, a later import may bring more of it.
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
    growing: bool = False


class SourceItem(NamedTuple):
    """One line or row of a source, with its memory or the reason why it is unusable.

    ``place`` names it for people, for example ``line 12``. ``position`` is how far the source was
    read, in bytes or memories. ``notes`` are sentences about adjustments. ``past`` is the history
    of one memory, by rising version; such an item has no memory. If ``rows`` is set, the item is
    only a remark on that number of rows, in its notes.
    """

    place: str
    position: int
    memory: IncomingMemory | ForeignMemory | export_lines.UnusableLine | None = None
    notes: Sequence[str] = ()
    rows: int | None = None
    past: Sequence[Entry] = ()


Source = AsyncIterator[SourceItem]

Remarks = Counter[tuple[str, str]]
"""Numbers of rows by their kind, such as "link", and by a sentence on them.

So a report has one remark for all rows to which a sentence applies.
"""


def list_remarks(remarks: Remarks, position: int) -> Iterator[SourceItem]:
    """Yield an item per sentence, for the end of a source, in the order of first use.

    The place of an item says how many rows it is about, for example ``160 links``.
    """
    for (kind, words), count in remarks.items():
        noun = kind
        if count != 1:
            noun = "memories" if kind == "memory" else f"{kind}s"
        if count:
            yield SourceItem(f"{count:,} {noun}", position, notes=[words], rows=count)


class Line(NamedTuple):
    """A line of a file, without its newline.

    ``text`` is None if the line is longer than ``limit`` bytes. ``end`` is the offset of the first
    byte after the line, and ``is_whole`` is false for a last line without a newline.
    """

    number: int
    text: bytes | None
    end: int
    is_whole: bool = True
    limit: int = MAX_LINE

    @property
    def begin(self) -> int:
        """The offset of the first byte of a line that is not too long."""
        return self.end - len(self.text or b"") - self.is_whole


async def read_lines(
    file: Path | int, *, start: int = 0, max_line: int | None = None
) -> AsyncGenerator[Line]:
    """Yield the lines of a file, without blank lines; at most one line is in memory.

    A descriptor is closed at the end. Lines are counted from the byte ``start``. The default of
    ``max_line`` is `MAX_LINE`.
    """
    longest = max_line or MAX_LINE
    number = 0
    end = start
    rest = b""
    is_skipping = False
    is_whole = True

    async with aiofiles.open(file, "rb") as opened:
        await opened.seek(start)
        while is_whole:
            chunk = await opened.read(CHUNK)
            is_whole = bool(chunk)
            *texts, rest = (rest + chunk).split(b"\n")

            for text in texts if is_whole else [rest]:
                number += 1
                end += len(text) + is_whole
                line = text.removeprefix(BOM_UTF8) if number == 1 else text

                if is_skipping or len(text) > longest:
                    yield Line(number, None, end, is_whole, longest)
                elif line.strip():
                    yield Line(number, line, end, is_whole)

                is_skipping = False

            if len(rest) > longest:
                # The text is dropped to save memory; only its length still counts.
                end += len(rest)
                rest = b""
                is_skipping = True


async def read_elements(file: int) -> AsyncGenerator[Line]:
    """Yield the objects and arrays in a JSON array as if each were a line; one is in memory.

    A descriptor is closed at the end. What is not JSON between the brackets is not noticed here.
    """
    number = depth = scanned = read = 0
    begin: int | None = None
    rest = b""
    is_skipping = False

    async with aiofiles.open(file, "rb") as opened:
        while chunk := await opened.read(CHUNK):
            read += len(chunk)
            rest += chunk

            for token in _TOKEN.finditer(rest, scanned):
                first = rest[token.start() : token.start() + 1]
                scanned = token.end()

                if first in b"[{":
                    depth += 1
                    if depth == 2:
                        begin = token.start()
                elif first in b"]}":
                    depth = max(depth - 1, 0)
                    if depth == 1 and begin is not None:
                        number += 1
                        text = None if is_skipping else rest[begin:scanned]
                        yield Line(number, text, read - len(rest) + scanned)
                        begin = None
                        is_skipping = False
                elif scanned - token.start() == 1:
                    scanned = token.start()
                    break
            else:
                scanned = len(rest)

            kept = scanned if begin is None else begin
            rest = rest[kept:]
            scanned -= kept
            if begin is not None:
                begin = 0

            if len(rest) > MAX_LINE:
                # Only the state of a string that is still open is kept: its quote, and whether the
                # next character is escaped.
                is_skipping = begin is not None
                escapes = len(rest) - len(rest.rstrip(b"\\"))
                rest = b'"' + b"\\" * (escapes % 2) if scanned < len(rest) else b""
                scanned = 0

    if begin is not None:
        yield Line(number + 1, None if is_skipping else rest, read, is_whole=False)


def get_text(line: Line) -> bytes:
    """Return the text of a line. Raises UnusableLine if it is too long."""
    if line.text is None:
        limit = line.limit >> 20
        raise export_lines.UnusableLine(f"The line is too long; the limit is {limit} MiB.")

    return line.text


def parse_object(line: Line) -> JsonObject:
    """Return the JSON object on a line. Raises UnusableLine."""
    fields = as_object(export_lines.parse_line_json(get_text(line)))
    if fields is None:
        raise export_lines.UnusableLine("The line is not a JSON object.")

    return fields


class Destination(NamedTuple):
    """The namespace for memories that name none, or for all memories with ``takes_all``."""

    namespace: str
    takes_all: bool


async def read_export(path: Path, destination: Destination, now: str) -> Source:
    """Read an export, or lines that people wrote, whose memories have no ids yet."""
    past: list[Entry] = []
    owner = ("", "")
    remarks = Remarks()
    end = 0

    async for line in read_lines(path):
        place, end = f"line {line.number}", line.end
        try:
            text = get_text(line)
            if line.number == 1 and export_lines.parse_heading(text):
                continue
            read = _read_line(text, destination, now)
        except export_lines.UnusableLine as error:
            yield SourceItem(place, end, error)
            continue

        # All entries of a memory's history become one item.
        is_next = isinstance(read, Entry) and (read.namespace, read.id) == owner
        if past and not is_next:
            yield _make_past(past, end)
            past = []

        if isinstance(read, Entry):
            past.append(read)
            owner = (read.namespace, read.id)
            continue

        if read.provisional:
            remarks["memory", "No id; it was made of the namespace and the key."] += 1
        yield SourceItem(place, end, read)

    if past:
        yield _make_past(past, end)
    for item in list_remarks(remarks, end):
        yield item


def _make_past(entries: Sequence[Entry], position: int) -> SourceItem:
    past = export_lines.keep_sound(entries)
    return SourceItem(f"history of {entries[0].id}", position, past=past)


def _read_line(text: bytes, destination: Destination, now: str) -> IncomingMemory | Entry:
    """Return the memory or entry on a line, in its destination. Raises UnusableLine."""
    namespace = destination.namespace
    if export_lines.is_history(text):
        entry = export_lines.parse_entry(text)
        return seal(entry._replace(namespace=namespace)) if destination.takes_all else entry

    value = export_lines.parse_line_json(text)
    fields = as_object(value)
    has_no_id = fields is not None and "id" not in fields
    if fields is not None and destination.takes_all:
        fields["namespace"] = namespace
    if fields is not None and has_no_id:
        value = {"namespace": namespace, "type": "core", "importance": "medium", **fields}

        # It follows from the namespace and the key, so that the same line gives the same memory.
        value["id"] = make_id(str(value["namespace"]), str(value.get("key")))
        value.setdefault("created_at", now)
        for name in ("updated_at", "accessed_at"):
            value.setdefault(name, value["created_at"])

    return IncomingMemory(export_lines.parse_fields(value), provisional=has_no_id)
