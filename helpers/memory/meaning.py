"""`recall`'s second ranking, by meaning: joined with that by words, if an embedder is set.

Two rankings joined into one by reciprocal rank.

After Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion Outperforms Condorcet and Individual
Rank Learning Methods", 2009: an entry gets 1 / (60 + its rank) from each ranking that it stands in.
Ranks begin with 1; entries of equal value share the first of their ranks. The sums are multiplied
so that the best possible one, for the first of both rankings, is `SCORE_ONE`.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple, TypeVar

from abilities.helpers.embedder import Comparison, EmbedderFailed, EmbedderThread
from abilities.helpers.memory.notes import NotePart
from abilities.helpers.search.ranking import SCORE_ONE, RankedEntry, Ranking, keep_once
from abilities.helpers.search.recall import Filters, RecallRequest
from abilities.helpers.search.selection import MOST_SELECTED
from abilities.helpers.store.model import StoredMemory
from abilities.helpers.store.protocol import MemoryStore, Recalled
from abilities.helpers.store.query import Query
from abilities.helpers.store.recalling import count_bytes

DAMPING = 60
"""The constant k of the paper: the larger, the less the first ranks stand out."""

_FINENESS = 1 << 24
"""Parts of one of a score, so that neighbors in long rankings are told apart."""

_WHOLE = SCORE_ONE * _FINENESS * (DAMPING + 1) // 2

Name = TypeVar("Name")


class EntryName(NamedTuple):
    """What tells an entry from all others: a memory's key, or the name of a part of a note."""

    name: str
    is_note: bool


def join_rankings(first: Mapping[Name, int], second: Mapping[Name, int]) -> dict[Name, int]:
    """Return what each name gets from two rankings in all; their values order them.

    The sums are in parts of a score, finer than scores are shown.
    """
    shares = _share(first)
    for name, share in _share(second).items():
        shares[name] = shares.get(name, 0) + share

    return shares


def fuse(ranking: Ranking, similarities: Mapping[EntryName, int]) -> Ranking:
    """Return a ranking joined with that by similarity, in which entries may stand that it lacks.

    Only similarities above 0 count, down to the 256th rank. In a score, ``own`` is all but what an
    entry gets because links led to it.
    """
    found = {EntryName(entry.name, entry.is_note): entry for entry in ranking.entries}
    by_words = {name: entry.score for name, entry in found.items()}
    by_meaning = _keep_best(similarities)

    joined = join_rankings(by_words, by_meaning)
    from_meaning = _share(by_meaning)

    entries: list[RankedEntry] = []
    for name in sorted(joined, key=lambda name: (-joined[name], name)):
        score = own = joined[name] // _FINENESS
        entry = found.get(name)
        if entry is None:
            entries.append(RankedEntry(*name, score, own))
            continue

        if not entry.own:
            own = from_meaning.get(name, 0) // _FINENESS
        entries.append(entry._replace(score=score, own=own))

    names = {entry.name for entry in entries}
    also = tuple(name for name in ranking.also if name not in names)
    return Ranking(tuple(entries), ranking.unknown_words, also)


