"""The integrity check of an SQLite store: its pages, its hashes, and all derived tables."""

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

    The version comes first. The file comes second, because damage to it explains the rest. The rows
    of a store that is not migrated yet are not checked. The connection must have no transaction;
    afterwards it reads damaged texts, see `read_damaged_texts`.
    """
    read_damaged_texts(connection)
    connection.execute("PRAGMA temp_store = FILE")  # the search for repeated versions sorts all
    connection.execute("BEGIN")
    try:
        version = read_version(connection)
        if is_older(connection):
            words = f"The schema version is {version}; the next opening migrates it."
            findings = [IntegrityFinding("version", "note", 1, words)]
        else:
            words = f"The schema version is {version}, the current one."
            findings = [IntegrityFinding("version", "sound", 0, words)]

        try:
            messages = [text for (text,) in connection.execute("PRAGMA integrity_check(20)")]
        except sqlite3.Error as error:
            messages = [str(error)]

        damage = [message for message in messages if message != "ok"]
        sound = "The database file is intact."
        findings.append(build_finding("file", damage, sound, "Errors in the database file"))

        if findings[0].state == "sound":
            try:
                findings += run(connection, check_rows, progress, compare_index(connection))
            except (sqlite3.Error, UnicodeDecodeError) as error:
                words = f"The store cannot be read to its end: {error}"
                findings.append(IntegrityFinding("store", "damaged", 1, words))

        return findings
    finally:
        connection.rollback()


def read_damaged_texts(connection: sqlite3.Connection) -> None:
    """Let a connection read texts that are not UTF-8, with lone surrogates for the wrong bytes."""
    connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")


def find_damage(
    path: Path,
    progress: Callable[[int], None] = lambda _: None,
    hold: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> list[IntegrityFinding]:
    """Return the damage found by a complete check of a file. Raises Refused, sqlite3.Error.

    ``hold`` keeps other processes from writing to it. In a store of an older version, only the file
    and the search index are checked.
    """
    with closing(connect_to_file(path, "rw")) as connection:
        findings = check_store(connection, progress)
        with hold():
            findings.append(check_search_index(connection))

    return [finding for finding in findings if finding.state == "damaged"]


def check_search_index(connection: sqlite3.Connection) -> IntegrityFinding:
    """Let SQLite check the inside of the full-text tables.

    For SQLite this is a write, so that other writers wait until it is done.
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
