"""The store in PostgreSQL, on a real server: rows B and S, trips and promises."""

import asyncio
import json
import random
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest

from abilities import Abilities, Settings
from abilities.declarations.refusals import FAULTS, SHOWN_REASONS, Reason, Refused
from abilities.helpers.store.model import LinkRecord, StoredMemory, hash_values
from abilities.helpers.store.postgres import pool, schema, server
from abilities.helpers.store.postgres.store import PostgresStore
from abilities.helpers.store.postgres.transaction import lock, translate_postgres_error
from abilities.helpers.store.transaction import Transaction
from abilities.helpers.walk import WalkLimits
from tests.memories import calls, test_memories
from tests.stores.behaviours import NAMESPACE, put
from tests.stores.test_stores import KILLS, list_lost
from tests.support import postgres
from tests.support.file_cases import Row
from tests.support.measurements import reached
from tests.support.memory_cases import MEMORY_STORE_ROWS
from tests.support.places import DatabasePlace, FilePlace, find_damage, find_reason
from tests.support.plugins import TAME, install, read_through_the_context
from tests.support.sample_files import make_roots
from tests.support.surfaces import Through, calls_through
from tests.support.tier import size
from tests.support.trips import count_trips
from tests.support.waiting import GIVE_UP_SECONDS, wait_until
from tests.support.writers import link_once, start, write_for_ever

NEVER = 3600.0
"""Seconds that no test takes: a limit that is not reached."""

SCHEMA_MAKERS = size("ABILITIES_SCHEMA_MAKERS", quick=2, full=10)

