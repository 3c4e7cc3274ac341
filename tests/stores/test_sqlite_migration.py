"""Migrations of SQLite stores: what older stores become, under kills and with others running."""

import asyncio
import fcntl
import os
import random
import shutil
import signal
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from abilities.helpers.search import postings
from abilities.helpers.stores.conformance import NAMESPACE, put
from abilities.helpers.stores.migration import Block, MigrationLog, Position
from abilities.helpers.stores.model import IncomingMemory, StoredMemory
from abilities.helpers.stores.protocol import IntegrityFinding
from abilities.helpers.stores.query import Query
from abilities.helpers.stores.sqlite import migration, queries, reader, schema, thread
from abilities.helpers.stores.sqlite.integrity import check_store
from abilities.helpers.stores.sqlite.migrations import MIGRATIONS, to_2
from abilities.helpers.stores.sqlite.migrations.stages import SqliteMigration, SqliteStage
from abilities.helpers.stores.sqlite.store import SqliteStore
from abilities.helpers.stores.timeline import HistoryLimits
from tests.stores.test_stores import find_reason, open_store
from tests.stores.test_transfer import measure_peak, run
from tests.support import sqlite_version_1
from tests.support.forked import Forked
from tests.support.measurements import reached
from tests.support.permissions import let_others_enter
from tests.support.tier import size
from tests.support.waiting import GIVE_UP_SECONDS, wait_until

COUNT = size("ABILITIES_MIGRATED", quick=300, full=1_000)
MOST = size("ABILITIES_MIGRATED_MOST", quick=1_000, full=5_000)
KILLS = size("ABILITIES_MIGRATION_KILLS", quick=5, full=40)
SMALL_BLOCK = 16
"""Memories in a block of the recall index where processes of their own migrate."""

TABLES = (
    "recall_segments",
    "recall_docs",
    "recall_language",
    "recall_recent",
    "recall_terms",
    "memories",
    "links",
    "versions",
    "history",
    "purged",
    "link_counts",
    "stale_ranks",
    "shelf",
    "tags",
    "counters",
)

# Small blocks, so that there are many, and a line for each.
OPENER = """
import asyncio, sys
from pathlib import Path
from abilities.helpers.stores.sqlite import copying, migration
from abilities.helpers.search import postings
from abilities.helpers.stores.sqlite.migrations import to_2, to_4, to_7
from abilities.helpers.stores.sqlite.store import SqliteStore
to_2.BLOCK_ROWS, copying._PAGES = 100, int(sys.argv[2])
to_4.BLOCK_ROWS, to_7.BLOCK_ROWS, postings.BLOCK_DOCS = 23, 1, 16
progress = migration.MigrationLog
progress.is_due = lambda self: True
progress.log_rows = lambda self, words, rows: print(words, rows, flush=True)
progress.log_copy = lambda self, share: print("copied", share, flush=True)
async def main():
    store = SqliteStore(Path(sys.argv[1]))
    print((await store.read_stats("a")).total)
    await store.close()
asyncio.run(main())
"""

# A process of version 1: it checks the version in each transaction.
OLD_WRITER = """
import fcntl, os, sqlite3, sys, time
path = sys.argv[1]
lock = os.open(path + "-lock", os.O_RDWR | os.O_CREAT)
connection = sqlite3.connect(path, isolation_level=None)
while True:
    fcntl.flock(lock, fcntl.LOCK_EX)
    connection.execute("BEGIN IMMEDIATE")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > 1:
        print("schema_too_new")
        break
    connection.execute("UPDATE shelf SET access_count = access_count + 1 WHERE memory = 1")
    connection.execute("COMMIT")
    fcntl.flock(lock, fcntl.LOCK_UN)
    print("written", flush=True)
    time.sleep(0.005)  # others poll the lock
"""


@pytest.mark.parametrize("count", [1, COUNT])
async def test_a_migrated_store_equals_one_made_at_the_current_version(
    count: int, tmp_path: Path
) -> None:
    path = tmp_path / "m.db"
    memories = sqlite_version_1.make_memories(count)
    sqlite_version_1.build(path, memories)

    findings = await check(path)

    assert [finding for finding in findings if finding.state == "damaged"] == []
    assert dump(path) == await dump_imported(tmp_path / "new.db", memories)
    assert list_names(tmp_path, "m.db") == ["m.db", "m.db-lock", "m.db.before-7"]

    with connect(tmp_path / "m.db.before-7") as copy:
        assert copy.execute("PRAGMA user_version").fetchone() == (1,)
        assert copy.execute("SELECT count(*) FROM memories").fetchone() == (count,)


