"""Migrations of stores, tried on a made-up next version: under kills, and by many processes."""

import asyncio
import fcntl
import os
import random
import shutil
import signal
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from abilities.helpers.search import terms
from abilities.helpers.store import migration
from abilities.helpers.store.changes import Change
from abilities.helpers.store.engine import Transaction
from abilities.helpers.store.postgres import pool
from abilities.helpers.store.sqlite import file as sqlite_file
from abilities.helpers.store.sqlite import store as sqlite_store
from tests.stores.behaviours.steps import NAMESPACE, plan, put, put_many
from tests.support import made_up_migration, postgres
from tests.support.forked import Forked
from tests.support.made_up_migration import NEXT, PRESENT
from tests.support.measurements import reached
from tests.support.permissions import as_root, let_others_enter
from tests.support.places import (
    DatabasePlace,
    FilePlace,
    StorePlace,
    find_damage,
    find_reason,
    list_cases,
)
from tests.support.tier import size
from tests.support.waiting import GIVE_UP_SECONDS, wait_until

COUNT = size("ABILITIES_MIGRATED", quick=300, full=1_000)
KILLS = size("ABILITIES_MIGRATION_KILLS", quick=5, full=20)

OPENER = """
import asyncio, logging, os, signal, sys, threading, time
from functools import partial
from abilities.helpers.store import migration
from abilities.helpers.store.opening import open_store
from abilities.helpers.store.sqlite import file as sqlite_file
from tests.support import made_up_migration
made_up_migration.announce()
url, pages, *words = sys.argv[1:]
sqlite_file._PAGES = int(pages)
sqlite_file._LOG_SECONDS = 0
logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")
die = partial(os.kill, os.getpid(), signal.SIGKILL)
async def add_size_and_die(transaction):
    # It dies so many seconds after the beginning; if "before", then before the end.
    if words:
        threading.Timer(float(words[0]), die).start()
    await made_up_migration.add_size(transaction)
    if words[1:] == ["before"]:
        time.sleep(60)
migration.MIGRATIONS[made_up_migration.NEXT] = add_size_and_die
async def main():
    store = open_store(url)
    print((await store.read_stats("conformance")).total, flush=True)
    await store.close()
asyncio.run(main())
"""

COPY = f"m.db.before-{NEXT}"
EXPECT = f"SELECT abilities.expect_version({PRESENT})".encode()
VERSION = {
    "sqlite": "PRAGMA user_version",
    "postgres": "SELECT max(number) FROM abilities.store_version",
}


async def fill(place: StorePlace) -> None:
    """Make a store of the current version with some memories."""
    changes: list[Change] = []
    for number in range(COUNT):
        fields = {"type": "core", "content": "x" * (number % 50 + 1)}
        changes.append(plan("store", f"k{number:05}", fields=fields))
    async with place.open() as store:
        await put_many(store, changes)


@pytest.fixture(scope="module")
def filled_file(tmp_path_factory: pytest.TempPathFactory) -> FilePlace:
    """A store in a file, for tests to copy."""
    place = FilePlace(tmp_path_factory.mktemp("filled") / "m.db")
    asyncio.run(fill(place))
    return place


