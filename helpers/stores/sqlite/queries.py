"""Queries, totals and statistics in an SQLite store, in a snapshot of the caller."""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from abilities.declarations.faults import Refused
from abilities.helpers.search.recall import Filters
from abilities.helpers.stores.model import StoredMemory
from abilities.helpers.stores.protocol import Stats
from abilities.helpers.stores.query import MemoryPage, Position, Query
from abilities.helpers.stores.search_text import SEPARATOR
from abilities.helpers.stores.sqlite.reads import find_row_by_id, load_memory
from abilities.helpers.stores.sqlite.search import HAS_TERMS, plan_search
from abilities.helpers.stores.stats import build_stats

Strategy = Literal["search first", "scan in order"]
"""Where a search begins.

It begins with the matches in the search index, or with the memories in the order asked for.
"""

_SORT_COLUMNS = ("created_at", "updated_at", "accessed_at", "importance", "access_count")
_SCAN_LIMIT = 1_000
"""Up to so many memories are scanned, if the search index has those of other namespaces too."""

_MATCHES_PER_ROW = 4
"""Matches in the search index that are looked up in the time in which one memory is scanned."""


class Selection(NamedTuple):
    """The memories that match: the FROM and WHERE clauses, and the values to bind.

    The clauses consist of our own names only; what the caller gave is bound.
    """

    source: str
    condition: str
    values: list[str | int]


def run_query(connection: sqlite3.Connection, namespace: str, query: Query) -> MemoryPage:
    """Return a page of matching memories, and how many match."""
    size = read_counter(connection, namespace, "all", "", archived=True)
    query, fewest = _order_tags(connection, namespace, query, size)
    is_scanned = bool(query.search) and _takes_little_to_scan(connection, namespace, size)
    matches: int | None = None
    if query.search and not is_scanned:
        matches = _count_matches(connection, query.search, _MATCHES_PER_ROW * fewest)

    # Sorting all matches costs their number; meeting them in order costs how far apart they lie.
    end = query.offset + query.limit
    if is_scanned:
        positions, total = _read_all(connection, namespace, query, "scan in order")
    elif matches is not None and matches * matches <= size * end:
        positions, total = _read_all(connection, namespace, query, "search first")
    else:
        selection = _select(namespace, query, "scan in order")
        page = f"LIMIT {query.limit + 1:d} OFFSET {query.offset:d}"
        positions = _read_positions(connection, query, selection, page)
        total = _count_total(connection, namespace, query, matches, size)

    # One more than asked for tells whether more follow.
    has_more = len(positions) > query.limit
    positions = positions[: query.limit]
    memories = [_load_by_id(connection, namespace, position.id) for position in positions]
    return MemoryPage(tuple(memories), total, tuple(positions), has_more)


def _order_tags(
    connection: sqlite3.Connection, namespace: str, query: Query, size: int
) -> tuple[Query, int]:
    """Return a query whose first tag is the rarest one, and how many memories it matches at most.

    ``size`` is the number of memories in the namespace.
    """
    numbers: list[int] = [size]
    for name, value in query.filters:
        if name != "category":
            numbers.append(
                read_counter(connection, namespace, name, str(value), archived=query.archived)
            )

    tags: list[tuple[int, str]] = []
    for tag in query.tags:
        number = read_counter(connection, namespace, "tag", tag, archived=query.archived)
        tags.append((number, tag))
        numbers.append(number)

    rarest_first = tuple(tag for _, tag in sorted(tags))
    return replace(query, tags=rarest_first), min(numbers)


def _count_matches(connection: sqlite3.Connection, terms: Sequence[str], most: int) -> int | None:
    """Return how many memories of all namespaces have all terms; None if they are more than most.

    So a count takes no longer than the namespace is large, whatever the others hold.
    """
    table, condition, values = plan_search(terms)
    first = f"(SELECT 1 FROM {table} WHERE {condition} LIMIT ?)"
    matches = _count(connection, Selection(first, "true", [*values, most + 1]))
    return matches if matches <= most else None


def _takes_little_to_scan(connection: sqlite3.Connection, namespace: str, size: int) -> bool:
    """Return whether scanning a namespace of a size beats the search index of all namespaces."""
    return size <= _SCAN_LIMIT and not _is_only_namespace(connection, namespace)


