"""The data derived from a memory: its rows in the indexes, and its share in the counters.

A write stores the difference between the derived data before and after it. A check derives all data
again and compares it with the stored data, and a repair writes the difference.
"""

from collections import Counter
from typing import NamedTuple

import orjson

from abilities.declarations.refusals import Refused
from abilities.helpers.store.model import IMPORTANCES, Row


class IndexRow(NamedTuple):
    """A memory's row in the memory index, without the access counters, which are not derived.

    ``importance`` is its index in `IMPORTANCES`. ``size`` is the number of UTF-8 bytes of content
    and summary.
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
    """The key of a counter of memories in a namespace, either archived ones or the others.

    It counts the memories whose ``name``, which is type, importance or tag, has the value. The name
    all counts every memory, and the name size adds up their bytes. For example, ``("default",
    "tag", 0, "tea")`` counts the memories with the tag tea that are not archived.
    """

    namespace: str
    name: str
    archived: int
    value: str


def build_index_row(row: Row) -> IndexRow:
    """Return the row of the memory index for a memory.

    Raises Refused("invalid_stored_value") if the memory's row has an impossible value.
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
    """Return the tags of a sound row."""
    tags: list[str] = orjson.loads(row.tags)
    return tags


def count_indexed(namespace: str, row: IndexRow) -> Counter[Counted]:
    """Return the share of a row of the memory index in each counter."""
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
    """Return the score for ranking links to or from a memory, or None if they rank last."""
    if row is None or row.archived:
        return None

    return row.score
