"""MemoryHelper: the only access to an agent's memory, its note files and its stored memories.

A `Writer` changes stored memories, one or many in one call, by the arguments of abilities.
"""

import logging
import re
from calendar import isleap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
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
from abilities.helpers.files.files import Files
from abilities.helpers.files.reader import ReadingSession, Root
from abilities.helpers.memory.namespaces import NOT_THERE, NamespaceReader, find_namespace
from abilities.helpers.memory.recalling import (
    RecallResult,
    build_filters,
    compare_contents,
    find_similar,
    find_within_days,
)
from abilities.helpers.memory.records import describe_replacement, shape_remembered
from abilities.helpers.memory.targets import (
    MemoryFiles,
    NotePart,
    Target,
    parse_target,
    read_note_file,
    read_note_parts,
)
from abilities.helpers.search.recall import RecallRequest
from abilities.helpers.search.terms import split_question
from abilities.helpers.store.changes import Change, Kind
from abilities.helpers.store.history import MemoryName
from abilities.helpers.store.model import Query, StoredMemory
from abilities.helpers.store.protocol import (
    AboutStore,
    Backlinks,
    MemoryStore,
    WalkResult,
    WriteResult,
)
from abilities.helpers.text import WHOLE, Piece, slice_text
from abilities.helpers.threads.workers import WorkerPool
from abilities.helpers.walk import WalkLimits

if TYPE_CHECKING:
    from abilities.declarations.recall import RecallInput  # its many models are seldom needed
    from abilities.helpers.memory.meaning import VectorMeaning

_NOT_VALUES = frozenset(
    (
        *("op", "id", "key", "to", "new_key", "links", "remove_links", "permanent", "purge"),
        *("version", "if_version", "atomic", "detail", "output_format"),
    )
)
"""Arguments of a change that are not values of the memory itself."""


_FAULTS_OF_ONE_MEMORY: tuple[Reason, ...] = (
    "memory_not_found",
    "checksum_mismatch",
    "invalid_stored_value",
)
"""Reasons of a store that works but cannot read one memory."""

SHOWN_LINKS = 20
"""Links on a page of a memory's links or of its backlinks."""

_MAX_ALIKE = 50
"""Memories with a word of a missing key that are searched for a similar key."""

_WORD = re.compile(r"[^\W_]+")

_log = logging.getLogger("abilities")

Outcome = WriteResult | Exception
"""The outcome of one of many changes."""


class Write(NamedTuple):
    """One of the changes of a call: its kind, and the arguments of `Writer.change`."""

    kind: Kind
    arguments: JsonObject


class Writer:
    """Changes the memories of one namespace; the history names ``caller`` as their author.

    A refusal says if the memory is in one of the ``others``, which the caller only reads.
    """

    def __init__(
        self, namespace: str, store: MemoryStore, caller: str, others: Sequence[str] = ()
    ) -> None:
        self._namespace = namespace
        self._store = store
        self._caller = caller
        self._others = others

    async def change(self, kind: Kind, arguments: JsonObject) -> WriteResult:
        """Store, update, archive, delete, restore or purge a memory. Raises Refused.

        Of ``arguments``, ``id`` and ``key`` name the memory, ``to`` is its new key, ``new_key`` is
        that of the memory that replaces it, ``links`` and ``remove_links`` change its links,
        ``version`` is the version to restore, ``if_version`` is the version that the memory must
        have, and the others are values.
        """
        change = _build_change(kind, arguments, self._caller)
        try:
            return await self._store.change(self._namespace, change)
        except Refused as error:
            raise await self._explain(error, change) from None

    async def remember(
        self, operations: Sequence[Write | Refused], *, atomic: bool
    ) -> list[Outcome]:
        """Make many changes in one transaction, in their order; return one outcome each.

        An operation may already be a refusal, which is its outcome. A change that fails does not
        affect the others, unless they are ``atomic``: then none is made, and the others are refused
        as rolled_back. Raises Refused if the store cannot answer; then nothing was changed.
        """
        changes: list[Change] = []
        for operation in operations:
            if isinstance(operation, Write):
                changes.append(_build_change(*operation, self._caller))

        is_undone = atomic and len(changes) < len(operations)
        made: Iterator[Outcome] = repeat(Refused("rolled_back"))
        if not is_undone:
            outcomes: list[Outcome] = []
            results = await self._store.change_many(self._namespace, changes, atomic=atomic)
            for change, result in zip(changes, results, strict=True):
                if isinstance(result, Refused):
                    result = await self._explain(result, change)
                outcomes.append(result)
            made = iter(outcomes)

        return [next(made) if isinstance(one, Write) else one for one in operations]

    async def _explain(self, refusal: Refused, change: Change) -> Refused:
        """Return a refusal that names the other namespace that has the memory, if one has."""
        if refusal.reason not in NOT_THERE:
            return refusal

        name = MemoryName(id=change.id) if change.id else MemoryName(key=change.key)
        namespace = await find_namespace(self._store, self._others, name)
        if namespace is None:
            return refusal

        field = "id" if change.id else "key"
        return Refused(refusal.reason, field, expected={"only_read_from": namespace})