def _read_all(
    connection: sqlite3.Connection, namespace: str, query: Query, strategy: Strategy
) -> tuple[list[Position], int]:
    """Return the positions of a page, and how many memories match, after reading all of these."""
    selection = _select(namespace, query, strategy)
    every = _read_positions(connection, replace(query, after=None), selection)
    begin = _count_passed(every, query) + query.offset
    return every[begin : begin + query.limit + 1], len(every)


def _count_passed(positions: Sequence[Position], query: Query) -> int:
    """Return how many positions, which are in the query's order, it goes on behind."""
    if query.after is None:
        return 0
    if query.descending:
        return sum(position >= query.after for position in positions)

    return sum(position <= query.after for position in positions)


def _read_positions(
    connection: sqlite3.Connection, query: Query, selection: Selection, page: str = ""
) -> list[Position]:
    """Return the positions of matching memories in order; ``page`` is a LIMIT clause."""
    # The primary key of tags is sorted by access within a tag, so that this order needs no sorting.
    is_sorted_by_tags = selection.source.startswith("tags") and query.sort_by == "accessed_at"
    table = "t" if is_sorted_by_tags else "s"

    column = _SORT_COLUMNS[_SORT_COLUMNS.index(query.sort_by)]  # the SQL holds our own names only
    direction = "DESC" if query.descending else "ASC"
    by_column = f"{table}.{column} {direction}"
    by_id = f"{table}.id {direction}"  # ties have one order, so that pages neither repeat nor skip

    source, condition, values = selection
    if query.after is not None:
        comparison = "<" if query.descending else ">"
        condition += f" AND ({table}.{column}, {table}.id) {comparison} (?, ?)"
        values = [*values, *query.after]

    rows = connection.execute(
        f"SELECT {table}.{column}, {table}.id FROM {source} WHERE {condition}"
        f" ORDER BY {by_column}, {by_id} {page}",
        values,
    )
    return [Position(*row) for row in rows]


def _load_by_id(
    connection: sqlite3.Connection, namespace: str, memory_id: str
) -> StoredMemory | Exception:
    try:
        row = find_row_by_id(connection, namespace, memory_id)
    except Refused as error:
        return error

    if row is None:
        return Refused("memory_not_found")
    return load_memory(connection, row, 0)


def _select(namespace: str, query: Query, strategy: Strategy) -> Selection:
    """Build the selection of the memories that match a query.

    SQLite would choose its own order of tables and indexes; CROSS JOIN and INDEXED BY fix the one
    that is meant.
    """
    source = "shelf AS s"
    conditions = ["s.namespace = ?"]
    values: list[str | int] = [namespace]
    tags = list(query.tags)

    if query.search and strategy == "search first":
        table, condition, matches = plan_search(query.search)
        source = (
            f"{table} CROSS JOIN shelf AS s INDEXED BY shelf_memory ON s.memory = {table}.rowid"
        )
        conditions.append(condition)
        values += matches
    elif tags:
        source = "tags AS t CROSS JOIN shelf AS s ON s.namespace = t.namespace AND s.id = t.id"
        conditions += ["t.namespace = ?", "t.tag = ?"]
        values += [namespace, tags.pop(0)]
        if not query.archived:
            conditions.append("t.archived = 0")

    # The texts stand in another table, and are read for each memory that is met.
    if query.search and strategy == "scan in order":
        conditions.append(HAS_TERMS)
        values.append(SEPARATOR.join(query.search))

    filters, filter_values = _list_filters(query, tags)
    return Selection(source, " AND ".join([*conditions, *filters]), [*values, *filter_values])


def select_passing(filters: Filters) -> tuple[str, list[str | int]]:
    """Return the condition for rows of the memory index, ``s``, that pass filters, and its values.

    The namespace is left to the caller.
    """
    query = Query(
        type=filters.type,
        category=filters.category,
        importance=filters.importance,
        archived=filters.archived,
    )
    conditions, values = _list_filters(query, filters.tags)
    if filters.changed_since is not None:
        conditions.append("s.updated_at >= ?")
        values.append(filters.changed_since)

    return " AND ".join(["true", *conditions]), values


