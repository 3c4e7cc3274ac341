"""`recall` in an SQLite store, in a snapshot of the caller."""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from itertools import islice
from typing import Any

from abilities.helpers.search import postings
from abilities.helpers.search.question import Postings
from abilities.helpers.search.rankings import Ranking
from abilities.helpers.search.recall import (
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
from abilities.helpers.stores.protocol import Recalled
from abilities.helpers.stores.recalling import FIRST_BATCH, count_bytes, take_turns
from abilities.helpers.stores.sqlite.queries import read_counter, select_passing
from abilities.helpers.stores.sqlite.reads import read
from abilities.helpers.stores.sqlite.recall_links import RecallLinks
from abilities.helpers.stores.sqlite.recall_recent import RecentTerms

_BLOCKS = """
SELECT t.term, t.block, t.docs FROM recall_segments AS s CROSS JOIN recall_terms AS t
WHERE s.namespace = ? AND t.segment = s.segment AND t.archived = ?
AND t.term IN (SELECT value FROM json_each(?)) AND length(t.docs) > 0 AND length(t.docs) % 2 = 0
"""
_RECENT = """
SELECT doc, CAST(terms AS BLOB) FROM recall_recent WHERE namespace = ? AND archived = ? ORDER BY doc
"""
_KEYS = """
SELECT d.doc, m.key FROM json_each(?) AS asked
CROSS JOIN recall_docs AS d ON d.namespace = ? AND d.doc = asked.value
CROSS JOIN memories AS m ON m.rowid = d.memory AND +m.namespace = d.namespace
"""
_MATCHING = """
SELECT d.doc FROM shelf AS s CROSS JOIN recall_docs AS d ON d.memory = s.memory
WHERE s.namespace = ? AND {condition} LIMIT ?
"""
_PASSING = """
SELECT d.doc FROM json_each(?) AS asked
CROSS JOIN recall_docs AS d ON d.namespace = ? AND d.doc = asked.value
CROSS JOIN shelf AS s INDEXED BY shelf_memory ON s.memory = d.memory
WHERE s.namespace = d.namespace AND {condition}
"""


def recall(
    connection: sqlite3.Connection,
    namespace: str,
    request: RecallRequest,
    room: int,
    starts: Sequence[int],
) -> Recalled:
    """Rank what answers questions, and load memories as long as there is room."""
    rankings = _rank(connection, namespace, request)

    memories: dict[str, StoredMemory | Exception] = {}
    keys = take_turns(rankings, starts)
    size = FIRST_BATCH
    while room >= 0 and (batch := list(islice(keys, size))):
        found = read(connection, namespace, batch)
        memories.update(zip(batch, found, strict=True))

        room -= sum(count_bytes(memory) for memory in found)
        size *= 2

    return Recalled(rankings, memories)


def _rank(
    connection: sqlite3.Connection, namespace: str, request: RecallRequest
) -> tuple[Ranking, ...]:
    """Answer the requests of a ranking until it is done."""
    conversation = rank(request)
    links = RecallLinks(connection, namespace, request.filters)
    answer: Any = None

    while True:
        try:
            fetch = conversation.send(answer)
        except StopIteration as end:
            rankings: tuple[Ranking, ...] = end.value
            return rankings

        answer = _answer(connection, namespace, fetch, links)


def _answer(
    connection: sqlite3.Connection, namespace: str, fetch: Fetch, links: RecallLinks
) -> object:
    match fetch:
        case FetchBlocks(terms, archived):
            return _fetch_index(connection, namespace, terms, archived=archived)
        case FetchMatching(filters, limit):
            return _fetch_matching(connection, namespace, filters, limit)
        case FetchPassing(filters, docs):
            return _fetch_passing(connection, namespace, filters, docs)
        case FetchKeys(docs):
            return dict(connection.execute(_KEYS, (json.dumps(docs), namespace)).fetchall())
        case FetchLinks(_, keys):
            return links.read(keys)


def _fetch_index(
    connection: sqlite3.Connection, namespace: str, terms: Sequence[str], *, archived: bool
) -> IndexBlocks:
    size = read_counter(connection, namespace, "all", "", archived=False)
    blocks = _fetch_side(connection, namespace, terms, 0)
    archived_blocks: Postings = {}
    if archived:
        archived_blocks = _fetch_side(connection, namespace, terms, 1)

    return IndexBlocks(size, blocks, archived_blocks)


def _fetch_side(
    connection: sqlite3.Connection, namespace: str, terms: Sequence[str], side: int
) -> Postings:
    """Return the postings of terms on one side of the index, those of recent memories among them.

    Recent memories have higher numbers than all others in the same block.
    """
    blocks: dict[str, dict[int, bytes]] = {term: {} for term in terms}
    for term, block, docs in connection.execute(_BLOCKS, (namespace, side, json.dumps(terms))):
        blocks[term][block] = docs

    recent = RecentTerms(connection.execute(_RECENT, (namespace, side)))
    for term, by_block in blocks.items():
        added: dict[int, list[bytes]] = defaultdict(list)
        for doc, weight in recent.find(term):
            added[postings.block_of(doc)].append(postings.pack(doc, weight))
        for block, docs in added.items():
            by_block[block] = by_block.get(block, b"") + b"".join(docs)

    return blocks


def _fetch_matching(
    connection: sqlite3.Connection, namespace: str, filters: Filters, limit: int
) -> set[int] | None:
    condition, values = select_passing(filters)
    statement = _MATCHING.format(condition=condition)
    docs = connection.execute(statement, (namespace, *values, limit + 1)).fetchall()
    if len(docs) > limit:
        return None

    return {doc for (doc,) in docs}


def _fetch_passing(
    connection: sqlite3.Connection, namespace: str, filters: Filters, docs: Sequence[int]
) -> set[int]:
    condition, values = select_passing(filters)
    statement = _PASSING.format(condition=condition)
    found = connection.execute(statement, (json.dumps(docs), namespace, *values))
    return {doc for (doc,) in found}
