"""What a store in PostgreSQL knows of the past, and what it forgets."""

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from unittest.mock import patch

import psycopg
import pytest

from abilities.helpers.search.recall import RecallRequest
from abilities.helpers.search.terms import Language, split_question
from abilities.helpers.stores import entries
from abilities.helpers.stores.entries import StoreRules
from abilities.helpers.stores.model import StoredMemory
from abilities.helpers.stores.postgres import calls, changing, expiry, purging
from abilities.helpers.stores.postgres.statements import Connection
from abilities.helpers.stores.postgres.store import PostgresStore
from abilities.helpers.stores.protocol import WriteResult
from abilities.helpers.stores.query import Query
from abilities.helpers.stores.timeline import HistoryLimits, MemoryName
from abilities.helpers.walk import WalkLimits
from tests.stores.behaviours import NAMESPACE, put
from tests.stores.behaviours.steps import expect_stored, plan
from tests.stores.test_postgres import open_store
from tests.stores.test_stores import find_reason
from tests.support import postgres
from tests.support.forked import Forked
from tests.support.past_steps import Step, make_steps
from tests.support.past_trial import PastTrial
from tests.support.tier import size
from tests.support.waiting import GIVE_UP_SECONDS

A = MemoryName(key="a")
PAST = "2026-01-01T12:00:00.000Z"

