"""The search index: full-text tables of all runs of one to three characters in the memories.

Each memory has one searchable text there, see `abilities.helpers.stores.search_text`.
"""

import sqlite3
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import NamedTuple
from zlib import crc32

from abilities.helpers.stores.search_text import SEARCHED_COLUMNS, SEPARATOR, fold_columns
from abilities.helpers.stores.sqlite.log import StoreConnection

# As bytes, because a damaged text need not be UTF-8.
_COLUMNS = ", ".join(f"CAST({name} AS BLOB)" for name in SEARCHED_COLUMNS)
HAS_TERMS = f"(SELECT has_terms(?, {_COLUMNS}) FROM memories WHERE rowid = s.memory)"
"""Whether the memory of a row of the memory index, ``s``, has all terms, joined by `SEPARATOR`."""


class SearchSource(NamedTuple):
    """Where the memories with all terms of a search are found: a FROM clause without its joins.

    ``condition`` holds for the rowids of these memories, with ``values`` bound.
    """

    table: str
    condition: str
    values: tuple[str, ...]


def plan_search(terms: Sequence[str]) -> SearchSource:
    """Return how to search for case-folded terms, one at least.

    A memory matches if and only if its searchable text contains them all: both tables are exact.
    """
    long_terms = [_quote(term) for term in terms if len(term) >= 3]
    short_terms = [_join_code_points(term) for term in terms if len(term) < 3]
    long_match = " AND ".join(long_terms)
    short_match = " AND ".join(short_terms)

    if not short_terms:
        return SearchSource("search", "search MATCH ?", (long_match,))
    if not long_terms:
        return SearchSource("search_short", "search_short MATCH ?", (short_match,))

    has_short = "search.rowid IN (SELECT rowid FROM search_short WHERE search_short MATCH ?)"
    return SearchSource("search", f"search MATCH ? AND {has_short}", (long_match, short_match))


def has_terms(terms: str, *columns: bytes) -> bool:
    """Return whether a memory has all terms; they are joined by `SEPARATOR`.

    The columns are the `SEARCHED_COLUMNS`, in UTF-8. This is for SQL.
    """
    key, summary, content, category, tags = columns

    # Most terms stand in the content, and then the other columns need no folding.
    text = content.decode(errors="replace").casefold()
    missing = [term for term in terms.split(SEPARATOR) if term not in text]
    if not missing:
        return True

    searchable = _fold(key, summary, b"", category, tags)
    return all(term in searchable for term in missing)


def add_text(connection: sqlite3.Connection, memory: int, text: str) -> None:
    """Add a memory's searchable text to the index; ``memory`` is the memory's rowid."""
    postponed = _find_postponed(connection)
    if postponed is not None:
        postponed.append((memory, text))
    else:
        _add(connection, [(memory, text)])


@contextmanager
def postpone_texts(connection: sqlite3.Connection) -> Generator[list[tuple[int, str]]]:
    """Let texts be added together at the end of the context, which takes less time.

    In a savepoint the index is written before each of most statements. The context yields the texts
    that wait; if what was done is undone, they are to be as they were before.
    """
    assert isinstance(connection, StoreConnection), "a writer's connection"
    connection.postponed_texts = []
    try:
        yield connection.postponed_texts
        _add_postponed(connection)
    finally:
        connection.postponed_texts = None


def _find_postponed(connection: sqlite3.Connection) -> list[tuple[int, str]] | None:
    if isinstance(connection, StoreConnection):
        return connection.postponed_texts

    return None


def _add_postponed(connection: sqlite3.Connection) -> None:
    """Add the texts that wait, because something depends on them."""
    postponed = _find_postponed(connection)
    if postponed:
        _add(connection, postponed)
        postponed.clear()


def _add(connection: sqlite3.Connection, texts: Sequence[tuple[int, str]]) -> None:
    connection.executemany("INSERT INTO search (rowid, folded) VALUES (?, ?)", texts)
    grams = [(memory, split_grams(text)) for memory, text in texts]
    connection.executemany("INSERT INTO search_short (rowid, grams) VALUES (?, ?)", grams)


def remove_text(connection: sqlite3.Connection, memory: int, text: str) -> None:
    """Remove a memory's searchable text from the index.

    ``text`` must be the one that was added, because the tables hold no texts to compare with.
    """
    _remove(connection, memory, text, split_grams(text))


def _remove(connection: sqlite3.Connection, memory: int, folded: str, grams: str) -> None:
    _add_postponed(connection)
    connection.execute(
        "INSERT INTO search (search, rowid, folded) VALUES ('delete', ?, ?)", (memory, folded)
    )
    connection.execute(
        "INSERT INTO search_short (search_short, rowid, grams) VALUES ('delete', ?, ?)",
        (memory, grams),
    )


def remove_indexed_text(connection: sqlite3.Connection, memory: int) -> None:
    """Remove whatever the search index has of a memory; nothing if it has no entry.

    This reads the whole index, and is for memories that are damaged themselves.
    """
    _add_postponed(connection)
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
    """Return which full-text tables are not made of the texts of the memories.

    A sum over all terms tells, because finding the entries of each memory would take hours.
    """
    connection.create_function("weigh", 1, _weigh, deterministic=True)
    connection.create_function("weigh_grams", -1, _weigh_grams, deterministic=True)
    connection.create_function("count_trigrams", -1, _count_trigrams, deterministic=True)

    long = _open_vocabulary(connection, "search", "row")
    short = _open_vocabulary(connection, "search_short", "row")
    ((indexed_trigrams, indexed_grams),) = connection.execute(
        f"SELECT (SELECT coalesce(sum(cnt), 0) FROM {long}),"
        f" (SELECT coalesce(sum(doc * weigh(term)), 0) FROM {short})"
    ).fetchall()
    ((trigrams, grams),) = connection.execute(
        f"SELECT coalesce(sum(count_trigrams({_COLUMNS})), 0),"
        f" coalesce(sum(weigh_grams({_COLUMNS})), 0) FROM memories"
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


def _weigh_grams(*columns: bytes) -> int:
    return sum(map(_weigh, split_grams(_fold(*columns)).split()))


def _count_trigrams(*columns: bytes) -> int:
    return max(len(_fold(*columns)) - 2, 0)


def _fold(*columns: bytes) -> str:
    """Return the searchable text of a memory from its `SEARCHED_COLUMNS` in UTF-8."""
    texts = [column.decode(errors="replace") for column in columns]
    return fold_columns(*texts)


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


def _join_code_points(text: str) -> str:
    return "x".join(map(_format_code_point, text))


def _quote(text: str) -> str:
    escaped = text.replace('"', '""')
    return f'"{escaped}"'
