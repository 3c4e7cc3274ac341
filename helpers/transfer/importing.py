"""Import: memories from a file into a store, in batches; doing it again changes nothing."""

import os
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NamedTuple

import aiofiles

from abilities.declarations.faults import Refused
from abilities.declarations.transfer import VERSION
from abilities.declarations.values import as_object, parse_json, utc_now
from abilities.helpers.stores.protocol import TransferableStore
from abilities.helpers.transfer.export_lines import UnusableLine, parse_heading
from abilities.helpers.transfer.kv_memory import KvMemoryFile
from abilities.helpers.transfer.mcp_memory import read_knowledge_graph
from abilities.helpers.transfer.sources import Source, SourceItem, read_export
from abilities.helpers.transfer.streams import read_lines

BATCH = 500
"""Memories that are handed to the store together."""


class ImportNote(NamedTuple):
    """Something to be told of one memory: where it stood, its key where it has one, and what became of it."""

    place: str
    key: str | None
    words: str


class OpenedSource(NamedTuple):
    """A file to import: what it is, its memories, and how far the way through it is (bytes or memories; 0: unknown)."""

    kind: str
    source: Source
    length: int


class ImportOptions(NamedTuple):
    """How to import. ``namespace`` is where memories go that name none, or, with ``all_into_it``, all of them."""

    namespace: str
    all_into_it: bool = False
    replace: bool = False
    dry_run: bool = False


async def open_source(path: Path | None, way: ImportOptions) -> OpenedSource:
    """Find out what a file holds; None is standard input, which must be our own lines. Raises Unusable, OSError."""
    moment = utc_now()
    override = way.namespace if way.all_into_it else None
    if path is None:
        return OpenedSource("an export", read_export(None, override), 0)
    async with aiofiles.open(path, "rb") as file:
        beginning = await file.read(16)
    if beginning == b"SQLite format 3\0":
        database = KvMemoryFile.open(path)
        return OpenedSource(
            "a kv-memory database", database.memories(way.namespace, moment), len(database)
        )
    first = await _first_line(path)
    heading = parse_heading(first)
    if heading is not None and heading.version > VERSION:
        raise UnusableLine("the file was written by a newer version of this package")
    size = os.stat(path).st_size
    if heading is not None:
        return OpenedSource("an export", read_export(path, override), size)
    if (_object(first) or {}).get("type") in ("entity", "relation"):
        return OpenedSource(
            "an MCP memory server's file", read_knowledge_graph(path, way.namespace, moment), size
        )
    raise UnusableLine(
        "the file is neither an export, nor an MCP memory server's memory.jsonl, nor a kv-memory database"
    )


async def _first_line(path: Path) -> bytes:
    async for line in read_lines(path):
        return line.text or b""
    return b""


def _object(line: bytes) -> dict[str, object] | None:
    try:
        return as_object(parse_json(line))
    except ValueError:
        return None


async def import_memories(
    store: TransferableStore,
    source: Source,
    way: ImportOptions,
    tell: Callable[[ImportNote], None],
    progress: Callable[[int], None],
) -> Counter[str]:
    """Bring memories into a store; counts added, replaced, unchanged, kept, adjusted and refused.

    A broken import is finished by doing it again. ``tell`` hears of every
    memory that was adjusted, kept as it was although it differs, or refused. Raises Refused when the store
    can take nothing.
    """
    counts: Counter[str] = Counter()
    async for batch in _batches(source):
        for brought in batch:
            if brought.unusable is not None:
                counts["refused"] += 1
                tell(ImportNote(brought.place, None, brought.unusable))
            elif brought.notes:
                counts["adjusted"] += 1
                tell(
                    ImportNote(
                        brought.place,
                        brought.memories[0].stored.row.key,
                        "; ".join(dict.fromkeys(brought.notes)),
                    )
                )
        await _put(store, batch, way, counts, tell)
        progress(batch[-1].done)
    return counts


async def _batches(source: Source) -> AsyncIterator[list[SourceItem]]:
    batch: list[SourceItem] = []
    async for brought in source:
        batch.append(brought)
        if sum(len(one.memories) for one in batch) >= BATCH or len(batch) >= BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


async def _put(
    store: TransferableStore,
    batch: list[SourceItem],
    way: ImportOptions,
    counts: Counter[str],
    tell: Callable[[ImportNote], None],
) -> None:
    placed = [(brought.place, memory) for brought in batch for memory in brought.memories]
    if not placed:
        return
    outcomes = await store.import_batch(
        [memory for _, memory in placed], replace=way.replace, dry_run=way.dry_run
    )
    for (place, memory), outcome in zip(placed, outcomes, strict=True):
        key = memory.stored.row.key
        if isinstance(outcome, Refused):
            counts["refused"] += 1
            tell(ImportNote(place, key, outcome.message))
        elif isinstance(outcome, Exception):
            raise outcome
        else:
            counts[outcome] += 1
            if outcome == "kept":
                tell(
                    ImportNote(place, key, "differs from the memory that is there, which was kept")
                )
