"""Reads of memories and links in an SQLite store, in a snapshot of the caller."""

import sqlite3
from collections.abc import Sequence

from abilities.declarations.faults import Refused
from abilities.helpers.stores.model import LinkRecord, LinkRow, Row, StoredMemory, verify_row
from abilities.helpers.stores.protocol import Backlinks, WalkResult
from abilities.helpers.walk import LinkRequest, Walk, WalkLimits, WalkLink, WalkOutcome

COLUMNS = ", ".join(Row._fields)
_LINK_ROW = ", ".join(LinkRow._fields)
_LINK_RECORD = ", ".join(LinkRecord._fields)

_SELECT = f"SELECT {COLUMNS}, hash FROM memories WHERE namespace = ?"
_BEST_LINKS = f"""
SELECT {_LINK_RECORD} FROM links WHERE namespace = ? AND source = ?
ORDER BY rank DESC, weight DESC, target, type LIMIT ? OFFSET ?
"""
_FIRST_PAGE = 32
"""Links of a memory that a walk reads at first; most walks need no more of it."""


def find_row_by_key(connection: sqlite3.Connection, namespace: str, key: str) -> Row | None:
    """Return a memory's row, or None. Raises Refused if it is damaged."""
    return _fetch_row(connection.execute(f"{_SELECT} AND key = ?", (namespace, key)))


def find_row_by_id(connection: sqlite3.Connection, namespace: str, memory_id: str) -> Row | None:
    """Return a memory's row, or None. Raises Refused if it is damaged."""
    return _fetch_row(connection.execute(f"{_SELECT} AND id = ?", (namespace, memory_id)))


def _fetch_row(cursor: sqlite3.Cursor) -> Row | None:
    columns = cursor.fetchone()
    if columns is None:
        return None

    *values, stored_hash = columns
    return verify_row(Row._make(values), stored_hash)


def read_links_to(
    connection: sqlite3.Connection, namespace: str, source: str, targets: Sequence[str]
) -> list[LinkRow]:
    """Return a memory's links to some keys, ordered by target and type."""
    statement = (
        f"SELECT {_LINK_ROW} FROM links WHERE namespace = ? AND source = ?"
        f" AND target IN ({format_placeholders(len(targets))}) ORDER BY target, type"
    )
    cursor = connection.execute(statement, (namespace, source, *targets))
    return list(map(LinkRow._make, cursor))


def read_all_links(
    connection: sqlite3.Connection, namespace: str, source: str
) -> tuple[list[LinkRow], int]:
    """Return all sound links of a memory, by target and type, and the number of damaged ones."""
    statement = f"SELECT {_LINK_RECORD} FROM links WHERE namespace = ? AND source = ?"
    cursor = connection.execute(statement, (namespace, source))
    records = list(map(LinkRecord._make, cursor))

    links = [record.row for record in records if record.is_sound]
    links.sort()  # of one source, so by target and type

    damaged = len(records) - len(links)
    return links, damaged


def load_memory(
    connection: sqlite3.Connection, row: Row, limit: int, offset: int = 0
) -> StoredMemory:
    """Return a memory with up to ``limit`` of its links, best first, and its access counters."""
    links: tuple[LinkRow, ...] = ()
    if limit:  # most callers need none, and save a statement
        cursor = connection.execute(_BEST_LINKS, (row.namespace, row.key, limit, offset))
        links = _collect_sound_links(cursor)

    totals = _count_links(connection, row.namespace, [row.key])
    counters = connection.execute(
        "SELECT accessed_at, access_count FROM shelf WHERE namespace = ? AND id = ?",
        (row.namespace, row.id),
    ).fetchone()
    accessed_at, access_count = counters or (row.created_at, 0)

    return StoredMemory(row, links, totals.get(row.key, 0), accessed_at, access_count)


def _collect_sound_links(cursor: sqlite3.Cursor) -> tuple[LinkRow, ...]:
    return tuple(record.row for record in map(LinkRecord._make, cursor) if record.is_sound)


def _count_links(
    connection: sqlite3.Connection, namespace: str, keys: Sequence[str]
) -> dict[str, int]:
    """Return how many links each memory has; one without links is left out."""
    statement = (
        "SELECT source, count(*) FROM links WHERE namespace = ?"
        f" AND source IN ({format_placeholders(len(keys))}) GROUP BY source"
    )
    return dict(connection.execute(statement, (namespace, *keys)).fetchall())


