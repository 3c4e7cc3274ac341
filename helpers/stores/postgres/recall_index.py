"""The recall index in PostgreSQL, in a transaction that holds the lock of its namespace.

It says which memories of a namespace hold which terms, see `abilities.helpers.search.postings`.
Each memory has a number in its namespace. The postings of archived memories are kept apart.

A change is first written as one row of recall_recent: all terms of the memory that it adds, weighs
anew or removes. When a namespace has many, a later change merges them into the postings. So a
common term, which nearly every memory changes, is not rewritten each time.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from abilities.helpers.search import postings
from abilities.helpers.search.terms import Language, weigh_terms
from abilities.helpers.stores.model import Row
from abilities.helpers.stores.postgres.statements import (
    Connection,
    Select,
    Statement,
    split,
    to_columns,
    to_text,
)
from abilities.helpers.stores.recalling import parse_language

MOST_RECENT = 16_384
"""Weights that the recent changes of a namespace hold before they are merged."""

LAST_BLOCK = 2**31 - 1
"""The highest number that the column of blocks can hold."""

REMOVED = 0
"""The weight of a term that a memory no longer holds."""


class TermBlock(NamedTuple):
    """Where postings are kept: on a side, by their term and block."""

    archived: int
    term: str
    block: int


class Postings(NamedTuple):
    """The postings of a place."""

    archived: int
    term: str
    block: int
    docs: bytes

    @property
    def place(self) -> TermBlock:
        """Where they are kept."""
        return TermBlock(self.archived, self.term, self.block)


class IndexedMemory(NamedTuple):
    """What the index is made of: a memory's number, its side, and its texts."""

    doc: int
    archived: int
    key: str
    summary: str
    content: str


class _RecentChange(NamedTuple):
    number: int
    doc: int
    archived: int
    terms: list[str]
    weights: bytes


class _SideTerms(NamedTuple):
    """Terms with their weights of now, of a memory on one side."""

    archived: int
    weights: dict[str, int]


_LANGUAGE = Select("SELECT name FROM recall_language", to_text)
_ADD_RECENT = Statement("""
    INSERT INTO recall_recent (namespace, doc, archived, terms, weights)
    SELECT namespace, doc, %s, %s, %s FROM shelf WHERE namespace = %s AND id = %s
""")
_TAKE_RECENT = Select(
    """
    DELETE FROM recall_recent WHERE namespace = %s
    RETURNING number, doc, archived, terms, weights
    """,
    _RecentChange._make,
    is_binary=True,
)
_READ_RECENT = Select(
    """
    SELECT number, doc, archived, terms, weights FROM recall_recent WHERE namespace = %s
    """,
    _RecentChange._make,
    is_binary=True,
)
_READ_POSTINGS = Select(
    """
    SELECT t.archived, t.term, t.block, t.docs
    FROM unnest(%s::int2[], %s::text[], %s::int4[]) AS place (archived, term, block)
    JOIN recall_terms AS t ON t.namespace = %s AND t.archived = place.archived
        AND t.term = place.term AND t.block = place.block
    """,
    Postings._make,
    is_binary=True,
)
_READ_BLOCK = Select(
    "SELECT archived, term, block, docs FROM recall_terms WHERE namespace = %s AND block = %s",
    Postings._make,
    is_binary=True,
)
_SAVE_POSTINGS = Statement("""
    INSERT INTO recall_terms (namespace, archived, term, block, docs)
    SELECT %s, * FROM unnest(%s::int2[], %s::text[], %s::int4[], %s::bytea[])
    ON CONFLICT (namespace, archived, term, block) DO UPDATE SET docs = EXCLUDED.docs
""")
_DELETE_POSTINGS = Statement("""
    DELETE FROM recall_terms AS t
    USING unnest(%s::int2[], %s::text[], %s::int4[]) AS place (archived, term, block)
    WHERE t.namespace = %s AND t.archived = place.archived AND t.term = place.term
        AND t.block = place.block
""")


async def read_language(connection: Connection) -> Language:
    """Return the language that the index is kept in; the default one if it is damaged."""
    return await find_language(connection) or Language()


async def find_language(connection: Connection) -> Language | None:
    """Return the language that the index is kept in; None if it is damaged."""
    return parse_language(await _LANGUAGE.fetch(connection))


async def note_change(
    connection: Connection, before: Row | None, after: Row | None, language: Language
) -> None:
    """Write what a change of a memory means to the index; the memory has its row in the shelf."""
    row = after or before
    assert row is not None, "a change concerns a memory"

    for archived, weights in _compare_terms(before, after, language):
        await _ADD_RECENT.execute(
            connection,
            archived,
            list(weights),
            bytes(weights.values()),
            row.namespace,
            row.id,
        )


