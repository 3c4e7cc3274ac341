"""Migrations of both kinds of store, tried on a made-up next version: under kills, and by many."""

import asyncio
import fcntl
import os
import random
import shutil
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from abilities.helpers.store.changes import Change
from abilities.helpers.store.migration import Block
from abilities.helpers.store.postgres.store import PostgresStore
from abilities.helpers.store.sqlite import migration, reader, schema, thread
from abilities.helpers.store.sqlite.store import SqliteStore
from tests.stores.behaviours.steps import NAMESPACE, TIME, put
from tests.stores.test_stores import find_reason, open_store
from tests.stores.test_transfer import run
from tests.support import made_up_migration
from tests.support.forked import Forked
from tests.support.measurements import reached
from tests.support.permissions import let_others_enter
from tests.support.tier import size
from tests.support.waiting import GIVE_UP_SECONDS, wait_until

COUNT = size("ABILITIES_MIGRATED", quick=300, full=1_000)
KILLS = size("ABILITIES_MIGRATION_KILLS", quick=5, full=40)

# It dies in the block of that number: after so many seconds, and at its end at the latest.
DYING = """
import itertools, os, signal, threading
from functools import partial
numbers = itertools.count()
die = partial(os.kill, os.getpid(), signal.SIGKILL)
def is_last(words):
    if not words or next(numbers) != int(words[0]):
        return False
    threading.Timer(float(words[1]), die).start()
    return True
"""

OPENER = f"""{DYING}
import asyncio, sys
from pathlib import Path
from abilities.helpers.store.sqlite import copying, migration
from abilities.helpers.store.sqlite.store import SqliteStore
from tests.support import made_up_migration
made_up_migration.announce(2)
copying._PAGES = int(sys.argv[2])
progress = migration.MigrationLog
progress.is_due = lambda self: True
progress.log_rows = lambda self, words, rows: print(words, rows, flush=True)
progress.log_copy = lambda self, share: print("copied", share, flush=True)
run_block = migration._run_block
def run_and_die(*arguments):
    is_dying = is_last(sys.argv[3:])
    is_unfinished = run_block(*arguments)
    if is_dying:
        die()
    return is_unfinished
migration._run_block = run_and_die
async def main():
    store = SqliteStore(Path(sys.argv[1]))
    print((await store.read_stats("conformance")).total)
    await store.close()
asyncio.run(main())
"""

MIGRATOR = f"""{DYING}
import asyncio, sys
import psycopg
from abilities.helpers.search.terms import Language
from abilities.helpers.store.postgres import migration
from tests.support import made_up_migration
made_up_migration.announce(2)
run_block = migration._run_block
async def run_and_die(*arguments):
    is_dying = is_last(sys.argv[2:])
    await run_block(*arguments)
    if is_dying:
        die()
migration._run_block = run_and_die
async def main():
    connection = await psycopg.AsyncConnection.connect(sys.argv[1], autocommit=True)
    await connection.execute("SET search_path = abilities_data, public")
    await migration.migrate(connection, Language())
    await connection.close()
asyncio.run(main())
"""


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """An SQLite store of the current version with some memories."""
    path = tmp_path / "m.db"
    async with open_store(path) as store:
        await fill(store)

    return path


async def fill(store: SqliteStore | PostgresStore) -> None:
    changes: list[Change] = []
    for number in range(COUNT):
        fields = {"type": "core", "content": "x" * (number % 50 + 1)}
        name = f"k{number:05}"
        changes.append(Change("store", TIME, key=name, new_id=name, fields=fields))

    outcomes = await store.change_many(NAMESPACE, changes, atomic=True)
    assert not any(isinstance(outcome, Exception) for outcome in outcomes)


