"""Lists of the memories of an SQLite store, in a snapshot of the caller."""

import sqlite3

from abilities.declarations.faults import Refused
from abilities.helpers.stores.model import DamagedMemory, Row, verify_row
from abilities.helpers.stores.query import MemoryLine
from abilities.helpers.stores.sqlite.reads import COLUMNS

# No byte of UTF-8 is 255, so this one stands behind all keys with the prefix.
_LINES = f"""
SELECT CAST(key AS BLOB), {COLUMNS}, hash FROM memories
WHERE namespace = ? AND key >= ? AND key > ? AND key < CAST(? AS TEXT) AND archived <= ?
ORDER BY key LIMIT ?
"""


def list_memories(
    connection: sqlite3.Connection,
    namespace: str,
    prefix: str,
    after: str,
    limit: int,
    *,
    archived: bool,
) -> list[MemoryLine | DamagedMemory]:
    """Return memories by key, those that begin with a prefix and come after a key."""
    end = prefix.encode() + b"\xff"
    values = (namespace, prefix, after, end, int(archived), limit)

    lines: list[MemoryLine | DamagedMemory] = []
    for key, *columns, stored_hash in connection.execute(_LINES, values):
        row = Row._make(columns)
        try:
            verify_row(row, stored_hash)
        except Refused as error:
            name = key.decode(errors="surrogateescape")
            lines.append(DamagedMemory(namespace, name, error.reason))
        else:
            lines.append(_make_line(row))

    return lines


def _make_line(row: Row) -> MemoryLine:
    return MemoryLine(
        row.key,
        row.summary,
        row.type,
        len(row.content.encode()),
        row.version,
        row.updated_at,
        bool(row.archived),
    )
