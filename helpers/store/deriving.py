"""What follows from a memory: its rows in the indexes, and what counters count of it.

A write stores the difference between what follows from a memory before and after, a check compares
what follows from all memories with what is stored, and a repair writes that difference.
"""

from collections import Counter
from typing import NamedTuple

import orjson

from abilities.declarations.refusals import Refused
from abilities.helpers.store.model import IMPORTANCES, Row


class IndexRow(NamedTuple):
    """A memory's row in the memory index, without its access counters, which nothing can confirm.

    ``importance`` is its index in `IMPORTANCES`; ``size`` is in bytes of UTF-8, content and summary
    together.
    """

    id: str
    key: str
    type: str
    category: str
    importance: int
    archived: int
    size: int
    created_at: str
    updated_at: str


INDEX_COLUMNS = IndexRow._fields


class Counted(NamedTuple):
    """What a counter counts: the memories of a namespace with a value, archived or not.

    ``name`` is all, type, importance or tag; with size, bytes are counted.
    """

    namespace: str
    name: str
    archived: int
    value: str


def build_index_row(row: Row) -> IndexRow:
    """Return what the memory index must have of a row.

    Raises Refused("invalid_stored_value") for a row that no store can have.
    """
    try:
        size = len(row.content.encode()) + len(row.summary.encode())
        importance = IMPORTANCES.index(row.importance)
    except (AttributeError, ValueError):
        raise Refused("invalid_stored_value") from None

    return IndexRow(
        id=row.id,
        key=row.key,
        type=row.type,
        category=row.category,
        importance=importance,
        archived=row.archived,
        size=size,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def list_tags(row: Row) -> list[str]:
    """Return the tags that the tag index must have of a sound row."""
    tags: list[str] = orjson.loads(row.tags)
    return tags


def count_indexed(namespace: str, row: IndexRow) -> Counter[Counted]:
    """Return what counters count of a row in the memory index."""
    archived = row.archived
    return Counter(
        {
            Counted(namespace, "all", archived, ""): 1,
            Counted(namespace, "size", archived, ""): row.size,
            Counted(namespace, "type", archived, row.type): 1,
            Counted(namespace, "importance", archived, str(row.importance)): 1,
        }
    )


def get_rank_score(row: Row | None) -> float | None:
    """Return the score that links to or from a memory rank by; None if they rank last."""
    if row is None or row.archived:
        return None

    return row.score