def _compare_terms(before: Row | None, after: Row | None, language: Language) -> list[_SideTerms]:
    """Return the terms that a memory gains, weighs anew or loses, by side."""
    old = _weigh(before, after, language)
    new = _weigh(after, before, language)

    changed: list[_SideTerms] = []
    for archived in (0, 1):
        removed = dict.fromkeys(old.get(archived, {}), REMOVED)
        weights = removed | new.get(archived, {})
        kept = old.get(archived, {}).items()
        different = dict(sorted(weights.items() - kept))
        if different:
            changed.append(_SideTerms(archived, different))

    return changed


def _weigh(row: Row | None, other: Row | None, language: Language) -> dict[int, dict[str, int]]:
    """Return the weights of a memory's terms by its side; none if the other row has the same."""
    if row is None or (other is not None and _get_indexed(row) == _get_indexed(other)):
        return {}

    return {row.archived: weigh_terms(row.key, row.summary, row.content, language)}


def _get_indexed(row: Row) -> tuple[object, ...]:
    return row.archived, row.key, row.summary, row.content


async def merge_recent(connection: Connection, namespace: str) -> None:
    """Merge the recent changes of a namespace into its postings."""
    changes = _collect_changes(await _TAKE_RECENT.fetch(connection, namespace))
    stored = await read_postings(connection, namespace, list(changes))

    docs = {found.place: found.docs for found in stored}
    merged = [
        Postings(*place, merge_weights(docs.get(place, b""), changes[place]))
        for place in sorted(changes)
    ]
    await _replace(connection, namespace, merged)


async def read_changes(connection: Connection, namespace: str) -> dict[TermBlock, dict[int, int]]:
    """Return what the recent changes of a namespace mean: by place, the weights of memories."""
    return _collect_changes(await _READ_RECENT.fetch(connection, namespace))


def _collect_changes(recent: Iterable[_RecentChange]) -> dict[TermBlock, dict[int, int]]:
    """Return what changes mean, without those that damage made impossible."""
    changes: dict[TermBlock, dict[int, int]] = {}
    for change in sorted(recent):
        block = postings.block_of(change.doc)
        if not 0 <= block <= LAST_BLOCK:
            continue

        for term, weight in zip(change.terms, change.weights, strict=False):
            place = TermBlock(change.archived, term, block)
            changes.setdefault(place, {})[change.doc] = weight

    return changes


async def read_postings(
    connection: Connection, namespace: str, places: Sequence[TermBlock]
) -> list[Postings]:
    """Return the postings of those places that have some."""
    found: list[Postings] = []
    async for portion in split(sorted(places)):
        found += await _READ_POSTINGS.fetch(connection, *to_columns(portion), namespace)

    return found


async def remove_doc(connection: Connection, namespace: str, doc: int) -> None:
    """Remove a memory by its number, whatever its terms were."""
    await merge_recent(connection, namespace)

    block = await _READ_BLOCK.fetch(connection, namespace, postings.block_of(doc))
    changed: list[Postings] = []
    for stored in block:
        docs = postings.remove(stored.docs, doc)
        if docs != stored.docs:
            changed.append(stored._replace(docs=docs))

    await _replace(connection, namespace, changed)


def merge_weights(docs: bytes, weights: Mapping[int, int]) -> bytes:
    """Return the postings of a block with the weights that some memories have now."""
    for doc in sorted(weights):
        docs = postings.remove(docs, doc)
        if weights[doc] != REMOVED:
            docs = postings.add(docs, doc, weights[doc])

    return docs


def collect_postings(memories: Iterable[IndexedMemory], language: Language) -> list[Postings]:
    """Return the postings of memories, which come in the order of their numbers."""
    collected: dict[TermBlock, bytearray] = {}
    for doc, archived, key, summary, content in memories:
        block = postings.block_of(doc)
        for term, weight in weigh_terms(key, summary, content, language).items():
            place = TermBlock(archived, term, block)
            collected.setdefault(place, bytearray()).extend(postings.pack(doc, weight))

    return [Postings(*place, bytes(collected[place])) for place in sorted(collected)]


async def save_postings(
    connection: Connection, namespace: str, replaced: Iterable[Postings]
) -> None:
    """Write postings in place of those that stand there."""
    columns = to_columns(replaced)
    if columns:
        await _SAVE_POSTINGS.execute(connection, namespace, *columns)


async def _replace(connection: Connection, namespace: str, replaced: Sequence[Postings]) -> None:
    """Write postings in place of those that stand there, and delete those that are empty."""
    await save_postings(connection, namespace, [one for one in replaced if one.docs])

    empty: list[Any] = [one[:-1] for one in replaced if not one.docs]
    if empty:
        await _DELETE_POSTINGS.execute(connection, *to_columns(empty), namespace)
