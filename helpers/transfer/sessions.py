"""Import of sessions: each turn of a user becomes a memory that is linked to the turn before it.

A turn is what the user wrote, with the closing paragraph of the answer. In the conversations of
BEAM, recall finds 61 % of the evidence among its ten best memories this way, 60 % without answers,
and 43 % with whole ones. Its key is ``PROJECT/SESSION/NUMBER``.

Files of sessions grow, so a memory also knows the line of its turn, and the next import begins
there: no state is kept besides. Nothing outside the folder is read, and secrets are redacted as in
files.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import orjson

from abilities.declarations.refusals import Refused
from abilities.declarations.values import JsonObject, as_object
from abilities.helpers.files.confinement import Policy, open_file
from abilities.helpers.files.deny import DenyList
from abilities.helpers.files.redaction import REACH, find_secrets, redact
from abilities.helpers.store.changes import call_patiently
from abilities.helpers.store.mending import hash_text, to_storable
from abilities.helpers.store.model import StoredMemory
from abilities.helpers.store.protocol import MemoryStore
from abilities.helpers.text import UTF_8
from abilities.helpers.transfer import sources
from abilities.helpers.transfer.dialogs import Format, Message, Parser, recognize
from abilities.helpers.transfer.export_lines import UnusableLine

MAX_TEXT_CHARS = 20_000
"""Characters of what the user wrote, and of the answer; the rest is mostly pasted logs and code."""

CUT = " [cut]"

LINK_TYPE = "follows"
LINK_WEIGHT = 0.5

_MAX_LINE = 8 << 20
"""Bytes of a line; longer ones are results of tools, and would need much memory."""

_HEAD_LINES = 20
"""Lines at the beginning of a file in which its format and its project are looked for."""

_MAX_DEPTH = 6
"""Folders within folders; Codex has three."""

_MAX_PROJECT_CHARS = 80
_KEYS = 1_000

_SESSION_NAME = re.compile(r"(?!agent-).*\.jsonl", re.DOTALL)
EXPORT_NAME = re.compile(r"conversations(?:-\d{1,4})?\.json")
"""The files of an export of ChatGPT or Claude that have its conversations."""

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)

_NO_MESSAGE = Message(is_users=False, text="", time=None)

_POLICY = Policy(DenyList(()), follow_links=False, deny_hardlinks=False, redacts=True)


class SessionFile(NamedTuple):
    """A file, by its names beneath a folder, and its size in bytes.

    It has the lines of one session, or an array of conversations.
    """

    parts: tuple[str, ...]
    size: int
    is_array: bool = False

    @property
    def name(self) -> str:
        """The path from the folder, for people."""
        return to_storable("/".join(self.parts))


class Origin(NamedTuple):
    """Where a memory comes from; ``prefix`` begins its key, and ``uuid`` is empty without one."""

    category: str
    prefix: str
    uuid: str


class _Point(NamedTuple):
    """A point of a file: the turns and lines before it, and its offset in bytes."""

    turns: int = 0
    lines: int = 0
    offset: int = 0


def list_sessions(folder: Path) -> list[SessionFile]:
    """Return the files of sessions in a folder, by name, without those of subagents.

    If the folder is an unpacked export of ChatGPT or Claude, its conversations are returned. Links
    and what cannot be read are among the files, so that an import names them.
    """
    found: list[SessionFile] = []
    for name in os.listdir(folder):
        if EXPORT_NAME.fullmatch(name):
            found.append(SessionFile((name,), (folder / name).lstat().st_size, is_array=True))
    if found:
        return sorted(found)

    def add_unreadable(error: OSError) -> None:
        found.append(SessionFile(Path(os.path.relpath(error.filename, folder)).parts, 0))

    for place, folders, names, descriptor in os.fwalk(folder, onerror=add_unreadable):
        above = Path(place).relative_to(folder).parts
        links = [name for name in folders if (Path(place) / name).is_symlink()]
        sessions = [name for name in names if _SESSION_NAME.fullmatch(name)]

        for name in [*links, *sessions]:
            with suppress(FileNotFoundError):
                size = os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_size
                found.append(SessionFile((*above, name), size))

        if len(above) == _MAX_DEPTH:
            folders.clear()

    return sorted(found)


def _open_beneath(root: int, file: SessionFile) -> int:
    """Return a descriptor of a file beneath a folder's; no link is followed."""
    try:
        opened = open_file(root, file.parts, _POLICY)
    except Refused as refused:
        raise UnusableLine(refused.message) from None

    if isinstance(opened, str):
        raise UnusableLine("The file is gone, or is a folder.")

    return opened[0]


