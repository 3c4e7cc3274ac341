"""How memories are found, counted and summed up in PostgreSQL, in a snapshot that the caller holds."""

from typing import Any

from abilities.helpers.stores.model import StoredMemory
from abilities.helpers.stores.postgres.reads import fetch, read_ids
from abilities.helpers.stores.postgres.server import Connection, build_like_pattern
from abilities.helpers.stores.protocol import MemoryPage, Query, Stats, build_stats

FEW = 10_000
_SORTS = ("created_at", "updated_at", "accessed_at", "importance", "access_count")


async def query(connection: Connection, namespace: str, asked: Query) -> MemoryPage:
    """A page of matching memories, and how many match."""
    source, where, values = _matching(namespace, asked)
    if asked.counter is not None:
        total = await _counted(connection, namespace, asked.counter, archived=asked.archived)
    else:
        ((total,),) = await fetch(
            connection, f"SELECT count(*) FROM {source} WHERE {where}".encode(), values
        )
    if total <= asked.offset:
        return MemoryPage((), total)
    way = "DESC" if asked.descending else "ASC"
    column = _SORTS[_SORTS.index(asked.sort_by)]  # a name of ours, whatever was asked
    # Few are found first and then sorted; of many the first are met soon on the way along the order.
    kept = "MATERIALIZED" if total <= FEW else "NOT MATERIALIZED"
    ids = f"WITH s AS {kept} (SELECT s.* FROM {source} WHERE {where})"
    ids += f" SELECT s.id FROM s ORDER BY s.{column} {way}, s.id {way} LIMIT %s OFFSET %s"
    found = await fetch(connection, ids.encode(), (*values, asked.limit, asked.offset))
    memories = await read_ids(connection, namespace, [name for (name,) in found])
    return MemoryPage(tuple(memories), total)


def _matching(namespace: str, asked: Query) -> tuple[str, str, list[Any]]:
    """The tables, conditions and values of a query; names are ours, values are bound."""
    source, where, values = "shelf AS s", ["s.namespace = %s"], list[Any]([namespace])
    if asked.search is not None:
        source += " JOIN words AS w ON w.namespace = s.namespace AND w.id = s.id"
        where.append("w.folded LIKE %s")
        values.append(build_like_pattern(asked.search))
    if not asked.archived:
        where.append("s.archived = 0")
    for tag in asked.tags:
        where.append(
            "EXISTS (SELECT 1 FROM tags AS t WHERE t.namespace = s.namespace AND t.id = s.id AND t.tag = %s)"
        )
        values.append(tag)
    for name, value in asked.filters:
        where.append(f"s.{name} = %s")
        values.append(value)
    return source, " AND ".join(where), values


async def _counted(
    connection: Connection, namespace: str, counter: tuple[str, str], *, archived: bool
) -> int:
    """A counter, with or without the archived memories."""
    statement = b"""
    SELECT coalesce(sum(number), 0)::int8 FROM counters
    WHERE namespace = %s AND name = %s AND value = %s AND archived <= %s
    """
    ((number,),) = await fetch(connection, statement, (namespace, *counter, int(archived)))
    return int(number)


async def read_stats(connection: Connection, namespace: str) -> Stats:
    """Return the statistics of a namespace."""
    statement = (
        b"SELECT name, archived, value, number FROM counters WHERE namespace = %s AND name <> 'tag'"
    )
    counters: dict[tuple[str, int, str], int] = {
        (name, archived, value): number
        for name, archived, value, number in await fetch(connection, statement, (namespace,))
    }
    statement = b"""
    SELECT (SELECT min(created_at) FROM shelf WHERE namespace = %s),
        (SELECT max(created_at) FROM shelf WHERE namespace = %s),
        (SELECT id FROM shelf WHERE namespace = %s AND access_count > 0 ORDER BY access_count DESC, id LIMIT 1)
    """
    ((oldest, newest, most),) = await fetch(connection, statement, (namespace,) * 3)
    found = (await read_ids(connection, namespace, [most]))[0] if most else None
    statement = b"""
    SELECT value, number FROM counters WHERE namespace = %s AND name = 'tag' AND archived = 0
    ORDER BY number DESC, value LIMIT 10
    """
    tags = await fetch(connection, statement, (namespace,))
    most_accessed = found if isinstance(found, StoredMemory) else None
    return build_stats(counters, (oldest, newest), most_accessed, tags)
