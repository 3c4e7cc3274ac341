"""The migration of a store to the version of this package: in place, in blocks, and resumed.

A migration is done in stages, and a stage in blocks. Each block is a transaction that commits the
place where the next one goes on, so a process may be killed at any moment.

The version moves in the first transaction, together with a table ``migration`` that says where the
migration stands. So a process of an older version, which checks the version in each transaction, is
refused from then on. The table exists as long as the migration is unfinished: all processes that
open the store meanwhile take turns, one block at a time, and use the store only when all is done.
"""

import json
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

from abilities.declarations.faults import Refused
from abilities.helpers.store.transaction import Transaction

_LOG_SECONDS = 3.0
"""Between two log lines."""

_CREATE_PLACE = """
CREATE TABLE migration (stage integer NOT NULL, position text NOT NULL, rows bigint NOT NULL)
"""
_BEGIN_PLACE = "INSERT INTO migration (stage, position, rows) VALUES (0, '[]', 0)"
_READ_PLACE = "SELECT stage, position, rows FROM migration"
_SAVE_PLACE = "UPDATE migration SET stage = ?, position = ?, rows = ?"
_DROP_PLACE = "DROP TABLE migration"

_log = logging.getLogger("abilities.store")

Position = Sequence[str | int]
"""Where a stage stands; empty before its first block. It is stored with the store."""


class Block(NamedTuple):
    """What one block did: how many rows, and where the next block begins, None after the last."""

    rows: int
    position: Position | None


class Stage(NamedTuple):
    """A stage of a migration.

    ``words`` say what it treats, for example "memories". ``run_block`` treats some of them, from a
    position on. ``count_statement`` counts how many there are in all; it is None for a stage that
    is a single block.
    """

    words: str
    run_block: Callable[[Transaction, Position], Awaitable[Block]]
    count_statement: str | None = None


class Migration(NamedTuple):
    """The way from one version to the next.

    ``begin`` runs in the transaction in which the version moves, and changes the schema as far as
    the stages need. It must be short, because all others wait for it, and nothing of the version
    before may work after it. The last stage leaves the schema that new stores have.
    """

    begin: Callable[[Transaction], Awaitable[None]]
    stages: tuple[Stage, ...]


VERSION = 1
"""The version of the schema that this package reads and writes, on every engine."""

MIGRATIONS: dict[int, Migration] = {}
"""By the version that each leads to; none yet, because no version but the first was published."""


class SchemaState(NamedTuple):
    """The version of a store, 0 if there is none, and whether a migration to it is unfinished."""

    version: int
    is_migrating: bool

    def is_current(self) -> bool:
        """Return whether a process of this version may use the store."""
        return self.version == VERSION and not self.is_migrating


class MigratedStore(Protocol):
    """A store that is being opened, as its engine has it."""

    async def read_state(self) -> SchemaState:
        """Return the state, which needs no lock. Raises Refused: schema_too_new, and others."""
        ...

    def step(self) -> AbstractAsyncContextManager[Transaction]:
        """Begin a transaction when its turn has come; one process at a time makes one."""
        ...

    async def move(self, version: int, begin: Callable[[], Awaitable[None]]) -> None:
        """Move to a version in the transaction of a step; ``begin`` is done with it."""
        ...


async def migrate(store: MigratedStore) -> None:
    """Bring a store to the current version; any number of processes may do so at the same time.

    Raises Refused: schema_too_new, and what the store raises. Whatever is raised, the next call
    goes on from there.
    """
    progress = _Progress()
    was_older = False

    # Read without the lock, because a database that can only be read refuses the lock.
    while not (await store.read_state()).is_current():
        was_older = True
        async with store.step() as transaction:
            await _go_on(store, transaction, progress)

    if was_older:
        progress.log_end()


def check_version(version: int) -> None:
    """Raise Refused("schema_too_new") for a version that this package does not know."""
    if version > VERSION:
        raise Refused("schema_too_new")


async def _go_on(store: MigratedStore, transaction: Transaction, progress: "_Progress") -> None:
    """Begin a migration, or do a block of one, whichever is next."""
    # While this process waited for its turn, another one may have done the work.
    state = await store.read_state()
    if state.is_migrating:
        await _run_block(store, transaction, state.version, progress)
    elif state.version < VERSION:
        await _begin(store, transaction, state.version + 1)


async def _begin(store: MigratedStore, transaction: Transaction, version: int) -> None:
    """Move to the next version, and to the first stage of its migration."""

    async def begin() -> None:
        await MIGRATIONS[version].begin(transaction)
        await transaction.run(_CREATE_PLACE)
        await transaction.run(_BEGIN_PLACE)

    await store.move(version, begin)


async def _run_block(
    store: MigratedStore, transaction: Transaction, version: int, progress: "_Progress"
) -> None:
    """Do the next block of a migration, and keep where the one after it goes on."""
    stages = MIGRATIONS[version].stages
    ((number, position, done),) = await transaction.fetch(_READ_PLACE)
    stage = stages[number]

    block = await stage.run_block(transaction, json.loads(position))
    rows = done + block.rows

    if block.position is not None:
        # The standard library's JSON is ASCII, which carries the texts of damaged rows as well.
        await transaction.run(_SAVE_PLACE, number, json.dumps(block.position), rows)
    elif number + 1 < len(stages):
        await transaction.run(_SAVE_PLACE, number + 1, "[]", 0)
    else:
        await transaction.run(_DROP_PLACE)
        # At once, so that no process uses the store between two versions.
        if version < VERSION:
            await _begin(store, transaction, version + 1)

    await progress.log_rows(transaction, stage, rows)


class Pace:
    """Says when the next log line is due: every few seconds."""

    def __init__(self) -> None:
        self._logged_at = time.monotonic()

    def is_due(self) -> bool:
        """Return whether the next line is due; then the time begins anew."""
        now = time.monotonic()
        if now - self._logged_at < _LOG_SECONDS:
            return False

        self._logged_at = now
        return True


class _Progress:
    """Tells people how far a migration is."""

    def __init__(self) -> None:
        self._began_at = time.monotonic()
        self._pace = Pace()
        self._totals: dict[str, int] = {}  # rows of a stage by its words, once they were counted

    async def log_rows(self, transaction: Transaction, stage: Stage, rows: int) -> None:
        """Log how many rows of a stage are done; of one that is a single block, only its words."""
        if not self._pace.is_due():
            return

        if stage.count_statement is None:
            _log.info("Migrating the memory store: %s", stage.words)
            return

        total = self._totals.get(stage.words)
        if total is None:
            ((total,),) = await transaction.fetch(stage.count_statement)
            self._totals[stage.words] = total
        _log.info("Migrating the memory store: %s of %s %s", f"{rows:,}", f"{total:,}", stage.words)

    def log_end(self) -> None:
        """Log that the store is at the current version now, and how long that took."""
        seconds = time.monotonic() - self._began_at
        _log.info("The memory store is at version %d, after %.0f s.", VERSION, seconds)
