"""`recall` over a store, in a snapshot of the caller.

The ranking is a conversation (`abilities.helpers.search.recall`) that requests parts of the index;
this module answers its requests.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple, ParamSpec, TypeVar

from abilities.declarations.limits import MAX_CONTENT_CHARS
from abilities.helpers.search import postings
from abilities.helpers.search import recall as requests
from abilities.helpers.search.ranking import (
    LEAST_LIKENESS,
    MOST_INCOMING,
    MOST_OUTGOING,
    BestLink,
    Links,
    RankedEntry,
    Ranking,
    compute_likeness,
    keep_best,
)
from abilities.helpers.search.terms import Language, split_question
from abilities.helpers.store import recall_index
from abilities.helpers.store.about import list_ids
from abilities.helpers.store.engine import Columns, ForEach, Statement, Transaction
from abilities.helpers.store.model import LinkRecord, StoredMemory, rank_link
from abilities.helpers.store.protocol import Recalled
from abilities.helpers.store.queries import keep_indexes, select_passing
from abilities.helpers.store.ranking import LINK_COLUMNS, BestLinks, Pages, Wanted
from abilities.helpers.store.reads import read

Parameters = ParamSpec("Parameters")
ResultT = TypeVar("ResultT")

_COMPARED_CHARS = 2_000
"""Characters at the beginning of a content that are compared with those of others."""

_SIZE = """
SELECT number FROM counters WHERE namespace = ? AND name = 'all' AND archived = 0 AND value = ''
"""
# The existing parts, one lookup each, and then the postings of the terms in each part.
_BLOCKS = """
WITH RECURSIVE parts (part) AS (
    SELECT min(part) FROM recall_terms WHERE namespace = ?
    UNION ALL SELECT (
        SELECT min(n.part) FROM recall_terms AS n WHERE n.namespace = ? AND n.part > parts.part
    ) FROM parts WHERE parts.part IS NOT NULL
)
SELECT t.archived, t.term, t.block, t.docs FROM parts CROSS JOIN recall_terms AS t
WHERE t.namespace = ? AND t.part = parts.part AND t.archived = ANY (?) AND t.term = ANY (?)
"""
_SAMPLE = """
SELECT t.term, sum(length(t.docs)) FROM recall_terms AS t
WHERE t.namespace = ? AND t.part = (SELECT min(part) FROM recall_terms WHERE namespace = ?)
    AND t.archived = 0 AND t.term = ANY (?) GROUP BY t.term
"""
_BEGINNINGS = f"""
SELECT s.doc, m.key, substr(m.content, 1, {_COMPARED_CHARS})
FROM shelf AS s INDEXED BY shelf_doc CROSS JOIN memories AS m
WHERE s.namespace = ? AND s.doc = ANY (?) AND m.namespace = s.namespace AND m.id = s.id
"""
_RECENT = """
SELECT doc, archived, terms, weights FROM recall_recent
WHERE namespace = ? AND archived = ANY (?) ORDER BY number
"""
_KEYS = """
SELECT doc, key, updated_at FROM shelf INDEXED BY shelf_doc WHERE namespace = ? AND doc = ANY (?)
"""
_DOC = """
SELECT s.doc FROM memories AS m CROSS JOIN shelf AS s
WHERE m.namespace = ? AND m.key = ? AND s.namespace = m.namespace AND s.id = m.id
"""
_MATCHING = "SELECT s.doc FROM shelf AS s WHERE s.namespace = ? AND {} LIMIT ?"
_PASSING = """
SELECT s.doc FROM shelf AS s INDEXED BY shelf_doc WHERE s.namespace = ? AND s.doc = ANY (?) AND {}
"""
_FEW_INCOMING = f"""
SELECT {LINK_COLUMNS} FROM links AS l INDEXED BY links_incoming
WHERE l.namespace = ? AND EXISTS (
    SELECT 1 FROM link_counts AS c WHERE c.namespace = ? AND c.key = asked.key
    AND c.incoming BETWEEN 1 AND {MOST_INCOMING}
) AND l.target = asked.key LIMIT {MOST_INCOMING}
"""
_PASSING_KEYS = """
SELECT m.key, m.updated_at FROM memories AS m CROSS JOIN shelf AS s
WHERE m.namespace = ? AND m.key = ANY (?) AND m.score BETWEEN 0 AND 1
    AND s.namespace = m.namespace AND s.id = m.id AND {}
"""
_TEXTS = """
SELECT RAW(key), RAW(summary), RAW(content), RAW(tags), RAW(category) FROM memories
WHERE namespace = ? AND key = ANY (?) AND length(content) BETWEEN ? AND ?
"""
_SCORES = """
SELECT key, score FROM memories
WHERE namespace = ? AND key = ANY (?) AND score BETWEEN 0 AND 1
"""

FIRST_BATCH = 64
"""Memories to load at first, which is as many as fit by default if they are short; then doubled."""

_ALL = 2**62
"""A limit above the number of links of any memory."""

Ends = dict[str, BestLink]
"""The keys at the other ends of a memory's links, each with the best link."""


