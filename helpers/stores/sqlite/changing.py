"""Changes of memories in an SQLite store, in a transaction of the caller."""

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from abilities.declarations.faults import Refused
from abilities.helpers.stores.changes import (
    Change,
    MergedMemory,
    check_version,
    create_row,
    merge_change,
)
from abilities.helpers.stores.entries import (
    LinkChange,
    Occasion,
    StoreRules,
    build_entry,
    compare_relinked,
    index_links,
    save_entry,
    save_relinked,
)
from abilities.helpers.stores.history import name_action
from abilities.helpers.stores.mending import list_replaced
from abilities.helpers.stores.model import LinkRow, Row
from abilities.helpers.stores.protocol import WriteResult
from abilities.helpers.stores.sqlite.expiry import (
    FIRST_DUE,
    DueMemory,
    list_due,
)
from abilities.helpers.stores.sqlite.links import LinkMoves, plan_rename, save_links, save_rename
from abilities.helpers.stores.sqlite.purging import purge_memory
from abilities.helpers.stores.sqlite.reads import (
    StoredRow,
    fetch_stored_row,
    load_memory,
    read_all_links,
    read_links_to,
)
from abilities.helpers.stores.sqlite.restoring import restore_memory
from abilities.helpers.stores.sqlite.transaction import run
from abilities.helpers.stores.sqlite.writes import (
    SHOWN_LINKS,
    check_quota,
    delete_memory,
    mend_memory,
    save_memory,
    take_version,
)


def apply_change(
    connection: sqlite3.Connection, namespace: str, change: Change, rules: StoreRules
) -> WriteResult:
    """Make a change and return the memory, after memories that have expired were archived.

    Raises Refused as `MemoryStore.change`, and what reading the memory raises.
    """
    expired: DueMemory | None = FIRST_DUE
    while expired is not None:
        expired = expire_due(connection, namespace, change.now, rules, expired)

    return _make_change(connection, namespace, change, rules)


def expire_due(
    connection: sqlite3.Connection,
    namespace: str,
    now: str,
    rules: StoreRules,
    after: DueMemory = FIRST_DUE,
) -> DueMemory | None:
    """Archive some memories that have expired; return after which one to go on, None at the end.

    A damaged memory is left as it is.
    """
    due = list_due(connection, namespace, now, after)
    for memory in due:
        stored = fetch_stored_row(connection, namespace, "id", memory.id)
        if stored is not None and not stored.is_damaged:
            change = Change("expire", now, id=memory.id, caller="expiry")
            _make_change(connection, namespace, change, rules)

    if not due:
        return None
    return due[-1]


def _make_change(
    connection: sqlite3.Connection, namespace: str, change: Change, rules: StoreRules
) -> WriteResult:
    if change.kind == "restore":
        return restore_memory(connection, namespace, change, rules)
    if change.kind == "purge":
        return purge_memory(connection, namespace, change, rules)

    found = _find_changed(connection, namespace, change)
    before = None
    mended = None
    if found is not None:
        before = found.row
    if found is not None and found.is_damaged:
        before = mend_memory(connection, found, rules.history, change.now, change.caller)
        mended = list_replaced(found.row, before)

    if change.kind == "delete":
        assert before is not None, "only a store finds nothing"
        return _delete(connection, change, before, rules)._replace(mended=mended)

    return _merge(connection, namespace, change, before, rules)._replace(mended=mended)


def _find_changed(
    connection: sqlite3.Connection, namespace: str, change: Change
) -> StoredRow | None:
    """Return the memory that a change names, damaged or not; None if the change creates it.

    Raises Refused: id_not_found, memory_not_found, key_taken, version_conflict.
    """
    by_id = by_key = None

    if change.id:
        by_id = fetch_stored_row(connection, namespace, "id", change.id)
        if by_id is None:
            raise Refused("id_not_found")
    if change.key:
        by_key = fetch_stored_row(connection, namespace, "key", change.key)
    if by_id is not None and change.key not in (None, by_id.row.key):
        raise Refused("key_taken")

    found = by_id or by_key
    if found is None:
        if change.kind != "store":
            raise Refused("memory_not_found")
        check_version(change, None)
    else:
        check_version(change, found.row)

    return found


