"""Answering `recall` from PostgreSQL, in a snapshot that the caller holds."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

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
    Filters,
    IndexBlocks,
    RecallRequest,
    rank,
)
from abilities.helpers.stores.model import StoredMemory
from abilities.helpers.stores.postgres.filters import select_shelved
from abilities.helpers.stores.postgres.reads import read
from abilities.helpers.stores.postgres.recall_index import TermBlock, merge_weights
from abilities.helpers.stores.postgres.recall_links import fetch_links
from abilities.helpers.stores.postgres.statements import Connection, Select, to_number
from abilities.helpers.stores.protocol import Recalled
from abilities.helpers.stores.recalling import FIRST_BATCH, count_bytes, take_turns


class _IndexRow(NamedTuple):
    """Postings of a block; or, with a number, the weight of a recent change of one memory.

    ``place`` is the block or the memory's number; without a term, it is the number of memories.
    """

    number: int
    archived: int
    term: str
    place: int
    docs: bytes


class _DocKeys(NamedTuple):
    """Numbers of memories, and their keys in the same order."""

    docs: list[int]
    keys: list[str]


_SELECT_INDEX = Select(
    """
    SELECT 0::int8, archived, term, block::int8, docs FROM recall_terms
    WHERE namespace = %s AND archived = ANY(%s::int2[]) AND term = ANY(%s)
        AND docs <> '' AND mod(octet_length(docs), 2) = 0
    UNION ALL
    SELECT r.number, r.archived, u.term, r.doc, substr(r.weights, u.place::int, 1)
    FROM recall_recent AS r CROSS JOIN unnest(r.terms) WITH ORDINALITY AS u (term, place)
    WHERE r.namespace = %s AND r.archived = ANY(%s::int2[]) AND u.term = ANY(%s)
    UNION ALL
    SELECT 0, 0, '', number, '' FROM counters
    WHERE namespace = %s AND name = 'all' AND archived = 0 AND value = ''
    """,
    _IndexRow._make,
    is_binary=True,
)
# Of thousands, two arrays are read in a quarter of the time that as many rows take.
_KEYS = Select(
    """
    SELECT coalesce(array_agg(doc), '{}'), coalesce(array_agg(key), '{}') FROM shelf
    WHERE namespace = %s AND doc = ANY(%s::int8[])
    """,
    _DocKeys._make,
    is_binary=True,
)


async def recall(
    connection: Connection,
    namespace: str,
    request: RecallRequest,
    room: int,
    starts: Sequence[int],
) -> Recalled:
    """Rank what answers questions, and load memories as long as there is room."""
    rankings = await _rank(connection, namespace, request)

    memories: dict[str, StoredMemory | Exception] = {}
    keys = take_turns(rankings, starts)
    size = FIRST_BATCH
    while room >= 0 and (batch := list(islice(keys, size))):
        found = await read(connection, namespace, batch)
        memories.update(zip(batch, found, strict=True))

        room -= sum(count_bytes(memory) for memory in found)
        size *= 2

    return Recalled(rankings, memories)


async def _rank(
    connection: Connection, namespace: str, request: RecallRequest
) -> tuple[Ranking, ...]:
    conversation = rank(request)
    fetch = _advance(conversation, None)  # it only asks for the index
    while not isinstance(fetch, _End):
        answer = await _answer(connection, namespace, fetch)

        # On another thread: ranking may take as long as many other calls.
        fetch = await asyncio.to_thread(_advance, conversation, answer)

    return fetch.rankings


class _End(NamedTuple):
    rankings: tuple[Ranking, ...]


def _advance(conversation: Conversation[tuple[Ranking, ...]], answer: Any) -> Fetch | _End:
    try:
        return conversation.send(answer)
    except StopIteration as end:
        return _End(end.value)


async def _answer(connection: Connection, namespace: str, fetch: Fetch) -> object:
    match fetch:
        case FetchBlocks(terms, archived):
            return await _fetch_blocks(connection, namespace, terms, archived=archived)
        case FetchMatching(filters, limit):
            return await _fetch_matching(connection, namespace, filters, limit)
        case FetchPassing(filters, docs):
            return await _fetch_passing(connection, namespace, filters, docs)
        case FetchKeys(docs):
            return await _fetch_keys(connection, namespace, docs)
        case FetchLinks(filters, keys):
            return await fetch_links(connection, namespace, filters, keys)


async def _fetch_blocks(
    connection: Connection, namespace: str, terms: Sequence[str], *, archived: bool
) -> IndexBlocks:
    """Return the postings of terms with all recent changes in them."""
    sides = [0, 1] if archived else [0]
    asked = (namespace, sides, list(terms))
    rows = await _SELECT_INDEX.fetch(connection, *asked, *asked, namespace)

    size = 0
    by_side: list[dict[str, dict[int, bytes]]] = [defaultdict(dict), defaultdict(dict)]
    changes: dict[TermBlock, dict[int, int]] = {}
    for number, side, term, place, docs in sorted(rows, key=_get_number):
        if not term:
            size = place
        elif not number:
            by_side[side][term][place] = docs
        elif docs:  # damage may have taken some weights
            changed = TermBlock(side, term, postings.block_of(place))
            changes.setdefault(changed, {})[place] = docs[0]

    for (side, term, block), weights in changes.items():
        before = by_side[side][term].pop(block, b"")
        merged = merge_weights(before, weights)
        if merged:
            by_side[side][term][block] = merged

    return IndexBlocks(size, *by_side)


def _get_number(row: _IndexRow) -> int:
    return row.number


async def _fetch_keys(
    connection: Connection, namespace: str, docs: Sequence[int]
) -> dict[int, str]:
    # As text, because the driver writes the numbers of a list one at a time.
    numbers = f"{{{','.join(map(str, docs))}}}"
    found = await _KEYS.fetch_only(connection, namespace, numbers)

    return dict(zip(found.docs, found.keys, strict=True))


async def _fetch_matching(
    connection: Connection, namespace: str, filters: Filters, limit: int
) -> set[int] | None:
    passing = select_shelved("s", filters)
    statement = Select(
        f"""
        SELECT s.doc FROM shelf AS s WHERE s.namespace = %s AND {passing.condition} LIMIT %s
        """,
        to_number,
    )
    docs = await statement.fetch(connection, namespace, *passing.values, limit + 1)
    if len(docs) > limit:
        return None

    return set(docs)


async def _fetch_passing(
    connection: Connection, namespace: str, filters: Filters, docs: Sequence[int]
) -> set[int]:
    passing = select_shelved("s", filters)
    statement = Select(
        f"""
        SELECT s.doc FROM shelf AS s
        WHERE s.namespace = %s AND s.doc = ANY(%s) AND {passing.condition}
        """,
        to_number,
    )
    return set(await statement.fetch(connection, namespace, list(docs), *passing.values))
