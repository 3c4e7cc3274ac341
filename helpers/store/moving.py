"""Export and import of whole memories and their history, across all namespaces."""

from collections import defaultdict
from collections.abc import Sequence

from abilities.declarations.refusals import Refused
from abilities.declarations.values import utc_now
from abilities.helpers.store import model, past, reads, saving
from abilities.helpers.store.changes import Outcome, check_incoming, merge_incoming
from abilities.helpers.store.engine import Transaction, to_name, to_raw
from abilities.helpers.store.history import DamagedEntry, Entry
from abilities.helpers.store.mending import mend_row
from abilities.helpers.store.past import Occasion, StoreRules
from abilities.helpers.store.ranking import LINK_COLUMNS
from abilities.helpers.store.reads import select_sound

IMPORTER = "import"
"""The caller in the history of an imported memory."""

# Names are RAW, because those of damaged memories may not be valid UTF-8.
_PAGE = f"""
SELECT RAW(m.namespace), RAW(m.key), coalesce(s.accessed_at, m.created_at),
    coalesce(s.access_count, 0), coalesce(c.incoming, 0), m.hash, {reads.COLUMNS}
FROM memories AS m LEFT JOIN shelf AS s ON s.namespace = m.namespace AND s.id = m.id
LEFT JOIN link_counts AS c ON c.namespace = m.namespace AND c.key = m.key
WHERE (m.namespace, m.key) > (CAST(? AS text), CAST(? AS text))
ORDER BY m.namespace, m.key LIMIT ?
"""
_LINKS = f"""
SELECT RAW(l.namespace), RAW(l.source), {LINK_COLUMNS}
FROM links AS l INDEXED BY links_name
WHERE (l.namespace, l.source) > (CAST(? AS text), CAST(? AS text))
    AND (l.namespace, l.source) <= (CAST(? AS text), CAST(? AS text))
ORDER BY l.namespace, l.source, l.target, l.type
"""
_ENTRIES = f"""
SELECT RAW(namespace), RAW(id), {past.ENTRY_COLUMNS} FROM history INDEXED BY history_id
WHERE (namespace, id, version) > (CAST(? AS text), CAST(? AS text), ?)
ORDER BY namespace, id, version LIMIT ?
"""


async def read_page(
    transaction: Transaction, after: tuple[str, str], limit: int
) -> list[model.StoredMemory | model.DamagedMemory]:
    """Return memories of all namespaces with all their links, and their damage; see the protocol.

    They are ordered by namespace and key, and follow the (namespace, key) in ``after``.
    """
    rows = await transaction.fetch(_PAGE, *map(to_raw, after), limit)
    if not rows:
        return []

    links: dict[tuple[str, str], list[model.LinkRecord]] = defaultdict(list)
    last = (to_name(rows[-1][0]), to_name(rows[-1][1]))
    bounds = map(to_raw, (*after, *last))
    for namespace, source, *values in await transaction.fetch(_LINKS, *bounds):
        links[to_name(namespace), to_name(source)].append(model.LinkRecord._make(values))

    page: list[model.StoredMemory | model.DamagedMemory] = []
    for namespace, key, accessed_at, access_count, incoming, stored_hash, *values in rows:
        name, row = (to_name(namespace), to_name(key)), model.Row._make(values)
        damage = model.find_damage(row, stored_hash)
        if damage is not None:
            page.append(model.DamagedMemory(*name, damage))
            continue

        records = links[name]
        sound = tuple(await select_sound(transaction, records))
        if len(sound) < len(records):
            page.append(model.DamagedMemory(*name, f"{len(records) - len(sound)} damaged links"))
        page.append(model.StoredMemory(row, sound, len(sound), accessed_at, access_count, incoming))

    return page


async def count_memories(transaction: Transaction) -> int:
    """Return the number of memories in all namespaces, including archived ones."""
    ((count,),) = await transaction.fetch("SELECT count(*) FROM memories")
    return int(count)


