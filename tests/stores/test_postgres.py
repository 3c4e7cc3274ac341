"""The store in PostgreSQL, on a real server: who is let in, trips, batches, losses and kills."""

import asyncio
import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast, get_args
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest

from abilities import Abilities, Settings
from abilities.declarations.memory import Direction
from abilities.declarations.refusals import FAULTS, Reason, Refused
from abilities.helpers.store.engine import Transaction
from abilities.helpers.store.model import LinkRecord, LinkRow, StoredMemory
from abilities.helpers.store.postgres import pool, server
from abilities.helpers.store.postgres.store import PostgresStore
from abilities.helpers.store.postgres.transaction import lock, translate_postgres_error
from abilities.helpers.walk import WalkLimits
from tests.stores.behaviours.steps import NAMESPACE, link_to, plan, put, put_many
from tests.stores.test_stores import KILLS, list_lost, store_graph
from tests.support import postgres
from tests.support.measurements import reached
from tests.support.places import DatabasePlace, find_damage, find_reason
from tests.support.plugins import TAME, install, read_through_the_context
from tests.support.postgres import count_trips, note_read_rows
from tests.support.sources import ROOT
from tests.support.tier import size
from tests.support.waiting import GIVE_UP_SECONDS, wait_until
from tests.support.walk_oracles import make_random_graph
from tests.support.writers import link_once, start, write_for_ever

NEVER = 3600.0
"""Seconds that no test takes: a limit that is not reached."""

SCHEMA_MAKERS = size("ABILITIES_SCHEMA_MAKERS", quick=2, full=10)

