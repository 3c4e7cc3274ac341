"""Repair of an SQLite store: a new one is written from what can be read, checked, and put in place.

The same way mends damaged rows, wrong indexes and counters, and damaged pages, and whenever it is
interrupted, the store is either the old one or the new one.
"""

import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from abilities.helpers.search.terms import Language
from abilities.helpers.stores.originals import OriginalsFile, RepairReport, name_originals
from abilities.helpers.stores.protocol import IntegrityFinding
from abilities.helpers.stores.sqlite import schema
from abilities.helpers.stores.sqlite.backup import (
    UnsoundCopy,
    check_copy,
    name_replaced_store,
    translate_copy_errors,
)
from abilities.helpers.stores.sqlite.copying import reserve_new_file, set_journal_mode, sync_file
from abilities.helpers.stores.sqlite.file import StoreFile, connect_to_file
from abilities.helpers.stores.sqlite.integrity import check_search_index, check_store
from abilities.helpers.stores.sqlite.rebuild import Rebuild
from abilities.helpers.stores.sqlite.recall_index import read_language


def repair(
    store: Path, originals: Path | None, progress: Callable[[int], None], *, dry_run: bool
) -> RepairReport:
    """Mend a store that no other process has open; a sound one is left alone.

    ``originals`` is a new file for the damaged rows as they stood; without it, one beside the store
    is made. The old store is kept beside the new one. A dry run changes nothing, and works while
    others use the store. ``progress`` is called with the number of rows since the last call.

    Raises FileExistsError, Refused("busy") if a process has the store open, UnsoundCopy if the new
    store is not sound, which is then not put in place, and what opening the store raises.
    """
    file = StoreFile(store)
    try:
        file.open(writing=False).close()  # migrates it, and tells what cannot be opened at all
        with translate_copy_errors(), _hold(file, dry_run=dry_run):
            return _repair(file, originals or name_originals(store), progress, dry_run=dry_run)
    finally:
        file.close()


@contextmanager
def _hold(file: StoreFile, *, dry_run: bool) -> Generator[None]:
    """Keep all others from changing the store, except in a dry run. Raises Refused("busy")."""
    if dry_run:
        yield
        return

    with file.lock():
        file.write_log_back()
        yield


def _repair(
    file: StoreFile, originals_path: Path, progress: Callable[[int], None], *, dry_run: bool
) -> RepairReport:
    damage = _find_damage(file, progress, dry_run=dry_run)
    report = RepairReport(damage)
    if not damage:
        return report

    path = None if dry_run else originals_path
    with closing(OriginalsFile(path)) as originals, reserve_new_file(file.path) as new_path:
        schema.create(new_path, _choose_language(file.path))
        _rebuild(file.path, new_path, originals, report, progress)
        _check_new_store(new_path)
        if dry_run:
            return report

        set_journal_mode(new_path, "WAL")
        sync_file(new_path)

        # What stood in the damaged rows is on disk before they are replaced.
        report.originals = originals.save()
        report.previous = name_replaced_store(file.path)
        file.put_in_place(new_path, aside=report.previous)

    return report


def _find_damage(
    file: StoreFile, progress: Callable[[int], None], *, dry_run: bool
) -> list[IntegrityFinding]:
    with closing(_connect(file.path)) as connection:
        connection.execute("BEGIN")
        findings = check_store(connection, progress)
        connection.execute("ROLLBACK")

        # It counts as a write, and others may be writing during a dry run.
        if dry_run:
            with file.lock():
                findings.append(check_search_index(connection))
        else:
            findings.append(check_search_index(connection))

    return [finding for finding in findings if finding.state == "damaged"]


def _rebuild(
    store: Path,
    new_path: Path,
    originals: OriginalsFile,
    report: RepairReport,
    progress: Callable[[int], None],
) -> None:
    with closing(_connect(store)) as damaged:
        damaged.execute("BEGIN")
        with closing(Rebuild(damaged, new_path, originals, report, progress)) as rebuild:
            rebuild.run()


def _choose_language(store: Path) -> str:
    """Return the language that the recall index of a damaged store is kept in."""
    with closing(_connect(store)) as damaged:
        try:
            return read_language(damaged).name
        except sqlite3.Error:
            return Language().name


def _check_new_store(path: Path) -> None:
    """Check the new store completely. Raises UnsoundCopy."""
    set_journal_mode(path, "DELETE")
    damage = [finding for finding in check_copy(path) if finding.state == "damaged"]
    if damage:
        raise UnsoundCopy(damage)


def _connect(path: Path) -> sqlite3.Connection:
    connection = connect_to_file(path, "rw")
    connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
    return connection
