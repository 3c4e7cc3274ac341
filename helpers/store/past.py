"""Reading the past of memories, in a snapshot of the caller."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from abilities.declarations.faults import Refused
from abilities.declarations.reasons import Reason
from abilities.helpers.store.entries import ENTRY_COLUMNS
from abilities.helpers.store.history import (
    Entry,
    State,
    rewind,
    rewind_change,
    rewind_to_time,
    verify_entry,
)
from abilities.helpers.store.model import Row, StoredMemory, verify_row
from abilities.helpers.store.reads import read_links
from abilities.helpers.store.timeline import ChangePage, MemoryChange, MemoryHistory, MemoryName
from abilities.helpers.store.transaction import Columns, Transaction, fetch_named

_ROW_COLUMNS = ", ".join(Row._fields)
_LAST_VERSION = 2**63 - 1

_ROW_BY_ID = f"SELECT {_ROW_COLUMNS}, hash FROM memories WHERE namespace = ? AND id = ?"
_ROW_BY_KEY = f"SELECT {_ROW_COLUMNS}, hash FROM memories WHERE namespace = ? AND key = ?"
_ENTRIES = f"""
SELECT {ENTRY_COLUMNS} FROM history INDEXED BY history_id
WHERE namespace = ? AND id = ? AND version > ? AND version < ? ORDER BY version DESC LIMIT ?
"""
_FORMER_ID = """
SELECT id FROM history INDEXED BY history_key
WHERE namespace = ? AND key = ? AND action IN ('deleted', 'renamed') ORDER BY version DESC LIMIT 1
"""
_LAST_ENTRY = """
SELECT CASE action WHEN 'relinked' THEN previous ELSE version END, action, key
FROM history INDEXED BY history_id WHERE namespace = ? AND id = ? ORDER BY version DESC LIMIT 1
"""
_LAST_CHANGE = """
SELECT coalesce(max(version), 0) FROM history INDEXED BY history_id
WHERE namespace = ? AND id = ? AND action <> 'relinked'
"""
_VERSION_AT = """
SELECT coalesce(max(version), 0) FROM history INDEXED BY history_id
WHERE namespace = ? AND id = ? AND made_at <= ?
"""
# Before a memory was mended, it cannot be restored.
_EARLIEST = """
SELECT CASE WHEN previous = 0 OR action = 'mended' THEN version ELSE previous END
FROM history INDEXED BY history_id WHERE namespace = ? AND id = ? AND version >= coalesce((
    SELECT max(version) FROM history INDEXED BY history_id
    WHERE namespace = ? AND id = ? AND action = 'mended'
), 0) ORDER BY version LIMIT 1
"""
_PURGED = "SELECT 1 FROM purged WHERE namespace = ? AND id = ?"
_DELETED_BEFORE = """
SELECT DISTINCT id FROM history AS h INDEXED BY history_key
WHERE namespace = ? AND key = ? AND action IN ('deleted', 'renamed') AND action = 'deleted'
AND NOT EXISTS (
    SELECT 1 FROM memories AS m WHERE m.namespace = h.namespace AND m.id = h.id
) AND NOT EXISTS (
    SELECT 1 FROM memories AS m
    WHERE m.namespace = h.namespace AND m.key = h.key AND m.id <> ?
)
"""
_VERSIONS = "SELECT number, forgotten FROM versions WHERE namespace = ?"
_NEXT_VERSION = """
SELECT max(version) FROM (
    SELECT version FROM (
        SELECT version FROM (
            SELECT version FROM history
            WHERE namespace = ? AND version > ? ORDER BY version LIMIT ?
        ) AS changed
        UNION ALL SELECT version FROM (
            SELECT version FROM purged INDEXED BY purged_version
            WHERE namespace = ? AND version > ? ORDER BY version LIMIT ?
        ) AS forgotten
    ) AS later ORDER BY version LIMIT ?
) AS page
"""
_CHANGES = """
SELECT version, id, '' AS key, action, made_at, caller FROM history
WHERE namespace = ? AND version > ? AND version <= ?
UNION ALL SELECT version, id, '', 'purged', made_at, caller FROM purged INDEXED BY purged_version
WHERE namespace = ? AND version > ? AND version <= ?
ORDER BY version, id
"""
_LATEST = """
SELECT version, id, '' AS key, action, made_at, caller FROM (
    SELECT * FROM (
        SELECT version, id, action, made_at, caller FROM history
        WHERE namespace = ? AND version < ? AND action <> 'relinked'
        ORDER BY version DESC, id DESC LIMIT ?
    ) AS changed
    UNION ALL SELECT * FROM (
        SELECT version, id, 'purged' AS action, made_at, caller
        FROM purged INDEXED BY purged_version
        WHERE namespace = ? AND version < ? ORDER BY version DESC, id DESC LIMIT ?
    ) AS forgotten
) AS latest ORDER BY version DESC, id DESC LIMIT ?
"""
_KEYS = "SELECT id, key FROM memories WHERE namespace = ? AND id IN ({})"
_FORMER_KEYS = """
SELECT id, key FROM history AS h INDEXED BY history_id
WHERE namespace = ? AND id IN ({}) AND version = (
    SELECT max(version) FROM history AS last INDEXED BY history_id
    WHERE last.namespace = h.namespace AND last.id = h.id
)
"""


class NamedMemory(NamedTuple):
    """A memory by its id. It has no row if it was deleted; ``damage`` is why readers refuse it."""

    id: str
    row: Row | None
    damage: Reason | None = None

    @property
    def sound_row(self) -> Row | None:
        """The row. Raises Refused if it is damaged."""
        if self.damage is not None:
            raise Refused(self.damage)

        return self.row


async def find_named(transaction: Transaction, namespace: str, name: MemoryName) -> NamedMemory:
    """Return the memory that a name means, which may be deleted if its history is known.

    Raises Refused: id_not_found, memory_not_found.
    """
    if name.id:
        rows = await transaction.fetch(_ROW_BY_ID, namespace, name.id)
        if not rows and not await is_deleted(transaction, namespace, name.id):
            raise Refused("id_not_found")
        return _parse_named(rows, name.id)

    rows = await transaction.fetch(_ROW_BY_KEY, namespace, name.key)
    if rows:
        return _parse_named(rows, "")

    former_id = await find_former_id(transaction, namespace, name.key or "")
    return _parse_named(await transaction.fetch(_ROW_BY_ID, namespace, former_id), former_id)


def _parse_named(rows: Sequence[Columns], memory_id: str) -> NamedMemory:
    if not rows:
        return NamedMemory(memory_id, None)

    ((*values, stored_hash),) = rows
    row = Row._make(values)
    try:
        verify_row(row, stored_hash)
    except Refused as error:
        return NamedMemory(memory_id or row.id, row, error.reason)

    return NamedMemory(row.id, row)


async def find_former_id(transaction: Transaction, namespace: str, key: str) -> str:
    """Return the id of the memory that had a key last. Raises Refused: memory_not_found."""
    rows = await transaction.fetch(_FORMER_ID, namespace, key)
    if not rows:
        raise Refused("memory_not_found")

    ((memory_id,),) = rows
    is_there = await transaction.fetch(_ROW_BY_ID, namespace, memory_id)
    if not is_there and not await is_deleted(transaction, namespace, memory_id):
        raise Refused("memory_not_found")

    return str(memory_id)


async def is_deleted(transaction: Transaction, namespace: str, memory_id: str) -> bool:
    """Return whether the history ends with a memory's deletion."""
    rows = await transaction.fetch(_LAST_ENTRY, namespace, memory_id)
    return any(action == "deleted" for _, action, _ in rows)


