"""The schema of an SQLite store: how a store is created, recognized and migrated.

SQLite's user_version contains the version of the schema. Before a migration, a copy of the store is
made and checked.
"""

import logging
import os
import sqlite3
import time
from contextlib import closing
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
from abilities.helpers.store.sqlite.log import StoreConnection
from abilities.helpers.store.sqlite.transaction import RawTransaction, complete

APPLICATION_ID = 0x61676D32
"""'agm2' in ASCII; in the file's header, it distinguishes a store from other SQLite databases."""

_UNPUBLISHED_IDS = (0x61676D65, 0x61676D31)

_LOG_SECONDS = 3.0

_log = logging.getLogger("abilities.store")


HEADER_BYTES = 100


def is_store_header(header: bytes) -> bool:
    """Return whether a file with this header is a database of this package, sound or not.

    See https://www.sqlite.org/fileformat2.html#the_database_header.
    """
    application_id = int.from_bytes(header[68:72], "big")
    is_known = application_id in (APPLICATION_ID, *_UNPUBLISHED_IDS)
    return header.startswith(b"SQLite format 3\0") and is_known


def read_version(connection: sqlite3.Connection) -> int:
    """Return the version of a database that may be a store.

    Raises Refused: schema_unpublished, corrupted, schema_too_new.
    """
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    if application_id in _UNPUBLISHED_IDS:
        raise Refused("schema_unpublished")
    if application_id != APPLICATION_ID:
        raise Refused("corrupted")

    return check_version(connection)


def check_version(connection: sqlite3.Connection) -> int:
    """Return the version of a store. Raises Refused: corrupted, schema_too_new.

    Every transaction checks it again, because a newer process may have migrated the store since the
    last one.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version < 1:
        raise Refused("corrupted")

    migration.check_version(version)
    return int(version)


def is_older(connection: sqlite3.Connection) -> bool:
    """Return whether a store needs a migration. Raises Refused like `read_version`."""
    return read_version(connection) < migration.VERSION


def create(path: Path, language: str) -> None:
    """Create a store in an empty file; ``language`` is that of its recall index."""
    script = files("abilities.helpers.store.sqlite").joinpath("schema.sql")
    statements = script.read_text(encoding="utf-8")

    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.executescript(
            f"BEGIN IMMEDIATE; {statements} PRAGMA user_version = {migration.VERSION};"
        )
        connection.execute("INSERT INTO recall_language VALUES (?)", (language,))
        connection.execute("COMMIT")


def migrate(connection: StoreConnection, path: Path) -> None:
    """Copy a store of an older version, then migrate it; the caller keeps other processes out.

    If the copy cannot be made, nothing is changed. The copy is kept beside the store, and never
    replaces an earlier one. Raises Refused("corrupted") if the pages of the store are damaged;
    OSError, sqlite3.Error.
    """
    if not is_older(connection):  # another process was faster
        return

    logged_at = time.monotonic()

    def report(share: float) -> None:
        nonlocal logged_at
        if time.monotonic() - logged_at >= _LOG_SECONDS:
            logged_at = time.monotonic()
            _log.info("Copying the memory store: %d %%", share * 100)

    _log.info("Copying the memory store %s before it is migrated.", path)
    with reserve_new_file(path) as copy:
        copy_database(connection, copy, report)
        _log.info("Checking the copy.")
        _check_copy(copy)
        set_journal_mode(copy, "DELETE")
        sync_file(copy)

        connection.execute("BEGIN IMMEDIATE")
        try:
            complete(migration.migrate(RawTransaction(connection), read_version(connection)))
            connection.execute(f"PRAGMA user_version = {migration.VERSION}")

            # The copy gets its name only now, or each failed attempt would leave one.
            kept = path.with_name(f"{path.name}.before-{migration.VERSION}")
            numbers = count(2)
            while kept.exists():
                kept = path.with_name(f"{path.name}.before-{migration.VERSION}-{next(numbers)}")
            os.link(copy, kept)
            sync_folder(path.parent)

            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    _log.info("The copy of the memory store from before is %s", kept)


def _check_copy(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as copy:
        read_version(copy)
        # In KiB, and large, because the check looks up every index entry.
        copy.execute("PRAGMA cache_size = -32768")
        messages = copy.execute("PRAGMA integrity_check(1)").fetchall()

    if messages != [("ok",)]:
        _log.error("The memory store cannot be migrated, because it is damaged: %s", *messages[0])
        raise Refused("corrupted")
