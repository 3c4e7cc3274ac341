"""Writing memories to PostgreSQL, in a transaction that holds the lock of their namespace."""

import logging
from collections.abc import Sequence

from abilities.declarations.faults import Refused
from abilities.declarations.limits import MAX_ACCESS_COUNT
from abilities.helpers.stores.entries import Occasion, StoreRules, build_entry, save_entry
from abilities.helpers.stores.history import Entry
from abilities.helpers.stores.mending import mend_row
from abilities.helpers.stores.model import AccessCounters, Row, StoredMemory, hash_row, verify_saved
from abilities.helpers.stores.postgres.accesses import Access
from abilities.helpers.stores.postgres.links import delete_links, get_rank_score
from abilities.helpers.stores.postgres.ranking import refresh_stale_ranks, update_ranks
from abilities.helpers.stores.postgres.reads import RowRecord
from abilities.helpers.stores.postgres.recall_index import (
    merge_recent,
    note_change,
    remove_doc,
)
from abilities.helpers.stores.postgres.shelf import Shelved, index_memory, unindex_memory
from abilities.helpers.stores.postgres.statements import (
    Connection,
    Select,
    Statement,
    to_columns,
    to_number,
)
from abilities.helpers.stores.postgres.transaction import bind
from abilities.helpers.stores.postgres.versions import Existing
from abilities.helpers.stores.protocol import WriteResult
from abilities.helpers.stores.search_text import fold_searchable

_log = logging.getLogger("abilities")

_COLUMNS = ", ".join((*Row._fields, "hash"))
_NEW_COLUMNS = ", ".join(f"EXCLUDED.{name}" for name in (*Row._fields, "hash"))
_PLACEHOLDERS = ", ".join(["%s"] * (len(Row._fields) + 1))
_SAVE_ROW = Select(
    f"""
    INSERT INTO memories ({_COLUMNS}) VALUES ({_PLACEHOLDERS})
    ON CONFLICT (namespace, key) DO UPDATE SET ({_COLUMNS}) = ({_NEW_COLUMNS})
    RETURNING {_COLUMNS}
    """,
    RowRecord.parse,
)
_DELETE_ROW = Statement("DELETE FROM memories WHERE namespace = %s AND key = %s")
_COUNT_MEMORIES = Select(
    """
    SELECT coalesce(sum(number), 0)::int8 FROM counters WHERE namespace = %s AND name = 'all'
    """,
    to_number,
)
_COUNT_KEY = Select("SELECT count(*) FROM memories WHERE namespace = %s AND key = %s", to_number)

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
        access_count = least(t.access_count + new.number, {MAX_ACCESS_COUNT}) {_ACCESSED}
""")
_UPDATE_TAG_TIMES = Statement(f"""
    UPDATE tags AS t SET accessed_at = greatest(t.accessed_at, new.accessed_at) {_ACCESSED}