async def check(path: Path) -> list[IntegrityFinding]:
    """Open a store, which migrates it, and check it."""
    async with open_store(path) as store:
        return await store.check(lambda _: None, full=True)


async def dump_imported(path: Path, memories: Sequence[StoredMemory]) -> dict[str, Any]:
    """Make a store of the current version with the same memories; return all that it holds."""
    # A migrated store has no history.
    store = SqliteStore(path, history=HistoryLimits(days=0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thread, "WAIT_SECONDS", GIVE_UP_SECONDS)  # all of them wait at once
        await store.import_batch([IncomingMemory(memory) for memory in memories])
    await store.close()

    return dump(path)


def dump(path: Path) -> dict[str, Any]:
    """Return the tables and indexes of a store, and all rows of its own tables."""
    with connect(path) as connection:
        connection.text_factory = bytes
        objects = connection.execute("SELECT type, name, tbl_name FROM sqlite_schema").fetchall()
        dumped: dict[str, Any] = {"schema": sorted(objects)}

        for _, name, _ in objects:
            columns = connection.execute("SELECT * FROM pragma_table_xinfo(?)", (name,)).fetchall()
            keys = connection.execute("SELECT * FROM pragma_index_xinfo(?)", (name,)).fetchall()
            dumped[f"columns of {name.decode()}"] = (columns, keys)

        for table in TABLES:
            dumped[table] = sorted(connection.execute(f"SELECT * FROM {table}"))

        return dumped


@contextmanager
def connect(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def list_names(folder: Path, prefix: str) -> list[str]:
    return sorted(path.name for path in folder.glob(f"{prefix}*"))


async def test_damage_stays_damage_and_does_not_stop_a_migration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(to_2, "BLOCK_ROWS", 1)  # so that a position holds each damaged text once
    path = tmp_path / "m.db"
    sqlite_version_1.build(path, sqlite_version_1.make_memories(30))
    damage(
        path,
        "UPDATE memories SET content = 'other' WHERE key = 'k/000002'",
        "UPDATE memories SET summary = CAST(x'ff41' AS TEXT) WHERE key = 'k/000004'",
        "UPDATE memories SET score = 1e300 WHERE key = 'k/000006'",
        "UPDATE links SET weight = 0.123 WHERE source = 'k/000008' AND type = 'other'",
        "UPDATE links SET weight = 1e300 WHERE source = 'k/000008' AND type = 't3'",
        "UPDATE links SET rank = 0.123 WHERE source = 'k/000010' AND type = 'other'",
        "UPDATE links SET source = CAST(x'6bff41' AS TEXT)"
        " WHERE source = 'k/000012' AND type = 'other'",
        "UPDATE links SET type = CAST(x'ff' AS TEXT) WHERE source = 'k/000014' AND type = 'other'",
    )

    findings = {finding.name: finding for finding in await check(path)}

    assert findings["memories"].number == 3
    # Those five, and the three links of the memory whose score is damaged.
    assert findings["links"].number >= 5
    assert findings["versions"].state == "sound"
    assert not [name for name in findings["counters"].examples if name.endswith(" links")]

    async with open_store(path) as store:
        for key in ("k/000002", "k/000004", "k/000006"):
            assert await find_reason(store.read_linked("a", key, 0, 1)) == "checksum_mismatch"
        for key in ("k/000008", "k/000010", "k/000014"):
            kinds = {link.type for link in (await store.read_linked("a", key, 0, 20)).links}
            assert "other" not in kinds and "hub" in kinds


@pytest.mark.parametrize(
    "statement",
    [to_2._OLD_LINKS, *(to_2.format_counting(name) for name in ("source", "target"))],
)
def test_a_block_reads_one_range_of_an_index(statement: str, tmp_path: Path) -> None:
    """A block whose position is ignored reads all that is done already, again and again."""
    path = tmp_path / "m.db"
    sqlite_version_1.build(path, [])

    with connect(path) as connection:
        MIGRATIONS[2].begin(connection)
        to_2._index_incoming(connection, ())
        values = (b"a", b"k", 1, 0)[: statement.count("?")]
        plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}", values).fetchall()

    assert ")>(?,?))" in plan[0][-1], plan
    assert not [row for row in plan if "TEMP B-TREE" in row[-1]], plan


def damage(path: Path, *statements: str) -> None:
    with connect(path) as connection:
        for statement in statements:
            assert connection.execute(statement).rowcount != 0


async def test_a_migration_that_is_killed_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postings, "BLOCK_DOCS", SMALL_BLOCK)
    path = tmp_path / "m.db"
    memories = sqlite_version_1.make_memories(COUNT)
    sqlite_version_1.build(path, memories)
    chance = random.Random(7)

    kills, halves = 0, 0
    while kills < KILLS and read_state(path) != (schema.VERSION, False):
        opener = Forked(OPENER, path, "100000")
        for _ in range(chance.randrange(1, 12)):
            opener.stdout.readline()
        await asyncio.sleep(chance.random() * 0.01)  # so that it is killed within a block too

        opener.send_signal(signal.SIGKILL)
        opener.communicate()
        kills += 1
        halves += read_state(path)[1]

    assert halves > 0, "some kills left the migration unfinished"

    findings = await check(path)

    assert [finding for finding in findings if finding.state == "damaged"] == []
    assert dump(path) == await dump_imported(tmp_path / "new.db", memories)
    assert "m.db.before-7" in list_names(tmp_path, "m.db")
    assert not list(tmp_path.glob("m.db-new-*"))
    reached(17, f"{kills} kills of the migration of {COUNT:,} memories, nothing lost")


