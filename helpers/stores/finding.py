"""What a write finds of a memory and of its namespace, read together."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from abilities.declarations.faults import Refused
from abilities.declarations.reasons import Reason
from abilities.helpers.stores import ranking
from abilities.helpers.stores.model import AccessCounters, Row, verify_row
from abilities.helpers.stores.recall_index import INDEX_STATE, IndexState
from abilities.helpers.stores.transaction import Transaction


class Found(NamedTuple):
    """The memory or None, and what a change of it has to know of the namespace.

    ``damage`` says why readers refuse the memory. ``has_links`` says whether any link is one of the
    memory or leads to its key, ``has_old_marks`` that the namespace has marks of stale ranks that
    it does not keep, and ``has_due`` that memories have expired and are not archived yet.
    ``counters`` and ``doc`` are what the memory index has of the memory: its access counters and
    its number in the recall index. ``free_doc`` is the number of the next new memory, and
    ``recall_state`` what that index has; it is None after a write to it.
    """

    row: Row | None
    last_version: int
    has_links: bool
    has_old_marks: bool
    has_due: bool
    counters: AccessCounters | None
    doc: int | None
    free_doc: int
    recall_state: IndexState | None
    damage: Reason | None = None

    @property
    def next_version(self) -> int:
        """The version that a change gives."""
        return self.last_version + 1


_FIRST_COLUMN = 10
"""Where the columns of the memory begin."""

_COLUMNS = ", ".join(f"m.{name}" for name in (*Row._fields, "hash"))
_SELECT = f"""
SELECT coalesce(v.number, 0), c.key IS NOT NULL, (
    SELECT 1 FROM stale_ranks AS r WHERE r.namespace = given.namespace LIMIT 1 OFFSET ?
) IS NOT NULL OR EXISTS (
    SELECT 1 FROM stale_ranks AS r
    WHERE r.namespace = given.namespace AND r.since <= coalesce(v.number, 0) + 1 - ?
), EXISTS (
    SELECT 1 FROM memories AS d INDEXED BY memories_due
    WHERE d.namespace = given.namespace
    AND d.expires_at <> '' AND d.archived = 0 AND d.expires_at <= given.now
), (
    SELECT max(l.doc) FROM shelf AS l WHERE l.namespace = given.namespace
), {INDEX_STATE}, s.accessed_at, s.access_count, s.doc, {_COLUMNS}
FROM (
    SELECT CAST(? AS text) AS namespace, CAST(? AS text) AS name, CAST(? AS text) AS now
) AS given
LEFT JOIN versions AS v ON v.namespace = given.namespace
"""
_BY_KEY = f"""
{_SELECT} LEFT JOIN memories AS m ON m.namespace = given.namespace AND m.key = given.name
LEFT JOIN shelf AS s ON s.namespace = m.namespace AND s.id = m.id
LEFT JOIN link_counts AS c ON c.namespace = given.namespace AND c.key = given.name
"""
_BY_ID = f"""
{_SELECT} LEFT JOIN memories AS m ON m.namespace = given.namespace AND m.id = given.name
LEFT JOIN shelf AS s ON s.namespace = m.namespace AND s.id = m.id
LEFT JOIN link_counts AS c ON c.namespace = given.namespace AND c.key = m.key
"""


async def find_by_key(transaction: Transaction, namespace: str, key: str, now: str = "") -> Found:
    """Return what a change finds at a key; by ``now`` it is judged what is due."""
    return await _find(transaction, _BY_KEY, namespace, key, now)


async def find_by_id(
    transaction: Transaction, namespace: str, memory_id: str, now: str = ""
) -> Found:
    """Return what a change finds at an id; by ``now`` it is judged what is due."""
    return await _find(transaction, _BY_ID, namespace, memory_id, now)


async def _find(transaction: Transaction, text: str, *given: str) -> Found:
    bounds = (ranking.MOST_STALE, ranking.LONGEST_STALE)
    (columns,) = await transaction.fetch(text, *bounds, *given)
    return _parse(columns)


def _parse(columns: Sequence[Any]) -> Found:
    version, has_links, has_old_marks, has_due, last_doc, *indexed = columns[:_FIRST_COLUMN]
    *state, accessed_at, access_count, doc = indexed
    *values, stored_hash = columns[_FIRST_COLUMN:]

    row: Row | None = None
    damage: Reason | None = None
    if stored_hash is not None:  # without a memory, the join returns nulls
        row = Row._make(values)
        damage = find_damage(row, stored_hash)

    counters: AccessCounters | None = None
    if doc is not None:
        counters = AccessCounters(accessed_at, access_count)

    free_doc = 0 if last_doc is None else last_doc + 1
    flags = (bool(has_links), bool(has_old_marks), bool(has_due))
    recall_state = IndexState._make(state)
    return Found(row, version, *flags, counters, doc, free_doc, recall_state, damage)


def find_damage(row: Row, stored_hash: int) -> Reason | None:
    """Return why readers refuse a row; None if it is sound."""
    try:
        verify_row(row, stored_hash)
    except Refused as error:
        return error.reason

    return None
