"""How an SQLite store is searched: its search index holds the memories of all namespaces."""

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from abilities.helpers.store.query import SEPARATOR, Matches, Numbers, Query, SearchPlan
from abilities.helpers.store.sqlite.search import BYTES_OF_COLUMNS, format_code_point

_SCAN_LIMIT = 1_000
"""Up to so many memories are scanned, if the search index has those of other namespaces too."""

_MATCHES_PER_ROW = 4
"""Matches in the search index that are looked up in the time in which one memory is scanned."""

# The texts stand in another table, and are read for each memory that is met.
_HAS_TERMS = f"(SELECT has_terms(?, {BYTES_OF_COLUMNS}) FROM memories WHERE rowid = s.memory)"
_FIRST_AND_LAST = "SELECT (SELECT min(namespace) FROM shelf), (SELECT max(namespace) FROM shelf)"


def plan_search(
    connection: sqlite3.Connection, namespace: str, query: Query, numbers: Numbers
) -> SearchPlan:
    """Return whether a search begins with the matches of its index, or scans memories."""
    size, visible, fewest = numbers
    scanned = Matches(_HAS_TERMS, (SEPARATOR.join(query.search),))
    is_only = _is_only_namespace(connection, namespace)
    if size <= _SCAN_LIMIT and not is_only:
        return SearchPlan(scanned, scanned, are_few=True)

    # So a count takes no longer than the namespace is large, whatever the others hold.
    source = _find_source(query.search)
    most = _MATCHES_PER_ROW * fewest
    counted = f"SELECT 1 FROM {source.table} WHERE {source.condition} LIMIT ?"
    (number,) = connection.execute(
        f"SELECT count(*) FROM ({counted})", (*source.values, most + 1)
    ).fetchone()
    if number > most:
        return SearchPlan(scanned, scanned)

    total: int | None = None
    if is_only and visible == size and not query.tags and not query.filters:
        total = number
    joined = f"s.memory = {source.table}.rowid AND {source.condition}"
    tables = f"{source.table} CROSS JOIN shelf AS s INDEXED BY shelf_memory"
    found = Matches(joined, source.values, tables)
    if number * number <= size * (query.offset + query.limit):
        return SearchPlan(found, found, are_few=True)
    return SearchPlan(found, scanned, total=total)


def _is_only_namespace(connection: sqlite3.Connection, namespace: str) -> bool:
    """Return whether no other namespace has memories."""
    ends = connection.execute(_FIRST_AND_LAST).fetchone()
    return bool(ends == (namespace, namespace))


class _SearchSource(NamedTuple):
    """The full-text table where the memories with all terms are found, and on what condition."""

    table: str
    condition: str
    values: tuple[str, ...]


def _find_source(terms: Sequence[str]) -> _SearchSource:
    """Return how to search for case-folded terms, one at least.

    A memory matches if and only if its searchable text contains them all: both tables are exact.
    """
    long_match = " AND ".join(_quote(term) for term in terms if len(term) >= 3)
    short_match = " AND ".join(_join_code_points(term) for term in terms if len(term) < 3)

    if not short_match:
        return _SearchSource("search", "search MATCH ?", (long_match,))
    if not long_match:
        return _SearchSource("search_short", "search_short MATCH ?", (short_match,))

    has_short = "search.rowid IN (SELECT rowid FROM search_short WHERE search_short MATCH ?)"
    return _SearchSource("search", f"search MATCH ? AND {has_short}", (long_match, short_match))


def _join_code_points(text: str) -> str:
    return "x".join(map(format_code_point, text))


def _quote(text: str) -> str:
    escaped = text.replace('"', '""')
    return f'"{escaped}"'
