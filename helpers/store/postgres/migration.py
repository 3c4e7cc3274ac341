"""The versions of the database schema: creating it, and bringing an older one forward.

A migration begins with one short transaction, which moves the version and makes a table,
abilities.migration, that says where the migration stands. Stages follow, in blocks: each block is a
transaction that commits the position where the next one goes on. So a process may be killed at any
moment, and any other one goes on. The table exists as long as the migration is unfinished: all
processes that open the store meanwhile take turns, one block at a time, and use the store only when
all is done.

A process of an older version is refused from the first transaction on, because each of its
transactions checks the version.
"""

import logging
from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import NamedTuple

import psycopg

from abilities.declarations.faults import Refused
from abilities.helpers.search.terms import Language
from abilities.helpers.store.migration import Block, MigrationLog, MigrationPlace, Position
from abilities.helpers.store.postgres.search_index import create_search_index
from abilities.helpers.store.postgres.statements import (
    LOCK,
    SCHEMA_VERSION,
    Connection,
    Select,
    Statement,
    to_number,
    to_text,
)

BEGIN_ATTEMPTS = 5
"""How often a migration tries to begin while transactions of older processes are in its way."""
_people_log = logging.getLogger("abilities.store")
"""What the command line shows on a terminal."""


class PostgresStage(NamedTuple):
    """A stage of a migration.

    ``words`` say what it treats, for example "memories". ``run_block`` treats some of them, from a
    position on, in a transaction of the caller. ``count_statement`` counts how many there are in
    all; it is None for a stage that is a single block.
    """

    words: str
    run_block: Callable[[Connection, Position], Awaitable[Block]]
    count_statement: str | None = None


class PostgresMigration(NamedTuple):
    """The way from one version to the next.

    ``begin_script`` runs in the transaction that moves the version; it must be short, because all
    others wait for it, and nothing of the version before may work after it. The last stage leaves
    the schema that new stores have.
    """

    begin_script: str
    stages: tuple[PostgresStage, ...]


MIGRATIONS: dict[int, PostgresMigration] = {}
"""By the version that each leads to; none yet, because no version but the first was published."""


class _State(NamedTuple):
    """The version of a store, 0 if there is none, and whether its migration is unfinished.

    ``is_unpublished`` tells a store that was made before the first version was published.
    """

    version: int
    is_migrating: bool
    is_unpublished: bool


_TABLES = Select(
    """
    SELECT tablename FROM pg_catalog.pg_tables
    WHERE schemaname = 'abilities' AND tablename IN (
        'store_version', 'schema_version', 'version', 'migration'
    )
    """,
    to_text,
)
_UNPUBLISHED = frozenset({"schema_version", "version"})
"""The tables that told the version before the first one was published."""
_READ_VERSION = Select("SELECT coalesce(max(number), 0) FROM abilities.store_version", to_number)
# Every transaction of the version before reads the number, and so holds it until it ends.
_LOCK_VERSION = "LOCK TABLE abilities.store_version IN ACCESS EXCLUSIVE MODE"
_SAVE_VERSION = Statement("INSERT INTO abilities.store_version VALUES (%s)")
_CREATE_PLACE = """
CREATE TABLE abilities.migration (
    stage integer NOT NULL, position text[] NOT NULL, rows bigint NOT NULL
);
INSERT INTO abilities.migration VALUES (0, '{}', 0)
"""
_READ_PLACE = Select("SELECT stage, position, rows FROM abilities.migration", MigrationPlace._make)
_SAVE_PLACE = Statement("UPDATE abilities.migration SET stage = %s, position = %s, rows = %s")
_SET_LANGUAGE = Statement("SELECT set_config('abilities.recall_language', %s, false)")
_DROP_PLACE = Statement("DROP TABLE abilities.migration")


