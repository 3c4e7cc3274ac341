"""Open what is to be imported: a file or a stream, whose beginning shows what it holds."""

import os
import tempfile
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiofiles

from abilities.declarations.transfer import VERSION
from abilities.declarations.values import JsonObject, as_object, utc_now
from abilities.helpers.transfer.export_lines import UnusableLine, parse_heading, parse_line_json
from abilities.helpers.transfer.kv_memory import KvMemoryFile
from abilities.helpers.transfer.mcp_memory import read_knowledge_graph
from abilities.helpers.transfer.sources import Destination, Source, read_export
from abilities.helpers.transfer.streams import CHUNK, read_lines

_SQLITE_MAGIC = b"SQLite format 3\0"

_GZIP_MAGIC = b"\x1f\x8b"

_MAX_LINE = 1024 * 1024

_TRIED_LINES = 20
"""The format is that of the first of these lines that shows one; lines before it may be torn."""


class OpenedSource(NamedTuple):
    """What an import reads: what it is, its memories, and its length in bytes or memories."""

    kind: str
    source: Source
    length: int


@asynccontextmanager
async def open_source(
    path: Path | None, namespace: str, *, all_into_it: bool
) -> AsyncGenerator[OpenedSource]:
    """Find out from its beginning what a file or standard input (None) holds.

    ``namespace`` is for memories that name none, or for all of them with ``all_into_it``. A stream
    can be read only once, so it is copied to a private temporary file, which the end of the block
    deletes. Raises UnusableLine, OSError.
    """
    with ExitStack() as closing:
        if path is None or _is_stream(path):
            folder = closing.enter_context(tempfile.TemporaryDirectory(prefix="abilities-import-"))
            copy = Path(folder) / "stream"
            await _copy_stream(path, copy)
            path = copy

        beginning = await _read_beginning(path)
        if beginning.startswith(_GZIP_MAGIC):
            raise UnusableLine("The file is compressed: gunzip -c FILE | abilities import -")

        if beginning == _SQLITE_MAGIC:
            database = closing.enter_context(KvMemoryFile.open(path))
            source = database.read_memories(namespace, utc_now())
            yield OpenedSource("a kv-memory database", source, database.count_memories())
        else:
            yield await _recognize_lines(path, namespace, all_into_it=all_into_it)


def _is_stream(path: Path) -> bool:
    """Return whether a path is a pipe or a device, which can be read only once."""
    return not path.is_file()


async def _copy_stream(path: Path | None, copy: Path) -> None:
    """Copy standard input (None) or a pipe to a file. Raises UnusableLine for a database."""
    stream: Any = aiofiles.stdin_bytes if path is None else await aiofiles.open(path, "rb")

    try:
        async with aiofiles.open(copy, "wb") as file:
            chunk = await stream.read(CHUNK)
            if chunk.startswith(_SQLITE_MAGIC):
                raise UnusableLine("A database cannot be read from a stream; name its file.")

            while chunk:
                await file.write(chunk)
                chunk = await stream.read(CHUNK)
    finally:
        if path is not None:
            await stream.close()


async def _recognize_lines(path: Path, namespace: str, *, all_into_it: bool) -> OpenedSource:
    """Return the source that a file of lines is. Raises UnusableLine if it is none."""
    size = os.stat(path).st_size
    tried = 0

    async for line in read_lines(path):
        tried += 1
        text = line.text or b""

        if _is_export(text) or {"key", "content"} <= _parse_fields(text).keys():
            destination = Destination(namespace, all_into_it)
            return OpenedSource("an export", read_export(path, destination, utc_now()), size)

        if _is_knowledge_graph(text):
            source = read_knowledge_graph(path, namespace, utc_now())
            # It is read twice.
            return OpenedSource("an MCP memory server's file", source, 2 * size)

        if tried == 1 and text.lstrip().startswith(b"["):
            raise UnusableLine(
                "The file is a JSON array, and an import reads one object per line: "
                "jq -c '.[]' FILE | abilities import -"
            )
        if tried == _TRIED_LINES:
            break

    if not tried:
        raise UnusableLine("There is nothing to import: the file is empty. Name another one.")

    raise UnusableLine(
        "The file is neither an export, nor an MCP memory server's memory.jsonl, "
        "nor a kv-memory database. To import other texts, write one "
        '{"key": "...", "content": "..."} per line'
    )


async def _read_beginning(path: Path) -> bytes:
    async with aiofiles.open(path, "rb") as file:
        return await file.read(len(_SQLITE_MAGIC))


def holds_export(path: Path) -> bool:
    """Return whether a file begins as an export, whatever follows. Raises OSError."""
    with path.open("rb") as file:
        line = file.readline(_MAX_LINE)

    try:
        return _is_export(line)
    except UnusableLine:  # one of a newer version
        return True


def _is_export(line: bytes) -> bool:
    """Return whether a line is the heading of an export, or a memory of one without a heading.

    Raises UnusableLine for the heading of a newer version.
    """
    heading = parse_heading(line)
    if heading is None:
        return {"namespace", "key", "id"} <= _parse_fields(line).keys()

    if heading.version > VERSION:
        raise UnusableLine("The file was written by a newer version of this package.")

    return True


def _is_knowledge_graph(line: bytes) -> bool:
    return _parse_fields(line).get("type") in ("entity", "relation")


def _parse_fields(line: bytes) -> JsonObject:
    """Return the JSON object on a line; an empty one if there is none."""
    try:
        return as_object(parse_line_json(line)) or {}
    except UnusableLine:
        return {}
