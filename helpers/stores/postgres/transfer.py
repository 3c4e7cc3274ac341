"""Exporting and importing whole memories, on a connection that the caller holds."""

from typing import NamedTuple

from abilities.declarations.faults import Refused
from abilities.helpers.stores.changes import BatchOptions, Outcome, merge_incoming
from abilities.helpers.stores.model import (
    AccessCounters,
    DamagedMemory,
    IncomingMemory,
    LinkRow,
    Row,
    StoredMemory,
)
from abilities.helpers.stores.postgres.links import save_links
from abilities.helpers.stores.postgres.reads import (
    find_row_by_id,
    find_row_by_key,
    load_memory,
    read_all_links,
)
from abilities.helpers.stores.postgres.statements import Connection, Select, to_number
from abilities.helpers.stores.postgres.writes import (
    check_quota,
    save_memory,
)


class _Name(NamedTuple):
    namespace: str
    key: str


_SELECT_NAMES = Select(
    """
    SELECT namespace, key FROM memories WHERE (namespace, key) > (%s, %s)
    ORDER BY namespace, key LIMIT %s
    """,
    _Name._make,
)
_COUNT_MEMORIES = Select("SELECT count(*) FROM memories", to_number)


async def read_page(
    connection: Connection, after: tuple[str, str], limit: int
) -> list[StoredMemory | DamagedMemory]:
    """Return up to ``limit`` memories with all their links, after a (namespace, key)."""
    page: list[StoredMemory | DamagedMemory] = []
    names = await _SELECT_NAMES.fetch(connection, *after, limit)
    for name in names:
        memory = await _read_whole(connection, name)
        page.extend(memory)

    return page


async def _read_whole(connection: Connection, name: _Name) -> list[StoredMemory | DamagedMemory]:
    """Return a memory with all its links, after what is damaged of it."""
    namespace, key = name
    try:
        row = await find_row_by_key(connection, namespace, key)
    except Refused as error:
        return [DamagedMemory(namespace, key, error.reason)]

    assert row is not None, "its name was read in the same snapshot"
    links, damaged = await read_all_links(connection, namespace, key)
    memory = await load_memory(connection, row, 0)
    memory = memory._replace(links=tuple(links), links_total=len(links))

    if not damaged:
        return [memory]

    reason = f"{damaged} damaged links"
    return [DamagedMemory(namespace, key, reason), memory]


async def count_memories(connection: Connection) -> int:
    """Return the number of memories in all namespaces."""
    return await _COUNT_MEMORIES.fetch_only(connection)


async def import_memory(
    connection: Connection, incoming: IncomingMemory, options: BatchOptions
) -> Outcome:
    """Store a memory as it is, except in a dry run. Raises Refused before anything is written."""
    row = incoming.stored.row
    namespace, key = row.namespace, row.key
    before = await find_row_by_key(connection, namespace, key)

    links: list[LinkRow] = []
    if before is None:
        await check_quota(connection, namespace, options.quota)
    else:
        links, _ = await read_all_links(connection, namespace, key)

    merged = merge_incoming(incoming, before, links, replace=options.replace)
    if merged.outcome not in ("added", "replaced"):
        return merged.outcome

    await _check_id_is_free(connection, merged.row)
    if not options.dry_run:
        counters = _choose_counters(incoming)
        await save_memory(connection, before, merged.row, counters)
        await save_links(connection, merged.row, links, merged.links)

    return merged.outcome


async def _check_id_is_free(connection: Connection, row: Row) -> None:
    """Raise Refused("key_taken") if a memory with another key has the row's id."""
    holder = await find_row_by_id(connection, row.namespace, row.id)
    if holder is not None and holder.key != row.key:
        raise Refused("key_taken")


def _choose_counters(incoming: IncomingMemory) -> AccessCounters | None:
    """Return the access counters that a memory brings along, or None if the importer made it up."""
    if incoming.provisional:
        return None

    return AccessCounters(incoming.stored.accessed_at, incoming.stored.access_count)