class TurnWriter:
    """Makes a memory of each turn of a session, in order; ``turns`` is the number of the last."""

    def __init__(self, origin: Origin, turns: int = 0) -> None:
        self._origin = origin
        self.turns = turns
        self._place = ""
        self._metadata: JsonObject = {}
        self._question: Message | None = None
        self._answer: Message | None = None

    def add(
        self, message: Message, position: int, place: str, metadata: JsonObject
    ) -> Iterator[sources.SourceItem]:
        """Add the next message; one of the user ends the turn before it, and yields its memory."""
        if not message.is_users:
            self._answer = message
            return

        yield from self.finish(position)
        self.turns += 1
        self._question, self._answer = message, None
        self._place = place
        self._metadata = metadata

    def finish(self, position: int) -> Iterator[sources.SourceItem]:
        """Yield the memory of the last turn, if there is one."""
        question, answer = self._question, self._answer
        if question is None:
            return

        notes: list[str] = []
        content = _prepare(question.text, notes)
        ended_at = question.time
        if answer is not None:
            closing = answer.text.rpartition("\n\n")[2]
            content += f"\n\nAssistant: {_prepare(closing, notes)}"
            ended_at = max(question.time or "", answer.time or "") or None

        links: list[sources.ForeignLink] = []
        if self.turns > 1:
            links.append(sources.ForeignLink(self._name(self.turns - 1), LINK_TYPE, LINK_WEIGHT))
        if self._origin.uuid:
            self._metadata["session"] = self._origin.uuid

        foreign = sources.ForeignMemory(
            self._name(self.turns),
            content,
            importance="low",
            category=self._origin.category,
            links=links,
            metadata=self._metadata,
            created_at=question.time,
            updated_at=ended_at,
            growing=True,
        )
        yield sources.SourceItem(self._place, position, foreign, [*dict.fromkeys(notes)])

    def _name(self, turn: int) -> str:
        return f"{self._origin.prefix}{turn:04}"


class FolderReader:
    """Reads the sessions in files of a folder, beginning with the turns new to a namespace."""

    def __init__(self, folder: Path, files: Sequence[SessionFile], namespace: str) -> None:
        self._folder = folder
        self._files = files
        self._namespace = namespace
        self._sessions = frozenset(Path(file.name).stem for file in files)
        self._remarks = sources.Remarks()

    async def read(self, store: MemoryStore) -> sources.Source:
        """Yield the turns, and each file that cannot be read; of sessions, those not in the store.

        Positions are bytes of all files together.
        """
        done = 0
        root = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for file in self._files:
                items = self._read_array(root, file)
                if not file.is_array:
                    items = self._read_session(root, file, store)

                try:
                    async for item in items:
                        place = f"{file.name}, {item.place}"
                        position = done + min(item.position, file.size)  # it may have grown
                        yield item._replace(place=place, position=position)
                except UnusableLine as error:
                    yield sources.SourceItem(file.name, done, error)
                except OSError as error:
                    words = f"The file cannot be read: {os.strerror(error.errno or 0)}."
                    yield sources.SourceItem(file.name, done, UnusableLine(words))

                done += file.size
                yield sources.SourceItem(file.name, done)
        finally:
            os.close(root)

        for item in sources.list_remarks(self._remarks, done):
            yield item

    async def _read_session(
        self, root: int, file: SessionFile, store: MemoryStore
    ) -> sources.Source:
        open_again = partial(_open_beneath, root, file)
        head = await _read_head(open_again(), file)
        if head is None:
            self._remarks["file", "Nothing in them is a session."] += 1
            return

        parse, origin, is_subagents = head
        if is_subagents:
            self._remarks["session", "Sessions of subagents are not imported."] += 1
            return

        last = await call_patiently(partial(_find_last, store, self._namespace, origin))
        begin = _Point()
        if last is not None:
            begin = await _find_begin(open_again, last, parse, file.size)

        own = {origin.uuid, Path(file.name).stem}
        writer = TurnWriter(origin, begin.turns)
        end = begin.offset
        reading = sources.read_lines(open_again(), start=begin.offset, max_line=_MAX_LINE)
        async with aclosing(reading) as lines:
            async for line in lines:
                number = begin.lines + line.number
                place, end = f"line {number}", line.end
                try:
                    record = sources.parse_object(line)
                    message = None if self._is_copy(record, own) else parse(record)
                except UnusableLine as error:
                    yield sources.SourceItem(place, end, error)
                    continue

                if message is not None:
                    metadata: JsonObject = {"line": number, "byte": line.begin}
                    for item in writer.add(message, end, place, metadata):
                        yield item

        for item in writer.finish(end):
            yield item

    def _is_copy(self, record: JsonObject, own: Set[str]) -> bool:
        """Return whether a line was copied from another session here, which a fork continues."""
        source = as_object(record.get("forkedFrom")) or record
        session = source.get("sessionId")
        return isinstance(session, str) and session not in own and session in self._sessions

    async def _read_array(self, root: int, file: SessionFile) -> sources.Source:
        async with aclosing(sources.read_elements(_open_beneath(root, file))) as elements:
            async for element in elements:
                place = f"conversation {element.number}"
                try:
                    record = sources.parse_object(element)
                    shape = recognize(record)
                    if shape is None or shape.parse_whole is None:
                        raise UnusableLine("It is not a conversation.")

                    uuid = record.get("uuid") or record.get("conversation_id") or record.get("id")
                    messages = list(shape.parse_whole(record))
                except UnusableLine as error:
                    yield sources.SourceItem(place, element.end, error)
                    continue

                writer = TurnWriter(_make_origin(shape.category, uuid, None, str(uuid)))
                for message in messages:
                    for item in writer.add(message, element.end, place, {}):
                        yield item
                for item in writer.finish(element.end):
                    yield item


