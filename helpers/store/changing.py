"""Making changes, in a transaction that alone changes their namespace."""

from collections.abc import Sequence

from abilities.declarations.faults import Refused
from abilities.helpers.store.changes import (
    Change,
    MergedMemory,
    check_version,
    create_row,
    merge_change,
)
from abilities.helpers.store.entries import (
    LinkChange,
    Occasion,
    StoreRules,
    build_entry,
    compare_relinked,
    index_links,
    save_entry,
    save_relinked,
)
from abilities.helpers.store.expiry import DueMemory, MemoriesDue, list_due
from abilities.helpers.store.forgetting import purge_memory
from abilities.helpers.store.history import name_action
from abilities.helpers.store.linking import LinkMoves, move_links, save_links
from abilities.helpers.store.mending import list_replaced
from abilities.helpers.store.model import LinkRow, Row, StoredMemory
from abilities.helpers.store.past import check_unpurged, find_named
from abilities.helpers.store.protocol import WriteResult
from abilities.helpers.store.reads import load_memory, read_all_links, read_links_to
from abilities.helpers.store.requests import check_change
from abilities.helpers.store.restoring import restore_memory
from abilities.helpers.store.saving import (
    Found,
    check_quota,
    delete_memory,
    find_by_id,
    find_by_key,
    mend_memory,
    save_memory,
)
from abilities.helpers.store.timeline import MemoryName
from abilities.helpers.store.transaction import Transaction

SHOWN_LINKS = 20
"""Links of a changed memory that are returned, best first."""


