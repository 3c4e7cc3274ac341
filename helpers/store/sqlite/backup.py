"""Backup, restore and the integrity check of an SQLite store.

The check covers its pages, its hashes, and all derived tables. A copy is checked before it is put
in place.
"""

import os
import secrets
import sqlite3
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from abilities.declarations.refusals import AbilitiesError, Refused
from abilities.helpers.durable import sync_folder
from abilities.helpers.store.checking import build_finding, check_rows
from abilities.helpers.store.protocol import IntegrityFinding
from abilities.helpers.store.sqlite.connection import StoreConnection, is_disk_full, translate_error
from abilities.helpers.store.sqlite.file import (
    HEADER_BYTES,
    Progress,
    StoreFile,
    connect_to_file,
    copy_database,
    is_older,
    is_store_header,
    read_damaged_texts,
    read_version,
    reserve_new_file,
    set_journal_mode,
)
from abilities.helpers.store.sqlite.search import compare_index
from abilities.helpers.store.sqlite.transaction import run


def check_store(
    connection: StoreConnection, progress: Callable[[int], None]
) -> list[IntegrityFinding]:
    """Check a snapshot and return the findings in a fixed order.

    The version comes first. The file comes second, because damage to it explains the rest. The rows
    of a store that is not migrated yet are not checked. The connection must have no transaction;
    afterwards it reads damaged texts, see `read_damaged_texts`.
    """
    read_damaged_texts(connection)
    connection.execute("PRAGMA temp_store = FILE")  # the search for repeated versions sorts all
    connection.execute("PRAGMA query_only = OFF")  # a temporary table counts as a change
    connection.execute("BEGIN")
    try:
        version = read_version(connection)
        if is_older(connection):
            words = f"The schema version is {version}; the next opening migrates it."
            findings = [IntegrityFinding("version", "note", 1, words)]
        else:
            words = f"The schema version is {version}, the current one."
            findings = [IntegrityFinding("version", "sound", 0, words)]

        try:
            messages = [text for (text,) in connection.execute("PRAGMA integrity_check(20)")]
        except sqlite3.Error as error:
            messages = [str(error)]

        damage = [message for message in messages if message != "ok"]
        sound = "The database file is intact."
        findings.append(build_finding("file", damage, sound, "Errors in the database file"))

        if findings[0].state == "sound":
            try:
                findings += run(connection, check_rows, progress, compare_index(connection))
            except (sqlite3.Error, UnicodeDecodeError) as error:
                words = f"The store cannot be read to its end: {error}"
                findings.append(IntegrityFinding("store", "damaged", 1, words))

        return findings
    finally:
        connection.rollback()


def find_damage(
    path: Path,
    progress: Callable[[int], None] = lambda _: None,
    hold: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> list[IntegrityFinding]:
    """Return the damage found by a complete check of a file. Raises Refused, sqlite3.Error.

    ``hold`` keeps other processes from writing to it. In a store of an older version, only the file
    and the search index are checked.
    """
    with closing(connect_to_file(path, "rw")) as connection:
        findings = check_store(connection, progress)
        with hold():
            findings.append(check_search_index(connection))

    return [finding for finding in findings if finding.state == "damaged"]


def check_search_index(connection: sqlite3.Connection) -> IntegrityFinding:
    """Let SQLite check the inside of the full-text tables.

    For SQLite this is a write, so that other writers wait until it is done.
    """
    damage: list[str] = []
    for table in ("search", "search_short"):
        try:
            connection.execute(f"INSERT INTO {table} ({table}) VALUES ('integrity-check')")
        except sqlite3.Error as error:
            damage.append(f"{table}: {error}")

    return build_finding(
        "index", damage, "The search index is intact.", "Errors in the search index"
    )


class UnsoundCopy(AbilitiesError):
    """A copy is damaged, as its ``findings`` describe. Nothing was put in place."""

    def __init__(self, findings: list[IntegrityFinding]) -> None:
        words = " ".join(finding.words for finding in findings)
        super().__init__(f"The copy is damaged. {words}")
        self.findings = findings


class NotAStore(AbilitiesError):
    """The file to restore is not a copy of a store. Nothing was put in place."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} is not a backup of a store; nothing was changed. "
            "If it is an export, use 'abilities import'."
        )


def backup(store: Path, target: Path, progress: Progress) -> list[IntegrityFinding]:
    """Copy the present state of a store, which may be in use, and return the damage in the copy.

    The copy is itself a store. Memories that are damaged in the store are also damaged in the copy;
    only a copy with damaged pages is not put in place. Raises FileExistsError, UnsoundCopy,
    Refused("storage_full"), and the errors of `StoreFile.open`.
    """
    if target.exists():
        raise FileExistsError(target)

    with closing(StoreFile(store)) as file, closing(file.open(writing=False)) as source:
        with _copy_and_check(source, target, "DELETE", progress) as (copy, damage):
            os.link(copy, target)

        sync_folder(target.parent)
        return damage


class RestoredStore(NamedTuple):
    """The path where a replaced store is kept, if there was one, and the damage in the copy."""

    previous: Path | None
    damage: list[IntegrityFinding]


def restore(copy: Path, store: Path, progress: Progress, *, replace: bool) -> RestoredStore:
    """Put a copy in the place of a store, which must not exist unless ``replace`` is set.

    A copy with damaged memories is restored as it is. Raises FileExistsError, NotAStore,
    UnsoundCopy, Refused("busy") if a process has the replaced store open, and the errors of opening
    the copy.
    """
    if store.exists() and not replace:
        raise FileExistsError(store)

    with translate_copy_errors(), copy.open("rb") as file:
        if not is_store_header(file.read(HEADER_BYTES)):
            raise NotAStore(copy)

    with closing(connect_to_file(copy, "ro")) as source, translate_copy_errors():
        read_version(source)
        with _copy_and_check(source, store, "WAL", progress) as (new_store, damage):
            aside = name_replaced_store(store) if store.exists() else None
            with closing(StoreFile(store)) as target, target.lock():
                target.put_in_place(new_store, aside=aside)
            return RestoredStore(aside, damage)


def can_be_mended(damage: list[IntegrityFinding]) -> bool:
    """Return whether all damage is in rows, and none in pages."""
    return not any(finding.name in ("file", "store") for finding in damage)


def name_replaced_store(store: Path) -> Path:
    """Return a new path beside a store that is about to be replaced, to keep it there.

    For example ``memories.db-before-20250131T120000-1a2b``.
    """
    now = datetime.now(UTC)
    return store.with_name(f"{store.name}-before-{now:%Y%m%dT%H%M%S}-{secrets.token_hex(2)}")


@contextmanager
def _copy_and_check(
    source: sqlite3.Connection, destination: Path, journal_mode: str, progress: Progress
) -> Generator[tuple[Path, list[IntegrityFinding]]]:
    """Yield a temporary copy in the destination's folder, to be linked, and its damage."""
    with translate_copy_errors(), reserve_new_file(destination) as copy:
        copy_database(source, copy, progress)

        damage = find_damage(copy)
        if not can_be_mended(damage):
            raise UnsoundCopy(damage)
        set_journal_mode(copy, journal_mode)
        yield copy, damage


@contextmanager
def translate_copy_errors() -> Generator[None]:
    """Translate the errors of a block that writes a copy: SQLite errors and a full disk."""
    try:
        yield
    except sqlite3.Error as error:
        raise translate_error(error) from error
    except OSError as error:
        if is_disk_full(error):
            raise Refused("storage_full") from error
        raise
