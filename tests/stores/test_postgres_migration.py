"""Migrations in PostgreSQL: what older stores become, under kills, with old processes running."""

import asyncio
import random
import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from abilities.declarations.faults import Refused
from abilities.helpers.search import postings
from abilities.helpers.search.postings import BLOCK_DOCS
from abilities.helpers.search.recall import RecallRequest
from abilities.helpers.search.terms import Language, split_question
from abilities.helpers.stores.changes import Change
from abilities.helpers.stores.conformance import put
from abilities.helpers.stores.conformance_steps import TIME
from abilities.helpers.stores.model import IncomingMemory, StoredMemory
from abilities.helpers.stores.postgres import calls, migration, pool
from abilities.helpers.stores.postgres.migrations import to_2, to_4
from abilities.helpers.stores.postgres.store import PostgresStore
from abilities.helpers.stores.query import Query
from abilities.helpers.stores.timeline import HistoryLimits
from abilities.helpers.walk import WalkLimits
from tests.stores.test_stores import find_reason
from tests.support import postgres, postgres_version_1
from tests.support.forked import Forked
from tests.support.postgres_version_1 import NAMESPACES, make_memories
from tests.support.tier import size
from tests.support.waiting import GIVE_UP_SECONDS

COUNTS = (1, size("ABILITIES_MIGRATED", quick=100, full=500))
"""Memories in each of two namespaces."""

SMALL_BLOCK = 16
"""Memories in a block of the recall index where processes of their own migrate."""

TABLES = (
    "memories",
    "links",
    "versions",
    "link_counts",
    "shelf",
    "tags",
    "words",
    "counters",
)

MIGRATOR = """
import asyncio, sys
from abilities.helpers.search import postings
from abilities.helpers.stores.postgres import migration
from abilities.helpers.stores.postgres.migrations import to_2, to_4
from abilities.helpers.stores.postgres.store import PostgresStore
to_2.MEMORIES, to_2.LINKS = 100, 500
postings.BLOCK_DOCS = to_4.BLOCK_DOCS = 16
to_4.MEMORIES = 48
run_block = migration._run_block
async def announce(*arguments):
    await run_block(*arguments)
    print("block", flush=True)
migration._run_block = announce
async def main():
    store = PostgresStore(sys.argv[1])
    await store.read_stats("a")
    await store.close()
asyncio.run(main())
"""


@pytest.fixture
def other_url(server: str) -> Iterator[str]:
    """Another empty database."""
    with postgres.database(server) as url:
        yield url


@pytest.mark.parametrize("count", COUNTS)
async def test_a_migrated_store_equals_one_made_at_the_current_version(
    count: int, url: str, other_url: str
) -> None:
    memories = make_memories(count)
    postgres_version_1.build(url, memories)

    await read_all(url)
    await import_all(other_url, memories)

    assert dump(url) == dump(other_url)
    assert await find_damaged(url) == []


async def test_a_migration_that_is_killed_goes_on(
    url: str, other_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postings, "BLOCK_DOCS", SMALL_BLOCK)
    memories = make_memories(COUNTS[-1])
    postgres_version_1.build(url, memories)
    chance = random.Random(7)
    kills = 0

    while True:
        migrator = Forked(MIGRATOR, url)
        for _ in range(chance.randrange(1, 4)):
            migrator.stdout.readline()
        await asyncio.sleep(chance.random() * 0.02)

        kills += 1
        migrator.kill()
        migrator.communicate()
        if not is_migrating(url):
            break

    assert kills > 2

    await import_all(other_url, memories)

    assert await find_damaged(url) == []
    assert dump(url) == dump(other_url)
    assert read_index(url) == read_index(other_url)


