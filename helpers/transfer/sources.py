"""What every source of an import gives, and the first of them: our own lines."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

from abilities.helpers.stores.model import IncomingMemory
from abilities.helpers.transfer.export_lines import UnusableLine, parse_heading, parse_line
from abilities.helpers.transfer.streams import read_lines


class SourceItem(NamedTuple):
    """What one place of a source gives: memories, and what is to be said of them; ``done`` is the way gone so far."""

    place: str
    done: int
    memories: list[IncomingMemory]
    notes: list[str]
    unusable: str | None = None


Source = AsyncIterator[SourceItem]


async def read_export(path: Path | None, namespace: str | None) -> Source:
    """Our own lines, each memory in its namespace or in the one given."""
    async for line in read_lines(path):
        place = f"line {line.number}"
        try:
            if line.text is None:
                raise UnusableLine("the line is too long")
            if line.number == 1 and parse_heading(line.text):
                continue
            stored = parse_line(line.text)
            row = stored.row._replace(namespace=namespace or stored.row.namespace)
            yield SourceItem(place, line.end, [IncomingMemory(stored._replace(row=row))], [])
        except UnusableLine as error:
            yield SourceItem(place, line.end, [], [], str(error))
