"""Backup and restore of an SQLite store; a copy is checked before it is put in place."""

import os
import secrets
import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from abilities.declarations.faults import AbilitiesError
from abilities.helpers.durable import sync_folder
from abilities.helpers.stores.protocol import IntegrityFinding
from abilities.helpers.stores.sqlite.file import (
    StoreFile,
    connect_to_file,
    reserve_new_file,
    translate_sqlite_error,
)
from abilities.helpers.stores.sqlite.integrity import check_search_index, check_store
from abilities.helpers.stores.sqlite.schema import read_version

_PAGES = 2_000
"""Pages that are copied between two reports of progress."""

Progress = Callable[[float], None]
"""Called with the share that is copied, from 0 to 1; after 1, the copy is still checked."""


class UnsoundCopy(AbilitiesError):
    """A copy that is damaged; ``findings`` say how. Nothing was put in place."""

    def __init__(self, findings: list[IntegrityFinding]) -> None:
        words = " ".join(finding.words for finding in findings)
        super().__init__(f"The copy is damaged. {words}")
        self.findings = findings


def backup(store: Path, target: Path, progress: Progress) -> None:
    """Copy a store as it is now, while others read and write it; the copy is a store itself.

    Raises FileExistsError, UnsoundCopy, and what opening the store raises.
    """
    if target.exists():
        raise FileExistsError(target)

    file = StoreFile(store)
    source = file.open(writing=False)
    try:
        with _copy_and_check(source, target, progress) as copy:
            # Without a log the copy is one file, which a folder that cannot be written serves too.
            _set_journal_mode(copy, "DELETE")
            os.link(copy, target)
        sync_folder(target.parent)
    finally:
        source.close()
        file.close()


def restore(copy: Path, store: Path, progress: Progress, *, replace: bool) -> Path | None:
    """Put a copy in the place of a store, which must not exist unless ``replace`` is set.

    Returns where the replaced store is kept, or None if there was none. Raises FileExistsError,
    UnsoundCopy, Refused("busy") if a process has the store open that is to be replaced, and what
    opening the copy raises.
    """
    if store.exists() and not replace:
        raise FileExistsError(store)

    source = connect_to_file(copy, "ro")
    try:
        read_version(source)
        with _copy_and_check(source, store, progress) as new_store:
            _set_journal_mode(new_store, "WAL")
            aside = _name_replaced_store(store) if store.exists() else None
            StoreFile(store).install(new_store, aside=aside)
            return aside
    except sqlite3.Error as error:
        raise translate_sqlite_error(error) from error
    finally:
        source.close()


def _name_replaced_store(store: Path) -> Path:
    now = datetime.now(UTC)
    return store.with_name(f"{store.name}-before-{now:%Y%m%dT%H%M%S}-{secrets.token_hex(2)}")


@contextmanager
def _copy_and_check(
    source: sqlite3.Connection, destination: Path, progress: Progress
) -> Generator[Path]:
    """Yield a checked copy in the destination's folder, to be linked; remove it afterwards."""
    copy = reserve_new_file(destination)
    try:
        _copy(source, copy, progress)

        damage = [finding for finding in check_copy(copy) if finding.state == "damaged"]
        if damage:
            raise UnsoundCopy(damage)

        yield copy
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            with suppress(FileNotFoundError):
                os.unlink(f"{copy}{suffix}")


def _copy(source: sqlite3.Connection, copy: Path, progress: Progress) -> None:
    """Copy a database and sync the copy to disk."""

    def report(status: int, remaining: int, pages: int) -> None:
        progress(1 - remaining / max(pages, 1))

    target = sqlite3.connect(copy, isolation_level=None)
    try:
        # In one snapshot, so that a write by another process does not make the copy start again.
        source.execute("BEGIN")
        source.execute("SELECT count(*) FROM sqlite_schema").fetchone()  # takes the snapshot
        source.backup(target, pages=_PAGES, progress=report)
    finally:
        target.close()
        source.execute("ROLLBACK")

    # SQLite syncs its own transactions, but this file must be on disk before it gets its name.
    descriptor = os.open(copy, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _set_journal_mode(path: Path, mode: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA journal_mode = {mode}")
    finally:
        connection.close()


def check_copy(path: Path) -> list[IntegrityFinding]:
    """Check a store that nobody else uses, and the inside of its search index. Raises Refused."""
    connection = connect_to_file(path, "rw")
    connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
    try:
        read_version(connection)
        return [*check_store(connection, lambda _: None), check_search_index(connection)]
    except sqlite3.Error as error:
        raise translate_sqlite_error(error) from error
    finally:
        connection.close()
