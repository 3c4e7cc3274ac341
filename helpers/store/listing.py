"""Listing the memories of a namespace by key."""

import sys

from abilities.declarations.faults import Refused
from abilities.helpers.store.model import DamagedMemory, Row, verify_row
from abilities.helpers.store.query import MemoryLine
from abilities.helpers.store.reads import COLUMNS
from abilities.helpers.store.transaction import Transaction, to_name, to_raw

_PORTION = 100
"""Memories that are read at a time: with their contents, because the hash covers those."""

_LIST = f"""
SELECT RAW(m.key), {COLUMNS}, m.hash FROM memories AS m
WHERE m.namespace = ? AND m.archived <= ? AND m.key >= ? AND m.key > CAST(? AS text) {{below}}
ORDER BY m.key LIMIT ?
"""
_LAST_BEFORE_SURROGATES = "\ud7ff"
_FIRST_AFTER_SURROGATES = "\ue000"


async def list_memories(
    transaction: Transaction,
    namespace: str,
    prefix: str,
    after: str,
    limit: int,
    *,
    archived: bool,
) -> list[MemoryLine | DamagedMemory]:
    """Return memories by key, those that begin with a prefix and come after a key."""
    end = _find_end(prefix)
    below = [] if end is None else [end]
    text = _LIST.format(below="AND m.key < ?" if below else "")
    lines: list[MemoryLine | DamagedMemory] = []

    while len(lines) < limit:
        asked = min(_PORTION, limit - len(lines))
        values = (namespace, int(archived), prefix, to_raw(after), *below, asked)
        rows = await transaction.fetch(text, *values)
        for key, *columns, stored_hash in rows:
            after = to_name(key)
            lines.append(_make_line(after, Row._make(columns), stored_hash))
        if len(rows) < asked:
            break

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


def _make_line(key: str, row: Row, stored_hash: int) -> MemoryLine | DamagedMemory:
    try:
        verify_row(row, stored_hash)
    except Refused as error:
        return DamagedMemory(row.namespace, key, error.reason)

    return MemoryLine(
        key=row.key,
        summary=row.summary,
        type=row.type,
        size=len(row.content.encode()),
        version=row.version,
        updated_at=row.updated_at,
        archived=bool(row.archived),
    )
