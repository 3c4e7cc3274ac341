"""Writing, reading and trimming the history of a namespace."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from abilities.declarations.memory import Action
from abilities.declarations.refusals import Refused
from abilities.helpers.store import history
from abilities.helpers.store.engine import Columns, Transaction
from abilities.helpers.store.history import (
    ENTRY_BYTES,
    ChangePage,
    Entry,
    HistoryLimits,
    MemoryChange,
    MemoryHistory,
    MemoryName,
    State,
)
from abilities.helpers.store.model import LinkChange, Row, StoredMemory, check_values, find_damage
from abilities.helpers.store.reads import read_links

ENTRY_COLUMNS = ", ".join(Entry._fields)

TRIM_VERSIONS = 256
"""A namespace trims its history at each version that is a multiple of this."""

MOST_TRIMMED = 1_024
"""Entries to delete per transaction when the history is trimmed."""

_SIZE = f"octet_length(before) + {ENTRY_BYTES}"
_ADD = f"INSERT INTO history ({ENTRY_COLUMNS}) VALUES ({', '.join('?' * len(Entry._fields))})"
_SAVE_VERSION = """
INSERT INTO versions AS v (namespace, number, forgotten, history_bytes) VALUES (?, ?, ?, ?)
ON CONFLICT (namespace) DO UPDATE SET number = greatest(v.number, excluded.number),
    forgotten = greatest(v.forgotten, excluded.forgotten),
    history_bytes = v.history_bytes + excluded.history_bytes
