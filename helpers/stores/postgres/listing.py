"""Listing the memories of a namespace by key in PostgreSQL."""

import sys

from abilities.declarations.faults import Refused
from abilities.helpers.stores.model import DamagedMemory, Row, verify_row
from abilities.helpers.stores.postgres.reads import COLUMNS, RowRecord
from abilities.helpers.stores.postgres.statements import Connection, Select
from abilities.helpers.stores.query import MemoryLine

_PORTION = 100
"""Memories that are read at a time: with their contents, because the hash covers those."""

_LIST = f"""
SELECT {COLUMNS}, m.hash FROM memories AS m
WHERE m.namespace = %s AND m.archived <= %s AND m.key >= %s AND m.key > %s
"""
_ORDER = "ORDER BY m.key LIMIT %s"
_LIST_TO_THE_END = Select(f"{_LIST} {_ORDER}", RowRecord.parse)
_LIST_BELOW = Select(f"{_LIST} AND m.key < %s {_ORDER}", RowRecord.parse)

_LAST_BEFORE_SURROGATES = "\ud7ff"
_FIRST_AFTER_SURROGATES = "\ue000"


async def list_memories(
    connection: Connection, namespace: str, prefix: str, after: str, limit: int, *, archived: bool
) -> list[MemoryLine | DamagedMemory]:
    """Return memories whose keys begin with a prefix, after a key, by key."""
    end = _find_end(prefix)
    lines: list[MemoryLine | DamagedMemory] = []

    while len(lines) < limit:
        asked = min(_PORTION, limit - len(lines))
        values = (namespace, int(archived), prefix, after)
        if end is None:
            records = await _LIST_TO_THE_END.fetch(connection, *values, asked)
        else:
            records = await _LIST_BELOW.fetch(connection, *values, end, asked)

        for record in records:
            lines.append(_list_memory(record))
        if len(records) < asked:
            break
        after = records[-1].row.key

    return lines


def _find_end(prefix: str) -> str | None:
    """Return the first text behind all that begin with a prefix; None if there is none.

    Texts are ordered by code points, of which those of surrogates are in none.
    """
    shortened = prefix.rstrip(chr(sys.maxunicode))
    if not shortened:
        return None

    start, last = shortened[:-1], shortened[-1]
    if last == _LAST_BEFORE_SURROGATES:
        return start + _FIRST_AFTER_SURROGATES

    return start + chr(ord(last) + 1)


def _list_memory(record: RowRecord) -> MemoryLine | DamagedMemory:
    row: Row = record.row
    try:
        verify_row(row, record.hash)
    except Refused as error:
        return DamagedMemory(row.namespace, row.key, error.reason)

    size = len(row.content.encode())
    return MemoryLine(
        key=row.key,
        summary=row.summary,
        type=row.type,
        size=size,
        version=row.version,
        updated_at=row.updated_at,
        archived=bool(row.archived),
    )
