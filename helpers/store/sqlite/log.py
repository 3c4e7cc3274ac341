"""The write-ahead log of a store in use: its removal is noticed, and its size is bounded.

SQLite does not notice that a log was removed. The connection keeps writing to the removed file, and
its commits are lost when the process ends. Another process would begin a second log for the same
database, and the two would overwrite each other's pages.
"""

import os
import sqlite3
import time
from pathlib import Path

from abilities.declarations.refusals import Refused

IN_USE_SECONDS = 5.0
"""How long another process may take to open or check a database before it counts as in use."""

KEPT_BYTES = 8 * 1024 * 1024
"""A larger log is truncated. Without long reads or large writes, it stays at about half of this."""

_FileIdentity = tuple[int, int]

_LogFiles = tuple[_FileIdentity | None, _FileIdentity | None]
"""The log of a database, and the index of the log that all its processes share."""


class StoreConnection(sqlite3.Connection):
    """A connection that remembers which log it uses."""

    log_files: _LogFiles | None = None
    """The log in use; None while there is none."""

    postponed_texts: list[tuple[int, str]] | None = None
    """Rowids and texts to add to the search index later; None if texts are added at once."""


def find_log_files(path: Path) -> _LogFiles:
    """Return the files that now have the names of a database's log and index."""
    return _identify(f"{path}-wal"), _identify(f"{path}-shm")


def check_log(connection: StoreConnection, path: Path) -> None:
    """Raise Refused("storage_moved") if the log of a connection is no longer beside its database.

    The first check of a connection remembers its log; the connection must have read something, and
    so have opened the log. SQLite itself removes the files only if no other process has the
    database open.
    """
    if connection.log_files is not None:
        if find_log_files(path) != connection.log_files:
            raise Refused("storage_moved")
        return

    # A backup that was put in place by hand has no log until the first write.
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    if mode != "wal":
        return

    files = find_log_files(path)
    if None in files:
        raise Refused("storage_moved")
    connection.log_files = files


def check_unopened_log(path: Path) -> None:
    """Check a database before it is opened. Raises Refused("storage_moved") if its log was removed.

    A process that has the database open also has a log and an index. If one of them is missing, it
    was removed, and no new one may be begun. The caller need not hold the lock.
    """
    end = time.monotonic() + IN_USE_SECONDS
    while None in find_log_files(path) and os.access(path, os.W_OK):
        if not _is_in_use(path):
            return

        # Another process may be about to make the files.
        if time.monotonic() > end:
            raise Refused("storage_moved")
        time.sleep(0.01)


def _is_in_use(path: Path) -> bool:
    """Return whether another connection has the database open, without opening its log.

    A connection in exclusive mode uses no index, and opens the log only if it is the only one.
    """
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=0)
    try:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except sqlite3.Error as error:
        # Other errors are reported by the connection that is about to be opened.
        return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
    finally:
        connection.close()

    return False


def save_log(connection: StoreConnection, path: Path) -> None:
    """Write a removed log into its database, because it contains acknowledged changes.

    The caller holds the lock. If other files have taken the place of the log, nothing is done:
    another program may have begun its own log and changed the database.
    """
    if connection.log_files is None:
        return

    pairs = zip(find_log_files(path), connection.log_files, strict=True)
    if all(found in (None, opened) for found, opened in pairs):
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")


def shrink_log(connection: StoreConnection) -> None:
    """Write the log into the database and truncate it, unless it has a reader at the moment.

    It never waits for readers, because the caller holds the lock.
    """
    (busy_milliseconds,) = connection.execute("PRAGMA busy_timeout").fetchone()
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        cut_log(connection)
    finally:
        connection.execute(f"PRAGMA busy_timeout = {busy_milliseconds}")


def cut_log(connection: StoreConnection) -> None:
    """Write the log into the database and truncate it, unless a read takes too long."""
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def measure_log(path: Path) -> int:
    """Return the size of a database's log in bytes; 0 if there is none."""
    try:
        return os.stat(f"{path}-wal").st_size
    except FileNotFoundError:
        return 0


def _identify(path: str) -> _FileIdentity | None:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None

    return status.st_dev, status.st_ino
