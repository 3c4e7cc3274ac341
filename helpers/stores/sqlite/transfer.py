"""Export and import of whole memories in an SQLite store, in a transaction of the caller."""

import sqlite3
from collections.abc import Sequence

from abilities.declarations.faults import Refused
from abilities.helpers.stores.changes import BatchOptions, Outcome, merge_incoming
from abilities.helpers.stores.model import (
    AccessCounters,
    DamagedMemory,
    IncomingMemory,
    LinkRow,
    StoredMemory,
)
from abilities.helpers.stores.sqlite.reads import (
    find_row_by_id,
    find_row_by_key,
    load_memory,
    read_all_links,
)
from abilities.helpers.stores.sqlite.writes import (
    check_quota,
    save_links,
    save_memory,
)


def read_page(
    connection: sqlite3.Connection, after: tuple[str, str], limit: int
) -> list[StoredMemory | DamagedMemory]:
    """Return memories with all their links, of all namespaces, and what of them is damaged."""
    names = connection.execute(
        "SELECT namespace, key FROM memories WHERE (namespace, key) > (?, ?)"
        " ORDER BY namespace, key LIMIT ?",
        (*after, limit),
    ).fetchall()

    page: list[StoredMemory | DamagedMemory] = []
    for namespace, key in names:
        page += _read_whole(connection, namespace, key)

    return page


def _read_whole(
    connection: sqlite3.Connection, namespace: str, key: str
) -> list[StoredMemory | DamagedMemory]:
    """Return a memory with all its sound links, after a DamagedMemory if some are damaged."""
    try:
        row = find_row_by_key(connection, namespace, key)
    except Refused as error:
        return [DamagedMemory(namespace, key, error.reason)]
    assert row is not None, "it exists in this snapshot"

    links, damaged = read_all_links(connection, namespace, key)
    memory = load_memory(connection, row, 0)
    memory = memory._replace(links=tuple(links), links_total=len(links))

    if damaged:
        return [DamagedMemory(namespace, key, f"{damaged} damaged links"), memory]
    return [memory]


def count_memories(connection: sqlite3.Connection) -> int:
    """Return the number of memories in all namespaces, archived ones included."""
    (count,) = connection.execute("SELECT count(*) FROM memories").fetchone()
    return int(count)


def import_memories(
    connection: sqlite3.Connection, memories: Sequence[IncomingMemory], options: BatchOptions
) -> list[Outcome | Exception]:
    """Import memories and return one outcome each; one that is refused does not stop the others."""
    outcomes: list[Outcome | Exception] = []

    for memory in memories:
        try:
            outcomes.append(_import_memory(connection, memory, options))
        except Refused as error:  # raised before anything of this memory is written
            outcomes.append(error)

    return outcomes


def _import_memory(
    connection: sqlite3.Connection, incoming: IncomingMemory, options: BatchOptions
) -> Outcome:
    """Import one memory. Raises Refused before anything is written."""
    row = incoming.stored.row
    links: list[LinkRow] = []

    before = find_row_by_key(connection, row.namespace, row.key)
    if before is None:
        check_quota(connection, row.namespace, options.quota)
    else:
        links, _ = read_all_links(connection, row.namespace, row.key)

    merged = merge_incoming(incoming, before, links, replace=options.replace)
    if merged.outcome not in ("added", "replaced"):
        return merged.outcome

    holder = find_row_by_id(connection, merged.row.namespace, merged.row.id)
    if holder is not None and holder.key != merged.row.key:
        raise Refused("key_taken")

    if not options.dry_run:
        counters = _choose_counters(incoming)
        save_memory(connection, before, merged.row, counters)
        save_links(connection, merged.row, links, merged.links)

    return merged.outcome


def _choose_counters(incoming: IncomingMemory) -> AccessCounters | None:
    """Return the access counters to import, or None to keep the stored ones."""
    if incoming.provisional:
        return None

    return AccessCounters(incoming.stored.accessed_at, incoming.stored.access_count)
