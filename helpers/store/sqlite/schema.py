"""The schema of an SQLite store: its version, how a store is created, and how it is recognized.

SQLite's user_version holds the version of the schema.
"""

import sqlite3
from importlib.resources import files
from pathlib import Path

from abilities.declarations.faults import Refused
from abilities.helpers.store import migration

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
