"""Queries and statistics of a namespace, in a snapshot of the caller."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import astuple, replace
from itertools import starmap
from typing import NamedTuple

from abilities.helpers.search.recall import Filters
from abilities.helpers.store.about import list_ids
from abilities.helpers.store.engine import Matches, Numbers, SearchPlan, Statement, Transaction
from abilities.helpers.store.model import (
    IMPORTANCES,
    REPLACED_BY,
    TYPES,
    MemoryPage,
    Position,
    Query,
    StoredMemory,
    check_values,
)
from abilities.helpers.store.protocol import Stats
from abilities.helpers.store.reads import read_ids

_SORT_COLUMNS = ("created_at", "updated_at", "accessed_at", "importance", "access_count")

_HAS_TAG = "EXISTS (SELECT 1 FROM tags WHERE namespace = s.namespace AND id = s.id AND tag = ?)"
_WAS_PRESENT = f"""(s.archived = 0 OR EXISTS (
    SELECT 1 FROM links AS r WHERE r.namespace = s.namespace AND r.source = s.key
    AND r.type = '{REPLACED_BY}' AND r.term > ?
))"""
_END_OF_DAY = "T23:59:59.999Z"
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
_OLDEST = "SELECT min(created_at) FROM shelf WHERE namespace = ?"
_NEWEST = "SELECT max(created_at) FROM shelf WHERE namespace = ?"
_MOST_ACCESSED = """
SELECT id FROM shelf INDEXED BY shelf_count WHERE namespace = ? AND access_count > 0
ORDER BY access_count DESC, id LIMIT 1
"""


def select_passing(filters: Filters) -> Matches:
    """Return the condition for memories that pass filters, in a namespace that the caller adds."""
    query = Query(
        type=filters.type,
        category=filters.category,
        importance=filters.importance,
        archived=filters.reach_archived,
        ids=filters.ids,
    )
    text, values, _ = _select_matching(query, filters.tags)
    if filters.changed_since is not None:
        text, values = f"{text} AND s.updated_at >= ?", (*values, filters.changed_since)
    if filters.as_of is not None:
        text, values = f"{text} AND s.created_at <= ?", (*values, f"{filters.as_of}{_END_OF_DAY}")
    if filters.as_of is not None and not filters.archived:
        text, values = f"{text} AND {_WAS_PRESENT}", (*values, filters.as_of)

    return Matches(text, values)


def _select_matching(query: Query, tags: Iterable[str]) -> Matches:
    """Return the condition for a query's filters, with ``tags`` in place of its own."""
    conditions = ["true"]
    values: list[str | int | list[str]] = []

    if not query.archived:
        conditions.append("s.archived = 0")

    if query.ids is not None:
        conditions.append("s.id = ANY (?)")
        values.append(list(query.ids))

    for tag in tags:
        conditions.append(_HAS_TAG)
        values.append(tag)

    for name, value in query.filters:
        conditions.append(f"s.{name} = ?")
        values.append(value)

    return Matches(" AND ".join(conditions), tuple(values))


def keep_indexes(condition: str) -> str:
    """Return a condition that filters rows without choosing the index in which they are found.

    Otherwise SQLite may take the index of a filtered column, for each row of another table anew.
    """
    return re.sub(r"\bs\.(\w+) (=|[<>]=) \?", r"FILTER(s.\1) \2 ?", condition)


class _Selection(NamedTuple):
    """What to select matching memories from, its values, and the columns to sort by and of the id.

    The text contains names of this package only; all values of the caller are bound.
    """

    text: str
    values: list[str | int | list[str]]
    column: str
    name: str

    @property
    def positions(self) -> str:
        """The statement for the positions of these memories."""
        return f"SELECT {self.column} AS value, {self.name} AS id {self.text}"


async def run_query(transaction: Transaction, namespace: str, query: Query) -> MemoryPage:
    """Return a page of matching memories, and the total number of matches."""
    check_values(astuple(query))
    if query.about is not None:
        ids = await list_ids(transaction, namespace, query.about, archived=query.archived)
        query = replace(query, ids=tuple(ids))

    query, numbers = await _read_numbers(transaction, namespace, query)
    plan = SearchPlan(Matches("true", ()), Matches("true", ()))
    if query.search:
        plan = await transaction.plan_search(namespace, query, numbers)

    total = 0
    # The ids are looked up faster than they are met along an index.
    are_few = plan.are_few or query.ids is not None or numbers.fewest <= transaction.most_sorted
    if not are_few:
        if query.counter is not None:
            total = numbers.fewest
        elif plan.total is not None:
            total = plan.total
        else:
            found = _select(namespace, query, plan.found)
            text = f"SELECT count(*) {found.text}"
            ((total,),) = await transaction.fetch(text, *found.values)

        if total <= query.offset:
            return MemoryPage((), total, (), has_more=False)
        are_few = total <= transaction.most_sorted

    # Sorting all matches costs time by their number; an index in order, by their distances in it.
    if are_few:
        total, positions = await _sort(transaction, query, _select(namespace, query, plan.found))
    else:
        met = _select(namespace, query, plan.met)
        page = _select_page(query, met.column, met.name)
        text = f"{met.positions} AND {page.condition}"
        rows = await transaction.fetch(text, *met.values, *page.values)
        positions = list(starmap(Position, rows))

    # One more than the limit was fetched, to see whether others follow.
    has_more = len(positions) > query.limit
    positions = positions[: query.limit]
    memories = await read_ids(transaction, namespace, [position.id for position in positions])
    return MemoryPage(tuple(memories), total, tuple(positions), has_more)


