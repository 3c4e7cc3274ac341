"""What every source of an import yields, and the first of them: our own exports."""

from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from abilities.declarations.values import as_object
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
from abilities.helpers.transfer.remarks import MEMORIES, RemarkCounter
from abilities.helpers.transfer.streams import MAX_LINE, Line, read_lines

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
