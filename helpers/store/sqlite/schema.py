"""The schema of an SQLite store: its version, how a store is created, and how it is recognized.

SQLite's user_version holds the version of the schema.

The migration of an SQLite store, and the checked copy that is made before it.
"""

import logging
import os
import sqlite3
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from importlib.resources import files
from itertools import count
from pathlib import Path

from abilities.declarations.refusals import Refused
from abilities.helpers.durable import sync_folder
from abilities.helpers.store import migration
from abilities.helpers.store.sqlite.copying import (
    copy_database,
    reserve_new_file,
    set_journal_mode,
    sync_file,
)
from abilities.helpers.store.sqlite.transaction import RawTransaction, complete

APPLICATION_ID = 0x61676D32
"""'agm2' in ASCII; in the header of the file, it tells a store from any other SQLite database."""

_UNPUBLISHED_IDS = (0x61676D65, 0x61676D31)
"""Those of stores that were made before the first version was published."""


def is_store(connection: sqlite3.Connection) -> bool:
    """Return whether a file is a database of this package at all, sound or not."""
    try:
        (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
            return False
        raise

    return application_id in (APPLICATION_ID, *_UNPUBLISHED_IDS)


def is_store_header(header: bytes) -> bool:
    """Return whether a file that begins with these 100 bytes is a store.

    See https://www.sqlite.org/fileformat2.html#the_database_header.
    """
    application_id = int.from_bytes(header[68:72], "big")
    is_known = application_id in (APPLICATION_ID, *_UNPUBLISHED_IDS)
    return header.startswith(b"SQLite format 3\0") and is_known


def read_version(connection: sqlite3.Connection) -> int:
    """Return the version of a database that may be a store.

    Raises Refused as `check_version`, and schema_unpublished.
    """
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    if application_id in _UNPUBLISHED_IDS:
        raise Refused("schema_unpublished")
    if application_id != APPLICATION_ID:
        raise Refused("corrupted")

    return check_version(connection)


def check_version(connection: sqlite3.Connection) -> int:
    """Return the version of a store. Raises Refused: corrupted, schema_too_new.

    Every transaction checks it again, because a newer process may have migrated the store in the
    meantime.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version < 1:
        raise Refused("corrupted")

    migration.check_version(version)
    return int(version)


def is_older(connection: sqlite3.Connection) -> bool:
    """Return whether a store is to be migrated. Raises Refused as `read_version`."""
    return read_version(connection) < migration.VERSION


def create(path: Path, language: str) -> None:
    """Create a store in an empty file; ``language`` is that of its recall index."""
    script = files("abilities.helpers.store.sqlite").joinpath("schema.sql")
    statements = script.read_text(encoding="utf-8")

    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.executescript(
            f"BEGIN IMMEDIATE; {statements} PRAGMA user_version = {migration.VERSION};"
        )
        connection.execute("INSERT INTO recall_language VALUES (?)", (language,))
        connection.execute("COMMIT")
    finally:
        connection.close()


_LOG_SECONDS = 3.0
"""Between two lines that say how far the copy is."""

_log = logging.getLogger("abilities.store")


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Copy a store of an older version, and then bring it forward; others are kept out meanwhile.

    Nothing is changed if the copy cannot be made. Raises Refused("corrupted") if it is damaged;
    OSError, sqlite3.Error.
    """
    if not is_older(connection):  # another process was faster
        return

    _log.info("Copying the memory store %s before it is migrated.", path)
    with _make_copy(connection, path) as copy:
        connection.execute("BEGIN IMMEDIATE")
        try:
            complete(migration.migrate(RawTransaction(connection), read_version(connection)))
            connection.execute(f"PRAGMA user_version = {migration.VERSION}")
            kept = _keep_copy(copy, path)  # not before, or each attempt would leave one
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    _log.info("The copy of the memory store from before is %s", kept)


@contextmanager
def _make_copy(connection: sqlite3.Connection, path: Path) -> Generator[Path]:
    """Copy a store beside itself for a while, and check the copy.

    Raises Refused("corrupted") if its pages are damaged: nobody could migrate them.
    """
    logged_at = time.monotonic()

    def report(share: float) -> None:
        nonlocal logged_at
        if time.monotonic() - logged_at >= _LOG_SECONDS:
            logged_at = time.monotonic()
            _log.info("Copying the memory store: %d %%", share * 100)

    with reserve_new_file(path) as copy:
        copy_database(connection, copy, report)
        _log.info("Checking the copy.")
        _check_copy(copy)
        set_journal_mode(copy, "DELETE")
        sync_file(copy)
        yield copy


def _keep_copy(copy: Path, path: Path) -> Path:
    """Give the copy of a store a name; an earlier copy is never replaced."""
    name = path.with_name(f"{path.name}.before-{migration.VERSION}")
    for number in count(2):
        if not name.exists():
            break
        name = path.with_name(f"{path.name}.before-{migration.VERSION}-{number}")

    os.link(copy, name)
    sync_folder(path.parent)
    return name


def _check_copy(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as copy:
        read_version(copy)
        copy.execute("PRAGMA cache_size = -32768")  # in KiB; the check looks up every index entry
        messages = copy.execute("PRAGMA integrity_check(1)").fetchall()

    if messages != [("ok",)]:
        _log.error("The memory store cannot be migrated, because it is damaged: %s", *messages[0])
        raise Refused("corrupted")
