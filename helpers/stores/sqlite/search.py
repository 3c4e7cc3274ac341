"""The search index: full-text tables of all runs of one to three characters in the contents."""

import sqlite3
from itertools import pairwise
from typing import NamedTuple
from zlib import crc32


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
    _remove(connection, memory, folded, split_grams(folded))


def _remove(connection: sqlite3.Connection, memory: int, folded: str, grams: str) -> None:
    connection.execute(
        "INSERT INTO search (search, rowid, folded) VALUES ('delete', ?, ?)", (memory, folded)
    )
    connection.execute(
        "INSERT INTO search_short (search_short, rowid, grams) VALUES ('delete', ?, ?)",
        (memory, grams),
    )


def remove_indexed_content(connection: sqlite3.Connection, memory: int) -> None:
    """Remove whatever the search index has of a memory; nothing if it has no entry.

    This reads the whole index, and is for memories whose own content is damaged.
    """
    entry = connection.execute("SELECT 1 FROM search_docsize WHERE id = ?", (memory,)).fetchone()
    if entry is None:
        return

    terms = _read_terms(connection, "search", memory)
    folded = ""
    if terms:
        # Each term is three characters, which overlap with those of the next one.
        folded = "".join(term[0] for term in terms) + terms[-1][1:]

    grams = " ".join(_read_terms(connection, "search_short", memory))
    _remove(connection, memory, folded, grams)


def _read_terms(connection: sqlite3.Connection, table: str, memory: int) -> list[str]:
    """Return the terms that a full-text table has of a memory, in their order if it knows one."""
    vocabulary = _open_vocabulary(connection, table, "instance")
    cursor = connection.execute(
        f"SELECT term FROM {vocabulary} WHERE doc = ? ORDER BY offset", (memory,)
    )
    return [term for (term,) in cursor]


def compare_index(connection: sqlite3.Connection) -> list[str]:
    """Return which full-text tables are not made of the contents of the memories.

    A sum over all terms tells, because finding the entries of each memory would take hours.
    """
    connection.create_function("weigh", 1, _weigh, deterministic=True)
    connection.create_function("weigh_grams", 1, _weigh_grams, deterministic=True)
    connection.create_function("count_trigrams", 1, _count_trigrams, deterministic=True)

    long = _open_vocabulary(connection, "search", "row")
    short = _open_vocabulary(connection, "search_short", "row")
    ((indexed_trigrams, indexed_grams),) = connection.execute(
        f"SELECT (SELECT coalesce(sum(cnt), 0) FROM {long}),"
        f" (SELECT coalesce(sum(doc * weigh(term)), 0) FROM {short})"
    ).fetchall()
    ((trigrams, grams),) = connection.execute(
        "SELECT coalesce(sum(count_trigrams(content)), 0), coalesce(sum(weigh_grams(content)), 0)"
        " FROM memories"
    ).fetchall()

    wrong: list[str] = []
    if trigrams != indexed_trigrams:
        wrong.append("search")
    if grams != indexed_grams:
        wrong.append("search_short")

    return wrong


def _open_vocabulary(connection: sqlite3.Connection, table: str, kind: str) -> str:
    """Return the name of a table of the terms of a full-text table; ``kind`` is fts5vocab's."""
    name = f"temp.{table}_{kind}"
    ((query_only,),) = connection.execute("PRAGMA query_only").fetchall()

    # A temporary table counts as a change, which a reader may not make.
    connection.execute("PRAGMA query_only = OFF")
    try:
        connection.execute(
            f"CREATE VIRTUAL TABLE IF NOT EXISTS {name} USING fts5vocab(main, {table}, {kind})"
        )
    finally:
        connection.execute(f"PRAGMA query_only = {query_only}")

    return name


def _weigh(term: str) -> int:
    return crc32(term.encode())


def _weigh_grams(content: object) -> int:
    if not isinstance(content, str):  # damage can give a content any type
        return 0

    return sum(map(_weigh, split_grams(content.casefold()).split()))


def _count_trigrams(content: object) -> int:
    if not isinstance(content, str):
        return 0

    return max(len(content.casefold()) - 2, 0)


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
