"""MemoryHelper: the one way to an agent's memory, its note files and its stored memories.

Writing memories: changes made of the arguments of abilities, one or many in one call.
"""

import logging
import re
from calendar import isleap
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, tzinfo
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from pydantic import BaseModel

from abilities.declarations.memory import Direction
from abilities.declarations.refusals import Reason, Refused
from abilities.declarations.values import JsonObject, utc_now
from abilities.helpers.files.confinement import Policy
from abilities.helpers.files.reader import FileReader, ReadingSession
from abilities.helpers.files.roots import Root
from abilities.helpers.memory.notes import read_note_file
from abilities.helpers.memory.recalling import Recalling, RecallResult, SecondRanking
from abilities.helpers.memory.targets import MemoryFiles, Target, parse_target
from abilities.helpers.memory.versions import SHOWN_LINKS, Versions
from abilities.helpers.store.changes import Change, Kind
from abilities.helpers.store.model import StoredMemory
from abilities.helpers.store.protocol import (
    Backlinks,
    MemoryStore,
    Stats,
    WalkResult,
    WriteResult,
)
from abilities.helpers.store.query import MemoryPage, Query
from abilities.helpers.text.pieces import WHOLE, Piece, slice_text
from abilities.helpers.threads.workers import WorkerPool
from abilities.helpers.walk import WalkLimits

if TYPE_CHECKING:
    from abilities.declarations.recall import RecallInput

_NOT_VALUES = frozenset(
    {
        "op",
        "id",
        "key",
        "to",
        "links",
        "remove_links",
        "permanent",
        "purge",
        "version",
        "if_version",
        "atomic",
        "detail",
        "output_format",
    }
)
"""Arguments of a change that are not values of the memory itself."""


Outcome = WriteResult | Exception
"""What became of one of many changes."""


class Write(NamedTuple):
    """One of the changes of a call: its kind, and the arguments as `Writer.change` takes them."""

    kind: Kind
    arguments: JsonObject


class Writer:
    """Changes the memories of one namespace; ``caller`` is who the history says made it."""

    def __init__(self, namespace: str, store: MemoryStore, caller: str) -> None:
        self._namespace = namespace
        self._store = store
        self._caller = caller

    async def change(self, kind: Kind, arguments: JsonObject) -> WriteResult:
        """Store, update, archive, delete, restore or purge a memory. Raises Refused.

        Of ``arguments``, ``id`` and ``key`` name the memory, ``to`` is its new key, ``links`` and
        ``remove_links`` change its links, ``version`` is the one to restore, ``if_version`` the one
        that it must have, and the others are values.
        """
        change = _build_change(kind, arguments, self._caller)
        return await self._store.change(self._namespace, change)

    async def remember(
        self, operations: Sequence[Write | Refused], *, atomic: bool
    ) -> list[Outcome]:
        """Make many changes in one transaction, in their order; return one outcome each.

        In the place of an operation may stand its refusal. One that cannot be made leaves the
        others alone. If they are ``atomic``, all are made or none: then the others are refused as
        rolled_back. Raises Refused if the store cannot answer, and nothing was changed.
        """
        changes: list[Change] = []
        for operation in operations:
            if isinstance(operation, Write):
                changes.append(_build_change(*operation, self._caller))

        is_undone = atomic and len(changes) < len(operations)
        made: Iterator[Outcome] = repeat(Refused("rolled_back"))
        if not is_undone:
            made = iter(await self._store.change_many(self._namespace, changes, atomic=atomic))

        return [next(made) if isinstance(one, Write) else one for one in operations]


def _build_change(kind: Kind, arguments: JsonObject, caller: str) -> Change:
    """Return a change, with the id that it gives a new memory, and its time."""
    values = {name: value for name, value in arguments.items() if name not in _NOT_VALUES}

    # The id and the time are chosen here: a transaction that is tried again must do the same.
    return Change(
        kind,
        utc_now(),
        id=arguments.get("id"),
        key=arguments.get("key"),
        new_id=str(uuid4()),
        fields=values,
        links=_dump(arguments.get("links", ())),
        remove_links=_dump(arguments.get("remove_links", ())),
        new_key=arguments.get("to"),
        if_version=arguments.get("if_version"),
        to_version=arguments.get("version"),
        caller=caller,
    )


