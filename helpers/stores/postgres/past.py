"""Reading the history in PostgreSQL, on a connection that the caller holds."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from abilities.declarations.faults import Refused
from abilities.helpers.stores.history import (
    DamagedEntry,
    Entry,
    State,
    rewind,
    rewind_to_time,
    verify_entry,
)
from abilities.helpers.stores.model import LinkRow, Row, StoredMemory
from abilities.helpers.stores.postgres.history import ENTRY_COLUMNS, parse_entry
from abilities.helpers.stores.postgres.naming import FoundMemory, find_named
from abilities.helpers.stores.postgres.reads import read_all_links
from abilities.helpers.stores.postgres.statements import Connection, Select, to_number
from abilities.helpers.stores.timeline import ChangePage, MemoryChange, MemoryHistory, MemoryName

_LAST_VERSION = 2**63 - 1

_SELECT_ENTRIES = f"SELECT {ENTRY_COLUMNS} FROM history AS h WHERE h.namespace = %s AND h.id = %s"
_ENTRIES_SINCE = Select(
    f"{_SELECT_ENTRIES} AND h.version > %s ORDER BY h.version DESC", Entry._make
)
_ENTRIES_BEFORE = Select(
    f"{_SELECT_ENTRIES} AND h.version < %s ORDER BY h.version DESC LIMIT %s", Entry._make
)
_VERSION_AT = Select(
    """
    SELECT coalesce(max(version), 0) FROM history
    WHERE namespace = %s AND id = %s AND made_at <= %s
    """,
    to_number,
)
# Before a memory was mended, it cannot be restored.
_EARLIEST = Select(
    """
    SELECT CASE WHEN previous = 0 OR action = 'mended' THEN version ELSE previous END FROM history
    WHERE namespace = %s AND id = %s AND version >= coalesce((
        SELECT max(version) FROM history WHERE namespace = %s AND id = %s AND action = 'mended'
    ), 0)
    ORDER BY version LIMIT 1
    """,
    to_number,
)
_ENTRIES_AFTER = Select(
    f"""
    SELECT {ENTRY_COLUMNS} FROM history AS h WHERE (h.namespace, h.id, h.version) > (%s, %s, %s)
    ORDER BY h.namespace, h.id, h.version LIMIT %s
    """,
    parse_entry,
)


class _Versions(NamedTuple):
    """The last version of a namespace, and the last one that its history does not tell."""

    number: int
    forgotten: int


class _FoundChange(NamedTuple):
    """A change, and whether later ones follow behind the page."""

    change: MemoryChange
    has_more: bool

    @classmethod
    def parse(cls, columns: Sequence[Any]) -> "_FoundChange":
        """Make a record of the columns of ``_CHANGES``."""
        *values, has_more = columns
        return cls(MemoryChange._make(values), has_more)


_VERSIONS = Select("SELECT number, forgotten FROM versions WHERE namespace = %s", _Versions._make)
_SELECT_NEXT = """
SELECT version FROM (
    (SELECT version FROM history, given
        WHERE history.namespace = given.namespace AND version > given.since
        ORDER BY version LIMIT (SELECT most + 1 FROM given))
    UNION ALL
    (SELECT version FROM purged, given
        WHERE purged.namespace = given.namespace AND version > given.since
        ORDER BY version LIMIT (SELECT most + 1 FROM given))
) AS later ORDER BY version
"""
# A page ends with a version, which a rename may share among many memories.
_CHANGES = Select(
    f"""
    WITH given AS (SELECT %s::text AS namespace, %s::int8 AS since, %s::int8 AS most),
    page AS MATERIALIZED (
        SELECT (SELECT max(version) FROM (
            {_SELECT_NEXT} LIMIT (SELECT most FROM given)
        ) AS taken) AS last_version
    ),
    found AS (
        SELECT version, id, action, made_at, caller FROM history, given, page
        WHERE history.namespace = given.namespace AND version > given.since
            AND version <= page.last_version
        UNION ALL
        SELECT version, id, 'purged', made_at, caller FROM purged, given, page
        WHERE purged.namespace = given.namespace AND version > given.since
            AND version <= page.last_version
    )
    SELECT f.version, f.id, coalesce(m.key, last.key, ''), f.action, f.made_at, f.caller,
        v.number > page.last_version AND (
            EXISTS (SELECT FROM history AS h
                WHERE h.namespace = given.namespace AND h.version > page.last_version)
            OR EXISTS (SELECT FROM purged AS p
                WHERE p.namespace = given.namespace AND p.version > page.last_version)
        )
    FROM found AS f CROSS JOIN given CROSS JOIN page
    JOIN versions AS v ON v.namespace = given.namespace
    LEFT JOIN memories AS m ON m.namespace = given.namespace AND m.id = f.id
    LEFT JOIN LATERAL (
        SELECT h.key FROM history AS h WHERE h.namespace = given.namespace AND h.id = f.id
        ORDER BY h.version DESC LIMIT 1
    ) AS last ON true
    ORDER BY f.version, f.id
    """,
    _FoundChange.parse,
)

_LATEST = Select(
    """
    WITH given AS (SELECT %s::text AS namespace, %s::int8 AS before, %s::int8 AS most),
    found AS (
        (SELECT version, id, action, made_at, caller FROM history, given
            WHERE history.namespace = given.namespace AND version < given.before
                AND action <> 'relinked'
            ORDER BY version DESC LIMIT (SELECT most FROM given))
        UNION ALL
        (SELECT version, id, 'purged', made_at, caller FROM purged, given
            WHERE purged.namespace = given.namespace AND version < given.before
            ORDER BY version DESC LIMIT (SELECT most FROM given))
        ORDER BY version DESC, id DESC LIMIT (SELECT most FROM given)
    )
    SELECT f.version, f.id, coalesce(m.key, last.key, ''), f.action, f.made_at, f.caller
    FROM found AS f CROSS JOIN given
    LEFT JOIN memories AS m ON m.namespace = given.namespace AND m.id = f.id
    LEFT JOIN LATERAL (
        SELECT h.key FROM history AS h WHERE h.namespace = given.namespace AND h.id = f.id
        ORDER BY h.version DESC LIMIT 1
    ) AS last ON true
    ORDER BY f.version DESC, f.id DESC
    """,
    MemoryChange._make,
)


async def read_state(connection: Connection, row: Row | None) -> State:
    """Return a memory as it is now, with all its sound links."""
    if row is None:
        return State(None, {})

    links, _ = await read_all_links(connection, row.namespace, row.key)
    named = {(link.target, link.type): link for link in links}
    return State(row, named)


async def fetch_entries_since(
    connection: Connection, namespace: str, memory_id: str, version: int
) -> list[Entry]:
    """Return the entries of a memory since a version, newest first."""
    return await _ENTRIES_SINCE.fetch(connection, namespace, memory_id, version)


async def read_history(
    connection: Connection, namespace: str, name: MemoryName, before: int | None, limit: int
) -> MemoryHistory:
    """Return a page of a memory's history, which ends before the first damaged entry."""
    named = await find_named(connection, namespace, name)
    row = _get_sound_row(named)

    entries: list[Entry] = []
    last = before or _LAST_VERSION
    found = await _ENTRIES_BEFORE.fetch(connection, namespace, named.id, last, limit + 1)
    earliest = await _find_earliest(connection, namespace, named)

    for entry in found[:limit]:
        try:
            entries.append(verify_entry(entry))
        except Refused:
            return MemoryHistory(row, tuple(entries), False, entry.version)

    return MemoryHistory(row, tuple(entries), len(found) > limit, earliest)


