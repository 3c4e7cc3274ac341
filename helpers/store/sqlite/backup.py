"""Backup and restore of an SQLite store. A copy is checked before it is put in place."""

import os
import secrets
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from abilities.declarations.refusals import AbilitiesError, Refused
from abilities.helpers.durable import sync_folder
from abilities.helpers.store.protocol import IntegrityFinding
from abilities.helpers.store.sqlite.copying import (
    Progress,
    copy_database,
    reserve_new_file,
    set_journal_mode,
)
from abilities.helpers.store.sqlite.errors import is_disk_full, translate_sqlite_error
from abilities.helpers.store.sqlite.file import StoreFile, connect_to_file
from abilities.helpers.store.sqlite.integrity import find_damage
from abilities.helpers.store.sqlite.schema import is_store, read_version


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

    with closing(connect_to_file(copy, "ro")) as source, translate_copy_errors():
        if not is_store(source):
            raise NotAStore(copy)

        read_version(source)
        with _copy_and_check(source, store, "WAL", progress) as (new_store, damage):
            aside = name_replaced_store(store) if store.exists() else None
            StoreFile(store).install(new_store, aside=aside)
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
    """Yield a temporary copy in the destination's folder, to be linked, and its damage.

    Raises Refused (storage_full, for example), UnsoundCopy, OSError.
    """
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
        raise translate_sqlite_error(error) from error
    except OSError as error:
        if is_disk_full(error):
            raise Refused("storage_full") from error
        raise