INCREMENTER = """
import asyncio, sys
from abilities.declarations.faults import Refused
from tests.stores.behaviours import NAMESPACE
from tests.stores.behaviours.steps import plan
from abilities.helpers.stores.postgres.store import PostgresStore
async def main(url, number):
    store = PostgresStore(url)
    while number:
        (memory,) = await store.read(NAMESPACE, ["a"])
        content = str(int(memory.row.content) + 1)
        change = plan(
            "update", "a", fields={"content": content}, if_version=memory.row.version
        )
        try:
            await store.change(NAMESPACE, change)
        except Refused as refused:
            assert refused.reason == "version_conflict", refused
        else:
            number -= 1
    await store.close()
asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""

TRIALS = size("ABILITIES_HISTORY_LAW", quick=2, full=25)
STEPS = 40


@pytest.mark.parametrize("seed", range(TRIALS))
async def test_postgres_knows_the_past_as_its_model_does(server: str, seed: int) -> None:
    with (
        postgres.database(server) as one,
        postgres.database(server) as two,
        tempfile.TemporaryDirectory() as folder,
    ):
        await try_steps(one, two, Path(folder), make_steps(seed, STEPS))


async def try_steps(one: str, two: str, folder: Path, taken: Sequence[Step]) -> None:
    store, other = PostgresStore(one), PostgresStore(two)
    trial = PastTrial(store)
    try:
        with patch.object(calls, "utc_now", lambda: trial.now):
            for step in taken:
                await trial.perform(step)
            await trial.check()
            await trial.check_moved(other, folder / "export.jsonl")
    finally:
        await store.close()
        await other.close()


async def test_no_conditional_update_of_several_processes_is_lost(url: str) -> None:
    """Each process adds one as often as it succeeds; the sum is that of their successes."""
    number = size("ABILITIES_CONDITIONAL", quick=25, full=500)
    async with open_store(url) as store:
        await put(store, "a", content="0")

        processes = [Forked(INCREMENTER, url, number) for _ in range(4)]
        codes = [
            await asyncio.to_thread(process.wait, timeout=10 * GIVE_UP_SECONDS)
            for process in processes
        ]

        assert codes == [0] * 4
        (memory,) = await store.read(NAMESPACE, ["a"])
        assert isinstance(memory, StoredMemory)
        assert memory.row.content == str(4 * number)
        assert memory.row.version == 1 + 4 * number


async def test_a_follower_misses_no_change_that_commits_late(url: str) -> None:
    """A transaction that has its version and stays open holds up all later versions."""
    async with open_store(url) as store, open_store(url) as later:
        await put(store, "first")
        gate, has_changed = asyncio.Event(), asyncio.Event()

        async def change_slowly(connection: Connection) -> WriteResult:
            change = plan("store", "late")
            result = await changing.apply_change(connection, NAMESPACE, change, StoreRules())
            has_changed.set()
            await gate.wait()
            return result

        loop = store._calls.loop
        server = store._calls.server
        slow = asyncio.create_task(loop.run(server.write(NAMESPACE, change_slowly)))
        await loop.run(has_changed.wait())
        quick = asyncio.create_task(put(later, "quick"))
        await asyncio.sleep(0.1)
        page = await later.read_changes(NAMESPACE, 0, 10)
        assert [change.key for change in page.changes] == ["first"]
        assert not quick.done()

        loop.call_soon(gate.set)
        await asyncio.gather(slow, quick)
        page = await later.read_changes(NAMESPACE, page.next, 10)

        assert [change.key for change in page.changes] == ["late", "quick"]


async def test_a_follower_of_concurrent_writers_learns_of_every_version(url: str) -> None:
    number = size("ABILITIES_FOLLOWED", quick=30, full=300)
    async with open_store(url) as store, open_store(url) as other:
        stores = (store, other)

        async def write(writer: int) -> None:
            for n in range(number):
                await put(stores[writer % 2], f"{writer}/{n}")

        async def follow() -> None:
            since = 0
            while len(seen) < 4 * number:
                page = await store.read_changes(NAMESPACE, since, 7)
                seen.extend(change.version for change in page.changes)
                since = page.next
                await asyncio.sleep(0)

        seen: list[int] = []
        async with asyncio.timeout(10 * GIVE_UP_SECONDS):
            await asyncio.gather(follow(), *(write(writer) for writer in range(4)))

        assert seen == list(range(1, 4 * number + 1))


async def test_changes_of_one_call_share_a_transaction(url: str) -> None:
    """However many calls wait, none is divided among transactions."""
    async with open_store(url) as store:
        batches = [[plan("store", f"{b}/{n}") for n in range(50)] for b in range(4)]
        sent = [store.change_many(NAMESPACE, batch, atomic=True) for batch in batches]

        outcomes = await asyncio.gather(*sent)

        with psycopg.connect(url) as connection:
            rows = connection.execute(
                "SELECT count(DISTINCT xmin::text) FROM abilities_data.memories"
                " GROUP BY split_part(key, '/', 1)"
            ).fetchall()
        assert [len(outcome) for outcome in outcomes] == [50] * 4
        versions = [_get_version(outcome) for batch in outcomes for outcome in batch]
        assert versions == list(range(1, 201))
        assert len(rows) == 4


async def test_a_damaged_entry_hides_what_was_before_it_and_nothing_else(
    url: str, tmp_path: Path
) -> None:
    async with open_store(url) as store:
        for content in ("one", "two", "three", "four"):
            await put(store, "a", content=content)
        await put(store, "b", content="other")
        with psycopg.connect(url) as connection:
            connection.execute(
                "UPDATE abilities_data.history SET before = replace(before, 'two', 'zwei')"
            )

        assert await find_reason(store.read_version(NAMESPACE, A, 2)) == "checksum_mismatch"
        assert (await store.read_version(NAMESPACE, A, 3)).row.content == "three"
        found = await store.read_history(NAMESPACE, A, None, 10)
        assert ([entry.version for entry in found.entries], found.earliest) == ([4], 3)
        assert await find_damaged(store) == ["history"]
        assert expect_stored(await put(store, "a", content="five")).row.version == 6

        report = await store.repair(tmp_path / "originals", lambda _: None, dry_run=False)

        assert report.originals is not None
        assert b"zwei" in report.originals.read_bytes()
        assert await find_damaged(store) == []
        assert (await store.read_version(NAMESPACE, A, 3)).row.content == "three"
        assert await find_reason(store.read_version(NAMESPACE, A, 2)) == "version_not_found"
        assert (await store.read_history(NAMESPACE, A, None, 10)).earliest == 3
        assert (await store.read_history(NAMESPACE, MemoryName(key="b"), None, 9)).entries
        assert not (await store.read_changes(NAMESPACE, 0, 9)).is_complete


DAMAGE = {
    "a version without its entry": "UPDATE versions SET number = 9; UPDATE history SET version = 9"
    " WHERE version = 2",
    "a size that is wrong": "UPDATE versions SET history_bytes = history_bytes + 1",
    "a purged memory that is there": "INSERT INTO purged SELECT namespace, id, 2, '', ''"
    " FROM memories",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
async def test_damage_to_the_history_is_found_and_mended(
    damage: str, url: str, tmp_path: Path
) -> None:
    async with open_store(url) as store:
        await put(store, "a", content="one")
        await put(store, "a", content="two")
        with psycopg.connect(url) as connection:
            connection.execute("SET search_path = abilities_data")
            connection.execute(damage.encode())

        assert await find_damaged(store) == ["history"]
        await store.repair(tmp_path / "originals", lambda _: None, dry_run=False)

        assert await find_damaged(store) == []
        (memory,) = await store.read(NAMESPACE, ["a"])
        assert isinstance(memory, StoredMemory)
        assert memory.row.content == "two"


async def test_nothing_that_a_query_reads_holds_what_was_purged(url: str) -> None:
    """Neither tables nor statistics; and tables were cleaned of dead rows."""
    secrets = ("xylophonist", "quetzalcoatl", "zephyranthes", "jabberwocky", "wunderkammer")
    first, second, summary, tag, key = secrets
    async with open_store(url) as store:
        for number in range(20):
            await put(store, f"k{number}", content="common", links=[("k1", 0.5)], tags=["t"])
        await put(store, key, content=first, summary=summary, tags=[tag], links=[("k2", 0.5)])
        await put(store, key, content=second)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("ANALYZE")
        assert find_texts(url, secrets)

        await store.change(NAMESPACE, plan("purge", key))

    assert find_texts(url, secrets) == []
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT relname FROM pg_stat_user_tables WHERE vacuum_count > 0"
        ).fetchall()
    assert {table for (table,) in rows} >= set(purging.TABLES)


async def test_old_entries_are_forgotten_from_time_to_time(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By size here: the history stays about as large as it may be, and the newest part is whole."""
    monkeypatch.setattr(entries, "TRIM_VERSIONS", 8)
    limit = 5_000
    async with open_store(url, history=HistoryLimits(max_bytes=limit)) as store:
        for number in range(64):
            await put(store, "a", content=f"{number:0300}")

        with psycopg.connect(url) as connection:
            row = connection.execute(
                "SELECT history_bytes, forgotten FROM abilities_data.versions"
            ).fetchone()
        assert row is not None
        size_now, forgotten = row
        found = await store.read_history(NAMESPACE, A, None, 100)

        assert size_now == sum(entry.size for entry in found.entries) <= limit
        assert found.earliest == forgotten
        oldest = await store.read_version(NAMESPACE, A, found.earliest)
        assert oldest.row.content == f"{found.earliest - 1:0300}"
        assert not (await store.read_changes(NAMESPACE, 0, 9)).is_complete
        assert (await store.read_changes(NAMESPACE, forgotten, 9)).is_complete
        assert await find_damaged(store) == []


