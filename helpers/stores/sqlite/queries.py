"""How memories are found, counted and summed up in an SQLite store, inside of a snapshot that the caller holds."""

import sqlite3
from typing import Any, Literal

from abilities.declarations.faults import Refused
from abilities.helpers.stores.model import StoredMemory
from abilities.helpers.stores.protocol import MemoryPage, Query, Stats, build_stats
from abilities.helpers.stores.sqlite.reads import load_memory, row_by_id
from abilities.helpers.stores.sqlite.search import parse_search

How = Literal["found first", "met in order"]
_SORTS = ("created_at", "updated_at", "accessed_at", "importance", "access_count")
_SMALL = 1_000
"""Memories of a namespace that are looked through one by one sooner than the full-text tables of all."""


def query(connection: sqlite3.Connection, namespace: str, asked: Query) -> MemoryPage:
    """A page of matching memories, and how many match."""
    every = _number(connection, namespace, "all", "", archived=True)
    matches = (
        None if asked.search is None or every <= _SMALL else _matches(connection, asked.search)
    )
    # Sorting all matches costs their number; meeting them in order costs how far apart they lie.
    if matches is not None and matches * matches <= every * (asked.offset + asked.limit):
        names = _names(connection, namespace, asked, "found first", "")
        total, names = len(names), names[asked.offset : asked.offset + asked.limit]
    else:
        names = _names(
            connection,
            namespace,
            asked,
            "met in order",
            f"LIMIT {asked.limit:d} OFFSET {asked.offset:d}",
        )
        total = _total(connection, namespace, asked, matches, every)
    return MemoryPage(tuple(_by_id(connection, namespace, name) for name in names), total)


def _names(
    connection: sqlite3.Connection, namespace: str, asked: Query, how: How, part: str
) -> list[str]:
    """The ids of matching memories, in the order asked for."""
    source, where, values = _matching(namespace, asked, how)
    table = "t" if source.startswith("tags") and asked.sort_by == "accessed_at" else "s"
    way = "DESC" if asked.descending else "ASC"
    column = _SORTS[_SORTS.index(asked.sort_by)]  # a name of ours, whatever was asked
    ids = f"SELECT s.id FROM {source} WHERE {where} ORDER BY {table}.{column} {way}, {table}.id {way} {part}"
    return [name for (name,) in connection.execute(ids, values)]


def _matches(connection: sqlite3.Connection, search: str) -> int:
    """How many memories of all namespaces hold a text."""
    table, match = parse_search(search)
    return _count(connection, table, f"{table} MATCH ?", [match])


def _by_id(connection: sqlite3.Connection, namespace: str, name: str) -> StoredMemory | Exception:
    try:
        row = row_by_id(connection, namespace, name)
        return Refused("memory_not_found") if row is None else load_memory(connection, row, 0)
    except Refused as error:
        return error


def _matching(namespace: str, asked: Query, how: How) -> tuple[str, str, list[Any]]:
    """The tables, conditions and values of a query; names are ours, values are bound.

    A text is looked for beginning with its matches ("found first"), or in each memory that is met in order.
    """
    source, where = "shelf AS s", ["s.namespace = ?"]
    values: list[Any] = [namespace]
    tags = list(asked.tags)
    table, match = parse_search(asked.search or "")
    if asked.search is not None and how == "found first":
        source = (
            f"{table} CROSS JOIN shelf AS s INDEXED BY shelf_memory ON s.memory = {table}.rowid"
        )
        where.append(f"{table} MATCH ?")
        values.append(match)
    elif tags:
        source = "tags AS t CROSS JOIN shelf AS s ON s.namespace = t.namespace AND s.id = t.id"
        where += ["t.namespace = ?", "t.tag = ?", *([] if asked.archived else ["t.archived = 0"])]
        values += [namespace, tags.pop(0)]
    if asked.search is not None and how == "met in order":
        where.append("instr((SELECT folded(content) FROM memories WHERE rowid = s.memory), ?)")
        values.append(asked.search)
    if not asked.archived:
        where.append("s.archived = 0")
    for tag in tags:
        where.append(
            "EXISTS (SELECT 1 FROM tags WHERE namespace = s.namespace AND id = s.id AND tag = ?)"
        )
        values.append(tag)
    for name, value in asked.filters:
        where.append(f"s.{name} = ?")
        values.append(value)
    return source, " AND ".join(where), values


def _total(
    connection: sqlite3.Connection, namespace: str, asked: Query, matches: int | None, every: int
) -> int:
    """How many memories match: from the counters where they know it, else by the cheapest exact count."""
    if matches is None:
        if asked.counter is None:
            return _count(connection, *_matching(namespace, asked, "met in order"))
        return _number(connection, namespace, *asked.counter, archived=asked.archived)
    shown = every if asked.archived else _number(connection, namespace, "all", "", archived=False)
    if shown == every and not asked.tags and not asked.filters and _is_alone(connection, namespace):
        return matches  # all that the index holds is meant
    return _count(connection, *_matching(namespace, asked, "found first"))


def _is_alone(connection: sqlite3.Connection, namespace: str) -> bool:
    """Whether there is no memory of another namespace."""
    ends = connection.execute(
        "SELECT (SELECT min(namespace) FROM shelf), (SELECT max(namespace) FROM shelf)"
    ).fetchone()
    return set(ends) == {namespace}


def _count(connection: sqlite3.Connection, source: str, where: str, values: list[Any]) -> int:
    return int(
        connection.execute(f"SELECT count(*) FROM {source} WHERE {where}", values).fetchone()[0]
    )


def _number(
    connection: sqlite3.Connection, namespace: str, name: str, value: str, *, archived: bool
) -> int:
    """A counter, with or without the archived memories."""
    counted = connection.execute(
        "SELECT sum(number) FROM counters WHERE namespace = ? AND name = ? AND value = ? AND archived <= ?",
        (namespace, name, value, int(archived)),
    ).fetchone()
    return int(counted[0] or 0)


def read_stats(connection: sqlite3.Connection, namespace: str) -> Stats:
    """Return the statistics of a namespace."""
    counters: dict[tuple[str, int, str], int] = {
        (name, archived, value): number
        for name, archived, value, number in connection.execute(
            "SELECT name, archived, value, number FROM counters WHERE namespace = ? AND name <> 'tag'",
            (namespace,),
        )
    }
    most = connection.execute(
        "SELECT id FROM shelf INDEXED BY shelf_count WHERE namespace = ? AND access_count > 0"
        " ORDER BY access_count DESC, id LIMIT 1",
        (namespace,),
    ).fetchone()
    found = _by_id(connection, namespace, most[0]) if most else None
    tags = connection.execute(
        "SELECT value, number FROM counters WHERE namespace = ? AND name = 'tag' AND archived = 0"
        " ORDER BY number DESC, value LIMIT 10",
        (namespace,),
    )
    edges = _edge(connection, namespace, "ASC"), _edge(connection, namespace, "DESC")
    most_accessed = found if isinstance(found, StoredMemory) else None
    return build_stats(counters, edges, most_accessed, tags)


def _edge(connection: sqlite3.Connection, namespace: str, order: str) -> str | None:
    found = connection.execute(
        f"SELECT created_at FROM shelf WHERE namespace = ? ORDER BY created_at {order} LIMIT 1",
        (namespace,),
    ).fetchone()
    return found[0] if found else None
