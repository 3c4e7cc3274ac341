"""Finding, counting and summing up memories in PostgreSQL, in a snapshot that the caller holds."""

import re
from typing import NamedTuple

from abilities.helpers.stores.model import StoredMemory
from abilities.helpers.stores.postgres.reads import read_ids
from abilities.helpers.stores.postgres.statements import Connection, Select, to_number
from abilities.helpers.stores.protocol import Stats
from abilities.helpers.stores.query import MemoryPage, Position, Query
from abilities.helpers.stores.stats import build_stats

FEW_MATCHES = 10_000
"""Up to this many matches are found first and then sorted."""

_SORT_COLUMNS = ("created_at", "updated_at", "accessed_at", "importance", "access_count")
_HAS_TAG = """
EXISTS (SELECT FROM tags AS t WHERE t.namespace = s.namespace AND t.id = s.id AND t.tag = %s)
"""


class _Selection(NamedTuple):
    """The memories that a query matches: tables and condition as SQL, and the values to bind."""

    tables: str
    condition: str
    values: list[object]


class _Counter(NamedTuple):
    name: str
    archived: int
    value: str
    number: int


class _Extremes(NamedTuple):
    oldest: str | None
    newest: str | None
    most_accessed_id: str | None


class _TagCount(NamedTuple):
    tag: str
    number: int


_READ_COUNTER = Select(
    """
    SELECT coalesce(sum(number), 0)::int8 FROM counters
    WHERE namespace = %s AND name = %s AND value = %s AND archived <= %s
    """,
    to_number,
)
_COUNTERS = Select(
    """
    SELECT name, archived, value, number FROM counters
    WHERE namespace = %s AND name <> 'tag'
    """,
    _Counter._make,
)
_EXTREMES = Select(
    """
    SELECT (SELECT min(created_at) FROM shelf WHERE namespace = %s),
        (SELECT max(created_at) FROM shelf WHERE namespace = %s),
        (SELECT id FROM shelf WHERE namespace = %s AND access_count > 0
            ORDER BY access_count DESC, id LIMIT 1)
    """,
    _Extremes._make,
)
_TOP_TAGS = Select(
    """
    SELECT value, number FROM counters WHERE namespace = %s AND name = 'tag' AND archived = 0
    ORDER BY number DESC, value LIMIT 10
    """,
    _TagCount._make,
)


async def run_query(connection: Connection, namespace: str, query: Query) -> MemoryPage:
    """Return a page of matching memories, and how many match in all."""
    selection = _select_matches(namespace, query)

    total = await _count_matches(connection, namespace, query, selection)
    if total <= query.offset:
        return MemoryPage((), total, (), has_more=False)

    # One more than asked for tells whether more follow.
    positions = await _fetch_positions(connection, query, selection, total)
    has_more = len(positions) > query.limit
    positions = positions[: query.limit]

    memories = await read_ids(connection, namespace, [position.id for position in positions])
    return MemoryPage(tuple(memories), total, tuple(positions), has_more)


def _select_matches(namespace: str, query: Query) -> _Selection:
    """Return the selection for a query. Its names are our own; values of the caller are bound."""
    tables = "shelf AS s"
    conditions = ["s.namespace = %s"]
    values: list[object] = [namespace]

    if query.search:
        tables += " JOIN words AS w ON w.namespace = s.namespace AND w.id = s.id"
    for term in query.search:
        conditions.append("w.folded LIKE %s")
        values.append(_build_like_pattern(term))

    if not query.archived:
        conditions.append("s.archived = 0")

    for tag in query.tags:
        conditions.append(_HAS_TAG)
        values.append(tag)

    for name, value in query.filters:
        conditions.append(f"s.{name} = %s")
        values.append(value)

    return _Selection(tables, " AND ".join(conditions), values)


def _build_like_pattern(search: str) -> str:
    """Return a LIKE pattern for texts that contain another one literally."""
    escaped = re.sub(r"([\\%_])", r"\\\1", search)
    return f"%{escaped}%"


async def _count_matches(
    connection: Connection, namespace: str, query: Query, selection: _Selection
) -> int:
    """Return how many memories match: from a counter if one knows it, else by counting them."""
    if query.counter is not None:
        name, value = query.counter

        # Archived memories are counted under archived = 1, the others under 0.
        archived = int(query.archived)
        return await _READ_COUNTER.fetch_only(connection, namespace, name, value, archived)

    count = Select(
        f"SELECT count(*) FROM {selection.tables} WHERE {selection.condition}", to_number
    )
    return await count.fetch_only(connection, *selection.values)


async def _fetch_positions(
    connection: Connection, query: Query, selection: _Selection, total: int
) -> list[Position]:
    """Return the positions of a page of matching memories, and of the one that follows it."""
    # The name is our own tuple's, so that no text from outside becomes part of a statement.
    index = _SORT_COLUMNS.index(query.sort_by)
    column = _SORT_COLUMNS[index]

    direction = "DESC" if query.descending else "ASC"

    # Sorting few matches is cheap. If there are many, going along the index of the sort column soon
    # comes to the first of them.
    materialized = "MATERIALIZED" if total <= FEW_MATCHES else "NOT MATERIALIZED"

    behind = ""
    values = selection.values
    if query.after is not None:
        comparison = "<" if query.descending else ">"
        behind = f"WHERE (s.{column}, s.id) {comparison} (%s, %s)"
        values = [*values, *query.after]

    page = Select(
        f"""
        WITH s AS {materialized} (
            SELECT s.* FROM {selection.tables} WHERE {selection.condition}
        )
        SELECT s.{column}, s.id FROM s {behind}
        ORDER BY s.{column} {direction}, s.id {direction} LIMIT %s OFFSET %s
        """,
        Position._make,
    )
    return await page.fetch(connection, *values, query.limit + 1, query.offset)


async def read_stats(connection: Connection, namespace: str) -> Stats:
    """Return the statistics of a namespace."""
    counters = await _COUNTERS.fetch(connection, namespace)
    tags = await _TOP_TAGS.fetch(connection, namespace)

    extremes = await _EXTREMES.fetch_only(connection, namespace, namespace, namespace)
    most_accessed = await _read_most_accessed(connection, namespace, extremes)

    numbers: dict[tuple[str, int, str], int] = {}
    for name, archived, value, number in counters:
        numbers[name, archived, value] = number

    span = (extremes.oldest, extremes.newest)
    return build_stats(numbers, span, most_accessed, tags)


async def _read_most_accessed(
    connection: Connection, namespace: str, extremes: _Extremes
) -> StoredMemory | None:
    """Return the most accessed memory; None if none was accessed, or if it cannot be read."""
    if extremes.most_accessed_id is None:
        return None

    (memory,) = await read_ids(connection, namespace, [extremes.most_accessed_id])
    if isinstance(memory, Exception):
        return None

    return memory