async def test_without_history_versions_go_on_and_nothing_is_kept(url: str) -> None:
    """What was kept before cannot be told apart from a gap, so a changed memory loses it too."""
    async with open_store(url) as store:
        await put(store, "a", content="one")
        memory_id = expect_stored(await put(store, "b", links=[("a", 0.5)])).row.id
    async with open_store(url, history=HistoryLimits(days=0)) as store:
        assert (await put(store, "a", content="two")).version == 3
        await store.change(NAMESPACE, plan("update", "a", new_key="c"))
    async with open_store(url) as store:
        await put(store, "c", content="three")

        found = await store.read_history(NAMESPACE, MemoryName(key="c"), None, 9)
        other = await store.read_history(NAMESPACE, MemoryName(id=memory_id), None, 9)

        assert ([entry.version for entry in found.entries], found.earliest) == ([5], 4)
        assert other.entries == ()
        page = await store.read_changes(NAMESPACE, 2, 9)
        assert ([change.version for change in page.changes], page.is_complete) == ([5], False)
        assert await find_damaged(store) == []


async def test_reads_go_on_where_what_expired_cannot_be_archived(url: str) -> None:
    async with open_store(url) as store:
        await put(store, "a", content="rose", expires_at=PAST)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only"
            " = on', current_database()); END $$"
        )

    async with open_store(url) as store:
        memories = [(await store.read(NAMESPACE, ["a"]))[0] for _ in range(2)]

        assert [_get_archived(memory) for memory in memories] == [0, 0]


async def recall_names(store: PostgresStore, request: RecallRequest) -> list[str]:
    recalled = await store.recall(NAMESPACE, request, 1_000, (0,))
    return [entry.name for ranking in recalled.rankings for entry in ranking.entries]


