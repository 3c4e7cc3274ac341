"""The search index of an SQLite store, and how a search uses it.

The index consists of two full-text tables with all runs of one to three characters in the memories
of all namespaces. Each memory has one searchable text in it, see `abilities.helpers.store.engine`.
"""

import sqlite3
from collections.abc import Sequence
from itertools import pairwise
from zlib import crc32

from abilities.helpers.store.engine import (
    SEARCHED_COLUMNS,
    SEPARATOR,
    Matches,
    Numbers,
    SearchPlan,
    fold_columns,
)
from abilities.helpers.store.model import Query
from abilities.helpers.store.sqlite.connection import StoreConnection

# As bytes, because a damaged text may not be UTF-8.
BYTES_OF_COLUMNS = ", ".join(f"CAST({name} AS BLOB)" for name in SEARCHED_COLUMNS)

_MERGED_PAGES = 2_000
"""The approximate number of pages of a full-text table that one transaction merges."""

_SCAN_LIMIT = 1_000
"""A namespace with no more memories than this is scanned, if there are other namespaces."""

_MATCHES_PER_ROW = 4
"""How many index matches can be looked up in the time that it takes to scan one memory."""

_TABLES = ("search", "search_short")

# The texts are in another table, and are read only for memories that the scan reaches.
_HAS_TERMS = f"(SELECT has_terms(?, {BYTES_OF_COLUMNS}) FROM memories WHERE rowid = s.memory)"
_FIRST_AND_LAST = "SELECT (SELECT min(namespace) FROM shelf), (SELECT max(namespace) FROM shelf)"


def has_terms(terms: str, *columns: bytes) -> bool:
    """Return whether a memory has all terms, as a function for SQL.

    The terms are joined by `SEPARATOR`. The columns are the `SEARCHED_COLUMNS`, in UTF-8.
    """
    key, summary, content, category, tags = columns

    # Most terms are in the content, and then the other columns need not be folded.
    text = content.decode(errors="replace").casefold()
    missing = [term for term in terms.split(SEPARATOR) if term not in text]
    if not missing:
        return True

    searchable = _fold(key, summary, b"", category, tags)
    return all(term in searchable for term in missing)


def add_text(connection: StoreConnection, memory: int, text: str) -> None:
    """Add a memory's searchable text to the index; ``memory`` is the memory's rowid.

    On the writer's connection, all texts are added together at the end of the transaction, because
    in a savepoint the index is written before almost every statement.
    """
    if connection.postponed_texts is not None:
        connection.postponed_texts.append((memory, text))
    else:
        _add(connection, [(memory, text)])


def add_postponed(connection: StoreConnection) -> None:
    """Add the postponed texts to the index now."""
    if connection.postponed_texts:
        _add(connection, connection.postponed_texts)
        connection.postponed_texts.clear()


def _add(connection: sqlite3.Connection, texts: Sequence[tuple[int, str]]) -> None:
    connection.executemany("INSERT INTO search (rowid, folded) VALUES (?, ?)", texts)
    grams = [(memory, split_grams(text)) for memory, text in texts]
    connection.executemany("INSERT INTO search_short (rowid, grams) VALUES (?, ?)", grams)


def remove_text(
    connection: StoreConnection, memory: int, text: str, grams: str | None = None
) -> None:
    """Remove a memory's searchable text from the index.

    ``text`` must be the one that was added, because the tables do not store the texts.
    """
    add_postponed(connection)
    for table, column, words in (
        ("search", "folded", text),
        ("search_short", "grams", split_grams(text) if grams is None else grams),
    ):
        connection.execute(
            f"INSERT INTO {table} ({table}, rowid, {column}) VALUES ('delete', ?, ?)",
            (memory, words),
        )


def remove_indexed_text(connection: StoreConnection, memory: int) -> None:
    """Remove a memory from the index without knowing the text that was added, if it has an entry.

    This reads the whole index. It is for damaged memories, whose text is unknown.
    """
    add_postponed(connection)
    entry = connection.execute("SELECT 1 FROM search_docsize WHERE id = ?", (memory,)).fetchone()
    if entry is None:
        return

    terms = _read_terms(connection, "search", memory)
    folded = ""
    if terms:
        # A term is three characters; all but the first one overlap with the next term.
        folded = "".join(term[0] for term in terms) + terms[-1][1:]

    grams = " ".join(_read_terms(connection, "search_short", memory))
    remove_text(connection, memory, folded, grams)


def _read_terms(connection: sqlite3.Connection, table: str, memory: int) -> list[str]:
    """Return a memory's terms in a full-text table, in their order if the table keeps it."""
    vocabulary = _open_vocabulary(connection, table, "instance")
    cursor = connection.execute(
        f"SELECT term FROM {vocabulary} WHERE doc = ? ORDER BY offset", (memory,)
    )
    return [term for (term,) in cursor]


def clear_index(connection: sqlite3.Connection) -> None:
    """Remove all texts from the index. Raises sqlite3.Error."""
    for table in _TABLES:
        connection.execute(f"INSERT INTO {table} ({table}) VALUES ('delete-all')")


