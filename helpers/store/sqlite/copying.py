"""Copies of an SQLite database in use. A copy is synced to disk before it gets its final name."""

import fcntl
import os
import re
import secrets
import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

OWNER_ONLY = 0o600
"""The mode of all files, because memories are private to their owner."""

_UNFINISHED = re.compile(r".+-new-[0-9]+-[0-9a-f]{8}")
"""The names of files from `reserve_new_file`."""

_PAGES = 2_000

Progress = Callable[[float], None]
"""Called with the share that is copied, from 0 to 1. After 1, the copy is still being checked."""


def copy_database(source: sqlite3.Connection, copy: Path, progress: Progress) -> None:
    """Copy the present state of a database into an empty file, and sync the copy to disk."""

    def report(status: int, remaining: int, pages: int) -> None:
        progress(1 - remaining / max(pages, 1))

    with closing(sqlite3.connect(copy, isolation_level=None)) as target:
        # Without a snapshot, a write by another process would restart the copy.
        source.execute("BEGIN")
        try:
            source.execute("SELECT count(*) FROM sqlite_schema").fetchone()  # takes the snapshot
            source.backup(target, pages=_PAGES, progress=report)
        finally:
            source.execute("ROLLBACK")

    sync_file(copy)


def set_journal_mode(path: Path, mode: str) -> None:
    """Set the journal mode of a database that no other connection uses.

    With "DELETE", a store is a single file, which can also be read from a read-only folder.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA journal_mode = {mode}")


def sync_file(path: Path) -> None:
    """Sync a file to disk; SQLite does that only for its own transactions."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_database(path: Path) -> None:
    """Remove an unused database and its side files."""
    for suffix in ("-wal", "-shm", "-journal", ""):
        with suppress(FileNotFoundError):
            os.unlink(f"{path}{suffix}")


@contextmanager
def reserve_new_file(path: Path) -> Generator[Path]:
    """Yield a new empty file beside ``path``; link it to another name to keep it.

    The file is removed at the end of the block. Files that killed processes left in the folder are
    removed first.
    """
    _remove_unfinished(path.parent)

    unique = f"{os.getpid()}-{secrets.token_hex(4)}"
    new_path = path.with_name(f"{path.name}-new-{unique}")
    descriptor = os.open(new_path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, OWNER_ONLY)
    try:
        # The lock is held until the end of the block, or of the process, however that ends.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.stat(new_path)  # the folder may have been cleared before the lock was taken
        yield new_path
    finally:
        remove_database(new_path)
        os.close(descriptor)


def _remove_unfinished(folder: Path) -> None:
    """Remove the files from `reserve_new_file` that no process works on any more."""
    paths: list[Path] = []
    with suppress(PermissionError):  # new files may be allowed in a folder that cannot be listed
        paths += folder.iterdir()

    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    for path in paths:
        if not _UNFINISHED.fullmatch(path.name):
            continue

        # Another process may hold the lock or remove the file first; or another user owns it.
        with suppress(OSError):
            descriptor = os.open(path, flags)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_database(path)
            finally:
                os.close(descriptor)
