"""How memories are read from an SQLite store, inside of a snapshot that the caller holds."""

import sqlite3
from collections.abc import Sequence
from typing import Any, Literal

from abilities.declarations.base import Refused
from abilities.helpers.stores.protocol import Page, Query, WalkResult
from abilities.helpers.stores.rows import IMPORTANCES, TYPES, LinkRow, Row, Stored, checked, hash_of, is_share
from abilities.helpers.traversal import Ask, Limits, Link, State, Walk, Walked

COLUMNS = ", ".join(Row._fields)
_SELECT = f"SELECT {COLUMNS}, hash FROM memories WHERE namespace = ?"
_BEST = """
SELECT l.source, l.target, l.type, l.weight, l.rank, l.hash, m.archived, m.score
FROM links AS l LEFT JOIN memories AS m ON m.namespace = l.namespace AND m.key = l.target
WHERE l.namespace = ? AND l.source = ?
ORDER BY l.rank DESC, l.weight DESC, l.target, l.type LIMIT ? OFFSET ?
"""
_FIRST_PAGE = 32
_RARE = 1_000

How = Literal["rare", "scan", "count"]
_SORTS = ("created_at", "updated_at", "accessed_at", "importance", "access_count")


def row_by_key(connection: sqlite3.Connection, namespace: str, key: str) -> Row | None:
    """A memory's row. Raises Refused when it is damaged."""
    return _row(connection.execute(f"{_SELECT} AND key = ?", (namespace, key)).fetchone())


def row_by_id(connection: sqlite3.Connection, namespace: str, name: str) -> Row | None:
    """A memory's row. Raises Refused when it is damaged."""
    return _row(connection.execute(f"{_SELECT} AND id = ?", (namespace, name)).fetchone())


def _row(found: tuple[Any, ...] | None) -> Row | None:
    return None if found is None else checked(Row(*found[:-1]), found[-1])


def link_rows(connection: sqlite3.Connection, namespace: str, source: str, targets: Sequence[str]) -> list[LinkRow]:
    """A memory's links to some others, by target and type."""
    found = connection.execute(
        "SELECT source, target, type, weight FROM links WHERE namespace = ? AND source = ?"
        f" AND target IN ({', '.join('?' * len(targets))}) ORDER BY target, type",
        (namespace, source, *targets),
    )
    return [LinkRow(*link) for link in found]


def stored_of(connection: sqlite3.Connection, row: Row, limit: int, offset: int = 0) -> Stored:
    """A memory with some of its links, best first, and its counters."""
    best = connection.execute(_BEST, (row.namespace, row.key, limit, offset)).fetchall() if limit else []
    links = tuple(LinkRow(*link[:4]) for link in best if _is_sound(link))
    total = _link_totals(connection, row.namespace, [row.key]).get(row.key, 0)
    counters = connection.execute(
        "SELECT accessed_at, access_count FROM shelf WHERE namespace = ? AND id = ?", (row.namespace, row.id)
    ).fetchone()
    accessed_at, count = counters or (row.created_at, 0)
    return Stored(row, links, total, accessed_at, count)


def _link_totals(connection: sqlite3.Connection, namespace: str, keys: Sequence[str]) -> dict[str, int]:
    places = ", ".join("?" * len(keys))
    counted = f"SELECT source, count(*) FROM links WHERE namespace = ? AND source IN ({places}) GROUP BY source"
    return dict(connection.execute(counted, (namespace, *keys)).fetchall())


def read_linked(connection: sqlite3.Connection, namespace: str, key: str, offset: int, limit: int) -> Stored:
    """One memory with a page of its links. Raises Refused."""
    row = row_by_key(connection, namespace, key)
    if row is None:
        raise Refused("memory_not_found")
    return stored_of(connection, row, limit, offset)


def read(connection: sqlite3.Connection, namespace: str, keys: Sequence[str]) -> list[Stored | Exception]:
    """Memories by key with the number of their links; a Refused in the place of one that cannot be read."""
    known = list(dict.fromkeys(keys))
    places = ", ".join("?" * len(known))
    found = {raw[1]: raw for raw in connection.execute(f"{_SELECT} AND key IN ({places})", (namespace, *known))}
    totals = _link_totals(connection, namespace, known)
    memories = {key: _memory(found.get(key), totals.get(key, 0)) for key in known}
    return [memories[key] for key in keys]


def _memory(raw: tuple[Any, ...] | None, links: int) -> Stored | Exception:
    try:
        row = _row(raw)
    except Refused as error:
        return error
    return Refused("memory_not_found") if row is None else Stored(row, links_total=links)


def walk(connection: sqlite3.Connection, namespace: str, key: str, limits: Limits) -> WalkResult:
    """Walk from a memory. Raises Refused when it cannot be read itself."""
    if row_by_key(connection, namespace, key) is None:
        raise Refused("memory_not_found")
    conversation = Walk(key, limits).run()
    ended: set[str] = set()
    try:
        asked = next(conversation)
        while True:
            asked = conversation.send(_links(connection, namespace, asked, ended))
    except StopIteration as end:
        walked: Walked = end.value
    return WalkResult(walked, tuple(read(connection, namespace, [step.key for step in walked.steps])))


