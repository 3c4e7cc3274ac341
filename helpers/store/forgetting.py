"""Forgetting memories for good: their rows, their words and their history."""

from abilities.helpers.store.changes import Change
from abilities.helpers.store.entries import delete_history, take_version
from abilities.helpers.store.past import find_last_key, list_deleted_before
from abilities.helpers.store.protocol import WriteResult
from abilities.helpers.store.recall_index import merge_recent
from abilities.helpers.store.saving import Found, delete_memory
from abilities.helpers.store.transaction import Transaction

_ADD_PURGED = """
INSERT INTO purged (namespace, id, version, made_at, caller) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (namespace, id) DO NOTHING
"""


async def purge_memory(
    transaction: Transaction, namespace: str, memory_id: str, found: Found, change: Change
) -> WriteResult:
    """Delete a memory, present or already deleted, with its history; only its id is remembered.

    So are those that were deleted under its key before, unless another memory has the key now.
    What an engine leaves of rows that are gone is removed after the transaction.
    """
    version = await take_version(transaction, namespace)
    row = found.row
    if row is None:
        key = await find_last_key(transaction, namespace, memory_id)
    else:
        key = row.key

    deleted = await list_deleted_before(transaction, namespace, key, memory_id)
    forgotten = {memory_id, *deleted}
    if row is not None:
        await delete_memory(transaction, found, row)
        forgotten.add(row.id)  # mending may have changed it

    # The changes of what was deleted before may not be merged yet.
    await merge_recent(transaction, namespace)
    names = sorted(forgotten)
    await delete_history(transaction, namespace, names)
    await transaction.run_many(
        _ADD_PURGED, [(namespace, name, version, change.now, change.caller) for name in names]
    )
    return WriteResult(None, created=False, updated=(), version=version, id=memory_id)