async def test_a_recall_index_that_is_made_under_kills_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kills come between blocks and within them; a block is done wholly or not at all."""
    monkeypatch.setattr(postings, "BLOCK_DOCS", SMALL_BLOCK)
    path = tmp_path / "m.db"
    memories = sqlite_version_1.make_memories(COUNT)
    sqlite_version_1.build(path, memories)
    migrate_to(path, 4)
    chance = random.Random(7)

    rows: set[int] = set()
    while read_state(path) == (4, True):
        opener = Forked(OPENER, path, "100000")
        for _ in range(chance.randrange(1, COUNT // 100)):
            opener.stdout.readline()

        opener.send_signal(signal.SIGKILL)
        opener.communicate()
        rows.add(read_migrated_rows(path))

    assert len(rows) > 2, "kills left the index unfinished in several places"
    assert [finding for finding in await check(path) if finding.state == "damaged"] == []
    assert dump(path) == await dump_imported(tmp_path / "new.db", memories)
    with connect(path) as connection:
        blocks = connection.execute("SELECT DISTINCT segment, block FROM recall_terms").fetchall()
    assert len(blocks) == 2 * (COUNT // 2 // SMALL_BLOCK)


def migrate_to(path: Path, version: int) -> None:
    """Migrate a store until the migration to a version has begun."""
    with connect(path) as connection:
        connection.create_function("chosen_language", 0, lambda: "english")
        migration._begin(connection)
        while schema.read_version(connection) < version:
            migration._run_block(connection, MigrationLog())


def read_migrated_rows(path: Path) -> int:
    """Return how many rows the stage of an unfinished migration has done; -1 after its end."""
    with connect(path) as connection:
        if not schema.is_migrating(connection):
            return -1

        (rows,) = connection.execute("SELECT rows FROM migration").fetchone()
        return int(rows)


async def test_a_copy_that_is_killed_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    sqlite_version_1.build(path, sqlite_version_1.make_memories(COUNT))

    for _ in range(2):
        opener = Forked(OPENER, path, "1")
        assert opener.stdout.readline().startswith(b"copied")
        opener.send_signal(signal.SIGKILL)
        opener.communicate()

    assert read_state(path) == (1, False), "nothing was changed"
    assert len(list(tmp_path.glob("m.db-new-*"))) <= 2, "one copy, and SQLite's file beside it"

    await check(path)

    assert list_names(tmp_path, "m.db") == ["m.db", "m.db-lock", "m.db.before-7"]


def read_state(path: Path) -> tuple[int, bool]:
    """Return a store's version, and whether a migration to it is unfinished."""
    with connect(path) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        return version, schema.is_migrating(connection)