ROUNDS = max(KILLS // 5, 2)
"""Of these, every second one kills the server, the others its writers."""


def open_url(url: str) -> Any:
    return DatabasePlace(url, ROOT).open()


async def make_store(place: DatabasePlace) -> None:
    """Make a store with one memory, "k"."""
    async with place.open() as store:
        await put(store, "k")


@pytest.mark.requirement("R4.5.2", "R4.7.2")
async def test_a_walk_takes_few_round_trips(
    database_place: DatabasePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One for the links of each level, first and last included, and one for the memories.

    Along outgoing links the database guesses what the walk needs, with shorter ways that are met
    late too, so that it takes two.
    """
    graph, _ = make_random_graph(11)
    async with database_place.open() as store:
        await store_graph(store, NAMESPACE, graph)
        changes = [plan("store", f"c{n}", links=link_to(f"c{n + 1}")) for n in range(10)]
        for n in range(200):
            links = [link_to(f"t{n * 4 + k}", weight=k / 10)[0] for k in range(1, 5)]
            changes.append(plan("store", f"t{n}", links=links))
        await put_many(store, changes)
        trips = count_trips(monkeypatch)

        for key in ("c0", "t0", "t1", "t3"):
            for depth in (1, 3, 6):
                trips.clear()
                await store.walk(NAMESPACE, key, WalkLimits(depth, 20, 50))
                assert 2 <= len(trips) <= depth + 2, (key, depth)

        for depth in range(1, 7):
            for breadth, total in ((1, 50), (2, 7), (3, 1), (3, 50), (5, 2), (5, 50)):
                trips.clear()
                await store.walk(NAMESPACE, "m0", WalkLimits(depth, breadth, total))
                assert len(trips) == 2, (depth, breadth, total)


async def test_hubs_cost_no_more_in_any_direction(
    database_place: DatabasePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No plan of a walk or a page of backlinks reads more links than it returns."""
    async with database_place.open() as store:
        await put(store, "hub")
        with database_place.connect() as connection:
            with connection.cursor().copy("COPY links FROM STDIN") as copy:
                for number in range(20_000):
                    for ends in (("hub", f"m{number}"), (f"m{number}", "hub")):
                        link = LinkRow(*ends, "a", number / 20_000)
                        copy.write_row((NAMESPACE, *LinkRecord.build(link, 0.5, 0.5)))
            connection.execute(
                "INSERT INTO link_counts"
                " SELECT namespace, key, count(*) - sum(incoming), sum(incoming)"
                " FROM (SELECT namespace, source AS key, 0 AS incoming FROM links"
                " UNION ALL SELECT namespace, target, 1 FROM links) AS ends GROUP BY namespace, key"
            )
            connection.execute("ANALYZE links")

        with monkeypatch.context() as patch:
            read_rows = note_read_rows(patch)
            for direction in get_args(Direction):
                result = await store.walk(NAMESPACE, "hub", WalkLimits(1, 5, 20), direction)
                assert result.memories[0].backlinks_total == 20_000  # type: ignore[union-attr]

            backlinks = await store.read_backlinks(NAMESPACE, "hub", 5, 20)

    assert backlinks.total == 20_000
    assert len(read_rows) >= 8
    assert max(read_rows) <= 1_000


async def test_a_page_of_an_export_takes_two_round_trips(
    database_place: DatabasePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One for the memories and one for their links, however many there are."""
    async with database_place.open() as store:
        changes = [plan("store", f"m{n}", links=link_to(f"m{n + 1}") * (n % 3)) for n in range(40)]
        await put_many(store, changes)
        trips = count_trips(monkeypatch)

        page = await store.read_page(("", ""), 100)

    assert len(trips) == 2
    links = {m.row.key: [link.target for link in m.links] for m in cast(list[StoredMemory], page)}
    assert links == {f"m{n}": [f"m{n + 1}"] * (n % 3 > 0) for n in range(40)}


async def test_a_memory_comes_with_its_links_in_one_round_trip(
    database_place: DatabasePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change takes two more: one to find the memory and one to read back what was written."""
    async with database_place.open() as store:
        await put(store, "a", links=[("b", 0.5)])
        trips = count_trips(monkeypatch)

        memory = await store.read_linked(NAMESPACE, "a", 0, 20)
        assert len(trips) == 1
        backlinks = await store.read_backlinks(NAMESPACE, "b", 0, 20)
        assert len(trips) == 2
        trips.clear()
        await put(store, "c")

    assert len(trips) == 3
    assert memory.links == backlinks.links == (LinkRow("a", "b", "association", 0.5),)


async def test_several_processes_at_once_make_one_schema(database_place: DatabasePlace) -> None:
    running = [start(link_once, database_place.url, f"t{n}") for n in range(SCHEMA_MAKERS)]
    for process in running:
        assert await asyncio.to_thread(process.wait) == 0

    async with database_place.open() as store:
        found = await store.read_linked(NAMESPACE, "shared", 0, 20)
        assert found.links_total == SCHEMA_MAKERS


@pytest.mark.thorough
async def test_a_server_that_is_not_there_is_unavailable_and_nothing_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool, "WAIT_SECONDS", 1)
    for url in (
        "postgresql://postgres@127.0.0.1:1/none",
        "postgresql://postgres@192.0.2.1/blackhole?connect_timeout=2",
    ):
        async with asyncio.timeout(GIVE_UP_SECONDS), open_url(url) as store:
            assert await find_reason(put(store, "k")) == "unavailable"
            assert await find_reason(store.read_linked(NAMESPACE, "k", 0, 1)) == "unavailable"


def test_a_url_that_cannot_be_one_is_refused() -> None:
    with pytest.raises(ValueError, match="PostgreSQL URL"):
        PostgresStore("postgresql://host:not-a-port:x/y?z")


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
    user: str, database: str, reason: Reason, guarded: str
) -> None:
    url = f"postgresql://{user}{guarded}/{database}"
    async with asyncio.timeout(GIVE_UP_SECONDS), open_url(url) as store:
        for call in (put(store, "k"), store.read_linked(NAMESPACE, "k", 0, 1), store.ping()):
            assert await find_reason(call) == reason

    assert not FAULTS[reason].retryable


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


async def test_a_role_without_rights_is_refused_for_good(database_place: DatabasePlace) -> None:
    await make_store(database_place)
    role = f"guest_{uuid4().hex}"
    parts = urlsplit(database_place.url)
    guest = parts._replace(netloc=f"{role}@{parts.netloc.rpartition('@')[2]}").geturl()

    with database_place.connect() as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN")
        async with open_url(guest) as store:
            assert await find_reason(store.read_linked(NAMESPACE, "k", 0, 1)) == "storage_denied"

        for name in ("abilities", "abilities_data"):
            connection.execute(f"GRANT USAGE ON SCHEMA {name} TO {role}")
            connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {name} TO {role}")
        async with open_url(guest) as store:
            assert await find_reason(store.read_linked(NAMESPACE, "k", 0, 1)) == "done"
            assert await find_reason(put(store, "new")) == "read_only"

        connection.execute(f"DROP OWNED BY {role}")
        connection.execute(f"DROP ROLE {role}")


DATABASES = {
    "ALTER DATABASE {} SET default_transaction_read_only = on": ("read_only", "done"),
    "INSERT INTO abilities.store_version VALUES (99)": ("schema_too_new", "schema_too_new"),
}


@pytest.mark.parametrize("statement", DATABASES)
async def test_a_database_that_is_not_to_be_written_to_is_not(
    statement: str, database_place: DatabasePlace
) -> None:
    await make_store(database_place)
    with database_place.connect() as connection:
        connection.execute(statement.format(f'"{urlsplit(database_place.url).path[1:]}"'))

    async with database_place.open() as store:
        reading = await find_reason(store.read_linked(NAMESPACE, "k", 0, 1))
        assert (await find_reason(put(store, "new")), reading) == DATABASES[statement]


async def test_a_connection_that_is_cut_is_made_again(
    database_place: DatabasePlace, server: str
) -> None:
    async with database_place.open() as store:
        await put(store, "k")
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
                (urlsplit(database_place.url).path[1:],),
            )

        outcomes = [await find_reason(put(store, f"k{n}")) for n in range(10)]

    assert set(outcomes) <= {"unavailable", "done"} and outcomes[-3:] == ["done"] * 3