async def migrate(connection: Connection, language: Language) -> None:
    """Create the schema, or bring it forward. Raises Refused: schema_too_new, schema_unpublished.

    ``language`` is that of the recall index of a new store. Any number of processes may do so at
    the same time; a lock lets one of them work at a time.
    """
    progress = MigrationLog()
    has_part = False
    await _SET_LANGUAGE.execute(connection, language.name)

    # Checked without the lock, because a database that can only be read refuses the lock.
    while not await _is_current(connection):
        has_part |= await _advance(connection, progress)

    if has_part:
        progress.log_end(SCHEMA_VERSION)


async def _is_current(connection: Connection) -> bool:
    """Return whether the schema is of this version.

    Raises Refused: schema_too_new, schema_unpublished.
    """
    state = await _read_state(connection)
    if state.is_unpublished:
        raise Refused("schema_unpublished")
    if state.version > SCHEMA_VERSION:
        raise Refused("schema_too_new")

    return state.version == SCHEMA_VERSION and not state.is_migrating


async def _read_state(connection: Connection) -> _State:
    """Return the state of a store.

    The catalog is read as a table, because to_regclass may answer from a cache that is older than
    the lock.
    """
    tables = await _TABLES.fetch(connection)

    version = 0
    if "store_version" in tables:
        version = await _READ_VERSION.fetch_only(connection)

    return _State(version, "migration" in tables, not _UNPUBLISHED.isdisjoint(tables))


async def _advance(connection: Connection, progress: MigrationLog) -> bool:
    """Create the schema, begin a migration, or do a block of one, whichever is next.

    Return whether it was a block.
    """
    async with connection.transaction():
        # A block, and the wait for that of another process, may take minutes.
        await connection.execute("SET LOCAL statement_timeout = 0")
        await connection.execute("SET LOCAL lock_timeout = 0")
        await LOCK.execute(connection, "abilities schema")

        # While this process waited, another one may have done the work.
        state = await _read_state(connection)
        if state.version == 0:
            await _create_schema(connection)
        elif state.is_migrating:
            await _run_block(connection, state.version, progress)
        elif state.version < SCHEMA_VERSION:
            await _begin_migration(connection, state.version + 1)

        return state.is_migrating


async def _create_schema(connection: Connection) -> None:
    script = files("abilities.helpers.store.postgres").joinpath("schema.sql")
    await connection.execute(script.read_bytes())
    await create_search_index(connection)


async def _begin_migration(connection: Connection, version: int) -> None:
    """Run the first transaction of a migration, which moves the version.

    It is tried several times, because transactions of the version before may hold the locks that it
    needs; and not for long each time, because later ones wait for it.
    """
    for attempt in range(1, BEGIN_ATTEMPTS + 1):
        try:
            async with connection.transaction():  # a savepoint
                await connection.execute("SET LOCAL lock_timeout = '3s'")
                await connection.execute(_LOCK_VERSION)
                await connection.execute(MIGRATIONS[version].begin_script.encode())
                await _SAVE_VERSION.execute(connection, version)
                await connection.execute(_CREATE_PLACE)
            break
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            if attempt == BEGIN_ATTEMPTS:
                raise

    _people_log.info("Migrating the memory store to version %s.", version)


async def _run_block(connection: Connection, version: int, progress: MigrationLog) -> None:
    """Do the next block of a migration, and keep where the one after it goes on."""
    stages = MIGRATIONS[version].stages
    place = await _READ_PLACE.fetch_only(connection)
    stage = stages[place.stage]

    block = await stage.run_block(connection, place.position)
    rows = place.rows + block.rows

    if block.position is not None:
        await _SAVE_PLACE.execute(connection, place.stage, block.position, rows)
    elif place.stage + 1 < len(stages):
        await _SAVE_PLACE.execute(connection, place.stage + 1, [], 0)
    else:
        await _DROP_PLACE.execute(connection)

    await _report(connection, stage, rows, progress)


async def _report(
    connection: Connection, stage: PostgresStage, rows: int, progress: MigrationLog
) -> None:
    """Report the rows of a stage that are done."""
    if not progress.is_due():
        return

    if stage.count_statement is not None and stage.words not in progress.totals:
        count = Select(stage.count_statement, to_number)
        progress.totals[stage.words] = await count.fetch_only(connection)
    progress.log_rows(stage.words, rows)
