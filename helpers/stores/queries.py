"""Queries, totals and statistics of a store, in a snapshot of the caller."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from abilities.helpers.stores.filters import select_matching
from abilities.helpers.stores.model import StoredMemory
from abilities.helpers.stores.protocol import Stats
from abilities.helpers.stores.query import MemoryPage, Position, Query
from abilities.helpers.stores.reads import read_ids
from abilities.helpers.stores.searching import Matches, Numbers, SearchPlan
from abilities.helpers.stores.stats import build_stats
from abilities.helpers.stores.transaction import Statement, Transaction

_SORT_COLUMNS = ("created_at", "updated_at", "accessed_at", "importance", "access_count")

_COUNTER = """
SELECT coalesce(sum(number), 0) FROM counters
WHERE namespace = ? AND name = ? AND value = ? AND archived <= ?
"""
_COUNTERS = """
SELECT name, archived, value, number FROM counters WHERE namespace = ? AND name <> 'tag'
"""
_TOP_TAGS = """
SELECT value, number FROM counters WHERE namespace = ? AND name = 'tag' AND archived = 0
ORDER BY number DESC, value LIMIT 10
"""
_OLDEST = "SELECT created_at FROM shelf WHERE namespace = ? ORDER BY created_at LIMIT 1"
_NEWEST = "SELECT created_at FROM shelf WHERE namespace = ? ORDER BY created_at DESC LIMIT 1"
_MOST_ACCESSED = """
SELECT id FROM shelf INDEXED BY shelf_count WHERE namespace = ? AND access_count > 0
ORDER BY access_count DESC, id LIMIT 1
"""


class _Selection(NamedTuple):
    """The memories that match: the FROM and WHERE clauses, and the values to bind.

    The clauses consist of our own names only; what the caller gave is bound.
    """

    source: str
    condition: str
    values: list[str | int]
    is_sorted_by_tags: bool = False


async def run_query(transaction: Transaction, namespace: str, query: Query) -> MemoryPage:
    """Return a page of matching memories, and how many match."""
    query, numbers = await _read_numbers(transaction, namespace, query)
    plan = SearchPlan(Matches("true", ()), Matches("true", ()))
    if query.search:
        plan = await transaction.plan_search(namespace, query, numbers)

    total = 0
    are_few = plan.are_few or numbers.fewest <= transaction.most_sorted
    if not are_few:
        total = await _count_total(transaction, namespace, query, numbers, plan)
        if total <= query.offset:
            return MemoryPage((), total, (), has_more=False)
        are_few = total <= transaction.most_sorted

    # Sorting all matches costs their number; meeting them in order costs how far apart they lie.
    if are_few:
        total, positions = await _sort(transaction, query, _select(namespace, query, plan.found))
    else:
        positions = await _go_along(transaction, query, _select(namespace, query, plan.met))

    # One more than asked for tells whether more follow.
    has_more = len(positions) > query.limit
    positions = positions[: query.limit]
    memories = await read_ids(transaction, namespace, [position.id for position in positions])
    return MemoryPage(tuple(memories), total, tuple(positions), has_more)


async def _read_numbers(
    transaction: Transaction, namespace: str, query: Query
) -> tuple[Query, Numbers]:
    """Return a query whose first tag is the rarest one, and what the counters say of it."""
    archived = int(query.archived)
    asked: list[tuple[str, str, int]] = [("all", "", 1), ("all", "", archived)]
    asked += [("tag", tag, archived) for tag in query.tags]
    for name, value in query.filters:
        if name != "category":
            asked.append((name, str(value), archived))

    statements: list[Statement] = [(_COUNTER, namespace, *counter) for counter in asked]
    numbers = [int(number) for ((number,),) in await transaction.fetch_each(*statements)]

    size, visible, *others = numbers
    tags = sorted(zip(others, query.tags, strict=False))
    query = replace(query, tags=tuple(tag for _, tag in tags))
    return query, Numbers(size, visible, min(numbers))


def _select(namespace: str, query: Query, matches: Matches) -> _Selection:
    """Build the selection of the memories that match a query.

    SQLite would choose its own order of tables; CROSS JOIN fixes the one that is meant.
    """
    source = matches.source or "shelf AS s"
    conditions = ["s.namespace = ?"]
    values: list[str | int] = [namespace]
    tags = list(query.tags)

    is_by_tag = bool(tags) and not matches.source
    if is_by_tag:
        source = "tags AS t CROSS JOIN shelf AS s"
        conditions.append("s.namespace = t.namespace AND s.id = t.id")
        conditions.append("t.namespace = ? AND t.tag = ?")
        values += [namespace, tags.pop(0)]
        if not query.archived:
            conditions.append("t.archived = 0")

    filters = select_matching(query, tags)
    conditions += [matches.condition, filters.text]
    values += [*matches.values, *filters.values]
    # Within a tag, its index is sorted by access, so that this order needs no sorting.
    is_sorted = is_by_tag and query.sort_by == "accessed_at"
    return _Selection(source, " AND ".join(conditions), values, is_sorted)


async def _count_total(
    transaction: Transaction, namespace: str, query: Query, numbers: Numbers, plan: SearchPlan
) -> int:
    """Return how many memories match: from a counter if one knows it, else by counting them."""
    if query.counter is not None:
        return numbers.fewest
    if plan.total is not None:
        return plan.total

    source, condition, values, _ = _select(namespace, query, plan.found)
    rows = await transaction.fetch(f"SELECT count(*) FROM {source} WHERE {condition}", *values)
    ((total,),) = rows
    return int(total)


async def _sort(
    transaction: Transaction, query: Query, found: _Selection
) -> tuple[int, list[Position]]:
    """Return how many memories match, and the positions of a page, after finding all of them."""
    behind, values = _select_behind(query, "value", "id")
    order = _order(query, "value", "id")
    rows = await transaction.fetch(
        f"""
        WITH found AS MATERIALIZED ({_select_positions(query, found)})
        SELECT matching.number, page.value, page.id
        FROM (SELECT count(*) AS number FROM found) AS matching LEFT JOIN (
            SELECT value, id FROM found WHERE {behind} ORDER BY {order} LIMIT ? OFFSET ?
        ) AS page ON true ORDER BY {_order(query, "page.value", "page.id")}
        """,
        *found.values,
        *values,
        query.limit + 1,
        query.offset,
    )
    (total, *_), *_ = rows
    return int(total), [Position(value, name) for _, value, name in rows if name is not None]


async def _go_along(transaction: Transaction, query: Query, met: _Selection) -> list[Position]:
    """Return the positions of a page, of memories that are met in its order."""
    behind, values = _select_behind(query, *_name_columns(query, met))
    rows = await transaction.fetch(
        f"{_select_positions(query, met)} AND {behind}"
        f" ORDER BY {_order(query, *_name_columns(query, met))} LIMIT ? OFFSET ?",
        *met.values,
        *values,
        query.limit + 1,
        query.offset,
    )
    return [Position(*columns) for columns in rows]


def _name_columns(query: Query, selection: _Selection) -> tuple[str, str]:
    """Return the column that a query sorts by, and that of ids, which orders ties."""
    table = "t" if selection.is_sorted_by_tags else "s"
    column = _SORT_COLUMNS[_SORT_COLUMNS.index(query.sort_by)]  # the SQL holds our own names only
    return f"{table}.{column}", f"{table}.id"


def _select_positions(query: Query, selection: _Selection) -> str:
    column, name = _name_columns(query, selection)
    source, condition, *_ = selection
    return f"SELECT {column} AS value, {name} AS id FROM {source} WHERE {condition}"


def _select_behind(query: Query, column: str, name: str) -> tuple[str, Iterable[object]]:
    """Return the condition of what a page goes on behind, and its values."""
    if query.after is None:
        return "true", ()

    comparison = "<" if query.descending else ">"
    return f"({column}, {name}) {comparison} (?, ?)", query.after


def _order(query: Query, column: str, name: str) -> str:
    direction = "DESC" if query.descending else "ASC"
    return f"{column} {direction}, {name} {direction}"


async def read_stats(transaction: Transaction, namespace: str) -> Stats:
    """Return the statistics of a namespace."""
    statements = (_COUNTERS, _TOP_TAGS, _OLDEST, _NEWEST, _MOST_ACCESSED)
    fetched = await transaction.fetch_each(*((text, namespace) for text in statements))
    counters, tags, oldest, newest, accessed = fetched

    most_accessed: StoredMemory | None = None
    for memory in await read_ids(transaction, namespace, [name for (name,) in accessed]):
        if isinstance(memory, StoredMemory):
            most_accessed = memory

    numbers: dict[tuple[str, int, str], int] = {}
    for name, archived, value, number in counters:
        numbers[name, archived, value] = number

    span = (_get_time(oldest), _get_time(newest))
    top_tags = [(tag, number) for tag, number in tags]
    return build_stats(numbers, span, most_accessed, top_tags)


def _get_time(rows: Sequence[Sequence[str]]) -> str | None:
    return rows[0][0] if rows else None
