"""Export: every memory of every namespace as a stream of lines."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import aiofiles

from abilities.declarations.values import parsed_json
from abilities.helpers.stores.model import Damaged, Stored
from abilities.helpers.stores.protocol import MemoryStore
from abilities.helpers.transfer.export_lines import HEADING, heading_of, line_of
from abilities.helpers.transfer.streams import Unfinished

PAGE = 500
Progress = Callable[[int], None]
"""Is told how much more was done."""


class Exported(NamedTuple):
    """How many memories were written, and what could not be read."""

    memories: int
    damaged: list[Damaged]


async def export(
    store: MemoryStore, path: Path | None, namespace: str | None, *, resume: bool, progress: Progress
) -> Exported:
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
    unfinished = Unfinished(path)
    last = await unfinished.last_line() if resume else None
    async with unfinished.written(resume=last is not None) as file:
        if last is None:
            await file.write(HEADING)
        elif heading_of(last) is None:
            told = parsed_json(last)
            start = (told["namespace"], told["key"])
        return await _write(store, file, start, namespace, progress)


async def _write(
    store: MemoryStore, file: Any, after: tuple[str, str], namespace: str | None, progress: Progress
) -> Exported:
    count, damaged = 0, list[Damaged]()
    while found := await store.page(after, PAGE):
        mine = [one for one in found if namespace in (None, _name(one)[0])]
        memories = [one for one in mine if isinstance(one, Stored)]
        damaged += [one for one in mine if isinstance(one, Damaged)]
        await file.write(b"".join(map(line_of, memories)))
        count += len(memories)
        progress(len(memories))
        after = _name(found[-1])
        if len(mine) < len(found):
            break
    return Exported(count, damaged)


def _name(found: Stored | Damaged) -> tuple[str, str]:
    return (found.namespace, found.key) if isinstance(found, Damaged) else (found.row.namespace, found.row.key)
