"""MemoryHelper: the one way to an agent's memory, its note files and its stored memories."""

from calendar import isleap
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo
from typing import Any
from uuid import uuid4

from abilities.declarations.faults import Reason, Refused
from abilities.declarations.values import as_object, utc_now
from abilities.helpers.files.confinement import Policy, Root
from abilities.helpers.files.paths import PathRequest
from abilities.helpers.files.reader import FileReader, FileText, ReadingSession
from abilities.helpers.memory.targets import (
    _FIELDS,
    MemoryFiles,
    Target,
    _check_key,
    _parse_day,
    _parse_resume,
    _unwrapped,
)
from abilities.helpers.stores.changes import Change, Kind
from abilities.helpers.stores.model import StoredMemory
from abilities.helpers.stores.protocol import (
    Backlinks,
    MemoryPage,
    MemoryStore,
    Query,
    Stats,
    WalkResult,
    WriteResult,
)
from abilities.helpers.text.pieces import Piece, slice_text
from abilities.helpers.text.ranges import WHOLE, Range
from abilities.helpers.walk import WalkLimits
from abilities.helpers.workers import WorkerPool

SHOWN_LINKS = 20

_OF_MEMORY: dict[Reason, Reason] = {
    "not_found": "memory_file_not_found",
    "binary_file": "undecodable",
}


@dataclass(frozen=True, slots=True)
class DayFile:
    """A day's notes, and how large they are in bytes."""

    day: date
    size: int


@dataclass(frozen=True, slots=True)
class MemoryText:
    """A memory that was read, and the part of it that was asked for."""

    target: Target
    piece: Piece
    modified_at: str


