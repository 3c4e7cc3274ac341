"""Import of memories and their history from a file, stream or folder into a store, in batches.

The beginning of a file or stream shows its format. Importing it again changes nothing.
"""

import asyncio
import os
import shutil
import sys
import tempfile
import zlib
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import ExitStack, aclosing, asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile, ZipFile

import aiofiles

from abilities.declarations.memory import parse_namespace
from abilities.declarations.refusals import Refused
from abilities.declarations.values import JsonObject, as_object, utc_now
from abilities.helpers.store.changes import Outcome, call_patiently, is_passing
from abilities.helpers.store.history import Entry
from abilities.helpers.store.model import IncomingMemory
from abilities.helpers.store.protocol import ServableStore
from abilities.helpers.transfer import sources
from abilities.helpers.transfer.adjustment import adjust
from abilities.helpers.transfer.dialogs import recognize
from abilities.helpers.transfer.export_lines import (
    VERSION,
    UnusableLine,
    parse_heading,
    parse_line_json,
)
from abilities.helpers.transfer.memory_servers import KvMemoryFile, read_knowledge_graph
from abilities.helpers.transfer.sessions import (
    EXPORT_NAME,
    FolderReader,
    SessionFile,
    list_sessions,
)

_SQLITE_MAGIC = b"SQLite format 3\0"

_GZIP_MAGIC = b"\x1f\x8b"
_ZIP_MAGIC = b"PK\x03\x04"

_MAX_EXPANSION = 100
"""The size of unpacked conversations per byte of the archive; text has less than 20."""

SUFFIX = ".sessions"
"""Appended to a namespace, names the one for its sessions, so that no turn hides a memory."""

_BEGINNING = 64

_MAX_LINE = 1024 * 1024

_TRIED_LINES = 20
"""The number of lines that are searched for a recognizable one; lines before it may be torn."""

BATCH = 500
"""Memories or history entries that are handed to the store together, or a few more."""

HISTORY = "entries of history"
"""The name under which an import counts the stored entries of the history."""

_HINTS = {
    "checksum_mismatch": "The stored memory is damaged and was kept; "
    "--replace puts this one in its place.",
    "purged": "It was purged from this store for good, and no import brings it back.",
}


class OpenedSource(NamedTuple):
    """The source of an import: its kind, its items, and its length in bytes or memories.

    ``namespace`` is for memories of other systems.
    """

    kind: str
    source: sources.Source | FolderReader
    length: int
    namespace: str


@asynccontextmanager
async def open_source(
    path: Path | None, namespace: str, *, all_into_it: bool
) -> AsyncGenerator[OpenedSource]:
    """Recognize the format of a file, a folder or standard input (None), and open it.

    ``namespace`` is for memories that name none, or for all memories with ``all_into_it``; sessions
    go into that with the `SUFFIX` otherwise. A stream can be read only once, so it is copied to a
    private temporary file, and so are conversations in an archive; these are deleted at the end of
    the block. Raises UnusableLine, OSError.
    """
    destination = sources.Destination(namespace, all_into_it)
    with ExitStack() as closing:
        if path is not None and path.is_dir():  # noqa: ASYNC240 - a single look-up
            files = await asyncio.to_thread(list_sessions, path)
            yield _open_sessions(path, files, destination)
            return

        if path is None or not path.is_file():  # noqa: ASYNC240 - a single look-up
            copy = _make_folder(closing) / "stream"
            await asyncio.to_thread(_copy_stream, path, copy)
            path = copy

        async with aiofiles.open(path, "rb") as file:
            beginning = await file.read(_BEGINNING)

        if beginning.startswith(_GZIP_MAGIC):
            raise UnusableLine("The file is compressed: gunzip -c FILE | abilities import -")

        if beginning.startswith(_SQLITE_MAGIC):
            database = closing.enter_context(KvMemoryFile.open(path))
            source, number = database.read_memories(), database.count_memories()
            yield OpenedSource("a kv-memory database", source, number, namespace)
        elif beginning.startswith(_ZIP_MAGIC):
            unpacked = _make_folder(closing)
            await asyncio.to_thread(_unpack, path, unpacked)
            yield _open_sessions(unpacked, list_sessions(unpacked), destination)
        elif beginning.removeprefix(BOM_UTF8).lstrip().startswith(b"["):
            yield await _recognize_array(path, destination)
        else:
            yield await _recognize_lines(path, destination)


def _make_folder(closing: ExitStack) -> Path:
    """Return a new private folder, which is deleted at the end."""
    return Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="abilities-import-")))


