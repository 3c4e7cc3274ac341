"""A query: which memories to return, how an engine finds them, and how they are listed.

A memory is found by a search if its searchable text contains every term: the same on every engine.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

import orjson

from abilities.helpers.store.model import IMPORTANCES, Row, StoredMemory, is_tags


class Position(NamedTuple):
    """Where a memory stands in an order: its value of what is sorted by, and its id."""

    value: str | int
    id: str


@dataclass(frozen=True, slots=True)
class Query:
    """Which memories to return, and in which order.

    A filter that is None matches every memory; of ``tags``, a memory must have all. ``search`` are
    case-folded terms that the memory's searchable text must all contain, see `split_search`.
    ``archived`` includes archived memories. ``sort_by`` is created_at, updated_at, accessed_at,
    importance or access_count; ties are broken by id.
    The page begins behind the position ``after``, and behind ``offset`` memories more.
    """

    type: str | None = None
    tags: tuple[str, ...] = ()
    search: tuple[str, ...] = ()
    importance: str | None = None
    category: str | None = None
    archived: bool = False
    limit: int = 10
    offset: int = 0
    after: Position | None = None
    sort_by: str = "accessed_at"
    descending: bool = True

    @property
    def filters(self) -> list[tuple[str, str | int]]:
        """The columns that must have a value; importance as its index in `IMPORTANCES`."""
        filters: list[tuple[str, str | int]] = []

        if self.type is not None:
            filters.append(("type", self.type))
        if self.importance is not None:
            filters.append(("importance", IMPORTANCES.index(self.importance)))
        if self.category is not None:
            filters.append(("category", self.category))

        return filters

    @property
    def counter(self) -> tuple[str, str] | None:
        """The name and value of the counter that knows how many memories match; None if none does.

        Counters know the memories by at most one of type, importance and tag.
        """
        if self.search or self.category is not None:
            return None

        filters = self.filters
        for tag in self.tags:
            filters.append(("tag", tag))

        if not filters:
            return "all", ""
        if len(filters) > 1:
            return None

        ((name, value),) = filters
        return name, str(value)


class Numbers(NamedTuple):
    """How many memories a namespace holds: in all, not archived ones, and that match at most."""

    size: int
    visible: int
    fewest: int


class Matches(NamedTuple):
    """Memories that have all terms, as rows of the memory index, ``s``, in SQL.

    Without a ``source``, the caller chooses the tables, and ``condition`` is on ``s`` alone.
    """

    condition: str
    values: tuple[str | int, ...]
    source: str = ""


class SearchPlan(NamedTuple):
    """How all matches are found, and how they are met along an order until a page is full.

    ``are_few`` says that finding and sorting all of them takes less; ``total`` is how many memories
    match if that is known.
    """

    found: Matches
    met: Matches
    are_few: bool = False
    total: int | None = None


class MemoryPage(NamedTuple):
    """A page of matching memories, and how many match in all.

    ``positions`` are those of its memories, also of those that cannot be read, and ``has_more``
    says whether others follow.
    """

    memories: tuple[StoredMemory | Exception, ...]
    total: int
    positions: tuple[Position, ...]
    has_more: bool


class MemoryLine(NamedTuple):
    """A memory without its content, as it is listed; ``size`` is its content's bytes in UTF-8."""

    key: str
    summary: str
    type: str
    size: int
    version: int
    updated_at: str
    archived: bool


SEARCHED_COLUMNS = ("key", "summary", "content", "category", "tags")
"""The columns of a memory that a search looks into."""

SEPARATOR = "A"
"""Stands between the fields of a searchable text: no case-folded text has a capital letter."""

_TERM = re.compile(r'"([^"]*)"(?= |\Z)|([^ ]+)')


def split_search(text: str) -> tuple[str, ...]:
    """Return the terms of a search: case-folded, each one once.

    Terms stand between spaces. A phrase in double quotes is one term; a quote that begins or ends
    no phrase is a character like any other.

    >>> split_search('"Ada Lovelace" ADR-007 5"')
    ('ada lovelace', 'adr-007', '5"')
    """
    terms: list[str] = []
    for phrase, word in _TERM.findall(text):
        term = (phrase or word).casefold()
        if term:
            terms.append(term)

    return tuple(dict.fromkeys(terms))


def fold_searchable(row: Row) -> str:
    """Return the case-folded text of a memory that a search looks into."""
    return fold_columns(row.key, row.summary, row.content, row.category, row.tags)


def fold_columns(*columns: object) -> str:
    """Return the searchable text of a memory from its `SEARCHED_COLUMNS`.

    Damage can give a column any type: one that is no text is left out, and so are tags that are no
    list of texts.
    """
    *fields, tags = columns
    texts = [field for field in fields if isinstance(field, str)]
    texts += _parse_tags(tags)

    folded = [text.casefold() for text in texts]
    return SEPARATOR.join(folded)


def _parse_tags(tags: object) -> list[str]:
    """Return the tags of a JSON array; none if damage made it something else."""
    try:
        parsed = orjson.loads(tags)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return []

    if not is_tags(parsed):
        return []

    unique: list[str] = parsed
    return unique
