"""Connections to an SQLite database: their errors as reasons, and the removal of their log.

SQLite does not notice that a write-ahead log was removed. The connection keeps writing to the
removed file, and its commits are lost when the process ends. Another process would begin a second
log for the same database, and the two would overwrite each other's pages.
"""

import errno
import logging
import os
import sqlite3
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from abilities.declarations.refusals import Reason, Refused

Result = TypeVar("Result")

STORE_ERRORS = (sqlite3.Error, UnicodeDecodeError, OSError)

_log = logging.getLogger("abilities")

_REASONS: dict[str, Reason] = {
    "SQLITE_BUSY": "busy",
    "SQLITE_LOCKED": "busy",
    "SQLITE_FULL": "storage_full",
    "SQLITE_READONLY": "read_only",
    "SQLITE_PERM": "read_only",
    "SQLITE_CORRUPT": "corrupted",
    "SQLITE_NOTADB": "corrupted",
    "SQLITE_CANTOPEN": "unavailable",
    "SQLITE_INTERRUPT": "timeout",
}
"""Reasons by the beginning of an SQLite error's name.

For example, SQLITE_BUSY also covers the extended error SQLITE_BUSY_SNAPSHOT.
"""


def translate_error(error: Exception) -> Refused:
    """Return the Refused that a caller gets for an error of SQLite or of the file system.

    An unforeseen error becomes storage_error and is logged, because callers do not see its cause.
    A UnicodeDecodeError means that Python could not decode a message that quotes a damaged schema.
    """
    if isinstance(error, UnicodeDecodeError):
        return Refused("corrupted")
    if isinstance(error, OSError):
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            return Refused("read_only")
        return Refused("storage_full" if is_disk_full(error) else "unavailable")

    name = getattr(error, "sqlite_errorname", None) or ""
    for prefix, reason in _REASONS.items():
        if name.startswith(prefix):
            return Refused(reason)

    # A failing disk has nothing to do with the place in the code, so there is no traceback.
    if name.startswith("SQLITE_IOERR"):
        _log.error("The disk of the store fails, %s", name)
        return Refused("storage_error")

    _log.error(
        "Unforeseen error of SQLite, %s: %s", name or "without a code", error, exc_info=error
    )
    return Refused("storage_error")


def translate_opening(refused: Refused, path: Path) -> Refused:
    """Return the reason why a store was not opened: storage_denied if it cannot even be read.

    To read a store, a user needs the right to read its file, and either an index of the log or the
    right to make one.
    """
    if refused.reason != "read_only" and not path.exists():
        return refused

    effective = os.access in os.supports_effective_ids
    if not os.access(path, os.R_OK, effective_ids=effective):
        return Refused("storage_denied")

    index = path.with_name(f"{path.name}-shm")
    if not index.exists() and not os.access(path.parent, os.W_OK, effective_ids=effective):
        return Refused("storage_denied")

    return refused


def translate_for_read(refused: Refused) -> Refused:
    """Return the Refused of a read: read_only means that it could not write to the log's index."""
    if refused.reason == "read_only":
        return Refused("storage_denied")

    return refused


def is_disk_full(error: OSError) -> bool:
    """Return whether the disk is full, or the user's quota is used up."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def release_statements(error: BaseException) -> None:
    """Release everything that an exception's traceback refers to, such as an unfinished statement.

    As long as the exception lives, an unfinished statement would keep the snapshot of a transaction
    that has ended. Reads would see nothing newer, and writes would be refused.
    """
    remaining: list[BaseException | None] = [error]
    released: set[int] = set()

    while remaining:
        each = remaining.pop()
        if each is None or id(each) in released:
            continue

        released.add(id(each))
        traceback.clear_frames(each.__traceback__)
        remaining += [each.__cause__, each.__context__]


def attempt(work: Callable[[], Result]) -> Result | Exception:
    """Return the result of work, or its exception; an SQLite error is translated."""
    try:
        return work()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        return translate_error(error)
    except Exception as error:
        return error


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
