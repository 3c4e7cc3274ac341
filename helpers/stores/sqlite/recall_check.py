"""The check of the recall index of an SQLite store against the memories, in one snapshot."""

import sqlite3
from array import array
from collections.abc import Mapping
from operator import lt, mul
from zlib import crc32

from abilities.helpers.search import postings
from abilities.helpers.search.terms import weigh_terms
from abilities.helpers.stores.sqlite.recall_index import SEGMENT_BLOCKS, find_language
from abilities.helpers.stores.sqlite.recall_recent import pack_terms, unpack_terms

# As bytes, because a damaged text need not be UTF-8.
_MEMORIES = """
SELECT CAST(m.namespace AS BLOB), CAST(d.namespace AS BLOB), d.doc, m.archived,
    CAST(m.key AS BLOB), CAST(m.summary AS BLOB), CAST(m.content AS BLOB)
FROM memories AS m LEFT JOIN recall_docs AS d ON d.memory = m.rowid
"""
_RECENT = """
SELECT CAST(namespace AS BLOB), doc, archived, CAST(terms AS BLOB) FROM recall_recent
"""
_TERMS = """
SELECT CAST(s.namespace AS BLOB), s.part, t.block, t.archived, CAST(t.term AS BLOB), t.docs
FROM recall_terms AS t LEFT JOIN recall_segments AS s ON s.segment = t.segment
"""
_STRAY_DOCS = "SELECT 1 FROM recall_docs WHERE memory NOT IN (SELECT rowid FROM memories)"


def compare_recall_index(connection: sqlite3.Connection) -> list[str]:
    """Return which tables of the recall index are not made of the texts of the memories.

    A sum over all postings tells, in which their order does not count.
    """
    language = find_language(connection)
    if language is None:
        return ["recall_language"]

    wrong: dict[str, None] = {}
    expected = 0
    for namespace, indexed_namespace, doc, archived, *texts in connection.execute(_MEMORIES):
        if doc is None or namespace != indexed_namespace:
            wrong["recall_docs"] = None
        else:
            key, summary, content = map(_decode, texts)
            weights = weigh_terms(key, summary, content, language)
            expected += _sum_memory(namespace, archived, doc, weights)

    if connection.execute(_STRAY_DOCS).fetchone() is not None:
        wrong["recall_docs"] = None

    try:
        indexed = _sum_recent(connection) + _sum_blocks(connection)
    except (ValueError, OverflowError):
        indexed = -1
    if indexed != expected:
        wrong["recall_terms"] = None

    return list(wrong)


def _sum_recent(connection: sqlite3.Connection) -> int:
    """Return the sum over the recent memories. Raises ValueError if they are damaged."""
    total = 0
    for namespace, doc, archived, terms in connection.execute(_RECENT):
        text = terms.decode()
        weights = unpack_terms(text)
        if pack_terms(weights) != text:
            raise ValueError(terms)
        total += _sum_memory(namespace, archived, doc, weights)

    return total


def _sum_memory(namespace: bytes, archived: int, doc: int, weights: Mapping[str, int]) -> int:
    side = _hash_side(namespace, archived)
    total = 0
    for term, weight in weights.items():
        posting = doc << 6 | weight
        total += crc32(term.encode(), side) * posting * posting

    return total


def _sum_blocks(connection: sqlite3.Connection) -> int:
    """Return the sum over the full blocks.

    Raises ValueError if they are damaged, OverflowError if the number of a block is impossible.
    """
    total = 0
    for namespace, part, block, archived, term, docs in connection.execute(_TERMS):
        if namespace is None or part != block // SEGMENT_BLOCKS or not docs:
            raise ValueError(term)

        first = block * postings.BLOCK_DOCS << 6
        values = array("Q", [first + value for value in postings.decode(docs)])
        if not all(map(lt, values, values[1:])):
            raise ValueError(term)
        total += crc32(term, _hash_side(namespace, archived)) * sum(map(mul, values, values))

    return total


def _hash_side(namespace: bytes, archived: int) -> int:
    return crc32(b"%d %s " % (archived, namespace))


def _decode(text: bytes) -> str:
    return text.decode(errors="replace")
