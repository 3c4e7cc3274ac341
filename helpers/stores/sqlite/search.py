"""The search index: full-text tables of all runs of one to three characters in the contents."""

import sqlite3
from itertools import pairwise
from typing import NamedTuple


class SearchTerm(NamedTuple):
    """A search as SQLite takes it: the full-text table to look in, and the expression to match."""

    table: str
    match: str


def parse_search(text: str) -> SearchTerm:
    """Return how to search for a case-folded text of one character or more.

    A memory matches if and only if its folded content contains the text: both tables are exact.
    """
    if len(text) >= 3:
        escaped = text.replace('"', '""')
        return SearchTerm("search", f'"{escaped}"')

    code_points = [_format_code_point(character) for character in text]
    return SearchTerm("search_short", "x".join(code_points))


def add_content(connection: sqlite3.Connection, memory: int, content: str) -> None:
    """Add a memory's content to the search index; ``memory`` is the memory's rowid."""
    folded = content.casefold()
    connection.execute("INSERT INTO search (rowid, folded) VALUES (?, ?)", (memory, folded))
    connection.execute(
        "INSERT INTO search_short (rowid, grams) VALUES (?, ?)", (memory, split_grams(folded))
    )


def remove_content(connection: sqlite3.Connection, memory: int, content: str) -> None:
    """Remove a memory's content from the search index.

    ``content`` must be the one that was added, because the tables hold no texts to compare with.
    """
    folded = content.casefold()
    connection.execute(
        "INSERT INTO search (search, rowid, folded) VALUES ('delete', ?, ?)", (memory, folded)
    )
    connection.execute(
        "INSERT INTO search_short (search_short, rowid, grams) VALUES ('delete', ?, ?)",
        (memory, split_grams(folded)),
    )


def split_grams(folded: str) -> str:
    """Return each character and each pair of neighbors once, as words of hexadecimal code points.

    For example, "ab" gives the words "61", "62" and "61x62", in any order.
    """
    # Each character is formatted once, because this is most of what storing a long content costs.
    codes: dict[str, str] = {}
    for character in set(folded):
        codes[character] = _format_code_point(character)

    pairs: list[str] = []
    for first, second in set(pairwise(folded)):
        pairs.append(f"{codes[first]}x{codes[second]}")

    return " ".join([*codes.values(), *pairs])


def _format_code_point(character: str) -> str:
    return f"{ord(character):x}"  # the tokenizer of the table knows ASCII words only
