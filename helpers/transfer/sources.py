"""What every source of an import yields, and the first of them: our own exports."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import NamedTuple

from abilities.helpers.stores.model import IncomingMemory
from abilities.helpers.transfer.export_lines import UnusableLine, parse_heading, parse_line
from abilities.helpers.transfer.remarks import RemarkCounter
from abilities.helpers.transfer.streams import MAX_LINE, Line, read_lines


class SourceItem(NamedTuple):
    """One line or row of a source: its memories, and what was adjusted; or why it is unusable.

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


Source = AsyncIterator[SourceItem]


async def read_export(path: Path, namespace: str | None) -> Source:
    """Read an export; memories go into their own namespace, or into ``namespace`` if given."""
    async for line in read_lines(path):
        place = f"line {line.number}"

        try:
            text = get_text(line)
            if line.number == 1 and parse_heading(text):
                continue
            stored = parse_line(text)
        except UnusableLine as error:
            yield SourceItem(place, line.end, [], [], str(error))
            continue

        if namespace is not None:
            stored = stored._replace(row=stored.row._replace(namespace=namespace))
        yield SourceItem(place, line.end, [IncomingMemory(stored)], [])


def list_remarks(remarks: RemarkCounter, position: int) -> Iterator[SourceItem]:
    """Yield an item per counted remark, for the end of a source."""
    for remark in remarks.list_remarks():
        yield SourceItem(remark.subject, position, [], [remark.words], rows=remark.rows)


def get_text(line: Line) -> bytes:
    """Return the text of a line. Raises UnusableLine if it is too long."""
    if line.text is None:
        raise UnusableLine(f"The line is too long; the limit is {MAX_LINE >> 20} MiB.")

    return line.text
