"""The migration of an SQLite store, and the checked copy that is made before it."""

import logging
import os
import sqlite3
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

from abilities.declarations.faults import Refused
from abilities.helpers.durable import sync_folder
from abilities.helpers.store import migration
from abilities.helpers.store.sqlite import schema
from abilities.helpers.store.sqlite.copying import (
    copy_database,
    reserve_new_file,
    set_journal_mode,
    sync_file,
)
from abilities.helpers.store.sqlite.transaction import RawTransaction, complete

_LOG_SECONDS = 3.0
"""Between two lines that say how far the copy is."""

_log = logging.getLogger("abilities.store")


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Copy a store of an older version, and then bring it forward; others are kept out meanwhile.

    Nothing is changed if the copy cannot be made. Raises Refused("corrupted") if it is damaged;
    OSError, sqlite3.Error.
    """
    if not schema.is_older(connection):  # another process was faster
        return

    _log.info("Copying the memory store %s before it is migrated.", path)
    with _make_copy(connection, path) as copy:
        connection.execute("BEGIN IMMEDIATE")
        try:
            complete(migration.migrate(RawTransaction(connection), schema.read_version(connection)))
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
        schema.read_version(copy)
        copy.execute("PRAGMA cache_size = -32768")  # in KiB; the check looks up every index entry
        messages = copy.execute("PRAGMA integrity_check(1)").fetchall()

    if messages != [("ok",)]:
        _log.error("The memory store cannot be migrated, because it is damaged: %s", *messages[0])
        raise Refused("corrupted")
