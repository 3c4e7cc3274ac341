"""Export: every memory of every namespace as a stream of lines."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import aiofiles

from abilities.declarations.values import escape_unseen, parse_json
from abilities.helpers.durable import AtomicFile
from abilities.helpers.stores.model import DamagedMemory, StoredMemory
from abilities.helpers.stores.protocol import TransferableStore
from abilities.helpers.transfer.export_lines import HEADING, format_line, parse_heading
from abilities.helpers.transfer.streams import recover_last_line

PAGE = 500
"""Memories that are read and written together."""

Progress = Callable[[int], None]
"""Is called with the number of memories written since the last call."""

_Write = Callable[[bytes], Awaitable[object]]


class _Position(NamedTuple):
    """A place in the order of an export; the memories that follow it come next."""

    namespace: str
    key: str


class ExportResult(NamedTuple):
    """How many memories were written, and which could not be read."""

    memories: int
    damaged: list[DamagedMemory]


async def export(
    store: TransferableStore,
    path: Path | None,
    namespace: str | None,
    *,
    resume: bool,
    progress: Progress,
) -> ExportResult:
    """Write all memories, or those of one namespace, ordered by namespace and key.

    ``path`` is a file, or None for standard output. A file appears whole or not at all: until the
    end it is called ``NAME.part``, and ``resume`` continues an interrupted export from there. Each
    memory is written as it is at the moment it is read. Raises Refused, OSError.
    """
    start = _Position(namespace or "", "")

    if path is None:
        await _print(HEADING)
        result = await _write_memories(store, _print, start, namespace, progress)
        sys.stdout.buffer.flush()  # the last lines are still in Python's own buffer
        return result

    output = AtomicFile(path)
    last_line = await recover_last_line(output.part_path) if resume else None

    # Opening and syncing block the loop for a moment; a command has nothing else to do meanwhile.
    with output.open(append=last_line is not None) as file:

        async def write(lines: bytes) -> None:
            await asyncio.to_thread(file.write, lines)

        if last_line is None:
            await write(HEADING)
        elif parse_heading(last_line) is None:
            memory = parse_json(last_line)
            start = _Position(memory["namespace"], memory["key"])

        return await _write_memories(store, write, start, namespace, progress)


async def _print(lines: bytes) -> None:
    """Write lines of JSON to standard output; nothing in them steers a terminal."""
    if sys.stdout.isatty():
        lines = escape_unseen(lines.decode(), keep="\n").encode()

    await aiofiles.stdout_bytes.write(lines)


async def _write_memories(
    store: TransferableStore,
    write: _Write,
    after: _Position,
    namespace: str | None,
    progress: Progress,
) -> ExportResult:
    count = 0
    damaged: list[DamagedMemory] = []

    while page := await store.read_page(after, PAGE):
        lines: list[bytes] = []

        for entry in page:
            after = _get_position(entry)
            if namespace not in (None, after.namespace):
                break
            if isinstance(entry, DamagedMemory):
                damaged.append(entry)
            else:
                lines.append(format_line(entry))

        await write(b"".join(lines))
        count += len(lines)
        progress(len(lines))

        if namespace not in (None, after.namespace):
            break  # namespaces are in order, so none of its memories follow

    return ExportResult(count, damaged)


def _get_position(entry: StoredMemory | DamagedMemory) -> _Position:
    if isinstance(entry, DamagedMemory):
        return _Position(entry.namespace, entry.key)

    return _Position(entry.row.namespace, entry.row.key)
