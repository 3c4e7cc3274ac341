"""Export: every memory of every namespace as a stream of lines, after the history of all memories.

An interrupted export to a file can be continued.
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
from abilities.helpers.transfer.sources import get_text, read_lines

PAGE = 500
"""Memories or entries that are read and written together."""

Progress = Callable[[int], None]
"""Called with the number of memories written since the last call."""

_Write = Callable[[bytes], Awaitable[object]]


class ExportPlace(NamedTuple):
    """The last entry and the last memory that an export has written, each None if there is none.

    An entry is identified by namespace, id and version, and a memory by namespace and key.
    """

    entry: tuple[str, str, int] | None = None
    memory: tuple[str, str] | None = None


async def resume_export(part: Path, pasts: ExportedPasts) -> ExportPlace | None:
    """Return the place from which to continue, or None if there is no interrupted export.

    It adds the written history to ``pasts``, and cuts off a line that was torn by a crash.
    """
    place: ExportPlace | None = None
    end = 0
    try:
        async for line in read_lines(part):
            if not line.is_whole:
                continue

            text = get_text(line)
            end = line.end
            place = place or ExportPlace()
            if line.number == 1 and parse_heading(text):
                continue

            if is_history(text):
                entry = parse_entry(text)
                pasts.add([entry])
                place = ExportPlace(entry=(entry.namespace, entry.id, entry.version))
            else:
                memory = parse_json(text)
                pasts.settle(memory["namespace"], memory["id"])
                place = place._replace(memory=(memory["namespace"], memory["key"]))
    except FileNotFoundError:
        return None

    # The next line must not continue a line that was only half written.
    os.truncate(part, end)
    return place


class ExportOptions(NamedTuple):
    """The options of an export.

    ``namespace`` is None for all namespaces. ``resume`` continues an interrupted export, and
    ``history`` also writes the history of the memories.
    """

    namespace: str | None = None
    resume: bool = False
    history: bool = True


class ExportResult(NamedTuple):
    """The numbers of written memories and history entries, and a list of the unreadable ones."""

    memories: int
    entries: int
    damaged: list[DamagedMemory | DamagedEntry]


async def export(
    store: ServableStore, path: Path | None, options: ExportOptions, progress: Progress
) -> ExportResult:
    """Write all memories, or those of one namespace, ordered by namespace and key.

    ``path`` is a file, or None for standard output. A file appears whole or not at all: until the
    end it is called ``NAME.part``, and an interrupted export can be continued from there. The
    history comes before the memories, ordered by namespace, id and version. A memory is written in
    its present version, or in the version at which its written history ends. It waits for a store
    that does not answer, see `Patience`. Raises Refused, OSError.
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

        # Opening and syncing block the loop, but a command has nothing else to do meanwhile.
        with output.open(append=place is not None) as file:

            async def write(lines: bytes) -> None:
                await asyncio.to_thread(file.write, lines)

            if place is None:
                await write(HEADING)
            return await _Export(store, options, progress, pasts, write).run(place or ExportPlace())


async def _print(lines: bytes) -> None:
    """Write lines of JSON to standard output, without control sequences if it is a terminal."""
    if sys.stdout.isatty():
        lines = escape_unseen(lines.decode(), keep="\n").encode()

    await aiofiles.stdout_bytes.write(lines)


class _Export:
    """One export, which begins at a place or at the start of its namespace."""

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
        """Write everything after a place."""
        if self._history and place.memory is None:
            await self._write_history(place.entry or (self._namespace or "", "", 0))

        await self._write_memories(place.memory or (self._namespace or "", ""))

        # These memories were deleted or renamed since their history was written.
        for end in self._pasts.list_due():
            memory = await self._patience.call(partial(read_end, self._store, end))
            if memory is not None:
                await self._write_lines([memory])

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

    async def _write_lines(self, memories: Sequence[StoredMemory]) -> None:
        await self._write(b"".join(map(format_line, memories)))
        self._memories += len(memories)
        self._progress(len(memories))


def _get_place(item: StoredMemory | DamagedMemory) -> tuple[str, str]:
    if isinstance(item, DamagedMemory):
        return item.namespace, item.key

    return item.row.namespace, item.row.key