ROUNDS = max(KILLS // 5, 2)
"""Of these, every second one kills the server, the others its writers."""


@pytest.fixture
def roots(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings for two empty roots and an empty database, whose rows the tests can tamper with."""
    monkeypatch.setattr(test_memories, "tamper", tamper)
    return make_roots(tmp_path).model_copy(update={"store_url": url})


@pytest.fixture(params=["python", "http"])
def through(request: pytest.FixtureRequest) -> Through:
    """Calls through Python, and through HTTP, which crosses event loops and processes."""
    return calls_through(request.param)


def tamper(settings: Settings, statement: str, *values: Any) -> None:
    """Change the database behind the store's back; make a hash anew if it is to fit."""
    plain, has_hash = re.subn(r", hash = \w+\(.*\) WHERE", " WHERE", statement)
    table = "links" if " links " in statement else "memories"

    with psycopg.connect(settings.store_url) as connection:
        connection.execute("SET search_path = abilities_data")
        changed = connection.execute(
            f"{plain.replace('9e999', chr(39) + 'Infinity' + chr(39))} RETURNING *".encode()
        )
        names = [column.name for column in changed.description or ()]
        (row,) = changed.fetchall()
        if has_hash:
            fields = dict(zip(names, row, strict=True))
            chosen = list(LinkRecord._fields[:-1]) if table == "links" else names[:-1]
            fresh = hash_values(tuple(fields[name] for name in chosen))
            key = ("source", "target") if table == "links" else ("namespace", "key")
            update = f"UPDATE {table} SET hash = %s WHERE {key[0]} = %s AND {key[1]} = %s"
            assert (
                connection.execute(
                    update.encode(), (fresh, fields[key[0]], fields[key[1]])
                ).rowcount
                == 1
            )


def open_store(url: str) -> AbstractAsyncContextManager[PostgresStore]:
    return DatabasePlace(url, Path.cwd()).open()


async def test_a_change_whose_batch_fails_for_an_unforeseen_reason_is_tried_alone(url: str) -> None:
    async def fail(transaction: Transaction) -> None:
        await transaction.run("DO $$ BEGIN RAISE SQLSTATE 'XX000'; END $$")

    async with open_store(url) as store:
        first = store.engine.write(NAMESPACE, fail)
        others = [put(store, f"k{number}") for number in range(30)]
        failed, *stored = await asyncio.gather(first, *others, return_exceptions=True)

        assert isinstance(failed, Refused)
        assert [result for result in stored if isinstance(result, Exception)] == []
        assert await store.count_memories() == 30


@pytest.fixture(scope="module")
def unchanged(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings for two empty roots and an empty database, where no call changes anything."""
    settings = make_roots(tmp_path_factory.mktemp("unchanged"))
    with postgres.database(server) as url:
        yield settings.model_copy(update={"store_url": url})


@pytest.mark.parametrize("row", MEMORY_STORE_ROWS, ids=str)
async def test_a_wrong_call_is_refused_as_by_the_embedded_store(
    row: Row, unchanged: Settings, through: Through
) -> None:
    assert row.call is not None

    call = through(unchanged)
    if any(text in ascii(row.arguments) for text in ("\\ud800", "inf", "nan")):
        call = calls_through("python")(unchanged)

    reason = row.call[0]
    found = await calls.find_reason(call, row.name, **row.arguments)
    assert found == SHOWN_REASONS.get(reason, reason)


@pytest.mark.requirement("R4.5.2", "R4.7.2")
async def test_a_walk_takes_few_round_trips(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One for the links of each level, first and last included, and one for the memories."""
    async with open_store(url) as store:
        chain = [put(store, f"c{n}", links=[(f"c{n + 1}", 0.5)]) for n in range(10)]
        tree = [
            put(store, f"t{n}", links=[(f"t{n * 4 + k}", k / 10) for k in range(1, 5)])
            for n in range(200)
        ]
        # In groups: on a busy machine the last of two hundred writes at once would wait too long.
        puts = [*chain, *tree]
        for start in range(0, len(puts), 30):
            await asyncio.gather(*puts[start : start + 30])
        trips = count_trips(monkeypatch)
        for key in ("c0", "t0", "t1", "t3"):
            for depth in (1, 3, 6):
                trips.clear()
                await store.walk(NAMESPACE, key, WalkLimits(depth, 20, 50))
                assert 2 <= len(trips) <= depth + 2, (key, depth, len(trips))


async def test_a_page_of_an_export_takes_few_round_trips(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One for the memories and one for their links, however many there are."""
    async with open_store(url) as store:
        memories = [put(store, f"m{n}", links=[(f"m{n + 1}", 0.5)] * (n % 3)) for n in range(40)]
        await asyncio.gather(*memories)
        trips = count_trips(monkeypatch)

        page = await store.read_page(("", ""), 100)

    assert len(trips) == 2
    links: dict[str, tuple[str, ...]] = {}
    for memory in page:
        assert isinstance(memory, StoredMemory)
        links[memory.row.key] = tuple(link.target for link in memory.links)

    for n in range(40):
        assert links[f"m{n}"] == (f"m{n + 1}",) * (n % 3 > 0)


async def test_several_processes_at_once_make_one_schema(url: str) -> None:
    running = [start(link_once, url, f"t{n}") for n in range(SCHEMA_MAKERS)]
    for process in running:
        assert await asyncio.to_thread(process.wait) == 0

    async with open_store(url) as store:
        found = await store.read_linked(NAMESPACE, "shared", 0, 20)
        assert found.links_total == SCHEMA_MAKERS


def test_every_data_tables_keys_begin_with_the_namespace(url: str) -> None:
    asyncio.run(_create_schema(url))
    with psycopg.connect(url) as connection:
        indexes = connection.execute(
            "SELECT c.relname, i.indisunique, a.attname FROM pg_index i"
            " JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace"
            " JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]"
            " WHERE n.nspname IN ('abilities', 'abilities_data')"
        ).fetchall()

    keys = [(table, column) for table, unique, column in indexes if unique]

    assert {table for table, _ in keys} == {
        "memories",
        "links",
        "shelf",
        "tags",
        "words",
        "counters",
        "history",
        "link_counts",
        "purged",
        "recall_recent",
        "recall_terms",
        "stale_ranks",
        "store_version",
        "versions",
    }
    assert all(column == "namespace" for table, column in keys if table != "store_version")


async def _create_schema(url: str) -> None:
    async with open_store(url) as store:
        await put(store, "k")


@pytest.mark.thorough
async def test_a_server_that_is_not_there_is_unavailable_and_nothing_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool, "WAIT_SECONDS", 1)
    for url in (
        "postgresql://postgres@127.0.0.1:1/none",
        "postgresql://postgres@192.0.2.1/blackhole?connect_timeout=2",
    ):
        async with asyncio.timeout(GIVE_UP_SECONDS), open_store(url) as store:
            assert await find_reason(put(store, "k")) == "unavailable"
            assert await find_reason(store.read_linked(NAMESPACE, "k", 0, 1)) == "unavailable"


@pytest.mark.parametrize(
    ("user", "database", "reason"),
    [
        ("keyholder:wrong@", "postgres", "storage_denied"),
        ("keyholder@", "postgres", "storage_denied"),
        ("stranger@", "postgres", "storage_denied"),
        ("locked@", "postgres", "storage_denied"),
        ("guest@", "private", "storage_denied"),
        ("unlisted@", "postgres", "storage_denied"),
        ("postgres@", "none", "storage_missing"),
    ],
)
async def test_who_is_not_let_in_is_refused_for_good(
    user: str, database: str, reason: str, guarded: str
) -> None:
    url = f"postgresql://{user}{guarded}/{database}"
    async with asyncio.timeout(GIVE_UP_SECONDS), open_store(url) as store:
        for call in (put(store, "k"), store.read_linked(NAMESPACE, "k", 0, 1), store.ping()):
            assert await find_reason(call) == reason

    assert not FAULTS[cast(Reason, reason)].retryable


@pytest.fixture(scope="module")
def guarded() -> Iterator[str]:
    """The host and port of a server that does not let everybody in."""
    with postgres.started() as node:
        with psycopg.connect(node.url, autocommit=True) as connection:
            for role in ("keyholder LOGIN PASSWORD 'right'", "locked NOLOGIN", "guest LOGIN"):
                connection.execute(f"CREATE ROLE {role}".encode())
            connection.execute("CREATE DATABASE private")
            connection.execute("REVOKE CONNECT ON DATABASE private FROM public")

            rules = ("keyholder 127.0.0.1/32 scram-sha-256", "+unlisted 127.0.0.2/32 trust")
            names = "postgres,stranger,locked,guest 127.0.0.1/32 trust"
            lines = [f"host all {rule}\n" for rule in (*rules, names)]
            (node.data / "pg_hba.conf").write_text("".join(lines))
            connection.execute("SELECT pg_reload_conf()")

        yield f"127.0.0.1:{node.port}"


async def test_a_connection_that_is_cut_is_made_again(url: str, server: str) -> None:
    async with open_store(url) as store:
        await put(store, "k")
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
                (urlsplit(url).path[1:],),
            )

        outcomes = [await find_reason(put(store, f"k{n}")) for n in range(10)]

        assert set(outcomes) <= {"unavailable", "done"} and outcomes[-3:] == ["done"] * 3


async def test_the_loss_of_a_leader_loses_no_acknowledged_change() -> None:
    """The leader is killed under load and its standby promoted; reads go on in between."""
    with postgres.replicated() as (leader, standby):
        async with open_store(leader.url.replace("@", f"@127.0.0.1:{standby.port},")) as store:
            await put(store, "k")
            acknowledged: list[str] = ["k"]
            stopping = asyncio.Event()

            async def write(worker: int) -> None:
                for n in range(100_000):
                    if stopping.is_set():
                        return
                    if await find_reason(put(store, f"{worker}-{n}")) == "done":
                        acknowledged.append(f"{worker}-{n}")

            writers = [asyncio.create_task(write(worker)) for worker in range(8)]
            await wait_until(lambda: len(acknowledged) > 20)
            leader.kill()
            before = len(acknowledged)

            assert before > 20

            for key in acknowledged:
                assert (await store.read(NAMESPACE, [key]))[0].row.key == key  # type: ignore[union-attr]

            standby.run("pg_ctl", "promote", "-w")
            await wait_until(lambda: len(acknowledged) >= before + 100)
            stopping.set()
            await asyncio.gather(*writers)
            assert await list_lost(store, acknowledged) == []


async def test_no_acknowledged_change_is_lost_to_kill_9() -> None:
    """Of the writers in one round, of the server in the next."""
    acknowledged: set[str] = set()
    with postgres.started("fsync=on") as node:
        for round_ in range(ROUNDS):
            names = [f"r{round_}w{worker}" for worker in range(2)]
            writers = [start(write_for_ever, node.url, name) for name in names]
            for name, writer in zip(names, writers, strict=True):
                acknowledged |= {f"{name}-{int(writer.stdout.readline())}" for _ in range(10)}

            await asyncio.sleep(random.Random(round_).random() * 0.5)
            if round_ % 2:
                node.kill()
                node.start("fsync=on")

            for name, writer in zip(names, writers, strict=True):
                writer.kill()
                output, _ = writer.communicate()
                acknowledged |= {f"{name}-{n}" for n in output.decode().split("\n")[:-1]}
        assert len(acknowledged) >= 20 * ROUNDS
        async with open_store(node.url) as store:
            assert await list_lost(store, acknowledged) == []
            assert await find_damage(store) == []

    rounds = f"PostgreSQL, {ROUNDS} rounds, of writers and server"
    reached(5, f"{rounds}: {len(acknowledged):,} acknowledged, 0 lost")


async def test_a_change_that_no_standby_has_is_not_acknowledged() -> None:
    """PostgreSQL reports such a commit as done if its wait is interrupted; the store does not."""
    waiting = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    with postgres.replicated() as (leader, standby):
        async with open_store(leader.url) as store:
            await put(store, "k")
            standby.stop()
            writing = asyncio.create_task(find_reason(put(store, "new")))
            with psycopg.connect(leader.url, autocommit=True) as connection:
                while not connection.execute(waiting).fetchall():
                    await asyncio.sleep(0.01)

            assert await writing == "unavailable"
            assert await find_reason(store.read_linked(NAMESPACE, "k", 0, 1)) == "done"

            standby.start()

            assert await find_reason(put(store, "new")) == "done"


async def test_a_change_that_postgresql_gives_up_is_made_again(url: str) -> None:
    """Somebody holds a row that a change needs, and waits for the lock that the change holds."""
    async with open_store(url) as store:
        await put(store, "k")
        async with await psycopg.AsyncConnection.connect(url) as other:
            # So that it is the change that is given up.
            await other.execute("SET deadlock_timeout = '30s'")
            await other.execute("SELECT FROM abilities_data.counters FOR UPDATE")
            writing = asyncio.create_task(put(store, "other"))
            while not (await (await other.execute(WAITING)).fetchall()):
                await asyncio.sleep(0.01)

            await lock(other, f"abilities:{NAMESPACE}")
            await other.rollback()

            assert (await writing).created


WAITING = (
    "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


async def test_a_newer_schema_is_neither_read_nor_written(url: str) -> None:
    await _create_schema(url)
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO abilities.store_version VALUES (99)")

    async with open_store(url) as store:
        assert await find_reason(put(store, "k")) == "schema_too_new"
        assert await find_reason(store.read_linked(NAMESPACE, "k", 0, 1)) == "schema_too_new"


async def test_a_held_lock_makes_it_busy_not_wrong(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = pool._SESSION_SETTINGS.replace("'3s'", "'0.3s'")
    monkeypatch.setattr(pool, "_SESSION_SETTINGS", settings)

    async with open_store(url) as store:
        await put(store, "k")
        with psycopg.connect(url) as connection:
            connection.execute(
                "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"abilities:{NAMESPACE}",)
            )
            assert await find_reason(put(store, "other")) == "busy"
            assert await find_reason(store.read_linked(NAMESPACE, "k", 0, 1)) == "done", (
                "reads go on"
            )

        assert await find_reason(put(store, "other")) == "done"

        with psycopg.connect(url) as connection:
            connection.execute("LOCK TABLE abilities_data.memories IN ACCESS EXCLUSIVE MODE")
            assert await find_reason(store.read_linked(NAMESPACE, "k", 0, 1)) == "busy"
            assert await find_reason(put(store, "more")) == "busy"

        assert await find_reason(store.read_linked(NAMESPACE, "k", 0, 1)) == "done"


async def test_a_database_that_can_only_be_read_is_read(url: str) -> None:
    await _create_schema(url)
    with psycopg.connect(url, autocommit=True) as connection:
        name = urlsplit(url).path[1:]
        connection.execute(
            f'ALTER DATABASE "{name}" SET default_transaction_read_only = on'.encode()
        )

    async with open_store(url) as store:
        assert await find_reason(store.read_linked(NAMESPACE, "k", 0, 1)) == "done"
        assert await find_reason(put(store, "new")) == "read_only"


async def test_a_role_without_rights_is_refused_for_good(url: str) -> None:
    await _create_schema(url)
    role = f"guest_{uuid4().hex}"
    parts = urlsplit(url)
    guest = parts._replace(netloc=f"{role}@{parts.netloc.rpartition('@')[2]}").geturl()

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN".encode())

        async with open_store(guest) as store:
            assert await find_reason(store.read_linked(NAMESPACE, "k", 0, 1)) == "storage_denied"

        for schema in ("abilities", "abilities_data"):
            connection.execute(f"GRANT USAGE ON SCHEMA {schema} TO {role}".encode())
            connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}".encode())

        async with open_store(guest) as store:
            assert await find_reason(store.read_linked(NAMESPACE, "k", 0, 1)) == "done"
            assert await find_reason(put(store, "new")) == "read_only"

        connection.execute(f"DROP OWNED BY {role}".encode())
        connection.execute(f"DROP ROLE {role}".encode())


CONTENTS = ["x", "x", "x", "refused", "x", "x"]


async def test_a_change_that_the_database_refuses_fails_alone(url: str) -> None:
    async with open_store(url) as store:
        await put(store, "k")
        with psycopg.connect(url) as connection:
            connection.execute(
                "ALTER TABLE abilities_data.memories ADD CHECK (content != 'refused')"
            )

        outcomes = await asyncio.gather(
            *(find_reason(put(store, f"k{n}", content=c)) for n, c in enumerate(CONTENTS))
        )
        assert outcomes == ["done"] * 3 + ["storage_error"] + ["done"] * 2


async def test_a_damaged_link_follows_a_rename_and_stays_damaged(url: str) -> None:
    async with open_store(url) as store:
        memory = (await put(store, "a", links=[("a", 0.5), ("b", 0.25)])).stored
        await put(store, "b", links=[("a", 0.75)])
        with psycopg.connect(url) as connection:
            connection.execute("UPDATE abilities_data.links SET weight = 0.9 WHERE source = 'b'")

        assert memory is not None
        await put(store, "c", kind="update", id=memory.row.id)

        backlinks = await store.read_backlinks(NAMESPACE, "c", 0, 20)
        assert [(link.source, link.target) for link in backlinks.links] == [("c", "c")]
        assert backlinks.total == 2

        assert await find_damage(store) == ["links"]


async def test_renames_share_a_transaction_and_fail_alone(url: str) -> None:
    """Of many callers at once, two of whom want one key: one of those gets it."""
    async with open_store(url) as store:
        stored = await asyncio.gather(
            *(put(store, f"a{n}", links=[(f"a{(n + 1) % 20}", 0.5)]) for n in range(20))
        )
        ids = [result.stored.row.id for result in stored if result.stored]

        outcomes = await asyncio.gather(
            *(
                find_reason(put(store, f"b{n // 2 * 2}", kind="update", id=memory_id))
                for n, memory_id in enumerate(ids)
            )
        )

        assert sorted(outcomes) == ["done"] * 10 + ["key_taken"] * 10
        memories = await store.read(NAMESPACE, [f"b{n}" for n in range(0, 20, 2)])
        versions = {memory.row.version for memory in memories if isinstance(memory, StoredMemory)}
        assert versions == set(range(21, 31)), "what was refused took no version"

        assert await find_damage(store) == []


async def test_an_error_that_arrives_late_fails_its_change_alone(url: str) -> None:
    """The error of a change's last statement arrives when the change is already over."""

    async def work(divisor: int, transaction: Transaction) -> int:
        await transaction.run("SELECT 1 / CAST(? AS int)", divisor)
        return divisor

    async with asyncio.timeout(GIVE_UP_SECONDS), open_store(url) as store:
        changes = [store.engine.write(NAMESPACE, partial(work, divisor)) for divisor in (1, 0, 2)]
        first, failed, last = await asyncio.gather(*changes, return_exceptions=True)

    assert (first, last) == (1, 2)
    assert isinstance(failed, Refused)
    assert failed.reason == "storage_error"


async def test_a_change_that_takes_too_long_fails_alone(url: str) -> None:
    async def work(seconds: float, transaction: Transaction) -> float:
        await transaction.run("SET LOCAL statement_timeout = '200ms'")
        await transaction.run("SELECT pg_sleep(?)", seconds)
        return seconds

    async with asyncio.timeout(GIVE_UP_SECONDS), open_store(url) as store:
        await put(store, "k")  # the connection is open, so that the changes come together
        changes = [store.engine.write(NAMESPACE, partial(work, n)) for n in (0.1, 0, 60, 0)]
        *others, slow, last = await asyncio.gather(*changes, return_exceptions=True)

    assert (*others, last) == (0.1, 0, 0)
    assert isinstance(slow, Refused)
    assert slow.reason == "busy"


@pytest.mark.parametrize(("seconds", "transactions"), [(NEVER, range(1, 3)), (0.0, [6])])
async def test_slow_changes_do_not_share_a_transaction(
    seconds: float, transactions: Sequence[int], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "BATCH_SECONDS", seconds)

    async def work(transaction: Transaction) -> str:
        ((number,),) = await transaction.fetch("SELECT CAST(pg_current_xact_id() AS text)")
        return str(number)

    async with asyncio.timeout(GIVE_UP_SECONDS), open_store(url) as store:
        await put(store, "k")
        numbers = await asyncio.gather(*(store.engine.write(NAMESPACE, work) for _ in range(6)))

    assert len(set(numbers)) in transactions


STATES = {
    "08006": "unavailable",
    "22000": "storage_error",
    "25006": "read_only",
    "28P01": "storage_denied",
    "3D000": "storage_missing",
    "40001": "busy",
    "42501": "read_only",
    "53100": "storage_full",
    "53300": "resource_exhausted",
    "55P03": "busy",
    "57014": "busy",
    "57P01": "unavailable",
    "XX001": "corrupted",
}


@pytest.mark.parametrize(("state", "reason"), STATES.items(), ids=STATES)
def test_a_state_of_the_server_has_a_reason(state: str, reason: str) -> None:
    assert translate_postgres_error(psycopg.errors.lookup(state)()).reason == reason


async def test_search_is_right_without_an_index_too(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = b"CREATE INDEX words_search ON nowhere (folded)"
    monkeypatch.setattr(schema, "_CREATE_SEARCH_INDEX", wrong)
    settings = Settings(store_url=url, workspace_dir=Path.cwd() / "tests")

    async with Abilities.open(settings) as abilities:
        await abilities.call(
            "store_memory", {"type": "core", "content": "Größe 100%_x", "key": "k"}
        )
        for text, total in (("GRÖSSE", 1), ("%", 1), ("0%_", 1), ("_y", 0), ("\\", 0)):
            assert (await abilities.call("query_memories", {"search": text}))["total"] == total, (
                text
            )


def test_a_store_moves_between_a_file_and_a_database_without_loss(
    database_place: DatabasePlace, tmp_path: Path
) -> None:
    """Export, import and export again, both ways: the same bytes; and a check finds both sound."""
    file, back = FilePlace(tmp_path / "memory.db"), FilePlace(tmp_path / "back.db")
    asyncio.run(_fill_store(make_roots(tmp_path).model_copy(update={"store_url": file.url})))
    exported = file.export()

    assert "60 added" in database_place.run("import", "-", stdin=exported).stderr
    assert "60 unchanged" in database_place.run("import", "-", stdin=exported).stderr
    assert database_place.export() == exported
    assert back.run("import", "-", stdin=exported).exit_code == 0
    assert back.export() == exported

    for place in (file, database_place, back):
        findings = json.loads(place.run("check", "--json").stdout)
        assert {finding["state"] for finding in findings} <= {"sound", "note"}
        assert len(findings) >= 6

    copy = tmp_path / "one"
    copy.write_bytes(exported)
    backup = ("backup", tmp_path / "new")
    for command in (backup, ("restore", copy), ("backup", tmp_path, "--keep", "7")):
        refused = database_place.run(*command)
        assert refused.exit_code == 1 and "pg_dump" in refused.stderr


async def _fill_store(settings: Settings) -> None:
    async with Abilities.open(settings) as abilities:
        for n in range(60):
            links = [
                {"key": f"k/{(n * k) % 70}", "link_weight": k / 10, "type": f"t{k % 3}"}
                for k in range(1, 9)
            ]
            fields = {
                "type": ("core", "learning", "task")[n % 3],
                "content": f"Größe {n} 世界",
                "key": f"k/{n}",
            }
            stored = await abilities.call(
                "store_memory", {**fields, "links": links, "tags": ["a", f"t{n % 7}"]}
            )
            if n % 9 == 0:
                await abilities.call("delete_memory", {"id": stored["id"]})

            await abilities.call("memory_get", {"key": f"k/{n // 2}"})


async def test_a_url_that_cannot_be_one_is_refused() -> None:
    with pytest.raises(ValueError, match="PostgreSQL URL"):
        PostgresStore("postgresql://host:not-a-port:x/y?z")


async def test_a_plugins_context_works_on_its_own_loop(
    roots: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with install(tmp_path, {"tame_plugin": TAME}, {"tame": "tame_plugin:tame"}, monkeypatch):
        await read_through_the_context(roots)
