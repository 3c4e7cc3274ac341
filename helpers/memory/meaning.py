"""`recall`'s second ranking, by meaning, if an embedder is set: it is fused with that by words.

Two rankings are fused by reciprocal rank, after Cormack, Clarke and Büttcher, "Reciprocal Rank
Fusion Outperforms Condorcet and Individual Rank Learning Methods", 2009: an entry gets
1 / (60 + its rank) from each ranking that has it. Ranks begin with 1; entries of equal value share
the first of their ranks. The sums are scaled so that the best possible one, for the first entry of
both rankings, is `SCORE_ONE`.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from typing import NamedTuple, TypeVar

from abilities.helpers.embedder import Comparison, EmbedderFailed, EmbedderThread
from abilities.helpers.memory.notes import NotePart
from abilities.helpers.search.ranking import (
    SCORE_ONE,
    RankedEntry,
    Ranking,
    count_above,
    keep_once,
)
from abilities.helpers.search.recall import Filters, RecallRequest
from abilities.helpers.search.selection import MOST_SELECTED
from abilities.helpers.store.model import StoredMemory
from abilities.helpers.store.protocol import MemoryStore, Recalled
from abilities.helpers.store.query import Query
from abilities.helpers.store.recalling import count_bytes

DAMPING = 60
"""The constant k of the paper: the larger it is, the less the first ranks count."""

MAX_COMPARED = 1_000
"""If no more memories than this pass the filters, all are compared with a question.

Their vectors take 1.5 MB at 384 numbers each.
"""

PAGE = 250
"""Memories that are read at once for the comparison."""

MAX_LOADED_BYTES = 16_000_000
"""Contents that are loaded for a recall; if there are more, only words rank."""

LOG_SECONDS = 60.0
"""Seconds between two log lines about a failing embedder, at least."""

_FINENESS = 1 << 24
"""Parts of a unit of a score, so that neighbors in long rankings differ."""

_DAY_CHARS = len("YYYY-MM-DD")

_WHOLE = SCORE_ONE * _FINENESS * (DAMPING + 1) // 2

_log = logging.getLogger("abilities")

Name = TypeVar("Name")


class EntryName(NamedTuple):
    """The unique name of an entry: a memory's key, or the name of a part of a note."""

    name: str
    is_note: bool


def join_rankings(first: Mapping[Name, int], second: Mapping[Name, int]) -> dict[Name, int]:
    """Return the sum that each name gets from two rankings, in which values order the names.

    The sums are in parts of a score, finer than scores are shown.
    """
    sums = _score_ranks(first)
    for name, score in _score_ranks(second).items():
        sums[name] = sums.get(name, 0) + score

    return sums


def fuse(ranking: Ranking, similarities: Mapping[EntryName, int]) -> Ranking:
    """Return a ranking fused with that by similarity, which may add entries.

    Only similarities above 0 count, down to the 256th rank. In a score, ``own`` is all but the part
    that an entry gets because links led to it.
    """
    found = {EntryName(entry.name, entry.is_note): entry for entry in ranking.entries}
    by_words = {name: entry.score for name, entry in found.items()}
    similar = {name: value for name, value in similarities.items() if value > 0}
    ranks = _rank(similar)
    by_meaning = {name: value for name, value in similar.items() if ranks[name] <= MOST_SELECTED}

    sums = join_rankings(by_words, by_meaning)
    from_meaning = _score_ranks(by_meaning)

    entries: list[RankedEntry] = []
    for name in sorted(sums, key=lambda name: (-sums[name], name)):
        score = own = sums[name] // _FINENESS
        entry = found.get(name)
        if entry is None:
            entries.append(RankedEntry(*name, score, own))
            continue

        if not entry.own:
            own = from_meaning.get(name, 0) // _FINENESS
        entries.append(entry._replace(score=score, own=own))

    names = {entry.name for entry in entries}
    also = tuple(name for name in ranking.also if name not in names)
    # Meaning may answer a question whose words do not.
    confidence = ranking.confidence
    if confidence == "none" and entries:
        confidence = "weak"

    return replace(ranking, entries=tuple(entries), also=also, confidence=confidence)


