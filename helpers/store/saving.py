"""Finding a memory for a change, and writing it with all data derived from it.

Every change ends in `write_memory`, which writes the derived data as the difference between the
memory before and after the change.
"""

import logging
from collections import Counter
from functools import lru_cache
from typing import NamedTuple

import orjson

from abilities.declarations.refusals import Reason, Refused
from abilities.helpers.store import linking, past, ranking
from abilities.helpers.store.about import ADD_ABOUT, DELETE_ABOUT, list_about
from abilities.helpers.store.engine import Columns, Transaction
from abilities.helpers.store.history import HistoryLimits
from abilities.helpers.store.mending import mend_row, propose_names
from abilities.helpers.store.model import (
    IMPORTANCES,
    NO_LINKS,
    LinkChange,
    Row,
    find_damage,
    hash_row,
    verify_saved,
)
from abilities.helpers.store.recall_index import INDEX_STATE, IndexState, change_terms, remove_doc

_log = logging.getLogger("abilities")


class IndexRow(NamedTuple):
    """A memory's row in the memory index, without the access counters, which are not derived.

    ``importance`` is its index in `IMPORTANCES`. ``size`` is the number of UTF-8 bytes of content
    and summary.
    """

    id: str
    key: str
    type: str
    category: str
    importance: int
    archived: int
    size: int
    created_at: str
    updated_at: str


INDEX_COLUMNS = IndexRow._fields

_COLUMNS = (*Row._fields, "hash")
_NAMES = ", ".join(_COLUMNS)
_INSERT = f"INSERT INTO memories ({_NAMES}) VALUES ({', '.join('?' * len(_COLUMNS))})"
_UPDATE = f"""
UPDATE memories SET {", ".join(f"{name} = ?" for name in _COLUMNS)} WHERE namespace = ? AND key = ?
"""
_DELETE = "DELETE FROM memories WHERE namespace = ? AND key = ?"
_IS_TAKEN = """
SELECT 1 FROM memories WHERE namespace = ? AND key = ? AND (namespace, key) <> (?, ?)
UNION ALL SELECT 1 FROM memories WHERE namespace = ? AND id = ? AND (namespace, key) <> (?, ?)
"""

_ACCESSES = ("accessed_at", "access_count", "doc")
_SHELVED = ", ".join((*INDEX_COLUMNS, *_ACCESSES))
_DELETE_SHELVED = f"DELETE FROM shelf WHERE namespace = ? AND id = ? RETURNING {_SHELVED}"
_DELETE_STRAY = f"DELETE FROM shelf WHERE namespace = ? AND key = ? RETURNING {_SHELVED}"
_ADD_TAG = "INSERT INTO tags (namespace, tag, archived, accessed_at, id) VALUES (?, ?, ?, ?, ?)"
_DELETE_TAGS = "DELETE FROM tags WHERE namespace = ? AND id = ?"
_TAKE_TAGS = f"{_DELETE_TAGS} RETURNING tag, archived"
_DERIVED = ((_ADD_TAG, _DELETE_TAGS), (ADD_ABOUT, DELETE_ABOUT))
"""The statements for the two parts of what `_derive` returns."""

_COUNT = """
INSERT INTO counters AS c (namespace, name, archived, value, number) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (namespace, name, archived, value) DO UPDATE SET number = c.number + excluded.number
"""
_CLEAR_COUNT = """
DELETE FROM counters
WHERE namespace = ? AND name = ? AND archived = ? AND value = ? AND number = 0
"""
_COUNT_MEMORIES = """
SELECT coalesce(sum(number), 0) FROM counters WHERE namespace = ? AND name = 'all'
"""

_FIRST_COLUMN = 10
"""The index of the first column of the memory in ``_FIND``."""

_FIND = f"""
SELECT coalesce(v.number, 0), c.key IS NOT NULL, (
    SELECT 1 FROM stale_ranks AS r WHERE r.namespace = given.namespace LIMIT 1 OFFSET ?
) IS NOT NULL OR EXISTS (
    SELECT 1 FROM stale_ranks AS r
    WHERE r.namespace = given.namespace AND r.since <= coalesce(v.number, 0) + 1 - ?
), EXISTS (
    SELECT 1 FROM memories AS d INDEXED BY memories_due
    WHERE d.namespace = given.namespace
    AND d.expires_at <> '' AND d.archived = 0 AND d.expires_at <= given.now
), (
    SELECT coalesce(max(l.doc) + 1, 0) FROM shelf AS l WHERE l.namespace = given.namespace
), {INDEX_STATE}, s.accessed_at, s.access_count, s.doc,
    {", ".join(f"m.{name}" for name in _COLUMNS)}
FROM (
    SELECT CAST(? AS text) AS namespace, CAST(? AS text) AS name, CAST(? AS text) AS now
) AS given
LEFT JOIN versions AS v ON v.namespace = given.namespace
"""
_FIND_BY = f"""
{_FIND} LEFT JOIN memories AS m ON m.namespace = given.namespace AND m.%s = given.name
LEFT JOIN shelf AS s ON s.namespace = m.namespace AND s.id = m.id
LEFT JOIN link_counts AS c ON c.namespace = given.namespace AND c.key = %s
"""
_BY_KEY = _FIND_BY % ("key", "given.name")
_BY_ID = _FIND_BY % ("id", "m.key")