@pytest.fixture
def next_version(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process knows the made-up version 2; the store is of version 1."""
    made_up_migration.announce(2, monkeypatch.setattr)


@contextmanager
def connect(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def read_state(path: Path) -> tuple[int, bool]:
    """Return a store's version, and whether a migration to it is unfinished."""
    with connect(path) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        return version, schema.is_migrating(connection)


def check_migrated(path: Path) -> None:
    """Check that every memory is there, as the next version has it."""
    assert read_state(path) == (2, False)
    with connect(path) as connection:
        rows = "SELECT count(*), sum(size = length(content)) FROM memories"
        assert connection.execute(rows).fetchone() == (COUNT, COUNT)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def list_names(path: Path) -> list[str]:
    """Return the names of a store and of what lies beside it."""
    return sorted(beside.name for beside in path.parent.glob(f"{path.name}*"))


@pytest.mark.usefixtures("next_version")
async def test_a_store_is_copied_and_migrated_when_it_is_opened(path: Path) -> None:
    async with open_store(path) as store:
        assert (await store.read_stats(NAMESPACE)).total == COUNT
        await put(store, "new")

    with connect(path) as connection:
        connection.execute("DELETE FROM memories WHERE key = 'new'")
    check_migrated(path)
    assert list_names(path) == ["m.db", "m.db-lock", "m.db.before-2"]
    with connect(path.with_name("m.db.before-2")) as copy:
        assert copy.execute("PRAGMA user_version").fetchone() == (1,)
        assert copy.execute("SELECT count(*) FROM memories").fetchone() == (COUNT,)


async def test_a_migration_that_is_killed_goes_on(path: Path) -> None:
    chance = random.Random(7)
    kills = halves = 0

    while kills < KILLS and read_state(path) != (2, False):
        blocks, seconds = chance.randrange(5), chance.random() * 0.005
        opener = Forked(OPENER, path, "100000", blocks, seconds)
        opener.communicate(timeout=GIVE_UP_SECONDS)
        kills += opener.returncode == -signal.SIGKILL
        halves += read_state(path)[1]

    assert kills > 1 and halves > 0, "some kills left the migration unfinished"
    last = Forked(OPENER, path, "100000")
    last.communicate(timeout=GIVE_UP_SECONDS)
    assert last.returncode == 0
    check_migrated(path)
    assert "m.db.before-2" in list_names(path)
    assert not list(path.parent.glob("m.db-new-*"))
    reached(17, f"{kills} kills of the migration of {COUNT:,} memories, nothing lost")


async def test_a_copy_that_is_killed_is_made_again(path: Path) -> None:
    for _ in range(2):
        opener = Forked(OPENER, path, "1")
        assert opener.stdout.readline().startswith(b"copied")
        opener.send_signal(signal.SIGKILL)
        opener.communicate()

    assert read_state(path) == (1, False), "nothing was changed"
    assert len(list(path.parent.glob("m.db-new-*"))) <= 2, "one copy, and SQLite's file beside it"

    Forked(OPENER, path, "100000").communicate(timeout=GIVE_UP_SECONDS)

    check_migrated(path)
    assert list_names(path) == ["m.db", "m.db-lock", "m.db.before-2"]


async def test_processes_migrate_together(path: Path) -> None:
    openers = [Forked(OPENER, path, "10") for _ in range(3)]
    outputs = [opener.communicate(timeout=GIVE_UP_SECONDS)[0] for opener in openers]

    assert [opener.returncode for opener in openers] == [0, 0, 0]
    assert {int(output.split()[-1]) for output in outputs} == {COUNT}
    check_migrated(path)
    assert [name for name in list_names(path) if "before" in name] == ["m.db.before-2"]


@pytest.mark.usefixtures("next_version")
async def test_a_copy_is_never_replaced(path: Path) -> None:
    earlier = path.with_name("m.db.before-2")
    earlier.write_text("of another time")

    async with open_store(path) as store:
        await store.read_stats(NAMESPACE)

    assert earlier.read_text() == "of another time"
    assert "m.db.before-2-2" in list_names(path)


@pytest.mark.usefixtures("next_version")
async def test_nothing_is_changed_without_room_for_the_copy(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = path.read_bytes()

    def copy_to_a_full_disk(source: sqlite3.Connection, copy: Path, progress: Any) -> None:
        with connect(copy) as target:
            target.execute("CREATE TABLE t (x)")
            target.execute("PRAGMA max_page_count = 1")  # SQLite takes this as: those there are
            target.execute("INSERT INTO t VALUES (zeroblob(100000))")

    with monkeypatch.context() as patch:
        patch.setattr(migration, "copy_database", copy_to_a_full_disk)
        async with open_store(path) as store:
            assert await find_reason(store.read_stats(NAMESPACE)) == "storage_full"
            assert await find_reason(put(store, "k")) == "storage_full"

    assert read_state(path) == (1, False) and path.read_bytes() == before
    assert list_names(path) == ["m.db", "m.db-lock"]

    async with open_store(path) as store:
        await store.read_stats(NAMESPACE)
    check_migrated(path)


@pytest.mark.usefixtures("next_version")
async def test_a_damaged_file_is_refused_and_left_untouched(path: Path) -> None:
    raw = path.read_bytes()
    page = raw.index(b"k00150") // 4_096 * 4_096
    path.write_bytes(raw[:page] + bytes(100) + raw[page + 100 :])
    before = path.read_bytes()

    async with open_store(path) as store:
        assert await find_reason(store.read_stats(NAMESPACE)) == "corrupted"

    assert path.read_bytes() == before
    assert list_names(path) == ["m.db", "m.db-lock"]


@pytest.mark.usefixtures("next_version")
async def test_a_file_that_cannot_be_written_says_so(path: Path, unprivileged: None) -> None:
    user = os.geteuid()
    if os.getuid() == 0:
        os.seteuid(0)
    let_others_enter(path.parent)
    path.parent.chmod(0o777)
    path.chmod(0o444)
    path.with_name("m.db-lock").chmod(0o666)
    os.seteuid(user)

    async with open_store(path) as store:
        assert await find_reason(store.read_stats(NAMESPACE)) == "schema_too_old"
        assert await find_reason(put(store, "k")) == "schema_too_old"


@pytest.mark.usefixtures("next_version")
async def test_a_call_does_not_wait_for_the_end_of_a_migration(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread, "WAIT_SECONDS", 0.1)
    monkeypatch.setattr(reader, "OPEN_SECONDS", 0.1)
    lock = os.open(f"{path}-lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)  # as a process has it that copies the store

    async with open_store(path) as store:
        assert await find_reason(store.read_stats(NAMESPACE)) == "busy"
        assert await find_reason(put(store, "k")) == "busy"

        preparing = asyncio.ensure_future(store.prepare())
        os.close(lock)
        await asyncio.wait_for(preparing, GIVE_UP_SECONDS)

        assert (await store.read_stats(NAMESPACE)).total == COUNT
        assert await find_reason(store.read_linked(NAMESPACE, "k", 0, 1)) == "memory_not_found", (
            "a change that was given up is not made later"
        )


@pytest.mark.usefixtures("next_version")
async def test_closing_interrupts_a_migration_and_the_next_opening_resumes_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(made_up_migration, "BLOCK_ROWS", 1)
        store = SqliteStore(path)
        reading = asyncio.create_task(find_reason(store.read_stats(NAMESPACE)))
        await wait_until(lambda: read_state(path) == (2, True))
        await store.close()

        assert await reading == "unavailable"
        assert read_state(path) == (2, True)

    async with open_store(path) as store:
        await store.read_stats(NAMESPACE)
    check_migrated(path)


async def test_a_process_that_was_left_behind_is_refused(path: Path) -> None:
    async with open_store(path) as store:
        await store.read(NAMESPACE, ["k00001"])
        Forked(OPENER, path, "100000").communicate(timeout=GIVE_UP_SECONDS)

        assert await find_reason(put(store, "new")) == "schema_too_new"
        assert await find_reason(store.read_stats(NAMESPACE)) == "schema_too_new"

    check_migrated(path)


@pytest.mark.usefixtures("next_version")
def test_people_are_told_of_an_older_store_and_of_the_copy(path: Path, tmp_path: Path) -> None:
    printed = run(path, "doctor")
    assert "is older; it is migrated when next opened" in printed.stdout
    assert read_state(path) == (1, False)

    copy = tmp_path / "backup.db"
    shutil.copy(path, copy)
    restored = run(tmp_path / "r.db", "restore", copy)
    assert restored.exit_code == 0, restored.output
    assert read_state(tmp_path / "r.db") == (1, False)

    checked = run(path, "check", "--full")
    assert "The schema version is 2, the current one." in checked.stdout
    assert f"        {path}.before-2\n" in checked.stdout


async def test_a_migration_goes_through_every_version_after_one_copy(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up_migration.announce(2, monkeypatch.setattr)
    nothing = migration.SqliteStage("nothing", lambda _, __: Block(0, None))
    further = migration.SqliteMigration(lambda _: None, (nothing,))
    monkeypatch.setitem(migration.MIGRATIONS, 3, further)
    monkeypatch.setattr(schema, "VERSION", 3)

    async with open_store(path) as store:
        await store.read_stats(NAMESPACE)

    assert read_state(path) == (3, False)
    assert [name for name in list_names(path) if "before" in name] == ["m.db.before-3"]


@pytest.mark.parametrize("application_id", [0x61676D65, 0x61676D31])
async def test_a_store_of_an_earlier_checkout_is_refused_with_the_way_out(
    path: Path, application_id: int
) -> None:
    with connect(path) as connection:
        connection.execute(f"PRAGMA application_id = {application_id}")
        connection.execute("PRAGMA user_version = 7")
    before = path.read_bytes()

    async with open_store(path) as store:
        assert await find_reason(store.read_stats(NAMESPACE)) == "schema_unpublished"
        assert await find_reason(put(store, "k")) == "schema_unpublished"

    printed = await asyncio.to_thread(run, path, "call", "get_memory_stats", "{}")
    doctor = " ".join((await asyncio.to_thread(run, path, "doctor")).output.split())
    assert printed.exit_code == 1 and "before the first published version" in printed.output
    assert "`abilities export` of the checkout that made" in doctor
    assert path.read_bytes() == before


@pytest.fixture
async def database(url: str) -> str:
    """A PostgreSQL store of the current version with some memories."""
    store = PostgresStore(url)
    await fill(store)
    await store.close()
    return url


def read_database(url: str) -> tuple[int, bool, int]:
    """Return a store's version, whether its migration is unfinished, and how much is filled."""
    with psycopg.connect(url) as connection:
        version = connection.execute("SELECT max(number) FROM abilities.store_version").fetchone()
        table = connection.execute("SELECT to_regclass('abilities.migration')").fetchone()
        assert version is not None and table is not None
        filled = connection.execute(
            "SELECT sum((to_jsonb(m) ->> 'size' = length(content)::text)::int)"
            " FROM abilities_data.memories AS m"
        ).fetchone()

    assert filled is not None
    return version[0], table != (None,), filled[0] or 0


async def test_a_database_is_migrated_under_kills(database: str) -> None:
    chance = random.Random(7)
    kills = halves = 0

    while read_database(database)[:2] != (2, False):
        blocks, seconds = chance.randrange(5), chance.random() * 0.01
        migrator = Forked(MIGRATOR, database, blocks, seconds)
        migrator.communicate(timeout=GIVE_UP_SECONDS)
        kills += migrator.returncode == -signal.SIGKILL
        halves += read_database(database)[1]

    assert kills > 1 and halves > 0
    assert read_database(database) == (2, False, COUNT)
    reached(17, f"{kills} kills of the migration of {COUNT:,} memories in PostgreSQL")


async def test_processes_migrate_a_database_together(database: str) -> None:
    migrators = [Forked(MIGRATOR, database) for _ in range(2)]
    outputs = [migrator.communicate(timeout=GIVE_UP_SECONDS) for migrator in migrators]

    assert [migrator.returncode for migrator in migrators] == [0, 0], outputs
    assert read_database(database) == (2, False, COUNT)


async def test_a_process_that_a_database_left_behind_is_refused(database: str) -> None:
    store = PostgresStore(database)
    await store.read(NAMESPACE, ["k00001"])
    with psycopg.connect(database) as other:
        other.execute("SELECT abilities.expect_version(1)")  # as every transaction begins
        migrator = Forked(MIGRATOR, database)
        await asyncio.sleep(0.2)
        assert read_database(database)[0] == 1, "it waits for changes of the version before"
        other.commit()
    migrator.communicate(timeout=GIVE_UP_SECONDS)

    for work in (
        put(store, "new"),
        store.read(NAMESPACE, ["k00001"]),
        store.read_stats(NAMESPACE),
        store.check(lambda _: None, full=True),
    ):
        assert await find_reason(work) == "schema_too_new"
    await store.close()
    assert read_database(database) == (2, False, COUNT)


@pytest.mark.parametrize("table", [sql.Identifier("version"), sql.Identifier("schema_version")])
async def test_a_database_of_an_earlier_checkout_is_refused(
    url: str, table: sql.Identifier
) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("CREATE SCHEMA abilities")
        connection.execute(sql.SQL("CREATE TABLE abilities.{} (number integer)").format(table))
        connection.execute(sql.SQL("INSERT INTO abilities.{} VALUES (5)").format(table))

    store = PostgresStore(url)
    assert await find_reason(store.read_stats(NAMESPACE)) == "schema_unpublished"
    await store.close()
