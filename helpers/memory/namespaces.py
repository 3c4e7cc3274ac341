"""Several namespaces read as one: a caller's own, and others that it may only read.

A `NamespaceReader` has no method that writes. By key, the own namespace comes first, and then the
others in their order. What comes from another one has its name as ``origin``. It also reads the
past of memories: their histories, their versions, and the changes of a namespace.
"""

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar

from abilities.declarations.memory import Direction
from abilities.declarations.refusals import Reason, Refused
from abilities.helpers.search.ranking import Confidence, Entries, Ranking, round_score
from abilities.helpers.search.recall import RecallRequest
from abilities.helpers.store.history import ChangePage, MemoryChange, MemoryHistory, MemoryName
from abilities.helpers.store.model import (
    DamagedMemory,
    MemoryLine,
    MemoryPage,
    Position,
    Query,
    StoredMemory,
)
from abilities.helpers.store.protocol import HistoryStore, MemoryStore, Recalled, WalkResult
from abilities.helpers.store.recalling import FIRST_BATCH, count_bytes, take_turns
from abilities.helpers.walk import WalkLimits

_NO_ROOM = -1
"""The room of a recall that only ranks."""

_CHANGES_AT_ONCE = 500
"""Changes that a filtered page of a timeline reads from the store at once."""

_MAX_CHANGES = 10 * _CHANGES_AT_ONCE
"""Changes that such a page reads in all; then it ends, however few were found."""

NOT_THERE: tuple[Reason, ...] = ("memory_not_found", "id_not_found")
"""Reasons of a store that has no memory of a name."""

T = TypeVar("T")

_CONFIDENCES: tuple[Confidence, ...] = ("none", "weak", "strong")
"""In rising order."""


