"""The schema of an SQLite store: how it is created, upgraded and recognized."""

import sqlite3
from functools import cache
from importlib.resources import files
from pathlib import Path

from abilities.declarations.faults import Refused

APPLICATION_ID = 0x61676D65
"""'agme' in ASCII; in the header of the file, it tells a store from any other SQLite database."""


@cache
def load_migrations() -> tuple[str, ...]:
    """Return the scripts that make a store, in order.

    The version of a store is the number of scripts that it has been through.
    """
    folder = files("abilities.helpers.stores.sqlite")
    return (folder.joinpath("schema.sql").read_text(encoding="utf-8"),)


def read_version(connection: sqlite3.Connection) -> int:
    """Return the version of a database that may be a store. Raises Refused as `check_version`."""
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    if application_id != APPLICATION_ID:
        raise Refused("corrupted")

    return check_version(connection)


def check_version(connection: sqlite3.Connection) -> int:
    """Return the version of a store. Raises Refused: corrupted, schema_too_new.

    Every transaction checks it again, because a newer process may have upgraded the store in the
    meantime.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version < 1:
        raise Refused("corrupted")
    if version > len(load_migrations()):
        raise Refused("schema_too_new")

    return int(version)


def is_outdated(connection: sqlite3.Connection) -> bool:
    """Return whether a store has migrations to go through."""
    return read_version(connection) < len(load_migrations())


def create(path: Path) -> None:
    """Create a store in an empty file."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        upgrade(connection)
    finally:
        connection.close()


def upgrade(connection: sqlite3.Connection) -> None:
    """Run the migrations that a store has not been through, each in a transaction of its own."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()

    # The version moves in the same transaction, so that a crash leaves no step half done.
    for number, script in enumerate(load_migrations()[version:], version + 1):
        connection.executescript(
            f"BEGIN IMMEDIATE; {script} PRAGMA user_version = {number}; COMMIT;"
        )
