"""The integrity check of an SQLite store: its pages, its hashes, and all that is derived."""

import sqlite3
from collections.abc import Callable

from abilities.helpers.store.checking import build_finding, check_rows
from abilities.helpers.store.examining import EngineIndex
from abilities.helpers.store.model import Row
from abilities.helpers.store.protocol import IntegrityFinding
from abilities.helpers.store.sqlite.schema import read_state
from abilities.helpers.store.sqlite.search import compare_index
from abilities.helpers.store.sqlite.transaction import run


def _is_findable(_: Row, has_entry: int) -> bool:
    return bool(has_entry)


INDEX = EngineIndex(
    is_indexed="s.memory = m.rowid",
    is_known="s.memory = m.rowid",
    searched="EXISTS (SELECT 1 FROM search_docsize AS d WHERE d.id = m.rowid)",
    is_findable=_is_findable,
)
"""What the search index has of each memory is compared in sums alone, by `compare_index`."""


def check_store(
    connection: sqlite3.Connection, progress: Callable[[int], None]
) -> list[IntegrityFinding]:
    """Check a snapshot and return the findings in a fixed order.

    After the version comes the file, because damage to it explains the rest. The rows of a store
    that is not migrated yet are not checked.
    """
    version = _describe_version(connection)
    file = _check_file(connection)
    if version.state != "sound":
        return [version, file]

    try:
        wrong = compare_index(connection)
        return [version, file, *run(connection, check_rows, INDEX, progress, wrong)]
    except (sqlite3.Error, UnicodeDecodeError) as error:
        words = f"The store cannot be read to its end: {error}"
        return [version, file, IntegrityFinding("store", "damaged", 1, words)]


def _describe_version(connection: sqlite3.Connection) -> IntegrityFinding:
    """Report the version, and a note if the store is not migrated yet, or not completely."""
    state = read_state(connection)
    version = state.version

    if state.is_migrating:
        words = f"The migration to version {version} is unfinished; the next opening resumes it."
        return IntegrityFinding("version", "note", 1, words)
    if not state.is_current():
        words = f"The schema version is {version}; the next opening migrates it."
        return IntegrityFinding("version", "note", 1, words)

    words = f"The schema version is {version}, the current one."
    return IntegrityFinding("version", "sound", 0, words)


def _check_file(connection: sqlite3.Connection) -> IntegrityFinding:
    """Let SQLite check the pages of the file."""
    try:
        messages = [text for (text,) in connection.execute("PRAGMA integrity_check(20)")]
    except sqlite3.Error as error:
        messages = [str(error)]

    damage = [message for message in messages if message != "ok"]
    return build_finding(
        "file", damage, "The database file is intact.", "Errors in the database file"
    )


def check_search_index(connection: sqlite3.Connection) -> IntegrityFinding:
    """Let SQLite check the inside of the full-text tables.

    SQLite takes this for a write, so that writers wait until it is done.
    """
    damage: list[str] = []
    for table in ("search", "search_short"):
        try:
            connection.execute(f"INSERT INTO {table} ({table}) VALUES ('integrity-check')")
        except sqlite3.Error as error:
            damage.append(f"{table}: {error}")

    return build_finding(
        "index", damage, "The search index is intact.", "Errors in the search index"
    )
