"""Restoring earlier versions of memories in PostgreSQL, in a transaction that holds the lock."""

from abilities.declarations.faults import Refused
from abilities.helpers.stores.changes import Change
from abilities.helpers.stores.entries import (
    NO_LINKS,
    LinkChange,
    Occasion,
    StoreRules,
    build_entry,
)
from abilities.helpers.stores.history import State, list_restored, restore_links, restore_row
from abilities.helpers.stores.model import Row
from abilities.helpers.stores.past import read_earlier, read_state
from abilities.helpers.stores.postgres.links import save_links
from abilities.helpers.stores.postgres.naming import FoundMemory
from abilities.helpers.stores.postgres.statements import Connection
from abilities.helpers.stores.postgres.transaction import bind
from abilities.helpers.stores.postgres.versions import Existing, find_existing_by_key
from abilities.helpers.stores.postgres.writes import build_result, check_quota, save_memory
from abilities.helpers.stores.protocol import WriteResult


async def restore_memory(
    connection: Connection, namespace: str, named: FoundMemory, change: Change, rules: StoreRules
) -> WriteResult:
    """Give a memory the values and links of an earlier version; bring it back if it was deleted.

    Raises Refused: version_not_found, checksum_mismatch, key_taken, storage_quota.
    """
    existing = named.existing
    before = await bind(read_state)(connection, existing.row)
    wanted = await bind(read_earlier)(connection, namespace, named.id, before, change.to_version)
    assert wanted.row is not None, "a version that was found has a row"

    row = restore_row(change, existing.row, wanted.row)
    after = State(row, restore_links(change, row, wanted))
    updated = list_restored(before, after)
    if existing.row is not None and not updated:
        return build_result(existing.row)

    links = LinkChange.build(before.links.values(), after.links.values())
    if existing.row is None:
        existing = await _find_free(connection, row, rules)
        links = NO_LINKS

    row = row._replace(version=existing.next_version)
    occasion = Occasion("restored", change.now, change.caller)
    entry = build_entry(occasion, before.row, row, row.version, links)
    row = await save_memory(connection, existing, row, entry, rules)
    await save_links(connection, row, list(before.links.values()), list(after.links.values()))

    return build_result(row, created=before.row is None, updated=updated)


async def _find_free(connection: Connection, row: Row, rules: StoreRules) -> Existing:
    """Return what is found at the key of a deleted memory that is to come back.

    Raises Refused: key_taken, storage_quota.
    """
    existing = await find_existing_by_key(connection, row.namespace, row.key)
    if existing.row is not None:
        raise Refused("key_taken")

    await check_quota(connection, row.namespace, rules.quota)
    return existing