def _build_change(kind: Kind, arguments: JsonObject, caller: str) -> Change:
    """Return a change with its time and the id for a new memory."""
    values = {name: value for name, value in arguments.items() if name not in _NOT_VALUES}

    # The id and the time are set here, because a transaction must do the same if it is retried.
    return Change(
        kind,
        utc_now(),
        id=arguments.get("id"),
        key=arguments.get("key"),
        new_id=str(uuid4()),
        fields=values,
        links=_dump(arguments.get("links", ())),
        remove_links=_dump(arguments.get("remove_links", ())),
        new_key=arguments.get("to", arguments.get("new_key")),
        if_version=arguments.get("if_version"),
        to_version=arguments.get("version"),
        caller=caller,
    )


def _dump(links: Iterable[BaseModel]) -> list[JsonObject]:
    return [link.model_dump() for link in links]


@dataclass(frozen=True, slots=True)
class MemoryText:
    """The requested part of a memory that was read, with the size and version of the whole.

    ``replacement`` is its `describe_replacement`.
    """

    target: Target
    piece: Piece
    modified_at: str
    size_bytes: int
    version: str | int
    replacement: JsonObject = field(default_factory=JsonObject)

    def to_data(self) -> JsonObject:
        """Return the fields of the record without the version; the content is empty."""
        data = self.target.to_target()
        if self.target.key is None:
            data["filename"] = self.target.filename

        data["content"] = ""
        data |= self.replacement
        data["modified_at"] = self.modified_at
        if self.piece.encoding.name != "utf-8":
            data["encoding"] = self.piece.encoding.name

        return data


