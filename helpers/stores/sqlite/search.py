"""What search looks into: full-text tables of every one, two and three characters in a row of a folded content."""

import sqlite3
from itertools import pairwise
from typing import NamedTuple


class SearchTerm(NamedTuple):
    """Where a text is looked for: a full-text table, and the text as a question to it."""

    table: str
    match: str


def parse_search(text: str) -> SearchTerm:
    """How to look for a case-folded text of one character or more. What is found holds it: the tables are exact."""
    if len(text) < 3:
        return SearchTerm("search_short", "x".join(f"{ord(c):x}" for c in text))
    return SearchTerm("search", '"' + text.replace('"', '""') + '"')


def add_words(connection: sqlite3.Connection, memory: int, content: str) -> None:
    """Make a memory's content findable."""
    folded = content.casefold()
    connection.execute("INSERT INTO search (rowid, folded) VALUES (?, ?)", (memory, folded))
    connection.execute(
        "INSERT INTO search_short (rowid, grams) VALUES (?, ?)", (memory, split_grams(folded))
    )


def remove_words(connection: sqlite3.Connection, memory: int, content: str) -> None:
    """Take back what `add_words` did; the tables hold no texts, so the content must be the same."""
    folded = content.casefold()
    connection.execute(
        "INSERT INTO search (search, rowid, folded) VALUES ('delete', ?, ?)", (memory, folded)
    )
    connection.execute(
        "INSERT INTO search_short (search_short, rowid, grams) VALUES ('delete', ?, ?)",
        (memory, split_grams(folded)),
    )


def split_grams(folded: str) -> str:
    """Each character and each two in a row, once each, as words that hold their code points."""
    code = {c: f"{ord(c):x}" for c in set(folded)}
    pairs = [f"{code[a]}x{code[b]}" for a, b in set(pairwise(folded))]
    return " ".join([*code.values(), *pairs])
