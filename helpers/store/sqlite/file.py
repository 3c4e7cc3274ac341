"""The file of an SQLite store: how it is created, locked, migrated and recognized after a move."""

import fcntl
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from abilities.declarations.refusals import Refused
from abilities.helpers.durable import sync_folder
from abilities.helpers.store.protocol import IntegrityFinding
from abilities.helpers.store.sqlite import log, schema
from abilities.helpers.store.sqlite.copying import OWNER_ONLY, reserve_new_file
from abilities.helpers.store.sqlite.errors import STORE_ERRORS, translate_error, translate_opening

BUSY_SECONDS = 5.0

MIGRATION_SECONDS = 3_600.0

_STEPS = 10_000
"""Steps of SQLite's virtual machine between two checks whether a migration should stop."""

_PRAGMAS = (
    "synchronous = FULL",  # a committed change survives a power cut
    "trusted_schema = OFF",  # a schema that was tampered with runs no functions
    "cell_size_check = ON",  # damaged pages are noticed when they are read
    "cache_size = -16384",  # in KiB
    "temp_store = MEMORY",
)
_WRITER_PRAGMAS = (
    *_PRAGMAS,
    "wal_autocheckpoint = 1000",
    f"journal_size_limit = {log.KEPT_BYTES}",
    "journal_mode = WAL",  # a backup that was put here by hand has another mode
    "query_only = OFF",
    "secure_delete = ON",  # a purge leaves nothing in free pages
)
_READER_PRAGMAS = (
    *_PRAGMAS,
    "wal_autocheckpoint = 0",  # only the writer writes the log back
    "query_only = ON",
)


def connect_to_file(path: Path, mode: str) -> log.StoreConnection:
    """Connect to an existing database; ``mode`` is SQLite's "ro" or "rw".

    The caller begins and ends transactions explicitly. The connection may be used on another
    thread. Raises Refused("storage_moved") if the log of a database in use was removed.
    """
    log.check_unopened_log(path)
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        factory=log.StoreConnection,
    )


def read_damaged_texts(connection: sqlite3.Connection) -> None:
    """Let a connection read texts that are not UTF-8, with lone surrogates for the wrong bytes."""
    connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")


def has_traces(path: Path) -> bool:
    """Return whether a path once had a store, whose log or id is still there."""
    lock_path = _name_lock(path)
    if lock_path.exists() and lock_path.stat().st_size > 0:
        return True

    return path.with_name(f"{path.name}-wal").exists()


def _name_lock(path: Path) -> Path:
    return path.with_name(f"{path.name}-lock")


