"""Comparing the recall index in PostgreSQL with the memories, and making it anew."""

from collections import defaultdict
from collections.abc import AsyncIterator
from hashlib import blake2b
from typing import NamedTuple

from abilities.declarations.faults import Refused
from abilities.helpers.search import postings
from abilities.helpers.search.terms import Language
from abilities.helpers.stores.model import Row, verify_row
from abilities.helpers.stores.postgres.reads import COLUMNS
from abilities.helpers.stores.postgres.recall_index import (
    IndexedMemory,
    Postings,
    collect_postings,
    find_language,
    merge_weights,
    read_changes,
    read_language,
    read_postings,
    save_postings,
)
from abilities.helpers.stores.postgres.statements import (
    Connection,
    Select,
    Statement,
    split,
    stream,
    to_text,
)

_NUMBERED = f"""
SELECT s.doc, m.hash, {COLUMNS} FROM shelf AS s
LEFT JOIN memories AS m ON m.namespace = s.namespace AND m.id = s.id AND m.key = s.key
WHERE s.namespace = %s ORDER BY s.doc
"""
_STORED = "SELECT archived, term, block, docs FROM recall_terms WHERE namespace = %s"
_NAMESPACES = Select(
    """
    SELECT namespace FROM shelf UNION SELECT namespace FROM recall_terms
    UNION SELECT namespace FROM recall_recent ORDER BY 1
    """,
    to_text,
)
_DELETE_TERMS = Statement("DELETE FROM recall_terms WHERE namespace = %s")
_DELETE_RECENT = Statement("DELETE FROM recall_recent WHERE namespace = %s")
# Memories are moved within the table, because deleting a row and inserting it again would count it
# again: 8 changes per memory, to so few counters that each change searches all those before it.
_CLOSE_GAPS = Statement("""
    WITH size AS (SELECT count(*) AS number FROM shelf WHERE namespace = %s),
    free AS (
        SELECT possible.doc, row_number() OVER (ORDER BY possible.doc) AS place
        FROM size CROSS JOIN generate_series(0, size.number - 1) AS possible (doc)
        WHERE NOT EXISTS (SELECT FROM shelf AS s WHERE s.namespace = %s AND s.doc = possible.doc)
    ),
    outside AS (
        SELECT id, row_number() OVER (ORDER BY doc) AS place FROM shelf CROSS JOIN size
        WHERE namespace = %s AND doc NOT BETWEEN 0 AND size.number - 1
    )
    UPDATE shelf AS s SET doc = free.doc FROM outside JOIN free ON free.place = outside.place
    WHERE s.namespace = %s AND s.id = outside.id
""")
_DELETE_LANGUAGE = Statement("DELETE FROM recall_language")
_SAVE_LANGUAGE = Statement("INSERT INTO recall_language VALUES (%s)")


class _Block(NamedTuple):
    """What a block of the index is made of; ``damaged`` are the numbers of damaged memories."""

    number: int
    memories: list[IndexedMemory]
    damaged: list[int]


async def find_wrong_namespaces(connection: Connection) -> list[str]:
    """Return the namespaces whose index is not the one of their memories."""
    wrong: list[str] = []
    for namespace in await _NAMESPACES.fetch(connection):
        if not await is_index_sound(connection, namespace):
            wrong.append(namespace)

    return wrong


async def is_index_sound(connection: Connection, namespace: str) -> bool:
    """Return whether a namespace's index is that of its memories; damaged ones are left out.

    Sums of hashes are compared, so that the index can be read in any order.
    """
    language = await read_language(connection)
    expected = 0
    damaged: dict[int, list[int]] = {}
    async for block in _read_blocks(connection, namespace):
        expected += sum(map(_hash, collect_postings(block.memories, language)))
        if block.damaged:
            damaged[block.number] = block.damaged

    return expected == await _sum_stored(connection, namespace, damaged)


async def rebuild_index(connection: Connection, namespace: str) -> None:
    """Make the index of a namespace anew.

    Memories whose numbers are impossible, or larger than need be, get those that are free.
    """
    await _CLOSE_GAPS.execute(connection, namespace, namespace, namespace, namespace)
    await _DELETE_TERMS.execute(connection, namespace)
    await _DELETE_RECENT.execute(connection, namespace)

    language = await read_language(connection)
    async for block in _read_blocks(connection, namespace):
        await _save_block(connection, namespace, block, language)


async def mend_language(connection: Connection) -> None:
    """Write the language of the index anew if it is damaged: the one that all others then take."""
    language = await find_language(connection)
    if language is None:
        await _DELETE_LANGUAGE.execute(connection)
        await _SAVE_LANGUAGE.execute(connection, Language().name)


async def _save_block(
    connection: Connection, namespace: str, block: _Block, language: Language
) -> None:
    collected = collect_postings(block.memories, language)
    async for portion in split(collected):
        await save_postings(connection, namespace, portion)


async def _read_blocks(connection: Connection, namespace: str) -> AsyncIterator[_Block]:
    block = _Block(0, [], [])
    async for doc, stored_hash, *values in stream(connection, _NUMBERED, namespace):
        if postings.block_of(doc) != block.number:
            yield block
            block = _Block(postings.block_of(doc), [], [])

        row = Row._make(values)
        if _is_sound(row, stored_hash):
            indexed = IndexedMemory(doc, row.archived, row.key, row.summary, row.content)
            block.memories.append(indexed)
        else:
            block.damaged.append(doc)

    yield block


async def _sum_stored(connection: Connection, namespace: str, damaged: dict[int, list[int]]) -> int:
    """Return the sum of the hashes of a namespace's postings, with all recent changes in them."""
    changes = await read_changes(connection, namespace)
    before = await read_postings(connection, namespace, list(changes))

    total = 0
    async for columns in stream(connection, _STORED, namespace):
        stored = Postings._make(columns)
        if stored.place not in changes:
            total += _hash(_leave_out(stored, damaged))

    unchanged: dict[object, bytes] = defaultdict(bytes)
    for stored in before:
        unchanged[stored.place] = stored.docs
    for place, weights in changes.items():
        merged = Postings(*place, merge_weights(unchanged[place], weights))
        total += _hash(_leave_out(merged, damaged))

    return total


def _leave_out(stored: Postings, damaged: dict[int, list[int]]) -> Postings:
    docs = stored.docs
    for doc in damaged.get(stored.block, ()):
        docs = postings.remove(docs, doc)

    return stored._replace(docs=docs)


def _hash(stored: Postings) -> int:
    """Return a hash of postings; 0 of none."""
    if not stored.docs:
        return 0

    name = f"{stored.archived} {stored.block} {stored.term} ".encode()
    return int.from_bytes(blake2b(name + stored.docs, digest_size=8).digest())


def _is_sound(row: Row, stored_hash: int | None) -> bool:
    if stored_hash is None:
        return False

    try:
        verify_row(row, stored_hash)
    except Refused:
        return False

    return True
