"""Copies of an SQLite store: made while it is in use, checked, and put in place whole or not at all."""

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
from abilities.helpers.stores.sqlite.file import StoreFile, translate_sqlite_error, version_of
from abilities.helpers.stores.sqlite.integrity import check, check_words

_PAGES = 2_000
Share = Callable[[float], None]
"""Is told how much is copied, 0 to 1; then the copy is checked."""


class UnsoundCopy(AbilitiesError):
    """A copy that is not whole; ``findings`` say why. Nothing was put in place."""

    def __init__(self, findings: list[IntegrityFinding]) -> None:
        super().__init__("; ".join(finding.words for finding in findings))
        self.findings = findings


def backup(store: Path, target: Path, progress: Share) -> None:
    """Copy a store as it is at this moment, while others read and write it; the copy is a store itself.

    Raises FileExistsError, Unsound, and what opening the store raises.
    """
    if target.exists():
        raise FileExistsError(target)
    file = StoreFile(store)
    source = file.open(writing=False)
    try:
        with _copied(source, target, progress) as copy:
            _set_journal(copy, "DELETE")  # one file, that can be read where nothing can be written
            os.link(copy, target)
        sync_folder(target.parent)
    finally:
        source.close()
        file.close()


def restore(copy: Path, store: Path, progress: Share, *, replace: bool) -> Path | None:
    """Put a copy in a store's place, which must be empty unless ``replace`` is set.

    Answers where the store that was there is kept now. Raises FileExistsError, Unsound, Refused: busy,
    where a process has the store open that was to be replaced; and what opening the copy raises.
    """
    if store.exists() and not replace:
        raise FileExistsError(store)
    source = sqlite3.connect(f"{copy.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
    try:
        version_of(source)
        with _copied(source, store, progress) as made:
            _set_journal(made, "WAL")
            return StoreFile(store).put_in_place(
                made, aside=_aside(store) if store.exists() else None
            )
    except sqlite3.Error as error:
        raise translate_sqlite_error(error) from error
    finally:
        source.close()


def _aside(store: Path) -> Path:
    return store.with_name(
        f"{store.name}-before-{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(2)}"
    )


@contextmanager
def _copied(source: sqlite3.Connection, beside: Path, progress: Share) -> Generator[Path]:
    """A checked copy, for a while, in the folder where it is to stand."""
    made = beside.with_name(f"{beside.name}-new-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        os.close(os.open(made, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        _copy(source, made, progress)
        if wrong := [finding for finding in check_copy(made) if finding.state == "damaged"]:
            raise UnsoundCopy(wrong)
        yield made
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            with suppress(FileNotFoundError):
                os.unlink(f"{made}{suffix}")


def _copy(source: sqlite3.Connection, made: Path, progress: Share) -> None:
    target = sqlite3.connect(made, isolation_level=None)
    try:
        source.execute(
            "BEGIN"
        )  # one snapshot, so that writers need not wait and the copy need not begin again
        source.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        source.backup(
            target, pages=_PAGES, progress=lambda _, left, pages: progress(1 - left / max(pages, 1))
        )
    finally:
        target.close()
        source.execute("ROLLBACK")
    descriptor = os.open(made, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _set_journal(path: Path, mode: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA journal_mode = {mode}")
    finally:
        connection.close()


def check_copy(path: Path) -> list[IntegrityFinding]:
    """Check a store that nobody else uses, the search index too."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None
    )
    connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
    try:
        version_of(connection)
        return [*check(connection, lambda _: None), check_words(connection)]
    except sqlite3.Error as error:
        raise translate_sqlite_error(error) from error
    finally:
        connection.close()
