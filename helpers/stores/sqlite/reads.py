"""Reads of memories and links in an SQLite store, in a snapshot of the caller."""

import sqlite3
from collections.abc import Sequence
from typing import Literal, NamedTuple

from abilities.declarations.faults import Refused
from abilities.helpers.stores.model import (
    LinkRecord,
    LinkRow,
    Row,
    StoredMemory,
    verify_row,
    verify_saved,
)
from abilities.helpers.stores.past import find_named
from abilities.helpers.stores.protocol import Backlinks
from abilities.helpers.stores.sqlite.ranking import LINK_RECORD, BestLinks
from abilities.helpers.stores.sqlite.transaction import run
from abilities.helpers.stores.timeline import MemoryName

COLUMNS = ", ".join(Row._fields)
_LINK_ROW = ", ".join(LinkRow._fields)

_SELECT = f"SELECT {COLUMNS}, hash FROM memories WHERE namespace = ?"


class StoredRow(NamedTuple):
    """A row as it is stored; ``memory`` is its rowid."""

    memory: int
    row: Row
    is_damaged: bool


class _LinkTotals(NamedTuple):
    """How many links a key has, and how many lead to it."""

    outgoing: int
    incoming: int


_NO_LINKS = _LinkTotals(0, 0)


def find_row_by_key(connection: sqlite3.Connection, namespace: str, key: str) -> Row | None:
    """Return a memory's row, or None. Raises Refused if it is damaged."""
    return _fetch_row(connection.execute(f"{_SELECT} AND key = ?", (namespace, key)))


def find_row_by_id(connection: sqlite3.Connection, namespace: str, memory_id: str) -> Row | None:
    """Return a memory's row, or None. Raises Refused if it is damaged."""
    return _fetch_row(connection.execute(f"{_SELECT} AND id = ?", (namespace, memory_id)))


def verify_saved_row(connection: sqlite3.Connection, row: Row) -> None:
    """Check that a row just written can be read. Raises Refused: invalid_stored_value."""
    cursor = connection.execute(f"{_SELECT} AND key = ?", (row.namespace, row.key))
    *values, stored_hash = cursor.fetchone()
    verify_saved(Row._make(values), stored_hash)


def fetch_stored_row(
    connection: sqlite3.Connection, namespace: str, column: Literal["key", "id"], name: str
) -> StoredRow | None:
    """Return the row with a key or an id as it is stored, damaged or not; None if there is none."""
    statement = f"SELECT rowid, {COLUMNS}, hash FROM memories WHERE namespace = ? AND {column} = ?"
    columns = connection.execute(statement, (namespace, name)).fetchone()
    if columns is None:
        return None

    memory, *values, stored_hash = columns
    row = Row._make(values)
    try:
        verify_row(row, stored_hash)
    except Refused:
        return StoredRow(memory, row, is_damaged=True)

    return StoredRow(memory, row, is_damaged=False)


class NamedRow(NamedTuple):
    """A memory by its id; ``stored`` is its row, or None if it was deleted and has a history."""

    id: str
    stored: StoredRow | None


def find_named_row(connection: sqlite3.Connection, namespace: str, name: MemoryName) -> NamedRow:
    """Return the memory that a name means, as it is stored.

    Raises Refused: id_not_found, memory_not_found.
    """
    named = run(connection, find_named, namespace, name)
    stored: StoredRow | None = None
    if named.row is not None and name.id:
        stored = fetch_stored_row(connection, namespace, "id", name.id)
    elif named.row is not None:
        stored = fetch_stored_row(connection, namespace, "key", name.key or "")
        stored = stored or fetch_stored_row(connection, namespace, "id", named.id)

    return NamedRow(named.id, stored)


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
    if not targets:
        return []

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
    statement = f"SELECT {LINK_RECORD} FROM links WHERE namespace = ? AND source = ?"
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
        best = BestLinks(connection, row.namespace, "target").read(row.key, limit, offset)
        links = _collect_sound_links(best)

    totals = _read_totals(connection, row.namespace, [row.key])
    counters = connection.execute(
        "SELECT accessed_at, access_count FROM shelf WHERE namespace = ? AND id = ?",
        (row.namespace, row.id),
    ).fetchone()
    accessed_at, access_count = counters or (row.created_at, 0)

    outgoing, incoming = totals.get(row.key, _NO_LINKS)
    return StoredMemory(row, links, outgoing, accessed_at, access_count, incoming)


def _collect_sound_links(records: Sequence[LinkRecord]) -> tuple[LinkRow, ...]:
    return tuple(record.row for record in records if record.is_sound)


def _read_totals(
    connection: sqlite3.Connection, namespace: str, keys: Sequence[str]
) -> dict[str, _LinkTotals]:
    """Return how many links each key has and how many lead to it; one without any is left out."""
    statement = (
        "SELECT key, outgoing, incoming FROM link_counts WHERE namespace = ?"
        f" AND key IN ({format_placeholders(len(keys))})"
    )

    totals: dict[str, _LinkTotals] = {}
    for key, outgoing, incoming in connection.execute(statement, (namespace, *keys)):
        totals[key] = _LinkTotals(outgoing, incoming)

    return totals


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
    """Return a page of the links that lead to a key, best first, and how many there are."""
    best = BestLinks(connection, namespace, "source").read(key, limit, offset)
    links = _collect_sound_links(best)

    totals = _read_totals(connection, namespace, [key])
    return Backlinks(links, totals.get(key, _NO_LINKS).incoming)


def read(
    connection: sqlite3.Connection, namespace: str, keys: Sequence[str]
) -> list[StoredMemory | Exception]:
    """Return memories by key, in that order, with the numbers of their links.

    A Refused stands for each one that is missing or damaged.
    """
    unique_keys = list(dict.fromkeys(keys))  # a repeated key is read and verified once
    totals = _read_totals(connection, namespace, unique_keys)
    memories: dict[str, StoredMemory | Exception] = {}

    statement = f"{_SELECT} AND key IN ({format_placeholders(len(unique_keys))})"
    for *values, stored_hash in connection.execute(statement, (namespace, *unique_keys)):
        row = Row._make(values)
        try:
            verify_row(row, stored_hash)
        except Refused as error:
            memories[row.key] = error
        else:
            outgoing, incoming = totals.get(row.key, _NO_LINKS)
            memories[row.key] = StoredMemory(row, links_total=outgoing, backlinks_total=incoming)

    for key in unique_keys:
        if key not in memories:
            memories[key] = Refused("memory_not_found")

    return [memories[key] for key in keys]


def format_placeholders(count: int) -> str:
    """Return that many placeholders for bound values, separated by commas."""
    return ", ".join("?" * count)