async def test_the_loss_of_a_standby_and_of_its_leader_lose_no_acknowledged_change() -> None:
    """PostgreSQL reports a commit as done if its wait for a standby is interrupted; we do not.

    The leader is killed under load and its standby promoted; reads go on in between.
    """
    interrupt = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    with postgres.replicated() as (leader, standby):
        async with open_url(leader.url.replace("@", f"@127.0.0.1:{standby.port},")) as store:
            await put(store, "k")
            standby.stop()
            writing = asyncio.create_task(find_reason(put(store, "new")))
            with psycopg.connect(leader.url, autocommit=True) as connection:
                while not connection.execute(interrupt).fetchall():
                    await asyncio.sleep(0.01)

            assert await writing == "unavailable"
            assert await find_reason(store.read_linked(NAMESPACE, "k", 0, 1)) == "done"
            standby.start()
            assert await find_reason(put(store, "new")) == "done"

            acknowledged: list[str] = ["k", "new"]
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
            assert await list_lost(store, acknowledged) == []

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
        async with open_url(node.url) as store:
            assert await list_lost(store, acknowledged) == []
            assert await find_damage(store) == []

    rounds = f"PostgreSQL, {ROUNDS} rounds, of writers and server"
    reached(5, f"{rounds}: {len(acknowledged):,} acknowledged, 0 lost")


