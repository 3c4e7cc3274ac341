"""Copies of an SQLite database in use, as files that are on disk before they get a name."""

import fcntl
import os
import re
import secrets
import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

OWNER_ONLY = 0o600
"""The mode of all files: memories are private to their owner."""

_UNFINISHED = re.compile(r".+-new-[0-9]+-[0-9a-f]{8}")
"""Names of files from `reserve_new_file`."""

_PAGES = 2_000
"""Pages that are copied between two reports of progress."""

Progress = Callable[[float], None]
"""Called with the share that is copied, from 0 to 1; after 1, the copy is still checked."""


def copy_database(source: sqlite3.Connection, copy: Path, progress: Progress) -> None:
    """Copy a database into an empty file as it is now, and sync the copy to disk."""

    def report(status: int, remaining: int, pages: int) -> None:
        progress(1 - remaining / max(pages, 1))

    with closing(sqlite3.connect(copy, isolation_level=None)) as target:
        # In one snapshot, so that a write by another process does not make the copy start again.
        source.execute("BEGIN")
        try:
            source.execute("SELECT count(*) FROM sqlite_schema").fetchone()  # takes the snapshot
            source.backup(target, pages=_PAGES, progress=report)
        finally:
            source.execute("ROLLBACK")

    sync_file(copy)


def set_journal_mode(path: Path, mode: str) -> None:
    """Set the journal mode of a database that nobody else uses.

    With "DELETE" a store is one file, which a folder that cannot be written serves too.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA journal_mode = {mode}")


def sync_file(path: Path) -> None:
    """Sync a file to disk: SQLite does that for its own transactions only."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_database(path: Path) -> None:
    """Remove a database that nobody uses, and its side files."""
    for suffix in ("-wal", "-shm", "-journal", ""):
        with suppress(FileNotFoundError):
            os.unlink(f"{path}{suffix}")


@contextmanager
def reserve_new_file(path: Path) -> Generator[Path]:
    """Yield a new empty file beside ``path``, under another name; link it to keep it.

    It is removed afterwards. What killed processes left in the folder is removed at once.
    """
    _remove_unfinished(path.parent)

    unique = f"{os.getpid()}-{secrets.token_hex(4)}"
    new_path = path.with_name(f"{path.name}-new-{unique}")
    descriptor = os.open(new_path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, OWNER_ONLY)
    try:
        # Held until the process ends, however it ends.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.stat(new_path)  # the folder may have been cleared before the lock was taken
        yield new_path
    finally:
        remove_database(new_path)
        os.close(descriptor)


def _remove_unfinished(folder: Path) -> None:
    paths: list[Path] = []
    with suppress(PermissionError):  # files may be made there all the same
        paths += folder.iterdir()

    for path in paths:
        if _UNFINISHED.fullmatch(path.name):
            # Others may remove it first, or it belongs to another user.
            with suppress(OSError):
                _remove_if_abandoned(path)


def _remove_if_abandoned(path: Path) -> None:
    """Remove an unfinished database. Raises BlockingIOError if a process works on it, OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove_database(path)
    finally:
        os.close(descriptor)