def _list_filters(query: Query, tags: Iterable[str]) -> tuple[list[str], list[str | int]]:
    """Return the conditions of a query's filters, with ``tags`` in place of its own."""
    conditions: list[str] = []
    values: list[str | int] = []

    if not query.archived:
        conditions.append("s.archived = 0")

    for tag in tags:
        conditions.append(
            "EXISTS (SELECT 1 FROM tags WHERE namespace = s.namespace AND id = s.id AND tag = ?)"
        )
        values.append(tag)

    for name, value in query.filters:
        conditions.append(f"s.{name} = ?")
        values.append(value)

    return conditions, values


def _count_total(
    connection: sqlite3.Connection, namespace: str, query: Query, matches: int | None, size: int
) -> int:
    """Return how many memories match: from a counter if one knows, else by the cheapest count.

    ``matches`` is how many memories of all namespaces have the searched terms, or None if the
    search index is not used, because scanning takes less; ``size`` is the number of memories in the
    namespace.
    """
    if matches is None:
        if query.counter is None:
            return _count(connection, _select(namespace, query, "scan in order"))

        name, value = query.counter
        return read_counter(connection, namespace, name, value, archived=query.archived)

    # If nothing in the search index is excluded by the query, every match counts.
    if not query.tags and not query.filters:
        visible = read_counter(connection, namespace, "all", "", archived=query.archived)
        if visible == size and _is_only_namespace(connection, namespace):
            return matches

    return _count(connection, _select(namespace, query, "search first"))


def _is_only_namespace(connection: sqlite3.Connection, namespace: str) -> bool:
    """Return whether no other namespace has memories."""
    first, last = connection.execute(
        "SELECT (SELECT min(namespace) FROM shelf), (SELECT max(namespace) FROM shelf)"
    ).fetchone()
    return bool(first == last == namespace)


def _count(connection: sqlite3.Connection, selection: Selection) -> int:
    source, condition, values = selection
    (count,) = connection.execute(
        f"SELECT count(*) FROM {source} WHERE {condition}", values
    ).fetchone()
    return int(count)


def read_counter(
    connection: sqlite3.Connection, namespace: str, name: str, value: str, *, archived: bool
) -> int:
    """Return a counter, with the archived memories or without them."""
    (number,) = connection.execute(
        "SELECT sum(number) FROM counters"
        " WHERE namespace = ? AND name = ? AND value = ? AND archived <= ?",
        (namespace, name, value, int(archived)),
    ).fetchone()
    return int(number or 0)


def read_stats(connection: sqlite3.Connection, namespace: str) -> Stats:
    """Return the statistics of a namespace."""
    counters: dict[tuple[str, int, str], int] = {}
    for name, archived, value, number in connection.execute(
        "SELECT name, archived, value, number FROM counters WHERE namespace = ? AND name <> 'tag'",
        (namespace,),
    ):
        counters[name, archived, value] = number

    oldest = _read_creation_time(connection, namespace, "ASC")
    newest = _read_creation_time(connection, namespace, "DESC")
    most_accessed = _read_most_accessed(connection, namespace)
    top_tags = connection.execute(
        "SELECT value, number FROM counters WHERE namespace = ? AND name = 'tag' AND archived = 0"
        " ORDER BY number DESC, value LIMIT 10",
        (namespace,),
    )
    return build_stats(counters, (oldest, newest), most_accessed, top_tags)


def _read_most_accessed(connection: sqlite3.Connection, namespace: str) -> StoredMemory | None:
    """Return the memory with the most accesses; None if there are none, or if it is damaged."""
    row = connection.execute(
        "SELECT id FROM shelf INDEXED BY shelf_count WHERE namespace = ? AND access_count > 0"
        " ORDER BY access_count DESC, id LIMIT 1",
        (namespace,),
    ).fetchone()
    if row is None:
        return None

    (memory_id,) = row
    memory = _load_by_id(connection, namespace, memory_id)
    return memory if isinstance(memory, StoredMemory) else None


def _read_creation_time(
    connection: sqlite3.Connection, namespace: str, direction: Literal["ASC", "DESC"]
) -> str | None:
    """Return when the oldest (ASC) or newest (DESC) memory was created; None if there is none."""
    row: tuple[str] | None = connection.execute(
        f"SELECT created_at FROM shelf WHERE namespace = ? ORDER BY created_at {direction} LIMIT 1",
        (namespace,),
    ).fetchone()
    if row is None:
        return None

    (created_at,) = row
    return created_at