@pytest.fixture(scope="module")
def filled_database(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a store in a database, for tests to copy."""
    with postgres.database(server) as url:
        asyncio.run(fill(DatabasePlace(url, tmp_path_factory.mktemp("filled"))))
        yield url


@pytest.fixture
def filled(place: StorePlace, request: pytest.FixtureRequest) -> Iterator[StorePlace]:
    """A store of the current version with some memories."""
    if isinstance(place, FilePlace):
        place.copy(request.getfixturevalue("filled_file"))
        yield place
        return

    server, template = map(request.getfixturevalue, ("server", "filled_database"))
    with postgres.database(server, template) as url:
        yield DatabasePlace(url, place.folder)


@pytest.fixture
def file(filled: StorePlace) -> FilePlace:
    """Such a store, for tests of what only a file has."""
    assert isinstance(filled, FilePlace)
    return filled


on_sqlite = pytest.mark.parametrize("place", ["sqlite"], indirect=True)
on_postgres = pytest.mark.parametrize("place", ["postgres"], indirect=True)


@pytest.fixture
def next_version(filled: StorePlace, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process knows the made-up next version; the store is of the present one."""
    made_up_migration.announce(monkeypatch.setattr)


def read_version(place: StorePlace) -> int:
    """Return the version of a store."""
    ((version,),) = place.fetch(VERSION[place.engine])
    return int(version)


def check_migrated(place: StorePlace) -> None:
    """Check that every memory is there, as the next version has it."""
    assert read_version(place) == NEXT
    rows = place.fetch("SELECT size, length(content) FROM memories")
    assert len(rows) == COUNT
    assert all(size == length for size, length in rows)
    if isinstance(place, FilePlace):
        assert place.fetch("PRAGMA integrity_check") == [("ok",)]


def list_names(place: StorePlace) -> list[str]:
    """Return the names of the files of a store in a file, and of what lies beside it."""
    return sorted(beside.name for beside in place.folder.glob("m.db*"))


def open_elsewhere(place: StorePlace, *words: object) -> Forked:
    """Let another process migrate a store; the words say how many pages it copies at once."""
    return Forked(OPENER, place.url, *words)


def finish(opener: Forked) -> bytes:
    """Wait for the end of another process; return what it said."""
    return opener.communicate(timeout=GIVE_UP_SECONDS)[0]


async def migrate(place: StorePlace) -> None:
    """Open a store, and wait until it is migrated."""
    async with place.open() as store:
        await store.prepare()


@pytest.mark.usefixtures("next_version")
async def test_a_store_is_migrated_when_it_is_opened_and_a_file_is_copied_first(
    filled: StorePlace, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "abilities.store")
    async with filled.open() as store:
        assert (await store.read_stats(NAMESPACE)).total == COUNT
        await put(store, "new")

    filled.tamper("DELETE FROM memories WHERE key = 'new'")
    check_migrated(filled)
    assert f"Migrating the memory store to version {NEXT}." in caplog.messages
    assert any(message.startswith("Migrated the memory store in") for message in caplog.messages)
    if isinstance(filled, FilePlace):
        assert list_names(filled) == ["m.db", "m.db-lock", COPY]
        copy = filled.beside(COPY)
        assert copy.fetch("PRAGMA user_version") == [(PRESENT,)]
        assert copy.fetch("SELECT count(*) FROM memories") == [(COUNT,)]


async def test_a_migration_that_is_killed_changes_nothing(filled: StorePlace) -> None:
    chance = random.Random(7)
    for _ in range(KILLS):
        killed = open_elsewhere(filled, "100000", chance.random() * 0.03, "before")
        finish(killed)
        assert killed.returncode == -signal.SIGKILL
        assert read_version(filled) == PRESENT
        with pytest.raises((sqlite3.OperationalError, psycopg.errors.UndefinedColumn)):
            filled.fetch("SELECT size FROM memories")

    kills = KILLS
    for _ in range(KILLS):  # some may die in the middle of the commit, or after it
        opener = open_elsewhere(filled, "100000", chance.random() * 0.1)
        finish(opener)
        kills += opener.returncode == -signal.SIGKILL
        if read_version(filled) == NEXT:
            break

    last = open_elsewhere(filled, "100000")
    finish(last)
    assert last.returncode == 0
    check_migrated(filled)

    words = f"{kills} kills of the migration of {COUNT:,} memories in {filled.engine}, nothing lost"
    reached(17, words)


@on_sqlite
async def test_a_copy_that_is_killed_is_made_again(filled: StorePlace) -> None:
    for _ in range(2):
        opener = open_elsewhere(filled, "1")
        while not opener.stdout.readline().startswith(b"Copying the memory store:"):
            assert opener.poll() is None
        opener.send_signal(signal.SIGKILL)
        finish(opener)

    assert read_version(filled) == PRESENT, "nothing was changed"
    unfinished = list(filled.folder.glob("m.db-new-*"))
    assert 1 <= len(unfinished) <= 3, "one copy, and the files that SQLite keeps beside it"

    finish(open_elsewhere(filled, "100000"))

    check_migrated(filled)
    assert list_names(filled) == ["m.db", "m.db-lock", COPY]


async def test_processes_migrate_together(filled: StorePlace) -> None:
    openers = [open_elsewhere(filled, "10") for _ in range(3)]
    outputs = [finish(opener) for opener in openers]

    assert [opener.returncode for opener in openers] == [0, 0, 0], outputs
    assert {int(output.split()[-1]) for output in outputs} == {COUNT}
    check_migrated(filled)
    if isinstance(filled, FilePlace):
        assert list_names(filled) == ["m.db", "m.db-lock", COPY]


@on_sqlite
@pytest.mark.usefixtures("next_version")
async def test_a_copy_is_never_replaced(file: FilePlace) -> None:
    earlier = file.folder / COPY
    earlier.write_text("of another time")

    await migrate(file)

    assert earlier.read_text() == "of another time"
    assert f"{COPY}-2" in list_names(file)


@on_sqlite
@pytest.mark.usefixtures("next_version")
async def test_nothing_is_changed_without_room_for_the_copy(
    file: FilePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = file.path.read_bytes()

    def copy_to_a_full_disk(source: sqlite3.Connection, copy: Path, progress: Any) -> None:
        with FilePlace(copy).connect() as target:
            target.execute("CREATE TABLE t (x)")
            target.execute("PRAGMA max_page_count = 1")  # SQLite takes this as: those there are
            target.execute("INSERT INTO t VALUES (zeroblob(100000))")

    with monkeypatch.context() as patch:
        patch.setattr(sqlite_file, "copy_database", copy_to_a_full_disk)
        await expect_refused(file, "storage_full")

    assert read_version(file) == PRESENT and file.path.read_bytes() == before
    assert list_names(file) == ["m.db", "m.db-lock"]
    await migrate(file)
    check_migrated(file)


async def expect_refused(place: StorePlace, reason: str) -> None:
    """Open a store, which answers nothing and is not changed."""
    async with place.open() as store:
        assert await find_reason(store.read_stats(NAMESPACE)) == reason
        assert await find_reason(put(store, "k")) == reason


@on_sqlite
@pytest.mark.usefixtures("next_version")
async def test_a_damaged_file_is_refused_and_left_untouched(file: FilePlace) -> None:
    raw = file.path.read_bytes()
    page = raw.index(b"k00150") // 4_096 * 4_096
    before = raw[:page] + bytes(100) + raw[page + 100 :]
    file.path.write_bytes(before)

    await expect_refused(file, "corrupted")

    assert file.path.read_bytes() == before
    assert list_names(file) == ["m.db", "m.db-lock"]


@on_sqlite
@pytest.mark.usefixtures("next_version")
async def test_a_damaged_row_is_migrated_as_it_is(filled: StorePlace) -> None:
    filled.tamper("UPDATE memories SET key = CAST(x'6BFF' AS TEXT) WHERE key = 'k00001'")
    await migrate(filled)

    check_migrated(filled)
    assert filled.fetch("SELECT count(*) FROM memories WHERE CAST(key AS BLOB) = x'6BFF'") == [(1,)]


@on_sqlite
@pytest.mark.usefixtures("next_version")
async def test_a_file_that_cannot_be_written_says_so(file: FilePlace, unprivileged: None) -> None:
    with as_root():
        let_others_enter(file.folder)
        file.folder.chmod(0o777)
        file.path.chmod(0o444)
        file.path.with_name("m.db-lock").chmod(0o666)

    await expect_refused(file, "schema_too_old")


@contextmanager
def hold_lock(place: StorePlace) -> Iterator[None]:
    """Let no other migrate the store, as a process does that migrates it."""
    if isinstance(place, FilePlace):
        lock = os.open(f"{place.path}-lock", os.O_RDWR | os.O_CREAT)
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            os.close(lock)
    else:
        with psycopg.connect(place.url) as connection:
            connection.execute("LOCK TABLE abilities.store_version")
            yield


@pytest.mark.usefixtures("next_version")
async def test_a_call_does_not_wait_for_the_end_of_a_migration(
    filled: StorePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_store, "WAIT_SECONDS", 0.1)
    monkeypatch.setattr(sqlite_store, "OPEN_SECONDS", 0.1)
    monkeypatch.setattr(pool, "WAIT_SECONDS", 2)  # within which the server is reached
    monkeypatch.setattr(pool, "OPEN_SECONDS", 2)

    async with filled.open() as store:
        with hold_lock(filled):
            calls = [find_reason(store.read_stats(NAMESPACE)), find_reason(put(store, "k"))]
            assert await asyncio.gather(*calls) == ["busy", "busy"]
            preparing = asyncio.ensure_future(store.prepare())

        await asyncio.wait_for(preparing, GIVE_UP_SECONDS)
        assert (await store.read_stats(NAMESPACE)).total == COUNT
        assert await find_reason(store.read_linked(NAMESPACE, "k", 0, 1)) == "memory_not_found", (
            "a change that was given up is not made later"
        )


LONG = {
    "sqlite": """
        WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers)
        SELECT n FROM numbers WHERE n < 0
    """,
    "postgres": "SELECT pg_sleep(600)",
}
"""Statements that end when they are interrupted."""


@pytest.mark.usefixtures("next_version")
async def test_closing_undoes_a_migration_and_the_next_opening_makes_it(
    filled: StorePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()

    async def take_long(transaction: Transaction) -> None:
        await made_up_migration.add_size(transaction)
        begun.set()
        await transaction.fetch(LONG[filled.engine])

    with monkeypatch.context() as patch:
        patch.setattr(migration, "MIGRATIONS", {NEXT: take_long})
        async with filled.open() as store:
            reading = asyncio.create_task(find_reason(store.read_stats(NAMESPACE)))
            await wait_until(begun.is_set)

        (outcome,) = await asyncio.gather(reading, return_exceptions=True)
        assert outcome == "unavailable" or isinstance(outcome, asyncio.CancelledError)
        assert read_version(filled) == PRESENT

    await migrate(filled)
    check_migrated(filled)


@on_sqlite
@pytest.mark.usefixtures("next_version")
async def test_closing_does_not_wait_for_another_process_that_migrates(filled: StorePlace) -> None:
    with hold_lock(filled):
        async with filled.open() as store:
            preparing = asyncio.create_task(find_reason(store.prepare()))
            await asyncio.sleep(0.1)

        assert await asyncio.wait_for(preparing, GIVE_UP_SECONDS) == "unavailable"


async def test_a_process_that_was_left_behind_is_refused(filled: StorePlace) -> None:
    async with filled.open() as store:
        await store.read(NAMESPACE, ["k00001"])
        finish(open_elsewhere(filled, "100000"))

        for work in (
            put(store, "new"),
            store.read(NAMESPACE, ["k00001"]),
            store.read_stats(NAMESPACE),
            store.check(lambda _: None, full=True),
        ):
            assert await find_reason(work) == "schema_too_new"

    check_migrated(filled)


@on_postgres
async def test_a_migration_waits_for_changes_of_the_version_before(filled: StorePlace) -> None:
    with psycopg.connect(filled.url) as other:
        other.execute(EXPECT)  # as every transaction begins
        opener = open_elsewhere(filled, "100000")
        waiting = "SELECT 1 FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'"
        await wait_until(lambda: filled.fetch(waiting) != [])
        assert read_version(filled) == PRESENT
        other.commit()

    finish(opener)
    check_migrated(filled)


@on_postgres
@pytest.mark.usefixtures("next_version")
async def test_a_migration_that_cannot_begin_is_tried_again_at_the_next_opening(
    filled: StorePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "MIGRATION_LOCK_SECONDS", 0.05)

    with psycopg.connect(filled.url) as other:
        other.execute(EXPECT)  # as every transaction begins
        async with filled.open() as store:
            assert await find_reason(store.prepare()) == "busy"

    assert read_version(filled) == PRESENT
    await migrate(filled)
    check_migrated(filled)


@on_sqlite
@pytest.mark.usefixtures("next_version")
def test_people_are_told_of_an_older_store_and_of_the_copy(file: FilePlace) -> None:
    printed = file.run("doctor")
    assert "is older; it is migrated when next opened" in printed.stdout
    assert read_version(file) == PRESENT

    backup, restoring = file.folder / "backup.db", file.beside("r.db")
    shutil.copy(file.path, backup)
    restored = restoring.run("restore", backup)
    assert restored.exit_code == 0, restored.output
    assert read_version(restoring) == PRESENT

    checked = file.run("check", "--full")
    assert f"The schema version is {NEXT}, the current one." in checked.stdout
    assert f"        {file.path}.before-{NEXT}\n" in checked.stdout


@pytest.mark.usefixtures("next_version")
async def test_a_migration_goes_through_every_version_after_one_copy(
    filled: StorePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def drop_size(transaction: Transaction) -> None:
        assert await transaction.fetch("SELECT key FROM memories WHERE size = 0") == []
        await transaction.run("DROP INDEX memories_size")

    monkeypatch.setitem(migration.MIGRATIONS, NEXT + 1, drop_size)
    monkeypatch.setattr(migration, "VERSION", NEXT + 1)

    await migrate(filled)

    assert read_version(filled) == NEXT + 1
    if isinstance(filled, FilePlace):
        assert list_names(filled) == ["m.db", "m.db-lock", f"m.db.before-{NEXT + 1}"]


EARLIER = list_cases(
    sqlite=[f"PRAGMA application_id = {number}" for number in (0x61676D65, 0x61676D31)],
    postgres=[
        f"CREATE TABLE abilities.{name} AS SELECT 5 AS number"
        for name in ("version", "schema_version")
    ],
)


@pytest.mark.parametrize(("place", "mark"), EARLIER, indirect=["place"])
async def test_a_store_of_an_earlier_checkout_is_refused_with_the_way_out(
    filled: StorePlace, mark: str
) -> None:
    with filled.connect() as connection:
        connection.execute(mark)
    files = [path.read_bytes() for path in filled.folder.glob("m.db")]

    await expect_refused(filled, "schema_unpublished")

    printed = await asyncio.to_thread(filled.run, "call", "get_memory_stats", "{}")
    doctor = " ".join((await asyncio.to_thread(filled.run, "doctor")).output.split())
    assert printed.exit_code == 1 and "before the first published version" in printed.output
    assert "`abilities export` of the checkout that made" in doctor
    assert [path.read_bytes() for path in filled.folder.glob("m.db")] == files


def undo_about(place: StorePlace) -> None:
    """Make a store one of version 1, in which no memory is about a file."""
    place.tamper("UPDATE memories SET about = '[]'")
    with place.connect() as connection:
        connection.execute("ALTER TABLE memories DROP COLUMN about")
        connection.execute("DROP TABLE about")
    set_version(place, 1)


def set_version(place: StorePlace, version: int) -> None:
    """Let a store have this version."""
    with place.connect() as connection:
        if isinstance(place, FilePlace):
            connection.execute(f"PRAGMA user_version = {version}")
        else:
            connection.execute(b"UPDATE abilities.store_version SET number = %s", (version,))


def describe_schema(place: StorePlace) -> list[str]:
    """Return the columns of the tables that version 2 changed, in any order."""
    if isinstance(place, FilePlace):
        tables = [place.fetch(f"PRAGMA table_info({name})") for name in ("about", "memories")]
        return sorted(str(column[1:]) for columns in tables for column in columns)

    columns = place.fetch("""
        SELECT table_name, column_name, data_type, collation_name, is_nullable, column_default
        FROM information_schema.columns WHERE table_name IN ('about', 'memories')
    """)
    return sorted(map(str, columns))


async def test_a_store_of_version_1_learns_which_files_its_memories_name(place: StorePlace) -> None:
    async with place.open() as store:
        await put(store, "named", content="See src/app.py.")
        await put(store, "damaged", content="See src/app.py.")
    schema = describe_schema(place)
    undo_about(place)
    place.tamper("UPDATE memories SET content = 'See src/b.py.' WHERE key = 'damaged'")

    async with place.open() as store:
        await store.prepare()
        found = await store.find_about(NAMESPACE, ["src/app.py", "src/b.py"])
        await put(store, "declared", about=["src/*"])

        assert [memory.row.key for memory in found["src/app.py"]] == ["named"]
        assert "src/b.py" not in found
        assert "memories" in await find_damage(store)

    assert describe_schema(place) == schema


async def test_the_recall_index_of_version_2_learns_of_shorter_passages(
    place: StorePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = "\n".join(f"Line {number} says nothing of note." for number in range(200))
    monkeypatch.setattr(terms, "LONGEST_PASSAGE", len(content))
    async with place.open() as store:
        await put(store, "long", content=content)
    monkeypatch.undo()

    async with place.open() as store:
        assert await find_damage(store) == ["search"]
    set_version(place, 2)
    async with place.open() as store:
        assert await find_damage(store) == []


@on_sqlite
async def test_damaged_pages_of_an_older_file_are_mended_by_a_new_one(file: FilePlace) -> None:
    undo_about(file)
    raw = file.path.read_bytes()
    page = raw.index(b"k00150") // 4_096 * 4_096
    file.path.write_bytes(raw[:page] + bytes(100) + raw[page + 100 :])

    repaired = await asyncio.to_thread(file.run, "repair")

    assert repaired.exit_code == 0, repaired.output
    assert read_version(file) == PRESENT
    async with file.open() as store:
        assert await find_damage(store) == []
        assert COUNT - 100 < await store.count_memories() <= COUNT
