"""Import: memories from a file into a store, in batches. Importing again changes nothing."""

import os
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NamedTuple

import aiofiles

from abilities.declarations.faults import Refused
from abilities.declarations.transfer import VERSION
from abilities.declarations.values import as_object, utc_now
from abilities.helpers.stores.model import IncomingMemory
from abilities.helpers.stores.protocol import TransferableStore
from abilities.helpers.transfer.export_lines import (
    UnusableLine,
    parse_heading,
    parse_line_json,
)
from abilities.helpers.transfer.kv_memory import KvMemoryFile
from abilities.helpers.transfer.mcp_memory import read_knowledge_graph
from abilities.helpers.transfer.sources import Source, SourceItem, read_export
from abilities.helpers.transfer.streams import read_lines

BATCH = 500
"""Memories that are handed to the store together."""

_SQLITE_MAGIC = b"SQLite format 3\0"


class ImportNote(NamedTuple):
    """A remark about one memory: its place in the file, its key if known, and sentences."""

    place: str
    key: str | None
    words: str


class OpenedSource(NamedTuple):
    """A file to import: what it is, its memories, and its length in bytes or memories, or 0."""

    kind: str
    source: Source
    length: int


class ImportOptions(NamedTuple):
    """What a person asks of one import; a store knows only the part that is in `BatchOptions`.

    ``namespace`` is for memories that name none, or for all of them with ``all_into_it``. Memories
    that exist and differ are kept, unless ``replace`` is set. A ``dry_run`` changes nothing.
    """

    namespace: str
    all_into_it: bool = False
    replace: bool = False
    dry_run: bool = False


Report = Callable[[ImportNote], None]
"""Is called with each remark."""

Progress = Callable[[int], None]
"""Is called with how much of the source was imported so far, in bytes or memories."""


async def open_source(path: Path | None, options: ImportOptions) -> OpenedSource:
    """Find out from its beginning what a file holds; standard input (None) must be an export.

    Raises UnusableLine, OSError.
    """
    namespace = options.namespace
    override = namespace if options.all_into_it else None

    if path is None:
        return OpenedSource("an export", read_export(None, override), 0)

    if await _is_sqlite(path):
        database = KvMemoryFile.open(path)
        source = database.read_memories(namespace, utc_now())
        return OpenedSource("a kv-memory database", source, len(database))

    first_line = await _read_first_line(path)
    size = os.stat(path).st_size

    heading = parse_heading(first_line)
    if heading is not None and heading.version > VERSION:
        raise UnusableLine("The file was written by a newer version of this package.")
    if heading is not None:
        return OpenedSource("an export", read_export(path, override), size)

    if _is_knowledge_graph(first_line):
        source = read_knowledge_graph(path, namespace, utc_now())
        return OpenedSource("an MCP memory server's file", source, size)

    raise UnusableLine(
        "The file is neither an export, nor an MCP memory server's memory.jsonl, "
        "nor a kv-memory database."
    )


async def import_memories(
    store: TransferableStore,
    source: Source,
    options: ImportOptions,
    report: Report,
    progress: Progress,
) -> Counter[str]:
    """Import memories, and count those added, replaced, unchanged, kept, adjusted and refused.

    If an import is interrupted, run it again to finish it. Every memory that is adjusted, refused,
    or kept although it differs is reported. Raises Refused if the store can take nothing.
    """
    counts: Counter[str] = Counter()

    async for batch in _read_batches(source):
        for item in batch:
            if item.unusable is not None:
                counts["refused"] += 1
                report(ImportNote(item.place, None, item.unusable))
            elif item.notes:
                counts["adjusted"] += 1
                key = item.memories[0].stored.row.key
                report(ImportNote(item.place, key, " ".join(item.notes)))

        await _import_batch(store, batch, options, counts, report)
        progress(batch[-1].position)

    return counts


async def _is_sqlite(path: Path) -> bool:
    async with aiofiles.open(path, "rb") as file:
        return await file.read(len(_SQLITE_MAGIC)) == _SQLITE_MAGIC


async def _read_first_line(path: Path) -> bytes:
    async for line in read_lines(path):
        return line.text or b""

    return b""


def _is_knowledge_graph(first_line: bytes) -> bool:
    try:
        fields = as_object(parse_line_json(first_line))
    except UnusableLine:
        return False

    return fields is not None and fields.get("type") in ("entity", "relation")


async def _read_batches(source: Source) -> AsyncIterator[list[SourceItem]]:
    """Yield items in lists of at least `BATCH` memories or items; the last one is shorter."""
    batch: list[SourceItem] = []
    memories = 0

    async for item in source:
        batch.append(item)
        memories += len(item.memories)

        # An item may be many memories, or none if it is unusable, so both are counted.
        if max(memories, len(batch)) >= BATCH:
            yield batch
            batch = []
            memories = 0

    if batch:
        yield batch


async def _import_batch(
    store: TransferableStore,
    batch: list[SourceItem],
    options: ImportOptions,
    counts: Counter[str],
    report: Report,
) -> None:
    places: list[str] = []
    memories: list[IncomingMemory] = []

    for item in batch:
        places += [item.place] * len(item.memories)
        memories += item.memories

    if not memories:
        return

    outcomes = await store.import_batch(memories, replace=options.replace, dry_run=options.dry_run)

    for place, memory, outcome in zip(places, memories, outcomes, strict=True):
        key = memory.stored.row.key

        if isinstance(outcome, Refused):
            counts["refused"] += 1
            report(ImportNote(place, key, outcome.message))
        elif isinstance(outcome, Exception):
            raise outcome  # nothing about this one memory, so the next ones would fail too
        else:
            counts[outcome] += 1

        if outcome == "kept":
            report(ImportNote(place, key, "It differs from the stored memory, which was kept."))
