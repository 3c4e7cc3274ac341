"""Reading whole memories and their history page by page, across all namespaces."""

from collections.abc import Sequence

from abilities.declarations.faults import Refused
from abilities.helpers.store.entries import ENTRY_COLUMNS
from abilities.helpers.store.history import DamagedEntry, Entry, verify_entry
from abilities.helpers.store.linking import select_sound
from abilities.helpers.store.model import (
    DamagedMemory,
    LinkRecord,
    Row,
    StoredMemory,
    verify_row,
)
from abilities.helpers.store.reads import COLUMNS
from abilities.helpers.store.transaction import Transaction, to_name, to_raw

# Names as they are stored, because those of a damaged memory need not be UTF-8.
_PAGE = f"""
SELECT RAW(m.namespace), RAW(m.key), coalesce(s.accessed_at, m.created_at),
    coalesce(s.access_count, 0), coalesce(c.incoming, 0), m.hash, {COLUMNS}
FROM memories AS m LEFT JOIN shelf AS s ON s.namespace = m.namespace AND s.id = m.id
LEFT JOIN link_counts AS c ON c.namespace = m.namespace AND c.key = m.key
WHERE (m.namespace, m.key) > (CAST(? AS text), CAST(? AS text))
ORDER BY m.namespace, m.key LIMIT ?
"""
_LINKS = f"""
SELECT RAW(l.namespace), RAW(l.source), {", ".join(f"l.{name}" for name in LinkRecord._fields)}
FROM links AS l INDEXED BY links_name
WHERE (l.namespace, l.source) > (CAST(? AS text), CAST(? AS text))
    AND (l.namespace, l.source) <= (CAST(? AS text), CAST(? AS text))
ORDER BY l.namespace, l.source, l.target, l.type
"""
_ENTRIES = f"""
SELECT RAW(namespace), RAW(id), {ENTRY_COLUMNS} FROM history INDEXED BY history_id
WHERE (namespace, id, version) > (CAST(? AS text), CAST(? AS text), ?)
ORDER BY namespace, id, version LIMIT ?
"""

Name = tuple[str, str]
"""A namespace and a key in it."""


async def read_page(
    transaction: Transaction, after: Name, limit: int
) -> list[StoredMemory | DamagedMemory]:
    """Return memories with all their links, of all namespaces, and what of them is damaged."""
    rows = await transaction.fetch(_PAGE, *map(to_raw, after), limit)
    if not rows:
        return []

    last = (to_name(rows[-1][0]), to_name(rows[-1][1]))
    links = await _read_links(transaction, after, last)
    page: list[StoredMemory | DamagedMemory] = []
    for namespace, key, accessed_at, access_count, incoming, stored_hash, *values in rows:
        name, row = (to_name(namespace), to_name(key)), Row._make(values)
        try:
            verify_row(row, stored_hash)
        except Refused as error:
            page.append(DamagedMemory(*name, error.reason))
            continue

        records = links.get(name, ())
        sound = tuple(await select_sound(transaction, records))
        if len(sound) < len(records):
            page.append(DamagedMemory(*name, f"{len(records) - len(sound)} damaged links"))
        page.append(StoredMemory(row, sound, len(sound), accessed_at, access_count, incoming))

    return page


async def _read_links(
    transaction: Transaction, after: Name, last: Name
) -> dict[Name, Sequence[LinkRecord]]:
    """Return all links of the memories after one and up to another, by target and type."""
    links: dict[Name, list[LinkRecord]] = {}
    names = map(to_raw, (*after, *last))
    for namespace, source, *values in await transaction.fetch(_LINKS, *names):
        name = (to_name(namespace), to_name(source))
        links.setdefault(name, []).append(LinkRecord._make(values))

    return dict(links)


async def count_memories(transaction: Transaction) -> int:
    """Return the number of memories in all namespaces, archived ones included."""
    ((count,),) = await transaction.fetch("SELECT count(*) FROM memories")
    return int(count)


async def read_entries(
    transaction: Transaction, after: tuple[str, str, int], limit: int
) -> list[Entry | DamagedEntry]:
    """Return entries of all namespaces by namespace, id and version."""
    namespace, memory_id, version = after
    given = (to_raw(namespace), to_raw(memory_id), version, limit)
    page: list[Entry | DamagedEntry] = []
    for stored_namespace, stored_id, *values in await transaction.fetch(_ENTRIES, *given):
        entry = Entry._make(values)
        try:
            page.append(verify_entry(entry))
        except Refused:
            owner = (to_name(stored_namespace), to_name(stored_id))
            page.append(DamagedEntry(owner[0], entry.version, owner[1]))

    return page
