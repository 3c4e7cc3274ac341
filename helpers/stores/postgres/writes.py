"""Writing a change to PostgreSQL, in a transaction that holds the lock of its namespace."""

from collections.abc import Sequence

import orjson

from abilities.declarations.faults import Refused
from abilities.helpers.stores.changes import Change, create_row, merge_change
from abilities.helpers.stores.model import IMPORTANCES, AccessCounters, LinkRow, Row, hash_values
from abilities.helpers.stores.postgres.accesses import Access
from abilities.helpers.stores.postgres.links import delete_links, save_links, update_ranks
from abilities.helpers.stores.postgres.reads import (
    find_row_by_id,
    find_row_by_key,
    load_memory,
    read_links_to,
)
from abilities.helpers.stores.postgres.statements import (
    Connection,
    Select,
    Statement,
    to_columns,
    to_number,
)
from abilities.helpers.stores.protocol import WriteResult

SHOWN_LINKS = 20
"""Links of a changed memory that are returned, best first."""


_COLUMNS = ", ".join((*Row._fields, "hash"))
_PLACEHOLDERS = ", ".join(["%s"] * (len(Row._fields) + 1))
_SAVE_ROW = Statement(f"""
    INSERT INTO memories ({_COLUMNS}) VALUES ({_PLACEHOLDERS})
    ON CONFLICT (namespace, key) DO UPDATE SET ({_COLUMNS}) = ROW (EXCLUDED.*)
""")
_DELETE_ROW = Statement("DELETE FROM memories WHERE namespace = %s AND key = %s")
_COUNT_MEMORIES = Select(
    """
    SELECT coalesce(sum(number), 0)::int8 FROM counters WHERE namespace = %s AND name = 'all'
    """,
    to_number,
)

_INDEX_MEMORY = Statement("""
    INSERT INTO shelf (namespace, id, key, type, category, importance, archived, size,
        created_at, updated_at, accessed_at, access_count)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
""")
_UNINDEX_MEMORY = Select(
    "DELETE FROM shelf WHERE namespace = %s AND id = %s RETURNING accessed_at, access_count",
    AccessCounters._make,
)
_INDEX_TAGS = Statement("""
    INSERT INTO tags (namespace, tag, archived, accessed_at, id)
    SELECT %s, tag, %s, %s, %s FROM unnest(%s::text[]) AS new (tag)
""")
_UNINDEX_TAGS = Statement("DELETE FROM tags WHERE namespace = %s AND id = %s")
_SAVE_WORDS = Statement("""
    INSERT INTO words (namespace, id, folded) VALUES (%s, %s, %s)
    ON CONFLICT (namespace, id) DO UPDATE SET folded = EXCLUDED.folded
""")
_DELETE_WORDS = Statement("DELETE FROM words WHERE namespace = %s AND id = %s")

_ACCESSED = """
    FROM unnest(%s::text[], %s::int8[], %s::text[]) AS new (key, number, accessed_at)
    JOIN memories AS m ON m.namespace = %s AND m.key = new.key
    WHERE t.namespace = m.namespace AND t.id = m.id
"""
_COUNT_ACCESSES = Statement(f"""
    UPDATE shelf AS t SET accessed_at = greatest(t.accessed_at, new.accessed_at),
        access_count = t.access_count + new.number {_ACCESSED}
""")
_UPDATE_TAG_TIMES = Statement(f"""
    UPDATE tags AS t SET accessed_at = greatest(t.accessed_at, new.accessed_at) {_ACCESSED}
""")


async def apply_change(
    connection: Connection, namespace: str, change: Change, quota: int | None
) -> WriteResult:
    """Make a change; ``quota`` is the most memories that the namespace may hold, or None.

    Raises Refused: id_not_found, key_taken, storage_quota, and what reading the memory raises.
    """
    before = await _read_existing(connection, namespace, change)

    if change.kind == "delete":
        assert before is not None, "a delete names an id, which was found"
        await _delete(connection, before)
        return WriteResult(None, created=False, updated=())

    if before is None:
        await check_quota(connection, namespace, quota)

    links: list[LinkRow] = []
    keys = change.linked_keys
    if before is not None and keys:
        links = await read_links_to(connection, namespace, before.key, keys)

    row = before or create_row(change, namespace)
    after = merge_change(change, row, links)
    if before is None or after.updated:
        await save_memory(connection, before, after.row)
        await save_links(connection, after.row, links, after.links)

    stored = await load_memory(connection, after.row, SHOWN_LINKS)
    return WriteResult(stored, created=before is None, updated=after.updated)


