"""Find where an interrupted export stopped."""

import os
from pathlib import Path
from typing import NamedTuple

from abilities.declarations.values import parse_json
from abilities.helpers.transfer.export_lines import (
    ExportedPasts,
    is_history,
    parse_entry,
    parse_heading,
)
from abilities.helpers.transfer.sources import get_text
from abilities.helpers.transfer.streams import Line, read_lines


class ExportPlace(NamedTuple):
    """The last entry and the last memory that an export has written, each None if there is none.

    An entry is named by namespace, id and version, a memory by namespace and key.
    """

    entry: tuple[str, str, int] | None = None
    memory: tuple[str, str] | None = None


async def resume_export(part: Path, pasts: ExportedPasts) -> ExportPlace | None:
    """Return the place from which to continue, None if there is nothing to continue.

    Notes what the part has of the history, and cuts off a line that was torn by a crash.
    """
    place: ExportPlace | None = None
    end = 0
    try:
        async for line in read_lines(part):
            if line.is_whole:
                place = _move_on(place or ExportPlace(), line, pasts)
                end = line.end
    except FileNotFoundError:
        return None

    # What is appended next must not continue a line that was only half written.
    os.truncate(part, end)
    return place


def _move_on(place: ExportPlace, line: Line, pasts: ExportedPasts) -> ExportPlace:
    """Return the place after another line of an export."""
    text = get_text(line)
    if line.number == 1 and parse_heading(text):
        return place

    if is_history(text):
        entry = parse_entry(text)
        pasts.add([entry])
        return ExportPlace(entry=(entry.namespace, entry.id, entry.version))

    memory = parse_json(text)
    pasts.settle(memory["namespace"], memory["id"])
    return place._replace(memory=(memory["namespace"], memory["key"]))
