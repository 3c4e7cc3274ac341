"""What every source of an import yields, and the first of them: our own exports."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

from abilities.helpers.stores.model import IncomingMemory
from abilities.helpers.transfer.export_lines import UnusableLine, parse_heading, parse_line
from abilities.helpers.transfer.streams import MAX_LINE, Line, read_lines


class SourceItem(NamedTuple):
    """One line or row of a source: its memories, and what was adjusted; or why it is unusable.

    ``place`` names it for people, for example ``line 12``. ``position`` is where it ends in the
    source, in bytes or memories. ``notes`` and ``unusable`` are sentences.
    """

    place: str
    position: int
    memories: list[IncomingMemory]
    notes: list[str]
    unusable: str | None = None


Source = AsyncIterator[SourceItem]


async def read_export(path: Path | None, namespace: str | None) -> Source:
    """Read an export; memories go into their own namespace, or into ``namespace`` if it is given.

    A path of None is standard input.
    """
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


def get_text(line: Line) -> bytes:
    """Return the text of a line. Raises UnusableLine if it is too long."""
    if line.text is None:
        raise UnusableLine(f"The line is too long; the limit is {MAX_LINE >> 20} MiB.")

    return line.text
