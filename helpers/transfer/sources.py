"""What every source of an import gives, and the first of them: our own lines."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

from abilities.helpers.stores.model import Incoming
from abilities.helpers.transfer.export_lines import Unusable, heading_of, stored_of
from abilities.helpers.transfer.streams import lines


class Brought(NamedTuple):
    """What one place of a source gives: memories, and what is to be said of them; ``done`` is the way gone so far."""

    place: str
    done: int
    memories: list[Incoming]
    notes: list[str]
    unusable: str | None = None


Source = AsyncIterator[Brought]


async def exported(path: Path | None, namespace: str | None) -> Source:
    """Our own lines, each memory in its namespace or in the one given."""
    async for line in lines(path):
        place = f"line {line.number}"
        try:
            if line.text is None:
                raise Unusable("the line is too long")
            if line.number == 1 and heading_of(line.text):
                continue
            stored = stored_of(line.text)
            row = stored.row._replace(namespace=namespace or stored.row.namespace)
            yield Brought(place, line.end, [Incoming(stored._replace(row=row))], [])
        except Unusable as error:
            yield Brought(place, line.end, [], [], str(error))