async def _read_existing(connection: Connection, namespace: str, change: Change) -> Row | None:
    """Return the row of the memory that a change names by id, by key or by both.

    Raises Refused: id_not_found, or key_taken if id and key name different memories.
    """
    by_id: Row | None = None
    if change.id:
        by_id = await find_row_by_id(connection, namespace, change.id)
        if by_id is None:
            raise Refused("id_not_found")

    by_key: Row | None = None
    if change.key:
        by_key = await find_row_by_key(connection, namespace, change.key)

    if by_id is not None and change.key not in (None, by_id.key):
        raise Refused("key_taken")

    return by_id or by_key


async def check_quota(connection: Connection, namespace: str, quota: int | None) -> None:
    """Check that a namespace may hold one more memory. Raises Refused: storage_quota."""
    if quota is None:
        return

    if await _COUNT_MEMORIES.fetch_only(connection, namespace) >= quota:
        raise Refused("storage_quota")


async def save_memory(
    connection: Connection,
    before: Row | None,
    after: Row,
    counters: AccessCounters | None = None,
) -> None:
    """Write a memory's row and all that is derived from it, except its own links.

    ``counters`` are the memory's new access counters; without them, it keeps those that it has.
    """
    # The triggers that keep the counters see rows of the indexes come and go, so a change removes
    # these rows and adds them again.
    existing = AccessCounters(after.created_at, 0)
    if before is not None:
        existing = await unindex_memory(connection, before)

    stored_hash = hash_values(after)
    await _SAVE_ROW.execute(connection, *after, stored_hash)
    await _save_words(connection, before, after)

    # A new memory may have links already: they may lead to a key that does not exist yet.
    score = _get_rank_score(after)
    if before is None or score != _get_rank_score(before):
        await update_ranks(connection, after, score)

    await index_memory(connection, after, counters or existing)


async def _save_words(connection: Connection, before: Row | None, after: Row) -> None:
    """Write the words that search looks through, unless they are the same as before."""
    if before is not None:
        has_same_id = before.id == after.id
        if has_same_id and before.content == after.content:
            return

        # An import can replace a memory by one with another id.
        if not has_same_id:
            await _delete_words(connection, before)

    folded = after.content.casefold()
    await _SAVE_WORDS.execute(connection, after.namespace, after.id, folded)


def _get_rank_score(row: Row) -> float | None:
    """Return the score that ranks the links to a memory, or None if it is archived."""
    if row.archived:
        return None

    return row.score


async def index_memory(connection: Connection, row: Row, counters: AccessCounters) -> None:
    """Add a memory to the memory index and its tags to theirs."""
    content, summary = row.content.encode(), row.summary.encode()
    await _INDEX_MEMORY.execute(
        connection,
        row.namespace,
        row.id,
        row.key,
        row.type,
        row.category,
        IMPORTANCES.index(row.importance),
        row.archived,
        len(content) + len(summary),
        row.created_at,
        row.updated_at,
        *counters,
    )

    tags = orjson.loads(row.tags)
    if tags:
        await _INDEX_TAGS.execute(
            connection,
            row.namespace,
            row.archived,
            counters.accessed_at,
            row.id,
            tags,
        )


async def unindex_memory(connection: Connection, row: Row) -> AccessCounters:
    """Remove a memory and its tags from their indexes, and return its access counters."""
    await _UNINDEX_TAGS.execute(connection, row.namespace, row.id)
    counters = await _UNINDEX_MEMORY.fetch_first(connection, row.namespace, row.id)

    # Only damage can leave a memory without its row in the index; counting then starts again.
    return counters or AccessCounters(row.created_at, 0)


async def _delete(connection: Connection, row: Row) -> None:
    """Delete a memory for good. The links of others to it stay, as links to a missing memory."""
    await unindex_memory(connection, row)
    await _delete_words(connection, row)
    await delete_links(connection, row)
    await _DELETE_ROW.execute(connection, row.namespace, row.key)

    await update_ranks(connection, row, None)


async def _delete_words(connection: Connection, row: Row) -> None:
    await _DELETE_WORDS.execute(connection, row.namespace, row.id)


async def count_accesses(
    connection: Connection, namespace: str, accesses: Sequence[Access]
) -> None:
    """Add to the access counters of memories; keys that do not exist are ignored."""
    columns = to_columns(accesses)
    await _COUNT_ACCESSES.execute(connection, *columns, namespace)
    await _UPDATE_TAG_TIMES.execute(connection, *columns, namespace)