def _open_file(path: Path, destination: sources.Destination, *, is_array: bool) -> OpenedSource:
    path = path.resolve()  # a link that the caller names may be followed
    file = SessionFile((path.name,), path.stat().st_size, is_array)
    return _open_sessions(path.parent, [file], destination)


def _open_sessions(
    folder: Path, files: list[SessionFile], destination: sources.Destination
) -> OpenedSource:
    if not files:
        raise UnusableLine(
            "The folder has no sessions (*.jsonl) and no conversations.json. Those of Claude Code "
            "are in ~/.claude/projects, those of Codex in ~/.codex/sessions."
        )

    namespace = destination.namespace
    if not destination.takes_all:
        try:
            namespace = parse_namespace(namespace + SUFFIX)
        except ValueError as error:
            words = f"{namespace}{SUFFIX} is no namespace: {error}; choose one: --namespace NAME"
            raise UnusableLine(words) from None

    reader = FolderReader(folder, files, namespace)
    return OpenedSource("sessions", reader, sum(file.size for file in files), namespace)


def _unpack(path: Path, folder: Path) -> None:
    """Unpack the conversations in an archive into a folder. Raises UnusableLine."""
    try:
        with ZipFile(path) as archive:
            members = {info.filename.rpartition("/")[2]: info for info in archive.infolist()}
            found = {name: info for name, info in members.items() if EXPORT_NAME.fullmatch(name)}
            size = sum(info.file_size for info in found.values())
            if size > _MAX_EXPANSION * path.stat().st_size:
                raise UnusableLine("The archive would unpack to a hundred times its size or more.")

            for name, info in found.items():
                with archive.open(info) as member, (folder / name).open("wb") as copy:
                    shutil.copyfileobj(member, copy, sources.CHUNK)
    except (BadZipFile, EOFError, NotImplementedError, RuntimeError, zlib.error):
        raise UnusableLine("The archive is damaged, or has a password.") from None


def _copy_stream(path: Path | None, copy: Path) -> None:
    """Copy standard input (None) or a pipe to a file. Raises UnusableLine for a database."""
    opened = nullcontext(sys.stdin.buffer) if path is None else path.open("rb")
    with opened as stream, copy.open("wb") as file:
        beginning = stream.read(len(_SQLITE_MAGIC))
        if beginning == _SQLITE_MAGIC:
            raise UnusableLine("A database cannot be read from a stream; name its file.")

        file.write(beginning)
        shutil.copyfileobj(stream, file, sources.CHUNK)


