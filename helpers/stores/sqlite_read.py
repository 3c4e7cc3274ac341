"""How memories are read from an SQLite store, inside of a snapshot that the caller holds."""

import sqlite3
from collections.abc import Sequence
from typing import Any

from abilities.declarations.base import Refused
from abilities.helpers.stores.protocol import Page, Query, WalkResult
from abilities.helpers.stores.rows import IMPORTANCES, TYPES, LinkRow, Row, Stored, checked, hash_of, is_share
from abilities.helpers.traversal import Ask, Limits, Link, State, Walk

COLUMNS = ", ".join(Row._fields)
_SELECT = f"SELECT {COLUMNS}, hash FROM memories WHERE namespace = ?"
_BEST = """
SELECT l.source, l.target, l.type, l.weight, l.rank, l.hash, m.archived, m.score
FROM links AS l LEFT JOIN memories AS m ON m.namespace = l.namespace AND m.key = l.target
WHERE l.namespace = ? AND l.source = ?
ORDER BY l.rank DESC, l.weight DESC, l.target, l.type LIMIT ? OFFSET ?
"""
_FIRST_PAGE = 32
_SORTS = {name: name for name in ("created_at", "updated_at", "accessed_at", "importance", "access_count")}


def row_by_key(connection: sqlite3.Connection, namespace: str, key: str) -> Row | None:
    """A memory's row. Raises Refused when it is damaged."""
    return _row(connection.execute(f"{_SELECT} AND key = ?", (namespace, key)).fetchone())


def row_by_id(connection: sqlite3.Connection, namespace: str, name: str) -> Row | None:
    """A memory's row. Raises Refused when it is damaged."""
    return _row(connection.execute(f"{_SELECT} AND id = ?", (namespace, name)).fetchone())


def _row(found: tuple[Any, ...] | None) -> Row | None:
    return None if found is None else checked(Row(*found[:-1]), found[-1])


def link_rows(connection: sqlite3.Connection, namespace: str, source: str) -> list[LinkRow]:
    """All links of a memory, by target and type."""
    found = connection.execute(
        "SELECT source, target, type, weight FROM links WHERE namespace = ? AND source = ? ORDER BY target, type",
        (namespace, source),
    )
    return [LinkRow(*link) for link in found]


def stored_of(connection: sqlite3.Connection, row: Row, limit: int, offset: int = 0) -> Stored:
    """A memory with some of its links, best first, and its counters."""
    best = connection.execute(_BEST, (row.namespace, row.key, limit, offset)).fetchall() if limit else []
    links = tuple(LinkRow(*link[:4]) for link in best if _is_sound(link))
    (total,) = connection.execute(
        "SELECT count(*) FROM links WHERE namespace = ? AND source = ?", (row.namespace, row.key)
    ).fetchone()
    counters = connection.execute(
        "SELECT accessed_at, access_count FROM shelf WHERE namespace = ? AND id = ?", (row.namespace, row.id)
    ).fetchone()
    accessed_at, count = counters or (row.created_at, 0)
    return Stored(row, links, total, accessed_at, count)


def read_linked(connection: sqlite3.Connection, namespace: str, key: str, offset: int, limit: int) -> Stored:
    """One memory with a page of its links. Raises Refused."""
    row = row_by_key(connection, namespace, key)
    if row is None:
        raise Refused("memory_not_found")
    return stored_of(connection, row, limit, offset)


def read(connection: sqlite3.Connection, namespace: str, keys: Sequence[str]) -> list[Stored | Exception]:
    """Memories by key without their links; a Refused in the place of one that cannot be read."""
    return [_one(connection, namespace, key) for key in keys]


def _one(connection: sqlite3.Connection, namespace: str, key: str) -> Stored | Exception:
    try:
        return read_linked(connection, namespace, key, 0, 0)
    except Refused as error:
        return error


def walk(connection: sqlite3.Connection, namespace: str, key: str, limits: Limits) -> WalkResult:
    """Walk from a memory. Raises Refused when it cannot be read itself."""
    first = read_linked(connection, namespace, key, 0, 0)
    conversation = Walk(key, limits).run()
    try:
        asked = next(conversation)
        while True:
            asked = conversation.send(_links(connection, namespace, asked))
    except StopIteration as end:
        walked = end.value
    others = [_one(connection, namespace, step.key) for step in walked.steps[1:]]
    return WalkResult(walked, (first, *others))


def _links(connection: sqlite3.Connection, namespace: str, asked: Ask) -> list[Link]:
    limit = _FIRST_PAGE if not asked.offset else asked.offset * 3
    return [_link(found) for found in connection.execute(_BEST, (namespace, asked.key, limit, asked.offset))]


def _link(found: tuple[Any, ...]) -> Link:
    _, target, kind, weight, rank, _, archived, score = found
    state: State = "present"
    if not _is_sound(found) or not is_share(weight) or (archived is not None and not is_share(score)):
        state, weight, rank = "invalid", 0.0, -2.0
    elif archived is None:
        state = "missing"
    elif archived:
        state = "archived"
    return Link(str(target), weight, str(kind), rank, state)


def _is_sound(found: tuple[Any, ...]) -> bool:
    """Whether a link is as it was written."""
    try:
        return bool(hash_of(found[:5]) == found[5])
    except TypeError:
        return False


