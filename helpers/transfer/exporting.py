"""Export: every memory of every namespace as a stream of lines."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import aiofiles

from abilities.declarations.values import parse_json
from abilities.helpers.stores.model import DamagedMemory, StoredMemory
from abilities.helpers.stores.protocol import TransferableStore
from abilities.helpers.transfer.export_lines import HEADING, format_line, parse_heading
from abilities.helpers.transfer.streams import AtomicFile

PAGE = 500
Progress = Callable[[int], None]
"""Is told how much more was done."""


class ExportResult(NamedTuple):
    """How many memories were written, and what could not be read."""

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
    """Write all memories, or those of one namespace, to a file or to standard output, by namespace and key.

    The file is there whole or not at all: until the end it has ``.part`` behind its name, and a broken
    export goes on from there with ``resume``. Each memory is as it is when its turn comes.
    """
    start = (namespace or "", "")
    if path is None:
        await aiofiles.stdout_bytes.write(HEADING)
        written = await _write(store, aiofiles.stdout_bytes, start, namespace, progress)
        sys.stdout.buffer.flush()
        return written
    unfinished = AtomicFile(path)
    last = await unfinished.last_line() if resume else None
    async with unfinished.written(resume=last is not None) as file:
        if last is None:
            await file.write(HEADING)
        elif parse_heading(last) is None:
            told = parse_json(last)
            start = (told["namespace"], told["key"])
        return await _write(store, file, start, namespace, progress)


async def _write(
    store: TransferableStore,
    file: Any,
    after: tuple[str, str],
    namespace: str | None,
    progress: Progress,
) -> ExportResult:
    count, damaged = 0, list[DamagedMemory]()
    while found := await store.read_page(after, PAGE):
        mine = [one for one in found if namespace in (None, _name(one)[0])]
        memories = [one for one in mine if isinstance(one, StoredMemory)]
        damaged += [one for one in mine if isinstance(one, DamagedMemory)]
        await file.write(b"".join(map(format_line, memories)))
        count += len(memories)
        progress(len(memories))
        after = _name(found[-1])
        if len(mine) < len(found):
            break
    return ExportResult(count, damaged)


def _name(found: StoredMemory | DamagedMemory) -> tuple[str, str]:
    return (
        (found.namespace, found.key)
        if isinstance(found, DamagedMemory)
        else (found.row.namespace, found.row.key)
    )
