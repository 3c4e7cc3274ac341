"""The file of an SQLite store: its creation, its lock, and the detection of a moved file."""

import errno
import fcntl
import os
import secrets
import sqlite3
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from abilities.declarations.faults import Reason, Refused
from abilities.helpers.durable import sync_folder
from abilities.helpers.stores.protocol import IntegrityFinding
from abilities.helpers.stores.sqlite import schema

OWNER_ONLY = 0o600
"""The mode of all files: memories are private to their owner."""

BUSY_SECONDS = 5.0
"""How long to wait for a lock that another process holds."""

_REASONS: dict[str, Reason] = {
    "SQLITE_BUSY": "busy",
    "SQLITE_LOCKED": "busy",
    "SQLITE_FULL": "storage_full",
    "SQLITE_READONLY": "read_only",
    "SQLITE_PERM": "read_only",
    "SQLITE_CORRUPT": "corrupted",
    "SQLITE_NOTADB": "corrupted",
    "SQLITE_CANTOPEN": "unavailable",
}
"""Reasons by the beginning of the name of an SQLite error, which extended errors share."""


def translate_sqlite_error(error: sqlite3.Error | UnicodeDecodeError) -> Refused:
    """Return what an SQLite error means to the caller; an unforeseen one is a storage_error.

    A UnicodeDecodeError comes from Python decoding an SQLite message that quotes a damaged schema.
    """
    if isinstance(error, UnicodeDecodeError):
        return Refused("corrupted")

    name = getattr(error, "sqlite_errorname", None) or ""
    for prefix, reason in _REASONS.items():
        if name.startswith(prefix):
            return Refused(reason)

    return Refused("storage_error")


def _translate_os_error(error: OSError) -> Refused:
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return Refused("read_only")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Refused("storage_full")

    return Refused("unavailable")


def connect_to_file(path: Path, mode: str) -> sqlite3.Connection:
    """Connect to an existing database; ``mode`` is SQLite's "ro" or "rw".

    Transactions are begun and ended explicitly. One thread may create the connection and another
    one use it.
    """
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
    )


