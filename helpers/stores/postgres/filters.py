"""Filters of `recall` as conditions in SQL."""

from typing import NamedTuple

from abilities.helpers.search.recall import Filters
from abilities.helpers.stores.model import IMPORTANCES


class Condition(NamedTuple):
    """A condition as SQL, and the values to bind."""

    condition: str
    values: tuple[object, ...]


def select_passing(table: str, filters: Filters) -> Condition:
    """Return the condition that a memory passes, from the memories themselves as ``table``."""
    return _select(table, filters, filters.importance)


def select_shelved(table: str, filters: Filters) -> Condition:
    """Return the condition that a memory passes, from the memory index as ``table``."""
    importance: int | None = None
    if filters.importance is not None:
        importance = IMPORTANCES.index(filters.importance)

    return _select(table, filters, importance)


def _select(table: str, filters: Filters, importance: object) -> Condition:
    """Return a condition. Its names are our own; values of the caller are bound."""
    conditions = ["true" if filters.archived else f"{table}.archived = 0"]
    values: list[object] = []

    compared = (
        ("type =", filters.type),
        ("category =", filters.category),
        ("importance =", importance),
        ("updated_at >=", filters.changed_since),
    )
    for comparison, value in compared:
        if value is not None:
            conditions.append(f"{table}.{comparison} %s")
            values.append(value)

    for tag in filters.tags:
        conditions.append(
            f"EXISTS (SELECT FROM tags AS t WHERE t.namespace = {table}.namespace"
            f" AND t.id = {table}.id AND t.tag = %s)"
        )
        values.append(tag)

    return Condition(" AND ".join(conditions), tuple(values))
