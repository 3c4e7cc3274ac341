"""The file of an SQLite store: made once, never taken for another, locked between processes, never lost sight of."""

import errno
import fcntl
import os
import secrets
import sqlite3
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.resources import files
from pathlib import Path

from abilities.declarations.faults import Reason, Refused
from abilities.helpers.durable import sync_folder
from abilities.helpers.stores.protocol import IntegrityFinding

APPLICATION_ID = 0x61676D65  # 'agme'
BUSY_SECONDS = 5.0

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


@cache
def schema() -> tuple[str, ...]:
    """The scripts that make a store, in order; a store's version is the number of those it has been through."""
    return (
        files("abilities.helpers.stores.sqlite").joinpath("schema.sql").read_text(encoding="utf-8"),
    )


def translate_sqlite_error(error: sqlite3.Error | UnicodeDecodeError) -> Refused:
    """What an SQLite error means to the caller; anything unforeseen is a storage_error.

    A UnicodeDecodeError comes from the words of an SQLite error that quote a damaged schema.
    """
    if isinstance(error, UnicodeDecodeError):
        return Refused("corrupted")
    name = getattr(error, "sqlite_errorname", None) or ""
    for prefix, reason in _REASONS.items():
        if name.startswith(prefix):
            return Refused(reason)
    return Refused("storage_error")