class NamespaceReader:
    """Reads a caller's own namespace and others, as `MemoryStore` reads one.

    If the store keeps no history, the methods that need one raise Refused("version_not_found").
    """

    def __init__(self, store: MemoryStore, own: str, others: Sequence[str]) -> None:
        self._store = store
        self._own = own
        self._others = others
        self._namespaces = (own, *others)

    async def read(self, keys: Sequence[str]) -> list[StoredMemory | Exception]:
        """Return one item per key, from the first namespace that has the memory."""
        outcomes = await self._store.read(self._own, keys)

        for other in self._others:
            missing = [place for place, one in enumerate(outcomes) if _is_missing(one)]
            if not missing:
                break

            found = await self._store.read(other, [keys[place] for place in missing])
            for place, outcome in zip(missing, found, strict=True):
                outcomes[place] = self._mark(outcome, other)

        return outcomes

    async def read_linked(self, key: str, offset: int, limit: int) -> StoredMemory:
        """Return one memory with some of its links, from the first namespace that has it."""

        async def read(namespace: str) -> StoredMemory:
            stored = await self._store.read_linked(namespace, key, offset, limit)
            return stored._replace(origin=self._name(namespace))

        return await self._find_first(read)

    async def walk(self, key: str, limits: WalkLimits, direction: Direction) -> WalkResult:
        """Walk from a memory, within the first namespace that has it."""

        async def walk(namespace: str) -> WalkResult:
            result = await self._store.walk(namespace, key, limits, direction)
            memories = tuple(self._mark(memory, namespace) for memory in result.memories)
            return result._replace(memories=memories)

        return await self._find_first(walk)

    async def list_memories(
        self, prefix: str, after: str, limit: int, *, archived: bool
    ) -> list[MemoryLine | DamagedMemory]:
        """Return memories by key; each key once, from the first namespace that lists it."""
        lines: dict[str, MemoryLine | DamagedMemory] = {}

        waiting: list[Awaitable[list[MemoryLine | DamagedMemory]]] = []
        for namespace in self._namespaces:
            waiting.append(
                self._store.list_memories(namespace, prefix, after, limit, archived=archived)
            )

        pages = await asyncio.gather(*waiting)
        for namespace, page in zip(self._namespaces, pages, strict=True):
            for line in page:
                lines.setdefault(line.key, line._replace(origin=self._name(namespace)))

        return [lines[key] for key in sorted(lines)[:limit]]

    async def query(self, query: Query) -> MemoryPage:
        """Return a page of the matching memories of all namespaces, and their exact number.

        Memories that are equal in value and id are in the order of their namespaces. Tags may
        repeat.
        """
        query = replace(query, tags=tuple(dict.fromkeys(query.tags)))
        if not self._others:
            return await self._store.query(self._own, query)

        starts = await self._split_offset(query)
        pages = await self._query_each(query, starts, query.limit)

        found: list[tuple[Position, StoredMemory | Exception]] = []
        for place, (namespace, page) in enumerate(zip(self._namespaces, pages, strict=True)):
            for position, memory in zip(page.positions, page.memories, strict=True):
                position = position._replace(place=place)
                found.append((position, self._mark(memory, namespace)))

        found.sort(key=lambda one: one[0][:2], reverse=query.descending)
        shown = found[: query.limit]
        return MemoryPage(
            tuple(memory for _, memory in shown),
            sum(page.total for page in pages),
            tuple(position for position, _ in shown),
            len(found) > len(shown) or any(page.has_more for page in pages),
        )

    def split_request(self, request: RecallRequest) -> dict[str, RecallRequest]:
        """Return the request to each namespace, for an equal part of the work.

        Notes are ranked with the own one.
        """
        request = replace(request, namespaces=len(self._namespaces))
        requests = dict.fromkeys(self._namespaces, replace(request, notes=()))
        requests[self._own] = request
        return requests

    async def recall(
        self, requests: Mapping[str, RecallRequest], room: int, starts: Sequence[int]
    ) -> Recalled:
        """Rank each namespace by itself and merge the rankings; load as `MemoryStore.recall` does.

        The requests are those of `split_request`.
        """
        if not self._others:
            return await self._store.recall(self._own, requests[self._own], room, starts)

        origins = list(map(self._name, requests))
        nothing = [0] * len(starts)
        answers = await asyncio.gather(
            *(self._store.recall(name, one, _NO_ROOM, nothing) for name, one in requests.items())
        )

        at_least = requests[self._own].at_least or 0
        rankings: list[Ranking] = []
        for of_question in zip(*(answer.rankings for answer in answers), strict=True):
            rankings.append(merge_rankings(of_question, origins, at_least))

        loaded: dict[str, dict[str, StoredMemory | Exception]] = {name: {} for name in origins}
        turns = take_turns(rankings, starts)
        size = FIRST_BATCH
        while room >= 0 and (batch := list(islice(turns, size))):
            for origin, memories in loaded.items():
                keys = [entry.name for entry in batch if entry.origin == origin]
                if not keys:
                    continue

                namespace = origin or self._own
                found = await self._store.read(namespace, keys, dated=True)
                for key, memory in zip(keys, found, strict=True):
                    memories[key] = self._mark(memory, namespace)
                    room -= count_bytes(memory)
            size *= 2

        return Recalled(tuple(rankings), loaded.pop(""), loaded)

    async def read_from(self, origin: str, keys: Sequence[str]) -> list[StoredMemory | Exception]:
        """Return one item per key of one namespace; one that may not be read has no memories."""
        if origin not in self._namespaces:
            return [Refused("memory_not_found") for _ in keys]

        return [self._mark(one, origin) for one in await self._store.read(origin, keys)]

    @property
    def _past(self) -> HistoryStore:
        if isinstance(self._store, HistoryStore):
            return self._store

        raise Refused("version_not_found")

    async def read_history(
        self, name: MemoryName, before: int | None = None, limit: int = 1
    ) -> MemoryHistory:
        """Return a page of a memory's history. Raises Refused: memory_not_found, id_not_found."""
        origin = await self._find_origin(name)
        page = await self._past.read_history(origin or self._own, name, before, limit)
        return page._replace(origin=origin)

    async def _find_origin(self, name: MemoryName) -> str:
        """Return the other namespace that has a memory, or "" for the own.

        A deleted memory of another one is not found: only those who could restore it may see it.
        """
        if not self._others:
            return ""

        found = await find_namespace(self._store, self._namespaces, name)
        return "" if found is None else self._name(found)

    async def is_deleted(self, name: MemoryName) -> bool:
        """Return whether a name is that of a memory that was deleted. Raises Refused."""
        return (await self.read_history(name)).row is None

    async def find_key(self, memory_id: str) -> str:
        """Return the current key of a memory. Raises Refused: id_not_found."""
        page = await self.read_history(MemoryName(id=memory_id))
        if page.row is None:
            raise Refused("id_not_found")

        return page.row.key

    async def read_at(self, key: str, time: str) -> StoredMemory:
        """Return a memory with all its links as it was at a time. Raises Refused."""
        name = MemoryName(key=key)
        origin = await self._find_origin(name)
        stored = await self._past.read_version(origin or self._own, name, time)
        return stored._replace(origin=origin)

    async def read_pair(
        self, memory_id: str, version: int
    ) -> tuple[StoredMemory | None, StoredMemory | None]:
        """Return a memory in a version and in the one before it, with all links, if there are any.

        Raises Refused: id_not_found, version_not_found, and the refusals of the store.
        """
        name = MemoryName(id=memory_id)
        page = await self.read_history(name, version + 1)
        if not page.entries or page.entries[0].version != version:
            raise Refused("version_not_found")

        (entry,) = page.entries
        memory: StoredMemory | None = None
        before: StoredMemory | None = None
        if entry.action != "deleted":
            memory = await self._past.read_version(self._own, name, version)
        if entry.action == "mended":
            before = memory  # the content before the damage is unknown
        elif entry.previous:
            before = await self._past.read_version(self._own, name, entry.previous)

        return memory, before

    async def read_changes(
        self, since: int, others: Mapping[str, int], limit: int
    ) -> list[ChangePage]:
        """Return the changes after a version, and those of each other namespace after its own.

        The pages have up to ``limit`` changes together. Raises Refused.
        """
        pages = [await self._past.read_changes(self._own, since, limit)]

        for other in self._others:
            limit -= len(pages[-1].changes)
            begin = others.get(other, 0)
            page = ChangePage((), begin, has_more=True, is_complete=True)
            if limit:
                page = await self._past.read_changes(other, begin, limit)
            pages.append(page._replace(origin=other))

        return pages

    async def read_latest(self) -> int:
        """Return the version of the latest change, or 0 if none is known. Raises Refused."""
        if not isinstance(self._store, HistoryStore):
            return 0

        changes = await self._store.read_latest_changes(self._own, None, 1)
        return changes[0].version if changes else 0

    async def read_timeline(
        self, before: int | None, limit: int, caller: str | None = None, action: str | None = None
    ) -> tuple[list[MemoryChange], int | None]:
        """Return up to ``limit`` of the latest changes, newest first. Raises Refused.

        They may be those by a caller or of an action only; if few changes are, a page may end
        early, even without any. The next one ends before the second value, None at the end.
        """
        found: list[MemoryChange] = []
        count = 0
        at_once = _CHANGES_AT_ONCE
        if caller is None and action is None:
            at_once = limit + 1  # one more shows whether more follow

        # A filter may reject almost all changes, so their number is limited too.
        while count < _MAX_CHANGES:
            changes = await self._past.read_latest_changes(self._own, before, at_once)
            for change in changes:
                if len(found) == limit:
                    return found, before
                before = change.version
                if caller in (None, change.caller) and action in (None, change.action):
                    found.append(change)

            if len(changes) < at_once:
                return found, None
            count += len(changes)

        return found, before

    def _name(self, namespace: str) -> str:
        """Return the origin of what is read from a namespace."""
        return "" if namespace == self._own else namespace

    def _mark(self, memory: StoredMemory | Exception, namespace: str) -> StoredMemory | Exception:
        if isinstance(memory, Exception) or namespace == self._own:
            return memory

        return memory._replace(origin=namespace)

    async def _find_first(self, read: Callable[[str], Awaitable[T]]) -> T:
        """Return the result of the first namespace that has the memory. Raises Refused."""
        *earlier, last = self._namespaces
        for namespace in earlier:
            try:
                return await read(namespace)
            except Refused as error:
                if not _is_missing(error):
                    raise

        return await read(last)

    async def _query_each(
        self, query: Query, starts: Sequence[int], limit: int
    ) -> list[MemoryPage]:
        """Return a page of each namespace, after the query's position and a number of memories."""
        waiting: list[Awaitable[MemoryPage]] = []
        for place, (namespace, start) in enumerate(zip(self._namespaces, starts, strict=True)):
            after = query.after
            if after is not None and place > after.place:
                after = _step_back(after, descending=query.descending)
            own = replace(query, after=after, offset=start, limit=limit)
            waiting.append(self._store.query(namespace, own))

        return await asyncio.gather(*waiting)

    async def _split_offset(self, query: Query) -> list[int]:
        """Return how many of the memories before the page are of each namespace.

        If the memory ``step`` places on comes first in one namespace, then at most ``step`` in each
        of the others come before it. So its namespace can be passed over as far as that, if all
        these are within the offset. Few memories are read, however large the offset is.
        """
        starts = [0] * len(self._namespaces)
        left = step = query.offset

        while left and step:
            step = min(step, max(left // len(starts), 1))
            peeks = [start + step - 1 for start in starts]
            pages = await self._query_each(query, peeks, 1)

            reached = [place for place, page in enumerate(pages) if page.positions]
            if not reached:
                step //= 2  # all namespaces end before
                continue

            reached.sort(key=lambda at: pages[at].positions[0][:2], reverse=query.descending)
            starts[reached[0]] += step
            left -= step

        return starts


async def find_namespace(
    store: MemoryStore, namespaces: Sequence[str], name: MemoryName
) -> str | None:
    """Return the first of some namespaces that has a memory now, by its id, key or former key."""
    if not isinstance(store, HistoryStore):
        return None

    for namespace in namespaces:
        try:
            page = await store.read_history(namespace, name, None, 1)
        except Refused as error:
            if error.reason not in NOT_THERE:
                raise
            continue
        if page.row is not None:
            return namespace

    return None


def merge_rankings(rankings: Sequence[Ranking], origins: Sequence[str], at_least: int) -> Ranking:
    """Return one ranking from those of several namespaces for the same question.

    Entries are ordered by their scores as these are shown. Of equal ones, those of the first
    namespace come first. A word is unknown if it is so everywhere, and the highest confidence
    counts.
    """
    lists: list[list[tuple[Any, ...]]] = []
    for ranking, origin in zip(rankings, origins, strict=True):
        lists.append([(*columns[:6], origin) for columns in ranking.columns])

    merged = list(heapq.merge(*lists, key=lambda columns: -round_score(columns[2])))
    best = max((columns[2] for columns in merged), default=0)
    kept = [columns for columns in merged if 1_000 * columns[2] >= at_least * best]

    archived = [word for ranking in rankings for word in ranking.archived_words]
    absent = [{*ranking.unknown_words, *ranking.archived_words} for ranking in rankings]
    missing = absent[0].intersection(*absent)
    in_archive = dict.fromkeys(word for word in archived if word in missing)
    return Ranking(
        Entries(kept),
        tuple(word for word in rankings[0].unknown_words if word in missing - in_archive.keys()),
        tuple(name for ranking in rankings for name in ranking.also),
        _CONFIDENCES[max(_CONFIDENCES.index(ranking.confidence) for ranking in rankings)],
        tuple(in_archive),
        rankings[0].explainer,
        {name: one.explainer for name, one in zip(origins, rankings, strict=True)},
    )


def _is_missing(outcome: object) -> bool:
    return isinstance(outcome, Refused) and outcome.reason == "memory_not_found"


def _step_back(after: Position, *, descending: bool) -> Position:
    """Return the position right before another one: no UUID is between them."""
    if descending:
        return after._replace(id=f"{after.id}~")

    return after._replace(id=f"{after.id[:-1]}{chr(ord(after.id[-1]) - 1)}~")