def _share(values: Mapping[Name, int]) -> dict[Name, int]:
    """Return what each name gets from one ranking."""
    return {name: _WHOLE // (DAMPING + rank) for name, rank in _rank(values).items()}


def _keep_best(similarities: Mapping[EntryName, int]) -> dict[EntryName, int]:
    similar = {name: value for name, value in similarities.items() if value > 0}
    ranks = _rank(similar)

    return {name: value for name, value in similar.items() if ranks[name] <= MOST_SELECTED}


def _rank(values: Mapping[Name, int]) -> dict[Name, int]:
    """Return the rank of each name, by falling value; equal values have equal ranks."""
    ranks: dict[int, int] = {}
    for rank, value in enumerate(sorted(values.values(), reverse=True), start=1):
        ranks.setdefault(value, rank)

    return {name: ranks[value] for name, value in values.items()}


MAX_COMPARED = 1_000
"""If no more memories than this pass the filters, all are compared with a question.

Their vectors fill 1.5 MB at 384 numbers each.
"""

PAGE = 250
"""Memories that are read at once for that."""

MAX_LOADED_BYTES = 16_000_000
"""Contents that are loaded for a recall; if there are more, words alone rank."""

LOG_SECONDS = 60.0
"""An embedder that fails is logged no more often than once in so many seconds."""

_log = logging.getLogger("abilities")

_Memories = Mapping[str, StoredMemory | Exception]


class RankingByMeaning:
    """Ranks again what a store's ranking by words holds; for all namespaces of an application."""

    def __init__(self, embedder: EmbedderThread) -> None:
        self._embedder = embedder
        self._lock = threading.Lock()
        self._logged_at: float | None = None

    async def recall(
        self,
        store: MemoryStore,
        namespace: str,
        request: RecallRequest,
        queries: Sequence[str],
        parts: Sequence[NotePart],
        room: int,
        starts: Sequence[int],
    ) -> Recalled:
        """Return what answers the questions by words and by meaning, as `MemoryStore.recall` does.

        If the embedder fails, or what was found by words is too large to be loaded, it is the
        store's own answer. Raises Refused.
        """
        joined = await self._try_to_join(store, namespace, request, queries, parts)
        if joined is None:
            return await store.recall(namespace, request, room, starts)

        return _load_in_turns(joined, room, starts)

    def close(self) -> None:
        """Let the embedder's thread end. It is not waited for."""
        self._embedder.close()

    async def _try_to_join(
        self,
        store: MemoryStore,
        namespace: str,
        request: RecallRequest,
        queries: Sequence[str],
        parts: Sequence[NotePart],
    ) -> Recalled | None:
        """Return both rankings joined, with all of their memories; None if they cannot be."""
        starts = [0] * len(queries)
        by_words = await store.recall(namespace, request, MAX_LOADED_BYTES, starts)
        if not _is_loaded(by_words):
            return None

        further = await _list_memories(store, namespace, request.filters)
        memories = {**further, **by_words.memories}
        texts = _list_texts(memories, parts)

        candidates: list[list[EntryName]] = []
        comparisons: list[Comparison] = []
        for query, ranking in zip(queries, by_words.rankings, strict=True):
            names = _list_candidates(ranking, further, parts, texts)
            candidates.append(names)
            comparisons.append(Comparison(query, [texts[name] for name in names]))

        try:
            similarities = await self._embedder.compare(comparisons)
        except EmbedderFailed as error:
            self._log_failure(error)
            return None

        # On another thread: several questions may have thousands of candidates.
        rankings = await asyncio.to_thread(_join, by_words.rankings, candidates, similarities)
        return Recalled(rankings, memories)

    def _log_failure(self, error: EmbedderFailed) -> None:
        now = time.monotonic()
        with self._lock:
            if self._logged_at is not None and now < self._logged_at + LOG_SECONDS:
                return
            self._logged_at = now

        _log.warning("the embedder failed, and recall ranks by words alone: %s", error)


def _join(
    rankings: Sequence[Ranking],
    candidates: Sequence[Sequence[EntryName]],
    similarities: Sequence[Sequence[int]],
) -> tuple[Ranking, ...]:
    """Return each ranking joined with that of its candidates by their similarities."""
    fused: list[Ranking] = []
    for ranking, names, values in zip(rankings, candidates, similarities, strict=True):
        fused.append(fuse(ranking, dict(zip(names, values, strict=True))))

    return keep_once(fused)


def _is_loaded(recalled: Recalled) -> bool:
    """Return whether all memories in the rankings are loaded."""
    entries = [entry for ranking in recalled.rankings for entry in ranking.entries]
    return all(entry.is_note or entry.name in recalled.memories for entry in entries)


async def _list_memories(
    store: MemoryStore, namespace: str, filters: Filters
) -> dict[str, StoredMemory]:
    """Return the memories that pass the filters by their keys; none if there are too many.

    Those that cannot be read are left out.
    """
    memories: dict[str, StoredMemory] = {}
    room = MAX_LOADED_BYTES

    for offset in range(0, MAX_COMPARED, PAGE):
        query = Query(
            type=filters.type,
            tags=filters.tags,
            importance=filters.importance,
            category=filters.category,
            archived=filters.archived,
            limit=PAGE,
            offset=offset,
            sort_by="created_at",
        )
        page = await store.query(namespace, query)
        for memory in page.memories:
            if isinstance(memory, StoredMemory):
                memories[memory.row.key] = memory
                room -= count_bytes(memory)

        if page.total > MAX_COMPARED or room < 0:
            return {}
        if offset + PAGE >= page.total:
            break

    since = filters.changed_since or ""
    return {key: memory for key, memory in memories.items() if memory.row.updated_at >= since}


def _list_texts(memories: _Memories, parts: Sequence[NotePart]) -> dict[EntryName, str]:
    """Return what is compared of each memory that can be read, and of each part of a note."""
    texts: dict[EntryName, str] = {}

    for key, memory in memories.items():
        if isinstance(memory, StoredMemory):
            texts[EntryName(key, False)] = f"{memory.row.summary}\n{memory.row.content}".strip()

    for part in parts:
        texts[EntryName(part.name, True)] = f"{part.heading}\n{part.content}".strip()

    return texts


def _list_candidates(
    ranking: Ranking,
    further: Iterable[str],
    parts: Sequence[NotePart],
    texts: Mapping[EntryName, str],
) -> list[EntryName]:
    """Return what is compared with a question: its ranking, further memories, and all parts."""
    names = {EntryName(entry.name, entry.is_note): None for entry in ranking.entries}
    names |= dict.fromkeys(EntryName(key, False) for key in further)
    names |= dict.fromkeys(EntryName(part.name, True) for part in parts)

    return [name for name in names if name in texts]


def _load_in_turns(recalled: Recalled, room: int, starts: Sequence[int]) -> Recalled:
    """Return what was recalled with those memories only that `MemoryStore.recall` would load."""
    kept: dict[str, StoredMemory | Exception] = {}
    lists = [r.entries[start:] for r, start in zip(recalled.rankings, starts, strict=True)]

    for turn in zip_longest(*lists):
        for entry in turn:
            if entry is None or entry.is_note:
                continue
            if room < 0:
                return Recalled(recalled.rankings, kept)

            memory = recalled.memories[entry.name]
            kept[entry.name] = memory
            room -= count_bytes(memory)

    return Recalled(recalled.rankings, kept)
