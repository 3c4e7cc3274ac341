"""What errors of SQLite and of the file system mean to callers; the log has their cause."""

import errno
import logging
import os
import sqlite3
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from abilities.declarations.refusals import Reason, Refused

Result = TypeVar("Result")

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
"""Reasons by the beginning of the name of an SQLite error, which extended errors share."""


def translate_sqlite_error(error: sqlite3.Error | UnicodeDecodeError) -> Refused:
    """Return what an SQLite error means to the caller.

    An unforeseen one is a storage_error, and is logged, because callers do not see its cause.

    A UnicodeDecodeError comes from Python decoding an SQLite message that quotes a damaged schema.
    """
    if isinstance(error, UnicodeDecodeError):
        return Refused("corrupted")

    name = getattr(error, "sqlite_errorname", None) or ""
    for prefix, reason in _REASONS.items():
        if name.startswith(prefix):
            return Refused(reason)

    # Of a disk that fails, the place in this code says nothing.
    if name.startswith("SQLITE_IOERR"):
        _log.error("The disk of the store fails, %s", name)
        return Refused("storage_error")

    _log.error(
        "Unforeseen error of SQLite, %s: %s", name or "without a code", error, exc_info=error
    )
    return Refused("storage_error")


def translate_os_error(error: OSError) -> Refused:
    """Return what an error of the file system means to the caller."""
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return Refused("read_only")
    if is_disk_full(error):
        return Refused("storage_full")

    return Refused("unavailable")


def translate_opening(refused: Refused, path: Path) -> Refused:
    """Return why a store was not opened: a right may be missing without which nobody reads."""
    is_missing_right = refused.reason == "read_only" or path.exists()
    if is_missing_right and not _can_read(path):
        return Refused("storage_denied")

    return refused


def _can_read(path: Path) -> bool:
    """Return whether this user may read a store, and the index of its log or make one."""
    effective = os.access in os.supports_effective_ids
    if not os.access(path, os.R_OK, effective_ids=effective):
        return False

    index = path.with_name(f"{path.name}-shm")
    return index.exists() or os.access(path.parent, os.W_OK, effective_ids=effective)


def translate_for_read(refused: Refused) -> Refused:
    """Return what a Refused means for a read, which may need to write to the log's index."""
    if refused.reason == "read_only":
        return Refused("storage_denied")

    return refused


def is_disk_full(error: OSError) -> bool:
    """Return whether the disk, or the user's share of it, is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def release_statements(error: BaseException) -> None:
    """Let go of all that an exception's traceback holds, such as a statement that is not finished.

    Until the exception is forgotten, that would keep the snapshot of a transaction that has ended:
    reads would see nothing newer, and writes would be refused.
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
    """Return the work's result or exception, an error of SQLite translated."""
    try:
        return work()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        return translate_sqlite_error(error)
    except Exception as error:
        return error