class Counted(NamedTuple):
    """The key of a counter of memories in a namespace, either archived ones or the others.

    It counts the memories whose ``name``, which is type, importance or tag, has the value. The name
    all counts every memory, and the name size adds up their bytes. For example, ``("default",
    "tag", 0, "tea")`` counts the memories with the tag tea that are not archived.
    """

    namespace: str
    name: str
    archived: int
    value: str


def build_index_row(row: Row) -> IndexRow:
    """Return the row of the memory index for a memory.

    Raises Refused("invalid_stored_value") if the memory's row has an impossible value.
    """
    try:
        size = len(row.content.encode()) + len(row.summary.encode())
        importance = IMPORTANCES.index(row.importance)
    except (AttributeError, ValueError):
        raise Refused("invalid_stored_value") from None

    return IndexRow(
        id=row.id,
        key=row.key,
        type=row.type,
        category=row.category,
        importance=importance,
        archived=row.archived,
        size=size,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def list_tags(row: Row) -> list[str]:
    """Return the tags of a sound row."""
    tags: list[str] = orjson.loads(row.tags)
    return tags


def count_indexed(namespace: str, row: IndexRow) -> Counter[Counted]:
    """Return the share of a row of the memory index in each counter."""
    archived = row.archived
    return Counter(
        {
            Counted(namespace, "all", archived, ""): 1,
            Counted(namespace, "size", archived, ""): row.size,
            Counted(namespace, "type", archived, row.type): 1,
            Counted(namespace, "importance", archived, str(row.importance)): 1,
        }
    )


class Shelved(NamedTuple):
    """The columns of the memory index that are not derived: access counters and number.

    ``doc`` is the number of the memory in the recall index.
    """

    accessed_at: str
    access_count: int
    doc: int


class Found(NamedTuple):
    """A memory, or None, with the data about it and its namespace that a change needs.

    ``damage`` is the reason for which readers refuse the memory. ``has_links`` is True if the key
    has links or links lead to it, ``has_old_marks`` if the namespace has old marks of stale ranks,
    and ``has_due`` if memories have expired and are not archived yet. ``shelved`` is None if the
    memory is not in the memory index. ``free_doc`` is the ``doc`` for the next new memory.
    ``recall_state`` is None if the recall index was written since it was read.
    """

    row: Row | None
    last_version: int
    has_links: bool
    has_old_marks: bool
    has_due: bool
    shelved: Shelved | None
    free_doc: int
    recall_state: IndexState | None
    damage: Reason | None = None

    @property
    def next_version(self) -> int:
        """The version that the next change gives."""
        return self.last_version + 1


async def find_by_key(transaction: Transaction, namespace: str, key: str, now: str = "") -> Found:
    """Find a memory by key for a change; ``now`` decides which memories have expired."""
    return await _find(transaction, _BY_KEY, namespace, key, now)


async def find_by_id(
    transaction: Transaction, namespace: str, memory_id: str, now: str = ""
) -> Found:
    """Find a memory by id for a change; ``now`` decides which memories have expired."""
    return await _find(transaction, _BY_ID, namespace, memory_id, now)


async def _find(transaction: Transaction, text: str, *given: str) -> Found:
    bounds = (ranking.MOST_STALE, ranking.LONGEST_STALE)
    ((*columns,),) = await transaction.fetch(text, *bounds, *given)
    version, has_links, has_old_marks, has_due, *rest = columns[: _FIRST_COLUMN - 3]
    counters = columns[_FIRST_COLUMN - 3 : _FIRST_COLUMN]
    *values, stored_hash = columns[_FIRST_COLUMN:]

    row: Row | None = None
    damage: Reason | None = None
    if stored_hash is not None:  # without a memory, the join returns nulls
        row = Row._make(values)
        damage = find_damage(row, stored_hash)

    shelved = None if counters[-1] is None else Shelved._make(counters)
    free_doc, *state = rest
    flags = (bool(has_links), bool(has_old_marks), bool(has_due))
    return Found(row, version, *flags, shelved, free_doc, IndexState._make(state), damage)


@lru_cache(maxsize=8)
def _write_upsert(own: tuple[tuple[str, str], ...]) -> str:
    """Return the statement that writes a row of the memory index; see `shelf_columns`."""
    columns = ("namespace", *INDEX_COLUMNS, *_ACCESSES)
    given = ["m.namespace", *("?" for _ in columns[1:]), *(source for _, source in own)]
    names = [*columns, *(name for name, _ in own)]
    updated = [name for name in names if name not in ("namespace", "id")]
    return f"""
    INSERT INTO shelf ({", ".join(names)}) SELECT {", ".join(given)}
    FROM memories AS m WHERE m.namespace = ? AND m.key = ?
    ON CONFLICT (namespace, id) DO UPDATE SET
    {", ".join(f"{name} = excluded.{name}" for name in updated)}
    """


async def check_quota(transaction: Transaction, namespace: str, quota: int | None) -> None:
    """Check that a namespace may hold another memory. Raises Refused("storage_quota")."""
    if quota is None:
        return

    ((count,),) = await transaction.fetch(_COUNT_MEMORIES, namespace)
    if count >= quota:
        raise Refused("storage_quota")


async def write_memory(
    transaction: Transaction,
    found: Found,
    after: Row | None,
    links: LinkChange = NO_LINKS,
    counters: tuple[str, int] | None = None,
) -> None:
    """Write a memory as it is after a change, and the difference in all data derived from it.

    If ``after`` is None, the memory is deleted with its links; links of others to it stay.
    ``links`` are its changed links. ``counters`` replaces its access counters. Raises
    Refused("invalid_stored_value") if the memory cannot be read back.
    """
    before = found.row
    row = after or before
    assert row is not None, "a change concerns a memory"
    if after is not None and before is not None:
        await update_row(transaction, before, after)
    elif after is not None:
        await transaction.run(_INSERT, *after, hash_row(after))

    await _update_indexes(transaction, found, after, counters)
    if after is None:
        if found.has_links:
            await linking.delete_links(transaction, row)
        await transaction.run(_DELETE, row.namespace, row.key)

    # Links may lead to a key before its memory exists, so a new memory may have links already.
    has_moved = linking.get_rank_score(before) != linking.get_rank_score(after)
    if found.damage is not None or (found.has_links and has_moved):
        await linking.update_ranks(transaction, row)
    if found.has_old_marks:
        await linking.refresh_stale_ranks(transaction, row.namespace)

    # Only a memory that can be read may be acknowledged.
    if after is not None:
        ((*saved, stored_hash),) = await transaction.fetch(
            past.ROW_BY_KEY, after.namespace, after.key
        )
        verify_saved(Row._make(saved), stored_hash)
        await linking.save_links(transaction, after, links)


async def _update_indexes(
    transaction: Transaction, found: Found, after: Row | None, counters: tuple[str, int] | None
) -> None:
    """Update all indexes and counters after a memory's row was written, or before its deletion."""
    before, shelved, state = found.row, found.shelved, found.recall_state
    # Of a damaged memory, it is not known what is indexed.
    is_known = before is None or (shelved is not None and found.damage is None)
    if is_known or after is None:
        await transaction.save_words(before, after)
    else:
        await transaction.renew_words(after)

    # An import can replace a memory by one with another id.
    former = before
    if before is not None and not (is_known and after is not None and after.id == before.id):
        shelved = await _unindex_memory(transaction, before)
        former = None

    if shelved is None:
        before = None
    elif found.damage is not None and before is not None:
        await remove_doc(transaction, before.namespace, shelved.doc)
        before = state = None

    created_at = "" if after is None else after.created_at
    shelved = shelved or Shelved(created_at, 0, found.free_doc)
    if counters is not None:
        shelved = Shelved(*counters, shelved.doc)
    if after is not None:
        await _write_rows(transaction, former, after, shelved)
        amounts = _count_all(after)
        if former is not None:
            amounts.subtract(_count_all(former))
        await _count(transaction, amounts)

    if before is not None or after is not None:
        await change_terms(transaction, before, after, shelved.doc, state)


async def _write_rows(
    transaction: Transaction, before: Row | None, after: Row, shelved: Shelved
) -> None:
    """Write a memory's row in the memory index, and its rows in other indexes if they changed.

    If ``before`` is None, these must have none of the memory.
    """
    text = _write_upsert(transaction.shelf_columns)
    values = (*build_index_row(after), *shelved)
    await transaction.run(text, *values, after.namespace, after.key)

    former, present = (_derive(row, shelved.accessed_at) for row in (before, after))
    for (add, delete), old, new in zip(_DERIVED, former, present, strict=True):
        if old and old != new:
            await transaction.run(delete, after.namespace, after.id)
        if new and old != new:
            await transaction.run_many(add, new)


def _derive(row: Row | None, accessed_at: str) -> tuple[list[Columns], list[Columns]]:
    """Return a memory's rows in the indexes of tags and of paths."""
    if row is None:
        return [], []

    tags: list[Columns] = []
    for tag in list_tags(row):
        tags.append((row.namespace, tag, row.archived, accessed_at, row.id))
    return tags, list_about(row)


async def _unindex_memory(transaction: Transaction, row: Row) -> Shelved | None:
    """Remove a memory from the memory index, the indexes of tags and paths, and the counters.

    The removal goes by the stored rows, and not by the memory. Returns the columns that are not
    derived, None without a row.
    """
    namespace = row.namespace
    found = await transaction.fetch(_DELETE_SHELVED, namespace, row.id)
    if not found:  # damage may have changed its id
        found = await transaction.fetch(_DELETE_STRAY, namespace, row.key)

    amounts: Counter[Counted] = Counter()
    shelved: Shelved | None = None
    ids = {row.id}
    for columns in found:
        index_row = IndexRow._make(columns[: len(INDEX_COLUMNS)])
        ids.add(index_row.id)
        amounts.subtract(count_indexed(namespace, index_row))
        shelved = Shelved._make(columns[len(INDEX_COLUMNS) :])

    for name in sorted(ids):
        for tag, archived in await transaction.fetch(_TAKE_TAGS, namespace, name):
            amounts[Counted(namespace, "tag", archived, tag)] -= 1
        await transaction.run(DELETE_ABOUT, namespace, name)

    await _count(transaction, amounts)
    return shelved


def _count_all(row: Row) -> Counter[Counted]:
    amounts = count_indexed(row.namespace, build_index_row(row))
    for tag in list_tags(row):
        amounts[Counted(row.namespace, "tag", row.archived, tag)] += 1

    return amounts


async def _count(transaction: Transaction, amounts: Counter[Counted]) -> None:
    rows: list[Columns] = [(*counted, amounts[counted]) for counted in sorted(amounts)]
    rows = [row for row in rows if row[-1]]
    if rows:
        await transaction.run_many(_COUNT, rows)

    # There can be any number of tags, so their counters are deleted at 0, unlike all others.
    gone = [row[:-1] for row in rows if row[1] == "tag" and row[-1] < 0]
    if gone:
        await transaction.run_many(_CLEAR_COUNT, gone)


async def mend_memory(
    transaction: Transaction, damaged: Row, now: str, caller: str, limits: HistoryLimits
) -> Found:
    """Mend a damaged memory and what is indexed of it; find it as it is now."""
    _log.warning("a damaged memory was mended before it was changed")
    mended = await save_mended(transaction, damaged, now, caller, limits)
    await write_derived(transaction, mended, "checksum_mismatch")
    return await find_by_key(transaction, mended.namespace, mended.key)


async def save_mended(
    transaction: Transaction, damaged: Row, now: str, caller: str, limits: HistoryLimits
) -> Row:
    """Save a damaged memory's readable values, with a new version and an entry of the history.

    Returns the mended row. The data derived from it is not written.
    """
    mended = await _name_mended(transaction, damaged, mend_row(damaged, now))
    version = await past.take_version(transaction, mended.namespace)
    mended = mended._replace(version=version)

    # Damaged values must not be restored, so the entry contains none.
    last = await past.find_last_version(transaction, mended.namespace, mended.id)
    former = mended._replace(version=last or max(int(damaged.version), 0))
    occasion = past.Occasion("mended", now, caller)
    await past.save_entry(transaction, occasion, former, mended, version, NO_LINKS, limits)

    await update_row(transaction, damaged, mended)
    return mended


async def write_derived(transaction: Transaction, row: Row, damage: Reason | None = None) -> None:
    """Write all data derived from a stored memory anew, in place of what is stored of it.

    The recall index is left alone, unless ``damage`` says that it may have other terms.
    """
    found = await find_by_key(transaction, row.namespace, row.key)
    await write_memory(transaction, found._replace(shelved=None, damage=damage), row)


async def update_row(transaction: Transaction, before: Row, row: Row) -> None:
    """Write a memory's row in place of an earlier one, without the derived data."""
    await transaction.run(_UPDATE, *row, hash_row(row), before.namespace, before.key)


async def _name_mended(transaction: Transaction, damaged: Row, mended: Row) -> Row:
    """Return a mended row with a key and an id that no other memory has."""
    for proposed in propose_names(mended):
        if await is_free(transaction, proposed, damaged):
            return proposed

    raise AssertionError("there is always another proposal")


async def is_free(transaction: Transaction, row: Row, damaged: Row) -> bool:
    """Return whether no memory except the damaged one has the key or the id of a row."""
    itself = (damaged.namespace, damaged.key)
    by_key = (row.namespace, row.key, *itself)
    by_id = (row.namespace, row.id, *itself)
    return not await transaction.fetch(_IS_TAKEN, *by_key, *by_id)