def take_turns(rankings: Sequence[Ranking], starts: Sequence[int]) -> Iterator[RankedEntry]:
    """Yield memories: the first of each ranking, then the second of each, and so on.

    Each ranking begins at its offset in ``starts``. Notes are skipped.
    """
    lists = [ranking.entries[start:] for ranking, start in zip(rankings, starts, strict=True)]
    for place in range(max(map(len, lists), default=0)):
        for entries in lists:
            if place < len(entries) and not entries[place].is_note:
                yield entries[place]


async def recall(
    transaction: Transaction,
    namespace: str,
    request: requests.RecallRequest,
    room: int,
    starts: Sequence[int],
) -> Recalled:
    """Rank the memories that answer questions, and load them as long as there is room."""
    filters = request.filters
    if filters.about is not None:
        ids = await list_ids(transaction, namespace, filters.about, archived=filters.reach_archived)
        request = replace(request, filters=replace(filters, ids=tuple(ids)))

    conversation = requests.rank(request)
    fetch = _advance(conversation, None)
    while not isinstance(fetch, _End):
        answer = await _answer(transaction, namespace, fetch)
        fetch = await _compute(transaction, _advance, conversation, answer)

    memories: dict[str, StoredMemory | Exception] = {}
    keys = (entry.name for entry in take_turns(fetch.rankings, starts))
    size = FIRST_BATCH
    while room >= 0 and (batch := list(islice(keys, size))):
        found = await read(transaction, namespace, batch, dated=True)
        memories.update(zip(batch, found, strict=True))

        room -= sum(map(count_bytes, found))
        size *= 2

    return Recalled(fetch.rankings, memories)


async def _compute(
    transaction: Transaction,
    function: Callable[Parameters, ResultT],
    *args: Parameters.args,
    **kwargs: Parameters.kwargs,
) -> ResultT:
    """Return the result of a function that may compute as long as many other calls."""
    if transaction.is_remote:  # the event loop is shared
        return await asyncio.to_thread(function, *args, **kwargs)

    return function(*args, **kwargs)


class _End(NamedTuple):
    rankings: tuple[Ranking, ...]


def _advance(
    conversation: requests.Conversation[tuple[Ranking, ...]], answer: Any
) -> requests.Fetch | _End:
    try:
        return conversation.send(answer)
    except StopIteration as end:
        return _End(end.value)


async def _answer(transaction: Transaction, namespace: str, fetch: requests.Fetch) -> object:
    match fetch:
        case requests.FetchBlocks(terms, archived):
            return await _fetch_blocks(transaction, namespace, terms, [0, 1][: 1 + archived])
        case requests.FetchDoc(key):
            return [doc for (doc,) in await transaction.fetch(_DOC, namespace, key)]
        case requests.FetchMatching(filters, limit):
            passing = select_passing(filters)
            statement = _MATCHING.format(passing.condition)
            values = (namespace, *passing.values, limit + 1)
            found = await transaction.fetch(statement, *values)
            if len(found) > limit:
                return None
            return {doc for (doc,) in found}
        case requests.FetchPassing(filters, docs):
            passing = select_passing(filters)
            statement = _PASSING.format(passing.condition)
            found = await transaction.fetch(statement, namespace, list(docs), *passing.values)
            return {doc for (doc,) in found}
        case requests.FetchKeys(docs):
            named: dict[int, requests.KeyAndTime] = {}
            for doc, *columns in await transaction.fetch(_KEYS, namespace, list(docs)):
                named[doc] = requests.KeyAndTime._make(columns)
            return named
        case requests.FetchTimes(filters, keys):
            selected, *asked = _select_keys(filters)
            times: dict[str, str] = {}
            for key, time in await transaction.fetch(selected, namespace, list(keys), *asked):
                times[key] = time
            return times
        case requests.FetchTexts(keys, least, most):
            found = await transaction.fetch(_TEXTS, namespace, list(keys), least, most)
            return {texts.key: texts for texts in map(recall_index.read_texts, found)}
        case requests.FetchLinks(filters, keys):
            return await _LinkReader(transaction, namespace, filters).read(keys)


async def _fetch_blocks(
    transaction: Transaction, namespace: str, terms: Sequence[str], sides: list[int]
) -> requests.IndexBlocks:
    """Return the postings of terms on some sides of the index, with all recent changes applied."""
    counted, stored, recent = await transaction.fetch_each(
        (_SIZE, namespace),
        (_BLOCKS, namespace, namespace, namespace, sides, list(terms)),
        (_RECENT, namespace, sides),
    )
    found = _read_postings(terms, stored, recent)
    return requests.IndexBlocks(sum(number for (number,) in counted), *found)


