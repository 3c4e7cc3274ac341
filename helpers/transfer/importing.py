"""Import: memories and their history from a file into a store, in batches.

Importing again changes nothing.

Open what is to be imported: a file or a stream, whose beginning shows what it holds.
"""

import os
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import aiofiles

from abilities.declarations.refusals import Refused
from abilities.declarations.transfer import VERSION
from abilities.declarations.values import JsonObject, as_object, utc_now
from abilities.helpers.store.changes import Outcome, is_passing
from abilities.helpers.store.history import Entry
from abilities.helpers.store.model import IncomingMemory
from abilities.helpers.store.protocol import ServableStore
from abilities.helpers.transfer.export_lines import UnusableLine, parse_heading, parse_line_json
from abilities.helpers.transfer.kv_memory import KvMemoryFile
from abilities.helpers.transfer.mcp_memory import read_knowledge_graph
from abilities.helpers.transfer.patience import Patience
from abilities.helpers.transfer.sources import (
    CHUNK,
    Destination,
    Source,
    SourceItem,
    read_export,
    read_lines,
)

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


BATCH = 500
"""Memories or entries of the history that are handed to the store together, or a few more."""

HISTORY = "entries of history"
"""What an import counts the entries under that it stored."""


class ImportNote(NamedTuple):
    """A remark on one memory: its place in the file, its key if known, and sentences.

    A remark on a kind of rows has the number of them, and its place says which they are.
    """

    place: str
    key: str | None
    words: str
    rows: int | None = None


class ImportOptions(NamedTuple):
    """What a person asks of one import.

    Memories that exist and differ are kept, unless ``replace`` is set. A ``dry_run`` changes
    nothing.
    """

    replace: bool = False
    dry_run: bool = False


_HINTS = {
    "checksum_mismatch": "The stored memory is damaged and was kept; "
    "--replace puts this one in its place.",
    "purged": "It was purged from this store for good, and no import brings it back.",
}
"""Why a memory is refused, for the person who imports it, by the reason."""

Report = Callable[[ImportNote], None]
"""Is called with each remark."""

Progress = Callable[[int], None]
"""Is called with how much of the source was imported so far, in bytes or memories."""


async def import_memories(
    store: ServableStore,
    opened: OpenedSource,
    options: ImportOptions,
    report: Report,
    progress: Progress,
    counts: Counter[str],
) -> None:
    """Import memories, and count those added, replaced, unchanged, kept, adjusted and refused.

    The history of memories that have none here is stored too, and its entries are counted. It
    waits for a store that does not answer, as `Patience` says. If an import is interrupted,
    ``counts`` says how far it came; run it again to finish it. Every memory that is adjusted,
    refused, or kept although it differs is reported; what a source has that is not kept is counted.
    Raises Refused if the store can take nothing.
    """
    patience = Patience()

    async for batch in _read_batches(opened.source):
        for item in batch:
            _report_item(item, counts, report)

        await _import_history(store, batch, options, counts, patience)
        await _import_batch(store, batch, options, counts, report, patience)
        progress(batch[-1].position)

    progress(opened.length)


def _report_item(item: SourceItem, counts: Counter[str], report: Report) -> None:
    """Report what the source itself says of an item, before a store has seen it."""
    words = " ".join(item.notes)

    if item.unusable is not None:
        counts["refused"] += 1
        report(ImportNote(item.place, None, item.unusable))
    elif item.rows is not None:
        report(ImportNote(item.place, None, words, item.rows))
    elif words:
        counts["adjusted"] += 1
        report(ImportNote(item.place, item.memories[0].stored.row.key, words))


async def _read_batches(source: Source) -> AsyncIterator[list[SourceItem]]:
    """Yield items in lists of at least `BATCH` memories, entries or items, or what is left."""
    batch: list[SourceItem] = []
    parts = 0

    async for item in source:
        batch.append(item)
        parts += len(item.memories) + len(item.past)

        # An item may be many memories, or none if it is unusable, so both are counted.
        if max(parts, len(batch)) >= BATCH:
            yield batch
            batch = []
            parts = 0

    if batch:
        yield batch


async def _import_history(
    store: ServableStore,
    batch: list[SourceItem],
    options: ImportOptions,
    counts: Counter[str],
    patience: Patience,
) -> None:
    entries: list[Entry] = []
    for item in batch:
        entries += item.past

    if entries and not options.dry_run:
        counts[HISTORY] += await patience.call(partial(store.import_entries, entries))


async def _import_batch(
    store: ServableStore,
    batch: list[SourceItem],
    options: ImportOptions,
    counts: Counter[str],
    report: Report,
    patience: Patience,
) -> None:
    waiting = [(item.place, memory) for item in batch for memory in item.memories]

    while waiting:
        memories = [memory for _, memory in waiting]
        work = partial(
            store.import_batch, memories, replace=options.replace, dry_run=options.dry_run
        )
        outcomes = await patience.call(work)

        unanswered: list[tuple[str, IncomingMemory]] = []
        for (place, memory), outcome in zip(waiting, outcomes, strict=True):
            if is_passing(outcome):
                unanswered.append((place, memory))
            else:
                _count_outcome(place, memory, outcome, counts, report)

        if len(unanswered) == len(waiting):
            assert isinstance(outcomes[0], Refused)
            await patience.wait(outcomes[0])
        waiting = unanswered


def _count_outcome(
    place: str,
    memory: IncomingMemory,
    outcome: Outcome | Exception,
    counts: Counter[str],
    report: Report,
) -> None:
    key = memory.stored.row.key

    if isinstance(outcome, Refused):
        counts["refused"] += 1
        report(ImportNote(place, key, _HINTS.get(outcome.reason, outcome.message)))
    elif isinstance(outcome, Exception):
        raise outcome  # nothing about this one memory, so the next ones would fail too
    else:
        counts[outcome] += 1

    if outcome == "kept":
        report(ImportNote(place, key, "It differs from the stored memory, which was kept."))
