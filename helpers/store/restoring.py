"""Restoring earlier versions of memories."""

from abilities.declarations.faults import Refused
from abilities.helpers.store.changes import Change
from abilities.helpers.store.entries import (
    LinkChange,
    Occasion,
    StoreRules,
    build_entry,
)
from abilities.helpers.store.history import State, list_restored, restore_links, restore_row
from abilities.helpers.store.linking import save_links
from abilities.helpers.store.model import Row, StoredMemory
from abilities.helpers.store.past import read_earlier, read_state
from abilities.helpers.store.protocol import WriteResult
from abilities.helpers.store.reads import read_all_links
from abilities.helpers.store.saving import Found, check_quota, find_by_key, save_memory
from abilities.helpers.store.transaction import Transaction


async def restore_memory(
    transaction: Transaction,
    namespace: str,
    memory_id: str,
    found: Found,
    change: Change,
    rules: StoreRules,
) -> WriteResult:
    """Give a memory the values and links of an earlier version; bring it back if it was deleted.

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

    if present is None:
        found = await _find_free(transaction, row, rules)

    row = row._replace(version=found.next_version)
    links = LinkChange.build(before.links.values(), after.links.values())
    occasion = Occasion("restored", change.now, change.caller)
    entry = build_entry(occasion, present, row, row.version, links)
    await save_memory(transaction, found, row, entry, rules)

    stored = sorted(before.links.values())
    if present is None and found.has_links:  # damage can leave links of a memory that is missing
        stored, _ = await read_all_links(transaction, row.namespace, row.key)
    await save_links(transaction, row, stored, sorted(after.links.values()))
    return WriteResult(StoredMemory(row), present is None, updated, None, row.version, row.id)


async def _find_free(transaction: Transaction, row: Row, rules: StoreRules) -> Found:
    """Return what is found at the key of a deleted memory that is to come back.

    Raises Refused: key_taken, storage_quota.
    """
    found = await find_by_key(transaction, row.namespace, row.key)
    if found.row is not None:
        raise Refused("key_taken")

    await check_quota(transaction, row.namespace, rules.quota)
    return found
