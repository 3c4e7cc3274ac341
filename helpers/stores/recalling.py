"""`recall`: answering the requests of a ranking from a store, in a snapshot of the caller."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from abilities.declarations.limits import MAX_CONTENT_CHARS
from abilities.helpers.search import postings
from abilities.helpers.search.rankings import Ranking
from abilities.helpers.search.recall import (
    Conversation,
    Fetch,
    FetchBlocks,
    FetchKeys,
    FetchLinks,
    FetchMatching,
    FetchPassing,
    IndexBlocks,
    RecallRequest,
    rank,
)
from abilities.helpers.stores.filters import select_passing
from abilities.helpers.stores.model import StoredMemory
from abilities.helpers.stores.protocol import Recalled
from abilities.helpers.stores.reads import read
from abilities.helpers.stores.recall_index import Changes, RecentChange, collect, merge
from abilities.helpers.stores.recall_links import read_links
from abilities.helpers.stores.transaction import Transaction

_SIZE = """
SELECT number FROM counters WHERE namespace = ? AND name = 'all' AND archived = 0 AND value = ''
"""
# The parts that there are, one look-up each, and in each of them the postings of the terms.
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
_RECENT = """
SELECT doc, archived, terms, weights FROM recall_recent
WHERE namespace = ? AND archived = ANY (?) ORDER BY number
"""
_KEYS = """
SELECT doc, key FROM shelf INDEXED BY shelf_doc WHERE namespace = ? AND doc = ANY (?)
"""
_MATCHING = "SELECT s.doc FROM shelf AS s WHERE s.namespace = ? AND {} LIMIT ?"
_PASSING = """
SELECT s.doc FROM shelf AS s INDEXED BY shelf_doc WHERE s.namespace = ? AND s.doc = ANY (?) AND {}
"""

FIRST_BATCH = 64
"""Memories that are loaded at first, as many short ones as fit by default; then twice as many."""


def take_turns(rankings: Sequence[Ranking], starts: Sequence[int]) -> Iterator[str]:
    """Yield the keys of memories: the first of each ranking, then the second of each, and so on.

    Each ranking begins at its place in ``starts``.
    """
    lists = [ranking.entries[start:] for ranking, start in zip(rankings, starts, strict=True)]
    for place in range(max(map(len, lists), default=0)):
        for entries in lists:
            if place < len(entries) and not entries[place].is_note:
                yield entries[place].name


async def recall(
    transaction: Transaction,
    namespace: str,
    request: RecallRequest,
    room: int,
    starts: Sequence[int],
) -> Recalled:
    """Rank what answers questions, and load memories as long as there is room."""
    rankings = await _rank(transaction, namespace, request)

    memories: dict[str, StoredMemory | Exception] = {}
    keys = take_turns(rankings, starts)
    size = FIRST_BATCH
    while room >= 0 and (batch := list(islice(keys, size))):
        found = await read(transaction, namespace, batch)
        memories.update(zip(batch, found, strict=True))

        room -= sum(map(count_bytes, found))
        size *= 2

    return Recalled(rankings, memories)


async def _rank(
    transaction: Transaction, namespace: str, request: RecallRequest
) -> tuple[Ranking, ...]:
    """Answer the requests of a ranking until it is done."""
    conversation = rank(request)
    fetch = _advance(conversation, None)
    while not isinstance(fetch, _End):
        answer = await _answer(transaction, namespace, fetch)
        if transaction.is_remote:
            # On another thread: ranking may take as long as many other calls.
            fetch = await asyncio.to_thread(_advance, conversation, answer)
        else:
            fetch = _advance(conversation, answer)

    return fetch.rankings


class _End(NamedTuple):
    rankings: tuple[Ranking, ...]


def _advance(conversation: Conversation[tuple[Ranking, ...]], answer: Any) -> Fetch | _End:
    try:
        return conversation.send(answer)
    except StopIteration as end:
        return _End(end.value)


async def _answer(transaction: Transaction, namespace: str, fetch: Fetch) -> object:
    match fetch:
        case FetchBlocks(terms, archived):
            return await _fetch_blocks(transaction, namespace, terms, [0, 1][: 1 + archived])
        case FetchMatching(filters, limit):
            passing = select_passing(filters)
            statement = _MATCHING.format(passing.text)
            values = (namespace, *passing.values, limit + 1)
            found = await transaction.fetch(statement, *values)
            return {doc for (doc,) in found} if len(found) <= limit else None
        case FetchPassing(filters, docs):
            passing = select_passing(filters)
            statement = _PASSING.format(passing.text)
            found = await transaction.fetch(statement, namespace, list(docs), *passing.values)
            return {doc for (doc,) in found}
        case FetchKeys(docs):
            named: list[tuple[int, str]] = []
            for doc, key in await transaction.fetch(_KEYS, namespace, list(docs)):
                named.append((doc, key))
            return dict(named)
        case FetchLinks(filters, keys):
            return await read_links(transaction, namespace, filters, keys)


async def _fetch_blocks(
    transaction: Transaction, namespace: str, terms: Sequence[str], sides: list[int]
) -> IndexBlocks:
    """Return the postings of terms on some sides of the index, with all recent changes in them."""
    counted, stored, recent = await transaction.fetch_each(
        (_SIZE, namespace),
        (_BLOCKS, namespace, namespace, namespace, sides, list(terms)),
        (_RECENT, namespace, sides),
    )
    found: list[dict[str, dict[int, bytes]]] = [{term: {} for term in terms} for _ in (0, 1)]
    for side, term, block, docs in stored:
        if docs and len(docs) % postings.POSTING_BYTES == 0:  # not those that are damaged
            found[side][term][block] = docs

    changes = _find_changes(map(RecentChange._make, recent), terms)
    for (side, block), by_term in changes.items():
        for term, weights in by_term.items():
            by_block = found[side][term]
            merged = merge(by_block.pop(block, b""), weights)
            if merged:
                by_block[block] = merged

    return IndexBlocks(sum(number for (number,) in counted), *found)


def _find_changes(recent: Iterable[RecentChange], terms: Sequence[str]) -> Changes:
    """Return what recent changes mean to terms."""
    wanted = {term.encode(): term for term in terms}
    sought = wanted.keys()
    changes: Changes = {}
    for change in recent:
        lines = change.terms.split(b"\n")
        held = sought & lines
        if held:
            weights = dict(zip(lines, change.weights[1::2], strict=False))
            found = ((wanted[line], weights[line]) for line in held & weights.keys())
            collect(changes, change.archived, change.doc, found)

    return changes


def count_bytes(memory: StoredMemory | Exception) -> int:
    """Return the bytes of UTF-8 that an answer may show of a content; 0 if it cannot be read."""
    if isinstance(memory, Exception):
        return 0

    # Of a long content, an answer shows a passage.
    return len(memory.row.content[:MAX_CONTENT_CHARS].encode())