async def test_an_old_process_is_refused_before_it_writes(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    sqlite_version_1.build(path, sqlite_version_1.make_memories(COUNT))
    writer = Forked(OLD_WRITER, path)
    assert writer.stdout.readline() == b"written\n"

    findings = await check(path)
    output, _ = writer.communicate(timeout=GIVE_UP_SECONDS)
    *lines, last = output.splitlines()

    assert last == b"schema_too_new" and set(lines) <= {b"written"}
    assert [finding for finding in findings if finding.state == "damaged"] == []

    with connect(path) as connection:
        count = connection.execute("SELECT access_count FROM shelf WHERE memory = 1").fetchone()

    assert count == (len(lines) + 1,), "what it wrote before is kept"

    with connect(tmp_path / "m.db.before-7") as copy:
        copied = copy.execute("SELECT access_count FROM shelf WHERE memory = 1").fetchone()

    assert copied == count, "nothing was written between the copy and the migration"


async def test_processes_migrate_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postings, "BLOCK_DOCS", SMALL_BLOCK)
    path = tmp_path / "m.db"
    memories = sqlite_version_1.make_memories(COUNT)
    sqlite_version_1.build(path, memories)

    openers = [Forked(OPENER, path, "10") for _ in range(3)]
    outputs = [opener.communicate(timeout=GIVE_UP_SECONDS)[0] for opener in openers]

    assert [opener.returncode for opener in openers] == [0, 0, 0]

    ends = [int(output.split()[-1]) for output in outputs]

    assert len(set(ends)) == 1 and ends[0] > 0, "each goes on once all is done"
    assert dump(path) == await dump_imported(tmp_path / "new.db", memories)
    assert list_names(tmp_path, "m.db.before") == ["m.db.before-7"]


async def test_a_copy_is_never_replaced(tmp_path: Path) -> None:
    path, earlier = tmp_path / "m.db", tmp_path / "m.db.before-7"
    sqlite_version_1.build(path, sqlite_version_1.make_memories(3))
    earlier.write_text("of another time")

    await check(path)

    assert earlier.read_text() == "of another time"
    assert list_names(tmp_path, "m.db.before") == ["m.db.before-7", "m.db.before-7-2"]


async def test_nothing_is_changed_without_room_for_the_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.db"
    sqlite_version_1.build(path, sqlite_version_1.make_memories(50))
    before = path.read_bytes()

    def copy_to_a_full_disk(source: sqlite3.Connection, copy: Path, progress: Any) -> None:
        with connect(copy) as target:
            target.execute("CREATE TABLE t (x)")
            target.execute("PRAGMA max_page_count = 1")  # SQLite takes this as: those there are
            target.execute("INSERT INTO t VALUES (zeroblob(100000))")

    with monkeypatch.context() as patch:
        patch.setattr(migration, "copy_database", copy_to_a_full_disk)
        async with open_store(path) as store:
            assert await find_reason(store.read_stats("a")) == "storage_full"
            assert await find_reason(put(store, "k")) == "storage_full"

    assert read_state(path) == (1, False) and path.read_bytes() == before
    assert not list(tmp_path.glob("m.db-new-*")) and not list(tmp_path.glob("m.db.before*"))

    await check(path)

    assert read_state(path) == (7, False), "with room it is migrated"


