"""How whole memories leave PostgreSQL and come into it, on a connection that the caller holds."""

from abilities.declarations.faults import Refused
from abilities.helpers.stores.changes import BatchOptions, Outcome, merge_incoming
from abilities.helpers.stores.model import DamagedMemory, IncomingMemory, LinkRow, StoredMemory
from abilities.helpers.stores.postgres.reads import all_links, fetch, load_memory, read_row
from abilities.helpers.stores.postgres.server import Connection
from abilities.helpers.stores.postgres.writes import check_quota, save, save_links


async def page(
    connection: Connection, after: tuple[str, str], limit: int
) -> list[StoredMemory | DamagedMemory]:
    """See `MemoryStore.page`."""
    statement = b"""
    SELECT namespace, key FROM memories WHERE (namespace, key) > (%s, %s) ORDER BY namespace, key LIMIT %s
    """
    found: list[StoredMemory | DamagedMemory] = []
    for namespace, key in await fetch(connection, statement, (*after, limit)):
        try:
            row = await read_row(connection, namespace, "key", key)
        except Refused as error:
            found.append(DamagedMemory(namespace, key, error.reason))
            continue
        assert row is not None, "it is there in this snapshot"
        links, damaged = await all_links(connection, namespace, key)
        if damaged:
            found.append(DamagedMemory(namespace, key, f"{damaged} damaged links"))
        stored = await load_memory(connection, row, 0)
        found.append(stored._replace(links=tuple(links), links_total=len(links)))
    return found


async def size(connection: Connection) -> int:
    """See `MemoryStore.size`."""
    ((number,),) = await fetch(connection, b"SELECT count(*) FROM memories", ())
    return int(number)


async def put(connection: Connection, incoming: IncomingMemory, how: BatchOptions) -> Outcome:
    """Keep one memory. Raises Refused, before anything was written."""
    row, links = incoming.stored.row, list[LinkRow]()
    before = await read_row(connection, row.namespace, "key", row.key)
    if before is None:
        await check_quota(connection, row.namespace, how.quota)
    else:
        links, _ = await all_links(connection, row.namespace, row.key)
    outcome, after, brought = merge_incoming(incoming, before, links, replace=how.replace)
    if outcome in ("added", "replaced"):
        named = await read_row(connection, after.namespace, "id", after.id)
        if named is not None and named.key != after.key:
            raise Refused("key_taken")
        if not how.dry_run:
            accessed = (
                None
                if incoming.provisional
                else (incoming.stored.accessed_at, incoming.stored.access_count)
            )
            await save(connection, before, after, accessed)
            await save_links(connection, after, links, brought)
    return outcome