def _delete(
    connection: sqlite3.Connection, change: Change, row: Row, rules: StoreRules
) -> WriteResult:
    """Delete a memory for good; its history keeps what it was."""
    links, _ = read_all_links(connection, row.namespace, row.key)
    version = take_version(connection, row.namespace)
    delete_memory(connection, row)

    occasion = Occasion("deleted", change.now, change.caller)
    entry = build_entry(occasion, row, None, version, LinkChange(index_links(links), {}))
    run(connection, save_entry, entry, rules.history)
    return WriteResult(None, created=False, updated=(), version=version, id=row.id)


class _LinkPlan(NamedTuple):
    """What a change has to know of links: those that it names, and what a rename does."""

    named: list[LinkRow]
    moves: LinkMoves | None


def _merge(
    connection: sqlite3.Connection,
    namespace: str,
    change: Change,
    before: Row | None,
    rules: StoreRules,
) -> WriteResult:
    """Create a memory, or change one."""
    plan = _plan_links(connection, namespace, change, before, rules)
    merged = merge_change(change, before or create_row(change, namespace), plan.named)
    row = merged.row

    if before is None or merged.updated:
        row = row._replace(version=take_version(connection, namespace))
        merged = merged._replace(row=row)
        save_memory(connection, before, row)
        if plan.moves is not None:
            save_rename(connection, row, plan.moves)
        save_links(connection, row, plan.named, merged.links)
        _record_merge(connection, change, before, merged, plan, rules)

    memory = load_memory(connection, row, SHOWN_LINKS)
    return WriteResult(
        memory,
        before is None,
        merged.updated,
        version=row.version,
        id=row.id,
        replaced=merged.replaced,
    )


def _plan_links(
    connection: sqlite3.Connection,
    namespace: str,
    change: Change,
    before: Row | None,
    rules: StoreRules,
) -> _LinkPlan:
    """Return the links that a change concerns. Raises Refused: storage_quota, key_taken."""
    if before is None:
        check_quota(connection, namespace, rules.quota)
        return _LinkPlan([], None)

    if change.new_key in (None, before.key):
        links = read_links_to(connection, namespace, before.key, change.linked_keys)
        return _LinkPlan(links, None)

    if fetch_stored_row(connection, namespace, "key", change.new_key) is not None:
        raise Refused("key_taken")

    moves = plan_rename(connection, before, change.new_key)
    named: list[LinkRow] = []
    for link in _select_links(moves.after, change.new_key):
        if link.target in change.linked_keys:
            named.append(link)

    return _LinkPlan(named, moves)


def _select_links(links: Sequence[LinkRow], source: str) -> list[LinkRow]:
    """Return the links of one memory."""
    return [link for link in links if link.source == source]


def _record_merge(
    connection: sqlite3.Connection,
    change: Change,
    before: Row | None,
    merged: MergedMemory,
    plan: _LinkPlan,
    rules: StoreRules,
) -> None:
    """Write what a change replaced, in the memory itself and in those whose links followed it."""
    row = merged.row
    links = LinkChange({}, {})  # when the creation is undone, none is left
    if before is not None:
        links = LinkChange.build(plan.named, merged.links)
    if before is not None and plan.moves is not None:
        # Whatever key the memory has, so that only links to itself differ by the rename.
        own_before = index_links(_select_links(plan.moves.before, before.key))
        moved = index_links(_select_links(plan.moves.after, row.key))
        kept = {name: moved[name] for name in moved.keys() - links.before.keys()}
        links = LinkChange(own_before, {**kept, **links.after})

    occasion = Occasion(name_action(change, before, row), change.now, change.caller)
    entry = build_entry(occasion, before, row, row.version, links)
    run(connection, save_entry, entry, rules.history)

    if before is not None and plan.moves is not None:
        occasion = occasion._replace(action="relinked")
        changes = compare_relinked(plan.moves.before, plan.moves.after, before.key, row.key)
        run(connection, save_relinked, row, occasion, changes, rules.history)