async def test_a_recall_index_that_is_made_under_kills_is_whole(
    url: str, other_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kills come between blocks and within them; a block is done wholly or not at all."""
    monkeypatch.setattr(postings, "BLOCK_DOCS", SMALL_BLOCK)
    memories = make_memories(COUNTS[-1])
    postgres_version_1.build(url, memories)
    await migrate_to(url, 4, monkeypatch)
    chance = random.Random(7)

    numbers: set[int] = set()
    while is_migrating(url):
        migrator = Forked(MIGRATOR, url)
        migrator.stdout.readline()
        await asyncio.sleep(chance.random() * 0.02)

        migrator.kill()
        migrator.communicate()
        numbers.add(count_indexed(url))

    await import_all(other_url, memories)

    assert len(numbers) > 2, "kills left the index unfinished in several places"
    assert await find_damaged(url) == []
    assert read_index(url) == read_index(other_url)


async def test_the_recall_index_is_made_in_blocks(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks end within namespaces and between them."""
    monkeypatch.setattr(to_4, "MEMORIES", BLOCK_DOCS)
    memories = make_memories(BLOCK_DOCS + 76)
    postgres_version_1.build(url, memories)

    store = PostgresStore(url)
    request = RecallRequest((split_question("1050", Language()),))
    recalled = await store.recall(NAMESPACES[1], request, 0, (0,))
    await store.close()

    assert [entry.name for entry in recalled.rankings[0].entries if entry.own] == ["k/1050"]
    assert await find_damaged(url) == []


async def test_processes_migrate_together(
    url: str, other_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postings, "BLOCK_DOCS", SMALL_BLOCK)
    memories = make_memories(COUNTS[-1])
    postgres_version_1.build(url, memories)

    migrators = [Forked(MIGRATOR, url) for _ in range(2)]
    outputs = [migrator.communicate(timeout=GIVE_UP_SECONDS) for migrator in migrators]

    assert [migrator.returncode for migrator in migrators] == [0, 0], outputs

    await import_all(other_url, memories)

    assert await find_damaged(url) == []
    assert dump(url) == dump(other_url)


async def test_a_call_does_not_wait_for_the_end_of_a_migration(
    url: str, other_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    memories = make_memories(COUNTS[-1])
    postgres_version_1.build(url, memories)
    monkeypatch.setattr(to_2, "MEMORIES", 10)
    monkeypatch.setattr(pool, "OPEN_SECONDS", 0.1)
    monkeypatch.setattr(calls, "TURN_SECONDS", 0.1)
    store = PostgresStore(url)
    gate = threading.Event()
    run_block = migration._run_block

    async def wait_for_the_gate(*arguments: Any) -> None:
        await run_block(*arguments)
        await asyncio.to_thread(gate.wait)

    monkeypatch.setattr(migration, "_run_block", wait_for_the_gate)
    assert await find_reason(store.read_stats("a")) == "busy"
    assert await find_reason(put(store, "k")) == "busy"

    impatient = asyncio.create_task(store.prepare())
    patient = asyncio.create_task(store.prepare())
    await asyncio.sleep(0)
    impatient.cancel()
    gate.set()
    await patient

    stats = await store.read_stats("a")
    assert stats.total + stats.archived == len(memories) / 2
    assert impatient.cancelled()
    await store.close()

    monkeypatch.undo()
    await import_all(other_url, memories)
    assert dump(url) == dump(other_url)


OLD_STATEMENTS = (
    "SELECT content, hash FROM memories AS m WHERE m.namespace = 'a' AND m.key = 'k/0'",
    "SELECT rank, hash FROM links AS l WHERE l.namespace = 'a' AND l.source = 'k/0'",
    "SELECT count(*) FROM links WHERE namespace = 'a' AND target = 'k/0'",
    "SELECT id FROM shelf AS s WHERE s.namespace = 'a' AND s.archived = 0",
    "SELECT sum(number) FROM counters WHERE namespace = 'a' AND name = 'all'",
    "SELECT unnest(reached('a', 'k/0', 3, 5, 20, 32))",
    "INSERT INTO memories SELECT * FROM memories WHERE key = 'none'",
    "UPDATE memories SET content = content WHERE namespace = 'a'",
    "DELETE FROM memories WHERE namespace = 'a' AND key = 'none'",
    "INSERT INTO links SELECT * FROM links WHERE source = 'none'",
    "UPDATE links SET rank = rank WHERE namespace = 'a'",
    "DELETE FROM links WHERE namespace = 'a' AND source = 'none'",
    "UPDATE shelf AS t SET access_count = access_count WHERE t.namespace = 'a'",
    "DELETE FROM shelf WHERE namespace = 'a' AND id = 'none'",
    "INSERT INTO tags VALUES ('a', 't', 0, '', 'x') ON CONFLICT DO NOTHING",
    "DELETE FROM tags WHERE namespace = 'a' AND id = 'none'",
    "UPDATE words SET folded = folded WHERE namespace = 'a'",
    "DELETE FROM words WHERE namespace = 'a' AND id = 'none'",
)


@pytest.mark.parametrize("is_finished", [False, True])
async def test_a_process_of_the_version_before_is_refused_before_it_changes_anything(
    is_finished: bool, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its statements may be prepared already; from the first transaction on, none finds a table."""
    postgres_version_1.build(url, make_memories(3))
    with psycopg.connect(url, autocommit=True) as old:
        old.execute("SET search_path = abilities, public")
        for statement in OLD_STATEMENTS:
            for _ in range(2):
                old.execute(statement.encode(), prepare=True)

        if not is_finished:
            monkeypatch.setattr(to_2._SELECT_MEMORIES, "text", b"SELECT %s, %s, %s FROM nowhere")
        reason = await find_reason(read_all(url))
        before = dump(url)

        assert reason == ("done" if is_finished else "storage_error")
        assert is_migrating(url) is not is_finished

        for statement in OLD_STATEMENTS:
            with pytest.raises((psycopg.errors.UndefinedTable, psycopg.errors.UndefinedFunction)):
                old.execute(statement.encode(), prepare=True)

        assert dump(url) == before
        version = 5 if is_finished else 2
        assert old.execute("SELECT max(number) FROM version").fetchone() == (version,)


async def test_a_migration_waits_for_changes_of_the_version_before(url: str) -> None:
    postgres_version_1.build(url, make_memories(1)[:1])

    with psycopg.connect(url) as old:
        old.execute("SET search_path = abilities, public")
        old.execute("UPDATE shelf SET access_count = 77")
        migrating = asyncio.create_task(read_all(url))
        await asyncio.sleep(0.2)
        assert not migrating.done()

        old.commit()

    assert [memory.access_count for memory in await migrating] == [77]


async def test_what_was_damaged_stays_damaged(url: str) -> None:
    memories = make_memories(20)
    postgres_version_1.build(url, memories)
    with psycopg.connect(url) as connection:
        connection.execute("SET search_path = abilities")
        connection.execute("UPDATE memories SET category = 'x' WHERE key = 'k/3'")
        connection.execute("UPDATE memories SET score = 'Infinity' WHERE key = 'k/4'")
        connection.execute("UPDATE links SET weight = 'NaN' WHERE source = 'k/1'")
        connection.execute("UPDATE links SET weight = 0.55 WHERE source = 'k/2'")

    async with asyncio.timeout(GIVE_UP_SECONDS):
        store = PostgresStore(url)
        damaged = await store.read("a", ["k/3", "k/4"])
        linked = [await store.read_linked("a", key, 0, 20) for key in ("k/1", "k/2", "k/5")]
        await store.close()

    assert [str(memory) for memory in damaged] == ["checksum_mismatch"] * 2
    assert [len(memory.links) for memory in linked[:2]] == [0, 0]
    assert [memory.links_total > 0 for memory in linked] == [True] * 3
    assert len(linked[2].links) == linked[2].links_total
    assert await find_damaged(url) == ["memories", "links"]


async def test_every_transaction_checks_the_version(url: str) -> None:
    store = PostgresStore(url)
    await put(store, "k")
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO abilities.version VALUES (99)")
    before = dump(url)
    (memory,) = make_memories(1)[:1]

    for work in (
        put(store, "new"),
        store.change("a", Change("delete", TIME, memory.row.id)),
        store.read("a", ["k"]),
        store.read_linked("a", "k", 0, 1),
        store.read_backlinks("a", "k", 0, 1),
        store.walk("a", "k", WalkLimits(1, 1, 1)),
        store.query("a", Query()),
        store.read_stats("a"),
        store.read_page(("", ""), 10),
        store.import_batch([IncomingMemory(memory)]),
        store.check(lambda _: None, full=True),
    ):
        assert await find_reason(work) == "schema_too_new"

    store.count_access("conformance", "k", TIME)
    await store.close()

    assert dump(url) == before


async def migrate_to(url: str, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Migrate a store until the migration to a version has begun, and its first block is next."""
    run_block = migration._run_block

    async def stop_at_the_version(connection: Any, reached: int, progress: Any) -> None:
        if reached == version:
            raise Refused("busy")
        await run_block(connection, reached, progress)

    with monkeypatch.context() as patch:
        patch.setattr(migration, "_run_block", stop_at_the_version)
        assert await find_reason(read_all(url)) == "busy"


def count_indexed(url: str) -> int:
    """Return how many memories have a number in the recall index."""
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT count(doc) FROM abilities_data.shelf").fetchall()

    ((count,),) = rows
    return int(count)


def read_index(url: str) -> dict[tuple[str, int, str, str], int]:
    """Return the weights that the recall index has, by namespace, side, term and key."""
    weights: dict[tuple[str, int, str, str], int] = {}
    with psycopg.connect(url) as connection:
        connection.execute("SET search_path = abilities_data")
        keys = {
            (namespace, doc): key
            for namespace, doc, key in connection.execute("SELECT namespace, doc, key FROM shelf")
        }
        for namespace, archived, term, block, docs in connection.execute(
            "SELECT namespace, archived, term, block, docs FROM recall_terms"
        ):
            for doc, weight in postings.unpack(docs, block):
                weights[namespace, archived, term, keys[namespace, doc]] = weight
        for namespace, doc, archived, terms, changed in connection.execute(
            "SELECT namespace, doc, archived, terms, weights FROM recall_recent ORDER BY number"
        ):
            for term, weight in zip(terms, changed, strict=True):
                weights[namespace, archived, term, keys[namespace, doc]] = weight

    return {name: weight for name, weight in weights.items() if weight}


def is_migrating(url: str) -> bool:
    """Return whether a store is of an older version, or its migration is unfinished."""
    with psycopg.connect(url) as connection:
        state = connection.execute(
            "SELECT max(number), to_regclass('abilities.migration') FROM abilities.version"
        ).fetchone()

    return state != (5, None)


async def read_all(url: str) -> list[StoredMemory]:
    """Open a store, and read all memories of one namespace."""
    store = PostgresStore(url)
    try:
        page = await store.query(NAMESPACES[0], Query(limit=100, archived=True))
        return [memory for memory in page.memories if isinstance(memory, StoredMemory)]
    finally:
        await store.close()


async def import_all(url: str, memories: list[StoredMemory]) -> None:
    """Store memories anew, as a migration leaves them: without a history."""
    store = PostgresStore(url, history=HistoryLimits(days=0))
    outcomes = await store.import_batch([IncomingMemory(memory) for memory in memories])
    await store.close()

    assert set(outcomes) == {"added"}


async def find_damaged(url: str) -> list[str]:
    store = PostgresStore(url)
    findings = await store.check(lambda _: None, full=True)
    await store.close()

    return [finding.name for finding in findings if finding.state == "damaged"]


def dump(url: str) -> dict[str, list[Any]]:
    """Return all that a store holds, and its indexes, functions and triggers."""
    queries = {
        "columns": "SELECT table_name, ordinal_position, column_name, data_type, is_nullable"
        " FROM information_schema.columns WHERE table_schema LIKE 'abilities%'",
        "indexes": "SELECT indexdef FROM pg_indexes WHERE schemaname LIKE 'abilities%'"
        " AND indexname <> 'words_search'",
        "functions": "SELECT proname, prosrc, proconfig::text FROM pg_proc"
        " WHERE pronamespace::regnamespace::text LIKE 'abilities%'",
        "triggers": "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal",
        "options": "SELECT relname, reloptions::text FROM pg_class"
        " WHERE relnamespace::regnamespace::text LIKE 'abilities%' AND reloptions IS NOT NULL",
    }
    for table in TABLES:
        queries[table] = f"SELECT * FROM abilities_data.{table}"

    with psycopg.connect(url) as connection:
        return {
            name: sorted(connection.execute(query.encode()).fetchall(), key=repr)
            for name, query in queries.items()
        }
