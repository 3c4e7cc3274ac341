"""The integrity check of a store in PostgreSQL: every hash, and all that memories imply."""

from collections.abc import Callable

from abilities.helpers.stores.integrity import INDEX_COLUMNS, Counted, IntegrityCheck
from abilities.helpers.stores.model import Row
from abilities.helpers.stores.postgres.history_check import check_history
from abilities.helpers.stores.postgres.ranking import LINK_COLUMNS
from abilities.helpers.stores.postgres.reads import COLUMNS
from abilities.helpers.stores.postgres.recall_check import find_wrong_namespaces
from abilities.helpers.stores.postgres.recall_index import find_language
from abilities.helpers.stores.postgres.statements import Connection, stream
from abilities.helpers.stores.protocol import IntegrityFinding
from abilities.helpers.stores.ranking import ARE_STALE
from abilities.helpers.stores.search_text import fold_searchable

_MEMORIES = f"""
SELECT {COLUMNS}, m.hash, {", ".join(f"s.{name}" for name in INDEX_COLUMNS)}, w.folded
FROM memories AS m
LEFT JOIN shelf AS s ON s.namespace = m.namespace AND s.id = m.id AND s.key = m.key
LEFT JOIN words AS w ON w.namespace = m.namespace AND w.id = m.id
"""
_INDEX_SIZE = "SELECT count(*) FROM shelf"
_LINKS = f"""
SELECT l.namespace, {LINK_COLUMNS}, t.archived, t.score, s.archived, s.score, {ARE_STALE}
FROM links AS l
LEFT JOIN memories AS t ON t.namespace = l.namespace AND t.key = l.target
LEFT JOIN memories AS s ON s.namespace = l.namespace AND s.key = l.source
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
_MISCOUNTED_LINKS = """
SELECT namespace, key FROM (
    SELECT namespace, source AS key, 1 AS outgoing, 0 AS incoming FROM links
    UNION ALL SELECT namespace, target, 0, 1 FROM links
    UNION ALL SELECT namespace, key, -outgoing, -incoming FROM link_counts
) AS ends GROUP BY namespace, key HAVING sum(outgoing) <> 0 OR sum(incoming) <> 0
"""
_REPEATED_VERSIONS = """
SELECT namespace, version FROM memories GROUP BY namespace, version HAVING count(*) > 1
"""
_VERSIONS = """
SELECT namespace, version FROM memories GROUP BY namespace, version HAVING count(*) > 1
"""
_UNFINDABLE = """
SELECT namespace, key FROM memories AS m WHERE NOT EXISTS (
    SELECT FROM words AS w WHERE w.namespace = m.namespace AND w.id = m.id
) LIMIT 100
"""
_VERSIONS = "SELECT namespace, number FROM versions"
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

    async for *memory, folded in stream(connection, _MEMORIES):
        is_sound = integrity_check.add_memory(memory)
        row = Row._make(memory[: len(Row._fields)])
        if is_sound and folded != fold_searchable(row):
            integrity_check.add_unfindable(row.namespace, row.key)

    async for (number,) in stream(connection, _INDEX_SIZE):
        integrity_check.add_index_rows(number)

    async for link in stream(connection, _LINKS):
        integrity_check.add_link(link)

    async for namespace, key, tags, indexed in stream(connection, _TAGS):
        integrity_check.compare_tags(namespace, key, tags, indexed)

    async for namespace, tag in stream(connection, _MISCOUNTED_TAGS):
        integrity_check.add_miscounted_tag(namespace, tag)

    async for namespace, key in stream(connection, _MISCOUNTED_LINKS):
        integrity_check.add_miscounted_links(namespace, key)

    async for namespace, version in stream(connection, _REPEATED_VERSIONS):
        integrity_check.add_repeated_version(namespace, version)

    if await find_language(connection) is None:
        integrity_check.add_wrong_index("recall_language")
    for namespace in await find_wrong_namespaces(connection):
        integrity_check.add_wrong_index(f"{namespace}: what recall finds")

    counters: dict[Counted, int] = {}
    async for *name, number in stream(connection, _COUNTERS):
        counters[Counted._make(name)] = number

    versions: dict[str, int] = {}
    async for namespace, number in stream(connection, _VERSIONS):
        versions[namespace] = number

    findings = integrity_check.report(counters, versions)
    return [*findings, await check_history(connection)]