class StoreFile:
    """A store's file and the lock beside it.

    The lock file holds the store's id once the database is in place; a lock file with an id, or a WAL,
    without a database means that the store was moved away, and no new one is made in its place.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock_path = path.with_name(path.name + "-lock")
        self._lock: int | None = None
        self._identity: tuple[int, int] | None = None

    def open(self, *, writing: bool) -> sqlite3.Connection:
        """A connection, the store made first where there never was one. Raises Refused."""
        try:
            if self._lock is None and (writing or not self.path.exists()):
                self._open_lock()
            if not self.path.exists():
                self._create()
            connection = self._connect(writing)
            if version_of(connection) < len(schema()):
                connection.close()
                self._upgrade()
                connection = self._connect(writing)
            if writing:
                self._leave_a_trace()
            return connection
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise translate_sqlite_error(error) from error
        except OSError as error:
            denied = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            raise Refused(
                "read_only" if denied else "storage_full" if full else "unavailable"
            ) from error

    @contextmanager
    def locked(self) -> Generator[None]:
        """The lock between processes. Raises Refused("busy") when it cannot be had in five seconds."""
        if self._lock is None:
            self._open_lock()
        assert self._lock is not None
        end = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise Refused("busy") from None
                time.sleep(0.001)
        try:
            yield
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def check_in_place(self) -> None:
        """Raises Refused("storage_moved") when the path no longer leads to the file that was opened."""
        try:
            found = os.stat(self.path)
        except OSError:
            raise Refused("storage_moved") from None
        if (found.st_dev, found.st_ino) != self._identity:
            raise Refused("storage_moved")

    def traces(self) -> list[IntegrityFinding]:
        """What stands beside the database: whether it is what should, and what a killed process left there."""
        folder = self.path.parent
        left = sorted(found.name for found in folder.glob(f"{self.path.name}-new-*"))
        wal = self.path.with_name(f"{self.path.name}-wal")
        size = wal.stat().st_size if wal.exists() else 0
        told = [
            IntegrityFinding(
                "version", "sound", 0, f"The schema is of version {len(schema())}, the current one."
            ),
            IntegrityFinding("log", "sound", 0, f"The write-ahead log holds {size:,} bytes."),
        ]
        if left:
            words = (
                f"{len(left):,} unfinished copies were left beside the store; they can be deleted."
            )
            told.append(IntegrityFinding("beside", "note", len(left), words, tuple(left[:5])))
        return told

    def put_in_place(self, made: Path, *, aside: Path | None) -> Path | None:
        """Link a finished database into place, what is there moved ``aside`` first. Raises Refused: busy."""
        self._open_lock()
        try:
            with self.locked():
                if aside is not None:
                    self._let_go()
                    os.rename(self.path, aside)
                os.link(made, self.path)
                sync_folder(self.path.parent)
                self._leave_a_trace()
        finally:
            self.close()
        return aside

    def _let_go(self) -> None:
        """Write the log back and leave the WAL mode, which SQLite allows only where nobody else has the file open."""
        connection = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None
        )
        try:
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.Error as error:
            raise translate_sqlite_error(error) from error
        finally:
            connection.close()

    def close(self) -> None:
        """Let go of the lock file."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _open_lock(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _create(self) -> None:
        """Make the store under another name and link it into place, unless another process was faster."""
        assert self._lock is not None
        with self.locked():
            if self.path.exists():
                return
            if os.pread(self._lock, 64, 0) or self.path.with_name(self.path.name + "-wal").exists():
                raise Refused("storage_moved")
            made = self.path.with_name(f"{self.path.name}-new-{os.getpid()}-{secrets.token_hex(4)}")
            try:
                os.close(os.open(made, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
                _write_schema(made)
                os.link(made, self.path)
            finally:
                with suppress(FileNotFoundError):
                    made.unlink()
            sync_folder(self.path.parent)
            self._leave_a_trace()

    def _upgrade(self) -> None:
        """Bring an older store forward in place, step by step, each step a transaction."""
        with self.locked():
            connection = self._connect(writing=True)
            try:
                _run_scripts(connection)
            finally:
                connection.close()

    def _leave_a_trace(self) -> None:
        """Write the store's id into the lock file, if it has none: from now on a missing database is a moved one."""
        assert self._lock is not None
        if not os.pread(self._lock, 64, 0):
            os.pwrite(self._lock, secrets.token_hex(16).encode(), 0)
            os.fsync(self._lock)

    def _connect(self, writing: bool) -> sqlite3.Connection:
        found = os.stat(self.path)
        if found.st_size == 0:
            raise Refused("corrupted")
        mode = "rw" if writing or os.access(self.path, os.W_OK) else "ro"
        # Python's own check is off: a connection is made where it is first needed, and used by one thread only.
        connection = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode={mode}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            _configure(connection, writing)
            version_of(connection)
        except BaseException:
            connection.close()
            raise
        if self._identity is None:
            self._identity = (found.st_dev, found.st_ino)
        return connection


def _configure(connection: sqlite3.Connection, writing: bool) -> None:
    for pragma in (
        f"busy_timeout = {int(BUSY_SECONDS * 1000)}",
        "synchronous = FULL",
        "trusted_schema = OFF",
        "cell_size_check = ON",
        "cache_size = -16384",
        "temp_store = MEMORY",
        "wal_autocheckpoint = 0" if not writing else "wal_autocheckpoint = 1000",
        *(["journal_mode = WAL"] if writing else []),  # a backup put here by hand has another
        "query_only = OFF" if writing else "query_only = ON",
    ):
        connection.execute(f"PRAGMA {pragma}")


def version_of(connection: sqlite3.Connection) -> int:
    """The version of a store's schema. Raises Refused: schema_too_new, corrupted."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION_ID:
        raise Refused("corrupted")
    return check_version(connection)


def check_version(connection: sqlite3.Connection) -> int:
    """The version, asked again in each transaction: a newer process may have brought the store forward meanwhile."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version < 1:
        raise Refused("corrupted")
    if version > len(schema()):
        raise Refused("schema_too_new")
    return int(version)


def _write_schema(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        _run_scripts(connection)
    finally:
        connection.close()


def _run_scripts(connection: sqlite3.Connection) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    for number, script in enumerate(schema()[version:], version + 1):
        connection.executescript(
            f"BEGIN IMMEDIATE; {script} PRAGMA user_version = {number}; COMMIT;"
        )
