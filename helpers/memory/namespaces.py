"""Several namespaces read as one: a caller's own, and others that it may only read.

A `NamespaceReader` has no method that writes. By key, the own namespace comes first, and then the
others in their order. What comes from another one has its name as ``origin``.
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
from abilities.helpers.store.history import MemoryName
from abilities.helpers.store.model import DamagedMemory, StoredMemory
from abilities.helpers.store.protocol import HistoryStore, MemoryStore, Recalled, WalkResult
from abilities.helpers.store.query import MemoryLine, MemoryPage, Position, Query
from abilities.helpers.store.recalling import FIRST_BATCH, count_bytes, take_turns
from abilities.helpers.walk import WalkLimits

_NO_ROOM = -1
"""The room of a recall that only ranks."""

NOT_THERE: tuple[Reason, ...] = ("memory_not_found", "id_not_found")
"""Reasons of a store that has no memory of a name."""

T = TypeVar("T")

_CONFIDENCES: tuple[Confidence, ...] = ("none", "weak", "strong")
"""In rising order."""


class NamespaceReader:
    """Reads a caller's own namespace and others, as `MemoryStore` reads one."""

    def __init__(self, store: MemoryStore, own: str, others: Sequence[str]) -> None:
        self._store = store
        self._own = own
        self._namespaces = (own, *others)

    async def read(self, namespace: str, keys: Sequence[str]) -> list[StoredMemory | Exception]:
        """Return one item per key, from the first namespace that has the memory."""
        outcomes = await self._store.read(namespace, keys)

        for other in self._namespaces[1:]:
            missing = [place for place, one in enumerate(outcomes) if _is_missing(one)]
            if not missing:
                break

            found = await self._store.read(other, [keys[place] for place in missing])
            for place, outcome in zip(missing, found, strict=True):
                outcomes[place] = self._mark(outcome, other)

        return outcomes

    async def read_linked(self, _: str, key: str, offset: int, limit: int) -> StoredMemory:
        """Return one memory with some of its links, from the first namespace that has it."""

        async def read(namespace: str) -> StoredMemory:
            stored = await self._store.read_linked(namespace, key, offset, limit)
            return stored._replace(origin=self._name(namespace))

        return await self._find_first(read)

    async def walk(
        self, _: str, key: str, limits: WalkLimits, direction: Direction = "out"
    ) -> WalkResult:
        """Walk from a memory, within the first namespace that has it."""

        async def walk(namespace: str) -> WalkResult:
            result = await self._store.walk(namespace, key, limits, direction)
            memories = tuple(self._mark(memory, namespace) for memory in result.memories)
            return result._replace(memories=memories)

        return await self._find_first(walk)

    async def list_memories(
        self, _: str, prefix: str, after: str, limit: int, *, archived: bool
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

    async def query(self, _: str, query: Query) -> MemoryPage:
        """Return a page of the matching memories of all namespaces, and their exact number.

        Memories that are equal in value and id are in the order of their namespaces.
        """
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

    def _name(self, namespace: str) -> str:
        """Return the origin of what is read from a namespace."""
        return "" if namespace == self._own else namespace

    def _mark(self, memory: StoredMemory | Exception, namespace: str) -> StoredMemory | Exception:
        if isinstance(memory, Exception):
            return memory

        return memory._replace(origin=self._name(namespace))

    async def _find_first(self, read: Callable[[str], Awaitable[T]]) -> T:
        """Return the result of the first namespace that has the memory. Raises Refused."""
        missing = Refused("memory_not_found")
        for namespace in self._namespaces:
            try:
                return await read(namespace)
            except Refused as error:
                if not _is_missing(error):
                    raise
                missing = error

        raise missing

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


def open_reader(
    store: MemoryStore, own: str, others: Sequence[str]
) -> MemoryStore | NamespaceReader:
    """Return a reader of several namespaces, or the store itself if there is only one."""
    return NamespaceReader(store, own, others) if others else store


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