async def read_entries(
    transaction: Transaction, after: tuple[str, str, int], limit: int
) -> list[Entry | DamagedEntry]:
    """Return entries of all namespaces after a (namespace, id, version), in this order."""
    namespace, memory_id, version = after
    given = (to_raw(namespace), to_raw(memory_id), version, limit)
    page: list[Entry | DamagedEntry] = []
    for raw_namespace, raw_id, *values in await transaction.fetch(_ENTRIES, *given):
        entry = Entry._make(values)
        if entry.is_sound:
            page.append(entry)
        else:
            page.append(DamagedEntry(to_name(raw_namespace), entry.version, to_name(raw_id)))

    return page


async def import_memory(
    transaction: Transaction,
    incoming: model.IncomingMemory,
    rules: StoreRules,
    *,
    replace: bool,
    dry_run: bool = False,
) -> Outcome:
    """Store a memory as it is, in the caller's savepoint. A dry run stores nothing.

    Raises Refused: key_taken, purged, storage_quota, checksum_mismatch, invalid_stored_value.
    """
    check_incoming(incoming)
    now, row = utc_now(), incoming.stored.row
    found = await saving.find_by_key(transaction, row.namespace, row.key)
    is_damaged = found.damage is not None
    if is_damaged and not replace:
        raise Refused("checksum_mismatch")
    damaged = found.row
    if is_damaged and damaged is not None:
        if dry_run:
            found = found._replace(row=mend_row(damaged, now), damage=None)
        else:
            found = await saving.mend_memory(transaction, damaged, now, IMPORTER, rules.history)

    links: model.Links = {}
    if found.row is None:
        await saving.check_quota(transaction, row.namespace, rules.quota)
    if found.has_links:
        links = await reads.read_links(transaction, row.namespace, row.key)

    outcome, row, links_after = merge_incoming(incoming, found.row, links, replace=replace)
    if is_damaged:
        outcome = "replaced"
    if outcome not in ("added", "replaced"):
        return outcome

    await past.check_unpurged(transaction, row.namespace, row.id)
    holder = (await saving.find_by_id(transaction, row.namespace, row.id)).row
    if holder is not None and holder.key != row.key:
        raise Refused("key_taken")
    if dry_run:
        return outcome

    row = row._replace(version=found.next_version)
    change = model.LinkChange(links, links_after)
    await _record(transaction, found.row, row, change, now, rules)
    counters: tuple[str, int] | None = None
    if not incoming.provisional:
        counters = (incoming.stored.accessed_at, incoming.stored.access_count)
    await saving.write_memory(transaction, found, row, change, counters)
    return outcome


async def try_imports(
    transaction: Transaction,
    memories: Sequence[model.IncomingMemory],
    rules: StoreRules,
    *,
    replace: bool,
) -> list[Outcome | Exception]:
    """Return the outcome that the import of each memory would have, refusals included."""
    outcomes: list[Outcome | Exception] = []
    for memory in memories:
        try:
            outcome = await import_memory(transaction, memory, rules, replace=replace, dry_run=True)
            outcomes.append(outcome)
        except Refused as error:
            outcomes.append(error)

    return outcomes


async def _record(
    transaction: Transaction,
    before: model.Row | None,
    row: model.Row,
    links: model.LinkChange,
    now: str,
    rules: StoreRules,
) -> None:
    """Save the entry of an imported memory.

    If it replaces a memory with another id, the deletion of that memory gets an entry too.
    """
    occasion = Occasion("imported", now, IMPORTER)
    if before is not None and before.id != row.id:
        deleted = occasion._replace(action="deleted")
        replaced = model.LinkChange(links.before, {})
        entry = past.build_entry(deleted, before, None, row.version, replaced)
        await past.add_entries(transaction, [entry])
        before = None

    if before is None:
        links = model.NO_LINKS
        last = await past.find_last_version(transaction, row.namespace, row.id)
        if last is None:
            occasion = occasion._replace(action="created")
        else:
            # Its history was imported before it, up to this version.
            before = row._replace(version=last)

    await past.save_entry(transaction, occasion, before, row, row.version, links, rules.history)
