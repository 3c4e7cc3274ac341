"""What a search looks for, and the text of a memory that it looks into: the same for every store.

A memory is found if its searchable text contains every term of the search.
"""

import re

import orjson

from abilities.helpers.store.model import Row, is_tags

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
