"""The recall index of an SQLite store, in a transaction of the caller.

It says which memories of a namespace hold which terms. Each memory has a number in its namespace,
and 1,024 numbers are a block. While a block is not full, the terms of each of its memories are one
row of ``recall_recent``. Then they move to ``recall_terms``, one row per term, in the format of
`abilities.helpers.search.postings`. So a new memory writes one row instead of one per term. In
``recall_terms`` a segment number stands for the namespace and 16 blocks in a row, because rows are
small. The rows of a term in a segment are neighbors, so a question reads few pages, and a block
that has become full changes the pages of one segment only.
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from abilities.helpers.search import postings
from abilities.helpers.search.terms import Language, weigh_terms
from abilities.helpers.stores.model import Row
from abilities.helpers.stores.recalling import parse_language
from abilities.helpers.stores.sqlite.recall_recent import pack_terms, unpack_terms

SEGMENT_BLOCKS = 16
"""Blocks of a segment: the more, the fewer pages a question reads, and the more a block changes."""

# Only damage leaves a row in the place of a new one. It must not keep memories from being stored.
_NUMBER = """
INSERT OR REPLACE INTO recall_docs (memory, namespace, doc) VALUES (?1, ?2, coalesce((
    SELECT doc + 1 FROM recall_docs WHERE namespace = ?2 ORDER BY doc DESC LIMIT 1
), 0)) RETURNING doc
"""
_ADD_RECENT = """
INSERT OR REPLACE INTO recall_recent (namespace, doc, archived, terms) VALUES (?, ?, ?, ?)
"""
_CHANGE_RECENT = """
UPDATE recall_recent SET archived = ?, terms = ? WHERE namespace = ? AND doc = ?
"""
_REMOVE_RECENT = "DELETE FROM recall_recent WHERE namespace = ? AND doc = ?"
_MOVE_RECENT = """
DELETE FROM recall_recent WHERE namespace = ? AND doc BETWEEN ? AND ?
RETURNING doc, archived, CAST(terms AS BLOB)
"""
_ADD_SEGMENT = """
INSERT INTO recall_segments (namespace, part) VALUES (?, ?)
ON CONFLICT DO UPDATE SET part = excluded.part RETURNING segment
"""
_APPEND = """
INSERT INTO recall_terms (segment, archived, block, term, docs) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET docs = CAST(docs || excluded.docs AS BLOB)
"""
_REPLACE = """
INSERT INTO recall_terms (segment, archived, block, term, docs) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET docs = excluded.docs
"""
_DELETE = """
DELETE FROM recall_terms WHERE segment = ? AND archived = ? AND block = ? AND term = ?
"""
_READ_TERMS = """
SELECT term, docs FROM recall_terms
WHERE segment = ? AND archived = ? AND block = ? AND term IN (SELECT value FROM json_each(?))
"""
_READ_BLOCK = """
SELECT archived, CAST(term AS BLOB), docs FROM recall_terms WHERE segment = ? AND block = ?
"""


class _Place(NamedTuple):
    """Where the index has a memory of a full block: by its number, on one of two sides."""

    segment: int
    archived: int
    doc: int

    @property
    def block(self) -> int:
        """The block that the memory belongs to."""
        return postings.block_of(self.doc)


def read_language(connection: sqlite3.Connection) -> Language:
    """Return the language that the index is kept in; the default one if it is damaged."""
    return find_language(connection) or Language()


def find_language(connection: sqlite3.Connection) -> Language | None:
    """Return the language that the index is kept in; None if it is damaged."""
    names = connection.execute("SELECT CAST(name AS BLOB) FROM recall_language").fetchall()
    return parse_language([name.decode(errors="replace") for (name,) in names])


def add_terms(connection: sqlite3.Connection, memory: int, row: Row) -> None:
    """Add a memory that the index does not know; ``memory`` is its rowid."""
    ((doc,),) = connection.execute(_NUMBER, (memory, row.namespace)).fetchall()
    terms = pack_terms(_weigh(connection, row))
    connection.execute(_ADD_RECENT, (row.namespace, doc, row.archived, terms))

    if (doc + 1) % postings.BLOCK_DOCS == 0:
        _move_recent(connection, row.namespace, doc)


def change_terms(connection: sqlite3.Connection, memory: int, before: Row, after: Row) -> None:
    """Let the index follow a change of a memory, which may have archived or renamed it."""
    indexed_before = (before.key, before.summary, before.content, before.archived)
    if indexed_before == (after.key, after.summary, after.content, after.archived):
        return

    doc = _find_doc(connection, memory)
    if doc is None:  # damage took it
        add_terms(connection, memory, after)
        return

    new_terms = _weigh(connection, after)
    values = (after.archived, pack_terms(new_terms), after.namespace, doc)
    if connection.execute(_CHANGE_RECENT, values).rowcount:
        return

    old_terms = _weigh(connection, before)
    place = _Place(_add_segment(connection, after.namespace, doc), after.archived, doc)
    if before.archived != after.archived:
        _write(connection, place._replace(archived=before.archived), old_terms, {})
        _write(connection, place, (), new_terms)
    else:
        changed = dict(new_terms.items() - old_terms.items())
        _write(connection, place, old_terms.keys() - new_terms.keys(), changed)


def remove_terms(connection: sqlite3.Connection, memory: int, row: Row) -> None:
    """Remove a memory; ``row`` must be the one that was added."""
    doc = _find_doc(connection, memory)
    if doc is None:
        return

    connection.execute("DELETE FROM recall_docs WHERE memory = ?", (memory,))
    if not connection.execute(_REMOVE_RECENT, (row.namespace, doc)).rowcount:
        place = _Place(_add_segment(connection, row.namespace, doc), row.archived, doc)
        _write(connection, place, _weigh(connection, row), {})


def remove_indexed_terms(connection: sqlite3.Connection, memory: int) -> None:
    """Remove whatever the index has of a memory.

    This reads a whole segment of the index, and is for memories that are damaged themselves.
    """
    found = connection.execute(
        "DELETE FROM recall_docs WHERE memory = ? RETURNING CAST(namespace AS BLOB), doc", (memory,)
    ).fetchall()

    for name, doc in found:
        namespace = name.decode(errors="replace")
        connection.execute(_REMOVE_RECENT, (namespace, doc))

        sides: dict[int, list[str]] = {}
        segment = _add_segment(connection, namespace, doc)
        values = (segment, postings.block_of(doc))
        for archived, term, docs in connection.execute(_READ_BLOCK, values):
            if postings.find_weight(docs, doc):
                sides.setdefault(archived, []).append(term.decode(errors="replace"))

        for archived, terms in sides.items():
            _write(connection, _Place(segment, archived, doc), terms, {})


def _weigh(connection: sqlite3.Connection, row: Row) -> dict[str, int]:
    return weigh_terms(row.key, row.summary, row.content, read_language(connection))


def _find_doc(connection: sqlite3.Connection, memory: int) -> int | None:
    found: tuple[int] | None = connection.execute(
        "SELECT doc FROM recall_docs WHERE memory = ?", (memory,)
    ).fetchone()
    if found is None:
        return None

    (doc,) = found
    return doc


def _add_segment(connection: sqlite3.Connection, namespace: str, doc: int) -> int:
    """Return the segment of a memory's block; it is made if there is none."""
    values = (namespace, postings.block_of(doc) // SEGMENT_BLOCKS)
    ((segment,),) = connection.execute(_ADD_SEGMENT, values).fetchall()
    return int(segment)


def _move_recent(connection: sqlite3.Connection, namespace: str, last: int) -> None:
    """Move the recent memories of a block, up to its last number, to its rows by term."""
    segment = _add_segment(connection, namespace, last)
    values = (namespace, last - postings.BLOCK_DOCS + 1, last)
    moved: dict[tuple[int, str], bytearray] = {}

    for doc, archived, terms in sorted(connection.execute(_MOVE_RECENT, values)):
        for term, weight in unpack_terms(terms.decode(errors="replace")).items():
            docs = moved.setdefault((archived, term), bytearray())
            docs += postings.pack(doc, weight)

    # Sorted, because neighbors share a page. A recent number is higher than all in the block.
    block = postings.block_of(last)
    rows = [
        (segment, archived, block, term, bytes(docs))
        for (archived, term), docs in sorted(moved.items())
    ]
    connection.executemany(_APPEND, rows)


def _write(
    connection: sqlite3.Connection,
    place: _Place,
    removed: Iterable[str],
    added: Mapping[str, int],
) -> None:
    """Remove and add postings of one memory; those that are added replace earlier ones."""
    side = (place.segment, place.archived, place.block)
    names = [*removed, *added]
    cursor = connection.execute(_READ_TERMS, (*side, json.dumps(names)))
    blocks: dict[str, bytes] = dict(cursor.fetchall())

    for term in names:
        docs = blocks.get(term, b"")
        if term in added:
            blocks[term] = postings.add(docs, place.doc, added[term])
        else:
            blocks[term] = postings.remove(docs, place.doc)

    kept = [(*side, term, docs) for term, docs in blocks.items() if docs]
    empty = [(*side, term) for term, docs in blocks.items() if not docs]
    connection.executemany(_REPLACE, kept)
    connection.executemany(_DELETE, empty)
