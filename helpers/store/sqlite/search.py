"""The search index: full-text tables of all runs of one to three characters in the memories.

Each memory has one searchable text there, see `abilities.helpers.store.query`.

How an SQLite store is searched: its search index holds the memories of all namespaces.
"""

import sqlite3
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple
from zlib import crc32

from abilities.helpers.store.query import (
    SEARCHED_COLUMNS,
    SEPARATOR,
    Matches,
    Numbers,
    Query,
    SearchPlan,
    fold_columns,
)
from abilities.helpers.store.sqlite.log import StoreConnection

# As bytes, because a damaged text need not be UTF-8.
BYTES_OF_COLUMNS = ", ".join(f"CAST({name} AS BLOB)" for name in SEARCHED_COLUMNS)

_MERGED_PAGES = 2_000
"""Pages of a full-text table that are merged in one transaction, about."""

_TABLES = ("search", "search_short")


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
    """Add a memory's searchable text to the index; ``memory`` is the memory's rowid.

    On a writer's connection it is added at the end of the transaction, with all others.
    """
    postponed = _find_postponed(connection)
    if postponed is not None:
        postponed.append((memory, text))
    else:
        _add(connection, [(memory, text)])


PostponedText = tuple[int, str]
"""The rowid of a memory, and the text that waits to be added for it."""


def list_postponed(connection: sqlite3.Connection) -> list[PostponedText]:
    """Return the texts that wait to be added."""
    return list(_find_postponed(connection) or ())


def postpone(connection: sqlite3.Connection, texts: Sequence[PostponedText]) -> None:
    """Let texts wait for `add_postponed`, and no others.

    Adding many together takes less time: in a savepoint the index is written before each of most
    statements.
    """
    if isinstance(connection, StoreConnection):
        connection.postponed_texts = list(texts)


def _find_postponed(connection: sqlite3.Connection) -> list[PostponedText] | None:
    if isinstance(connection, StoreConnection):
        return connection.postponed_texts

    return None


def add_postponed(connection: sqlite3.Connection) -> None:
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
    add_postponed(connection)
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
    add_postponed(connection)
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


def clear_index(connection: sqlite3.Connection) -> None:
    """Remove all texts from the index. Raises sqlite3.Error."""
    for table in ("search", "search_short"):
        connection.execute(f"INSERT INTO {table} ({table}) VALUES ('delete-all')")


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
        f"SELECT coalesce(sum(count_trigrams({BYTES_OF_COLUMNS})), 0),"
        f" coalesce(sum(weigh_grams({BYTES_OF_COLUMNS})), 0) FROM memories"
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
        codes[character] = format_code_point(character)

    pairs: list[str] = []
    for first, second in set(pairwise(folded)):
        pairs.append(f"{codes[first]}x{codes[second]}")

    return " ".join([*codes.values(), *pairs])


def format_code_point(character: str) -> str:
    """Return a character as the index of short terms names it."""
    return f"{ord(character):x}"  # the tokenizer of the table knows ASCII words only


def begin_merging(connection: sqlite3.Connection) -> None:
    """Begin to merge the full-text tables; what was removed from them is gone in the end.

    See https://www.sqlite.org/fts5.html#the_merge_command.
    """
    for table in _TABLES:
        _merge(connection, table, -_MERGED_PAGES)


def go_on_merging(connection: sqlite3.Connection) -> bool:
    """Merge some pages of the full-text tables; return whether there are further ones."""
    is_unfinished = False
    for table in _TABLES:
        if _merge(connection, table, _MERGED_PAGES):
            is_unfinished = True

    return is_unfinished


def _merge(connection: sqlite3.Connection, table: str, pages: int) -> bool:
    """Return whether anything was merged."""
    changes = connection.total_changes
    connection.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('merge', ?)", (pages,))
    return connection.total_changes - changes >= 2


_SCAN_LIMIT = 1_000
"""Up to so many memories are scanned, if the search index has those of other namespaces too."""

_MATCHES_PER_ROW = 4
"""Matches in the search index that are looked up in the time in which one memory is scanned."""

# The texts stand in another table, and are read for each memory that is met.
_HAS_TERMS = f"(SELECT has_terms(?, {BYTES_OF_COLUMNS}) FROM memories WHERE rowid = s.memory)"
_FIRST_AND_LAST = "SELECT (SELECT min(namespace) FROM shelf), (SELECT max(namespace) FROM shelf)"


def plan_search(
    connection: sqlite3.Connection, namespace: str, query: Query, numbers: Numbers
) -> SearchPlan:
    """Return whether a search begins with the matches of its index, or scans memories."""
    size, visible, fewest = numbers
    scanned = Matches(_HAS_TERMS, (SEPARATOR.join(query.search),))
    is_only = _is_only_namespace(connection, namespace)
    if size <= _SCAN_LIMIT and not is_only:
        return SearchPlan(scanned, scanned, are_few=True)

    # So a count takes no longer than the namespace is large, whatever the others hold.
    source = _find_source(query.search)
    most = _MATCHES_PER_ROW * fewest
    counted = f"SELECT 1 FROM {source.table} WHERE {source.condition} LIMIT ?"
    (number,) = connection.execute(
        f"SELECT count(*) FROM ({counted})", (*source.values, most + 1)
    ).fetchone()
    if number > most:
        return SearchPlan(scanned, scanned)

    total: int | None = None
    if is_only and visible == size and not query.tags and not query.filters:
        total = number
    joined = f"s.memory = {source.table}.rowid AND {source.condition}"
    tables = f"{source.table} CROSS JOIN shelf AS s INDEXED BY shelf_memory"
    found = Matches(joined, source.values, tables)
    if number * number <= size * (query.offset + query.limit):
        return SearchPlan(found, found, are_few=True)
    return SearchPlan(found, scanned, total=total)


def _is_only_namespace(connection: sqlite3.Connection, namespace: str) -> bool:
    """Return whether no other namespace has memories."""
    ends = connection.execute(_FIRST_AND_LAST).fetchone()
    return bool(ends == (namespace, namespace))


class _SearchSource(NamedTuple):
    """The full-text table where the memories with all terms are found, and on what condition."""

    table: str
    condition: str
    values: tuple[str, ...]


def _find_source(terms: Sequence[str]) -> _SearchSource:
    """Return how to search for case-folded terms, one at least.

    A memory matches if and only if its searchable text contains them all: both tables are exact.
    """
    long_match = " AND ".join(_quote(term) for term in terms if len(term) >= 3)
    short_match = " AND ".join(_join_code_points(term) for term in terms if len(term) < 3)

    if not short_match:
        return _SearchSource("search", "search MATCH ?", (long_match,))
    if not long_match:
        return _SearchSource("search_short", "search_short MATCH ?", (short_match,))

    has_short = "search.rowid IN (SELECT rowid FROM search_short WHERE search_short MATCH ?)"
    return _SearchSource("search", f"search MATCH ? AND {has_short}", (long_match, short_match))


def _join_code_points(text: str) -> str:
    return "x".join(map(format_code_point, text))


def _quote(text: str) -> str:
    escaped = text.replace('"', '""')
    return f'"{escaped}"'
