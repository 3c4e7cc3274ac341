"""Export: every memory of every namespace as a stream of lines, after the history of all memories.

An interrupted export to a file can be continued.
"""

import asyncio
import os
import sqlite3
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import aiofiles

from abilities.declarations.refusals import Refused
from abilities.declarations.values import escape_unseen, parse_json
from abilities.helpers.durable import AtomicFile
from abilities.helpers.store.changes import call_patiently
from abilities.helpers.store.history import DamagedEntry, Entry, MemoryName
from abilities.helpers.store.model import DamagedMemory, StoredMemory
from abilities.helpers.store.protocol import ServableStore
from abilities.helpers.transfer import export_lines
from abilities.helpers.transfer.sources import get_text, read_lines

PAGE = 500

Progress = Callable[[int], None]
"""Called with the number of memories written since the last call."""

_Write = Callable[[bytes], Awaitable[object]]

_ENDS = """
CREATE TABLE ends (
    namespace TEXT, id TEXT, version INTEGER, is_due INTEGER, PRIMARY KEY (namespace, id)
) WITHOUT ROWID
"""
_SETTLE = """
UPDATE ends SET is_due = 0 WHERE namespace = ? AND id = ? RETURNING namespace, id, version
"""


class End(NamedTuple):
    """The version at which the exported history of a memory ends."""

    namespace: str
    id: str
    version: int


class ExportedPasts:
    """The ends of all exported histories, in a temporary file because there may be millions."""

    def __init__(self) -> None:
        self._ends = sqlite3.connect("", isolation_level=None)
        self._ends.execute(_ENDS)
        self._ends.execute("BEGIN")

    def close(self) -> None:
        """Delete the file."""
        self._ends.close()

    def add(self, entries: Iterable[Entry]) -> None:
        """Note exported entries; the entries of each memory must come by rising version."""
        for entry in entries:
            version = entry.previous if entry.action == "relinked" else entry.version
            self._ends.execute(
                "INSERT OR REPLACE INTO ends VALUES (?, ?, ?, ?)",
                (entry.namespace, entry.id, version, entry.action != "deleted"),
            )

    def settle(self, namespace: str, memory_id: str) -> End | None:
        """Note that a memory was exported; return the end of its history if it has one."""
        found = self._ends.execute(_SETTLE, (namespace, memory_id)).fetchall()
        return End(*found[0]) if found else None

    def list_due(self) -> Iterator[End]:
        """Yield the ends of memories that existed at that version and are not exported yet."""
        due = self._ends.execute(
            "SELECT namespace, id, version FROM ends WHERE is_due ORDER BY namespace, id"
        )
        for end in due:
            yield End(*end)


async def match_past(
    store: ServableStore, memory: StoredMemory, pasts: ExportedPasts
) -> StoredMemory:
    """Return a memory in the version at which its exported history ends."""
    end = pasts.settle(memory.row.namespace, memory.row.id)
    if end is None or end.version == memory.row.version:
        return memory

    earlier = await read_end(store, end)
    if earlier is None:
        return memory

    return earlier._replace(accessed_at=memory.accessed_at, access_count=memory.access_count)


async def read_end(store: ServableStore, end: End) -> StoredMemory | None:
    """Return a memory in the version at which its exported history ends; None if that is lost."""
    try:
        memory = await store.read_version(end.namespace, MemoryName(id=end.id), end.version)
    except Refused as refused:
        if refused.reason not in ("id_not_found", "version_not_found", "checksum_mismatch"):
            raise
        return None

    # The last access to a deleted memory is no longer known.
    return memory._replace(accessed_at=memory.row.updated_at)


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
            if line.number == 1 and export_lines.parse_heading(text):
                continue

            if export_lines.is_history(text):
                entry = export_lines.parse_entry(text)
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


@dataclass
class ExportResult:
    """The numbers of written memories and history entries, and a list of the unreadable ones."""

    memories: int = 0
    entries: int = 0
    damaged: list[DamagedMemory | DamagedEntry] = field(
        default_factory=list[DamagedMemory | DamagedEntry]
    )


async def export(
    store: ServableStore, path: Path | None, options: ExportOptions, progress: Progress
) -> ExportResult:
    """Write all memories, or those of one namespace, ordered by namespace and key.

    ``path`` is a file, or None for standard output. A file appears whole or not at all: until the
    end it is called ``NAME.part``, and an interrupted export can be continued from there. The
    history comes before the memories, ordered by namespace, id and version. A memory is written in
    its present version, or in the version at which its written history ends. It waits for a store
    that does not answer, see `call_patiently`. Raises Refused, OSError.
    """
    with closing(ExportedPasts()) as pasts:
        if path is None:
            await _print(export_lines.HEADING)
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
                await write(export_lines.HEADING)
            return await _Export(store, options, progress, pasts, write).run(place or ExportPlace())


async def _print(lines: bytes) -> None:
    """Write lines of JSON to standard output, without control sequences if it is a terminal."""
    if sys.stdout.isatty():
        lines = escape_unseen(lines.decode(), keep="\n").encode()

    await aiofiles.stdout_bytes.write(lines)


@dataclass
class _Export:
    """One export, which begins at a place or at the start of its namespace."""

    store: ServableStore
    options: ExportOptions
    progress: Progress
    pasts: ExportedPasts
    write: _Write
    result: ExportResult = field(default_factory=ExportResult)

    async def run(self, place: ExportPlace) -> ExportResult:
        """Write everything after a place."""
        namespace = self.options.namespace or ""
        if self.options.history and place.memory is None:
            await self._write_history(place.entry or (namespace, "", 0))

        await self._write_memories(place.memory or (namespace, ""))

        # These memories were deleted or renamed since their history was written.
        for end in self.pasts.list_due():
            memory = await call_patiently(partial(read_end, self.store, end))
            if memory is not None:
                await self._write_lines([memory])

        return self.result

    async def _write_history(self, after: tuple[str, str, int]) -> None:
        while page := await call_patiently(partial(self.store.read_entries, after, PAGE)):
            last = page[-1]
            after = (last.namespace, last.id, last.version)
            entries = [entry for entry in page if self._is_asked(entry.namespace)]

            sound = [entry for entry in entries if isinstance(entry, Entry)]
            self.result.damaged += [item for item in entries if isinstance(item, DamagedEntry)]
            await self.write(b"".join(map(export_lines.format_entry, sound)))
            self.pasts.add(sound)
            self.result.entries += len(sound)

            if len(entries) < len(page):
                break  # namespaces are in order, so none of its entries follow

    async def _write_memories(self, after: tuple[str, str]) -> None:
        while page := await call_patiently(partial(self.store.read_page, after, PAGE)):
            after = _get_place(page[-1])
            memories = [item for item in page if self._is_asked(_get_place(item)[0])]

            sound: list[StoredMemory] = []
            for item in memories:
                if isinstance(item, DamagedMemory):
                    self.result.damaged.append(item)
                else:
                    matching = partial(match_past, self.store, item, self.pasts)
                    sound.append(await call_patiently(matching))
            await self._write_lines(sound)

            if len(memories) < len(page):
                break  # namespaces are in order, so none of its memories follow

    def _is_asked(self, namespace: str) -> bool:
        return self.options.namespace in (None, namespace)

    async def _write_lines(self, memories: Sequence[StoredMemory]) -> None:
        await self.write(b"".join(map(export_lines.format_line, memories)))
        self.result.memories += len(memories)
        self.progress(len(memories))


def _get_place(item: StoredMemory | DamagedMemory) -> tuple[str, str]:
    if isinstance(item, DamagedMemory):
        return item.namespace, item.key

    return item.row.namespace, item.row.key
