"""Versions of memories: each change of a namespace takes its next number."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from abilities.declarations.faults import Refused
from abilities.declarations.reasons import Reason
from abilities.helpers.search.terms import Language
from abilities.helpers.stores import ranking
from abilities.helpers.stores.changes import ContinuedError
from abilities.helpers.stores.model import Row, verify_row
from abilities.helpers.stores.parts import CONTINUES, make_part_key
from abilities.helpers.stores.postgres import recall_index
from abilities.helpers.stores.postgres.reads import COLUMNS
from abilities.helpers.stores.postgres.statements import Connection, Select, is_due, to_flag
from abilities.helpers.stores.recalling import parse_language


class Existing(NamedTuple):
    """What a change finds: the memory or None, and the last version of its namespace.

    ``has_links`` says whether any link is one of the memory or leads to its key. All of this is
    read together, so that it costs one round trip; the lock of the namespace keeps it true.
    ``damage`` says why readers refuse the memory. ``has_old_marks`` says that the namespace has
    marks of stale ranks that it does not keep, and ``has_many_recent`` that recent changes of the
    recall index are to be merged. ``language`` is that index's language. ``has_due`` says that
    memories of the namespace are to be archived because they expired, and ``is_purged`` that a
    memory with the id was purged; it is False if the memory was sought by key. ``has_next`` says
    that the content goes on in another memory; it is None if the memory was sought by id.
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
    has_next: bool | None = None

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
        has_old_marks, has_many_recent, has_due, is_purged, has_next = flags
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
            has_next=has_next,
        )
        return cls(existing, stored_hash)


_FIRST_COLUMN = 8
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
), is_purged, has_next, ARRAY(SELECT name FROM recall_language), {COLUMNS}, m.hash
FROM (SELECT %s::text AS namespace, %s::text AS name, %s::text AS now, %s::int AS most,
    %s::int AS longest, %s::int AS recent) AS given
LEFT JOIN versions AS v ON v.namespace = given.namespace
"""
_HAS_NEXT = f"""EXISTS (
    SELECT FROM links AS l JOIN memories AS f ON f.namespace = l.namespace AND f.key = l.target
    WHERE l.namespace = {{namespace}} AND l.source = {{key}} AND l.target = {{next}}
        AND l.type = '{CONTINUES}'
)"""
_FIND_NEXT = Select(f"SELECT {_HAS_NEXT.format(namespace='%s', key='%s', next='%s')}", to_flag)
_EXISTING_BY_KEY = Select(
    f"""
    {_SELECT_EXISTING}
    LEFT JOIN memories AS m ON m.namespace = given.namespace AND m.key = given.name
    LEFT JOIN link_counts AS c ON c.namespace = given.namespace AND c.key = given.name
    CROSS JOIN (SELECT false AS is_purged) AS p
    CROSS JOIN LATERAL (
        SELECT {_HAS_NEXT.format(namespace="given.namespace", key="given.name", next="%s")}
        AS has_next
    ) AS n
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
    CROSS JOIN (SELECT NULL::bool AS has_next) AS n
    """,
    _ExistingRecord.parse,
)


async def find_existing_by_key(
    connection: Connection, namespace: str, key: str, now: str = ""
) -> Existing:
    """Return what a change finds at a key; by ``now`` it is judged what is due."""
    values = (namespace, key, now, *_get_bounds(), make_part_key(key, 2))
    record = await _EXISTING_BY_KEY.fetch_only(connection, *values)
    return _verify(record)


async def find_existing_by_id(
    connection: Connection, namespace: str, memory_id: str, now: str = ""
) -> Existing:
    """Return what a change finds at an id; by ``now`` it is judged what is due."""
    values = (namespace, memory_id, now, *_get_bounds())
    record = await _EXISTING_BY_ID.fetch_only(connection, *values)
    return _verify(record)


async def check_whole(connection: Connection, existing: Existing) -> None:
    """Check that a memory, if there is one, has all of its content. Raises ContinuedError."""
    row = existing.row
    if row is None or not existing.has_links:
        return

    has_next = existing.has_next
    if has_next is None:
        names = (row.namespace, row.key, make_part_key(row.key, 2))
        has_next = await _FIND_NEXT.fetch_only(connection, *names)
    if has_next:
        raise ContinuedError(row.key)


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