def _read_postings(
    terms: Sequence[str], stored: Iterable[Columns], recent: Iterable[Columns]
) -> tuple[requests.Postings, requests.Postings]:
    """Return the postings of terms on both sides of the index, with all recent changes applied."""
    found: list[dict[str, dict[int, bytes]]] = [{term: {} for term in terms} for _ in (0, 1)]
    for side, term, block, docs in stored:
        if docs and len(docs) % postings.POSTING_BYTES == 0:  # others are damaged
            found[side][term][block] = docs

    by_line = {term.encode(): term for term in terms}
    wanted = frozenset(by_line)
    changes: recall_index.Changes = {}
    for doc, side, listed, weights in recent:
        lines = listed.split(b"\n")
        changed: list[tuple[str, int]] = []
        for line in wanted.intersection(lines):  # few of the lines, if any
            place = 2 * lines.index(line) + 1
            if place < len(weights):  # others are damaged
                changed.append((by_line[line], weights[place]))
        if changed:
            recall_index.collect(changes, side, doc, changed)

    for (side, block), by_term in changes.items():
        for term, weights in by_term.items():
            by_block = found[side][term]
            merged = recall_index.merge(by_block.pop(block, b""), weights)
            if merged:
                by_block[block] = merged

    return found[0], found[1]


def _select_keys(filters: requests.Filters) -> Statement:
    """Return the statement for those of some keys that pass filters, and the filters' values."""
    passing = select_passing(filters)
    return _PASSING_KEYS.format(keep_indexes(passing.condition)), *passing.values


def count_bytes(memory: StoredMemory | Exception) -> int:
    """Return the UTF-8 bytes of a memory's content in an answer; 0 if it cannot be read."""
    if isinstance(memory, Exception):
        return 0

    # An answer shows only a passage of a long content.
    return len(memory.row.content[:MAX_CONTENT_CHARS].encode())


