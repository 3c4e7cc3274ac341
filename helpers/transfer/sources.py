"""What every source of an import yields, and the first of them: our own exports."""

from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from abilities.helpers.stores.history import Entry, seal
from abilities.helpers.stores.model import IncomingMemory, StoredMemory
from abilities.helpers.transfer.export_lines import UnusableLine, parse_heading, parse_line
from abilities.helpers.transfer.history_lines import is_history, keep_sound, parse_entry
from abilities.helpers.transfer.remarks import RemarkCounter
from abilities.helpers.transfer.streams import MAX_LINE, Line, read_lines


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


async def read_export(path: Path, namespace: str | None) -> Source:
    """Read an export; memories go into their own namespace, or into ``namespace`` if given."""
    past: list[Entry] = []
    past_end = 0

    async for line in read_lines(path):
        place = f"line {line.number}"
        try:
            text = get_text(line)
            if line.number == 1 and parse_heading(text):
                continue
            read = _read_line(text, namespace)
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
            yield SourceItem(place, line.end, [IncomingMemory(read)], [])

    if past:
        yield _make_past(past, past_end)


def _read_line(text: bytes, namespace: str | None) -> StoredMemory | Entry:
    """Return what is on a line, in a namespace if one is given. Raises UnusableLine."""
    if is_history(text):
        entry = parse_entry(text)
        return entry if namespace is None else seal(entry._replace(namespace=namespace))

    stored = parse_line(text)
    if namespace is None:
        return stored

    return stored._replace(row=stored.row._replace(namespace=namespace))


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
