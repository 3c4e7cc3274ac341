"""What memories must be to pass filters, as a condition on their rows in the memory index."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from abilities.helpers.search.recall import Filters
from abilities.helpers.stores.query import Query

_HAS_TAG = "EXISTS (SELECT 1 FROM tags WHERE namespace = s.namespace AND id = s.id AND tag = ?)"


class Condition(NamedTuple):
    """A condition in SQL on rows of the memory index, ``s``, and the values that it binds."""

    text: str
    values: list[str | int]

    @property
    def filter(self) -> str:
        """The condition for rows that are found by their names: no index serves it then."""
        return re.sub(r"\bs\.(\w+) (=|>=) \?", r"FILTER(s.\1) \2 ?", self.text)


def select_passing(filters: Filters) -> Condition:
    """Return the condition of memories that pass filters; the namespace is left to the caller."""
    query = Query(
        type=filters.type,
        category=filters.category,
        importance=filters.importance,
        archived=filters.archived,
    )
    condition = select_matching(query, filters.tags)
    if filters.changed_since is None:
        return condition

    text = f"{condition.text} AND s.updated_at >= ?"
    return Condition(text, [*condition.values, filters.changed_since])


def select_matching(query: Query, tags: Iterable[str]) -> Condition:
    """Return the condition of a query's filters, with ``tags`` in place of its own."""
    conditions = ["true"]
    values: list[str | int] = []

    if not query.archived:
        conditions.append("s.archived = 0")

    for tag in tags:
        conditions.append(_HAS_TAG)
        values.append(tag)

    for name, value in query.filters:
        conditions.append(f"s.{name} = ?")
        values.append(value)

    return Condition(" AND ".join(conditions), values)
