"""What a check and a repair look at: each row beside what it must be, on every engine."""

from collections.abc import AsyncIterator, Callable
from itertools import islice
from typing import Any, NamedTuple

import orjson

from abilities.declarations.faults import Refused
from abilities.helpers.store.deriving import INDEX_COLUMNS, IndexRow, build_index_row
from abilities.helpers.store.model import LinkRecord, Row, verify_saved
from abilities.helpers.store.ranking import ARE_STALE, LinkEnds, StaleMark
from abilities.helpers.store.transaction import Transaction


class EngineIndex(NamedTuple):
    """How the indexes of an engine know a memory; texts are SQL of a memory m.

    A row s of the memory index is the one of m if ``is_indexed``, and may be if ``is_known``.
    ``searched`` is what the search index has of m, and ``is_findable`` whether that is right.
    """

    is_indexed: str
    is_known: str
    searched: str
    is_findable: Callable[[Row, Any], bool]


class ExaminedMemory(NamedTuple):
    """A memory, and what of it is right; a damaged one has nothing that is."""

    row: Row
    hash: int
    is_sound: bool
    is_indexed: bool = False
    has_tags: bool = False
    is_findable: bool = False


class ExaminedLink(NamedTuple):
    """A link, and what of it is right. It dangles if its target is missing."""

    namespace: str
    record: LinkRecord
    is_ranked: bool
    is_dangling: bool


_MEMORY_COLUMNS = ", ".join(f"m.{name}" for name in (*Row._fields, "hash"))
_INDEX_COLUMNS = ", ".join(f"s.{name}" for name in INDEX_COLUMNS)
_LINK_COLUMNS = ", ".join(f"l.{name}" for name in LinkRecord._fields)
_MEMORIES = f"""
SELECT {_MEMORY_COLUMNS}, {{index.searched}}, (
    SELECT JSON_LIST(t.tag) FROM tags AS t
    WHERE t.namespace = m.namespace AND t.id = m.id AND t.archived = m.archived
), {_INDEX_COLUMNS}
FROM memories AS m
LEFT JOIN shelf AS s ON s.namespace = m.namespace AND s.id = m.id AND {{index.is_indexed}}
"""
_LINKS = f"""
SELECT l.namespace, {_LINK_COLUMNS}, t.archived, t.score, s.archived, s.score, {ARE_STALE}
FROM links AS l
LEFT JOIN memories AS t ON t.namespace = l.namespace AND t.key = l.target
LEFT JOIN memories AS s ON s.namespace = l.namespace AND s.key = l.source
"""
MARKS = f"SELECT namespace, {', '.join(StaleMark._fields)} FROM stale_ranks"

COUNT_MEMORIES = """
SELECT namespace, 'all' AS name, archived, '' AS value, count(*) AS number FROM shelf {where}
GROUP BY namespace, archived
UNION ALL SELECT namespace, 'size', archived, '', sum(size) FROM shelf {where}
GROUP BY namespace, archived
UNION ALL SELECT namespace, 'type', archived, type, count(*) FROM shelf {where}
GROUP BY namespace, archived, type
UNION ALL SELECT namespace, 'importance', archived, CAST(importance AS text), count(*)
FROM shelf {where} GROUP BY namespace, archived, importance
UNION ALL SELECT namespace, 'tag', archived, tag, count(*) FROM tags {where}
GROUP BY namespace, archived, tag
"""
"""The counters as the indexes of memories and of tags imply them."""

COUNT_LINKS = """
SELECT namespace, key, sum(outgoing) AS outgoing, sum(incoming) AS incoming FROM (
    SELECT namespace, source AS key, count(*) AS outgoing, 0 AS incoming FROM links {where}
    GROUP BY namespace, source
    UNION ALL SELECT namespace, target, 0, count(*) FROM links {where} GROUP BY namespace, target
) AS ends GROUP BY namespace, key
"""
"""The numbers of links of each key and to it."""


async def examine_memories(
    transaction: Transaction, index: EngineIndex, namespace: str | None = None
) -> AsyncIterator[ExaminedMemory]:
    """Yield each memory of a store, or of a namespace, with what of it is right."""
    statement = _MEMORIES.format(index=index)
    values: list[str] = []
    if namespace is not None:
        statement, values = f"{statement} WHERE m.namespace = ?", [namespace]

    async for columns in transaction.stream(statement, *values):
        # Taken apart by the fields of their types, so that no position is written down.
        rest = iter(columns)
        row = Row._make(islice(rest, len(Row._fields)))
        stored_hash = next(rest)
        if not _is_sound(row, stored_hash):
            yield ExaminedMemory(row, stored_hash, False)
            continue

        searched, tags = next(rest), next(rest)
        is_indexed = IndexRow._make(rest) == build_index_row(row)
        has_tags = _have_same_tags(row.tags, tags)
        is_findable = index.is_findable(row, searched)
        yield ExaminedMemory(row, stored_hash, True, is_indexed, has_tags, is_findable)


async def examine_links(
    transaction: Transaction, namespace: str | None = None
) -> AsyncIterator[ExaminedLink]:
    """Yield each link of a store, or of a namespace, with what of it is right."""
    statement, values = _LINKS, list[str]()
    if namespace is not None:
        statement, values = f"{_LINKS} WHERE l.namespace = ?", [namespace]

    width = len(LinkRecord._fields)
    async for place, *columns in transaction.stream(statement, *values):
        record = LinkRecord._make(columns[:width])
        ends = LinkEnds._make(columns[width:])
        is_ranked = record.is_sound and ends.confirm_ranks(record)
        yield ExaminedLink(place, record, is_ranked, ends.target_archived is None)


def _is_sound(row: Row, stored_hash: int) -> bool:
    """Return whether a memory is as it was written, and its values are possible."""
    try:
        verify_saved(row, stored_hash)
    except Refused:
        return False

    return True


def _have_same_tags(tags: str, indexed: str) -> bool:
    """Return whether two JSON arrays hold the same tags; damage can make the second one no JSON."""
    try:
        return bool(sorted(orjson.loads(tags)) == sorted(orjson.loads(indexed)))
    except ValueError:
        return False