async def test_every_read_sees_what_expired_as_archived(url: str) -> None:
    """Each read is the first after the end; a damaged memory that expired stays damaged."""
    question = RecallRequest((split_question("rose", Language()),))
    reads: dict[str, Callable[[PostgresStore], Awaitable[object]]] = {
        "read": lambda store: store.read(NAMESPACE, ["a"]),
        "read_linked": lambda store: store.read_linked(NAMESPACE, "a", 0, 9),
        "walk": lambda store: store.walk(NAMESPACE, "b", WalkLimits(1, 9, 9)),
        "query": lambda store: store.query(NAMESPACE, Query()),
        "recall": lambda store: recall_names(store, question),
        "read_stats": lambda store: store.read_stats(NAMESPACE),
        "list": lambda store: store.list_memories(NAMESPACE, "", "", 9, archived=False),
        "read_history": lambda store: store.read_history(NAMESPACE, A, None, 1),
        "read_changes": lambda store: store.read_changes(NAMESPACE, 0, 9),
    }
    async with open_store(url) as store:
        await put(store, "b", links=[("a", 0.5)])
        await put(store, "d", content="damaged", expires_at=PAST)
        with psycopg.connect(url) as connection:
            connection.execute("UPDATE abilities_data.memories SET summary = 'x' WHERE key = 'd'")

        for name, read in reads.items():
            await put(store, "a", content="rose", expires_at=PAST, archived=False)
            before = await read(store)
            with psycopg.connect(url) as connection:
                rows = connection.execute(
                    "SELECT archived FROM abilities_data.memories ORDER BY key"
                ).fetchall()

            assert rows == [(1,), (0,), (0,)], name
            assert repr(await read(store)) == repr(before), name

        assert await find_reason(store.read_linked(NAMESPACE, "d", 0, 9)) == "checksum_mismatch"


async def test_many_memories_expire_in_several_transactions(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "MOST_EXPIRED", 16)
    fields = {"type": "core", "content": "c", "expires_at": PAST}
    async with open_store(url) as store:
        changes = [plan("store", f"k{number}", fields=fields) for number in range(50)]
        await store.change_many(NAMESPACE, changes, atomic=True)

        stats = await store.read_stats(NAMESPACE)

        assert (stats.total, stats.archived) == (0, 50)
        with psycopg.connect(url) as connection:
            rows = connection.execute(
                "SELECT count(*) FROM abilities_data.memories GROUP BY xmin::text"
            ).fetchall()
        assert sorted(rows) == [(2,), (16,), (16,), (16,)]


async def test_memories_of_a_prefix_are_a_range_of_the_index(url: str) -> None:
    """By code points, whatever the prefix ends with."""
    last = chr(sys.maxunicode)
    keys = ["a", "a\ud7ff", "a\ud7ffx", "a\ue000", f"a{last}", f"a{last}b", "b", f"{last}z"]
    async with open_store(url) as store:
        await store.change_many(NAMESPACE, [plan("store", key) for key in keys], atomic=True)
        list_keys = partial(store.list_memories, NAMESPACE, archived=False)

        for prefix in ("", "a", "a\ud7ff", f"a{last}", last, last * 2, "zz"):
            lines = await list_keys(prefix=prefix, after="", limit=100)
            assert [line.key for line in lines] == [
                key for key in sorted(keys) if key.startswith(prefix)
            ]

    with psycopg.connect(url) as connection:
        connection.execute("SET enable_seqscan = off")
        connection.execute("SET enable_bitmapscan = off")
        plan_lines = connection.execute(
            "EXPLAIN SELECT key FROM abilities_data.memories WHERE namespace = 'n'"
            " AND archived <= 0 AND key >= 'a' AND key > '' AND key < 'b' ORDER BY key LIMIT 9"
        ).fetchall()
    text = "\n".join(line for (line,) in plan_lines)
    assert "memories_pkey" in text and "Sort" not in text


def find_texts(url: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    """Return which tables and statistics hold which texts, or words that search has of them."""
    found: list[tuple[str, str]] = []
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT format('%I.%I', table_schema, table_name) FROM information_schema.tables"
            " WHERE table_schema LIKE 'abilities%' OR table_name = 'pg_stats'"
        ).fetchall()
        for (table,) in rows:
            for text in texts:
                pattern = f"%{text[:6]}%"
                query = f"SELECT count(*) FROM {table} AS t WHERE t::text ILIKE %s"
                counted = connection.execute(query.encode(), (pattern,)).fetchone()
                if counted != (0,):
                    found.append((table, text))

    return found


async def find_damaged(store: PostgresStore) -> list[str]:
    findings = await store.check(lambda _: None, full=True)
    return [finding.name for finding in findings if finding.state == "damaged"]


def _get_version(outcome: WriteResult | Exception) -> int:
    assert isinstance(outcome, WriteResult)
    return outcome.version


def _get_archived(memory: StoredMemory | Exception) -> int:
    assert isinstance(memory, StoredMemory)
    return memory.row.archived