class MemoryHelper(Writer):
    """Reads notes and memories by target; stores, finds and links stored memories.

    The specifications call it ``Memory_Helper``.

    A helper is bound to one namespace, and may read ``others`` too. None of its methods takes
    another, so an ability can only reach the memories of its caller. The history names ``caller``
    as the author of its changes.
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
        meaning: "VectorMeaning | None" = None,
        caller: str = "python",
        others: Sequence[str] = (),
    ) -> None:
        super().__init__(namespace, store, caller, others)
        self.reader = NamespaceReader(store, namespace, others)
        self._notes = Files([agent], policy, workers, absent="memory_file_not_found")
        self._files = files
        self._zone = zone
        self._meaning = meaning

        # These need only the namespace.
        self.read_stats = partial(store.read_stats, namespace)
        self.read_memories = partial(store.read, namespace)
        self.query = self.reader.query
        self.compare_contents = partial(compare_contents, store, namespace)
        self.find_similar = partial(find_similar, store, namespace)

    @property
    def today(self) -> date:
        """The current date in the time zone of the settings."""
        return datetime.now(self._zone).date()

    async def read(self, targets: Sequence[object], max_chars: int) -> list[MemoryText | Exception]:
        """Read each target on its own; return one outcome per target, in the same order.

        An outcome is a MemoryText, a Refused (the reasons of `parse_target` and `slice_text`,
        memory_file_not_found, memory_not_found, those of `Files` and of the store), or an
        unexpected exception of this target alone.
        """
        today = self.today  # once, because a call may run past midnight
        outcomes: dict[int, MemoryText | Exception] = {}
        notes: dict[int, Target] = {}
        stored: dict[int, Target] = {}

        for place, sent in enumerate(targets):
            try:
                target = parse_target(sent, self._files, today)
            except Refused as error:
                outcomes[place] = error
                continue

            named = notes if target.key is None else stored
            named[place] = target

        def read_note(session: ReadingSession, note: Target) -> MemoryText:
            file = read_note_file(session, note.filename, note.range, max_chars)
            return MemoryText(note, file.piece, file.modified_at, file.stat.st_size, file.version)

        # All notes take one hop to a thread, all stored memories one transaction.
        from_files = await self._notes.map(read_note, list(notes.values()))
        from_store = await self._read_stored(list(stored.values()), max_chars)
        outcomes.update(zip(notes, from_files, strict=True))
        outcomes.update(zip(stored, from_store, strict=True))
        return [outcomes[place] for place in range(len(targets))]

    async def list_days(self, year: int) -> list[tuple[date, int | Exception]]:
        """Return the days of a year that have notes, each with their size in bytes.

        A day whose notes cannot be read is paired with the exception that reading them would raise.
        If no day can be read, that of the first is raised: Refused, root_unavailable or timeout.
        """
        first = date(year, 1, 1)
        days = [first + timedelta(days=number) for number in range(365 + isleap(year))]

        # Every possible name is tried, because only opening a file shows whether it can be read.
        def measure(session: ReadingSession, day: date) -> int:
            return read_note_file(session, self._files.name_day(day), WHOLE, 1).stat.st_size

        outcomes = await self._notes.map(measure, days)

        listed: list[tuple[date, int | Exception]] = []
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
            result = await self.reader.walk(key, limits, direction)
        except Refused as error:
            raise await self._suggest_key(key, error) from None

        if result.outcome.cycles:
            _log.debug("a walk met cycles: %d", result.outcome.cycles)

        return result

    async def get(
        self, key: str, links_offset: int, direction: Direction = "out"
    ) -> tuple[StoredMemory, Backlinks | None]:
        """Return one memory with a page of its links, of its backlinks, or of both.

        This counts as an access in the own namespace. Raises Refused.
        """
        limit = SHOWN_LINKS
        if direction == "in":
            limit = 0

        try:
            stored = await self.reader.read_linked(key, links_offset, limit)
        except Refused as error:
            raise await self._suggest_key(key, error) from None

        backlinks: Backlinks | None = None
        if direction != "out":
            namespace = stored.row.namespace
            backlinks = await self._store.read_backlinks(namespace, key, links_offset, SHOWN_LINKS)

        if not stored.origin:
            self._store.count_access(self._namespace, key, utc_now())
        return stored, backlinks

    async def read_links(self, keys: Iterable[str]) -> dict[str, list[JsonObject]]:
        """Return the best links of memories by their keys, each link as in a record.

        Missing and damaged memories are left out. This does not count as an access. Raises Refused.
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
        """Return the summaries of the readable memories by their keys. Raises Refused."""
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
        """Return one memory with a page of its links, and a page of its backlinks.

        This does not count as an access. Raises Refused.
        """
        stored = await self._store.read_linked(self._namespace, key, links_offset, SHOWN_LINKS)
        backlinks = await self._store.read_backlinks(
            self._namespace, key, backlinks_offset, SHOWN_LINKS
        )
        return stored, backlinks

    async def recall(
        self,
        arguments: "RecallInput",
        starts: Sequence[int],
        room: int,
        explained: str | None = None,
    ) -> RecallResult:
        """Return the answers to the questions of a call.

        The rankings take turns to load memories, each from its place in ``starts`` on, until the
        contents exceed ``room`` bytes. They can explain the memory with the key ``explained``.
        Raises Refused.
        """
        today = self.today
        language = await self._store.read_language()
        since: date | None = None
        if arguments.within_days is not None:
            since = today - timedelta(days=arguments.within_days)

        filters = build_filters(arguments, since)
        parts: list[NotePart] = []
        if arguments.notes and filters.reach_notes:
            parts = await read_note_parts(self._notes, self._files, today, since, language)

        at_least = None if arguments.at_least is None else round(arguments.at_least * 1_000)
        request = RecallRequest(
            tuple(split_question(query, language) for query in arguments.queries),
            filters,
            arguments.hops,
            tuple(parts),
            at_least,
            explained=explained,
            language=language,
        )
        requests = self.reader.split_request(request)
        if self._meaning is not None:
            for namespace, own in requests.items():
                compared = parts if namespace == self._namespace else []
                found = await self._meaning.compare(
                    self._store, namespace, arguments.queries, compared
                )
                requests[namespace] = replace(own, similarities=found)

        recalled = await self.reader.recall(requests, room, starts)
        by_name = {part.name: part for part in parts}
        days: list[int | None] = []
        if since is None and language.name == "english":
            days = [find_within_days(query, today) for query in arguments.queries]

        is_search = any(request.questions)
        rankings, memories, others = recalled
        return RecallResult(rankings, memories, by_name, language, is_search, (), days, others)

    async def find_about(self, paths: Sequence[str]) -> dict[str, list[JsonObject]]:
        """Return what is remembered about files, by their paths, with the files that have any.

        A store that fails has nothing, because files are read without it too.
        """
        if not isinstance(self._store, AboutStore):
            return {}

        try:
            found = await self._store.find_about(self._namespace, paths)
        except Exception:
            _log.exception("the memories about files could not be read")
            return {}

        shaped = {path: shape_remembered(memories) for path, memories in found.items()}
        return {path: records for path, records in shaped.items() if records}

    async def explain(self, key: str, arguments: "RecallInput") -> JsonObject:
        """Return why a memory is in the answer to a question or not, as `explain_place` does.

        A memory that was deleted has the reason "deleted". Raises Refused: memory_not_found with a
        similar key, and any refusal of the store.
        """
        # It needs the models of recall, which few calls do.
        from abilities.helpers.memory.recall_answers import explain_place

        (memory,) = await self.read_memories([key])
        if isinstance(memory, Refused) and memory.reason == "memory_not_found":
            with suppress(Refused):  # the store may keep no history
                if await self.reader.is_deleted(MemoryName(key=key)):
                    return {"key": key, "question": arguments.queries[0], "reason": "deleted"}
            raise await self._suggest_key(key, memory)

        result = await self.recall(arguments, [0], -1, key)
        return explain_place(key, memory, arguments, result)

    async def _read_stored(
        self, targets: Sequence[Target], max_chars: int
    ) -> list[MemoryText | Exception]:
        if not targets:
            return []

        try:
            memories = await self._read_targets(targets)
        except Refused as error:
            # The store cannot answer, but the notes of the call may be readable.
            return [error] * len(targets)

        outcomes: list[MemoryText | Exception] = []
        for target, memory in zip(targets, memories, strict=True):
            if isinstance(memory, Refused):
                outcomes.append(await self._suggest_key(target.key or "", memory))
                continue
            if isinstance(memory, Exception):
                outcomes.append(memory)
                continue

            row = memory.row
            try:
                piece = slice_text(row.content, target.range, max_chars)
            except Refused as error:
                outcomes.append(error)
                continue

            target = replace(target, origin=memory.origin)
            size, replacement = len(row.content.encode()), describe_replacement(memory)
            text = MemoryText(target, piece, row.updated_at, size, row.version, replacement)
            outcomes.append(text)

        return outcomes

    async def _read_targets(self, targets: Sequence[Target]) -> list[StoredMemory | Exception]:
        """Return the memory of each target; of those with an origin, from this namespace alone."""
        by_origin: dict[str, dict[int, str]] = {}
        for place, target in enumerate(targets):
            by_origin.setdefault(target.origin, {})[place] = target.key or ""

        memories: dict[int, StoredMemory | Exception] = {}
        for origin, keys in by_origin.items():
            if origin:
                found = await self.reader.read_from(origin, list(keys.values()))
            else:
                found = await self.reader.read(list(keys.values()))
            memories.update(zip(keys, found, strict=True))

        return [memories[place] for place in range(len(targets))]

    async def _suggest_key(self, key: str, refusal: Refused) -> Refused:
        """Return a refusal that suggests a similar key, if there is one.

        A similar key has the same letters and digits, or ends with them: "plan" suggests
        "project/plan", for example.
        """
        letters = _keep_letters(key)
        if refusal.reason != "memory_not_found" or not letters:
            return refusal

        # The index of words finds keys by a part, also among many memories.
        longest = max(_WORD.findall(key.casefold()), key=len)
        query = Query(search=(longest,), archived=True, limit=_MAX_ALIKE)
        try:
            page = await self.query(query)
        except Refused:
            return refusal

        found = [memory.row.key for memory in page.memories if isinstance(memory, StoredMemory)]
        alike = [other for other in found if _keep_letters(other).endswith(letters)]
        if not alike:
            return refusal

        meant = min(alike, key=lambda other: (len(other), other))
        return Refused(refusal.reason, refusal.field, did_you_mean=meant)


def _keep_letters(key: str) -> str:
    """Return the letters and digits of a key, which is how people remember it.

    >>> _keep_letters("Project/Plan-2")
    'projectplan2'
    """
    return "".join(_WORD.findall(key.casefold()))
