"""Whether a store in PostgreSQL is whole: every hash, and everything that is derived from the memories."""

from collections.abc import AsyncIterator, Callable
from typing import Any

from abilities.helpers.stores.integrity import INDEX_COLUMNS, IntegrityCheck
from abilities.helpers.stores.postgres.reads import COLUMNS
from abilities.helpers.stores.postgres.server import Connection
from abilities.helpers.stores.protocol import IntegrityFinding

_MEMORIES = f"""
SELECT {COLUMNS}, m.hash, {", ".join(f"s.{name}" for name in INDEX_COLUMNS)}
FROM memories AS m LEFT JOIN shelf AS s ON s.namespace = m.namespace AND s.id = m.id AND s.key = m.key
"""
_LINKS = """
SELECT l.namespace, l.source, l.target, l.type, l.weight, l.rank, l.hash, m.archived, m.score
FROM links AS l LEFT JOIN memories AS m ON m.namespace = l.namespace AND m.key = l.target
"""
_TAGS = """
SELECT m.namespace, m.key, m.tags, (
    SELECT coalesce(json_agg(t.tag), '[]')::text FROM tags AS t
    WHERE t.namespace = m.namespace AND t.id = m.id AND t.archived = m.archived
) FROM memories AS m
"""
_TAGS_COUNTED = "SELECT namespace, archived, tag, count(*) FROM tags GROUP BY 1, 2, 3"
_TAGS_TOLD = "SELECT namespace, archived, value, number FROM counters WHERE name = 'tag'"
_COUNTERS = "SELECT namespace, name, archived, value, number FROM counters WHERE name <> 'tag' AND number <> 0"
_UNFINDABLE = """
SELECT namespace, key FROM memories WHERE (namespace, id) NOT IN (SELECT namespace, id FROM words) LIMIT 100
"""
_ROWS = 1_000


async def check(connection: Connection, progress: Callable[[int], None]) -> list[IntegrityFinding]:
    """What was found in a snapshot, in a fixed order; rows come in portions, however many there are."""
    examination = IntegrityCheck(progress)
    async for raw in _rows(connection, _MEMORIES):
        examination.add_memory(raw)
    async for (number,) in _rows(connection, "SELECT count(*) FROM shelf"):
        examination.add_index_rows(number)
    async for raw in _rows(connection, _LINKS):
        examination.add_link(raw)
    async for tagged in _rows(connection, _TAGS):
        examination.compare_tags(*tagged)
    for one, other in ((_TAGS_COUNTED, _TAGS_TOLD), (_TAGS_TOLD, _TAGS_COUNTED)):
        async for namespace, _, tag, _ in _rows(connection, f"{one} EXCEPT {other}"):
            examination.add_miscounted_tag(namespace, tag)
    async for unfindable in _rows(connection, _UNFINDABLE):
        examination.add_unfindable(*unfindable)
    told: dict[Any, int] = {}
    async for *name, number in _rows(connection, _COUNTERS):
        told[tuple(name)] = number
    return examination.report(told)


async def _rows(connection: Connection, statement: str) -> AsyncIterator[tuple[Any, ...]]:
    async with connection.cursor("abilities_check") as cursor:
        cursor.itersize = _ROWS
        await cursor.execute(statement.encode())
        async for row in cursor:
            yield row
