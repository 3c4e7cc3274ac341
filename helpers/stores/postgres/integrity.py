"""The integrity check of a store in PostgreSQL: every hash, and all that memories imply."""

from collections.abc import AsyncIterator, Callable

from psycopg.rows import TupleRow

from abilities.helpers.stores.integrity import INDEX_COLUMNS, Counted, IntegrityCheck
from abilities.helpers.stores.postgres.reads import COLUMNS, LINK_COLUMNS
from abilities.helpers.stores.postgres.statements import Connection
from abilities.helpers.stores.protocol import IntegrityFinding

PORTION_ROWS = 1_000
"""Rows that are fetched at a time, so that a check of any store takes the same memory."""

_MEMORIES = f"""
SELECT {COLUMNS}, m.hash, {", ".join(f"s.{name}" for name in INDEX_COLUMNS)}
FROM memories AS m
LEFT JOIN shelf AS s ON s.namespace = m.namespace AND s.id = m.id AND s.key = m.key
"""
_INDEX_SIZE = "SELECT count(*) FROM shelf"
_LINKS = f"""
SELECT l.namespace, {LINK_COLUMNS}, m.archived, m.score
FROM links AS l LEFT JOIN memories AS m ON m.namespace = l.namespace AND m.key = l.target
"""
_TAGS = """
SELECT m.namespace, m.key, m.tags, (
    SELECT coalesce(json_agg(t.tag), '[]')::text FROM tags AS t
    WHERE t.namespace = m.namespace AND t.id = m.id AND t.archived = m.archived
) FROM memories AS m
"""
# In both directions, because a counter can be missing, wrong, or one of a tag that nothing has.
_MISCOUNTED_TAGS = """
WITH expected AS (SELECT namespace, archived, tag, count(*) FROM tags GROUP BY 1, 2, 3),
    counted AS (SELECT namespace, archived, value, number FROM counters WHERE name = 'tag')
SELECT namespace, tag FROM (TABLE expected EXCEPT TABLE counted) AS missing
UNION ALL
SELECT namespace, value FROM (TABLE counted EXCEPT TABLE expected) AS wrong
"""
_UNFINDABLE = """
SELECT namespace, key FROM memories
WHERE (namespace, id) NOT IN (SELECT namespace, id FROM words) LIMIT 100
"""
_COUNTERS = """
SELECT namespace, name, archived, value, number FROM counters
WHERE name <> 'tag' AND number <> 0
"""


async def check_store(
    connection: Connection, progress: Callable[[int], None]
) -> list[IntegrityFinding]:
    """Return the findings about a snapshot, in a fixed order.

    ``progress`` is called with the number of rows that were checked since the last call.
    """
    integrity_check = IntegrityCheck(progress)

    async for memory in _stream(connection, _MEMORIES):
        integrity_check.add_memory(memory)

    async for (number,) in _stream(connection, _INDEX_SIZE):
        integrity_check.add_index_rows(number)

    async for link in _stream(connection, _LINKS):
        integrity_check.add_link(link)

    async for namespace, key, tags, indexed in _stream(connection, _TAGS):
        integrity_check.compare_tags(namespace, key, tags, indexed)

    async for namespace, tag in _stream(connection, _MISCOUNTED_TAGS):
        integrity_check.add_miscounted_tag(namespace, tag)

    async for namespace, key in _stream(connection, _UNFINDABLE):
        integrity_check.add_unfindable(namespace, key)

    counters: dict[Counted, int] = {}
    async for *name, number in _stream(connection, _COUNTERS):
        counters[Counted._make(name)] = number

    return integrity_check.report(counters)


async def _stream(connection: Connection, statement: str) -> AsyncIterator[TupleRow]:
    """Yield the rows of a statement, fetching them in portions."""
    # A named cursor is one on the server; others would fetch all rows at once.
    async with connection.cursor("abilities_check") as cursor:
        cursor.itersize = PORTION_ROWS
        await cursor.execute(statement.encode())
        async for row in cursor:
            yield row