async def check_unpurged(transaction: Transaction, namespace: str, memory_id: str) -> None:
    """Check that a memory was not deleted with its history. Raises Refused: purged."""
    if await transaction.fetch(_PURGED, namespace, memory_id):
        raise Refused("purged")


async def find_last_key(transaction: Transaction, namespace: str, memory_id: str) -> str:
    """Return the key that a deleted memory had last."""
    ((_, _, key),) = await transaction.fetch(_LAST_ENTRY, namespace, memory_id)
    return str(key)


async def find_last_version(transaction: Transaction, namespace: str, memory_id: str) -> int | None:
    """Return the version of a present memory by its history; None if that does not know it."""
    for version, action, _ in await transaction.fetch(_LAST_ENTRY, namespace, memory_id):
        return None if action == "deleted" else int(version)

    return None


async def list_deleted_before(
    transaction: Transaction, namespace: str, key: str, memory_id: str
) -> list[str]:
    """Return the memories that were deleted under a key, unless another memory has it now."""
    rows = await transaction.fetch(_DELETED_BEFORE, namespace, key, memory_id)
    return [name for (name,) in rows]


async def read_state(transaction: Transaction, row: Row | None) -> State:
    """Return a memory as it is now, with all its sound links."""
    if row is None:
        return State(None, {})

    return State(row, await read_links(transaction, row.namespace, row.key))


async def read_earlier(
    transaction: Transaction, namespace: str, memory_id: str, state: State, version: int | None
) -> State:
    """Return a memory in a version, or before its last change, given its present state.

    Raises Refused: version_not_found, checksum_mismatch.
    """
    if version is None:
        ((last,),) = await transaction.fetch(_LAST_CHANGE, namespace, memory_id)
        return rewind_change(state, await _fetch_since(transaction, namespace, memory_id, last - 1))

    return rewind(state, await _fetch_since(transaction, namespace, memory_id, version), version)