async def test_a_change_that_postgresql_gives_up_is_made_again(
    database_place: DatabasePlace,
) -> None:
    """Somebody holds a row that a change needs, and waits for the lock that the change holds."""
    waiting = (
        "SELECT FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    async with database_place.open() as store:
        await put(store, "k")
        async with await psycopg.AsyncConnection.connect(database_place.url) as other:
            # So that it is the change that is given up.
            await other.execute("SET deadlock_timeout = '30s'")
            await other.execute("SELECT FROM abilities_data.counters FOR UPDATE")
            writing = asyncio.create_task(put(store, "other"))
            await wait_until(lambda: database_place.fetch(waiting) != [])

            await lock(other, f"abilities:{NAMESPACE}")
            await other.rollback()

            assert (await writing).created


async def test_a_held_lock_makes_it_busy_not_wrong(
    database_place: DatabasePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = pool._SESSION_SETTINGS.replace("'3s'", "'0.3s'")
    monkeypatch.setattr(pool, "_SESSION_SETTINGS", settings)

    async with database_place.open() as store:
        await put(store, "k")
        for statement, reading in (
            (f"SELECT pg_advisory_xact_lock(hashtextextended('abilities:{NAMESPACE}', 0))", "done"),
            ("LOCK TABLE abilities_data.memories IN ACCESS EXCLUSIVE MODE", "busy"),
        ):
            with psycopg.connect(database_place.url) as connection:
                connection.execute(statement.encode())
                assert await find_reason(put(store, "other")) == "busy"
                assert await find_reason(store.read_linked(NAMESPACE, "k", 0, 1)) == reading

            assert await find_reason(put(store, "other")) == "done"
            assert await find_reason(store.read_linked(NAMESPACE, "k", 0, 1)) == "done"


def run_statements(*statements: str) -> Callable[[Transaction], Any]:
    async def work(transaction: Transaction) -> None:
        for statement in statements:
            await transaction.run(statement)

    return work


FAILURES = {
    "an unforeseen reason": (
        "storage_error",
        run_statements("DO $$ BEGIN RAISE SQLSTATE 'XX000'; END $$"),
    ),
    # The error of a change's last statement arrives when the change is already over.
    "an error that arrives late": ("storage_error", run_statements("SELECT 1 / 0")),
    "a rule of the database": (
        "storage_error",
        run_statements("UPDATE memories SET content = 'refused'"),
    ),
    "its time": (
        "busy",
        run_statements("SET LOCAL statement_timeout = '200ms'", "SELECT pg_sleep(60)"),
    ),
}


@pytest.mark.parametrize("name", FAILURES)
async def test_a_change_that_fails_among_others_fails_alone(
    name: str, database_place: DatabasePlace
) -> None:
    reason, fail = FAILURES[name]
    async with asyncio.timeout(GIVE_UP_SECONDS), database_place.open() as store:
        await put(store, "k")  # the connection is open, so that the changes come together
        with database_place.connect() as connection:
            connection.execute("ALTER TABLE memories ADD CHECK (content != 'refused')")

        works = [put(store, f"k{number}") for number in range(30)]
        failed, *others = await asyncio.gather(
            store.engine.write(NAMESPACE, fail), *works, return_exceptions=True
        )

        assert isinstance(failed, Refused) and failed.reason == reason
        assert not any(isinstance(other, Exception) for other in others)
        assert await store.count_memories() == 31


async def test_renames_share_a_transaction_and_fail_alone(database_place: DatabasePlace) -> None:
    """Of many callers at once, two of whom want one key: one of those gets it."""
    async with database_place.open() as store:
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


@pytest.mark.parametrize(("seconds", "transactions"), [(NEVER, range(1, 3)), (0.0, [6])])
async def test_slow_changes_do_not_share_a_transaction(
    seconds: float,
    transactions: Sequence[int],
    database_place: DatabasePlace,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "BATCH_SECONDS", seconds)

    async def work(transaction: Transaction) -> str:
        ((number,),) = await transaction.fetch("SELECT CAST(pg_current_xact_id() AS text)")
        return str(number)

    async with asyncio.timeout(GIVE_UP_SECONDS), database_place.open() as store:
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


def test_a_state_of_the_server_has_a_reason() -> None:
    found = {state: translate_postgres_error(psycopg.errors.lookup(state)()) for state in STATES}
    assert {state: refused.reason for state, refused in found.items()} == STATES


def test_what_only_a_file_has_is_refused_with_the_way_out(database_place: DatabasePlace) -> None:
    folder = database_place.folder
    (folder / "one").write_text("x")
    new, old = ("backup", folder / "new"), ("restore", folder / "one")
    for command in (new, old, ("backup", folder, "--keep", "7")):
        refused = database_place.run(*command)
        assert refused.exit_code == 1 and "pg_dump" in refused.stderr


async def test_a_plugins_context_works_on_its_own_loop(
    roots: Settings, database_place: DatabasePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = roots.model_copy(update={"store_url": database_place.url})
    plugin = {"tame_plugin": TAME}
    with install(database_place.folder, plugin, {"tame": "tame_plugin:tame"}, monkeypatch):
        await read_through_the_context(settings)


async def test_the_statements_of_the_documents_show_sizes_and_waiting_and_empty_a_store(
    database_place: DatabasePlace, roots: Settings
) -> None:
    settings = roots.model_copy(update={"store_url": database_place.url})
    block = re.search(r"^```sql\n(.*?)^```$", (ROOT / "docs/scale.md").read_text(), re.M | re.S)
    emptying = re.search(r"psql -c '(DROP SCHEMA .+)'`", (ROOT / "docs/operating.md").read_text())
    assert block is not None and emptying is not None
    statements = [line for line in block[1].splitlines() if not line.startswith("--")]
    memory = {"type": "core", "content": "x" * 1_000}

    async with Abilities.open(settings) as abilities:
        for number in range(3):
            await abilities.call("store_memory", {**memory, "key": f"k{number}"})
        await abilities.call("store_memory", {"type": "core", "content": "new", "key": "k0"})
        sizes, history, tables, connections = map(database_place.fetch, statements)

    [(namespace, memories, bytes_stored)] = sizes
    assert (namespace, memories) == (settings.namespace, 3)
    assert bytes_stored == pytest.approx(2_000, rel=0.1)
    assert history[0][0] == settings.namespace and history[0][1].endswith("bytes")
    assert {"memories", "history", "links"} <= {name for name, _ in tables}
    assert connections and all(row[3] == [] for row in connections)

    with database_place.connect() as connection:
        connection.execute(emptying[1])
    async with Abilities.open(settings) as abilities:
        assert (await abilities.call("query_memories", {}))["total"] == 0
        assert (await abilities.call("store_memory", {**memory, "key": "k"}))["created"] is True


async def test_every_data_tables_keys_begin_with_the_namespace(
    database_place: DatabasePlace,
) -> None:
    await make_store(database_place)

    keys = dict(
        database_place.fetch(
            "SELECT c.relname, a.attname FROM pg_index i"
            " JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace"
            " JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]"
            " WHERE n.nspname IN ('abilities', 'abilities_data') AND i.indisunique"
            " ORDER BY a.attname = 'namespace' DESC"
        )
    )

    assert keys.pop("store_version") == "number"
    assert len(keys) == 14 and set(keys.values()) == {"namespace"}
