"""Changes of memories, in a transaction that alone changes their namespace.

Every change writes an entry of the history, and then the memory.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from abilities.declarations.refusals import AbilitiesError, Refused
from abilities.helpers.store import history, model, past, reads, saving
from abilities.helpers.store.changes import (
    Change,
    check_change,
    check_version,
    create_row,
    list_inherited,
    merge_change,
    name_fields,
)
from abilities.helpers.store.engine import Transaction
from abilities.helpers.store.linking import move_links
from abilities.helpers.store.past import Occasion, StoreRules
from abilities.helpers.store.protocol import WriteResult
from abilities.helpers.store.reads import DUE, FIRST_DUE, DueMemory
from abilities.helpers.store.recall_index import merge_recent
from abilities.helpers.store.saving import Found, find_by_id, find_by_key, write_memory

SHOWN_LINKS = 20
"""Links to return with a changed memory, best first."""

MOST_EXPIRED = 256
"""Expired memories to archive per transaction."""

_DAY_CHARS = len("YYYY-MM-DD")

_ADD_PURGED = """
INSERT INTO purged (namespace, id, version, made_at, caller) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (namespace, id) DO NOTHING
"""
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
# What the change before wrote at the same time, with its version before that: 0 if it was new.
_SUPERSEDING = """
SELECT n.id, n.previous FROM history AS o INDEXED BY history_id
CROSS JOIN history AS n CROSS JOIN memories AS m
WHERE o.namespace = ? AND o.id = ? AND o.version = ? AND o.action = 'superseded'
    AND n.namespace = o.namespace AND n.version = o.version - 1 AND n.made_at = o.made_at
    AND m.namespace = n.namespace AND m.id = n.id AND m.version = n.version
