"""Check and repair of the history of every store: entries are kept that lead to the present."""

from collections.abc import AsyncIterator, Iterable, Sequence

from abilities.declarations.faults import Refused
from abilities.helpers.store.history import ENTRY_BYTES, Entry, verify_entry
from abilities.helpers.store.originals import OriginalsFile
from abilities.helpers.store.past import ENTRY_COLUMNS, find_owner
from abilities.helpers.store.transaction import Transaction

_ENTRIES = f"""
SELECT {ENTRY_COLUMNS} FROM history INDEXED BY history_id {{where}} ORDER BY namespace, id, version
"""

# What the last entry of a memory leads to is its version; after a deletion there is no memory.
UNTOLD = """
SELECT m.namespace, m.id FROM memories AS m WHERE m.version <> (
    SELECT max(CASE h.action WHEN 'relinked' THEN h.previous ELSE h.version END)
    FROM history AS h INDEXED BY history_id WHERE h.namespace = m.namespace AND h.id = m.id
)
"""
REVIVED = """
SELECT p.namespace, p.id FROM purged AS p
WHERE EXISTS (SELECT 1 FROM memories AS m WHERE m.namespace = p.namespace AND m.id = p.id)
    OR EXISTS (
        SELECT 1 FROM history AS h INDEXED BY history_id
        WHERE h.namespace = p.namespace AND h.id = p.id
    )
"""
MISCOUNTED = f"""
SELECT namespace, 'bytes' FROM (
    SELECT namespace, {ENTRY_BYTES} + octet_length(before) AS size FROM history
    UNION ALL SELECT namespace, -history_bytes FROM versions
) AS sizes GROUP BY namespace HAVING sum(size) <> 0
"""

_UNTOLD_ENTRIES = f"""
SELECT {ENTRY_COLUMNS} FROM history INDEXED BY history_id
WHERE namespace = ? AND id IN (SELECT id FROM ({UNTOLD} AND m.namespace = ?) AS untold)
"""
_DELETE = "DELETE FROM history WHERE namespace = ? AND version = ? AND id = ?"
_NOTE_FORGOTTEN = """
UPDATE versions SET forgotten = least(number, greatest(forgotten, ?)) WHERE namespace = ?
"""
_DELETE_REVIVED = """
DELETE FROM purged AS p WHERE p.namespace = ? AND EXISTS (
    SELECT 1 FROM memories AS m WHERE m.namespace = p.namespace AND m.id = p.id
)
"""
_DELETE_PURGED = """
DELETE FROM history AS h WHERE h.namespace = ? AND EXISTS (
    SELECT 1 FROM purged AS p WHERE p.namespace = h.namespace AND p.id = h.id
)
"""
_COUNT_AGAIN = f"""
UPDATE versions SET history_bytes = (
    SELECT coalesce(sum({ENTRY_BYTES} + octet_length(before)), 0) FROM history
    WHERE history.namespace = versions.namespace
) WHERE namespace = ?
"""


async def mend_history(transaction: Transaction, namespace: str, originals: OriginalsFile) -> None:
    """Remove the entries of a namespace that do not lead to the present; put them aside.

    A memory that changed without its history loses that.
    """
    await _remove(
        transaction, [each async for each in list_broken(transaction, namespace)], originals
    )
    untold = await transaction.fetch(_UNTOLD_ENTRIES, namespace, namespace)
    await _remove(transaction, list(map(Entry._make, untold)), originals)

    # A memory that is there counts for more than the note that it was purged.
    for statement in (_DELETE_REVIVED, _DELETE_PURGED):
        await transaction.run(statement, namespace)
    await transaction.run(_COUNT_AGAIN, namespace)


async def _remove(
    transaction: Transaction, entries: Sequence[Entry], originals: OriginalsFile
) -> None:
    for entry in entries:
        originals.add("history", entry._asdict())
        await transaction.run(_DELETE, entry.namespace, entry.version, entry.id)
        await transaction.run(_NOTE_FORGOTTEN, entry.version, entry.namespace)


async def list_broken(
    transaction: Transaction, namespace: str | None = None
) -> AsyncIterator[Entry]:
    """Yield the entries, of a store or of a namespace, that do not lead to their memory's last."""
    statement, values = _ENTRIES.format(where=""), list[str]()
    if namespace is not None:
        statement, values = _ENTRIES.format(where="WHERE namespace = ?"), [namespace]

    entries: list[Entry] = []
    async for columns in transaction.stream(statement, *values):
        entry = Entry._make(columns)
        if entries and find_owner(entry) != find_owner(entries[0]):
            for broken in find_broken(entries):
                yield broken
            entries = []
        entries.append(entry)

    for broken in find_broken(entries):
        yield broken


def find_broken(entries: Iterable[Entry]) -> list[Entry]:
    """Return which entries of a memory, by rising version, do not lead on to the last one.

    These are damaged ones, those before them, and those before one that is missing.
    """
    linked: list[Entry] = []
    broken: list[Entry] = []
    version: int | None = None

    for entry in entries:
        if not _is_sound(entry):
            broken += [*linked, entry]
            linked, version = [], None
            continue

        # What was before a repair is not known for sure.
        if entry.action != "mended" and version not in (None, entry.previous):
            broken += linked
            linked = []

        linked.append(entry)
        version = find_version_after(entry)

    return broken


def _is_sound(entry: Entry) -> bool:
    try:
        verify_entry(entry)
    except Refused:
        return False

    return True


def find_version_after(entry: Entry) -> int:
    """Return the version of a memory after the change of an entry, 0 if that deleted it."""
    if entry.action == "deleted":
        return 0
    if entry.action == "relinked":
        return entry.previous

    return entry.version