def read_linked(
    connection: sqlite3.Connection, namespace: str, key: str, offset: int, limit: int
) -> StoredMemory:
    """Return one memory with a page of its links. Raises Refused if it is missing or damaged."""
    row = find_row_by_key(connection, namespace, key)
    if row is None:
        raise Refused("memory_not_found")

    return load_memory(connection, row, limit, offset)


def read_backlinks(
    connection: sqlite3.Connection, namespace: str, key: str, offset: int, limit: int
) -> Backlinks:
    """Return a page of the links that lead to a key."""
    page = connection.execute(
        f"SELECT {_LINK_RECORD} FROM links WHERE namespace = ? AND target = ?"
        " ORDER BY source, type LIMIT ? OFFSET ?",
        (namespace, key, limit, offset),
    )
    links = _collect_sound_links(page)

    (total,) = connection.execute(
        "SELECT count(*) FROM links WHERE namespace = ? AND target = ?", (namespace, key)
    ).fetchone()

    return Backlinks(links, total)


def read(
    connection: sqlite3.Connection, namespace: str, keys: Sequence[str]
) -> list[StoredMemory | Exception]:
    """Return memories by key, in that order, with the numbers of their links.

    A Refused stands for each one that is missing or damaged.
    """
    unique_keys = list(dict.fromkeys(keys))  # a repeated key is read and verified once
    totals = _count_links(connection, namespace, unique_keys)
    memories: dict[str, StoredMemory | Exception] = {}

    statement = f"{_SELECT} AND key IN ({format_placeholders(len(unique_keys))})"
    for *values, stored_hash in connection.execute(statement, (namespace, *unique_keys)):
        row = Row._make(values)
        try:
            verify_row(row, stored_hash)
        except Refused as error:
            memories[row.key] = error
        else:
            memories[row.key] = StoredMemory(row, links_total=totals.get(row.key, 0))

    for key in unique_keys:
        if key not in memories:
            memories[key] = Refused("memory_not_found")

    return [memories[key] for key in keys]


def walk(
    connection: sqlite3.Connection, namespace: str, key: str, limits: WalkLimits
) -> WalkResult:
    """Walk from a memory. Raises Refused if it is missing or damaged itself.

    Links tell nothing about an invalid score of their target: that is seen when the walk's memories
    are read. The walk is then repeated without the memories that have one.
    """
    if find_row_by_key(connection, namespace, key) is None:
        raise Refused("memory_not_found")

    invalid: set[str] = set()
    while True:
        outcome = _run_walk(Walk(key, limits), _LinkPages(connection, namespace, invalid))
        memories = read(connection, namespace, [step.key for step in outcome.steps])

        newly_invalid: set[str] = set()
        for step, memory in zip(outcome.steps, memories, strict=True):
            if isinstance(memory, Refused) and memory.reason == "invalid_stored_value":
                newly_invalid.add(step.key)

        if not newly_invalid:
            return WalkResult(outcome, tuple(memories))
        invalid |= newly_invalid


class _LinkPages:
    """Answers a walk's requests for links, in pages that grow.

    ``invalid`` holds targets that the walk must not enter.
    """

    def __init__(self, connection: sqlite3.Connection, namespace: str, invalid: set[str]) -> None:
        self._connection = connection
        self._namespace = namespace
        self._invalid = invalid
        self._exhausted: set[str] = set()

    def read(self, request: LinkRequest) -> list[WalkLink]:
        """Return the next links of a memory, best first; none if it has no more."""
        if request.key in self._exhausted:
            return []

        # A page is three times all before it, so that a hub's many links take few queries.
        limit = request.offset * 3 or _FIRST_PAGE
        cursor = self._connection.execute(
            _BEST_LINKS, (self._namespace, request.key, limit, request.offset)
        )

        links: list[WalkLink] = []
        for record in map(LinkRecord._make, cursor):
            links.append(record.to_walk_link(self._invalid))

        if len(links) < limit:
            self._exhausted.add(request.key)

        return links


def _run_walk(walk: Walk, pages: _LinkPages) -> WalkOutcome:
    """Answer a walk's requests until it is done."""
    conversation = walk.run()
    try:
        request = next(conversation)
        while True:
            request = conversation.send(pages.read(request))
    except StopIteration as end:
        outcome: WalkOutcome = end.value
        return outcome


def format_placeholders(count: int) -> str:
    """Return that many placeholders for bound values, separated by commas."""
    return ", ".join("?" * count)