def compare_index(connection: sqlite3.Connection) -> list[str]:
    """Return the names of full-text tables that do not match the texts of the memories.

    The connection must be allowed to change data, because a temporary table counts as a change.
    Sums over all terms are compared, because finding the entries of each memory would take hours.
    """

    def weigh(term: str) -> int:
        return crc32(term.encode())

    def weigh_grams(*columns: bytes) -> int:
        return sum(map(weigh, split_grams(_fold(*columns)).split()))

    def count_trigrams(*columns: bytes) -> int:
        return max(len(_fold(*columns)) - 2, 0)

    connection.create_function("weigh", 1, weigh, deterministic=True)
    connection.create_function("weigh_grams", -1, weigh_grams, deterministic=True)
    connection.create_function("count_trigrams", -1, count_trigrams, deterministic=True)

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

    equal = {"search": trigrams == indexed_trigrams, "search_short": grams == indexed_grams}
    return [table for table, is_equal in equal.items() if not is_equal]


def _open_vocabulary(connection: sqlite3.Connection, table: str, kind: str) -> str:
    """Return the name of an fts5vocab table of this kind, with the terms of a full-text table."""
    name = f"temp.{table}_{kind}"
    connection.execute(
        f"CREATE VIRTUAL TABLE IF NOT EXISTS {name} USING fts5vocab(main, {table}, {kind})"
    )
    return name


def _fold(*columns: bytes) -> str:
    """Return the searchable text of a memory with these `SEARCHED_COLUMNS` in UTF-8."""
    texts = [column.decode(errors="replace") for column in columns]
    return fold_columns(*texts)


def split_grams(folded: str) -> str:
    """Return each character and each pair of neighbors once, as words of hexadecimal code points.

    The words have no particular order.

    >>> sorted(split_grams("ab").split())
    ['61', '61x62', '62']
    """
    # Each character is formatted only once: this is most of the cost of storing a long content.
    codes: dict[str, str] = {}
    for character in set(folded):
        codes[character] = format_code_point(character)

    pairs: list[str] = []
    for first, second in set(pairwise(folded)):
        pairs.append(f"{codes[first]}x{codes[second]}")

    return " ".join([*codes.values(), *pairs])


def format_code_point(character: str) -> str:
    """Return a character as a word for the index of short terms."""
    return f"{ord(character):x}"  # the table's tokenizer only knows ASCII words


def begin_merging(connection: sqlite3.Connection) -> None:
    """Begin to merge the full-text tables; at the end of all merging, removed texts are gone.

    See https://www.sqlite.org/fts5.html#the_merge_command.
    """
    for table in _TABLES:
        _merge(connection, table, -_MERGED_PAGES)


def go_on_merging(connection: sqlite3.Connection) -> bool:
    """Merge some more pages of the full-text tables; return whether any are left."""
    merged = [_merge(connection, table, _MERGED_PAGES) for table in _TABLES]
    return any(merged)


def _merge(connection: sqlite3.Connection, table: str, pages: int) -> bool:
    """Return whether anything was merged."""
    changes = connection.total_changes
    connection.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('merge', ?)", (pages,))
    return connection.total_changes - changes >= 2


def plan_search(
    connection: sqlite3.Connection, namespace: str, query: Query, numbers: Numbers
) -> SearchPlan:
    """Return a plan that begins with the matches in the index, or one that scans memories."""
    size, visible, fewest = numbers
    scanned = Matches(_HAS_TERMS, (SEPARATOR.join(query.search),))
    is_only = _is_only_namespace(connection, namespace)
    if size <= _SCAN_LIMIT and not is_only:
        return SearchPlan(scanned, scanned, are_few=True)

    # The limit bounds the cost of the count by the size of this namespace, not of all.
    condition, values, table = _find_matches(query.search)
    most = _MATCHES_PER_ROW * fewest
    counted = f"SELECT 1 FROM {table} WHERE {condition} LIMIT ?"
    (number,) = connection.execute(
        f"SELECT count(*) FROM ({counted})", (*values, most + 1)
    ).fetchone()
    if number > most:
        return SearchPlan(scanned, scanned)

    total: int | None = None
    if is_only and visible == size and not query.tags and not query.filters:
        total = number
    joined = f"s.memory = {table}.rowid AND {condition}"
    tables = f"{table} CROSS JOIN shelf AS s INDEXED BY shelf_memory"
    found = Matches(joined, values, tables)
    if number * number <= size * (query.offset + query.limit):
        return SearchPlan(found, found, are_few=True)
    return SearchPlan(found, scanned, total=total)


def _is_only_namespace(connection: sqlite3.Connection, namespace: str) -> bool:
    ends = connection.execute(_FIRST_AND_LAST).fetchone()
    return bool(ends == (namespace, namespace))


def _find_matches(terms: Sequence[str]) -> Matches:
    """Return how to find memories with all of these case-folded terms; the tables are exact."""
    long_terms: list[str] = []
    short_terms: list[str] = []
    for term in terms:
        if len(term) >= 3:
            escaped = term.replace('"', '""')
            long_terms.append(f'"{escaped}"')
        else:
            short_terms.append("x".join(map(format_code_point, term)))

    long_match = " AND ".join(long_terms)
    short_match = " AND ".join(short_terms)
    if not short_match:
        return Matches("search MATCH ?", (long_match,), "search")
    if not long_match:
        return Matches("search_short MATCH ?", (short_match,), "search_short")

    has_short = "search.rowid IN (SELECT rowid FROM search_short WHERE search_short MATCH ?)"
    return Matches(f"search MATCH ? AND {has_short}", (long_match, short_match), "search")