def _score_ranks(values: Mapping[Name, int]) -> dict[Name, int]:
    """Return the score of each name in one ranking, in parts."""
    return {name: _WHOLE // (DAMPING + rank) for name, rank in _rank(values).items()}


def _rank(values: Mapping[Name, int]) -> dict[Name, int]:
    """Return the rank of each name, by falling value; equal values have equal ranks."""
    ranks: dict[int, int] = {}
    for rank, value in enumerate(sorted(values.values(), reverse=True), start=1):
        ranks.setdefault(value, rank)

    return {name: ranks[value] for name, value in values.items()}


class RankingByMeaning:
    """Fuses the ranking by words of any store with one by meaning, for an application."""

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
        """Return the answers to questions by words and by meaning, as `MemoryStore.recall` does.

        If the embedder fails, or the memories found by words are too large to be loaded, the answer
        is the store's own. Raises Refused.
        """
        fused: Recalled | None = None
        try:
            fused = await self._fuse(store, namespace, request, queries, parts)
        except EmbedderFailed as error:
            now = time.monotonic()
            with self._lock:
                is_due = self._logged_at is None or now >= self._logged_at + LOG_SECONDS
                if is_due:
                    self._logged_at = now
            if is_due:
                _log.warning("the embedder failed, and recall ranks by words alone: %s", error)
        if fused is None:
            return await store.recall(namespace, request, room, starts)

        # Only the memories that the store would load are kept.
        kept: dict[str, StoredMemory | Exception] = {}
        lists = [r.entries[start:] for r, start in zip(fused.rankings, starts, strict=True)]
        for entry in chain.from_iterable(zip_longest(*lists)):
            if entry is None or entry.is_note:
                continue
            if room < 0:
                break

            memory = fused.memories[entry.name]
            kept[entry.name] = memory
            room -= count_bytes(memory)

        return Recalled(fused.rankings, kept)

    def close(self) -> None:
        """Let the embedder's thread end, without waiting for it."""
        self._embedder.close()

    async def _fuse(
        self,
        store: MemoryStore,
        namespace: str,
        request: RecallRequest,
        queries: Sequence[str],
        parts: Sequence[NotePart],
    ) -> Recalled | None:
        """Return both rankings fused, with all their memories; None if these are too large.

        Raises Refused and EmbedderFailed.
        """
        starts = [0] * len(queries)
        whole = replace(request, at_least=0)
        by_words = await store.recall(namespace, whole, MAX_LOADED_BYTES, starts)
        for entry in chain.from_iterable(ranking.entries for ranking in by_words.rankings):
            if not entry.is_note and entry.name not in by_words.memories:
                return None

        further = await _list_memories(store, namespace, request.filters)
        memories = {**further, **by_words.memories}
        texts: dict[EntryName, str] = {}
        for key, memory in memories.items():
            if isinstance(memory, StoredMemory):
                texts[EntryName(key, False)] = f"{memory.row.summary}\n{memory.row.content}".strip()
        for part in parts:
            texts[EntryName(part.name, True)] = f"{part.heading}\n{part.content}".strip()

        # Each question is compared with its own ranking, further memories, and all parts of notes.
        candidates: list[list[EntryName]] = []
        comparisons: list[Comparison] = []
        for query, ranking in zip(queries, by_words.rankings, strict=True):
            names = {EntryName(entry.name, entry.is_note): None for entry in ranking.entries}
            names |= dict.fromkeys(EntryName(key, False) for key in further)
            names |= dict.fromkeys(EntryName(part.name, True) for part in parts)
            compared = [name for name in names if name in texts]
            candidates.append(compared)
            comparisons.append(Comparison(query, [texts[name] for name in compared]))

        similarities = await self._embedder.compare(comparisons)

        def fuse_all() -> tuple[Ranking, ...]:
            fused: list[Ranking] = []
            for ranking, names, values in zip(
                by_words.rankings, candidates, similarities, strict=True
            ):
                one = fuse(ranking, dict(zip(names, values, strict=True)))
                scores = [entry.score for entry in one.entries]
                count = count_above(scores, request.at_least or 0)
                fused.append(replace(one, entries=one.entries[:count]))

            return keep_once(fused)

        # On another thread, because several questions may have thousands of candidates.
        return Recalled(await asyncio.to_thread(fuse_all), memories)


async def _list_memories(
    store: MemoryStore, namespace: str, filters: Filters
) -> dict[str, StoredMemory]:
    """Return the readable memories that pass the filters by their keys; none if too many do."""
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

    since, last_day = filters.changed_since or "", filters.as_of or "9999"
    return {
        key: memory
        for key, memory in memories.items()
        if memory.row.updated_at >= since and memory.row.created_at[:_DAY_CHARS] <= last_day
    }