async def _recognize_array(path: Path, destination: sources.Destination) -> OpenedSource:
    """Return the source for a JSON array of conversations. Raises UnusableLine for another one."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    async with aclosing(sources.read_elements(descriptor)) as elements:
        async for element in elements:
            if recognize(_parse_fields(element.text or b"")) is not None:
                return _open_file(path, destination, is_array=True)
            break

    raise UnusableLine(
        "The file is a JSON array, and an import reads one object per line: "
        "jq -c '.[]' FILE | abilities import -"
    )


async def _recognize_lines(path: Path, destination: sources.Destination) -> OpenedSource:
    """Return the source for a file of lines. Raises UnusableLine if no line is recognizable."""
    namespace, size = destination.namespace, os.stat(path).st_size
    tried = 0

    async for line in sources.read_lines(path):
        tried += 1
        text = line.text or b""
        fields = _parse_fields(text)

        if _is_export(text) or {"key", "content"} <= fields.keys():
            source = sources.read_export(path, destination, utc_now())
            return OpenedSource("an export", source, size, namespace)

        if fields.get("type") in ("entity", "relation"):
            # Twice the size, because the file is read twice.
            kind, graph = "an MCP memory server's file", read_knowledge_graph(path)
            return OpenedSource(kind, graph, 2 * size, namespace)

        if recognize(fields) is not None:
            return _open_file(path, destination, is_array=False)

        if tried == _TRIED_LINES:
            break

    if not tried:
        raise UnusableLine("There is nothing to import: the file is empty. Name another one.")

    raise UnusableLine(
        "The file is neither an export, nor an MCP memory server's memory.jsonl, "
        "nor a kv-memory database, nor a session. To import other texts, write one "
        '{"key": "...", "content": "..."} per line'
    )


def holds_export(path: Path) -> bool:
    """Return whether a file begins like an export. Raises OSError."""
    with path.open("rb") as file:
        line = file.readline(_MAX_LINE)

    try:
        return _is_export(line)
    except UnusableLine:  # an export of a newer version
        return True


def _is_export(line: bytes) -> bool:
    """Return whether a line is the heading of an export, or a memory of one without a heading."""
    heading = parse_heading(line)
    if heading is None:
        return {"namespace", "key", "id"} <= _parse_fields(line).keys()

    if heading.version > VERSION:
        raise UnusableLine("The file was written by a newer version of this package.")

    return True


def _parse_fields(line: bytes) -> JsonObject:
    """Return the JSON object on a line, or an empty one."""
    try:
        return as_object(parse_line_json(line)) or {}
    except UnusableLine:
        return {}


class ImportNote(NamedTuple):
    """A remark on one memory: its place in the file, its key if known, and sentences.

    A remark on several rows has their number in ``rows``, and names their kind in ``place``.
    """

    place: str
    key: str | None
    words: str
    rows: int | None = None


class ImportOptions(NamedTuple):
    """The options of an import.

    Stored memories that differ from the imported ones are kept, unless ``replace`` is set. A
    ``dry_run`` changes nothing.
    """

    replace: bool = False
    dry_run: bool = False


_Placed = tuple[str, IncomingMemory]

Report = Callable[[ImportNote], None]

Progress = Callable[[int], None]
"""Called with the position in the source up to which it is imported, in bytes or memories."""


async def import_memories(
    store: ServableStore,
    opened: OpenedSource,
    options: ImportOptions,
    report: Report,
    progress: Progress,
    counts: Counter[str],
) -> None:
    """Import memories, and count how many are added, replaced, unchanged, kept, adjusted, refused.

    The history of new memories is also stored, and its entries are counted. Each memory that is
    adjusted, refused, or kept although it differs is reported; other parts of a source that are not
    imported are reported as numbers. It waits for a store that does not answer. If an import is
    interrupted, ``counts`` shows its progress; running it again finishes it. Raises Refused if the
    store accepts nothing.
    """
    now = utc_now()

    source = opened.source
    if isinstance(source, FolderReader):
        source = source.read(store)

    async for batch in _read_batches(source):
        past: list[Entry] = []
        memories: list[_Placed] = []
        for item in batch:
            past += item.past
            memory, notes = item.memory, [*item.notes]
            if isinstance(memory, sources.ForeignMemory):
                try:
                    memory, adjustments = adjust(memory, opened.namespace, now)
                    notes += adjustments
                except UnusableLine as error:
                    memory = error

            words = " ".join(notes)
            if isinstance(memory, UnusableLine):
                counts["refused"] += 1
                report(ImportNote(item.place, None, str(memory)))
            elif memory is not None:
                memories.append((item.place, memory))
                if words:
                    counts["adjusted"] += 1
                    report(ImportNote(item.place, memory.stored.row.key, words))
            elif item.rows is not None:
                report(ImportNote(item.place, None, words, item.rows))

        if past and not options.dry_run:
            counts[HISTORY] += await call_patiently(partial(store.import_entries, past))

        await _import_batch(store, memories, options, counts, report)
        progress(batch[-1].position)

    progress(opened.length)


async def _read_batches(source: sources.Source) -> AsyncIterator[list[sources.SourceItem]]:
    """Yield lists of items with `BATCH` entries or items at least, then the rest."""
    batch: list[sources.SourceItem] = []
    parts = 0

    async for item in source:
        batch.append(item)
        parts += max(len(item.past), 1)
        if parts >= BATCH:
            yield batch
            batch = []
            parts = 0

    if batch:
        yield batch


async def _import_batch(
    store: ServableStore,
    waiting: list[_Placed],
    options: ImportOptions,
    counts: Counter[str],
    report: Report,
) -> None:
    """Import memories with their places, and repeat those not taken by the store in time."""
    while waiting:
        memories = [memory for _, memory in waiting]
        outcomes = await call_patiently(partial(_import_some, store, memories, options))

        unanswered: list[_Placed] = []
        for (place, memory), outcome in zip(waiting, outcomes, strict=True):
            key = memory.stored.row.key
            if is_passing(outcome):
                unanswered.append((place, memory))
            elif isinstance(outcome, Refused):
                counts["refused"] += 1
                report(ImportNote(place, key, _HINTS.get(outcome.reason, outcome.message)))
            elif isinstance(outcome, Exception):
                raise outcome  # it is not about this memory, so the next ones would fail too
            else:
                counts[outcome] += 1
                if outcome == "kept":
                    words = "It differs from the stored memory, which was kept."
                    report(ImportNote(place, key, words))

        waiting = unanswered


async def _import_some(
    store: ServableStore, memories: list[IncomingMemory], options: ImportOptions
) -> list[Outcome | Exception]:
    """Import memories. Raises Refused if the store could take none of them in time."""
    outcomes = await store.import_batch(memories, replace=options.replace, dry_run=options.dry_run)
    first = outcomes[0]
    if isinstance(first, Refused) and all(map(is_passing, outcomes)):
        raise first

    return outcomes
