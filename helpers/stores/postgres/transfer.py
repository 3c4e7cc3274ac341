"""Exporting and importing whole memories, on a connection that the caller holds."""

from collections.abc import Mapping, Sequence

from abilities.declarations.faults import Refused
from abilities.declarations.values import utc_now
from abilities.helpers.stores.changes import BatchOptions, Outcome, merge_incoming
from abilities.helpers.stores.entries import (
    ENTRY_COLUMNS,
    NO_LINKS,
    LinkChange,
    Occasion,
    StoreRules,
    add_entries,
    build_entry,
)
from abilities.helpers.stores.history import DamagedEntry, Entry, parse_entry
from abilities.helpers.stores.mending import mend_row
from abilities.helpers.stores.model import (
    AccessCounters,
    DamagedMemory,
    IncomingMemory,
    LinkRecord,
    LinkRow,
    Row,
    StoredMemory,
)
from abilities.helpers.stores.past import find_last_version
from abilities.helpers.stores.postgres.links import save_links
from abilities.helpers.stores.postgres.portions import read_links_between, read_memories_after
from abilities.helpers.stores.postgres.reads import (
    MemoryRecord,
    read_all_links,
    select_all_sound,
)
from abilities.helpers.stores.postgres.statements import Connection, Select, split, to_number
from abilities.helpers.stores.postgres.transaction import bind
from abilities.helpers.stores.postgres.versions import (
    Existing,
    find_existing_by_id,
    find_existing_by_key,
)
from abilities.helpers.stores.postgres.writes import check_quota, mend_memory, save_memory
from abilities.helpers.stores.requests import check_incoming
from abilities.helpers.stores.timeline import HistoryLimits

IMPORTER = "import"
"""What the history says of who imported a memory."""

_COUNT_MEMORIES = Select("SELECT count(*) FROM memories", to_number)

_ENTRIES_AFTER = Select(
    f"""
    SELECT {ENTRY_COLUMNS} FROM history WHERE (namespace, id, version) > (%s, %s, %s)
    ORDER BY namespace, id, version LIMIT %s
    """,
    parse_entry,
)


async def read_page(
    connection: Connection, after: tuple[str, str], limit: int
) -> list[StoredMemory | DamagedMemory]:
    """Return up to ``limit`` memories with all their links, after a (namespace, key)."""
    page: list[StoredMemory | DamagedMemory] = []
    records = await read_memories_after(connection, after, limit)
    if not records:
        return page

    last = records[-1].memory.row
    links = await read_links_between(connection, after, (last.namespace, last.key))

    async for portion in split(records):
        for record in portion:
            page += await _complete(record, links)

    return page


async def _complete(
    record: MemoryRecord, links_by_source: Mapping[tuple[str, str], Sequence[LinkRecord]]
) -> list[StoredMemory | DamagedMemory]:
    """Return a memory with all its sound links, after what is damaged of it."""
    memory = record.verify()
    namespace, key = record.memory.row.namespace, record.memory.row.key
    if isinstance(memory, Refused):
        return [DamagedMemory(namespace, key, memory.reason)]

    links = links_by_source.get((namespace, key), ())
    sound = await select_all_sound(links)
    damaged = len(links) - len(sound)
    memory = memory._replace(links=tuple(sound), links_total=len(sound))

    if not damaged:
        return [memory]

    reason = f"{damaged} damaged links"
    return [DamagedMemory(namespace, key, reason), memory]


async def count_memories(connection: Connection) -> int:
    """Return the number of memories in all namespaces."""
    return await _COUNT_MEMORIES.fetch_only(connection)


async def read_entries(
    connection: Connection, after: tuple[str, str, int], limit: int
) -> list[Entry | DamagedEntry]:
    """Return entries of all namespaces by namespace, id and version."""
    return await _ENTRIES_AFTER.fetch(connection, *after, limit)


async def import_memory(
    connection: Connection, incoming: IncomingMemory, options: BatchOptions, limits: HistoryLimits
) -> Outcome:
    """Store a memory as it is, except in a dry run; in the caller's savepoint. Raises Refused."""
    check_incoming(incoming)
    row = incoming.stored.row
    namespace, key = row.namespace, row.key
    existing = await find_existing_by_key(connection, namespace, key)
    is_damaged = existing.damage is not None
    if is_damaged:
        existing = await _mend_before_import(connection, existing, options, limits)

    links: list[LinkRow] = []
    if existing.row is None:
        await check_quota(connection, namespace, options.quota)
    else:
        links, _ = await read_all_links(connection, namespace, key)

    merged = merge_incoming(incoming, existing.row, links, replace=options.replace)
    if is_damaged:
        merged = merged._replace(outcome="replaced")
    if merged.outcome not in ("added", "replaced"):
        return merged.outcome

    await _check_id_is_free(connection, merged.row)
    if not options.dry_run:
        rules = StoreRules(options.quota, limits)
        row = merged.row._replace(version=existing.next_version)
        entry = await _record(
            connection, existing, row, LinkChange.build(links, merged.links), rules
        )
        counters = _choose_counters(incoming)
        await save_memory(connection, existing, row, entry, rules, counters)
        await save_links(connection, row, links, merged.links)

    return merged.outcome


async def _record(
    connection: Connection, existing: Existing, row: Row, links: LinkChange, rules: StoreRules
) -> Entry:
    """Return the entry of an imported memory.

    If the memory takes the place of one with another id, that one's end is recorded already.
    """
    now = utc_now()
    before = existing.row
    replaced: Entry | None = None
    if before is not None and before.id != row.id:
        occasion = Occasion("deleted", now, IMPORTER)
        replaced = build_entry(occasion, before, None, row.version, LinkChange(links.before, {}))
        before = None

    last: int | None = None
    if before is None:
        last = await bind(find_last_version)(connection, row.namespace, row.id)

    occasion = Occasion("imported", now, IMPORTER)
    if last is not None:
        # Its history came first, and ends with the memory as it is.
        before = row._replace(version=last)
        links = NO_LINKS
    elif before is None:
        occasion = occasion._replace(action="created")
        links = NO_LINKS

    if replaced is not None:
        await bind(add_entries)(connection, [replaced])
    return build_entry(occasion, before, row, row.version, links)


async def _mend_before_import(
    connection: Connection, damaged: Existing, options: BatchOptions, limits: HistoryLimits
) -> Existing:
    """Return a damaged memory mended. Raises Refused if it is to be kept."""
    if not options.replace:
        raise Refused("checksum_mismatch")

    now = utc_now()
    if options.dry_run:
        assert damaged.row is not None, "what is damaged exists"
        return damaged._replace(row=mend_row(damaged.row, now), damage=None)

    rules = StoreRules(options.quota, limits)
    return await mend_memory(connection, damaged, now, IMPORTER, rules)


async def _check_id_is_free(connection: Connection, row: Row) -> None:
    """Check that no memory with another key has the row's id, and none with it was purged.

    Raises Refused: key_taken, purged.
    """
    holder = await find_existing_by_id(connection, row.namespace, row.id)
    if holder.is_purged:
        raise Refused("purged")
    if holder.row is not None and holder.row.key != row.key:
        raise Refused("key_taken")


def _choose_counters(incoming: IncomingMemory) -> AccessCounters | None:
    """Return the access counters that a memory brings along, or None if the importer made it up."""
    if incoming.provisional:
        return None

    return AccessCounters(incoming.stored.accessed_at, incoming.stored.access_count)
