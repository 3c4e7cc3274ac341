"""Versions of memories: each change of a namespace takes its next number."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from abilities.declarations.faults import Refused
from abilities.declarations.reasons import Reason
from abilities.helpers.search.terms import Language
from abilities.helpers.stores import ranking
from abilities.helpers.stores.model import Row, verify_row
from abilities.helpers.stores.postgres import recall_index
from abilities.helpers.stores.postgres.reads import COLUMNS
from abilities.helpers.stores.postgres.statements import Connection, Select, is_due
from abilities.helpers.stores.recalling import parse_language


class Existing(NamedTuple):
    """What a change finds: the memory or None, and the last version of its namespace.

    ``has_links`` says whether any link is one of the memory or leads to its key. All of this is
    read together, so that it costs one round trip; the lock of the namespace keeps it true.
    ``damage`` says why readers refuse the memory. ``has_old_marks`` says that the namespace has
    marks of stale ranks that it does not keep, and ``has_many_recent`` that recent changes of the
    recall index are to be merged. ``language`` is that index's language. ``has_due`` says that
    memories of the namespace are to be archived because they expired, and ``is_purged`` that a
    memory with the id was purged; it is False if the memory was sought by key.
    """

    row: Row | None
    last_version: int
    has_links: bool
    damage: Reason | None = None
    has_old_marks: bool = False
    has_many_recent: bool = False
    language: Language = Language()
    has_due: bool = False
    is_purged: bool = False

    @property
    def next_version(self) -> int:
        """The version that a change gives."""
        return self.last_version + 1


class _ExistingRecord(NamedTuple):
    existing: Existing
    hash: int | None

    @classmethod
    def parse(cls, columns: Sequence[Any]) -> "_ExistingRecord":
        """Make a record of the columns of ``_SELECT_EXISTING``."""
        last_version, has_links, *flags, languages = columns[:_FIRST_COLUMN]
        has_old_marks, has_many_recent, has_due, is_purged = flags
        *values, stored_hash = columns[_FIRST_COLUMN:]

        # Without a memory, the join returns nulls in its place.
        row: Row | None = None
        if stored_hash is not None:
            row = Row._make(values)

        existing = Existing(
            row,
            last_version,
            has_links,
            has_old_marks=has_old_marks,
            has_many_recent=has_many_recent,
            language=parse_language(languages) or Language(),
            has_due=has_due,
            is_purged=is_purged,
        )
        return cls(existing, stored_hash)


_FIRST_COLUMN = 7
"""Where the columns of the memory begin."""

_SELECT_EXISTING = f"""
SELECT coalesce(v.number, 0), c.key IS NOT NULL, EXISTS (
    SELECT FROM stale_ranks AS s WHERE s.namespace = given.namespace OFFSET given.most
) OR EXISTS (
    SELECT FROM stale_ranks AS s
    WHERE s.namespace = given.namespace AND s.since <= v.number + 1 - given.longest
), (
    SELECT coalesce(sum(octet_length(r.weights)), 0) FROM recall_recent AS r
    WHERE r.namespace = given.namespace
) >= given.recent, EXISTS (
    SELECT FROM memories AS d WHERE d.namespace = given.namespace AND {is_due("d", "given.now")}
), is_purged, ARRAY(SELECT name FROM recall_language), {COLUMNS}, m.hash
FROM (SELECT %s::text AS namespace, %s::text AS name, %s::text AS now, %s::int AS most,
    %s::int AS longest, %s::int AS recent) AS given
LEFT JOIN versions AS v ON v.namespace = given.namespace
"""
_EXISTING_BY_KEY = Select(
    f"""
    {_SELECT_EXISTING}
    LEFT JOIN memories AS m ON m.namespace = given.namespace AND m.key = given.name
    LEFT JOIN link_counts AS c ON c.namespace = given.namespace AND c.key = given.name
    CROSS JOIN (SELECT false AS is_purged) AS p
    """,
    _ExistingRecord.parse,
)
_EXISTING_BY_ID = Select(
    f"""
    {_SELECT_EXISTING}
    LEFT JOIN memories AS m ON m.namespace = given.namespace AND m.id = given.name
    LEFT JOIN link_counts AS c ON c.namespace = given.namespace AND c.key = m.key
    CROSS JOIN LATERAL (SELECT EXISTS (
        SELECT FROM purged AS p WHERE p.namespace = given.namespace AND p.id = given.name
    ) AS is_purged) AS p
    """,
    _ExistingRecord.parse,
)


async def find_existing_by_key(
    connection: Connection, namespace: str, key: str, now: str = ""
) -> Existing:
    """Return what a change finds at a key; by ``now`` it is judged what is due."""
    values = (namespace, key, now, *_get_bounds())
    record = await _EXISTING_BY_KEY.fetch_only(connection, *values)
    return _verify(record)


async def find_existing_by_id(
    connection: Connection, namespace: str, memory_id: str, now: str = ""
) -> Existing:
    """Return what a change finds at an id; by ``now`` it is judged what is due."""
    values = (namespace, memory_id, now, *_get_bounds())
    record = await _EXISTING_BY_ID.fetch_only(connection, *values)
    return _verify(record)


def _get_bounds() -> tuple[int, int, int]:
    return ranking.MOST_STALE, ranking.LONGEST_STALE, recall_index.MOST_RECENT


def _verify(record: _ExistingRecord) -> Existing:
    row = record.existing.row
    if row is None or record.hash is None:
        return record.existing

    try:
        verify_row(row, record.hash)
    except Refused as error:
        return record.existing._replace(damage=error.reason)

    return record.existing
