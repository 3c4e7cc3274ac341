"""Making changes in PostgreSQL, in a transaction that holds the lock of their namespace."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import psycopg

from abilities.declarations.faults import Refused
from abilities.helpers.stores.changes import (
    Change,
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
from abilities.helpers.stores.postgres.expiry import ExpiredMemory, MemoriesAreDueError, list_due
from abilities.helpers.stores.postgres.links import RenamedLinks, rename_links, save_links
from abilities.helpers.stores.postgres.naming import FoundMemory, find_named
from abilities.helpers.stores.postgres.purging import purge_memory
from abilities.helpers.stores.postgres.reads import load_memory, read_all_links, read_links_to
from abilities.helpers.stores.postgres.restoring import restore_memory
from abilities.helpers.stores.postgres.savepoints import run_in_savepoint
from abilities.helpers.stores.postgres.statements import Connection
from abilities.helpers.stores.postgres.transaction import bind
from abilities.helpers.stores.postgres.versions import (
    Existing,
    find_existing_by_id,
    find_existing_by_key,
)
from abilities.helpers.stores.postgres.writes import (
    build_result,
    check_key_is_free,
    check_quota,
    delete_memory,
    mend_memory,
    save_memory,
)
from abilities.helpers.stores.protocol import WriteResult
from abilities.helpers.stores.timeline import MemoryName

SHOWN_LINKS = 20
"""Links of a changed memory that are returned, best first."""


async def apply_change(
    connection: Connection,
    namespace: str,
    change: Change,
    rules: StoreRules,
    *,
    ignore_due: bool = False,
) -> WriteResult:
    """Make a change.

    Raises MemoriesAreDueError if memories of the namespace have expired, unless they are to be
    ignored; then nothing was changed. Raises Refused as `MemoryStore.change`.
    """
    name = await _find_changed(connection, namespace, change)
    if name.existing.has_due and not ignore_due:
        raise MemoriesAreDueError

    check_version(change, name.existing.row)
    if change.kind == "purge":
        return await purge_memory(connection, namespace, name, change)

    existing, mended = await _mend(connection, name.existing, change, rules)
    if change.kind == "delete":
        result = await _delete(connection, existing, change, rules)
    elif change.kind == "restore":
        named = name._replace(existing=existing)
        result = await restore_memory(connection, namespace, named, change, rules)
    else:
        result = await _merge(connection, namespace, existing, change, rules)

    if result.stored is not None:
        stored = await load_memory(connection, result.stored.row, SHOWN_LINKS)
        result = result._replace(stored=stored)

    return result._replace(mended=mended)


async def apply_changes(
    connection: Connection,
    namespace: str,
    changes: Sequence[Change],
    rules: StoreRules,
    *,
    atomic: bool,
    ignore_due: bool = False,
) -> list[WriteResult | Exception]:
    """Make one or more changes in order, each in a savepoint; all or none if they are ``atomic``.

    Raises MemoriesAreDueError before the first one, see `apply_change`.
    """
    outcomes: list[WriteResult | Exception] = []
    async with connection.transaction():
        for change in changes:
            work = partial(
                apply_change,
                namespace=namespace,
                change=change,
                rules=rules,
                ignore_due=ignore_due or bool(outcomes),  # it is judged once per call
            )
            outcome = await run_in_savepoint(connection, work)
            if isinstance(outcome, MemoriesAreDueError):
                raise outcome

            outcomes.append(outcome)
            if atomic and isinstance(outcome, Exception):
                raise psycopg.Rollback  # the block undoes the changes, and ends

    if not atomic:
        return outcomes

    *_, last = outcomes
    if isinstance(last, Exception):
        return _refuse_others(last, len(outcomes) - 1, len(changes))

    return outcomes


def _refuse_others(failure: Exception, place: int, number: int) -> list[WriteResult | Exception]:
    """Return the outcomes of changes that were not made because one of them failed."""
    outcomes: list[WriteResult | Exception] = [Refused("rolled_back") for _ in range(number)]
    outcomes[place] = failure

    return outcomes


async def expire_memories(
    connection: Connection, namespace: str, now: str, after: ExpiredMemory, rules: StoreRules
) -> ExpiredMemory | None:
    """Archive the next memories that have expired; return the last one, None if there was none.

    A damaged memory is left as it is.
    """
    due = await list_due(connection, namespace, now, after)
    for memory in due:
        change = Change("expire", now, id=memory.id, caller="expiry")
        existing = await find_existing_by_id(connection, namespace, memory.id)
        if existing.row is not None and existing.damage is None:
            await _merge(connection, namespace, existing, change, rules)

    if not due:
        return None
    return due[-1]


async def _find_changed(connection: Connection, namespace: str, change: Change) -> FoundMemory:
    """Return the memory that a change names.

    Raises Refused: id_not_found, memory_not_found, key_taken if id and key name different memories,
    purged.
    """
    if change.kind in ("restore", "purge"):
        return await _find_former(connection, namespace, change)

    if change.id:
        existing = await find_existing_by_id(connection, namespace, change.id, change.now)
        if existing.row is None:
            raise Refused("id_not_found")
        if change.key not in (None, existing.row.key):
            raise Refused("key_taken")

        return FoundMemory(change.id, existing)

    key = change.key or change.new_id
    existing = await find_existing_by_key(connection, namespace, key, change.now)
    if existing.row is None and change.kind != "store":
        raise Refused("memory_not_found")

    return FoundMemory("", existing)


async def _find_former(connection: Connection, namespace: str, change: Change) -> FoundMemory:
    """Return the memory that a change names, which may be deleted."""
    if change.kind == "restore" and change.id:
        existing = await find_existing_by_id(connection, namespace, change.id, change.now)
        if existing.is_purged:
            raise Refused("purged")

    name = MemoryName(change.id, change.key)
    named = await find_named(connection, namespace, name, change.now)
    row = named.existing.row
    if change.kind == "purge" and row is not None and change.key not in (None, row.key):
        # A key that a memory no longer has must not destroy it.
        raise Refused("key_taken" if change.id else "memory_not_found")

    return named


class _Mended(NamedTuple):
    existing: Existing
    fields: tuple[str, ...] | None


async def _mend(
    connection: Connection, found: Existing, change: Change, rules: StoreRules
) -> _Mended:
    """Return what a change finds after it was mended, if it is damaged."""
    if found.damage is None:
        return _Mended(found, None)

    existing = await mend_memory(connection, found, change.now, change.caller, rules)
    return _Mended(existing, list_replaced(found.row, existing.row))


async def _delete(
    connection: Connection, existing: Existing, change: Change, rules: StoreRules
) -> WriteResult:
    """Delete a memory; its history keeps what it was."""
    row = existing.row
    assert row is not None, "only a store finds nothing"
    links: list[LinkRow] = []
    if existing.has_links:
        links, _ = await read_all_links(connection, row.namespace, row.key)

    version = existing.next_version
    occasion = Occasion("deleted", change.now, change.caller)
    entry = build_entry(occasion, row, None, version, LinkChange(index_links(links), {}))
    await bind(save_entry)(connection, entry, rules.history)
    await delete_memory(connection, existing, row)

    return WriteResult(None, created=False, updated=(), version=version, id=row.id)


async def _merge(
    connection: Connection, namespace: str, existing: Existing, change: Change, rules: StoreRules
) -> WriteResult:
    """Create a memory or change one; return its row, without what is read beside it."""
    before = existing.row
    if before is None:
        await check_quota(connection, namespace, rules.quota)

    # From here on, the links have the key that the change gives the memory.
    renamed: RenamedLinks | None = None
    if before is not None and change.new_key not in (None, before.key):
        await check_key_is_free(connection, namespace, change.new_key)
        renamed = await rename_links(connection, before, change.new_key)
        existing = existing._replace(has_links=True)

    row = before or create_row(change, namespace)
    links: list[LinkRow] = []
    keys = change.linked_keys
    if before is not None and keys:
        links = await read_links_to(connection, namespace, change.new_key or row.key, keys)

    merged = merge_change(change, row, links)
    if before is not None and not merged.updated:
        return build_result(before)

    # The entry tells of the version that the row is saved with.
    after = merged.row._replace(version=existing.next_version)
    occasion = Occasion(name_action(change, before, after), change.now, change.caller)
    link_change = _compare_links(before, after, LinkChange.build(links, merged.links), renamed)
    entry = build_entry(occasion, before, after, after.version, link_change)

    row = await save_memory(connection, existing, after, entry, rules)
    await save_links(connection, row, links, merged.links)
    if before is not None and renamed is not None:
        occasion = Occasion("relinked", entry.made_at, entry.caller)
        changes = compare_relinked(renamed.before, renamed.after, before.key, row.key)
        await bind(save_relinked)(connection, row, occasion, changes, rules.history)

    result = build_result(row, created=before is None, updated=merged.updated)
    return result._replace(replaced=merged.replaced)


def _compare_links(
    before: Row | None, after: Row, named: LinkChange, renamed: RenamedLinks | None
) -> LinkChange:
    """Return a memory's links before and after a change, as far as it may have changed them.

    ``named`` are those that the change names, after it has renamed the memory.
    """
    if before is None:
        return LinkChange({}, {})  # when the creation is undone, none is left
    if renamed is None:
        return named

    own_before = index_links(link for link in renamed.before if link.source == before.key)
    moved = index_links(link for link in renamed.after if link.source == after.key)
    kept = {name: moved[name] for name in moved.keys() - named.before.keys()}
    return LinkChange(own_before, {**kept, **named.after})