def _dump(links: Iterable[BaseModel]) -> list[JsonObject]:
    return [link.model_dump() for link in links]


_log = logging.getLogger("abilities")

_FAULTS_OF_ONE_MEMORY: tuple[Reason, ...] = (
    "memory_not_found",
    "checksum_mismatch",
    "invalid_stored_value",
)
"""Why a single memory cannot be read by a store that can answer."""

_MAX_ALIKE = 50
"""Memories with a word of a key that is not there, among which a key alike is looked for."""

_WORD = re.compile(r"[^\W_]+")

ReadMemories = Callable[[Sequence[str]], Awaitable[list[StoredMemory | Exception]]]


@dataclass(frozen=True, slots=True)
class DayFile:
    """A day's notes, and how large they are in bytes."""

    day: date
    size: int


@dataclass(frozen=True, slots=True)
class MemoryText:
    """A memory that was read, the requested part of it, the size of the whole, and its version."""

    target: Target
    piece: Piece
    modified_at: str
    size_bytes: int
    version: str | int
    is_archived: bool = False

    def to_data(self) -> JsonObject:
        """Return the fields of the record, without the version, the content empty."""
        data = self.target.to_target()
        if self.target.key is None:
            data["filename"] = self.target.filename

        data["content"] = ""
        if self.is_archived:
            data["archived"] = True
        data["modified_at"] = self.modified_at
        if self.piece.encoding.name != "utf-8":
            data["encoding"] = self.piece.encoding.name

        return data