async def _fetch_since(
    transaction: Transaction, namespace: str, memory_id: str, version: int
) -> list[Entry]:
    """Return the entries of a memory since a version, newest first."""
    values = (namespace, memory_id, version, _LAST_VERSION, _LAST_VERSION)
    return list(map(Entry._make, await transaction.fetch(_ENTRIES, *values)))


async def read_history(
    transaction: Transaction, namespace: str, name: MemoryName, before: int | None, limit: int
) -> MemoryHistory:
    """Return a page of a memory's history, which ends before the first damaged entry."""
    named = await find_named(transaction, namespace, name)
    row = named.sound_row
    earliest = await _find_earliest(transaction, namespace, named)
    end = _LAST_VERSION if before is None else before
    found = await transaction.fetch(_ENTRIES, namespace, named.id, -1, end, limit + 1)

    entries: list[Entry] = []
    for entry in map(Entry._make, found[:limit]):
        try:
            entries.append(verify_entry(entry))
        except Refused:
            earliest = entry.previous if entry.action == "relinked" else entry.version
            return MemoryHistory(row, tuple(entries), False, earliest)

    return MemoryHistory(row, tuple(entries), len(found) > limit, earliest)


async def _find_earliest(transaction: Transaction, namespace: str, named: NamedMemory) -> int:
    """Return the oldest version of a memory that its entries lead to, if none is damaged."""
    names = (namespace, named.id)
    for (earliest,) in await transaction.fetch(_EARLIEST, *names, *names):
        return int(earliest)

    return named.row.version if named.row is not None else 0


async def read_version(
    transaction: Transaction, namespace: str, name: MemoryName, moment: int | str
) -> StoredMemory:
    """Return a memory with all its links in a version, or as it was at a time."""
    named = await find_named(transaction, namespace, name)
    state = await read_state(transaction, named.sound_row)

    if isinstance(moment, str):
        ((version,),) = await transaction.fetch(_VERSION_AT, namespace, named.id, moment)
        entries = await _fetch_since(transaction, namespace, named.id, version)
        found = rewind_to_time(state, entries, moment)
    else:
        found = await read_earlier(transaction, namespace, named.id, state, moment)

    assert found.row is not None, "a version that was found has a row"
    links = tuple(sorted(found.links.values()))
    return StoredMemory(found.row, links, len(links))


async def read_changes(
    transaction: Transaction, namespace: str, since: int, limit: int
) -> ChangePage:
    """Return the changes after a version, up to about ``limit``: a version is never divided.

    All is one snapshot, and changes of a namespace are committed in the order of their versions, so
    no change appears later behind one that was returned.
    """
    rows = await transaction.fetch(_VERSIONS, namespace)
    number, forgotten = rows[0] if rows else (0, 0)
    end = await _find_next_version(transaction, namespace, since, limit)
    is_complete = forgotten <= since <= number
    if end is None:
        # A follower of a later state, as after a backup was restored, begins anew from here.
        return ChangePage((), number, False, is_complete)

    given = (namespace, since, end)
    last_changes: dict[str, MemoryChange] = {}
    for change in map(MemoryChange._make, await transaction.fetch(_CHANGES, *given, *given)):
        last_changes.pop(change.id, None)  # so that it moves to the end
        last_changes[change.id] = change

    changes = await _add_keys(transaction, namespace, last_changes.values())
    has_more = await _find_next_version(transaction, namespace, end, 1) is not None
    return ChangePage(tuple(changes), end if has_more else number, has_more, is_complete)


async def _find_next_version(
    transaction: Transaction, namespace: str, since: int, limit: int
) -> int | None:
    """Return the version that a page of changes ends with, None if there is none."""
    given = (namespace, since, limit)
    ((version,),) = await transaction.fetch(_NEXT_VERSION, *given, *given, limit)
    return None if version is None else int(version)


async def read_latest_changes(
    transaction: Transaction, namespace: str, before: int | None, limit: int
) -> list[MemoryChange]:
    """Return the latest changes, newest first, or those before a version; none "relinked"."""
    given = (namespace, _LAST_VERSION if before is None else before, limit)
    found = await transaction.fetch(_LATEST, *given, *given, limit)
    return await _add_keys(transaction, namespace, map(MemoryChange._make, found))


async def _add_keys(
    transaction: Transaction, namespace: str, found: Iterable[MemoryChange]
) -> list[MemoryChange]:
    """Return changes with the keys of their memories now, or the last ones of deleted memories."""
    changes = list(found)
    ids = sorted({change.id for change in changes})
    keys: dict[str, str] = {}
    for memory_id, key in await fetch_named(transaction, _KEYS, ids, namespace):
        keys[memory_id] = key

    deleted = [name for name in ids if name not in keys]
    for memory_id, key in await fetch_named(transaction, _FORMER_KEYS, deleted, namespace):
        keys[memory_id] = key

    return [change._replace(key=keys.get(change.id, "")) for change in changes]