def query(connection: sqlite3.Connection, namespace: str, asked: Query) -> Page:
    """A page of matching memories, and how many match."""
    source, where, values = _matching(namespace, asked)
    table = "t" if asked.tags and asked.sort_by == "accessed_at" else "s"
    way = "DESC" if asked.descending else "ASC"
    ids = connection.execute(
        f"SELECT s.id FROM {source} WHERE {where} ORDER BY {table}.{_SORTS[asked.sort_by]} {way}, {table}.id {way}"
        " LIMIT ? OFFSET ?",
        (*values, asked.limit, asked.offset),
    ).fetchall()
    found = tuple(_by_id(connection, namespace, name) for (name,) in ids)
    return Page(found, _total(connection, namespace, asked, source, where, values))


def _by_id(connection: sqlite3.Connection, namespace: str, name: str) -> Stored | Exception:
    try:
        row = row_by_id(connection, namespace, name)
        return Refused("memory_not_found") if row is None else stored_of(connection, row, 0)
    except Refused as error:
        return error


def _matching(namespace: str, asked: Query) -> tuple[str, str, list[Any]]:
    """The tables, conditions and values of a query; names are ours, values are bound."""
    source, where = "shelf AS s", ["s.namespace = ?"]
    values: list[Any] = [namespace]
    if not asked.archived:
        where.append("s.archived = 0")
    if asked.tags:
        source = "tags AS t CROSS JOIN shelf AS s ON s.namespace = t.namespace AND s.id = t.id"
        where += ["t.namespace = ?", "t.tag = ?", *([] if asked.archived else ["t.archived = 0"])]
        values += [namespace, asked.tags[0]]
    for tag in asked.tags[1:]:
        where.append("EXISTS (SELECT 1 FROM tags WHERE namespace = s.namespace AND id = s.id AND tag = ?)")
        values.append(tag)
    importance = None if asked.importance is None else IMPORTANCES.index(asked.importance)
    for name, value in (("type", asked.type), ("importance", importance), ("category", asked.category)):
        if value is not None:
            where.append(f"s.{name} = ?")
            values.append(value)
    if asked.search is not None and len(asked.search) >= 3:
        where.append("s.memory IN (SELECT rowid FROM search WHERE search MATCH ?)")
        values.append('"' + asked.search.replace('"', '""') + '"')
    elif asked.search is not None:
        where.append("instr((SELECT folded(content) FROM memories WHERE rowid = s.memory), ?)")
        values.append(asked.search)
    return source, " AND ".join(where), values


def _total(
    connection: sqlite3.Connection, namespace: str, asked: Query, source: str, where: str, values: list[Any]
) -> int:
    """From the counters where they know it, else counted."""
    named = [("type", asked.type), ("tag", asked.tags[0] if len(asked.tags) == 1 else None)]
    place = None if asked.importance is None else str(IMPORTANCES.index(asked.importance))
    filters = [(name, value) for name, value in [*named, ("importance", place)] if value is not None]
    if asked.search is None and asked.category is None and len(asked.tags) < 2 and len(filters) < 2:
        name, value = filters[0] if filters else ("all", "")
        archived = "" if asked.archived else " AND archived = 0"
        counted = connection.execute(
            f"SELECT sum(number) FROM counters WHERE namespace = ? AND name = ? AND value = ?{archived}",
            (namespace, name, value),
        ).fetchone()
        return int(counted[0] or 0)
    return int(connection.execute(f"SELECT count(*) FROM {source} WHERE {where}", values).fetchone()[0])


def stats(connection: sqlite3.Connection, namespace: str) -> dict[str, Any]:
    """Figures of a namespace."""
    counters: dict[tuple[str, int, str], int] = {
        (name, archived, value): number
        for name, archived, value, number in connection.execute(
            "SELECT name, archived, value, number FROM counters WHERE namespace = ? AND name <> 'tag'", (namespace,)
        )
    }
    most = connection.execute(
        "SELECT id FROM shelf INDEXED BY shelf_count WHERE namespace = ? AND access_count > 0"
        " ORDER BY access_count DESC, id LIMIT 1",
        (namespace,),
    ).fetchone()
    found = _by_id(connection, namespace, most[0]) if most else None
    return {
        "total_memories": counters.get(("all", 0, ""), 0),
        "by_type": {name: counters.get(("type", 0, name), 0) for name in TYPES},
        "by_importance": {
            name: counters.get(("importance", 0, str(IMPORTANCES.index(name))), 0) for name in reversed(IMPORTANCES)
        },
        "archived_count": counters.get(("all", 1, ""), 0),
        "total_storage_kb": round(sum(counters.get(("size", n, ""), 0) for n in (0, 1)) / 1024, 3),
        "oldest_memory": _edge(connection, namespace, "ASC"),
        "newest_memory": _edge(connection, namespace, "DESC"),
        "most_accessed": found if isinstance(found, Stored) else None,
        "top_tags": [
            {"tag": tag, "count": number}
            for tag, number in connection.execute(
                "SELECT value, number FROM counters WHERE namespace = ? AND name = 'tag' AND archived = 0"
                " ORDER BY number DESC, value LIMIT 10",
                (namespace,),
            )
        ],
    }


def _edge(connection: sqlite3.Connection, namespace: str, order: str) -> str | None:
    found = connection.execute(
        f"SELECT created_at FROM shelf WHERE namespace = ? ORDER BY created_at {order} LIMIT 1", (namespace,)
    ).fetchone()
    return found[0] if found else None
