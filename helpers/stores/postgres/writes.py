"""How a change is written to PostgreSQL, inside of a transaction that holds the lock of its namespace."""

from collections.abc import Sequence

import orjson

from abilities.declarations.faults import Refused
from abilities.helpers.stores.changes import Change, create_row, merge_change
from abilities.helpers.stores.model import IMPORTANCES, LinkRow, Row, hash_values
from abilities.helpers.stores.postgres.reads import fetch, link_rows, load_memory, read_row
from abilities.helpers.stores.postgres.server import Connection
from abilities.helpers.stores.protocol import WriteResult

_NAMES = ", ".join(Row._fields)
_SAVE = f"""
INSERT INTO memories ({_NAMES}, hash) VALUES ({", ".join(["%s"] * 16)})
ON CONFLICT (namespace, key) DO UPDATE SET ({_NAMES}, hash) = ROW (EXCLUDED.*)
"""
_SHELVE = "INSERT INTO shelf VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
_WORDS = """
INSERT INTO words VALUES (%s, %s, %s) ON CONFLICT (namespace, id) DO UPDATE SET folded = EXCLUDED.folded
"""
_TOUCHED = """
FROM unnest(%s::text[], %s::int8[], %s::text[]) AS given (key, number, moment)
JOIN memories AS m ON m.namespace = %s AND m.key = given.key
WHERE t.namespace = m.namespace AND t.id = m.id
"""
_TOUCH_SHELF = f"""
UPDATE shelf AS t SET accessed_at = greatest(accessed_at, moment), access_count = access_count + number {_TOUCHED}
"""
_TOUCH_TAGS = f"UPDATE tags AS t SET accessed_at = greatest(accessed_at, moment) {_TOUCHED}"
_LINK = """
INSERT INTO links (namespace, source, target, type, weight, rank, hash)
SELECT %s, %s, * FROM unnest(%s::text[], %s::text[], %s::float8[], %s::float8[], %s::int8[])
ON CONFLICT (namespace, source, target, type)
DO UPDATE SET weight = EXCLUDED.weight, rank = EXCLUDED.rank, hash = EXCLUDED.hash
"""


async def write(
    connection: Connection, namespace: str, change: Change, quota: int | None
) -> WriteResult:
    """Make a change. Raises Refused: id_not_found, key_taken, storage_quota, and what reading the memory raises."""
    before = await _existing(connection, namespace, change)
    if change.kind == "delete":
        assert before is not None
        await _remove(connection, before)
        return WriteResult(None, created=False, updated=())
    if before is None:
        await check_quota(connection, namespace, quota)
    links = (
        await link_rows(connection, namespace, before.key, change.linked_keys)
        if before and change.linked_keys
        else []
    )
    after = merge_change(change, before or create_row(change, namespace), links)
    if before is None or after.updated:
        await save(connection, before, after.row)
        await save_links(connection, after.row, links, after.links)
    return WriteResult(
        await load_memory(connection, after.row, 20), created=before is None, updated=after.updated
    )


async def _existing(connection: Connection, namespace: str, change: Change) -> Row | None:
    by_id = await read_row(connection, namespace, "id", change.id) if change.id else None
    if change.id and by_id is None:
        raise Refused("id_not_found")
    by_key = await read_row(connection, namespace, "key", change.key) if change.key else None
    if by_id is not None and change.key is not None and by_id.key != change.key:
        raise Refused("key_taken")
    return by_id or by_key


async def check_quota(connection: Connection, namespace: str, quota: int | None) -> None:
    """Raises Refused("storage_quota") where a namespace may hold no further memory."""
    if quota is None:
        return
    statement = b"SELECT sum(number) FROM counters WHERE namespace = %s AND name = 'all'"
    ((number,),) = await fetch(connection, statement, (namespace,))
    if (number or 0) >= quota:
        raise Refused("storage_quota")


async def save(
    connection: Connection, before: Row | None, after: Row, accessed: tuple[str, int] | None = None
) -> None:
    """Write a memory's row and all that is derived from it; ``accessed`` are its counters, where they are not kept."""
    counters: tuple[str, int] = (after.created_at, 0)
    if before is not None:
        counters = await _unshelve(connection, before)
    await connection.execute(_SAVE.encode(), (*after, hash_values(after)))
    if before is not None and before.id != after.id:
        await _forget_words(connection, before)
    if before is None or (before.id, before.content) != (after.id, after.content):
        await connection.execute(
            _WORDS.encode(), (after.namespace, after.id, after.content.casefold())
        )
    if before is None or (before.score, before.archived) != (after.score, after.archived):
        await _rerank(connection, after, None if after.archived else after.score)
    await _shelve(connection, after, *(accessed or counters))