def _prepare(text: str, notes: list[str]) -> str:
    """Return a text with redacted secrets, cut to `MAX_TEXT_CHARS`; add notes on both."""
    secrets = find_secrets(text[: MAX_TEXT_CHARS + REACH])
    shown = [secret for secret in secrets if secret.start < MAX_TEXT_CHARS]
    end = MAX_TEXT_CHARS
    if shown:
        end = max(end, shown[-1].end)
        notes.append("Secrets in it were replaced by marks.")

    # Redacted first: a secret that is cut in two would no longer look like one.
    kept, _ = redact(text[:end], shown, UTF_8)
    if len(text) <= end:
        return kept

    notes.append(f"A text over {MAX_TEXT_CHARS:,} characters was cut.")
    return kept + CUT


def _make_origin(category: str, uuid: object, folder: object, name: str) -> Origin:
    """Return the origin of a session in a project's folder; ``name`` is used if it has no UUID."""
    is_uuid = isinstance(uuid, str) and _UUID.fullmatch(uuid)
    session = str(uuid) if is_uuid else ""

    # Redacted before it is cut, because a part of a secret would not be recognized.
    path = _prepare(folder, []).rstrip("/\\") if isinstance(folder, str) else ""
    project = _prepare(re.split(r"[/\\]", path)[-1], []).replace("\ufffd", "_")
    plain = "".join(char if char.isprintable() else "_" for char in project)
    project = plain[:_MAX_PROJECT_CHARS].strip()

    # The last group of a UUID is random in every version; the first may be the time.
    prefix = f"{project or category}/{session[-12:] or hash_text(name)}/"
    return Origin(category, prefix, session)


async def _read_head(descriptor: int, file: SessionFile) -> tuple[Parser, Origin, bool] | None:
    """Return the parser and the origin of a file, if recognized, and whether it is a subagent's."""
    shape: Format | None = None
    folder = session = source = None

    async with aclosing(sources.read_lines(descriptor, max_line=_MAX_LINE)) as lines:
        async for line in lines:
            with suppress(UnusableLine):
                record = sources.parse_object(line)
                payload = as_object(record.get("payload")) or {}
                shape = shape or recognize(record)
                folder = folder or record.get("cwd") or payload.get("cwd")
                session = session or record.get("sessionId") or (payload or record).get("id")
                source = source or as_object(payload.get("source"))

            if line.number >= _HEAD_LINES or (shape and folder):
                break

    if shape is None or shape.parse_line is None:
        return None

    found = _UUID.findall(file.parts[-1])
    if found:
        session = found[-1]
    origin = _make_origin(shape.category, session, folder, file.name)
    return shape.parse_line, origin, "subagent" in (source or {})


async def _find_last(store: MemoryStore, namespace: str, origin: Origin) -> StoredMemory | None:
    """Return the last turn of a session that is stored and intact, archived or not."""
    last = after = ""
    while True:
        page = await store.list_memories(namespace, origin.prefix, after, _KEYS, archived=True)
        for line in page:
            after = line.key
            if after.removeprefix(origin.prefix).isdecimal():
                last = after
        if len(page) < _KEYS:
            break

    if not last:
        return None

    (found,) = await store.read(namespace, [last])
    return found if isinstance(found, StoredMemory) else None


async def _find_begin(
    open_again: Callable[[], int],
    last: StoredMemory,
    parse: Parser,
    size: int,
) -> _Point:
    """Return the point where the last stored turn begins, because its answer may have grown.

    If that turn is no longer there, the file was rewritten, and is read from its start.
    """
    metadata: JsonObject = orjson.loads(last.row.metadata)
    number, offset = metadata.get("line"), metadata.get("byte")
    if not isinstance(number, int) or not isinstance(offset, int) or not 0 <= offset < size:
        return _Point()

    async with aclosing(
        sources.read_lines(open_again(), start=offset, max_line=_MAX_LINE)
    ) as lines:
        async for line in lines:
            with suppress(UnusableLine):
                message = parse(sources.parse_object(line)) or _NO_MESSAGE
                if message.is_users and message.time == last.row.created_at:
                    turn = int(last.row.key.rpartition("/")[2])
                    return _Point(turn - 1, number - 1, offset)
            break

    return _Point()
