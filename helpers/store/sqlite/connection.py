"""Connections to an SQLite database, and its errors as the reasons that callers get.

The log has the causes of these errors.
"""

import errno
import logging
import os
import sqlite3
import traceback
from pathlib import Path

from abilities.declarations.refusals import Reason, Refused

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


FileIdentity = tuple[int, int]

LogFiles = tuple[FileIdentity | None, FileIdentity | None]
"""The log of a database, and the index of the log that all its processes share."""


class StoreConnection(sqlite3.Connection):
    """A connection that remembers which log it uses."""

    log_files: LogFiles | None = None
    """The log in use; None while there is none."""

    postponed_texts: list[tuple[int, str]] | None = None
    """Rowids and texts to add to the search index later; None if texts are added at once."""