async def _find_earliest(connection: Connection, namespace: str, named: FoundMemory) -> int:
    """Return the oldest version of a memory that its entries lead to, if none is damaged."""
    names = (namespace, named.id)
    earliest = await _EARLIEST.fetch_first(connection, *names, *names)
    if earliest is not None:
        return earliest
    if named.existing.row is None:
        return 0

    return named.existing.row.version


async def read_version(
    connection: Connection, namespace: str, name: MemoryName, moment: int | str
) -> StoredMemory:
    """Return a memory with all its links in a version, or as it was at a time."""
    named = await find_named(connection, namespace, name)
    state = await read_state(connection, _get_sound_row(named))

    if isinstance(moment, str):
        version = await _VERSION_AT.fetch_only(connection, namespace, named.id, moment)
        entries = await fetch_entries_since(connection, namespace, named.id, version)
        found = rewind_to_time(state, entries, moment)
    else:
        entries = await fetch_entries_since(connection, namespace, named.id, moment)
        found = rewind(state, entries, moment)

    assert found.row is not None, "a version that was found has a row"
    links: tuple[LinkRow, ...] = tuple(sorted(found.links.values()))
    return StoredMemory(found.row, links, len(links))


def _get_sound_row(named: FoundMemory) -> Row | None:
    """Return the row of a memory that exists. Raises Refused if it is damaged."""
    if named.existing.damage is not None:
        raise Refused(named.existing.damage)

    return named.existing.row


async def read_changes(
    connection: Connection, namespace: str, since: int, limit: int
) -> ChangePage:
    """Return the changes after a version, up to about ``limit``: a version is never divided.

    All is one snapshot, and the lock of the namespace makes commits come in the order of their
    versions, so no change appears later behind one that was returned.
    """
    found = await _CHANGES.fetch(connection, namespace, since, limit)
    versions = await _VERSIONS.fetch_first(connection, namespace) or _Versions(0, 0)
    is_complete = versions.forgotten <= since <= versions.number
    if not found:
        return ChangePage((), versions.number, False, is_complete)

    last_changes: dict[str, MemoryChange] = {}
    for change, _ in found:
        last_changes.pop(change.id, None)  # so that it moves to the end
        last_changes[change.id] = change

    *_, last = found
    next_version = last.change.version if last.has_more else versions.number
    return ChangePage(tuple(last_changes.values()), next_version, last.has_more, is_complete)


async def read_latest_changes(
    connection: Connection, namespace: str, before: int | None, limit: int
) -> list[MemoryChange]:
    """Return the latest changes, newest first, or those before a version."""
    end = _LAST_VERSION if before is None else before
    return await _LATEST.fetch(connection, namespace, end, limit)


async def read_entries(
    connection: Connection, after: tuple[str, str, int], limit: int
) -> list[Entry | DamagedEntry]:
    """Return entries of all namespaces by namespace, id and version."""
    return await _ENTRIES_AFTER.fetch(connection, *after, limit)