async def test_a_damaged_file_is_refused_and_left_untouched(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    sqlite_version_1.build(path, sqlite_version_1.make_memories(200))
    damage(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    raw = path.read_bytes()
    position = raw.index("Größe 150".encode())
    path.write_bytes(raw[: position - 400] + bytes(100) + raw[position - 300 :])
    before = path.read_bytes()

    async with open_store(path) as store:
        assert await find_reason(store.read_stats("a")) == "corrupted"

    assert path.read_bytes() == before
    assert not list(tmp_path.glob("m.db.before*")) and not list(tmp_path.glob("m.db-new-*"))


async def test_a_file_that_cannot_be_written_says_so(tmp_path: Path, unprivileged: None) -> None:
    user, path = os.geteuid(), tmp_path / "m.db"
    if os.getuid() == 0:
        os.seteuid(0)

    let_others_enter(tmp_path)

    tmp_path.chmod(0o777)
    sqlite_version_1.build(path, sqlite_version_1.make_memories(3))
    path.chmod(0o444)
    os.seteuid(user)

    async with open_store(path) as store:
        assert await find_reason(store.read_stats("a")) == "schema_too_old"
        assert await find_reason(put(store, "k")) == "schema_too_old"


async def test_a_call_does_not_wait_for_the_end_of_a_migration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread, "WAIT_SECONDS", 0.1)
    monkeypatch.setattr(reader, "OPEN_SECONDS", 0.1)
    path = tmp_path / "m.db"
    sqlite_version_1.build(path, sqlite_version_1.make_memories(3))
    lock = os.open(f"{path}-lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)  # as a process has it that copies the store

    async with open_store(path) as store:
        assert await find_reason(store.read_stats("a")) == "busy"
        assert await find_reason(put(store, "k")) == "busy"

        preparing = asyncio.ensure_future(store.prepare())
        os.close(lock)
        await asyncio.wait_for(preparing, GIVE_UP_SECONDS)

        assert (await store.read_stats("a")).total == 2
        assert await find_reason(store.read_linked(NAMESPACE, "k", 0, 1)) == "memory_not_found", (
            "a change that was given up is not made later"
        )


async def test_closing_interrupts_a_migration_and_the_next_opening_resumes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.db"
    memories = sqlite_version_1.make_memories(COUNT)
    sqlite_version_1.build(path, memories)

    with monkeypatch.context() as patch:
        patch.setattr(to_2, "BLOCK_ROWS", 1)
        store = SqliteStore(path)
        reading = asyncio.create_task(find_reason(store.read_stats("a")))
        await wait_until(lambda: read_state(path) == (2, True))
        await store.close()

        assert await reading == "unavailable"
        assert read_state(path) == (2, True)

    await check(path)

    assert read_state(path) == (7, False)
    assert dump(path) == await dump_imported(tmp_path / "new.db", memories)


async def test_a_store_goes_through_every_version_after_one_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, calls = tmp_path / "m.db", list[Position]()
    sqlite_version_1.build(path, sqlite_version_1.make_memories(5))

    def create_table(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE more (number INTEGER)")

    def fail_once(connection: sqlite3.Connection, position: Position) -> Block:
        (number,) = position or (0,)
        connection.execute("INSERT INTO more VALUES (?)", (number,))
        calls.append(position)
        if len(calls) == 2:
            raise sqlite3.OperationalError("no such thing")

        return Block(1, (int(number) + 1,) if number != 2 else None)

    to_6 = SqliteMigration(create_table, (SqliteStage("more", fail_once),))
    monkeypatch.setattr(schema, "VERSION", 6)
    monkeypatch.setitem(MIGRATIONS, 6, to_6)

    async with open_store(path) as store:
        assert await find_reason(store.read_stats("a")) == "storage_error"
        assert read_state(path) == (6, True), "what was done is kept"
        assert await find_reason(store.read_stats("a")) == "done"

    assert read_state(path) == (6, False)
    assert list_names(tmp_path, "m.db.before") == ["m.db.before-6"]

    with connect(path) as connection:
        assert connection.execute("SELECT * FROM more").fetchall() == [(0,), (1,), (2,)], (
            "a block that fails is not half done"
        )

    monkeypatch.setattr(schema, "VERSION", 5)
    async with open_store(path) as old:
        assert await find_reason(old.read_stats("a")) == "schema_too_new"


async def test_a_process_that_was_left_behind_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.db"
    async with open_store(path) as store:
        await put(store, "k")
        await store.read("a", ["k"])
        with connect(path) as newer:
            newer.execute(f"PRAGMA user_version = {schema.VERSION + 1}")

        assert await find_reason(put(store, "k2")) == "schema_too_new"
        assert await find_reason(store.read_stats("a")) == "schema_too_new"


def test_a_backup_of_an_older_version_is_restored_and_migrated_when_it_is_opened(
    tmp_path: Path,
) -> None:
    path, copy = tmp_path / "m.db", tmp_path / "backup.db"
    sqlite_version_1.build(copy, sqlite_version_1.make_memories(20))

    restored = run(path, "restore", copy)

    assert restored.exit_code == 0, restored.output
    assert read_state(path) == (1, False)

    checked = run(path, "check", "--full")

    assert checked.exit_code == 0, checked.output
    assert "The schema version is 7, the current one." in checked.stdout
    assert "Copies of the store from before a migration: 1" in checked.stdout
    # A path that is broken into lines cannot be copied.
    assert f"        {path}.before-7\n" in checked.stdout


def test_the_doctor_names_an_older_store_and_leaves_it(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    sqlite_version_1.build(path, sqlite_version_1.make_memories(3))

    printed = run(path, "doctor")

    assert "is older; it is migrated when next opened" in printed.stdout
    assert read_state(path) == (1, False)


async def test_a_copy_of_an_unfinished_migration_is_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, copy = tmp_path / "m.db", tmp_path / "copy.db"
    memories = sqlite_version_1.make_memories(20)
    sqlite_version_1.build(path, memories)
    monkeypatch.setattr(to_2, "BLOCK_ROWS", 7)
    begin_migration(path)
    shutil.copy(path, copy)

    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        version, *_ = check_store(connection, lambda _: None)

    assert version.state == "note" and "The migration to version 2 is unfinished" in version.words

    restored = run(tmp_path / "r.db", "restore", copy)

    assert restored.exit_code == 0, restored.output
    assert [f for f in await check(tmp_path / "r.db") if f.state == "damaged"] == []
    assert dump(tmp_path / "r.db") == await dump_imported(tmp_path / "new.db", memories)


def begin_migration(path: Path) -> None:
    """Make the first transaction of a migration, and two blocks."""
    with connect(path) as connection:
        migration._begin(connection)
        for _ in range(2):
            migration._run_block(connection, MigrationLog())


def test_the_lock_is_held_for_every_block(tmp_path: Path) -> None:
    path, entered = tmp_path / "m.db", list[tuple[int, bool]]()
    sqlite_version_1.build(path, sqlite_version_1.make_memories(5))
    lock = os.open(f"{path}-lock", os.O_RDWR | os.O_CREAT)

    @contextmanager
    def hold() -> Iterator[None]:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
        entered.append(read_state(path))
        fcntl.flock(lock, fcntl.LOCK_UN)

    with connect(path) as connection:
        migration.migrate(connection, path, hold)

    os.close(lock)

    assert entered[0] == (2, True), "the version moves first"
    stages = sum(len(MIGRATIONS[version].stages) for version in MIGRATIONS)
    assert entered[-1] == (7, False) and len(entered) == stages + 2


@pytest.mark.thorough
def test_a_migration_needs_no_more_memory_for_more_memories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.db"
    sqlite_version_1.build(path, sqlite_version_1.make_memories(MOST))
    monkeypatch.setenv("ABILITIES_STORE_URL", f"sqlite:///{path}")

    # A slow machine is told that the store is busy; the next call goes on with the migration.
    call = f'"{sys.executable}" -m abilities call get_memory_stats'
    peak = measure_peak("sh", "-c", f"for _ in $(seq 20); do {call} && exit; done; exit 1")

    assert peak < 128 << 20
    assert read_state(path) == (7, False)
    reached(17, f"{MOST:,} memories migrated within {peak >> 20} MiB")


@pytest.mark.parametrize("archived", [False, True])
@pytest.mark.parametrize("sort_by", ["accessed_at", "created_at", "updated_at", "access_count"])
@pytest.mark.parametrize("is_migrated", [False, True])
async def test_a_page_far_behind_the_first_looks_up_no_row_that_it_skips(
    is_migrated: bool, sort_by: str, archived: bool, tmp_path: Path
) -> None:
    path = tmp_path / "m.db"
    if is_migrated:
        sqlite_version_1.build(path, sqlite_version_1.make_memories(3))
    await check(path)

    statements: list[str] = []
    with connect(path) as connection:
        connection.set_trace_callback(statements.append)
        queries.run_query(connection, "a", Query(sort_by=sort_by, archived=archived, offset=2))
        connection.set_trace_callback(None)
        (page,) = [one for one in statements if "OFFSET 2" in one]
        plan = connection.execute(f"EXPLAIN QUERY PLAN {page}").fetchall()

    assert len(plan) == 1 and "COVERING INDEX" in plan[0][-1], plan
