"""Changes of memories, in a transaction that alone changes their namespace.

Every change writes an entry of the history, and then the memory.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from abilities.declarations.refusals import AbilitiesError, Refused
from abilities.helpers.store.changes import (
    Change,
    check_change,
    check_version,
    create_row,
    list_inherited,
    merge_change,
)
from abilities.helpers.store.engine import MemoriesDue
from abilities.helpers.store.history import (
    MemoryName,
    State,
    list_restored,
    name_action,
    restore_links,
    restore_row,
)
from abilities.helpers.store.linking import LinkMoves, move_links
from abilities.helpers.store.mending import list_replaced
from abilities.helpers.store.model import (
    NO_LINKS,
    REPLACED_BY,
    LinkChange,
    Links,
    Row,
    StoredMemory,
)
from abilities.helpers.store.past import (
    Occasion,
    StoreRules,
    build_entry,
    check_unpurged,
    delete_history,
    find_last_key,
    find_named,
    list_deleted_before,
    list_superseding,
    read_earlier,
    read_state,
    save_entry,
    save_relinked,
    take_version,
)
from abilities.helpers.store.protocol import WriteResult
from abilities.helpers.store.reads import read, read_linked, read_links, read_links_to
from abilities.helpers.store.recall_index import merge_recent
from abilities.helpers.store.saving import (
    Found,
    check_quota,
    find_by_id,
    find_by_key,
    mend_memory,
    write_memory,
)
from abilities.helpers.store.transaction import Transaction

SHOWN_LINKS = 20
"""Links to return with a changed memory, best first."""

MOST_EXPIRED = 256
"""Expired memories to archive per transaction."""

_DAY_CHARS = len("YYYY-MM-DD")

_DUE = """
SELECT expires_at, id FROM memories INDEXED BY memories_due
WHERE namespace = ? AND archived = 0 AND expires_at <> '' AND expires_at <= ?
AND (expires_at, id) > (?, ?) ORDER BY expires_at, id LIMIT ?
"""
_ADD_PURGED = """
INSERT INTO purged (namespace, id, version, made_at, caller) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (namespace, id) DO NOTHING
"""


class DueMemory(NamedTuple):
    """An expired memory. They are ordered by time and id."""

    expires_at: str
    id: str


FIRST_DUE = DueMemory("", "")


class BatchUndone(AbilitiesError):
    """An atomic batch must be undone because one of its changes failed."""

    def __init__(self, outcomes: list[WriteResult | Exception]) -> None:
        super().__init__(outcomes)
        self.outcomes = outcomes


async def apply_changes(
    transaction: Transaction,
    namespace: str,
    changes: Sequence[Change],
    rules: StoreRules,
    *,
    atomic: bool,
    ignore_due: bool = False,
) -> list[WriteResult | Exception]:
    """Make changes in order, each in a savepoint; return one outcome each.

    Raises MemoriesDue before the first change, as `apply_change` does, and BatchUndone if they are
    ``atomic`` and one fails. The caller must then roll back the transaction.
    """
    outcomes: list[WriteResult | Exception] = []
    for place, change in enumerate(changes):
        work = partial(
            apply_change,
            namespace=namespace,
            change=change,
            rules=rules,
            ignore_due=ignore_due or place > 0,  # the first change has checked it for all
        )
        outcome = await transaction.attempt(work)
        if isinstance(outcome, MemoriesDue):
            raise outcome

        outcomes.append(outcome)
        if atomic and isinstance(outcome, Exception):
            outcomes = [Refused("rolled_back") for _ in changes]
            outcomes[place] = outcome
            raise BatchUndone(outcomes)

    return outcomes


async def apply_change(
    transaction: Transaction,
    namespace: str,
    change: Change,
    rules: StoreRules,
    *,
    ignore_due: bool = False,
) -> WriteResult:
    """Make a change; return its result with the changed memory.

    Raises MemoriesDue before any change if a memory of the namespace has expired, unless
    ``ignore_due`` is set. Raises Refused as `MemoryStore.change` and `check_change` do.
    """
    check_change(namespace, change)
    memory_id, found = await _find_changed(transaction, namespace, change)
    if found.has_due and not ignore_due:
        raise MemoriesDue

    check_version(change, found.row)
    damaged = found.row
    if found.damage is not None:
        found = await mend_memory(transaction, found, change.now, change.caller, rules)

    if change.kind == "purge":
        result = await _purge(transaction, namespace, memory_id, found, change)
    elif change.kind == "restore":
        result = await restore_memory(transaction, namespace, memory_id, found, change, rules)
    elif change.kind == "delete":
        result = await _delete(transaction, found, change, rules)
    elif change.kind == "supersede":
        result = await _supersede(transaction, found, change, rules)
    else:
        result = await _merge(transaction, namespace, found, change, rules)

    if result.stored is not None:
        key = result.stored.row.key
        stored = await read_linked(transaction, namespace, key, 0, SHOWN_LINKS)
        result = result._replace(stored=stored)
    if damaged is not None and damaged != found.row:
        result = result._replace(mended=list_replaced(damaged, found.row))
    return result


async def _find_changed(
    transaction: Transaction, namespace: str, change: Change
) -> tuple[str, Found]:
    """Find the memory that a change names, damaged or not.

    "restore" and "purge" also find a deleted memory, which has no row, so its id is returned too;
    for other changes it is empty. Raises Refused: id_not_found, memory_not_found, key_taken if id
    and key name different memories, purged.
    """
    if change.kind in ("restore", "purge"):
        if change.kind == "restore" and change.id:
            await check_unpurged(transaction, namespace, change.id)

        named = await find_named(transaction, namespace, MemoryName(change.id, change.key))
        if named.row is None:
            return named.id, await find_by_id(transaction, namespace, named.id, change.now)

        found = await find_by_key(transaction, namespace, named.row.key, change.now)
        if change.kind == "purge" and change.key not in (None, named.row.key):
            if change.id:
                raise Refused("key_taken")
            raise Refused("memory_not_found")  # a former key must not destroy the memory
        return named.id, found

    if change.id:
        found = await find_by_id(transaction, namespace, change.id, change.now)
        if found.row is None:
            raise Refused("id_not_found")
        if change.key not in (None, found.row.key):
            raise Refused("key_taken")
        return "", found

    found = await find_by_key(transaction, namespace, change.key or change.new_id, change.now)
    if found.row is None and change.kind != "store":
        raise Refused("memory_not_found")

    return "", found


async def _merge(
    transaction: Transaction, namespace: str, found: Found, change: Change, rules: StoreRules
) -> WriteResult:
    """Create or change a memory; the result has the memory without its links and counters."""
    before = found.row
    if before is None:
        await check_quota(transaction, namespace, rules.quota)

    # A rename moves the links first, so that the rest deals with the new key only.
    moves: LinkMoves | None = None
    if before is not None and change.new_key not in (None, before.key):
        if (await find_by_key(transaction, namespace, change.new_key)).row is not None:
            raise Refused("key_taken")
        moves = await move_links(transaction, before, change.new_key)
        found = found._replace(has_links=True)  # links to the new key may have existed before

    # Damage can leave links of a missing memory, and a new memory of that key inherits them.
    former = before or create_row(change, namespace)
    links: Links = {}
    if found.has_links and change.linked_keys:
        key = change.new_key or former.key
        links = await read_links_to(transaction, namespace, key, change.linked_keys)

    row, links_after, updated, replaced = merge_change(change, former, links)
    if before is None or updated:
        row = row._replace(version=found.next_version)
        recorded = LinkChange(links, links_after)
        if before is None:
            recorded = NO_LINKS  # undoing a creation leaves no links anyway
        elif moves is not None:
            kept = {name: link for name, link in moves.own.after.items() if name not in links}
            recorded = LinkChange(moves.own.before, {**kept, **links_after})

        occasion = Occasion(name_action(change, before, row), change.now, change.caller)
        entry = build_entry(occasion, before, row, row.version, recorded)
        await save_entry(transaction, entry, rules.history)
        await write_memory(transaction, found, row, LinkChange(links, links_after))
        if moves is not None:
            occasion = occasion._replace(action="relinked")
            await save_relinked(transaction, row, occasion, moves.others, rules.history)

    return WriteResult(
        StoredMemory(row),
        created=before is None,
        updated=updated,
        version=row.version,
        id=row.id,
        replaced=replaced,
    )


async def _supersede(
    transaction: Transaction, found: Found, change: Change, rules: StoreRules
) -> WriteResult:
    """Store the memory that replaces another one, and archive that with a link to it.

    A new memory has the type, category, tags and importance of the other one, unless the change
    sets them. Raises Refused: memory_archived, key_taken, missing_argument, storage_quota.
    """
    old = found.row
    assert old is not None, "only a store may find no memory"
    if old.archived:
        (stored,) = await read(transaction, old.namespace, [old.key])
        meant = stored.replaced_by if isinstance(stored, StoredMemory) else ""
        raise Refused("memory_archived", did_you_mean=meant or None)

    key = change.new_key or change.new_id
    if key == old.key:
        raise Refused("key_taken", "new_key")

    fields = change.fields
    if (await find_by_key(transaction, old.namespace, key)).row is None:
        if "content" not in fields:
            raise Refused("missing_argument", "content")
        fields = {**list_inherited(old), **fields}

    named = replace(change, id=None, key=key, new_key=None, if_version=None)
    store = replace(named, kind="store", fields=fields)
    result = await apply_change(transaction, old.namespace, store, rules, ignore_due=True)

    day = change.now[:_DAY_CHARS]
    link = {"key": key, "type": REPLACED_BY, "link_weight": 1.0, "term": day}
    archive = replace(named, key=old.key, fields={}, links=[link], remove_links=())
    found = await find_by_key(transaction, old.namespace, old.key)
    await _merge(transaction, old.namespace, found, archive, rules)
    return result


async def _delete(
    transaction: Transaction, found: Found, change: Change, rules: StoreRules
) -> WriteResult:
    """Delete a memory; its history keeps the last state."""
    row, version = found.row, found.next_version
    assert row is not None, "only a store may find no memory"
    links: Links = {}
    if found.has_links:
        links = await read_links(transaction, row.namespace, row.key)

    occasion = Occasion("deleted", change.now, change.caller)
    entry = build_entry(occasion, row, None, version, LinkChange(links, {}))
    await save_entry(transaction, entry, rules.history)
    await write_memory(transaction, found, None)
    return WriteResult(None, created=False, updated=(), version=version, id=row.id)


async def restore_memory(
    transaction: Transaction,
    namespace: str,
    memory_id: str,
    found: Found,
    change: Change,
    rules: StoreRules,
) -> WriteResult:
    """Restore the values and links of an earlier version; revive the memory if it was deleted.

    Raises Refused: version_not_found, checksum_mismatch, key_taken, storage_quota.
    """
    present = found.row
    before = await read_state(transaction, present)
    wanted = await read_earlier(transaction, namespace, memory_id, before, change.to_version)
    assert wanted.row is not None, "a version that was found has a row"

    row = restore_row(change, present, wanted.row)
    after = State(row, restore_links(change, row, wanted))
    updated = list_restored(before, after)
    if present is not None and not updated:
        return WriteResult(StoredMemory(present), False, (), None, present.version, present.id)

    stored = before.links
    if present is None:
        found = await find_by_key(transaction, namespace, row.key)
        if found.row is not None:
            raise Refused("key_taken")
        await check_quota(transaction, namespace, rules.quota)
        if found.has_links:  # damage can leave links of a missing memory
            stored = await read_links(transaction, namespace, row.key)

    row = row._replace(version=found.next_version)
    occasion = Occasion("restored", change.now, change.caller)
    recorded = LinkChange(before.links, after.links)
    entry = build_entry(occasion, present, row, row.version, recorded)
    await save_entry(transaction, entry, rules.history)
    await write_memory(transaction, found, row, LinkChange(stored, after.links))
    if present is not None and change.to_version is None:
        await _undo_superseding(transaction, present, before.links, change, rules)

    return WriteResult(StoredMemory(row), present is None, updated, None, row.version, row.id)


async def _undo_superseding(
    transaction: Transaction, old: Row, links: Links, change: Change, rules: StoreRules
) -> None:
    """Undo the write of the memory that replaced another one, unless it has changed since.

    ``old`` is the other one before the undo, with its ``links``; its last change may be another.
    """
    for memory_id, previous in await list_superseding(transaction, old):
        found = await find_by_id(transaction, old.namespace, memory_id)
        assert found.row is not None, "only present memories are listed"
        if found.damage is not None or (found.row.key, REPLACED_BY) not in links:
            continue

        undo = replace(change, id=memory_id, key=None)
        if previous:
            await restore_memory(transaction, old.namespace, memory_id, found, undo, rules)
        else:
            await _delete(transaction, found, undo, rules)


async def _purge(
    transaction: Transaction, namespace: str, memory_id: str, found: Found, change: Change
) -> WriteResult:
    """Delete a memory, present or already deleted, with its history; only its id is kept.

    This includes earlier memories that were deleted under its key, unless another memory has the
    key now. Traces of deleted rows in files are erased by the engine after the transaction.
    """
    version = await take_version(transaction, namespace)
    row = found.row
    if row is None:
        key = await find_last_key(transaction, namespace, memory_id)
    else:
        key = row.key

    purged = {memory_id, *await list_deleted_before(transaction, namespace, key, memory_id)}
    if row is not None:
        await write_memory(transaction, found, None)
        purged.add(row.id)  # mending may have changed it

    # The recent changes of the recall index may still contain terms of the purged memories.
    await merge_recent(transaction, namespace)
    names = sorted(purged)
    await delete_history(transaction, namespace, names)
    rows = [(namespace, name, version, change.now, change.caller) for name in names]
    await transaction.run_many(_ADD_PURGED, rows)
    return WriteResult(None, created=False, updated=(), version=version, id=memory_id)


async def expire_memories(
    transaction: Transaction, namespace: str, now: str, after: DueMemory, rules: StoreRules
) -> DueMemory | None:
    """Archive the next expired memories; return the last one, or None if there was none.

    Damaged memories are skipped.
    """
    due = await list_due(transaction, namespace, now, after)
    for memory in due:
        change = Change("expire", now, id=memory.id, caller="expiry")
        found = await find_by_id(transaction, namespace, memory.id)
        if found.row is not None and found.damage is None:
            await _merge(transaction, namespace, found, change, rules)

    if not due:
        return None

    return due[-1]


async def list_due(
    transaction: Transaction, namespace: str, now: str, after: DueMemory
) -> list[DueMemory]:
    """Return up to `MOST_EXPIRED` memories that expired by ``now``, in order, after one of them."""
    found = await transaction.fetch(_DUE, namespace, now, *after, MOST_EXPIRED)
    return list(map(DueMemory._make, found))


async def has_due(transaction: Transaction, namespace: str, now: str) -> bool:
    """Return whether any memory has expired and is not archived yet."""
    return bool(await transaction.fetch(_DUE, namespace, now, *FIRST_DUE, 1))
