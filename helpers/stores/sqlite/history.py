"""Writes to the history of an SQLite store, in a transaction of the caller."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence

from abilities.declarations.memory import Action
from abilities.helpers.stores.changes import Change
from abilities.helpers.stores.history import (
    ENTRY_BYTES,
    Entry,
    LinkName,
    State,
    describe_before,
    seal,
)
from abilities.helpers.stores.model import LinkRow, Row, dump_sorted_json
from abilities.helpers.stores.sqlite.links import LinkMoves
from abilities.helpers.stores.sqlite.reads import format_placeholders
from abilities.helpers.stores.timeline import HistoryLimits

ENTRY = ", ".join(Entry._fields)

_ADD = f"INSERT INTO history ({ENTRY}) VALUES ({format_placeholders(len(Entry._fields))})"
_COUNT = """
INSERT INTO counters (namespace, name, archived, value, number) VALUES (?, 'history', 0, '', ?)
ON CONFLICT DO UPDATE SET number = number + excluded.number
"""
_READ_SIZE = "SELECT number FROM counters WHERE namespace = ? AND name = 'history'"
_FORGET = "UPDATE versions SET forgotten = max(forgotten, ?) WHERE namespace = ?"

# As bytes, because a damaged text need not be UTF-8.
_SIZE = f"{ENTRY_BYTES} + length(CAST(before AS BLOB))"
_OLDEST = f"""
SELECT version, CAST(id AS BLOB), made_at, {_SIZE} FROM history WHERE namespace = ?
ORDER BY version, id LIMIT ?
"""
_DELETE_OLDEST = """
DELETE FROM history WHERE namespace = ? AND (version, id) <= (?, CAST(? AS TEXT))
"""
_DELETE_OF = f"""
DELETE FROM history INDEXED BY history_id WHERE namespace = ? AND id = ? RETURNING {_SIZE}
"""
_LAST_VERSION = """
SELECT CASE action WHEN 'relinked' THEN previous ELSE version END, action
FROM history INDEXED BY history_id
WHERE namespace = ? AND id = ? ORDER BY version DESC LIMIT 1
"""
_RELINKED = """
SELECT key, id, version FROM memories
WHERE namespace = ? AND key IN (SELECT value FROM json_each(?)) ORDER BY key
"""

_TRIM_VERSIONS = 256
"""The history of a namespace is trimmed when it gives a version that is a multiple of this."""

TRIM_ENTRIES = 1_024
"""Entries at most that are forgotten in one transaction."""


def name_links(links: Iterable[LinkRow], source: str | None = None) -> dict[LinkName, LinkRow]:
    """Return links of one memory by their names; with the key ``source``, if it is given."""
    named: dict[LinkName, LinkRow] = {}
    for link in links:
        if source is not None and link.source != source:
            link = link._replace(source=source)
        named[link.target, link.type] = link

    return named


def record_change(
    connection: sqlite3.Connection,
    limits: HistoryLimits,
    change: Change,
    action: Action,
    before: State,
    after: State,
    version: int,
) -> None:
    """Write what a change of one memory replaced; ``version`` is the one that it took."""
    row = before.row or after.row
    assert row is not None, "a change has a memory before or after it"
    described = describe_before(before.row, after.row, before.links, after.links)
    previous = 0
    if before.row is not None:
        previous = before.row.version

    entry = Entry(
        row.namespace,
        version,
        row.id,
        row.key,
        previous,
        action,
        change.now,
        change.caller,
        described,
    )
    add_entries(connection, limits, [entry])


def record_relinked(
    connection: sqlite3.Connection,
    limits: HistoryLimits,
    change: Change,
    renamed: Row,
    moves: LinkMoves,
    old_key: str,
) -> None:
    """Write which links of other memories followed a memory that was renamed."""
    before = _group_by_source(moves.before, old_key)
    after = _group_by_source(moves.after, renamed.key)
    namespace = renamed.namespace
    sources = dump_sorted_json(sorted(before))

    entries: list[Entry] = []
    for key, memory_id, version in connection.execute(_RELINKED, (namespace, sources)):
        links_before, links_after = name_links(before[key]), name_links(after.get(key, ()))
        if links_before == links_after:
            continue

        # Its row is the same before and after.
        described = describe_before(renamed, renamed, links_before, links_after)
        entry = Entry(
            namespace,
            renamed.version,
            memory_id,
            key,
            version,
            "relinked",
            change.now,
            change.caller,
            described,
        )
        entries.append(entry)

    add_entries(connection, limits, entries)


def _group_by_source(links: Iterable[LinkRow], without: str) -> Mapping[str, list[LinkRow]]:
    """Return links by the memories that have them, without one of these."""
    grouped: dict[str, list[LinkRow]] = {}
    for link in links:
        if link.source != without:
            grouped.setdefault(link.source, []).append(link)

    return grouped


def record_mended(
    connection: sqlite3.Connection,
    limits: HistoryLimits,
    mended: Row,
    previous: int,
    now: str,
    caller: str,
) -> None:
    """Write that a damaged memory was mended; what was damaged cannot come back.

    ``previous`` is the version that it seems to have had.
    """
    last = find_last_version(connection, mended.namespace, mended.id)
    entry = Entry(
        mended.namespace,
        mended.version,
        mended.id,
        mended.key,
        last or previous,
        "mended",
        now,
        caller,
        describe_before(mended, mended, {}, {}),
    )
    add_entries(connection, limits, [entry])


def add_entries(
    connection: sqlite3.Connection, limits: HistoryLimits, entries: Sequence[Entry]
) -> None:
    """Write entries of one change; from time to time, forget the oldest ones in turn."""
    if not entries:
        return

    namespace, version = entries[0].namespace, entries[-1].version
    if not limits.days:
        connection.execute(_FORGET, (version, namespace))
        return

    save_entries(connection, [seal(entry) for entry in entries])
    if version % _TRIM_VERSIONS == 0:
        trim(connection, namespace, limits, entries[0].made_at)


def save_entries(connection: sqlite3.Connection, entries: Sequence[Entry]) -> None:
    """Write entries of one namespace as they are, and count them."""
    connection.executemany(_ADD, entries)
    connection.execute(_COUNT, (entries[0].namespace, sum(entry.size for entry in entries)))


def trim(connection: sqlite3.Connection, namespace: str, limits: HistoryLimits, now: str) -> int:
    """Forget the oldest entries that the limits do not allow, `TRIM_ENTRIES` of them at most.

    Return how many were forgotten.
    """
    size = read_size(connection, namespace)
    cutoff = limits.find_cutoff(now)
    forgotten: list[tuple[int, bytes]] = []
    freed = 0

    # In their order, so that each memory keeps all of its entries after some version.
    for version, name, made_at, entry_size in connection.execute(
        _OLDEST, (namespace, TRIM_ENTRIES)
    ):
        is_young = limits.days and made_at >= cutoff
        if is_young and size - freed <= limits.max_bytes:
            break

        forgotten.append((version, name))
        freed += entry_size

    if forgotten:
        last_version, last_name = forgotten[-1]
        connection.execute(_DELETE_OLDEST, (namespace, last_version, last_name))
        connection.execute(_COUNT, (namespace, -freed))
        connection.execute(_FORGET, (last_version, namespace))

    return len(forgotten)


def read_size(connection: sqlite3.Connection, namespace: str) -> int:
    """Return the bytes of a namespace's history."""
    found: tuple[int] | None = connection.execute(_READ_SIZE, (namespace,)).fetchone()
    if found is None:
        return 0

    (size,) = found
    return size


def delete_history(connection: sqlite3.Connection, namespace: str, memory_id: str) -> None:
    """Delete all entries of a memory."""
    sizes = connection.execute(_DELETE_OF, (namespace, memory_id)).fetchall()
    if sizes:
        connection.execute(_COUNT, (namespace, -sum(size for (size,) in sizes)))


def find_last_version(connection: sqlite3.Connection, namespace: str, memory_id: str) -> int | None:
    """Return the version of a present memory by its history; None if that does not know it."""
    found = connection.execute(_LAST_VERSION, (namespace, memory_id)).fetchone()
    if found is None or found[1] == "deleted":
        return None

    version: int = found[0]
    return version


def list_namespaces(connection: sqlite3.Connection) -> list[str]:
    """Return the namespaces that may have a history."""
    found = connection.execute("SELECT namespace FROM versions ORDER BY namespace").fetchall()
    return [namespace for (namespace,) in found]
