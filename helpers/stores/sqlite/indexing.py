"""What finds memories by their texts, kept in step with each write: search and recall."""

import sqlite3

from abilities.helpers.stores.model import Row
from abilities.helpers.stores.search_text import fold_searchable
from abilities.helpers.stores.sqlite.recall_index import (
    add_terms,
    change_terms,
    remove_indexed_terms,
    remove_terms,
)
from abilities.helpers.stores.sqlite.search import add_text, remove_indexed_text, remove_text


def index_texts(connection: sqlite3.Connection, memory: int, row: Row) -> None:
    """Add a new memory; ``memory`` is its rowid."""
    add_text(connection, memory, fold_searchable(row))
    add_terms(connection, memory, row)


def reindex_texts(connection: sqlite3.Connection, memory: int, before: Row, after: Row) -> None:
    """Let the indexes follow a change of a memory."""
    text_before, text_after = fold_searchable(before), fold_searchable(after)
    if text_before != text_after:
        remove_text(connection, memory, text_before)
        add_text(connection, memory, text_after)

    change_terms(connection, memory, before, after)


def unindex_texts(connection: sqlite3.Connection, memory: int, row: Row) -> None:
    """Remove a memory; ``row`` must be the one that was indexed."""
    remove_text(connection, memory, fold_searchable(row))
    remove_terms(connection, memory, row)


def renew_texts(connection: sqlite3.Connection, memory: int, row: Row) -> None:
    """Index a memory anew that was damaged, so that nobody knows what was indexed of it."""
    remove_indexed_text(connection, memory)
    remove_indexed_terms(connection, memory)
    index_texts(connection, memory, row)
