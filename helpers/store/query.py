"""Queries, search plans and pages of results.

On every engine, a search finds the memories whose searchable text contains every term.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

import orjson

from abilities.helpers.store.model import IMPORTANCES, Row, StoredMemory, is_tags


class Position(NamedTuple):
    """The position of a memory in an order: its value in the sort column, and its id.

    ``place`` is that of its namespace among those that are read, if there are several.
    """

    value: str | int
    id: str
    place: int = 0


@dataclass(frozen=True, slots=True)
class Query:
    """A selection of memories, with an order and a page.

    A filter that is None matches every memory. A memory must have all ``tags``, and its searchable
    text must contain all terms of ``search``, which are case-folded; see `split_search`. It must be
    about the file with the path ``about``; the store puts the ``ids`` of these in place of it.
    ``archived`` includes archived memories. ``sort_by`` is created_at, updated_at, accessed_at,
    importance or access_count; ties are broken by id.
    The page starts after the position ``after``, and then skips ``offset`` memories.
    """

    type: str | None = None
    tags: tuple[str, ...] = ()
    about: str | None = None
    ids: tuple[str, ...] | None = None
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
        """The columns that must have a value, with importance as its index in `IMPORTANCES`."""
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
        """The name and value of the counter of all matches, or None if there is none.

        Counters count memories by one type, importance or tag, but not by combinations of these.
        """
        if self.search or self.category is not None or self.about is not None:
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
    """Numbers of memories in a namespace, for planning.

    ``size`` counts all of them, and ``visible`` all that a query may return: with ``archived`` it
    includes archived memories. ``fewest`` is an upper bound of the matches.
    """

    size: int
    visible: int
    fewest: int


class Matches(NamedTuple):
    """A condition in SQL on rows of the memory index AS s, and the values to bind.

    ``source`` is the FROM clause; if empty, the caller chooses the tables, and ``condition`` is on
    ``s`` alone.
    """

    condition: str
    values: tuple[str | int | list[str], ...]
    source: str = ""


class SearchPlan(NamedTuple):
    """The conditions to find all matches, and to meet them along an index until a page is full.

    ``are_few`` is True if it is cheaper to find and sort all of them. ``total`` is the number of
    matches if known.
    """

    found: Matches
    met: Matches
    are_few: bool = False
    total: int | None = None


class MemoryPage(NamedTuple):
    """A page of matching memories, and the total number of matches.

    ``positions`` has one item per memory, readable or not. ``has_more`` is True if others follow.
    """

    memories: tuple[StoredMemory | Exception, ...]
    total: int
    positions: tuple[Position, ...]
    has_more: bool


class MemoryLine(NamedTuple):
    """A memory in a list, without its content; ``size`` is the content's length in UTF-8 bytes."""

    key: str
    summary: str
    type: str
    size: int
    version: int
    updated_at: str
    archived: bool
    origin: str = ""


SEARCHED_COLUMNS = ("key", "summary", "content", "category", "tags")
"""The columns of a memory that a search covers."""

SEPARATOR = "A"
"""Separates the fields of a searchable text: a case-folded text has no capital letter."""

_TERM = re.compile(r'"([^"]*)"(?= |\Z)|([^ ]+)')


def split_search(text: str) -> tuple[str, ...]:
    """Return the terms of a search, case-folded and without duplicates.

    Terms are separated by spaces. A phrase in double quotes is one term. An unpaired quote is an
    ordinary character.

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
    """Return the searchable text of a memory: its `SEARCHED_COLUMNS`, case-folded."""
    return fold_columns(row.key, row.summary, row.content, row.category, row.tags)


def fold_columns(*columns: object) -> str:
    """Return the searchable text of a memory from its `SEARCHED_COLUMNS`.

    Damage can give a column any type. A column that is not a text is left out, and so are tags that
    are not a JSON list of strings.
    """
    *fields, tags = columns
    texts = [field for field in fields if isinstance(field, str)]

    try:
        parsed: object = orjson.loads(tags)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        parsed = None
    if is_tags(parsed):
        texts += parsed

    return SEPARATOR.join(text.casefold() for text in texts)
