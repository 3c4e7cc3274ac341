"""The file of an SQLite store: how it is created, copied, locked, migrated and recognized.

SQLite's user_version contains the version of the schema. Before a migration, a copy of the store is
made and checked. A copy is synced to disk before it gets its final name.

SQLite does not notice that a write-ahead log was removed. The connection keeps writing to the
removed file, and its commits are lost when the process ends. Another process would begin a second
log for the same database, and the two would overwrite each other's pages. So each use of the store
checks that the log is still the one that was opened.
"""

import fcntl
import logging
import os
import re
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from functools import partial
from importlib.resources import files
from itertools import count
from pathlib import Path

from abilities.declarations.refusals import Refused
from abilities.helpers.durable import sync_folder
from abilities.helpers.search.terms import Language
from abilities.helpers.store import migration
from abilities.helpers.store.protocol import IntegrityFinding
from abilities.helpers.store.sqlite.connection import (
    STORE_ERRORS,
    FileIdentity,
    LogFiles,
    StoreConnection,
    translate_error,
    translate_opening,
)
from abilities.helpers.store.sqlite.transaction import RawTransaction, complete

_log = logging.getLogger("abilities.store")

APPLICATION_ID = 0x61676D32
"""'agm2' in ASCII; in the file's header, it distinguishes a store from other SQLite databases."""

_UNPUBLISHED_IDS = (0x61676D65, 0x61676D31)

_LOG_SECONDS = 3.0
"""Seconds between two lines of the log about the progress of a copy."""

HEADER_BYTES = 100
"""The bytes of a database's header."""

OWNER_ONLY = 0o600
"""The mode of all files, because memories are private to their owner."""

_UNFINISHED = re.compile(r".+-new-[0-9]+-[0-9a-f]{8}")
"""The names of files from `reserve_new_file`."""

_PAGES = 2_000

Progress = Callable[[float], None]
"""Called with the share that is copied, from 0 to 1. After 1, the copy is still being checked."""

BUSY_SECONDS = 5.0

IN_USE_SECONDS = 5.0
"""How long another process may take to open or check a database before it counts as in use."""

KEPT_BYTES = 8 * 1024 * 1024
"""A larger log is truncated. Without long reads or large writes, it stays at about half of this."""

MIGRATION_SECONDS = 3_600.0

CUT_LOG = "PRAGMA wal_checkpoint(TRUNCATE)"
"""Writes the log into the database and truncates it, unless a read takes too long."""

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
    f"journal_size_limit = {KEPT_BYTES}",
    "journal_mode = WAL",  # a backup that was put here by hand has another mode
    "query_only = OFF",
    "secure_delete = ON",  # a purge leaves nothing in free pages
)
_READER_PRAGMAS = (
    *_PRAGMAS,
    "wal_autocheckpoint = 0",  # only the writer writes the log back
    "query_only = ON",
)


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


def is_store_header(header: bytes) -> bool:
    """Return whether a file with this header is a database of this package, sound or not.

    See https://www.sqlite.org/fileformat2.html#the_database_header.
    """
    application_id = int.from_bytes(header[68:72], "big")
    is_known = application_id in (APPLICATION_ID, *_UNPUBLISHED_IDS)
    return header.startswith(b"SQLite format 3\0") and is_known


def read_version(connection: sqlite3.Connection) -> int:
    """Return the version of a database that may be a store.

    Raises Refused: schema_unpublished, corrupted, schema_too_new.
    """
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    if application_id in _UNPUBLISHED_IDS:
        raise Refused("schema_unpublished")
    if application_id != APPLICATION_ID:
        raise Refused("corrupted")

    return check_version(connection)


def check_version(connection: sqlite3.Connection) -> int:
    """Return the version of a store. Raises Refused: corrupted, schema_too_new.

    Every transaction checks it again, because a newer process may have migrated the store since the
    last one.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version < 1:
        raise Refused("corrupted")
    if version > migration.VERSION:
        raise Refused("schema_too_new")

    return int(version)


def is_older(connection: sqlite3.Connection) -> bool:
    """Return whether a store needs a migration. Raises Refused like `read_version`."""
    return read_version(connection) < migration.VERSION


def create_store(path: Path, language: Language) -> None:
    """Create a store in an empty file; ``language`` is that of its recall index."""
    script = files("abilities.helpers.store.sqlite").joinpath("schema.sql")
    statements = script.read_text(encoding="utf-8")

    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.executescript(
            f"BEGIN IMMEDIATE; {statements} PRAGMA user_version = {migration.VERSION};"
        )
        connection.execute("INSERT INTO recall_language VALUES (?)", (language.name,))
        connection.execute("COMMIT")


def migrate(connection: StoreConnection, path: Path) -> None:
    """Copy a store of an older version, then migrate it; the caller keeps other processes out.

    If the copy cannot be made, nothing is changed. The copy is kept beside the store, and never
    replaces an earlier one. Raises Refused("corrupted") if the pages of the store are damaged;
    OSError, sqlite3.Error.
    """
    if not is_older(connection):  # another process was faster
        return

    logged_at = time.monotonic()

    def report(share: float) -> None:
        nonlocal logged_at
        if time.monotonic() - logged_at >= _LOG_SECONDS:
            logged_at = time.monotonic()
            _log.info("Copying the memory store: %d %%", share * 100)

    _log.info("Copying the memory store %s before it is migrated.", path)
    with reserve_new_file(path) as copy:
        copy_database(connection, copy, report)
        _log.info("Checking the copy.")
        _check_copy(copy)
        set_journal_mode(copy, "DELETE")
        sync_file(copy)

        connection.execute("BEGIN IMMEDIATE")
        try:
            complete(migration.migrate(RawTransaction(connection), read_version(connection)))
            connection.execute(f"PRAGMA user_version = {migration.VERSION}")

            # The copy gets its name only now, or each failed attempt would leave one.
            kept = path.with_name(f"{path.name}.before-{migration.VERSION}")
            numbers = count(2)
            while kept.exists():
                kept = path.with_name(f"{path.name}.before-{migration.VERSION}-{next(numbers)}")
            os.link(copy, kept)
            sync_folder(path.parent)

            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    _log.info("The copy of the memory store from before is %s", kept)


def _check_copy(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as copy:
        read_version(copy)
        # In KiB, and large, because the check looks up every index entry.
        copy.execute("PRAGMA cache_size = -32768")
        messages = copy.execute("PRAGMA integrity_check(1)").fetchall()

    if messages != [("ok",)]:
        _log.error("The memory store cannot be migrated, because it is damaged: %s", *messages[0])
        raise Refused("corrupted")


def find_log_files(path: Path) -> LogFiles:
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


def measure_log(path: Path) -> int:
    """Return the size of a database's log in bytes; 0 if there is none."""
    try:
        return os.stat(f"{path}-wal").st_size
    except FileNotFoundError:
        return 0


