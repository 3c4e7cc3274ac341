"""How memories and links are read from an SQLite store, inside of a snapshot that the caller holds."""

import sqlite3
from collections.abc import Sequence
from typing import Any

from abilities.declarations.faults import Refused
from abilities.helpers.stores.model import (
    LinkRecord,
    LinkRow,
    Row,
    StoredMemory,
    verify_row,
)
from abilities.helpers.stores.protocol import Backlinks, WalkResult
from abilities.helpers.walk import LinkRequest, Walk, WalkLimits, WalkLink, WalkOutcome

COLUMNS = ", ".join(Row._fields)
_SELECT = f"SELECT {COLUMNS}, hash FROM memories WHERE namespace = ?"
_BEST = """
SELECT source, target, type, weight, rank, hash FROM links WHERE namespace = ? AND source = ?
ORDER BY rank DESC, weight DESC, target, type LIMIT ? OFFSET ?
"""
_FIRST_PAGE = 32


def row_by_key(connection: sqlite3.Connection, namespace: str, key: str) -> Row | None:
    """A memory's row. Raises Refused when it is damaged."""
    return _row(connection.execute(f"{_SELECT} AND key = ?", (namespace, key)).fetchone())


def row_by_id(connection: sqlite3.Connection, namespace: str, name: str) -> Row | None:
    """A memory's row. Raises Refused when it is damaged."""
    return _row(connection.execute(f"{_SELECT} AND id = ?", (namespace, name)).fetchone())


def _row(found: tuple[Any, ...] | None) -> Row | None:
    return None if found is None else verify_row(Row(*found[:-1]), found[-1])


def link_rows(
    connection: sqlite3.Connection, namespace: str, source: str, targets: Sequence[str]
) -> list[LinkRow]:
    """A memory's links to some others, by target and type."""
    found = connection.execute(
        "SELECT source, target, type, weight FROM links WHERE namespace = ? AND source = ?"
        f" AND target IN ({', '.join('?' * len(targets))}) ORDER BY target, type",
        (namespace, source, *targets),
    )
    return [LinkRow(*link) for link in found]


def all_links(
    connection: sqlite3.Connection, namespace: str, source: str
) -> tuple[list[LinkRow], int]:
    """Every sound link of a memory, by target and type, and the number of damaged ones."""
    found = connection.execute(
        "SELECT source, target, type, weight, rank, hash FROM links WHERE namespace = ? AND source = ?",
        (namespace, source),
    ).fetchall()
    sound = sorted(link.row for link in map(LinkRecord._make, found) if link.is_sound)
    return sound, len(found) - len(sound)


def load_memory(
    connection: sqlite3.Connection, row: Row, limit: int, offset: int = 0
) -> StoredMemory:
    """A memory with some of its links, best first, and its counters."""
    best = (
        connection.execute(_BEST, (row.namespace, row.key, limit, offset)).fetchall()
        if limit
        else []
    )
    links = tuple(link.row for link in map(LinkRecord._make, best) if link.is_sound)
    total = _link_totals(connection, row.namespace, [row.key]).get(row.key, 0)
    counters = connection.execute(
        "SELECT accessed_at, access_count FROM shelf WHERE namespace = ? AND id = ?",
        (row.namespace, row.id),
    ).fetchone()
    accessed_at, count = counters or (row.created_at, 0)
    return StoredMemory(row, links, total, accessed_at, count)


def _link_totals(
    connection: sqlite3.Connection, namespace: str, keys: Sequence[str]
) -> dict[str, int]:
    places = ", ".join("?" * len(keys))
    counted = f"SELECT source, count(*) FROM links WHERE namespace = ? AND source IN ({places}) GROUP BY source"
    return dict(connection.execute(counted, (namespace, *keys)).fetchall())


def read_linked(
    connection: sqlite3.Connection, namespace: str, key: str, offset: int, limit: int
) -> StoredMemory:
    """One memory with a page of its links. Raises Refused."""
    row = row_by_key(connection, namespace, key)
    if row is None:
        raise Refused("memory_not_found")
    return load_memory(connection, row, limit, offset)


def backlinks(
    connection: sqlite3.Connection, namespace: str, key: str, offset: int, limit: int
) -> Backlinks:
    """A page of the links that lead to a key."""
    found = connection.execute(
        "SELECT source, target, type, weight, rank, hash FROM links WHERE namespace = ? AND target = ?"
        " ORDER BY source, type LIMIT ? OFFSET ?",
        (namespace, key, limit, offset),
    )
    links = tuple(link.row for link in map(LinkRecord._make, found) if link.is_sound)
    counted = "SELECT count(*) FROM links WHERE namespace = ? AND target = ?"
    return Backlinks(links, int(connection.execute(counted, (namespace, key)).fetchone()[0]))


def read(
    connection: sqlite3.Connection, namespace: str, keys: Sequence[str]
) -> list[StoredMemory | Exception]:
    """Memories by key with the number of their links; a Refused in the place of one that cannot be read."""
    known = list(dict.fromkeys(keys))
    places = ", ".join("?" * len(known))
    found = {
        raw[1]: raw
        for raw in connection.execute(f"{_SELECT} AND key IN ({places})", (namespace, *known))
    }
    totals = _link_totals(connection, namespace, known)
    memories = {key: _memory(found.get(key), totals.get(key, 0)) for key in known}
    return [memories[key] for key in keys]


def _memory(raw: tuple[Any, ...] | None, links: int) -> StoredMemory | Exception:
    try:
        row = _row(raw)
    except Refused as error:
        return error
    return Refused("memory_not_found") if row is None else StoredMemory(row, links_total=links)


def walk(
    connection: sqlite3.Connection, namespace: str, key: str, limits: WalkLimits
) -> WalkResult:
    """Walk from a memory. Raises Refused when it cannot be read itself.

    A memory with a score that cannot be is seen when it is read, and the walk is made again without it.
    """
    if row_by_key(connection, namespace, key) is None:
        raise Refused("memory_not_found")
    invalid: set[str] = set()
    while True:
        walked = _walked(connection, namespace, key, limits, invalid)
        memories = read(connection, namespace, [step.key for step in walked.steps])
        found = {
            s.key
            for s, memory in zip(walked.steps, memories, strict=True)
            if _has_invalid_score(memory)
        }
        if not found:
            return WalkResult(walked, tuple(memories))
        invalid |= found


def _has_invalid_score(memory: StoredMemory | Exception) -> bool:
    return isinstance(memory, Refused) and memory.reason == "invalid_stored_value"


def _walked(
    connection: sqlite3.Connection, namespace: str, key: str, limits: WalkLimits, invalid: set[str]
) -> WalkOutcome:
    conversation = Walk(key, limits).run()
    ended: set[str] = set()
    try:
        asked = next(conversation)
        while True:
            asked = conversation.send(_links(connection, namespace, asked, ended, invalid))
    except StopIteration as end:
        walked: WalkOutcome = end.value
        return walked


def _links(
    connection: sqlite3.Connection,
    namespace: str,
    asked: LinkRequest,
    ended: set[str],
    invalid: set[str],
) -> list[WalkLink]:
    """The next links of a memory; ``ended`` remembers those whose last page was not full."""
    if asked.key in ended:
        return []
    limit = _FIRST_PAGE if not asked.offset else asked.offset * 3
    links = [
        LinkRecord._make(found).to_walk_link(invalid)
        for found in connection.execute(_BEST, (namespace, asked.key, limit, asked.offset))
    ]
    if len(links) < limit:
        ended.add(asked.key)
    return links
