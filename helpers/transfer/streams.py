"""Files of lines as streams: in bounded memory, and written so that a file is there whole or not at all."""

import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiofiles

from abilities.helpers.durable import sync_folder

CHUNK = 1 << 20
MAX_LINE = 64 << 20
"""Bytes of a line; a longer one is passed over, and said to be."""


class Line(NamedTuple):
    """A line without its newline; ``text`` is None where it is too long. ``end`` is the file's byte after it."""

    number: int
    text: bytes | None
    end: int
    whole: bool = True


async def read_lines(path: Path | None) -> AsyncIterator[Line]:
    """The lines of a file, or of standard input; empty ones are left out."""
    source: Any = aiofiles.stdin_bytes if path is None else await aiofiles.open(path, "rb")
    number, end, rest, skipping = 0, 0, bytearray(), False
    try:
        while chunk := await source.read(CHUNK):
            *whole, last = (bytes(rest) + chunk).split(b"\n")
            for text in whole:
                number, end = number + 1, end + len(text) + 1
                if skipping or text.strip():
                    yield Line(number, None if skipping or len(text) > MAX_LINE else text, end)
                skipping = False
            rest = bytearray(last)
            if len(rest) > MAX_LINE:
                end, skipping = end + len(rest), True
                rest.clear()
    finally:
        if path is not None:
            await source.close()
    if skipping or bytes(rest).strip():
        yield Line(number + 1, None if skipping else bytes(rest), end + len(rest), whole=False)


def _private(path: str, flags: int) -> int:
    """Memories are their owner's, as in the store."""
    return os.open(path, flags, 0o600)


class AtomicFile:
    """A file in the making, beside the place where it will stand."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.part = path.with_name(path.name + ".part")

    @asynccontextmanager
    async def written(self, *, resume: bool) -> AsyncGenerator[Any]:
        """Write the part, anew or on from its last whole line; when all went well it takes the file's place."""
        async with aiofiles.open(self.part, "ab" if resume else "wb", opener=_private) as file:
            yield file
            await file.flush()
            os.fsync(file.fileno())
        os.replace(self.part, self.path)
        sync_folder(self.path.parent)

    async def last_line(self) -> bytes | None:
        """The last whole line of the part, what follows it cut off; None where there is none."""
        if not self.part.exists():
            return None
        last: Line | None = None
        async for line in read_lines(self.part):
            last = line if line.whole else last
        os.truncate(self.part, last.end if last else 0)
        return last.text if last else None
