"""What the migration of an SQLite store has of its own: a checked copy, made before it begins."""

import logging
import os
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager, closing
from itertools import count
from pathlib import Path

from typing_extensions import override

from abilities.declarations.faults import Refused
from abilities.helpers.durable import sync_folder
from abilities.helpers.store import migration
from abilities.helpers.store.migration import MigratedStore, Pace, SchemaState
from abilities.helpers.store.sqlite import schema
from abilities.helpers.store.sqlite.copying import (
    copy_database,
    reserve_new_file,
    set_journal_mode,
    sync_file,
)
from abilities.helpers.store.sqlite.transaction import RawTransaction
from abilities.helpers.store.transaction import Transaction

_log = logging.getLogger("abilities.store")

Lock = Callable[[], AbstractContextManager[None]]
"""Holds the lock between processes for the length of a step."""


class MigratedFile(MigratedStore):
    """The file of a store, on a connection of its own. Its methods never wait.

    Besides what others raise, they raise what ``lock`` does, OSError and sqlite3.Error.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path, lock: Lock) -> None:
        self._connection = connection
        self._path = path
        self._lock = lock

    @override
    async def read_state(self) -> SchemaState:
        return schema.read_state(self._connection)

    @override
    @asynccontextmanager
    async def step(self) -> AsyncGenerator[Transaction]:
        """Copy the store first if its migration has not begun.

        Nothing is changed if the copy cannot be made. Raises Refused("corrupted") if it is damaged.
        """
        with self._lock():
            state = schema.read_state(self._connection)
            if state.version < migration.VERSION and not state.is_migrating:
                self._copy()

            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield RawTransaction(self._connection)
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    @override
    async def move(self, version: int, begin: Callable[[], Awaitable[None]]) -> None:
        self._connection.execute(f"PRAGMA user_version = {version}")
        await begin()

    def _copy(self) -> None:
        _log.info(
            "Migrating the memory store %s to version %d; copying it first.",
            self._path,
            migration.VERSION,
        )
        copy = _keep_copy(self._connection, self._path)
        _log.info("Copied the memory store to %s", copy)


def _keep_copy(connection: sqlite3.Connection, path: Path) -> Path:
    """Copy a store beside itself and check the copy; return its path.

    Raises Refused("corrupted") if its pages are damaged: nobody could migrate them.
    """
    pace = Pace()

    def report(share: float) -> None:
        if pace.is_due():
            _log.info("Copying the memory store: %d %%", share * 100)

    with reserve_new_file(path) as unfinished:
        copy_database(connection, unfinished, report)
        _log.info("Checking the copy.")
        _check_copy(unfinished)
        set_journal_mode(unfinished, "DELETE")
        sync_file(unfinished)

        copy = _choose_copy_name(path)
        os.link(unfinished, copy)

    sync_folder(path.parent)
    return copy


def _choose_copy_name(path: Path) -> Path:
    """Return the name of the copy; an earlier copy is never replaced."""
    copy = path.with_name(f"{path.name}.before-{migration.VERSION}")
    for number in count(2):
        if not copy.exists():
            break
        copy = path.with_name(f"{path.name}.before-{migration.VERSION}-{number}")

    return copy


def _check_copy(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as copy:
        schema.read_version(copy)
        copy.execute("PRAGMA cache_size = -32768")  # in KiB; the check looks up every index entry
        messages = copy.execute("PRAGMA integrity_check(1)").fetchall()

    if messages != [("ok",)]:
        _log.error("The memory store cannot be migrated, because it is damaged: %s", *messages[0])
        raise Refused("corrupted")