def _identify(path: str | Path) -> FileIdentity | None:
    try:
        status = os.stat(path)
    except OSError:
        return None

    return status.st_dev, status.st_ino


def connect_to_file(path: Path, mode: str) -> StoreConnection:
    """Connect to an existing database; ``mode`` is SQLite's "ro" or "rw".

    The caller begins and ends transactions explicitly. The connection may be used on another
    thread. Raises Refused("storage_moved") if the log of a database in use was removed.
    """
    check_unopened_log(path)
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        factory=StoreConnection,
    )


def _set_busy_timeout(connection: sqlite3.Connection) -> None:
    connection.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}")


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

    def __init__(self, path: Path, language: Language | None = None) -> None:
        self.path = path
        self._language = language or Language()
        # A lock on the database itself would move with it.
        self._lock_path = _name_lock(path)
        self._lock_descriptor: int | None = None
        self._identity: tuple[int, int] | None = None  # device and inode of the opened file
        self._is_closing = False
        self._opening = threading.Lock()

    def open(self, *, writing: bool) -> StoreConnection:
        """Return a new connection; create the store if none existed before. Raises Refused."""
        # Several threads may be the first to open the file, but it must be created only once.
        with self._opening:
            try:
                if not self.path.exists():
                    self._create()

                connection = self._connect(writing)
                if is_older(connection):
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

    def check_in_place(self, connection: StoreConnection) -> None:
        """Raise Refused("storage_moved") if the path no longer leads to the opened file and log."""
        self._check_database_in_place()
        check_log(connection, self.path)

    def save_log(self, connection: StoreConnection) -> None:
        """Write a removed log into the database, because it contains acknowledged changes.

        The caller holds the lock. If other files have taken the place of the log, nothing is done:
        another program may have begun its own log and changed the database. Raises
        Refused("storage_moved") if the database itself is not in place.
        """
        self._check_database_in_place()
        opened = connection.log_files or ()
        pairs = zip(find_log_files(self.path), opened, strict=False)
        if opened and all(found in (None, former) for found, former in pairs):
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def shrink_log(self, connection: StoreConnection) -> None:
        """Truncate the log if it is large and has no readers at the moment.

        It never waits for readers, because it holds the lock that processes share.
        """
        if measure_log(self.path) <= KEPT_BYTES:
            return

        with self.lock():
            connection.execute("PRAGMA busy_timeout = 0")
            try:
                connection.execute(CUT_LOG)
            finally:
                _set_busy_timeout(connection)

    def _check_database_in_place(self) -> None:
        if _identify(self.path) != self._identity:
            raise Refused("storage_moved")

    def check_side_files(self) -> list[IntegrityFinding]:
        """Report the write-ahead log, and copies of the store beside it."""
        log_words = f"The write-ahead log holds {measure_log(self.path):,} bytes."
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
                create_store(new_path, self._language)
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
                migrate(connection, self.path)
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

    def _connect(self, writing: bool) -> StoreConnection:
        """Return a connection to the existing database, after it was recognized as a store."""
        status = os.stat(self.path)
        if status.st_size == 0:  # SQLite would take it for a new database
            raise Refused("corrupted")

        # A reader may be the last to close, and then SQLite writes the log back into the database.
        mode = "rw" if writing or os.access(self.path, os.W_OK) else "ro"
        connection = connect_to_file(self.path, mode)
        try:
            read_version(connection)  # no setting may change another program's file
            _set_busy_timeout(connection)
            pragmas = _WRITER_PRAGMAS if writing else _READER_PRAGMAS
            for pragma in pragmas:
                connection.execute(f"PRAGMA {pragma}")
            read_version(connection)  # opens the log if there was none
            check_log(connection, self.path)
        except BaseException:
            connection.close()
            raise

        # Set only once: if a later connection finds another file, the store was moved.
        if self._identity is None:
            self._identity = (status.st_dev, status.st_ino)
        return connection
