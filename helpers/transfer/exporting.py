"""Export: every memory of every namespace as a stream of lines, after what is known of its past.

Find where an interrupted export stopped.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import aiofiles

from abilities.declarations.values import escape_unseen, parse_json
from abilities.helpers.durable import AtomicFile
from abilities.helpers.store.history import DamagedEntry, Entry
from abilities.helpers.store.model import DamagedMemory, StoredMemory
from abilities.helpers.store.protocol import ServableStore
from abilities.helpers.transfer.export_lines import (
    HEADING,
    ExportedPasts,
    format_entry,
    format_line,
    is_history,
    match_past,
    parse_entry,
    parse_heading,
    read_end,
)
from abilities.helpers.transfer.patience import Patience
from abilities.helpers.transfer.sources import Line, get_text, read_lines


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


PAGE = 500
"""Memories or entries that are read and written together."""

Progress = Callable[[int], None]
"""Is called with the number of memories written since the last call."""

_Write = Callable[[bytes], Awaitable[object]]


class ExportOptions(NamedTuple):
    """What a person asks of one export.

    ``namespace`` is None for all of them. ``resume`` continues an interrupted export, and
    ``history`` says whether the history of the memories is written too.
    """

    namespace: str | None = None
    resume: bool = False
    history: bool = True


class ExportResult(NamedTuple):
    """How many memories and entries of the history were written, and which could not be read."""

    memories: int
    entries: int
    damaged: list[DamagedMemory | DamagedEntry]


async def export(
    store: ServableStore, path: Path | None, options: ExportOptions, progress: Progress
) -> ExportResult:
    """Write all memories, or those of one namespace, ordered by namespace and key.

    ``path`` is a file, or None for standard output. A file appears whole or not at all: until the
    end it is called ``NAME.part``; an interrupted export can be continued from there. The history
    comes before the memories, ordered by namespace, id and version. A memory is written as it is at
    the moment it is read, or as it was where its written history ends. It waits for a store that
    does not answer, as `Patience` says. Raises Refused, OSError.
    """
    with ExportedPasts() as pasts:
        if path is None:
            await _print(HEADING)
            result = await _Export(store, options, progress, pasts, _print).run(ExportPlace())
            sys.stdout.buffer.flush()  # the last lines are still in Python's own buffer
            return result

        output = AtomicFile(path)
        place: ExportPlace | None = None
        if options.resume:
            place = await resume_export(output.part_path, pasts)

        # Opening and syncing block the loop for a moment; a command has nothing else to do then.
        with output.open(append=place is not None) as file:

            async def write(lines: bytes) -> None:
                await asyncio.to_thread(file.write, lines)

            if place is None:
                await write(HEADING)
            return await _Export(store, options, progress, pasts, write).run(place or ExportPlace())


async def _print(lines: bytes) -> None:
    """Write lines of JSON to standard output; nothing in them steers a terminal."""
    if sys.stdout.isatty():
        lines = escape_unseen(lines.decode(), keep="\n").encode()

    await aiofiles.stdout_bytes.write(lines)


class _Export:
    """One export, from a place on; a namespace alone begins at its beginning."""

    def __init__(
        self,
        store: ServableStore,
        options: ExportOptions,
        progress: Progress,
        pasts: ExportedPasts,
        write: _Write,
    ) -> None:
        self._store = store
        self._namespace = options.namespace
        self._history = options.history
        self._progress = progress
        self._pasts = pasts
        self._write = write
        self._patience = Patience()
        self._memories = 0
        self._entries = 0
        self._damaged: list[DamagedMemory | DamagedEntry] = []

    async def run(self, place: ExportPlace) -> ExportResult:
        """Write what follows a place."""
        if self._history and place.memory is None:
            await self._write_history(place.entry or (self._namespace or "", "", 0))

        await self._write_memories(place.memory or (self._namespace or "", ""))
        await self._write_vanished()
        return ExportResult(self._memories, self._entries, self._damaged)

    async def _write_history(self, after: tuple[str, str, int]) -> None:
        while page := await self._patience.call(partial(self._store.read_entries, after, PAGE)):
            last = page[-1]
            after = (last.namespace, last.id, last.version)
            entries = [entry for entry in page if self._namespace in (None, entry.namespace)]

            sound = [entry for entry in entries if isinstance(entry, Entry)]
            self._damaged += [entry for entry in entries if isinstance(entry, DamagedEntry)]
            await self._write(b"".join(map(format_entry, sound)))
            self._pasts.add(sound)
            self._entries += len(sound)

            if len(entries) < len(page):
                break  # namespaces are in order, so none of its entries follow

    async def _write_memories(self, after: tuple[str, str]) -> None:
        while page := await self._patience.call(partial(self._store.read_page, after, PAGE)):
            after = _get_place(page[-1])
            memories = [item for item in page if self._namespace in (None, _get_place(item)[0])]

            sound: list[StoredMemory] = []
            for item in memories:
                if isinstance(item, DamagedMemory):
                    self._damaged.append(item)
                else:
                    matching = partial(match_past, self._store, item, self._pasts)
                    sound.append(await self._patience.call(matching))
            await self._write_lines(sound)

            if len(memories) < len(page):
                break  # namespaces are in order, so none of its memories follow

    async def _write_vanished(self) -> None:
        """Write the memories that were deleted or renamed since their history was written."""
        for end in self._pasts.list_due():
            memory = await self._patience.call(partial(read_end, self._store, end))
            if memory is not None:
                await self._write_lines([memory])

    async def _write_lines(self, memories: Sequence[StoredMemory]) -> None:
        await self._write(b"".join(map(format_line, memories)))
        self._memories += len(memories)
        self._progress(len(memories))


def _get_place(item: StoredMemory | DamagedMemory) -> tuple[str, str]:
    if isinstance(item, DamagedMemory):
        return item.namespace, item.key

    return item.row.namespace, item.row.key