async def _read_numbers(
    transaction: Transaction, namespace: str, query: Query
) -> tuple[Query, Numbers]:
    """Return a query with its rarest tag first, and its numbers from the counters."""
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
    if query.ids is not None:
        numbers.append(len(query.ids))
    return query, Numbers(size, visible, min(numbers))


def _select(namespace: str, query: Query, matches: Matches) -> _Selection:
    """Return the selection for a query, with the rarest tag as the outer table."""
    source = matches.source or "shelf AS s"
    conditions = ["s.namespace = ?"]
    values: list[str | int | list[str]] = [namespace]
    tags = list(query.tags)

    is_by_tag = bool(tags) and not matches.source
    if is_by_tag:
        source = "tags AS t CROSS JOIN shelf AS s"  # so that SQLite does not reorder them
        conditions.append("s.namespace = t.namespace AND s.id = t.id")
        conditions.append("t.namespace = ? AND t.tag = ?")
        values += [namespace, tags.pop(0)]
        if not query.archived:
            conditions.append("t.archived = 0")

    filters = _select_matching(query, tags)
    filtering = keep_indexes(filters.condition) if is_by_tag else filters.condition
    conditions += [matches.condition, filtering]
    values += [*matches.values, *filters.values]
    # The index of a tag is sorted by access, so this order needs no sorting.
    table = "t" if is_by_tag and query.sort_by == "accessed_at" else "s"
    column = _SORT_COLUMNS[_SORT_COLUMNS.index(query.sort_by)]
    text = f"FROM {source} WHERE {' AND '.join(conditions)}"
    return _Selection(text, values, f"{table}.{column}", f"{table}.id")


async def _sort(
    transaction: Transaction, query: Query, found: _Selection
) -> tuple[int, list[Position]]:
    """Find and sort all matches; return their number and the positions of a page."""
    page = _select_page(query, "value", "id")
    rows = await transaction.fetch(
        f"""
        WITH found AS MATERIALIZED ({found.positions})
        SELECT matching.number, page.value, page.id
        FROM (SELECT count(*) AS number FROM found) AS matching LEFT JOIN (
            SELECT value, id FROM found WHERE {page.condition}
        ) AS page ON true ORDER BY {_order(query, "page.value", "page.id")}
        """,
        *found.values,
        *page.values,
    )
    (total, *_), *_ = rows
    return int(total), [Position(value, name) for _, value, name in rows if name is not None]


def _select_page(query: Query, column: str, name: str) -> Matches:
    """Return the condition for memories after ``query.after``, with ORDER BY, LIMIT and OFFSET."""
    text = "true"
    values: list[str | int | list[str]] = []
    if query.after is not None:
        comparison = "<" if query.descending else ">"
        text = f"({column}, {name}) {comparison} (?, ?)"
        values += query.after[:2]

    text = f"{text} ORDER BY {_order(query, column, name)} LIMIT ? OFFSET ?"
    return Matches(text, (*values, query.limit + 1, query.offset))


def _order(query: Query, column: str, name: str) -> str:
    direction = "DESC" if query.descending else "ASC"
    return f"{column} {direction}, {name} {direction}"


async def read_stats(transaction: Transaction, namespace: str) -> Stats:
    """Return the statistics of a namespace."""
    statements = (_COUNTERS, _TOP_TAGS, _OLDEST, _NEWEST, _MOST_ACCESSED)
    fetched = await transaction.fetch_each(*((text, namespace) for text in statements))
    counters, tags, ((oldest,),), ((newest,),), accessed = fetched

    most_accessed: StoredMemory | None = None
    for memory in await read_ids(transaction, namespace, [name for (name,) in accessed]):
        if isinstance(memory, StoredMemory):
            most_accessed = memory

    numbers: Counter[tuple[str, int, str]] = Counter()
    for name, archived, value, number in counters:
        numbers[name, archived, value] = number

    by_importance: dict[str, int] = {}
    for name in reversed(IMPORTANCES):  # the highest first, as replies show them
        by_importance[name] = numbers["importance", 0, str(IMPORTANCES.index(name))]

    return Stats(
        total=numbers["all", 0, ""],
        by_type={name: numbers["type", 0, name] for name in TYPES},
        by_importance=by_importance,
        archived=numbers["all", 1, ""],
        size_bytes=numbers["size", 0, ""] + numbers["size", 1, ""],
        oldest=oldest,
        newest=newest,
        most_accessed=most_accessed,
        top_tags=tuple((tag, number) for tag, number in tags),
    )
