"""Forgetting memories in PostgreSQL for good: their rows, their words, and their history."""

from abilities.helpers.stores.changes import Change
from abilities.helpers.stores.entries import delete_history
from abilities.helpers.stores.past import find_last_key, list_deleted_before
from abilities.helpers.stores.postgres.naming import FoundMemory
from abilities.helpers.stores.postgres.recall_index import merge_recent, remove_doc
from abilities.helpers.stores.postgres.shelf import unindex_memory
from abilities.helpers.stores.postgres.statements import Connection, Statement
from abilities.helpers.stores.postgres.transaction import bind
from abilities.helpers.stores.postgres.writes import delete_row
from abilities.helpers.stores.protocol import WriteResult

TABLES = (
    "memories",
    "links",
    "link_counts",
    "stale_ranks",
    "shelf",
    "tags",
    "counters",
    "words",
    "recall_terms",
    "recall_recent",
    "history",
)
"""The tables that had something of a purged memory."""

_SAVE_VERSION = Statement("""
    INSERT INTO versions (namespace, number) VALUES (%s, %s)
    ON CONFLICT (namespace) DO UPDATE SET number = EXCLUDED.number
""")
_ADD_PURGED = Statement("""
    INSERT INTO purged (namespace, id, version, made_at, caller) VALUES (%s, %s, %s, %s, %s)
""")
# Index entries of rows that are gone are left in place otherwise, if they are few; and statistics
# hold common values.
_CLEAN = f"VACUUM (ANALYZE, INDEX_CLEANUP ON, SKIP_LOCKED) {', '.join(TABLES)}"


async def purge_memory(
    connection: Connection, namespace: str, named: FoundMemory, change: Change
) -> WriteResult:
    """Delete a memory, present or already deleted, with its history; only its id is remembered.

    So are those that were deleted under its key before, unless another memory has the key now.
    """
    existing = named.existing
    version = existing.next_version
    await _SAVE_VERSION.execute(connection, namespace, version)

    row = existing.row
    key = row.key if row is not None else ""
    if row is None:
        key = await bind(find_last_key)(connection, namespace, named.id)
    deleted = await bind(list_deleted_before)(connection, namespace, key, named.id)
    forgotten = {named.id, *deleted}
    if row is not None:
        shelved = await unindex_memory(connection, row)
        await delete_row(connection, existing, row)

        # Whatever its terms were; not as a change to merge later, which would hold them again.
        if shelved.doc is not None:
            await remove_doc(connection, namespace, shelved.doc)

    # The changes of a memory that was deleted before may not be merged yet.
    await merge_recent(connection, namespace)
    await bind(delete_history)(connection, namespace, sorted(forgotten))
    for name in sorted(forgotten):
        await _ADD_PURGED.execute(connection, namespace, name, version, change.now, change.caller)

    return WriteResult(None, created=False, updated=(), version=version, id=named.id)


async def clean_tables(connection: Connection) -> None:
    """Remove from tables, indexes and statistics what was deleted, outside of a transaction.

    What a transaction may still see stays, and so does what free space holds until it is reused.
    """
    await connection.execute("SET statement_timeout = 0")
    await connection.execute(_CLEAN.encode())