class BatchUndone(Exception):
    """One of several changes that belong together cannot be made, so that none may be."""

    def __init__(self, place: int, error: Exception) -> None:
        super().__init__(place, error)
        self._place = place
        self._error = error

    def list_outcomes(self, number: int) -> list[WriteResult | Exception]:
        """Return the outcomes of that many changes: the error in its place."""
        outcomes: list[WriteResult | Exception] = [Refused("rolled_back") for _ in range(number)]
        outcomes[self._place] = self._error
        return outcomes


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

    Raises MemoriesDue before the first one, see `apply_change`; and BatchUndone if they are
    ``atomic`` and one cannot be made. The caller then undoes the others.
    """
    outcomes: list[WriteResult | Exception] = []
    for place, change in enumerate(changes):
        # What is due is judged once per call.
        ignores = ignore_due or place > 0

        async def apply(
            transaction: Transaction, change: Change = change, ignores: bool = ignores
        ) -> WriteResult:
            check_change(namespace, change)
            return await apply_change(transaction, namespace, change, rules, ignore_due=ignores)

        outcome = await transaction.attempt(apply)
        if isinstance(outcome, MemoriesDue):
            raise outcome
        if atomic and isinstance(outcome, Exception):
            raise BatchUndone(place, outcome)
        outcomes.append(outcome)

    return outcomes


async def apply_change(
    transaction: Transaction,
    namespace: str,
    change: Change,
    rules: StoreRules,
    *,
    ignore_due: bool = False,
) -> WriteResult:
    """Make a change and return the memory.

    Raises MemoriesDue if memories of the namespace have expired, unless they are to be ignored;
    then nothing was changed. Raises Refused as `MemoryStore.change`.
    """
    memory_id, found = await _find_changed(transaction, namespace, change)
    if found.has_due and not ignore_due:
        raise MemoriesDue

    check_version(change, found.row)
    damaged = found.row
    if found.damage is not None:
        found = await mend_memory(transaction, found, change.now, change.caller, rules)

    if change.kind == "purge":
        result = await purge_memory(transaction, namespace, memory_id, found, change)
    elif change.kind == "restore":
        result = await restore_memory(transaction, namespace, memory_id, found, change, rules)
    elif change.kind == "delete":
        result = await _delete(transaction, found, change, rules)
    else:
        result = await _merge(transaction, namespace, found, change, rules)

    if result.stored is not None:
        stored = await load_memory(transaction, result.stored.row, SHOWN_LINKS)
        result = result._replace(stored=stored)
    if damaged is not None and damaged != found.row:
        result = result._replace(mended=list_replaced(damaged, found.row))
    return result


async def expire_memories(
    transaction: Transaction, namespace: str, now: str, after: DueMemory, rules: StoreRules
) -> DueMemory | None:
    """Archive the next memories that have expired; return the last one, None if there was none.

    A damaged memory is left as it is.
    """
    due = await list_due(transaction, namespace, now, after)
    for memory in due:
        change = Change("expire", now, id=memory.id, caller="expiry")
        found = await find_by_id(transaction, namespace, memory.id)
        if found.row is not None and found.damage is None:
            await _merge(transaction, namespace, found, change, rules)

    return due[-1] if due else None


async def _find_changed(
    transaction: Transaction, namespace: str, change: Change
) -> tuple[str, Found]:
    """Return the id of the memory that a change names, and what is found of it, damaged or not.

    A memory to create has no id yet, and of a deleted one only the id is found. Raises Refused:
    id_not_found, memory_not_found, key_taken if id and key name different memories, purged.
    """
    if change.kind in ("restore", "purge"):
        return await _find_former(transaction, namespace, change)

    if change.id:
        found = await find_by_id(transaction, namespace, change.id, change.now)
        if found.row is None:
            raise Refused("id_not_found")
        if change.key not in (None, found.row.key):
            raise Refused("key_taken")
        return change.id, found

    found = await find_by_key(transaction, namespace, change.key or change.new_id, change.now)
    if found.row is None and change.kind != "store":
        raise Refused("memory_not_found")

    return "" if found.row is None else found.row.id, found


async def _find_former(
    transaction: Transaction, namespace: str, change: Change
) -> tuple[str, Found]:
    """Do as `_find_changed`, for a memory that may be deleted."""
    if change.kind == "restore" and change.id:
        await check_unpurged(transaction, namespace, change.id)

    named = await find_named(transaction, namespace, MemoryName(change.id, change.key))
    if named.row is None:
        return named.id, await find_by_id(transaction, namespace, named.id, change.now)

    found = await find_by_key(transaction, namespace, named.row.key, change.now)
    if change.kind == "purge" and change.key not in (None, named.row.key):
        # A key that a memory no longer has must not destroy it.
        raise Refused("key_taken" if change.id else "memory_not_found")

    return named.id, found


async def _delete(
    transaction: Transaction, found: Found, change: Change, rules: StoreRules
) -> WriteResult:
    """Delete a memory; its history keeps what it was."""
    row = found.row
    assert row is not None, "only a store finds nothing"
    links: list[LinkRow] = []
    if found.has_links:
        links, _ = await read_all_links(transaction, row.namespace, row.key)

    version = found.next_version
    occasion = Occasion("deleted", change.now, change.caller)
    entry = build_entry(occasion, row, None, version, LinkChange(index_links(links), {}))
    await save_entry(transaction, entry, rules.history)
    await delete_memory(transaction, found, row)

    return WriteResult(None, created=False, updated=(), version=version, id=row.id)


async def _merge(
    transaction: Transaction, namespace: str, found: Found, change: Change, rules: StoreRules
) -> WriteResult:
    """Create a memory or change one; return its row, without what is read beside it."""
    before = found.row
    if before is None:
        await check_quota(transaction, namespace, rules.quota)

    # From here on, the links have the key that the change gives the memory.
    moves: LinkMoves | None = None
    if before is not None and change.new_key not in (None, before.key):
        if (await find_by_key(transaction, namespace, change.new_key)).row is not None:
            raise Refused("key_taken")
        moves = await move_links(transaction, before, change.new_key)
        found = found._replace(has_links=True)

    # Damage can leave links of a memory that is missing; one that is created here has them then.
    former = before or create_row(change, namespace)
    links: list[LinkRow] = []
    if found.has_links and change.linked_keys:
        key = change.new_key or former.key
        links = await read_links_to(transaction, namespace, key, change.linked_keys)

    merged = merge_change(change, former, links)
    row = merged.row
    if before is None or merged.updated:
        row = row._replace(version=found.next_version)
        await _save(transaction, found, change, merged._replace(row=row), links, moves, rules)

    return WriteResult(
        StoredMemory(row),
        created=before is None,
        updated=merged.updated,
        version=row.version,
        id=row.id,
        replaced=merged.replaced,
    )


async def _save(
    transaction: Transaction,
    found: Found,
    change: Change,
    merged: MergedMemory,
    links: Sequence[LinkRow],
    moves: LinkMoves | None,
    rules: StoreRules,
) -> None:
    """Write a changed memory with its links, and what all of that replaced."""
    before, row = found.row, merged.row
    occasion = Occasion(name_action(change, before, row), change.now, change.caller)
    link_change = _compare_links(before, row, LinkChange.build(links, merged.links), moves)
    entry = build_entry(occasion, before, row, row.version, link_change)

    await save_memory(transaction, found, row, entry, rules)
    await save_links(transaction, row, links, merged.links)
    if before is not None and moves is not None:
        occasion = occasion._replace(action="relinked")
        changes = compare_relinked(moves.before, moves.after, before.key, row.key)
        await save_relinked(transaction, row, occasion, changes, rules.history)


def _compare_links(
    before: Row | None, after: Row, named: LinkChange, moves: LinkMoves | None
) -> LinkChange:
    """Return a memory's links before and after a change, as far as it may have changed them.

    ``named`` are those that the change names, after it has renamed the memory.
    """
    if before is None:
        return LinkChange({}, {})  # when the creation is undone, none is left
    if moves is None:
        return named

    # Whatever key the memory has, so that only links to itself differ by the rename.
    own_before = index_links(link for link in moves.before if link.source == before.key)
    moved = index_links(link for link in moves.after if link.source == after.key)
    kept = {name: moved[name] for name in moved.keys() - named.before.keys()}
    return LinkChange(own_before, {**kept, **named.after})
