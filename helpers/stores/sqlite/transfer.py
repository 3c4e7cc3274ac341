"""How whole memories leave an SQLite store and come into one, inside of a transaction that the caller holds."""

import sqlite3
from collections.abc import Iterator, Sequence

from abilities.declarations.faults import Refused
from abilities.helpers.stores.changes import BatchOptions, Outcome, merge_incoming
from abilities.helpers.stores.model import DamagedMemory, IncomingMemory, LinkRow, StoredMemory
from abilities.helpers.stores.sqlite.reads import all_links, load_memory, row_by_id, row_by_key
from abilities.helpers.stores.sqlite.writes import check_quota, save, save_links


def page(
    connection: sqlite3.Connection, after: tuple[str, str], limit: int
) -> list[StoredMemory | DamagedMemory]:
    """See `MemoryStore.page`."""
    names = connection.execute(
        "SELECT namespace, key FROM memories WHERE (namespace, key) > (?, ?) ORDER BY namespace, key LIMIT ?",
        (*after, limit),
    ).fetchall()
    return [found for namespace, key in names for found in _whole(connection, namespace, key)]


def _whole(
    connection: sqlite3.Connection, namespace: str, key: str
) -> Iterator[StoredMemory | DamagedMemory]:
    try:
        row = row_by_key(connection, namespace, key)
    except Refused as error:
        yield DamagedMemory(namespace, key, error.reason)
        return
    assert row is not None, "it is there in this snapshot"
    links, damaged = all_links(connection, namespace, key)
    if damaged:
        yield DamagedMemory(namespace, key, f"{damaged} damaged links")
    yield load_memory(connection, row, 0)._replace(links=tuple(links), links_total=len(links))


def size(connection: sqlite3.Connection) -> int:
    """See `MemoryStore.size`."""
    return int(connection.execute("SELECT count(*) FROM memories").fetchone()[0])


def put(
    connection: sqlite3.Connection, memories: Sequence[IncomingMemory], how: BatchOptions
) -> list[Outcome | Exception]:
    """See `MemoryStore.put`."""
    return [_attempt(connection, incoming, how) for incoming in memories]


def _attempt(
    connection: sqlite3.Connection, incoming: IncomingMemory, how: BatchOptions
) -> Outcome | Exception:
    try:
        return _put(connection, incoming, how)
    except Refused as error:  # which comes before anything was written
        return error


def _put(connection: sqlite3.Connection, incoming: IncomingMemory, how: BatchOptions) -> Outcome:
    row, links = incoming.stored.row, list[LinkRow]()
    before = row_by_key(connection, row.namespace, row.key)
    if before is None:
        check_quota(connection, row.namespace, how.quota)
    else:
        links, _ = all_links(connection, row.namespace, row.key)
    outcome, after, brought = merge_incoming(incoming, before, links, replace=how.replace)
    if outcome in ("added", "replaced"):
        named = row_by_id(connection, after.namespace, after.id)
        if named is not None and named.key != after.key:
            raise Refused("key_taken")
        if not how.dry_run:
            accessed = (
                None
                if incoming.provisional
                else (incoming.stored.accessed_at, incoming.stored.access_count)
            )
            save(connection, before, after, accessed)
            save_links(connection, after, links, brought)
    return outcome