def _links(connection: sqlite3.Connection, namespace: str, asked: Ask, ended: set[str]) -> list[Link]:
    """The next links of a memory; ``ended`` remembers those whose last page was not full."""
    if asked.key in ended:
        return []
    limit = _FIRST_PAGE if not asked.offset else asked.offset * 3
    links = [_link(found) for found in connection.execute(_BEST, (namespace, asked.key, limit, asked.offset))]
    if len(links) < limit:
        ended.add(asked.key)
    return links


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
    how: How = "rare" if _is_rare(connection, asked.search) else "scan"
    source, where, values = _matching(namespace, asked, how)
    table = "t" if source.startswith("tags") and asked.sort_by == "accessed_at" else "s"
    way = "DESC" if asked.descending else "ASC"
    column = _SORTS[_SORTS.index(asked.sort_by)]  # a name of ours, whatever was asked
    ids = connection.execute(
        f"SELECT s.id FROM {source} WHERE {where} ORDER BY {table}.{column} {way}, {table}.id {way} LIMIT ? OFFSET ?",
        (*values, asked.limit, asked.offset),
    ).fetchall()
    found = tuple(_by_id(connection, namespace, name) for (name,) in ids)
    return Page(found, _total(connection, namespace, asked, how))


def _is_rare(connection: sqlite3.Connection, search: str | None) -> bool:
    """Whether so few memories hold a text that it is best to begin with them; the others are met soon enough."""
    if search is None or not _has_trigram(search):
        return False
    counted = "SELECT count(*) FROM (SELECT rowid FROM search WHERE search MATCH ? LIMIT ?)"
    return int(connection.execute(counted, (_phrase(search), _RARE + 1)).fetchone()[0]) <= _RARE


def _has_trigram(search: str | None) -> bool:
    return search is not None and len(search) >= 3


def _phrase(search: str) -> str:
    """A text as a full-text phrase; the index holds every three characters in a row."""
    return '"' + search.replace('"', '""') + '"'


def _by_id(connection: sqlite3.Connection, namespace: str, name: str) -> Stored | Exception:
    try:
        row = row_by_id(connection, namespace, name)
        return Refused("memory_not_found") if row is None else stored_of(connection, row, 0)
    except Refused as error:
        return error


def _matching(namespace: str, asked: Query, how: How) -> tuple[str, str, list[Any]]:
    """The tables, conditions and values of a query; names are ours, values are bound.

    A text is looked for beginning with its few matches ("rare"), in each memory that is met in order
    ("scan"), or, where only their number matters, in the index as a whole ("count").
    """
    source, where = "shelf AS s", ["s.namespace = ?"]
    values: list[Any] = [namespace]
    tags = list(asked.tags)
    if how == "rare":
        source = (
            "search CROSS JOIN memories AS m ON m.rowid = search.rowid"
            " CROSS JOIN shelf AS s ON s.namespace = m.namespace AND s.id = m.id"
        )
        where.append("search MATCH ?")
        values.append(_phrase(asked.search or ""))
    elif tags:
        source = "tags AS t CROSS JOIN shelf AS s ON s.namespace = t.namespace AND s.id = t.id"
        where += ["t.namespace = ?", "t.tag = ?", *([] if asked.archived else ["t.archived = 0"])]
        values += [namespace, tags.pop(0)]
    if not asked.archived:
        where.append("s.archived = 0")
    for tag in tags:
        where.append("EXISTS (SELECT 1 FROM tags WHERE namespace = s.namespace AND id = s.id AND tag = ?)")
        values.append(tag)
    importance = None if asked.importance is None else IMPORTANCES.index(asked.importance)
    for name, value in (("type", asked.type), ("importance", importance), ("category", asked.category)):
        if value is not None:
            where.append(f"s.{name} = ?")
            values.append(value)
    if asked.search is not None and how == "scan":
        where.append("instr((SELECT folded(content) FROM memories WHERE rowid = s.memory), ?)")
        values.append(asked.search)
    if asked.search is not None and how == "count":
        where.append("s.memory IN (SELECT rowid FROM search WHERE search MATCH ?)")
        values.append(_phrase(asked.search))
    return source, " AND ".join(where), values


def _total(connection: sqlite3.Connection, namespace: str, asked: Query, how: How) -> int:
    """How many memories match: from the counters where they know it, else by the cheapest exact count."""
    if asked.search is None and (counted := _counted(connection, namespace, asked)) is not None:
        return counted
    if how == "scan" and _has_trigram(asked.search):
        matches = _count(connection, "search", "search MATCH ?", [_phrase(asked.search or "")])
        (every,) = connection.execute("SELECT sum(number) FROM counters WHERE name = 'all'").fetchone()
        if _is_plain(asked) and every == _counted(connection, namespace, asked):
            return matches  # no other namespace, nothing archived: all that the index holds is meant
        how = "rare" if matches < every // 4 else "count"
    return _count(connection, *_matching(namespace, asked, how))


def _is_plain(asked: Query) -> bool:
    return not asked.tags and asked.type is None and asked.importance is None and asked.category is None


def _count(connection: sqlite3.Connection, source: str, where: str, values: list[Any]) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {source} WHERE {where}", values).fetchone()[0])


def _counted(connection: sqlite3.Connection, namespace: str, asked: Query) -> int | None:
    """The number of memories by at most one of type, importance and tag, which the counters keep; else None."""
    place = None if asked.importance is None else str(IMPORTANCES.index(asked.importance))
    named = [("type", asked.type), ("importance", place), *(("tag", tag) for tag in asked.tags)]
    filters = [(name, value) for name, value in named if value is not None]
    if asked.category is not None or len(filters) > 1:
        return None
    archived = "" if asked.archived else " AND archived = 0"
    counted = connection.execute(
        f"SELECT sum(number) FROM counters WHERE namespace = ? AND name = ? AND value = ?{archived}",
        (namespace, *(filters[0] if filters else ("all", ""))),
    ).fetchone()
    return int(counted[0] or 0)


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