class MemoryHelper:
    """Reads memories by target, and keeps, finds and follows stored ones, all in one namespace."""

    def __init__(
        self,
        namespace: str,
        store: MemoryStore,
        agent: Root,
        policy: Policy,
        workers: WorkerPool,
        files: MemoryFiles,
        zone: tzinfo | None,
    ) -> None:
        self._namespace = namespace
        self._store = store
        self._reader = FileReader([agent], policy, workers)
        self._workers = workers
        self._files = files
        self._zone = zone

    async def read(self, targets: Sequence[object], max_chars: int) -> list[MemoryText | Exception]:
        """Read each target on its own: one outcome a target, in the order asked.

        An outcome is a MemoryText, a Refused (invalid_target, invalid_date, invalid_key, invalid_range,
        invalid_parameter, changed, memory_file_not_found, memory_not_found, undecodable, what `FileReader`
        or the store refuses), or the unexpected exception that this target alone met.
        """
        today = self.today
        parsed = [self._attempt(target, today) for target in targets]
        files = [target for target in parsed if isinstance(target, Target) and target.key is None]
        stored = [
            target for target in parsed if isinstance(target, Target) and target.key is not None
        ]

        def one(session: ReadingSession, target: Target) -> MemoryText:
            return _read_file(session, target, max_chars)

        from_files = iter(await self._workers.map(self._reader.open_session, one, files))
        from_store = iter(await self._read_stored(stored, max_chars))
        return [
            target
            if isinstance(target, Exception)
            else next(from_files if target.key is None else from_store)
            for target in parsed
        ]

    @property
    def today(self) -> date:
        """The day that 'today' means."""
        return datetime.now(self._zone).date()

    async def list_days(self, year: int) -> list[tuple[date, DayFile | Exception]]:
        """The days of a year that have notes; an exception is the one that reading that day's would meet.

        Raises Refused where that is the same for every day: root_unavailable, timeout.
        """
        first = date(year, 1, 1)
        days = [first + timedelta(days=n) for n in range(365 + isleap(year))]

        def one(session: ReadingSession, day: date) -> DayFile:
            name = day.strftime(self._files.short_term)
            return DayFile(day, _opened(session, name, WHOLE, 1).stat.st_size)

        found = await self._workers.map(self._reader.open_session, one, days)
        there = [
            (day, file)
            for day, file in zip(days, found, strict=True)
            if str(file) != "memory_file_not_found"
        ]
        errors = [file for _, file in there if isinstance(file, Exception)]
        if len(errors) == len(days):
            raise errors[0]
        return there

    async def inspect(
        self, key: str, links_offset: int, backlinks_offset: int
    ) -> tuple[StoredMemory, Backlinks]:
        """One memory with a page of its links and of those that lead to it; counts no access. Raises Refused."""
        found = await self._store.read_linked(self._namespace, key, links_offset, SHOWN_LINKS)
        return found, await self._store.read_backlinks(
            self._namespace, key, backlinks_offset, SHOWN_LINKS
        )

    async def change(self, kind: Kind, fields: dict[str, Any]) -> WriteResult:
        """Store, update, archive or delete a memory. Raises Refused.

        ``fields`` are an ability's arguments as given: ``id`` and ``key`` name the memory, ``links`` and
        ``remove_links`` change its links, the rest its values.
        """
        values = {
            n: v
            for n, v in fields.items()
            if n not in ("id", "key", "links", "remove_links", "permanent")
        }
        change = Change(
            kind,
            utc_now(),
            id=fields.get("id"),
            key=fields.get("key"),
            new_id=str(uuid4()),
            fields=values,
            links=[link.model_dump() for link in fields.get("links", ())],
            remove_links=[link.model_dump() for link in fields.get("remove_links", ())],
        )
        return await self._store.change(self._namespace, change)

    async def get(self, key: str, links_offset: int) -> StoredMemory:
        """One memory with a page of its links; counts as an access. Raises Refused."""
        found = await self._store.read_linked(self._namespace, key, links_offset, SHOWN_LINKS)
        self._store.count_access(self._namespace, key, utc_now())
        return found

    async def walk(self, key: str, limits: WalkLimits) -> WalkResult:
        """A memory and what it leads to. Raises Refused when the memory itself cannot be read."""
        return await self._store.walk(self._namespace, key, limits)

    async def query(self, query: Query) -> MemoryPage:
        """A page of memories. Raises Refused."""
        return await self._store.query(self._namespace, query)

    async def read_stats(self) -> Stats:
        """Return the statistics of all memories. Raises Refused."""
        return await self._store.read_stats(self._namespace)

    async def _read_stored(
        self, targets: Sequence[Target], max_chars: int
    ) -> list[MemoryText | Exception]:
        if not targets:
            return []
        try:
            found = await self._store.read(
                self._namespace, [target.key or "" for target in targets]
            )
        except Refused as error:
            return [error] * len(targets)
        return [
            _stored_text(t, memory, max_chars) for t, memory in zip(targets, found, strict=True)
        ]

    def _attempt(self, asked: object, today: date) -> Target | Exception:
        try:
            return self._parse(asked, today)
        except Refused as error:
            return error

    def _parse(self, asked: object, today: date) -> Target:
        target = as_object(_unwrapped(asked)) or {}
        kind = target.get("type")
        if not isinstance(kind, str) or kind not in _FIELDS:
            raise Refused("invalid_target")
        given = {name: value for name, value in target.items() if value is not None}
        if "date" in given and kind != "short_term":
            raise Refused("invalid_date")
        if given.keys() - _FIELDS[kind] - {"resume"}:
            raise Refused("invalid_parameter")
        resume = given.get("resume")
        if kind == "stored":
            key = _check_key(given.get("key"))
            return Target(kind, _parse_resume(resume), key=key, resume=resume)
        part = _parse_resume(resume)
        if kind == "long_term":
            return Target(kind, part, self._files.long_term, resume=resume)
        day = _parse_day(given.get("date", "today"), today)
        return Target(kind, part, day.strftime(self._files.short_term), day, resume=resume)


def _read_file(session: ReadingSession, target: Target, max_chars: int) -> MemoryText:
    file = _opened(session, target.filename, target.range, max_chars)
    if file.piece.raw is not None or file.piece.encoding.unit != 1:
        raise Refused("undecodable")
    return MemoryText(target, file.piece, file.modified_at)


def _opened(session: ReadingSession, name: str, part: Range, max_chars: int) -> FileText:
    """A file of notes. Raises Refused."""
    try:
        return session.read(
            PathRequest(name, name, name, tuple(name.split("/")), part),
            max_chars,
            text_offsets=True,
        )
    except Refused as error:
        raise Refused(_OF_MEMORY.get(error.reason, error.reason)) from None


def _stored_text(
    target: Target, memory: StoredMemory | Exception, max_chars: int
) -> MemoryText | Exception:
    if isinstance(memory, Exception):
        return memory
    try:
        return MemoryText(
            target, slice_text(memory.row.content, target.range, max_chars), memory.row.updated_at
        )
    except Refused as error:
        return error
