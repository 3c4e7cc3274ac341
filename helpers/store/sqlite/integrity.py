"""The integrity check of an SQLite store: its pages, its hashes, and all that is derived."""

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from functools import partial
from pathlib import Path

from abilities.helpers.store.checking import build_finding, check_rows
from abilities.helpers.store.protocol import IntegrityFinding
from abilities.helpers.store.sqlite.file import connect_to_file
from abilities.helpers.store.sqlite.schema import is_older, read_version
from abilities.helpers.store.sqlite.search import compare_index
from abilities.helpers.store.sqlite.transaction import run


def check_store(
    connection: sqlite3.Connection, progress: Callable[[int], None]
) -> list[IntegrityFinding]:
    """Check a snapshot and return the findings in a fixed order.

    After the version comes the file, because damage to it explains the rest. The rows of a store
    that is not migrated yet are not checked. The connection has no transaction, and reads damaged
    texts from then on.
    """
    read_damaged_texts(connection)
    connection.execute("PRAGMA temp_store = FILE")  # finding repeated versions sorts all
    connection.execute("BEGIN")
    try:
        version = _describe_version(connection)
        findings = [version, _check_file(connection)]
        if version.state == "sound":
            findings += _check_rows(connection, progress)

        return findings
    finally:
        connection.rollback()


def _check_rows(
    connection: sqlite3.Connection, progress: Callable[[int], None]
) -> list[IntegrityFinding]:
    try:
        return run(connection, check_rows, progress, compare_index(connection))
    except (sqlite3.Error, UnicodeDecodeError) as error:
        words = f"The store cannot be read to its end: {error}"
        return [IntegrityFinding("store", "damaged", 1, words)]


def read_damaged_texts(connection: sqlite3.Connection) -> None:
    """Let a connection read texts that are no UTF-8, with lone surrogates for their bytes."""
    connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")


def _describe_version(connection: sqlite3.Connection) -> IntegrityFinding:
    """Report the version, and a note if the store is not migrated yet."""
    version = read_version(connection)
    if is_older(connection):
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


def find_damage(
    path: Path,
    progress: Callable[[int], None] = lambda _: None,
    hold: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> list[IntegrityFinding]:
    """Return the damage that a complete check of a file finds. Raises Refused, sqlite3.Error.

    ``hold`` keeps others from writing to it. Of a store of an older version only the file and the
    search index are checked.
    """
    with closing(connect_to_file(path, "rw")) as connection:
        findings = check_store(connection, progress)
        with hold():
            findings.append(check_search_index(connection))

    return [finding for finding in findings if finding.state == "damaged"]


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