class StoreFile:
    """The file of a store, with the lock file beside it.

    The lock file contains the store's id once the database is in place. If the id or a write-ahead
    log exists without a database, the store was moved, and no new one is created in its place.
    ``language`` is for the recall index of a store that has to be created.
    """

    def __init__(self, path: Path, language: str = "english") -> None:
        self.path = path
        self._language = language
        # A lock on the database itself would move with it.
        self._lock_path = _name_lock(path)
        self._lock_descriptor: int | None = None
        self._identity: tuple[int, int] | None = None  # device and inode of the opened file
        self._is_closing = False
        self._opening = threading.Lock()

    def open(self, *, writing: bool) -> log.StoreConnection:
        """Return a new connection; create the store if none existed before. Raises Refused."""
        # Several threads may be the first to open the file, but it must be created only once.
        with self._opening:
            try:
                if not self.path.exists():
                    self._create()

                connection = self._connect(writing)
                if schema.is_older(connection):
                    connection.close()
                    self._migrate()
                    connection = self._connect(writing)

                # A reader needs no lock file, and may have no right to make one; and another
                # program's database gets none.
                if writing:
                    try:
                        self._write_store_id()
                    except BaseException:
                        connection.close()
                        raise

                return connection
            except STORE_ERRORS as error:
                raise translate_opening(translate_error(error), self.path) from error

    def close(self) -> None:
        """Close the lock file. Connections are closed by their users."""
        if self._lock_descriptor is not None:
            os.close(self._lock_descriptor)
            self._lock_descriptor = None

    def interrupt(self) -> None:
        """Stop a migration on another thread; it is rolled back."""
        self._is_closing = True

    @contextmanager
    def lock(self, seconds: float | None = None) -> Generator[None]:
        """Hold the lock that processes share.

        Raises Refused("busy") if others hold it for longer than ``seconds``, by default
        `BUSY_SECONDS`.
        """
        descriptor = self._open_lock_file()

        # flock has no timeout, so it is tried again and again.
        end = time.monotonic() + (seconds or BUSY_SECONDS)
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise Refused("busy") from None
                if seconds is not None:
                    self._check_open()
                time.sleep(0.0002 if seconds is None else 0.02)

        try:
            yield
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)

    def check_in_place(self, connection: log.StoreConnection) -> None:
        """Raise Refused("storage_moved") if the path no longer leads to the opened file and log."""
        self._check_database_in_place()
        log.check_log(connection, self.path)

    def save_log(self, connection: log.StoreConnection) -> None:
        """Save the content of a log that was removed; the caller holds the lock.

        Raises Refused("storage_moved") if the database itself is not in place.
        """
        self._check_database_in_place()
        log.save_log(connection, self.path)

    def shrink_log(self, connection: log.StoreConnection) -> None:
        """Truncate the log if it is large and has no readers at the moment."""
        if log.measure_log(self.path) > log.KEPT_BYTES:
            with self.lock():
                log.shrink_log(connection)

    def _check_database_in_place(self) -> None:
        try:
            status = os.stat(self.path)
        except OSError:
            raise Refused("storage_moved") from None

        if (status.st_dev, status.st_ino) != self._identity:
            raise Refused("storage_moved")

    def check_side_files(self) -> list[IntegrityFinding]:
        """Report the write-ahead log, and copies of the store beside it."""
        log_words = f"The write-ahead log holds {log.measure_log(self.path):,} bytes."
        findings = [IntegrityFinding("log", "sound", 0, log_words)]

        earlier = sorted(self.path.parent.glob(f"{self.path.name}.before-*"))
        if earlier:
            size = sum(path.stat().st_size for path in earlier)
            words = (
                f"Copies of the store from before a migration: {len(earlier):,}, {size:,} bytes."
                " Delete them once all programs work with the new version, for example with rm."
            )
            examples = tuple(str(path) for path in earlier[:5])
            findings.append(IntegrityFinding("before", "note", len(earlier), words, examples))

        copies = self.path.parent.glob(f"{self.path.name}-new-*")
        names = sorted(path.name for path in copies)
        if names:
            words = f"Unfinished copies beside the store: {len(names):,}. You can delete them."
            examples = tuple(names[:5])
            findings.append(IntegrityFinding("beside", "note", len(names), words, examples))

        return findings

    def put_in_place(self, new_path: Path, *, aside: Path | None) -> None:
        """Link a finished database into place, after moving the existing one to ``aside``.

        The caller holds the lock. After an interruption at any point, either the old or the new
        store is whole and in place. Raises Refused("busy") if a process has the existing one open.
        """
        if aside is None:
            os.link(new_path, self.path)  # unlike a rename, a link never replaces a file
        else:
            self.write_log_back()
            os.link(self.path, aside)
            os.rename(new_path, self.path)

        sync_folder(self.path.parent)
        self._write_store_id()

    def write_log_back(self) -> None:
        """Write the log back into the database, so that the database can be moved without it.

        SQLite does so when it leaves the WAL mode. Raises Refused("busy") if another process has
        the database open.
        """
        with closing(connect_to_file(self.path, "rw")) as connection:
            try:
                connection.execute("PRAGMA journal_mode = DELETE")
                connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.Error as error:
                raise translate_error(error) from error

    def _open_lock_file(self) -> int:
        if self._lock_descriptor is None:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            self._lock_descriptor = os.open(self._lock_path, flags, OWNER_ONLY)

        return self._lock_descriptor

    def _create(self) -> None:
        """Create the store under another name, and link it into place when it is whole."""
        with self.lock():
            if self.path.exists():  # another process was faster
                return
            if has_traces(self.path):
                raise Refused("storage_moved")

            with reserve_new_file(self.path) as new_path:
                schema.create(new_path, self._language)
                os.link(new_path, self.path)

            sync_folder(self.path.parent)
            self._write_store_id()

    def _migrate(self) -> None:
        """Bring an older store to the current version, in place. Raises Refused, OSError."""
        # SQLite also opens a read-only file for writing, and would fail only after the copy.
        is_effective = os.access in os.supports_effective_ids
        if not os.access(self.path, os.W_OK, effective_ids=is_effective):
            raise Refused("schema_too_old")

        with self.lock(MIGRATION_SECONDS), closing(self._connect(writing=True)) as connection:
            read_damaged_texts(connection)
            connection.execute("PRAGMA temp_store = FILE")  # an index is sorted on disk
            connection.set_progress_handler(lambda: self._is_closing, _STEPS)
            self.check_in_place(connection)
            try:
                schema.migrate(connection, self.path)
            except sqlite3.OperationalError:
                self._check_open()
                raise

    def _check_open(self) -> None:
        """Raise Refused("unavailable") if `interrupt` was called."""
        if self._is_closing:
            raise Refused("unavailable")

    def _write_store_id(self) -> None:
        """Write an id into the lock file, so that a missing database counts as moved."""
        descriptor = self._open_lock_file()
        if not os.pread(descriptor, 64, 0):
            os.pwrite(descriptor, secrets.token_hex(16).encode(), 0)
            os.fsync(descriptor)

    def _connect(self, writing: bool) -> log.StoreConnection:
        """Return a connection to the existing database, after it was recognized as a store."""
        status = os.stat(self.path)
        if status.st_size == 0:  # SQLite would take it for a new database
            raise Refused("corrupted")

        # A reader may be the last to close, and then SQLite writes the log back into the database.
        mode = "rw" if writing or os.access(self.path, os.W_OK) else "ro"
        connection = connect_to_file(self.path, mode)
        try:
            schema.read_version(connection)  # no setting may change another program's file
            connection.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}")
            pragmas = _WRITER_PRAGMAS if writing else _READER_PRAGMAS
            for pragma in pragmas:
                connection.execute(f"PRAGMA {pragma}")
            schema.read_version(connection)  # opens the log if there was none
            log.check_log(connection, self.path)
        except BaseException:
            connection.close()
            raise

        # Set only once: if a later connection finds another file, the store was moved.
        if self._identity is None:
            self._identity = (status.st_dev, status.st_ino)
        return connection