"""


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
) -> list[WriteResult | Exception]:
    """Make changes in order, each in a savepoint; return one outcome each.

    Raises BatchUndone if they are ``atomic`` and one fails. The caller must then roll back the
    transaction.
    """
    outcomes: list[WriteResult | Exception] = []
    for place, change in enumerate(changes):
        work = partial(apply_change, namespace=namespace, change=change, rules=rules)
        outcome = await transaction.attempt(work)
        outcomes.append(outcome)
        if atomic and isinstance(outcome, Exception):
            outcomes = [Refused("rolled_back") for _ in changes]
            outcomes[place] = outcome
            raise BatchUndone(outcomes)

    return outcomes


async def apply_change(
    transaction: Transaction, namespace: str, change: Change, rules: StoreRules
) -> WriteResult:
    """Make a change, and archive expired memories first; return its result with the memory.

    Raises Refused as `MemoryStore.change` and `check_change` do.
    """
    check_change(namespace, change)
    memory_id, found = await _find_changed(transaction, namespace, change)
    if found.has_due:
        first, row = FIRST_DUE, found.row
        if row is not None and not row.archived and "" < row.expires_at <= change.now:
            # Only so many are archived at once, and this one must be: begin just before its id.
            first = DueMemory(row.expires_at, row.id[:-1])
        await expire_memories(transaction, namespace, change.now, first, rules)
        memory_id, found = await _find_changed(transaction, namespace, change)

    check_version(change, found.row)
    mended: tuple[str, ...] | None = None
    damaged = found.row
    if damaged is not None and found.damage is not None:
        limits = rules.history
        found = await saving.mend_memory(transaction, damaged, change.now, change.caller, limits)
        replaced = model.list_differing(damaged, found.row or damaged)
        mended = name_fields(name for name in replaced if name != "version")

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
        stored = await reads.read_linked(transaction, namespace, key, 0, SHOWN_LINKS)
        result = result._replace(stored=stored)
    if mended is not None:
        result = result._replace(mended=mended)
    return result


async def _find_changed(
    transaction: Transaction, namespace: str, change: Change
) -> tuple[str, Found]:
    """Find the memory that a change names, damaged or not.

    "restore" and "purge" also find a deleted memory, which has no row, so its id is returned too.
    """
    if change.kind in ("restore", "purge"):
        if change.kind == "restore" and change.id:
            await past.check_unpurged(transaction, namespace, change.id)

        name = history.MemoryName(change.id, change.key)
        memory_id, row = await past.find_named(transaction, namespace, name)
        if row is not None and change.kind == "purge" and change.key not in (None, row.key):
            if change.id:
                raise Refused("key_taken")
            raise Refused("memory_not_found")  # a former key must not destroy the memory
        return memory_id, await find_by_id(transaction, namespace, memory_id, change.now)

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
        await saving.check_quota(transaction, namespace, rules.quota)

    # A rename moves the links first, so that the rest deals with the new key only.
    moves: dict[str, model.LinkChange] = {}
    if before is not None and change.new_key not in (None, before.key):
        if (await find_by_key(transaction, namespace, change.new_key)).row is not None:
            raise Refused("key_taken")
        moves = await move_links(transaction, before, change.new_key)
        found = found._replace(has_links=True)  # links to the new key may have existed before

    # Damage can leave links of a missing memory, and a new memory of that key inherits them.
    former = before or create_row(change, namespace)
    links: model.Links = {}
    if found.has_links and change.linked_keys:
        key = change.new_key or former.key
        links = await reads.read_links_to(transaction, namespace, key, change.linked_keys)

    row, links_after, updated, replaced = merge_change(change, former, links)
    if before is None or updated:
        row = row._replace(version=found.next_version)
        recorded = model.LinkChange(links, links_after)
        if before is None:
            recorded = model.NO_LINKS  # undoing a creation leaves no links anyway
        elif moves:
            own = moves.pop(row.key)
            kept = {name: link for name, link in own.after.items() if name not in links}
            recorded = model.LinkChange(own.before, {**kept, **links_after})

        occasion = Occasion(history.name_action(change, before, row), change.now, change.caller)
        version = row.version
        await past.save_entry(transaction, occasion, before, row, version, recorded, rules.history)
        await write_memory(transaction, found, row, model.LinkChange(links, links_after))
        occasion = occasion._replace(action="relinked")
        await past.save_relinked(transaction, row, occasion, moves, rules.history)

    return WriteResult(
        model.StoredMemory(row),
        created=before is None,
        updated=updated,
        version=row.version,
        id=row.id,
        replaced=replaced,
    )


async def _supersede(
    transaction: Transaction, found: Found, change: Change, rules: StoreRules
) -> WriteResult:
    """Store the memory that replaces another one, and archive that with a link to it."""
    old = found.row
    assert old is not None, "only a store may find no memory"
    if old.archived:
        (stored,) = await reads.read(transaction, old.namespace, [old.key])
        meant = stored.replaced_by if isinstance(stored, model.StoredMemory) else ""
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
    result = await apply_change(transaction, old.namespace, store, rules)

    day = change.now[:_DAY_CHARS]
    link = {"key": key, "type": model.REPLACED_BY, "link_weight": 1.0, "term": day}
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
    links: model.Links = {}
    if found.has_links:
        links = await reads.read_links(transaction, row.namespace, row.key)

    occasion, gone = Occasion("deleted", change.now, change.caller), model.LinkChange(links, {})
    await past.save_entry(transaction, occasion, row, None, version, gone, rules.history)
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
    before = await past.read_state(transaction, present)
    wanted = await past.read_earlier(transaction, namespace, memory_id, before, change.to_version)
    assert wanted.row is not None, "a version that was found has a row"

    row = history.restore_row(change, present, wanted.row)
    after = history.State(row, history.restore_links(change, row, wanted))
    updated = history.list_restored(before, after)
    if present is not None and not updated:
        return WriteResult(
            model.StoredMemory(present), False, (), None, present.version, present.id
        )

    stored = before.links
    if present is None:
        found = await find_by_key(transaction, namespace, row.key)
        if found.row is not None:
            raise Refused("key_taken")
        await saving.check_quota(transaction, namespace, rules.quota)
        if found.has_links:  # damage can leave links of a missing memory
            stored = await reads.read_links(transaction, namespace, row.key)

    version = found.next_version
    row = row._replace(version=version)
    occasion = Occasion("restored", change.now, change.caller)
    recorded = model.LinkChange(before.links, after.links)
    await past.save_entry(transaction, occasion, present, row, version, recorded, rules.history)
    await write_memory(transaction, found, row, model.LinkChange(stored, after.links))
    if present is not None and change.to_version is None:
        await _undo_superseding(transaction, present, before.links, change, rules)

    return WriteResult(model.StoredMemory(row), present is None, updated, None, version, row.id)


async def _undo_superseding(
    transaction: Transaction, old: model.Row, links: model.Links, change: Change, rules: StoreRules
) -> None:
    """Undo the write of the memory that replaced ``old``, if it did and has not changed since."""
    superseding = await transaction.fetch(_SUPERSEDING, old.namespace, old.id, old.version)
    for memory_id, previous in superseding:
        found = await find_by_id(transaction, old.namespace, memory_id)
        assert found.row is not None, "only present memories are listed"
        if found.damage is not None or (found.row.key, model.REPLACED_BY) not in links:
            continue

        undo = replace(change, id=memory_id, key=None)
        if previous:
            await restore_memory(transaction, old.namespace, memory_id, found, undo, rules)
        else:
            await _delete(transaction, found, undo, rules)


async def _purge(
    transaction: Transaction, namespace: str, memory_id: str, found: Found, change: Change
) -> WriteResult:
    """Delete a memory, and those deleted under its key, with all history; only ids are kept."""
    version = await past.take_version(transaction, namespace)
    row, key = found.row, ""
    if row is not None:
        key = row.key
    else:
        for *_, last_key in await past.read_last_entry(transaction, namespace, memory_id):
            key = last_key

    deleted = await transaction.fetch(_DELETED_BEFORE, namespace, key, memory_id)
    purged = {memory_id, *(name for (name,) in deleted)}
    if row is not None:
        await write_memory(transaction, found, None)
        purged.add(row.id)  # mending may have changed it

    # The recent changes of the recall index may still contain terms of the purged memories.
    await merge_recent(transaction, namespace)
    names = sorted(purged)
    await past.delete_history(transaction, namespace, names)
    rows = [(namespace, name, version, change.now, change.caller) for name in names]
    await transaction.run_many(_ADD_PURGED, rows)
    return WriteResult(None, created=False, updated=(), version=version, id=memory_id)


async def expire_memories(
    transaction: Transaction, namespace: str, now: str, after: DueMemory, rules: StoreRules
) -> DueMemory | None:
    """Archive up to `MOST_EXPIRED` expired memories; return the last one, None if there was none.

    They follow ``after`` in their order. Damaged memories are skipped.
    """
    last: DueMemory | None = None
    due = await transaction.fetch(DUE, namespace, now, *after, MOST_EXPIRED)
    for last in map(DueMemory._make, due):
        change = Change("expire", now, id=last.id, caller="expiry")
        found = await find_by_id(transaction, namespace, last.id)
        if found.row is not None and found.damage is None:
            await _merge(transaction, namespace, found, change, rules)

    return last
