"""Importing whole memories, as they are."""

from collections.abc import Sequence

from abilities.declarations.faults import Refused
from abilities.declarations.values import utc_now
from abilities.helpers.store.changes import BatchOptions, Outcome, merge_incoming
from abilities.helpers.store.entries import (
    NO_LINKS,
    LinkChange,
    Occasion,
    StoreRules,
    add_entries,
    build_entry,
)
from abilities.helpers.store.history import Entry
from abilities.helpers.store.linking import save_links
from abilities.helpers.store.mending import mend_row
from abilities.helpers.store.model import AccessCounters, IncomingMemory, LinkRow, Row
from abilities.helpers.store.past import check_unpurged, find_last_version
from abilities.helpers.store.reads import read_all_links
from abilities.helpers.store.requests import check_incoming
from abilities.helpers.store.saving import (
    Found,
    check_quota,
    find_by_id,
    find_by_key,
    mend_memory,
    save_memory,
)
from abilities.helpers.store.timeline import HistoryLimits
from abilities.helpers.store.transaction import Transaction

IMPORTER = "import"
"""What the history says of who imported a memory."""


async def import_memory(
    transaction: Transaction,
    incoming: IncomingMemory,
    options: BatchOptions,
    limits: HistoryLimits,
) -> Outcome:
    """Store a memory as it is, except in a dry run; in the caller's savepoint. Raises Refused."""
    check_incoming(incoming)
    row = incoming.stored.row
    rules = StoreRules(options.quota, limits)
    found = await find_by_key(transaction, row.namespace, row.key)
    is_damaged = found.damage is not None
    if is_damaged:
        found = await _mend(transaction, found, options, rules)

    links: list[LinkRow] = []
    if found.row is None:
        await check_quota(transaction, row.namespace, options.quota)
    if found.has_links:
        links, _ = await read_all_links(transaction, row.namespace, row.key)

    merged = merge_incoming(incoming, found.row, links, replace=options.replace)
    if is_damaged:
        merged = merged._replace(outcome="replaced")
    if merged.outcome not in ("added", "replaced"):
        return merged.outcome

    await _check_id_is_free(transaction, merged.row)
    if not options.dry_run:
        row = merged.row._replace(version=found.next_version)
        entry = await _record(transaction, found, row, LinkChange.build(links, merged.links))
        await save_memory(transaction, found, row, entry, rules, _choose_counters(incoming))
        await save_links(transaction, row, links, sorted(merged.links))

    return merged.outcome


async def try_imports(
    transaction: Transaction,
    memories: Sequence[IncomingMemory],
    options: BatchOptions,
    limits: HistoryLimits,
) -> list[Outcome | Exception]:
    """Return what would become of each memory; one that is refused does not stop the others."""
    outcomes: list[Outcome | Exception] = []
    for memory in memories:
        try:
            outcomes.append(await import_memory(transaction, memory, options, limits))
        except Refused as error:
            outcomes.append(error)

    return outcomes


async def _record(transaction: Transaction, found: Found, row: Row, links: LinkChange) -> Entry:
    """Return the entry of an imported memory.

    If the memory takes the place of one with another id, that one's end is recorded already.
    """
    occasion = Occasion("imported", utc_now(), IMPORTER)
    before = found.row
    if before is not None and before.id != row.id:
        deleted = occasion._replace(action="deleted")
        replaced = LinkChange(links.before, {})
        await add_entries(transaction, [build_entry(deleted, before, None, row.version, replaced)])
        before = None

    if before is None:
        links = NO_LINKS
        last = await find_last_version(transaction, row.namespace, row.id)
        if last is None:
            occasion = occasion._replace(action="created")
        else:
            # Its history was imported before it, up to the version that it had.
            before = row._replace(version=last)

    return build_entry(occasion, before, row, row.version, links)


async def _mend(
    transaction: Transaction, damaged: Found, options: BatchOptions, rules: StoreRules
) -> Found:
    """Return a damaged memory mended. Raises Refused if it is to be kept."""
    if not options.replace:
        raise Refused("checksum_mismatch")

    now = utc_now()
    if options.dry_run:
        assert damaged.row is not None, "what is damaged exists"
        return damaged._replace(row=mend_row(damaged.row, now), damage=None)

    return await mend_memory(transaction, damaged, now, IMPORTER, rules)


async def _check_id_is_free(transaction: Transaction, row: Row) -> None:
    """Check that no memory with another key has the row's id, and none with it was purged.

    Raises Refused: key_taken, purged.
    """
    await check_unpurged(transaction, row.namespace, row.id)
    holder = await find_by_id(transaction, row.namespace, row.id)
    if holder.row is not None and holder.row.key != row.key:
        raise Refused("key_taken")


def _choose_counters(incoming: IncomingMemory) -> AccessCounters | None:
    """Return the access counters that a memory brings along, or None if the importer made it up."""
    if incoming.provisional:
        return None

    return AccessCounters(incoming.stored.accessed_at, incoming.stored.access_count)