async def _shelve(connection: Connection, row: Row, accessed_at: str, count: int) -> None:
    size = len(row.content.encode()) + len(row.summary.encode())
    place = IMPORTANCES.index(row.importance)
    named = (row.namespace, row.id, row.key, row.type, row.category, place, row.archived, size)
    await connection.execute(
        _SHELVE.encode(), (*named, row.created_at, row.updated_at, accessed_at, count)
    )
    tags = orjson.loads(row.tags)
    if tags:
        await connection.execute(
            "INSERT INTO tags SELECT %s, tag, %s, %s, %s FROM unnest(%s::text[]) AS given (tag)",
            (row.namespace, row.archived, accessed_at, row.id, tags),
        )


async def _unshelve(connection: Connection, row: Row) -> tuple[str, int]:
    """Take a memory off the shelf, and return its counters."""
    named = (row.namespace, row.id)
    await connection.execute("DELETE FROM tags WHERE namespace = %s AND id = %s", named)
    statement = (
        b"DELETE FROM shelf WHERE namespace = %s AND id = %s RETURNING accessed_at, access_count"
    )
    found = await fetch(connection, statement, named)
    return found[0] if found else (row.created_at, 0)


async def _forget_words(connection: Connection, row: Row) -> None:
    await connection.execute(
        "DELETE FROM words WHERE namespace = %s AND id = %s", (row.namespace, row.id)
    )


async def _remove(connection: Connection, row: Row) -> None:
    """Delete for good; links of others to it stay, and lead to nothing."""
    await _unshelve(connection, row)
    await _forget_words(connection, row)
    named = (row.namespace, row.key)
    await connection.execute("DELETE FROM links WHERE namespace = %s AND source = %s", named)
    await connection.execute("DELETE FROM memories WHERE namespace = %s AND key = %s", named)
    await _rerank(connection, row, None)


async def _rerank(connection: Connection, target: Row, score: float | None) -> None:
    """Keep the rank of every link to a memory that changed; to one that is gone as to an archived one."""
    statement = (
        b"SELECT source, target, type, weight FROM links WHERE namespace = %s AND target = %s"
    )
    found = await fetch(connection, statement, (target.namespace, target.key))
    if not found:
        return
    ranks = [-1.0 if score is None else link[3] * score for link in found]
    hashes = [hash_values((*link, rank)) for link, rank in zip(found, ranks, strict=True)]
    await connection.execute(
        "UPDATE links AS l SET rank = new.rank, hash = new.hash"
        " FROM unnest(%s::text[], %s::text[], %s::float8[], %s::int8[]) AS new (source, type, rank, hash)"
        " WHERE l.namespace = %s AND l.target = %s AND l.source = new.source AND l.type = new.type",
        (
            [link[0] for link in found],
            [link[2] for link in found],
            ranks,
            hashes,
            target.namespace,
            target.key,
        ),
    )


async def save_links(
    connection: Connection, row: Row, before: Sequence[LinkRow], after: Sequence[LinkRow]
) -> None:
    """Write the links of a memory that were added, changed or removed; each says so by target and type."""
    gone = {(link.target, link.type) for link in before} - {
        (link.target, link.type) for link in after
    }
    if gone:
        await connection.execute(
            "DELETE FROM links WHERE namespace = %s AND source = %s"
            " AND (target, type) IN (SELECT * FROM unnest(%s::text[], %s::text[]))",
            (row.namespace, row.key, [target for target, _ in gone], [kind for _, kind in gone]),
        )
    new = sorted(set(after) - set(before))
    if not new:
        return
    statement = (
        b"SELECT key, score FROM memories WHERE namespace = %s AND key = ANY(%s) AND archived = 0"
    )
    scores = dict(
        await fetch(connection, statement, (row.namespace, [link.target for link in new]))
    )
    ranks = [link.weight * scores[link.target] if link.target in scores else -1.0 for link in new]
    hashes = [hash_values((*link, rank)) for link, rank in zip(new, ranks, strict=True)]
    columns = (
        [link.target for link in new],
        [link.type for link in new],
        [link.weight for link in new],
    )
    await connection.execute(_LINK.encode(), (row.namespace, row.key, *columns, ranks, hashes))


async def touch(
    namespace: str, touches: Sequence[tuple[str, int, str]], connection: Connection
) -> None:
    """Add to memories' access counters, which are outside of their hashes: by key, how often, and when last."""
    columns = [list(column) for column in zip(*touches, strict=True)]
    for statement in (_TOUCH_SHELF, _TOUCH_TAGS):
        await connection.execute(statement.encode(), (*columns, namespace))
