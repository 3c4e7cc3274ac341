"""Writing the history of a store, with the changes that it tells of."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from abilities.declarations.faults import Refused
from abilities.declarations.memory import Action
from abilities.helpers.store.history import (
    ENTRY_BYTES,
    Entry,
    describe_before,
    seal,
)
from abilities.helpers.store.model import NO_LINKS, LinkChange, Row
from abilities.helpers.store.requests import check_values
from abilities.helpers.store.timeline import HistoryLimits
from abilities.helpers.store.transaction import Transaction, fetch_named

ENTRY_COLUMNS = ", ".join(Entry._fields)

TRIM_VERSIONS = 256
"""The history of a namespace is trimmed when it gives a version that is a multiple of this."""

MOST_TRIMMED = 1_024
"""Entries that one transaction forgets at most."""

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
_READ_SIZE = f"""
SELECT coalesce(sum({_SIZE}), 0) FROM history INDEXED BY history_id WHERE namespace = ? AND id = ?
"""
_DELETE = "DELETE FROM history INDEXED BY history_id WHERE namespace = ? AND id = ?"
_OLDEST = f"""
SELECT version, made_at, {_SIZE} FROM history WHERE namespace = ? ORDER BY version, id LIMIT ?
"""
_DELETE_OLDEST = """
DELETE FROM history WHERE namespace = ? AND version <= ? AND (version, id) IN (
    SELECT version, id FROM history WHERE namespace = ? ORDER BY version, id LIMIT ?
)
"""
_NAMES = "SELECT key, id, version FROM memories WHERE namespace = ? AND key IN ({})"
_KNOWN = """
SELECT 1 FROM history INDEXED BY history_id WHERE namespace = ? AND id = ?
UNION ALL SELECT 1 FROM memories WHERE namespace = ? AND id = ?
UNION ALL SELECT 1 FROM purged WHERE namespace = ? AND id = ? LIMIT 1
"""


class StoreRules(NamedTuple):
    """What a store's writes keep to.

    ``quota`` is the most memories that a namespace may hold; None sets no limit.
    """

    quota: int | None = None
    history: HistoryLimits = HistoryLimits()


class Occasion(NamedTuple):
    """What the history says of a change beside what was replaced."""

    action: Action
    made_at: str
    caller: str


def build_entry(
    occasion: Occasion,
    before: Row | None,
    after: Row | None,
    version: int,
    links: LinkChange = NO_LINKS,
) -> Entry:
    """Return the entry of a change, which gave the memory a version.

    One of ``before`` and ``after`` is not None.
    """
    row = before or after
    assert row is not None, "a change concerns a memory"

    described = describe_before(before, after, links.before, links.after)
    previous = 0
    if before is not None:
        previous = before.version

    return seal(
        Entry(
            namespace=row.namespace,
            version=version,
            id=row.id,
            key=row.key,
            previous=previous,
            action=occasion.action,
            made_at=occasion.made_at,
            caller=occasion.caller,
            before=described,
        )
    )


async def take_version(transaction: Transaction, namespace: str, number: int = 1) -> int:
    """Return the next version of a namespace, or the last of several; none is given again."""
    ((version,),) = await transaction.fetch(_TAKE_VERSIONS, namespace, number)
    return int(version)


async def save_entry(transaction: Transaction, entry: Entry, limits: HistoryLimits) -> None:
    """Keep an entry, and its version as the last one of its namespace.

    If no history is kept, the memory has none from now on.
    """
    namespace, version, memory_id, *_ = entry
    if limits.days == 0:
        await transaction.run(_SAVE_VERSION, namespace, version, version, 0)
        await delete_history(transaction, namespace, [memory_id])
        return

    await transaction.run(_ADD, *entry)
    await transaction.run(_SAVE_VERSION, namespace, version, 0, entry.size)
    if version % TRIM_VERSIONS == 0:
        await trim(transaction, namespace, limits, entry.made_at)


async def add_entries(transaction: Transaction, entries: Sequence[Entry]) -> None:
    """Keep more entries of a namespace, whose versions were given already."""
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
    """Keep what a rename changed in the links of other memories, by their keys.

    These keep their versions, so their entries have that of the renamed memory.
    """
    if not changes:
        return

    names = await fetch_named(transaction, _NAMES, sorted(changes), renamed.namespace)
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
    """Forget up to `MOST_TRIMMED` of the oldest entries that the limits do not allow.

    Returns how many entries were forgotten; fewer than `MOST_TRIMMED` if no more are to be.
    """
    rows = await transaction.fetch(_READ_BYTES, namespace)
    size = sum(number for (number,) in rows)
    cutoff = limits.find_cutoff(now)
    count = last_version = freed = 0

    # In their order, so that each memory keeps all of its entries after some version.
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
    """Return the namespaces that may have a history."""
    rows = await transaction.fetch("SELECT namespace FROM versions ORDER BY namespace")
    return [namespace for (namespace,) in rows]


class EntryOwner(NamedTuple):
    """The memory that an entry belongs to."""

    namespace: str
    id: str


def find_owner(entry: Entry) -> EntryOwner:
    """Return the memory that an entry belongs to."""
    return EntryOwner(entry.namespace, entry.id)


def group_entries(entries: Iterable[Entry]) -> dict[EntryOwner, list[Entry]]:
    """Return entries by their memories."""
    grouped: dict[EntryOwner, list[Entry]] = {}
    for entry in entries:
        grouped.setdefault(find_owner(entry), []).append(entry)

    return grouped


async def import_entries(
    transaction: Transaction, entries: Sequence[Entry], limits: HistoryLimits
) -> int:
    """Store the history of one memory, unless the memory is known; return how many were stored.

    The memory itself is imported afterwards. Raises Refused: invalid_stored_value.
    """
    first, *_ = entries
    _check(entries)
    name = (first.namespace, first.id)
    if limits.days == 0 or await transaction.fetch(_KNOWN, *name, *name, *name):
        return 0

    # The version before the first entry gets a number too, if there was one.
    number_taken = len(entries) + bool(first.previous)
    taken = await take_version(transaction, first.namespace, number_taken)
    versions = {0: 0}
    if first.previous:
        versions[first.previous] = taken - len(entries)

    renumbered: list[Entry] = []
    for number, entry in enumerate(entries, start=taken - len(entries) + 1):
        previous = versions.get(entry.previous, number - 1)
        if entry.action != "relinked":
            versions[entry.version] = number
        renumbered.append(seal(entry._replace(version=number, previous=previous)))

    await add_entries(transaction, renumbered)
    return len(renumbered)


def _check(entries: Sequence[Entry]) -> None:
    try:
        check_values(list(entries))
    except Refused:
        raise Refused("invalid_stored_value") from None