""")


async def check_quota(connection: Connection, namespace: str, quota: int | None) -> None:
    """Check that a namespace may hold one more memory. Raises Refused: storage_quota."""
    if quota is None:
        return

    if await _COUNT_MEMORIES.fetch_only(connection, namespace) >= quota:
        raise Refused("storage_quota")


async def check_key_is_free(connection: Connection, namespace: str, key: str) -> None:
    """Check that no memory has a key. Raises Refused: key_taken."""
    if await _COUNT_KEY.fetch_only(connection, namespace, key):
        raise Refused("key_taken")


def build_result(row: Row, *, created: bool = False, updated: tuple[str, ...] = ()) -> WriteResult:
    """Return the result of a change that left a memory, without what is read beside its row."""
    return WriteResult(StoredMemory(row), created, updated, version=row.version, id=row.id)


async def save_memory(
    connection: Connection,
    existing: Existing,
    merged: Row,
    entry: Entry,
    rules: StoreRules,
    counters: AccessCounters | None = None,
) -> Row:
    """Write a memory's row and all that is derived from it, except its own links; return the row.

    It has the namespace's next version, which ``entry`` tells of. ``counters`` are the memory's new
    access counters; without them, it keeps those that it has.
    """
    before = existing.row
    after = merged._replace(version=existing.next_version)

    # The triggers that keep the counters see rows of the indexes come and go, so a change removes
    # these rows and adds them again.
    shelved = Shelved(AccessCounters(after.created_at, 0), None)
    if before is not None:
        shelved = await unindex_memory(connection, before)
        if before.key != after.key:
            await _DELETE_ROW.execute(connection, before.namespace, before.key)

    saved = await _SAVE_ROW.fetch_only(connection, *after, hash_row(after))
    verify_saved(saved.row, saved.hash)
    await bind(save_entry)(connection, entry, rules.history)
    await _save_words(connection, before, after)

    # A new memory may have links already: they may lead to a key that does not exist yet.
    score = get_rank_score(after)
    if existing.has_links and (before is None or score != get_rank_score(before)):
        await update_ranks(connection, after)
    if existing.has_old_marks:
        await refresh_stale_ranks(connection, after.namespace)

    if counters is not None:
        shelved = shelved._replace(counters=counters)
    await index_memory(connection, after, shelved)

    # With a new number, the memory has no terms in the recall index yet.
    known = before if shelved.doc is not None else None
    await _note_terms(connection, existing, known, after)
    return after


async def mend_memory(
    connection: Connection, existing: Existing, made_at: str, caller: str, rules: StoreRules
) -> Existing:
    """Write what is readable of a damaged memory anew, with all that is derived from it."""
    damaged = existing.row
    assert damaged is not None, "what is damaged exists"
    _log.warning("a damaged memory was mended before it was changed")

    # As a new memory, because nothing that was derived from the damaged values can be relied on.
    shelved = await unindex_memory(connection, damaged)
    if shelved.doc is not None:
        await remove_doc(connection, damaged.namespace, shelved.doc)

    # What was damaged cannot come back, so the entry tells nothing of it.
    mended = mend_row(damaged, made_at)
    occasion = Occasion("mended", made_at, caller)
    entry = build_entry(occasion, mended, mended, existing.next_version)

    unknown = existing._replace(row=None, damage=None)
    row = await save_memory(connection, unknown, mended, entry, rules, shelved.counters)
    return unknown._replace(row=row, last_version=row.version)


async def _note_terms(
    connection: Connection, existing: Existing, before: Row | None, after: Row | None
) -> None:
    """Write what a change means to the recall index, after merging earlier ones if they are many.

    The memory has its row in the memory index.
    """
    row = after or before
    assert row is not None, "a change concerns a memory"

    if existing.has_many_recent:
        await merge_recent(connection, row.namespace)
    await note_change(connection, before, after, existing.language)


async def _save_words(connection: Connection, before: Row | None, after: Row) -> None:
    """Write the words that search looks through, unless they are the same as before."""
    if before is not None:
        has_same_id = before.id == after.id
        if has_same_id and fold_searchable(before) == fold_searchable(after):
            return

        # An import can replace a memory by one with another id.
        if not has_same_id:
            await _delete_words(connection, before)

    await save_words(connection, after)


async def save_words(connection: Connection, row: Row) -> None:
    """Write the words that search looks through."""
    folded = fold_searchable(row)
    await _SAVE_WORDS.execute(connection, row.namespace, row.id, folded)


async def delete_memory(connection: Connection, existing: Existing, row: Row) -> None:
    """Delete a memory. The links of others to it stay, as links to a missing memory."""
    await _note_terms(connection, existing, row, None)
    await unindex_memory(connection, row)
    await delete_row(connection, existing, row)


async def delete_row(connection: Connection, existing: Existing, row: Row) -> None:
    """Delete a memory that is in no index of memories any more."""
    await _delete_words(connection, row)
    await delete_links(connection, row)
    await _DELETE_ROW.execute(connection, row.namespace, row.key)

    if existing.has_links:
        await update_ranks(connection, row)


async def _delete_words(connection: Connection, row: Row) -> None:
    await _DELETE_WORDS.execute(connection, row.namespace, row.id)


async def count_accesses(
    connection: Connection, namespace: str, accesses: Sequence[Access]
) -> None:
    """Add to the access counters of memories; keys that do not exist are ignored."""
    columns = to_columns(accesses)
    await _COUNT_ACCESSES.execute(connection, *columns, namespace)
    await _UPDATE_TAG_TIMES.execute(connection, *columns, namespace)
