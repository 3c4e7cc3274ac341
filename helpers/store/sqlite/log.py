"""The write-ahead log of a store in use: its removal is noticed, and its size is bounded.

A connection goes on with a log that was removed, and SQLite does not tell: what it commits then is
lost with the process. Another process would begin a second log for the same database, and the two
would write over each other.
"""

import os
import sqlite3
import time
from pathlib import Path
from typing import NamedTuple

from abilities.declarations.refusals import Refused

IN_USE_SECONDS = 5.0
"""How long another process may take to open or to check a database before it counts as in use."""

KEPT_BYTES = 8 * 1024 * 1024
"""A larger log is cut. Without long reads and large writes it becomes about half as large."""

FileIdentity = tuple[int, int]
"""Device and inode of a file."""


class LogFiles(NamedTuple):
    """The log of a database and the index of the log, which its processes share."""

    wal: FileIdentity | None
    shm: FileIdentity | None


class StoreConnection(sqlite3.Connection):
    """A connection that remembers the log that it uses, or None while it uses none."""

    log_files: LogFiles | None = None

    postponed_texts: list[tuple[int, str]] | None = None
    """Texts that wait to be added to the search index, by rowid; None while none has to wait."""


def find_log_files(path: Path) -> LogFiles:
    """Return what stands beside a database under the names of its log."""
    return LogFiles(_identify(f"{path}-wal"), _identify(f"{path}-shm"))


def check_log(connection: StoreConnection, path: Path) -> None:
    """Raise Refused("storage_moved") if the log of a connection is no longer beside its database.

    SQLite itself removes the files only if nobody else has the database open.
    """
    if connection.log_files is None:
        _remember_log(connection, path)
        return

    if find_log_files(path) != connection.log_files:
        raise Refused("storage_moved")


def _remember_log(connection: StoreConnection, path: Path) -> None:
    """Note the log of a connection that has read already, and so has opened its log."""
    # A backup that was put in place by hand has no log until the first write.
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    if mode != "wal":
        return

    files = find_log_files(path)
    if None in files:
        raise Refused("storage_moved")
    connection.log_files = files


def check_unopened_log(path: Path) -> None:
    """Check a database that is about to be opened. Raises Refused("storage_moved").

    Whoever has it open has a log and an index; if one of them is missing, it was removed, and a
    new one must not be begun. The caller need not hold the lock between processes.
    """
    end = time.monotonic() + IN_USE_SECONDS
    while None in find_log_files(path) and os.access(path, os.W_OK):
        if not _is_in_use(path):
            return

        # Another process may be just about to make the files.
        if time.monotonic() > end:
            raise Refused("storage_moved")
        time.sleep(0.01)


def _is_in_use(path: Path) -> bool:
    """Return whether another connection has a database with a log open; ask nothing of the log.

    A connection in exclusive mode uses no index, and opens the log only if it is alone.
    """
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=0)
    try:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except sqlite3.Error as error:
        # Anything else is for the one to report who opens the database.
        return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
    finally:
        connection.close()

    return False


def save_log(connection: StoreConnection, path: Path) -> None:
    """Write a log that was removed into its database: it holds what was acknowledged before.

    The caller holds the lock between processes. If something else stands in its place, nothing is
    done: another program may have begun a log of its own, and changed the database.
    """
    files = connection.log_files
    found = find_log_files(path)
    if files is None:
        return

    if found.wal in (None, files.wal) and found.shm in (None, files.shm):
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")


def shrink_log(connection: StoreConnection) -> None:
    """Write the whole log into the database and cut it, unless somebody reads from it just now.

    The caller holds the lock between processes, and so does not wait.
    """
    (busy_milliseconds,) = connection.execute("PRAGMA busy_timeout").fetchone()
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        cut_log(connection)
    finally:
        connection.execute(f"PRAGMA busy_timeout = {busy_milliseconds}")


def cut_log(connection: StoreConnection) -> None:
    """Write the whole log into the database and cut it, unless a read goes on for too long."""
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def measure_log(path: Path) -> int:
    """Return the size of a database's log in bytes; 0 if there is none."""
    try:
        return os.stat(f"{path}-wal").st_size
    except FileNotFoundError:
        return 0


def _identify(path: str) -> FileIdentity | None:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None

    return status.st_dev, status.st_ino
