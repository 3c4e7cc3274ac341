"""Writing the memory index and the tag index in PostgreSQL."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from abilities.helpers.stores.model import IMPORTANCES, AccessCounters, Row
from abilities.helpers.stores.postgres.statements import Connection, Select, Statement


class Shelved(NamedTuple):
    """What only the memory index knows of a memory: its access counters, and its number.

    ``doc`` is its number in the recall index; None if it gets the next one.
    """

    counters: AccessCounters
    doc: int | None

    @classmethod
    def parse(cls, columns: Sequence[Any]) -> "Shelved":
        """Make a record of the columns of ``_UNINDEX_MEMORY``."""
        *counters, doc = columns
        return cls(AccessCounters._make(counters), doc)


_INDEX_MEMORY = Statement("""
    INSERT INTO shelf (namespace, id, key, type, category, importance, archived, size,
        created_at, updated_at, accessed_at, access_count, doc)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s,
        coalesce(%s, (SELECT max(doc) + 1 FROM shelf WHERE namespace = %s), 0))
""")
_UNINDEX_MEMORY = Select(
    """
    DELETE FROM shelf WHERE namespace = %s AND id = %s RETURNING accessed_at, access_count, doc
    """,
    Shelved.parse,
)
_INDEX_TAGS = Statement("""
    INSERT INTO tags (namespace, tag, archived, accessed_at, id)
    SELECT %s, tag, %s, %s, %s FROM unnest(%s::text[]) AS new (tag)
""")
_UNINDEX_TAGS = Statement("DELETE FROM tags WHERE namespace = %s AND id = %s")


async def index_memory(connection: Connection, row: Row, shelved: Shelved) -> None:
    """Add a memory to the memory index and its tags to theirs."""
    content, summary = row.content.encode(), row.summary.encode()
    await _INDEX_MEMORY.execute(
        connection,
        row.namespace,
        row.id,
        row.key,
        row.type,
        row.category,
        IMPORTANCES.index(row.importance),
        row.archived,
        len(content) + len(summary),
        row.created_at,
        row.updated_at,
        *shelved.counters,
        shelved.doc,
        row.namespace,
    )

    tags = orjson.loads(row.tags)
    if tags:
        await _INDEX_TAGS.execute(
            connection,
            row.namespace,
            row.archived,
            shelved.counters.accessed_at,
            row.id,
            tags,
        )


async def unindex_memory(connection: Connection, row: Row) -> Shelved:
    """Remove a memory and its tags from their indexes, and return what only these knew."""
    await _UNINDEX_TAGS.execute(connection, row.namespace, row.id)
    shelved = await _UNINDEX_MEMORY.fetch_first(connection, row.namespace, row.id)

    # Only damage can leave a memory without its row in the index; counting then starts again.
    return shelved or Shelved(AccessCounters(row.created_at, 0), None)