async def find_alike(
    transaction: Transaction, namespace: str, contents: Mapping[str, str], language: Language
) -> dict[str, list[StoredMemory]]:
    """Return the memories that say nearly the same as contents, as `MemoryStore.find_alike` does.

    Only those that share the rarest words are compared: the postings of common words would take
    longer to read than a write takes. Words are counted in the first blocks of the index, because
    that takes the same time among any number of memories.
    """
    asked = await _compute(transaction, _list_terms, contents.values(), language)
    counted, sizes, recent = await transaction.fetch_each(
        (_SIZE, namespace),
        (_SAMPLE, namespace, namespace, list(set[str]().union(*asked))),
        (_RECENT, namespace, [0]),
    )
    counts = {term: int(size) // postings.POSTING_BYTES for term, size in sizes}
    chosen = [requests.choose_rare(terms, counts) for terms in asked]
    rare = list(dict.fromkeys(term for terms in chosen for term in terms))
    stored = await transaction.fetch(_BLOCKS, namespace, namespace, namespace, [0], rare)

    def find_sharing() -> list[list[int]]:
        found, _ = _read_postings(rare, stored, recent)
        size = sum(number for (number,) in counted)
        return [requests.find_sharing(terms, found, size) for terms in chosen]

    sharing = await _compute(transaction, find_sharing)
    docs = list({doc for selected in sharing for doc in selected})
    beginnings = await transaction.fetch(_BEGINNINGS, namespace, docs) if docs else ()

    def compare() -> dict[str, list[str]]:
        texts = [text for _, _, text in beginnings]
        others: dict[int, tuple[str, Sequence[str]]] = {}
        for (doc, key, _), terms in zip(beginnings, _list_terms(texts, language), strict=True):
            others[doc] = key, terms

        alike: dict[str, list[str]] = {}
        for name, terms, selected in zip(contents, asked, sharing, strict=True):
            found: list[tuple[int, str]] = []
            for key, other_terms in (others[doc] for doc in selected if doc in others):
                likeness = compute_likeness(terms, other_terms)
                if key != name and likeness >= LEAST_LIKENESS:
                    found.append((-likeness, key))
            alike[name] = [key for _, key in sorted(found)]
        return alike

    alike = await _compute(transaction, compare)
    keys = list({key for names in alike.values() for key in names})
    memories: dict[str, StoredMemory] = {}
    for memory in await read(transaction, namespace, keys) if keys else ():
        if isinstance(memory, StoredMemory):
            memories[memory.row.key] = memory

    shown = {
        name: [memories[key] for key in names if key in memories] for name, names in alike.items()
    }
    return {name: found for name, found in shown.items() if found}


def _list_terms(contents: Iterable[str], language: Language) -> list[list[str]]:
    """Return the terms at the beginning of each content."""
    questions = [split_question(content[:_COMPARED_CHARS], language) for content in contents]
    return [[word.term for word in question] for question in questions]


class _LinkReader:
    """A reader of the links along which `recall` spreads, to memories that pass its filters."""

    def __init__(self, transaction: Transaction, namespace: str, filters: requests.Filters) -> None:
        self._transaction = transaction
        self._namespace = namespace
        self._filters = filters
        self._best = BestLinks(transaction, namespace)
        self._passing: dict[str, bool] = {}
        self._passes, *self._values = _select_keys(filters)

    async def read(self, keys: Sequence[str]) -> dict[str, Links]:
        """Return the links of memories to and from memories that pass the filters.

        These are the best links of each memory, and all links to it if there are few.
        """
        limit = _ALL if self._filters.reach_archived else MOST_OUTGOING
        few = ForEach(_FEW_INCOMING, keys, (self._namespace, self._namespace))
        (pages,), (rows,) = await self._best.fetch([Wanted("target", keys, limit)], few)
        if self._filters.reach_archived:
            outgoing = await self._rank_all(pages)
        else:
            outgoing = await self._choose_best(keys, pages)

        incoming = await self._choose_incoming(keys, rows)
        return {key: Links(outgoing[key], incoming[key]) for key in keys}

    async def _choose_best(self, keys: Sequence[str], pages: Pages) -> dict[str, Ends]:
        """Return the best links of memories, given their first pages."""
        ends: dict[str, Ends] = {}
        limit = MOST_OUTGOING
        while wanted := [key for key in keys if key not in ends]:
            if limit > MOST_OUTGOING:
                (pages,), _ = await self._best.fetch([Wanted("target", wanted, limit)])
            present: dict[str, list[LinkRecord]] = {}
            for key in wanted:
                records = map(LinkRecord._make, pages[key])
                present[key] = [link for link in records if link.is_sound and link.rank >= 0]
            await self._look_up(link.target for links in present.values() for link in links)

            for key, links in present.items():
                passing = [link for link in links if self._passing.get(link.target, True)]
                is_complete = len(pages[key]) < limit or len(links) < limit
                if is_complete or len(passing) >= MOST_OUTGOING:
                    ends[key] = _collect((each.target, each.weight, each.type) for each in passing)
            limit *= 4

        return ends

    async def _rank_all(self, pages: Pages) -> dict[str, Ends]:
        """Return the best links of memories, given all of them, also those to archived memories."""
        sound = {
            key: [link for link in map(LinkRecord._make, page) if link.is_sound]
            for key, page in pages.items()
        }
        targets = sorted({link.target for links in sound.values() for link in links})
        scores: dict[str, float] = {}
        for key, score in await self._transaction.fetch(_SCORES, self._namespace, targets):
            scores[key] = score

        await self._look_up(scores)
        ends: dict[str, Ends] = {}
        for key, links in sound.items():
            ranked: list[tuple[int, float, str, str]] = []
            for link in links:
                if link.target in scores and self._passing.get(link.target, True):
                    rank = rank_link(link.weight, scores[link.target])
                    ranked.append((-rank, -link.weight, link.target, link.type))
            best = sorted(ranked)
            ends[key] = _collect((target, -weight, kind) for _, weight, target, kind in best)

        return ends

    async def _choose_incoming(
        self, keys: Sequence[str], rows: Sequence[Columns]
    ) -> dict[str, Ends]:
        """Return the links to memories, given the rows of those to which few links lead."""
        records: list[LinkRecord] = []
        for _, *columns in rows:
            record = LinkRecord._make(columns)
            if not record.is_sound:
                continue

            is_there = self._best.is_present("source", record.source, record.back_rank)
            if is_there or self._filters.reach_archived:
                records.append(record)

        await self._look_up(record.source for record in records)
        ends: dict[str, Ends] = {key: {} for key in keys}
        for record in records:
            if self._passing.get(record.source, True):
                keep_best(ends[record.target], record.source, record.weight, record.type)

        return ends

    async def _look_up(self, keys: Iterable[str]) -> None:
        """Find out which memories pass the filters, unless all present memories do."""
        unknown = sorted({key for key in keys if key not in self._passing})
        if unknown and not self._filters.pass_all:
            values = (self._namespace, unknown, *self._values)
            found = {key for key, _ in await self._transaction.fetch(self._passes, *values)}
            self._passing |= {key: key in found for key in unknown}


def _collect(links: Iterable[tuple[str, float, str]]) -> Ends:
    """Return the ends of the first `MOST_OUTGOING` links, given by key, weight and kind."""
    ends: Ends = {}
    for link in islice(links, MOST_OUTGOING):
        keep_best(ends, *link)

    return ends