"""
_TAKE_VERSIONS = """
INSERT INTO versions AS v (namespace, number) VALUES (?, ?)
ON CONFLICT (namespace) DO UPDATE SET number = v.number + excluded.number RETURNING number
"""
_ADD_BYTES = "UPDATE versions SET history_bytes = history_bytes + ? WHERE namespace = ?"
_READ_BYTES = "SELECT history_bytes FROM versions WHERE namespace = ?"
_OF_MEMORY = "FROM history INDEXED BY history_id WHERE namespace = ? AND id = ?"
_READ_SIZE = f"SELECT coalesce(sum({_SIZE}), 0) {_OF_MEMORY}"
_DELETE = f"DELETE {_OF_MEMORY}"
_OLDEST = f"""
SELECT version, made_at, {_SIZE} FROM history WHERE namespace = ? ORDER BY version, id LIMIT ?
"""
_DELETE_OLDEST = """
DELETE FROM history WHERE namespace = ? AND version <= ? AND (version, id) IN (
    SELECT version, id FROM history WHERE namespace = ? ORDER BY version, id LIMIT ?
)
"""
_NAMES = "SELECT key, id, version FROM memories WHERE namespace = ? AND key = ANY (?)"
_KNOWN = f"""
SELECT 1 {_OF_MEMORY}
UNION ALL SELECT 1 FROM memories WHERE namespace = ? AND id = ?
UNION ALL SELECT 1 FROM purged WHERE namespace = ? AND id = ? LIMIT 1
"""

_ROW_COLUMNS = ", ".join(Row._fields)
_LAST_VERSION = 2**63 - 1

_ROW_BY_ID = f"SELECT {_ROW_COLUMNS}, hash FROM memories WHERE namespace = ? AND id = ?"
ROW_BY_KEY = f"SELECT {_ROW_COLUMNS}, hash FROM memories WHERE namespace = ? AND key = ?"
_ENTRIES = f"""
SELECT {ENTRY_COLUMNS} {_OF_MEMORY}
AND version > ? AND version < ? ORDER BY version DESC LIMIT ?
"""
_FORMER_ID = """
SELECT id FROM history INDEXED BY history_key
WHERE namespace = ? AND key = ? AND action IN ('deleted', 'renamed') ORDER BY version DESC LIMIT 1
"""
_LAST_ENTRY = f"""
SELECT CASE action WHEN 'relinked' THEN previous ELSE version END, action, key
{_OF_MEMORY} ORDER BY version DESC LIMIT 1
"""
_LAST_CHANGE = f"SELECT coalesce(max(version), 0) {_OF_MEMORY} AND action <> 'relinked'"
_VERSION_AT = f"SELECT coalesce(max(version), 0) {_OF_MEMORY} AND made_at <= ?"
# States before a memory was mended cannot be restored.
_EARLIEST = f"""
SELECT CASE WHEN previous = 0 OR action = 'mended' THEN version ELSE previous END
{_OF_MEMORY} AND version >= coalesce((
    SELECT max(version) {_OF_MEMORY} AND action = 'mended'
), 0) ORDER BY version LIMIT 1
"""
_PURGED = "SELECT 1 FROM purged WHERE namespace = ? AND id = ?"
_VERSIONS = "SELECT number, forgotten FROM versions WHERE namespace = ?"
_NEXT_VERSION = """
SELECT max(version) FROM (
    SELECT version FROM (
        SELECT version FROM history
        WHERE namespace = ? AND version > ? ORDER BY version LIMIT ?
    ) AS changed
    UNION ALL SELECT version FROM (
        SELECT version FROM purged INDEXED BY purged_version
        WHERE namespace = ? AND version > ? ORDER BY version LIMIT ?
    ) AS forgotten ORDER BY version LIMIT ?
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
SELECT * FROM (
    SELECT version, id, '' AS key, action, made_at, caller FROM history
    WHERE namespace = ? AND version < ? AND action <> 'relinked'
    ORDER BY version DESC, id DESC LIMIT ?
) AS changed
UNION ALL SELECT * FROM (
    SELECT version, id, '', 'purged', made_at, caller FROM purged INDEXED BY purged_version
    WHERE namespace = ? AND version < ? ORDER BY version DESC, id DESC LIMIT ?
) AS forgotten ORDER BY version DESC, id DESC LIMIT ?
"""
_KEYS = "SELECT id, key FROM memories WHERE namespace = ? AND id = ANY (?)"
_FORMER_KEYS = """
SELECT id, key FROM history AS h INDEXED BY history_id
WHERE namespace = ? AND id = ANY (?) AND version = (
    SELECT max(version) FROM history AS last INDEXED BY history_id
    WHERE last.namespace = h.namespace AND last.id = h.id
)
"""


class StoreRules(NamedTuple):
    """Limits on writes: of the memories in a namespace, None for no limit, and of its history."""

    quota: int | None = None
    history: HistoryLimits = HistoryLimits()


DEFAULT_RULES = StoreRules()


class Occasion(NamedTuple):
    """The action, time and caller of a change, for its entry."""

    action: Action
    made_at: str
    caller: str


def build_entry(
    occasion: Occasion,
    before: Row | None,
    after: Row | None,
    version: int,
    links: LinkChange,
) -> Entry:
    """Return the entry of a change that gave a memory a version.

    ``before`` or ``after`` must not be None.
    """
    row = before or after
    assert row is not None, "a change concerns a memory"

    described = history.describe_before(before, after, links.before, links.after)
    previous = 0
    if before is not None:
        previous = before.version

    entry = Entry(row.namespace, version, row.id, row.key, previous, *occasion, described)
    return history.seal(entry)


async def take_version(transaction: Transaction, namespace: str, number: int = 1) -> int:
    """Reserve the next versions of a namespace; return the last one."""
    ((version,),) = await transaction.fetch(_TAKE_VERSIONS, namespace, number)
    return int(version)


async def save_entry(
    transaction: Transaction,
    occasion: Occasion,
    before: Row | None,
    after: Row | None,
    version: int,
    links: LinkChange,
    limits: HistoryLimits,
) -> None:
    """Save the entry of a change, and its version as the last one of the namespace.

    If the limits allow no history, the memory's history is deleted instead.
    """
    entry = build_entry(occasion, before, after, version, links)
    namespace = entry.namespace
    if limits.days == 0:
        await transaction.run(_SAVE_VERSION, namespace, version, version, 0)
        await delete_history(transaction, namespace, [entry.id])
        return

    await transaction.run(_ADD, *entry)
    await transaction.run(_SAVE_VERSION, namespace, version, 0, entry.size)
    if version % TRIM_VERSIONS == 0:
        await trim(transaction, namespace, limits, entry.made_at)


async def add_entries(transaction: Transaction, entries: Sequence[Entry]) -> None:
    """Save additional entries of a namespace, with versions that were given already."""
    if entries:
        await transaction.run_many(_ADD, entries)
        size = sum(entry.size for entry in entries)
        await transaction.run(_ADD_BYTES, size, entries[0].namespace)


async def save_relinked(
    transaction: Transaction,
    renamed: Row,
    occasion: Occasion,
    changes: Mapping[str, LinkChange],
    limits: HistoryLimits,
) -> None:
    """Save entries for the changes of a rename in other memories, given by their keys.

    Those memories keep their versions, so their entries have the version of the renamed memory.
    """
    if not changes:
        return

    names = await transaction.fetch(_NAMES, renamed.namespace, sorted(changes))
    if limits.days == 0:
        await delete_history(transaction, renamed.namespace, [name for _, name, _ in names])
        return

    entries: list[Entry] = []
    for key, memory_id, version in names:
        row = renamed._replace(key=key, id=memory_id, version=version)
        entries.append(build_entry(occasion, row, row, renamed.version, changes[key]))

    await add_entries(transaction, entries)


async def delete_history(
    transaction: Transaction, namespace: str, memory_ids: Iterable[str]
) -> None:
    """Delete all entries of some memories."""
    for memory_id in memory_ids:
        ((size,),) = await transaction.fetch(_READ_SIZE, namespace, memory_id)
        if size:
            await transaction.run(_DELETE, namespace, memory_id)
            await transaction.run(_ADD_BYTES, -size, namespace)


async def trim(transaction: Transaction, namespace: str, limits: HistoryLimits, now: str) -> int:
    """Delete up to `MOST_TRIMMED` of the oldest entries that the limits do not allow.

    Returns the number of deleted entries, which is less than `MOST_TRIMMED` if none are left.
    """
    rows = await transaction.fetch(_READ_BYTES, namespace)
    size = sum(number for (number,) in rows)
    cutoff = limits.find_cutoff(now)
    count = last_version = freed = 0

    # In order of versions, so that each memory's remaining entries are without a gap.
    for version, made_at, entry_size in await transaction.fetch(_OLDEST, namespace, MOST_TRIMMED):
        is_young = limits.days and made_at >= cutoff
        if is_young and size - freed <= limits.max_bytes:
            break

        count, last_version = count + 1, version
        freed += entry_size

    if count:
        await transaction.run(_DELETE_OLDEST, namespace, last_version, namespace, count)
        await transaction.run(_SAVE_VERSION, namespace, last_version, last_version, -freed)
    return count


async def list_namespaces(transaction: Transaction) -> list[str]:
    """Return all namespaces in which a version was ever given."""
    rows = await transaction.fetch("SELECT namespace FROM versions ORDER BY namespace")
    return [namespace for (namespace,) in rows]


async def import_entries(
    transaction: Transaction, entries: Sequence[Entry], limits: HistoryLimits
) -> int:
    """Store all entries of one memory, unless the memory is known; return their number.

    The entries get new versions. The memory itself is imported afterwards. Raises
    Refused("invalid_stored_value").
    """
    first, *_ = entries
    try:
        check_values(list(entries))
    except Refused:
        raise Refused("invalid_stored_value") from None

    name = (first.namespace, first.id)
    if limits.days == 0 or await transaction.fetch(_KNOWN, *name, *name, *name):
        return 0

    # The version before the first entry needs a new number too.
    number_taken = len(entries) + bool(first.previous)
    taken = await take_version(transaction, first.namespace, number_taken)
    versions = {0: 0}  # the new version of each old one
    if first.previous:
        versions[first.previous] = taken - len(entries)

    renumbered: list[Entry] = []
    for number, entry in enumerate(entries, start=taken - len(entries) + 1):
        previous = versions.get(entry.previous, number - 1)
        if entry.action != "relinked":
            versions[entry.version] = number
        renumbered.append(history.seal(entry._replace(version=number, previous=previous)))

    await add_entries(transaction, renumbered)
    return len(renumbered)


class NamedMemory(NamedTuple):
    """A memory that a name refers to; ``row`` is None if it was deleted."""

    id: str
    row: Row | None


async def find_named(
    transaction: Transaction, namespace: str, name: MemoryName, *, sound: bool = False
) -> NamedMemory:
    """Return the memory that a name refers to; a deleted memory is found by its history.

    Raises Refused: id_not_found, memory_not_found; if it must be ``sound``, also as `find_damage`.
    """
    memory_id = name.id or ""
    if name.id:
        rows = await transaction.fetch(_ROW_BY_ID, namespace, name.id)
    else:
        rows = await transaction.fetch(ROW_BY_KEY, namespace, name.key)
        if not rows:  # the key of a deleted or renamed memory: take the last one that had it
            for (memory_id,) in await transaction.fetch(_FORMER_ID, namespace, name.key):
                rows = await transaction.fetch(_ROW_BY_ID, namespace, memory_id)

    if not rows:
        last = await read_last_entry(transaction, namespace, memory_id)
        if any(action == "deleted" for _, action, _ in last):
            return NamedMemory(memory_id, None)
        if name.id:
            raise Refused("id_not_found")
        raise Refused("memory_not_found")

    ((*values, stored_hash),) = rows
    row = Row._make(values)
    damage = find_damage(row, stored_hash) if sound else None
    if damage is not None:
        raise Refused(damage)

    return NamedMemory(row.id, row)


async def check_unpurged(transaction: Transaction, namespace: str, memory_id: str) -> None:
    """Check that a memory was not purged. Raises Refused("purged")."""
    if await transaction.fetch(_PURGED, namespace, memory_id):
        raise Refused("purged")


async def read_last_entry(
    transaction: Transaction, namespace: str, memory_id: str
) -> Sequence[Columns]:
    """Return a memory's version by its last entry, with the action and key of that, if any."""
    return await transaction.fetch(_LAST_ENTRY, namespace, memory_id)


async def find_last_version(transaction: Transaction, namespace: str, memory_id: str) -> int | None:
    """Return a memory's version by its history; None if that has no entry, or a deletion last."""
    for version, action, _ in await read_last_entry(transaction, namespace, memory_id):
        return None if action == "deleted" else int(version)

    return None


async def read_state(transaction: Transaction, row: Row | None) -> State:
    """Return the present state of a memory, with all its sound links."""
    if row is None:
        return State(None, {})

    return State(row, await read_links(transaction, row.namespace, row.key))


async def read_earlier(
    transaction: Transaction, namespace: str, memory_id: str, state: State, version: int | None
) -> State:
    """Return a memory's state in a version, or before its last change if ``version`` is None.

    ``state`` is the present state. Raises Refused: version_not_found, checksum_mismatch.
    """
    since = version
    if since is None:
        ((last,),) = await transaction.fetch(_LAST_CHANGE, namespace, memory_id)
        since = last - 1

    entries = await _fetch_since(transaction, namespace, memory_id, since)
    if version is None:
        # A relinked memory was not changed itself.
        changed = [entry for entry in entries if entry.action != "relinked"]
        if not changed:
            raise Refused("version_not_found")
        if not changed[0].is_sound:
            raise Refused("checksum_mismatch")
        version = changed[0].previous

    return history.rewind(state, entries, version)


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
    check_values(name, before)
    memory_id, row = await find_named(transaction, namespace, name, sound=True)
    earliest = 0 if row is None else row.version
    names = (namespace, memory_id)
    for (version,) in await transaction.fetch(_EARLIEST, *names, *names):
        earliest = version

    if before is None:
        before = _LAST_VERSION
    found = await transaction.fetch(_ENTRIES, *names, -1, before, limit + 1)

    entries: list[Entry] = []
    for entry in map(Entry._make, found[:limit]):
        if not entry.is_sound:
            earliest = entry.previous if entry.action == "relinked" else entry.version
            return MemoryHistory(row, tuple(entries), False, earliest)
        entries.append(entry)

    return MemoryHistory(row, tuple(entries), len(found) > limit, earliest)


async def read_version(
    transaction: Transaction, namespace: str, name: MemoryName, moment: int | str
) -> StoredMemory:
    """Return a memory with all its links in a version or at a time."""
    check_values(name, moment)
    named = await find_named(transaction, namespace, name, sound=True)
    state = await read_state(transaction, named.row)

    if isinstance(moment, str):
        ((version,),) = await transaction.fetch(_VERSION_AT, namespace, named.id, moment)
        for entry in await _fetch_since(transaction, namespace, named.id, version):
            state = history.undo(state, entry)
    else:
        state = await read_earlier(transaction, namespace, named.id, state, moment)

    # Older entries may be deleted, so the state itself says since when it is valid.
    row = state.row
    if row is None or (isinstance(moment, str) and row.updated_at > moment):
        raise Refused("version_not_found")

    links = tuple(sorted(state.links.values()))
    return StoredMemory(row, links, len(links))


async def read_changes(
    transaction: Transaction, namespace: str, since: int, limit: int
) -> ChangePage:
    """Return about ``limit`` changes after a version, and all changes of the last version.

    Changes of a namespace are committed in the order of their versions, so no change can appear
    later before one that was returned.
    """
    rows = await transaction.fetch(_VERSIONS, namespace)
    number, forgotten = rows[0] if rows else (0, 0)
    end = await _find_next_version(transaction, namespace, since, limit)
    is_complete = forgotten <= since <= number
    if end is None:
        # After a restored backup, a client may ask for a later version; it starts over from here.
        return ChangePage((), number, False, is_complete)

    given = (namespace, since, end)
    last_changes: dict[str, MemoryChange] = {}
    for change in map(MemoryChange._make, await transaction.fetch(_CHANGES, *given, *given)):
        last_changes.pop(change.id, None)  # move it to the end
        last_changes[change.id] = change

    changes = await _add_keys(transaction, namespace, last_changes.values())
    has_more = await _find_next_version(transaction, namespace, end, 1) is not None
    if not has_more:
        end = number  # later versions without changes here need not be asked for again

    return ChangePage(tuple(changes), end, has_more, is_complete)


async def _find_next_version(
    transaction: Transaction, namespace: str, since: int, limit: int
) -> int | None:
    """Return the last version of a page of changes, or None if there are no changes."""
    given = (namespace, since, limit)
    ((version,),) = await transaction.fetch(_NEXT_VERSION, *given, *given, limit)
    if version is None:
        return None

    return int(version)


async def read_latest_changes(
    transaction: Transaction, namespace: str, before: int | None, limit: int
) -> list[MemoryChange]:
    """Return the latest changes, or the latest before a version, without "relinked" ones."""
    if before is None:
        before = _LAST_VERSION

    given = (namespace, before, limit)
    found = await transaction.fetch(_LATEST, *given, *given, limit)
    return await _add_keys(transaction, namespace, map(MemoryChange._make, found))


async def _add_keys(
    transaction: Transaction, namespace: str, found: Iterable[MemoryChange]
) -> list[MemoryChange]:
    """Return changes with the present keys of their memories, or the last keys of deleted ones."""
    changes = list(found)
    names = sorted({change.id for change in changes})
    keys: dict[str, str] = {}
    for statement in (_KEYS, _FORMER_KEYS):
        unknown = [name for name in names if name not in keys]
        if not unknown:
            break
        for memory_id, key in await transaction.fetch(statement, namespace, unknown):
            keys[memory_id] = key

    return [change._replace(key=keys.get(change.id, "")) for change in changes]
