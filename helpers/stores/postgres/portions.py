"""Reading portions of all memories from PostgreSQL, links included, in few statements."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from abilities.helpers.stores.model import LinkRecord
from abilities.helpers.stores.postgres.ranking import LINK_COLUMNS
from abilities.helpers.stores.postgres.reads import COLUMNS, LINK_TOTALS, MemoryRecord
from abilities.helpers.stores.postgres.statements import Connection, Select


class _NamespacedLink(NamedTuple):
    """A link of any namespace."""

    namespace: str
    link: LinkRecord

    @classmethod
    def parse(cls, columns: Sequence[Any]) -> "_NamespacedLink":
        """Make a record of the columns of ``_LINKS_BETWEEN``."""
        namespace, *values = columns
        return cls(namespace, LinkRecord._make(values))


_MEMORIES_AFTER = Select(
    f"""
    SELECT {COLUMNS}, m.hash, coalesce(s.accessed_at, m.created_at), coalesce(s.access_count, 0),
        {LINK_TOTALS}
    FROM memories AS m LEFT JOIN shelf AS s ON s.namespace = m.namespace AND s.id = m.id
    LEFT JOIN link_counts AS c ON c.namespace = m.namespace AND c.key = m.key
    WHERE (m.namespace, m.key) > (%s, %s) ORDER BY m.namespace, m.key LIMIT %s
    """,
    MemoryRecord.parse,
)
_LINKS_BETWEEN = Select(
    f"""
    SELECT l.namespace, {LINK_COLUMNS} FROM links AS l
    WHERE (l.namespace, l.source) > (%s, %s) AND (l.namespace, l.source) <= (%s, %s)
    ORDER BY l.namespace, l.source, l.target, l.type
    """,
    _NamespacedLink.parse,
)


async def read_memories_after(
    connection: Connection, after: tuple[str, str], limit: int
) -> list[MemoryRecord]:
    """Return up to ``limit`` memories without links, by namespace and key, from after one on."""
    return await _MEMORIES_AFTER.fetch(connection, *after, limit)


async def read_links_between(
    connection: Connection, after: tuple[str, str], last: tuple[str, str]
) -> dict[tuple[str, str], list[LinkRecord]]:
    """Return all links by namespace and source, of the sources after one and up to another.

    The links of a source stand by target and type, damaged or not.
    """
    links: dict[tuple[str, str], list[LinkRecord]] = {}
    for namespace, link in await _LINKS_BETWEEN.fetch(connection, *after, *last):
        links.setdefault((namespace, link.source), []).append(link)

    return links