class StoreFile:
    """The file of a store, with the lock file beside it.

    The lock file holds the store's id once the database is in place. If there is a lock file with
    an id, or a write-ahead log, but no database, then the store was moved away, and no new one is
    created in its place.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        # Not the database itself: a lock on it would go with it when it is moved.
        self._lock_path = path.with_name(f"{path.name}-lock")
        self._wal_path = path.with_name(f"{path.name}-wal")
        self._lock_descriptor: int | None = None
        self._identity: tuple[int, int] | None = None  # device and inode of the opened file

    def open(self, *, writing: bool) -> sqlite3.Connection:
        """Return a new connection; create the store if there never was one. Raises Refused."""
        try:
            # Readers of an existing store do without the lock file, which may be read-only.
            if self._lock_descriptor is None and (writing or not self.path.exists()):
                self._open_lock_file()

            if not self.path.exists():
                self._create()

            connection = self._connect(writing)
            if schema.is_outdated(connection):
                connection.close()
                self._upgrade()
                connection = self._connect(writing)

            if writing:
                self._write_store_id()
            return connection
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise translate_sqlite_error(error) from error
        except OSError as error:
            raise _translate_os_error(error) from error

    def close(self) -> None:
        """Close the lock file; connections are closed by those who opened them."""
        if self._lock_descriptor is not None:
            os.close(self._lock_descriptor)
            self._lock_descriptor = None

    @contextmanager
    def lock(self) -> Generator[None]:
        """Hold the lock between processes. Raises Refused("busy") if others hold it too long."""
        if self._lock_descriptor is None:
            self._open_lock_file()
        assert self._lock_descriptor is not None

        # flock can wait or not, but not wait for a limited time.
        end = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                fcntl.flock(self._lock_descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise Refused("busy") from None
                time.sleep(0.001)

        try:
            yield
        finally:
            fcntl.flock(self._lock_descriptor, fcntl.LOCK_UN)

    def check_in_place(self) -> None:
        """Raise Refused("storage_moved") if the path no longer leads to the opened file."""
        try:
            status = os.stat(self.path)
        except OSError:
            raise Refused("storage_moved") from None

        if (status.st_dev, status.st_ino) != self._identity:
            raise Refused("storage_moved")

    def check_side_files(self) -> list[IntegrityFinding]:
        """Report the schema version, the write-ahead log, and copies that a killed process left."""
        version = len(schema.load_migrations())
        version_words = f"The schema version is {version}, the current one."
        log_size = self._wal_path.stat().st_size if self._wal_path.exists() else 0
        log_words = f"The write-ahead log holds {log_size:,} bytes."

        findings = [
            IntegrityFinding("version", "sound", 0, version_words),
            IntegrityFinding("log", "sound", 0, log_words),
        ]

        copies = self.path.parent.glob(f"{self.path.name}-new-*")
        names = sorted(path.name for path in copies)
        if names:
            words = f"Unfinished copies beside the store: {len(names):,}. You can delete them."
            examples = tuple(names[:5])
            findings.append(IntegrityFinding("beside", "note", len(names), words, examples))

        return findings

    def install(self, new_path: Path, *, aside: Path | None) -> None:
        """Link a finished database into place, after moving the existing one to ``aside``.

        Raises Refused("busy") if a process has the existing one open.
        """
        self._open_lock_file()
        try:
            with self.lock():
                if aside is not None:
                    self._write_log_back()
                    os.rename(self.path, aside)

                os.link(new_path, self.path)  # unlike a rename, it never replaces a file
                sync_folder(self.path.parent)
                self._write_store_id()
        finally:
            self.close()

    def _write_log_back(self) -> None:
        """Write the log back into the database, so that the database can be moved without it.

        Leaving the WAL mode does that. SQLite allows it only if nobody else has the database open.
        """
        connection = connect_to_file(self.path, "rw")
        try:
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.Error as error:
            raise translate_sqlite_error(error) from error
        finally:
            connection.close()

    def _open_lock_file(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)

        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._lock_descriptor = os.open(self._lock_path, flags, OWNER_ONLY)

    def _create(self) -> None:
        """Create the store under another name, then link it into place: it appears whole."""
        with self.lock():
            if self.path.exists():  # another process was faster
                return
            if self._has_store_id() or self._wal_path.exists():
                raise Refused("storage_moved")

            new_path = reserve_new_file(self.path)
            try:
                schema.create(new_path)
                os.link(new_path, self.path)
            finally:
                with suppress(FileNotFoundError):
                    new_path.unlink()

            sync_folder(self.path.parent)
            self._write_store_id()

    def _upgrade(self) -> None:
        """Bring an older store to the current schema, in place."""
        with self.lock():
            connection = self._connect(writing=True)
            try:
                schema.upgrade(connection)
            finally:
                connection.close()

    def _has_store_id(self) -> bool:
        assert self._lock_descriptor is not None
        return bool(os.pread(self._lock_descriptor, 64, 0))

    def _write_store_id(self) -> None:
        """Write an id into the lock file, if it has none: now a missing database is a moved one."""
        assert self._lock_descriptor is not None
        if not self._has_store_id():
            store_id = secrets.token_hex(16)
            os.pwrite(self._lock_descriptor, store_id.encode(), 0)
            os.fsync(self._lock_descriptor)

    def _connect(self, writing: bool) -> sqlite3.Connection:
        """Return a connection to the existing database, once it was recognized as a store."""
        status = os.stat(self.path)
        if status.st_size == 0:  # SQLite would take it for a new database
            raise Refused("corrupted")

        # A reader may be the last to close, and then SQLite writes the log back into the database.
        mode = "rw" if writing or os.access(self.path, os.W_OK) else "ro"
        connection = connect_to_file(self.path, mode)
        try:
            _configure(connection, writing)
            schema.read_version(connection)
        except BaseException:
            connection.close()
            raise

        # Only once: if a later connection meets another file, the store was moved.
        if self._identity is None:
            self._identity = (status.st_dev, status.st_ino)
        return connection


def reserve_new_file(path: Path) -> Path:
    """Create an empty file beside ``path`` and return it.

    Its name is unique, and `StoreFile.check_side_files` reports it if it is left behind.
    """
    unique = f"{os.getpid()}-{secrets.token_hex(4)}"
    new_path = path.with_name(f"{path.name}-new-{unique}")

    flags = os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(new_path, flags, OWNER_ONLY)
    os.close(descriptor)

    return new_path


def _configure(connection: sqlite3.Connection, writing: bool) -> None:
    """Set up a connection for durable writes, or for reads alone."""
    pragmas = [
        f"busy_timeout = {int(BUSY_SECONDS * 1000)}",
        "synchronous = FULL",  # what is committed survives a power cut
        "trusted_schema = OFF",  # a schema that somebody tampered with runs no functions
        "cell_size_check = ON",  # damaged pages are noticed when they are read
        "cache_size = -16384",  # in KiB
        "temp_store = MEMORY",
    ]
    if writing:
        pragmas += [
            "wal_autocheckpoint = 1000",
            "journal_mode = WAL",  # a backup that was put here by hand has another mode
            "query_only = OFF",
        ]
    else:
        # A reader leaves it to the writer to write the log back.
        pragmas += ["wal_autocheckpoint = 0", "query_only = ON"]

    for pragma in pragmas:
        connection.execute(f"PRAGMA {pragma}")