class MemoryHelper:
    """Reads notes and memories by target; keeps, finds and follows stored memories.

    The specifications call it ``Memory_Helper``; this is the same name as Python writes it.

    A helper is bound to one namespace. None of its methods takes another, so that an ability can
    reach the memories of its caller alone. ``caller`` is who the history says made its changes.
    """

    def __init__(
        self,
        namespace: str,
        store: MemoryStore,
        agent: Root,
        policy: Policy,
        workers: WorkerPool,
        files: MemoryFiles,
        zone: tzinfo | None,
        second_ranking: SecondRanking | None = None,
        caller: str = "python",
    ) -> None:
        self._namespace = namespace
        self._store = store
        self._reader = FileReader([agent], policy, workers, absent="memory_file_not_found")
        self._files = files
        self._zone = zone
        self._recalling = Recalling(namespace, store, self._reader, files, second_ranking)

        self.versions = Versions(namespace, store)
        self.writer = Writer(namespace, store, caller)

        # They need nothing but the namespace: `MemoryStore` describes them as read_stats and read.
        self.read_stats: Callable[[], Awaitable[Stats]] = partial(store.read_stats, namespace)
        self.read_memories: ReadMemories = partial(store.read, namespace)

    @property
    def today(self) -> date:
        """The day that 'today' means."""
        return datetime.now(self._zone).date()

    async def read(self, targets: Sequence[object], max_chars: int) -> list[MemoryText | Exception]:
        """Read each target on its own; return one outcome per target, in the same order.

        An outcome is a MemoryText, a Refused (the reasons of `parse_target` and `slice_text`,
        memory_file_not_found, memory_not_found, what `FileReader` or the store refuses), or the
        unexpected exception that this target alone met.
        """
        today = self.today  # once: a call may run past midnight
        parsed: list[Target | Refused] = []
        notes: list[Target] = []
        stored: list[Target] = []

        for sent in targets:
            target = self._try_to_parse(sent, today)
            parsed.append(target)
            if isinstance(target, Refused):
                continue
            if target.key is None:
                notes.append(target)
            else:
                stored.append(target)

        # All notes take one hop to a thread, all stored memories one transaction.
        from_files = iter(await self._read_notes(notes, max_chars))
        from_store = iter(await self._read_stored(stored, max_chars))

        outcomes: list[MemoryText | Exception] = []
        for target in parsed:
            if isinstance(target, Refused):
                outcomes.append(target)
            elif target.key is None:
                outcomes.append(next(from_files))
            else:
                outcomes.append(next(from_store))

        return outcomes

    async def list_days(self, year: int) -> list[tuple[date, DayFile | Exception]]:
        """Return the days of a year that have notes.

        A day whose notes cannot be read is paired with the exception that reading them would raise.
        If that concerns every day, the first one's is raised: Refused, root_unavailable or timeout.
        """
        first = date(year, 1, 1)
        days = [first + timedelta(days=number) for number in range(365 + isleap(year))]

        # Every possible name is tried: only opening a file tells whether a read would be refused.
        def measure(session: ReadingSession, day: date) -> DayFile:
            name = self._files.name_day(day)
            return DayFile(day, read_note_file(session, name, WHOLE, 1).stat.st_size)

        outcomes = await self._reader.map(measure, days)

        listed: list[tuple[date, DayFile | Exception]] = []
        failures: list[Exception] = []
        for day, outcome in zip(days, outcomes, strict=True):
            if isinstance(outcome, Refused) and outcome.reason == "memory_file_not_found":
                continue
            if isinstance(outcome, Exception):
                failures.append(outcome)
            listed.append((day, outcome))

        if len(failures) == len(days):
            raise failures[0]

        return listed

    async def walk(self, key: str, limits: WalkLimits, direction: Direction = "out") -> WalkResult:
        """Walk from a memory along its links, as `MemoryStore.walk` does. Raises Refused."""
        try:
            result = await self._store.walk(self._namespace, key, limits, direction)
        except Refused as error:
            raise await self._suggest_key(key, error) from None

        if result.outcome.cycles:
            _log.debug("a walk met cycles: %d", result.outcome.cycles)

        return result

    async def get(
        self, key: str, links_offset: int, direction: Direction = "out"
    ) -> tuple[StoredMemory, Backlinks | None]:
        """Return one memory with a page of its links, of those that lead to it, or of both.

        This counts as an access. Raises Refused.
        """
        limit = SHOWN_LINKS
        if direction == "in":
            limit = 0

        try:
            stored = await self._store.read_linked(self._namespace, key, links_offset, limit)
        except Refused as error:
            raise await self._suggest_key(key, error) from None

        backlinks: Backlinks | None = None
        if direction != "out":
            backlinks = await self._read_backlinks(key, links_offset)

        self._store.count_access(self._namespace, key, utc_now())
        return stored, backlinks

    async def read_links(self, keys: Iterable[str]) -> dict[str, list[JsonObject]]:
        """Return the best links of memories by their keys, each link as records show it.

        A memory that is missing or damaged is left out. This counts no access. Raises Refused.
        """
        links: dict[str, list[JsonObject]] = {}

        for key in keys:
            try:
                stored = await self._store.read_linked(self._namespace, key, 0, SHOWN_LINKS)
            except Refused as error:
                if error.reason not in _FAULTS_OF_ONE_MEMORY:
                    raise
                continue
            links[key] = [link.to_data() for link in stored.links]

        return links

    async def read_summaries(self, keys: Sequence[str]) -> dict[str, str]:
        """Return the summaries of the memories that can be read, by their keys. Raises Refused."""
        summaries: dict[str, str] = {}
        if not keys:
            return summaries

        for outcome in await self._store.read(self._namespace, keys):
            if isinstance(outcome, StoredMemory):
                summaries[outcome.row.key] = outcome.row.summary

        return summaries

    async def inspect(
        self, key: str, links_offset: int, backlinks_offset: int
    ) -> tuple[StoredMemory, Backlinks]:
        """Return one memory with a page of its links, and a page of the links that lead to it.

        This counts no access. Raises Refused.
        """
        stored = await self._store.read_linked(self._namespace, key, links_offset, SHOWN_LINKS)
        backlinks = await self._read_backlinks(key, backlinks_offset)
        return stored, backlinks

    async def query(self, query: Query) -> MemoryPage:
        """Return a page of memories and the number of matches. Raises Refused.

        A tag may be given twice.
        """
        tags = tuple(dict.fromkeys(query.tags))
        return await self._store.query(self._namespace, replace(query, tags=tags))

    async def recall(
        self, arguments: "RecallInput", starts: Sequence[int], room: int
    ) -> RecallResult:
        """Return what answers questions, as `Recalling.run` does. Raises Refused."""
        return await self._recalling.run(arguments, self.today, starts, room)

    async def change(self, kind: Kind, arguments: JsonObject) -> WriteResult:
        """Store, update, archive or delete a memory. Raises Refused.

        ``arguments`` are those of an ability: ``id`` and ``key`` name the memory, ``links`` and
        ``remove_links`` change its links, and the others its values.
        """
        return await self.writer.change(kind, arguments)

    async def _read_backlinks(self, key: str, offset: int) -> Backlinks:
        return await self._store.read_backlinks(self._namespace, key, offset, SHOWN_LINKS)

    async def _read_notes(
        self, targets: Sequence[Target], max_chars: int
    ) -> list[MemoryText | Exception]:
        def read(session: ReadingSession, target: Target) -> MemoryText:
            return _read_note(session, target, max_chars)

        return await self._reader.map(read, targets)

    async def _read_stored(
        self, targets: Sequence[Target], max_chars: int
    ) -> list[MemoryText | Exception]:
        if not targets:
            return []

        keys = [target.key or "" for target in targets]
        try:
            memories = await self._store.read(self._namespace, keys)
        except Refused as error:
            # The store cannot answer; notes of the same call still can.
            return [error] * len(targets)

        outcomes: list[MemoryText | Exception] = []
        for target, memory in zip(targets, memories, strict=True):
            if isinstance(memory, Refused):
                outcomes.append(await self._suggest_key(target.key or "", memory))
            else:
                outcomes.append(_slice_memory(target, memory, max_chars))

        return outcomes

    async def _suggest_key(self, key: str, refusal: Refused) -> Refused:
        """Return a refusal that names the key that was probably meant, if one is alike.

        It has the same letters and digits, or these at its end.
        """
        letters = _keep_letters(key)
        if refusal.reason != "memory_not_found" or not letters:
            return refusal

        # The index of words finds keys by a part, however many memories there are.
        longest = max(_WORD.findall(key.casefold()), key=len)
        query = Query(search=(longest,), archived=True, limit=_MAX_ALIKE)
        try:
            page = await self._store.query(self._namespace, query)
        except Refused:
            return refusal

        found = [memory.row.key for memory in page.memories if isinstance(memory, StoredMemory)]
        alike = [other for other in found if _keep_letters(other).endswith(letters)]
        if not alike:
            return refusal

        meant = min(alike, key=lambda other: (len(other), other))
        return Refused(refusal.reason, refusal.field, did_you_mean=meant)

    def _try_to_parse(self, target: object, today: date) -> Target | Refused:
        try:
            return parse_target(target, self._files, today)
        except Refused as error:
            return error


def _read_note(session: ReadingSession, target: Target, max_chars: int) -> MemoryText:
    """Read the notes of a target. Raises Refused."""
    file = read_note_file(session, target.filename, target.range, max_chars)
    return MemoryText(target, file.piece, file.modified_at, file.stat.st_size, file.version)


def _keep_letters(key: str) -> str:
    """Return the letters and digits of a key, which is how people remember it."""
    return "".join(_WORD.findall(key.casefold()))


def _slice_memory(
    target: Target, memory: StoredMemory | Exception, max_chars: int
) -> MemoryText | Exception:
    if isinstance(memory, Exception):
        return memory

    try:
        piece = slice_text(memory.row.content, target.range, max_chars)
    except Refused as error:
        return error

    row, size = memory.row, len(memory.row.content.encode())
    return MemoryText(target, piece, row.updated_at, size, row.version, bool(row.archived))
