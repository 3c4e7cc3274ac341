"""The migration of an SQLite store to the current version: in place, and resumed if interrupted.

The version moves in the first transaction, together with a table ``migration`` that says where the
migration stands. So a process of an older version, which checks the version in each transaction, is
refused from then on. The table exists as long as the migration is unfinished: whoever opens the
store meanwhile takes part in it, block by block under the lock between processes, and uses the
store only when all is done.
"""

import json
import logging
import os
import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import count
from pathlib import Path
from typing import NamedTuple

from abilities.declarations.faults import Refused
from abilities.helpers.durable import sync_folder
from abilities.helpers.store.migration import Block, MigrationLog, MigrationPlace, Position
from abilities.helpers.store.sqlite import schema
from abilities.helpers.store.sqlite.copying import (
    copy_database,
    remove_database,
    set_journal_mode,
    sync_file,
)

_log = logging.getLogger("abilities.store")


class SqliteStage(NamedTuple):
    """A stage of a migration.

    ``words`` say what it treats, for example "memories". ``run_block`` treats some of them, from a
    position on, in a transaction of the caller. ``count_rows`` returns how many there are in all;
    it is None for a stage that is a single block.
    """

    words: str
    run_block: Callable[[sqlite3.Connection, Position], Block]
    count_rows: Callable[[sqlite3.Connection], int] | None = None


class SqliteMigration(NamedTuple):
    """The way from one version to the next.

    ``begin`` runs in the transaction in which the version moves; it changes the schema as far as
    the stages need. The last stage leaves the schema that new stores have.
    """

    begin: Callable[[sqlite3.Connection], None]
    stages: tuple[SqliteStage, ...]


MIGRATIONS: dict[int, SqliteMigration] = {}
"""By the version that each leads to; none yet, because no version but the first was published."""

Lock = Callable[[], AbstractContextManager[None]]
"""Holds the lock between processes for the length of a block."""


def migrate(connection: sqlite3.Connection, path: Path, lock: Lock) -> None:
    """Bring a store to the current version, after a copy of it was made beside it.

    Nothing is changed if the copy cannot be made. Raises Refused: schema_too_new, corrupted, and
    what ``lock`` raises; OSError; sqlite3.Error. Whatever is raised, the next call goes on from
    there.
    """
    connection.execute("PRAGMA temp_store = FILE")  # sorting for an index takes no memory
    progress = MigrationLog()

    with lock():
        if schema.read_version(connection) < schema.VERSION and not schema.is_migrating(connection):
            _log.info(
                "Migrating the memory store %s to version %d; copying it first.",
                path,
                schema.VERSION,
            )
            copy = _keep_copy(connection, path, progress)
            _log.info("Copied the memory store to %s", copy)
            _begin(connection)

    is_unfinished = True
    while is_unfinished:
        with lock():
            is_unfinished = _run_block(connection, progress)

    progress.log_end(schema.VERSION)


def _begin(connection: sqlite3.Connection) -> None:
    """Make the first transaction of the migration."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = schema.check_version(connection)
        connection.execute(
            "CREATE TABLE migration (stage INTEGER NOT NULL, position TEXT NOT NULL,"
            " rows INTEGER NOT NULL) STRICT"
        )
        _enter_version(connection, version + 1)
        connection.execute("COMMIT")
    finally:
        _roll_back(connection)


def _enter_version(connection: sqlite3.Connection, version: int) -> None:
    """Move to the next version and to the first stage of its migration."""
    connection.execute(f"PRAGMA user_version = {version}")
    MIGRATIONS[version].begin(connection)
    _save_state(connection, MigrationPlace(0, [], 0))


def _run_block(connection: sqlite3.Connection, progress: MigrationLog) -> bool:
    """Run the next block of the migration; return False if there is none."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = schema.check_version(connection)
        if not schema.is_migrating(connection):
            return False

        state = _read_state(connection)
        stages = MIGRATIONS[version].stages
        stage = stages[state.stage]
        block = stage.run_block(connection, state.position)
        rows = state.rows + block.rows

        if block.position is not None:
            _save_state(connection, MigrationPlace(state.stage, block.position, rows))
        elif state.stage + 1 < len(stages):
            _save_state(connection, MigrationPlace(state.stage + 1, [], 0))
        elif version < schema.VERSION:
            _enter_version(connection, version + 1)
        else:
            connection.execute("DROP TABLE migration")

        connection.execute("COMMIT")
        _report(connection, stage, rows, progress)
        return True
    finally:
        _roll_back(connection)


def _roll_back(connection: sqlite3.Connection) -> None:
    """End a transaction that was not committed."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def _read_state(connection: sqlite3.Connection) -> MigrationPlace:
    stage, position, rows = connection.execute(
        "SELECT stage, position, rows FROM migration"
    ).fetchone()
    return MigrationPlace(stage, json.loads(position), rows)


def _save_state(connection: sqlite3.Connection, state: MigrationPlace) -> None:
    # The standard library's JSON is ASCII, which carries the texts of damaged rows as well.
    position = json.dumps(state.position)
    connection.execute("DELETE FROM migration")
    connection.execute(
        "INSERT INTO migration VALUES (?, ?, ?)", (state.stage, position, state.rows)
    )


def _keep_copy(connection: sqlite3.Connection, path: Path, progress: MigrationLog) -> Path:
    """Copy a store beside itself and check the copy; return its path.

    Raises Refused("corrupted") if its pages are damaged: nobody could migrate them.
    """
    # One name for all, because only the holder of the lock makes one: kills leave one file at most.
    unfinished = path.with_name(f"{path.name}-new-before-{schema.VERSION}")
    remove_database(unfinished)
    try:
        os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        copy_database(connection, unfinished, progress.log_copy)
        _log.info("Checking the copy.")
        _check_copy(unfinished)
        set_journal_mode(unfinished, "DELETE")
        sync_file(unfinished)

        copy = _choose_copy_name(path)
        os.rename(unfinished, copy)
        sync_folder(path.parent)
        return copy
    finally:
        remove_database(unfinished)


def _choose_copy_name(path: Path) -> Path:
    """Return the name of the copy; an earlier copy is never replaced."""
    copy = path.with_name(f"{path.name}.before-{schema.VERSION}")
    for number in count(2):
        if not copy.exists():
            break
        copy = path.with_name(f"{path.name}.before-{schema.VERSION}-{number}")

    return copy


def _check_copy(path: Path) -> None:
    copy = sqlite3.connect(path, isolation_level=None)
    try:
        schema.read_version(copy)
        copy.execute("PRAGMA cache_size = -32768")  # in KiB; the check looks up every index entry
        messages = copy.execute("PRAGMA integrity_check(1)").fetchall()
    finally:
        copy.close()

    if messages != [("ok",)]:
        _log.error("The memory store cannot be migrated, because it is damaged: %s", *messages[0])
        raise Refused("corrupted")


def _report(
    connection: sqlite3.Connection, stage: SqliteStage, rows: int, progress: MigrationLog
) -> None:
    """Report the rows of a stage that are done."""
    if not progress.is_due():
        return

    if stage.count_rows is not None and stage.words not in progress.totals:
        progress.totals[stage.words] = stage.count_rows(connection)
    progress.log_rows(stage.words, rows)
