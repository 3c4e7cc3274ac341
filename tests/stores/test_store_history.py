"""The history of stores: under several processes and kills, damaged, trimmed, and purged."""

import asyncio
import random
import signal
import time
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import pytest

from abilities.helpers.store import changing
from abilities.helpers.store.changes import Change
from abilities.helpers.store.engine import Transaction
from abilities.helpers.store.history import (
    Entry,
    HistoryLimits,
    MemoryName,
)
from abilities.helpers.store.model import StoredMemory
from abilities.helpers.store.past import StoreRules
from abilities.helpers.store.postgres.store import CLEANED_TABLES
from abilities.helpers.store.protocol import ServableStore, WriteResult
from abilities.helpers.store.sqlite.store import SqliteStore
from tests.stores.behaviours.steps import NAMESPACE, expect_stored, plan, put, put_many, read_one
from tests.support.forked import Forked
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
from tests.support.waiting import GIVE_UP_SECONDS
from tests.support.writers import BATCH, count_up, start, store_and_delete, store_batches

PROCESSES = size("ABILITIES_HISTORY_PROCESSES", quick=4, full=8)
CONDITIONAL = {
    "sqlite": size("ABILITIES_CONDITIONAL", quick=150, full=1_000),
    "postgres": size("ABILITIES_CONDITIONAL", quick=150, full=300),
}
"""Conditional updates by all processes together; those of a server take longer."""
FOLLOWED = size("ABILITIES_FOLLOWED", quick=60, full=120)
"""Changes by each process that is followed."""
KILLS = size("ABILITIES_HISTORY_KILLS", quick=3, full=15)
NEIGHBORS = size("ABILITIES_PURGE_NEIGHBORS", quick=60, full=2_000)
"""Memories beside the one that is purged."""

A = MemoryName(key="a")
DAY = "2026-01-{:02}T00:00:00.000Z"
SOON = "2026-01-01T12:00:00.000Z"
PAST = "2020-01-01T00:00:00.000Z"


async def run_all(processes: Iterable[Forked]) -> list[bytes]:
    """Wait for processes; return what they said."""
    outputs = []
    for process in processes:
        output, _ = await asyncio.to_thread(process.communicate, GIVE_UP_SECONDS * 10)
        assert process.returncode == 0
        outputs.append(output)

    return outputs


async def read_entries(store: ServableStore, key: str) -> Sequence[Entry]:
    """Return the history of a memory, the newest change first."""
    return (await store.read_history(NAMESPACE, MemoryName(key=key), None, 10_000)).entries


async def read_content(store: ServableStore, key: str, moment: int | str) -> str:
    memory = await store.read_version(NAMESPACE, MemoryName(key=key), moment)
    return memory.row.content


async def list_versions(store: ServableStore, key: str) -> list[int]:
    return [entry.version for entry in await read_entries(store, key)]


async def list_actions(store: ServableStore, key: str) -> list[str]:
    return [entry.action for entry in await read_entries(store, key)]


async def store_versions(store: ServableStore) -> None:
    """Store six versions of one memory, and then another one."""
    for number in range(1, 7):
        await put(store, "a", content=f"text {number}")
    await put(store, "b")


async def test_no_conditional_update_of_several_processes_is_lost(place: StorePlace) -> None:
    """Each process adds one as often as it succeeds; the sum is that of their successes."""
    each = CONDITIONAL[place.engine] // PROCESSES
    async with place.open() as store:
        await put(store, "shared", content="0")

    outputs = await run_all([start(count_up, place.url, "", each) for _ in range(PROCESSES)])

    conflicts = sum(int(line) for output in outputs for line in output.split())
    assert conflicts > 0, "the processes met each other"
    async with place.open() as store:
        row = (await read_one(store, "shared")).row
        assert row.content == str(each * PROCESSES)
        assert row.version == each * PROCESSES + 1, "a refused update takes no version"

        # Each version has the content that its update wrote: none was written over.
        for version in random.Random(1).sample(range(1, row.version + 1), 50):
            assert await read_content(store, "shared", version) == str(version - 1)


async def test_a_batch_that_is_killed_is_there_or_not_at_all(place: StorePlace) -> None:
    chance, acknowledged = random.Random(3), set[int]()
    async with place.open() as store:
        await put(store, "first")

    for round_ in range(KILLS):
        process = start(store_batches, place.url, "", round_ * 1_000_000)
        acknowledged.add(int(process.stdout.readline()))
        time.sleep(chance.random() * 0.1)  # so that each round is killed at another moment
        process.send_signal(signal.SIGKILL)
        output, _ = process.communicate()
        acknowledged |= {int(line) for line in output.split(b"\n")[:-1]}

    async with place.open() as store:
        await put(store, "last")  # it waits for what a server still does
        lines = await store.list_memories(NAMESPACE, "", "", 1_000_000, archived=False)
        found: dict[int, int] = {}
        for line in lines:
            if line.key not in ("first", "last"):
                number = int(line.key.partition("-")[0])
                found[number] = found.get(number, 0) + 1

        assert set(found.values()) == {BATCH}, "all or nothing"
        assert acknowledged <= found.keys()
        assert await find_damage(store) == []
        page = await store.read_changes(NAMESPACE, 0, 1_000_000)
        assert len(page.changes) == len(lines), "each has its entry"


@pytest.mark.parametrize(
    "before", ['\'{"row":{"content":"drei"}}\'', "replace(before, 'text 3', 'drei')"]
)
async def test_a_damaged_entry_hides_what_was_before_it_and_no_more(
    before: str, place: StorePlace
) -> None:
    async with place.open() as store:
        await store_versions(store)
    place.tamper(f"UPDATE history SET before = {before} WHERE version = 4")

    async with place.open() as store:
        history = await store.read_history(NAMESPACE, A, None, 10)
        assert [entry.version for entry in history.entries] == [6, 5]
        assert (history.has_more, history.earliest) == (False, 4)
        assert await read_content(store, "a", 4) == "text 4"
        restoring = store.change(NAMESPACE, Change("restore", PAST, key="a", to_version=2))
        for work in (store.read_version(NAMESPACE, A, 3), restoring):
            assert await find_reason(work) == "checksum_mismatch"

        assert await find_damage(store) == ["history"]
        assert await find_reason(store.read_changes(NAMESPACE, 0, 10)) == "done"
        assert expect_stored(await put(store, "a", content="7")).row.version == 8
        assert await read_content(store, "a", 6) == "text 6", "the history goes on"

    report = await place.repair()

    assert report.originals is not None and b"drei" in report.originals.read_bytes()
    async with place.open() as store:
        assert await find_damage(store) == []
        assert await read_content(store, "a", 4) == "text 4"
        assert await find_reason(store.read_version(NAMESPACE, A, 3)) == "version_not_found"
        assert (await store.read_history(NAMESPACE, A, None, 10)).earliest == 4
        assert await list_versions(store, "b") == [7]
        assert not (await store.read_changes(NAMESPACE, 0, 9)).is_complete


@pytest.mark.parametrize(
    ("place", "damage"),
    list_cases(
        [
            ("UPDATE history SET caller = 'x' WHERE version = 3", [6, 5, 4]),
            ("UPDATE history SET action = 'deleted' WHERE version = 6", []),
            ("DELETE FROM history WHERE version = 4", [6, 5]),
            ("DELETE FROM history WHERE version = 6", []),
            ("UPDATE history SET id = 'other' WHERE version = 5", [6]),
        ],
        sqlite=[
            ("UPDATE history SET before = CAST(x'ff' AS TEXT) WHERE version = 2", [6, 5, 4, 3])
        ],
    ),
    indirect=["place"],
)
async def test_a_repair_keeps_the_entries_that_lead_to_the_present(
    damage: tuple[str, Sequence[int]], place: StorePlace
) -> None:
    statement, kept = damage
    async with place.open() as store:
        await store_versions(store)
        await put(store, "b", kind="delete")
    place.tamper(statement)

    report = await place.repair()

    assert "history" in [finding.name for finding in report.damage]
    removed = place.originals.read_text(encoding="utf-8").splitlines()
    async with place.open() as store:
        assert await find_damage(store) == []
        assert await list_versions(store, "a") == kept
        if kept:
            assert await read_content(store, "a", min(kept) - 1) == f"text {min(kept) - 1}"
        assert await list_versions(store, "b") == [8, 7], "other histories are whole"
        assert len(removed) == 6 - len(kept) - statement.startswith("DELETE")
        assert not (await store.read_changes(NAMESPACE, 0, 99)).is_complete
        await put(store, "a", content="x")


async def test_what_mended_a_damaged_memory_is_told_by_its_history(place: StorePlace) -> None:
    """Be it a repair or a change."""
    async with place.open() as store:
        for key in ("changed", "repaired"):
            await put(store, key, content="one")
        await put(store, "gone")
        await put(store, "gone", kind="purge")
    place.tamper("UPDATE memories SET content = 'damaged'")

    async with place.open() as store:
        await put(store, "changed", content="two")
        assert await list_actions(store, "changed") == ["changed", "mended", "created"]
        version = (await read_one(store, "changed")).row.version
        assert await read_content(store, "changed", version - 1) == "damaged", "it was readable"

    await place.repair()

    async with place.open() as store:
        assert await find_damage(store) == []
        name = MemoryName(key="repaired")
        history = await store.read_history(NAMESPACE, name, None, 10)
        assert [entry.action for entry in history.entries] == ["mended", "created"]
        assert history.earliest == history.entries[0].version
        reading = store.read_version(NAMESPACE, name, 2)
        assert await find_reason(reading) == "version_not_found", "what was damaged is unknown"
        changes = (await store.read_changes(NAMESPACE, 0, 9)).changes
        assert "purged" in [change.action for change in changes]


async def test_nothing_of_a_purged_memory_is_left_in_any_file(file_place: FilePlace) -> None:
    folder = file_place.folder
    words = ["Zyqwertine", "Xylokarpose", "Vqpmelung"]
    # Three characters that nobody else has are a term of the search index, as they are.
    long_text = "\u02ac\u02ad\u02ae \U0001d7ce\U0001d7cf " + " ".join(
        f"{words[0]}{n}" for n in range(300)
    )
    texts = [*words, words[2].casefold(), "tagqjx", "keyqjx", "catqjx", "metaqjx", "termqjx"]
    # A pair of characters is a hexadecimal word with an x, which no id of a neighbor holds.
    texts += ["\u02ac\u02ad\u02ae", "x1d7cf", "\u0250\u0251\u0252", "xe0151"]
    async with file_place.open() as store:
        for number in range(NEIGHBORS):
            content = f"{number} " + "common words of neighbors " * (number % 40)
            await put(store, f"n{number}", content=content, tags=["t"])
            if number == NEIGHBORS // 2:
                await store_secrets(store, words, long_text)
        await put(
            store, "keyqjx", content=f"{words[2]} at last \u0250\u0251\u0252 \U000e0150\U000e0151"
        )
        assert list_found(folder, texts) == texts
        texts.append(words[0].casefold())  # SQLite may have written over this one before

        await put(store, "keyqjx", kind="purge")

        assert list_found(folder, texts) == []
        for table in ("history", "recall_recent", "shelf", "tags"):
            rows = str(file_place.fetch(f"SELECT * FROM {table}"))
            assert not any(text in rows for text in texts)
        assert await find_reason(store.read_linked(NAMESPACE, "keyqjx", 0, 1)) == "memory_not_found"
        assert await find_damage(store) == []

    assert list_found(folder, texts) == []


async def store_secrets(store: SqliteStore, words: Sequence[str], long_text: str) -> None:
    """Let a memory have had texts in all fields, in its row, in its history or in both."""
    now = DAY.format(2)
    link = {"key": "n1", "link_weight": 0.5, "type": "association", "term": "termqjx"}
    fields = {"content": long_text, "metadata": {"metaqjx": 1}, "category": "catqjx"}
    version = (await put(store, "first", summary=words[1], tags=["tagqjx"])).version
    for change in (
        Change("update", now, key="first", new_key="keyqjx", fields=fields, links=[link]),
        Change("update", now, key="keyqjx", fields={"content": "short"}),
        Change("delete", now, key="keyqjx"),
        Change("restore", now, key="keyqjx", to_version=version + 1),
        Change("append", now, key="keyqjx", fields={"content": words[2]}),
        Change("update", now, key="keyqjx", fields={"tags": ["t"], "summary": ""}),
        Change("update", now, key="keyqjx", remove_links=[{"key": "n1", "type": None}]),
    ):
        await store.change(NAMESPACE, change)


def list_found(folder: Path, texts: Sequence[str]) -> list[str]:
    """Return which of the texts are in any file of a folder."""
    files = [path.read_bytes() for path in folder.iterdir()]
    return [text for text in texts if any(text.encode() in file for file in files)]


async def test_a_purge_is_finished_even_if_its_caller_gives_up(file_place: FilePlace) -> None:
    async with file_place.open() as store:
        await put(store, "a", content="Zyqwertine")
        await put(store, "b")
        purge = asyncio.create_task(put(store, "a", kind="purge"))
        await asyncio.sleep(0)
        purge.cancel()
        with pytest.raises(asyncio.CancelledError):
            await purge

    assert list_found(file_place.folder, ["Zyqwertine"]) == []


async def test_nothing_that_a_query_reads_holds_what_was_purged(
    database_place: DatabasePlace,
) -> None:
    """Neither tables nor statistics; and tables were cleaned of dead rows."""
    secrets = ("xylophonist", "quetzalcoatl", "zephyranthes", "jabberwocky", "wunderkammer")
    first, second, summary, tag, key = secrets
    async with database_place.open() as store:
        for number in range(20):
            await put(store, f"k{number}", content="common", links=[("k1", 0.5)], tags=["t"])
        await put(store, key, content=first, summary=summary, tags=[tag], links=[("k2", 0.5)])
        await put(store, key, content=second)
        with database_place.connect() as connection:
            connection.execute("ANALYZE")
        assert find_texts(database_place, secrets)

        await store.change(NAMESPACE, plan("purge", key))

    assert find_texts(database_place, secrets) == []
    cleaned = database_place.fetch("SELECT relname FROM pg_stat_user_tables WHERE vacuum_count > 0")
    assert {table for (table,) in cleaned} >= set(CLEANED_TABLES)


def find_texts(place: DatabasePlace, texts: Sequence[str]) -> list[tuple[str, str]]:
    """Return which tables and statistics hold which texts, or words that search has of them."""
    tables = place.fetch(
        "SELECT format('%I.%I', table_schema, table_name) FROM information_schema.tables"
        " WHERE table_schema LIKE 'abilities%' OR table_name = 'pg_stats'"
    )
    count = "SELECT count(*) FROM {} AS t WHERE t::text ILIKE '%{}%'"
    return [
        (table, text)
        for (table,) in tables
        for text in texts
        if place.fetch(count.format(table, text[:6])) != [(0,)]
    ]


async def test_what_is_too_old_is_forgotten_along_with_the_writes(place: StorePlace) -> None:
    """Without being told to, in every 256th version."""
    async with place.open(history=HistoryLimits(days=3)) as store:
        for day in range(1, 11):
            await put(store, "a", now=DAY.format(day), content=str(day))
        others = [plan("store", f"n{number}", now=DAY.format(10)) for number in range(245)]
        await put_many(store, others)
        assert len(await list_versions(store, "a")) == 10

        await put(store, "last", now=DAY.format(10))

        assert await list_versions(store, "a") == [10, 9, 8, 7], "three days before the tenth"
        assert await read_content(store, "a", 6) == "6"
        page = await store.read_changes(NAMESPACE, 5, 10_000)
        assert not page.is_complete
        assert (await store.read_changes(NAMESPACE, 6, 10_000)).is_complete
        assert await find_damage(store) == []


async def test_the_history_stays_as_small_as_allowed(place: StorePlace) -> None:
    """It is trimmed in every 256th version, and its newest part is whole."""
    most = 100_000
    contents = [f"{number} " + "x" * 2_000 for number in range(300)]
    changes = [plan("store", "a", fields={"type": "core", "content": text}) for text in contents]
    async with place.open(history=HistoryLimits(max_bytes=most)) as store:
        await put_many(store, changes[:256])
        assert most - 5_000 < await check_size(place, store) <= most
        await put_many(store, changes[256:])
        assert await check_size(place, store) < most + 50 * 2_500

        await store.compact(DAY.format(2))

        assert most - 5_000 < await check_size(place, store) <= most
        versions = await list_versions(store, "a")
        assert versions == [*range(300, 300 - len(versions), -1)], "the oldest ones went"
        assert await find_damage(store) == []


async def check_size(place: StorePlace, store: ServableStore) -> int:
    """Return the bytes of the history of the only memory, which are counted right."""
    ((size_now, forgotten),) = place.fetch("SELECT history_bytes, forgotten FROM versions")
    found = await store.read_history(NAMESPACE, A, None, 1_000)

    assert size_now == sum(entry.size for entry in found.entries)
    assert found.earliest == forgotten
    oldest = await read_content(store, "a", found.earliest)
    assert oldest.startswith(f"{found.earliest - 1} ")
    assert not (await store.read_changes(NAMESPACE, 0, 9)).is_complete
    assert (await store.read_changes(NAMESPACE, forgotten, 9)).is_complete
    return int(size_now)


async def test_a_store_that_keeps_no_history_gives_versions_all_the_same(place: StorePlace) -> None:
    async with place.open(history=HistoryLimits(days=0)) as store:
        await put(store, "a")
        assert (await put(store, "a", content="x")).version == 2
        assert await list_versions(store, "a") == []
        assert not (await store.read_changes(NAMESPACE, 0, 10)).is_complete
        page = await store.read_changes(NAMESPACE, 1, 10)
        again = await store.read_changes(NAMESPACE, page.next, 9)
        assert (page.next, again.is_complete) == (2, True)
        await put(store, "a", kind="delete")
        deleted = store.read_history(NAMESPACE, A, None, 1)
        assert await find_reason(deleted) == "memory_not_found"
        assert await find_damage(store) == []


async def test_without_history_a_changed_memory_loses_what_was_kept_before(
    place: StorePlace,
) -> None:
    """It cannot be told apart from a gap."""
    async with place.open() as store:
        await put(store, "a", content="one")
        memory_id = expect_stored(await put(store, "b", links=[("a", 0.5)])).row.id
    async with place.open(history=HistoryLimits(days=0)) as store:
        assert (await put(store, "a", content="two")).version == 3
        await store.change(NAMESPACE, plan("update", "a", new_key="c"))
    async with place.open() as store:
        await put(store, "c", content="three")

        found = await store.read_history(NAMESPACE, MemoryName(key="c"), None, 9)
        other = await store.read_history(NAMESPACE, MemoryName(id=memory_id), None, 9)

        assert ([entry.version for entry in found.entries], found.earliest) == ([5], 4)
        assert other.entries == ()
        page = await store.read_changes(NAMESPACE, 2, 9)
        assert ([change.version for change in page.changes], page.is_complete) == ([5], False)
        assert await find_damage(store) == []


async def test_who_follows_the_changes_misses_none_of_several_writers(place: StorePlace) -> None:
    """Versions come in their order, and lead to what is there."""
    async with place.open() as store:
        await put(store, "first")
        writers = [start(store_and_delete, place.url, f"w{n}", FOLLOWED) for n in range(PROCESSES)]
        since, copy = 0, dict[str, tuple[str, int]]()

        is_writing = True
        while is_writing:
            is_writing = any(writer.poll() is None for writer in writers)
            has_more = True
            while has_more:
                page = await store.read_changes(NAMESPACE, since, 5)
                assert page.is_complete
                for change in page.changes:
                    assert change.version > since
                    since = change.version
                    copy[change.id] = (change.key, change.version)
                    if change.action == "deleted":
                        del copy[change.id]
                since, has_more = page.next, page.has_more
            await asyncio.sleep(0)

        await run_all(writers)
        lines = await store.list_memories(NAMESPACE, "", "", 10_000, archived=True)
        memories = await store.read(NAMESPACE, [line.key for line in lines])
        present = [(m.row.key, m.row.version) for m in memories if isinstance(m, StoredMemory)]
        assert sorted(copy.values()) == present
        assert len(present) == 1 + PROCESSES * (FOLLOWED - FOLLOWED // 5)


async def test_a_follower_misses_no_change_that_commits_late(database_place: DatabasePlace) -> None:
    """A transaction that has its version and stays open holds up all later versions."""
    async with database_place.open() as store, database_place.open() as later:
        await put(store, "first")
        gate, has_changed = asyncio.Event(), asyncio.Event()

        async def change_slowly(transaction: Transaction) -> WriteResult:
            change = plan("store", "late")
            result = await changing.apply_change(transaction, NAMESPACE, change, StoreRules())
            has_changed.set()
            await gate.wait()
            return result

        loop, server = store.engine.loop, store.engine.server
        slow = asyncio.create_task(loop.run(partial(server.write, NAMESPACE, change_slowly)))
        await loop.run(has_changed.wait)
        quick = asyncio.create_task(put(later, "quick"))
        await asyncio.sleep(0.1)
        page = await later.read_changes(NAMESPACE, 0, 10)
        assert [change.key for change in page.changes] == ["first"]
        assert not quick.done()

        loop.call_soon(gate.set)
        await asyncio.gather(slow, quick)
        page = await later.read_changes(NAMESPACE, page.next, 10)

        assert [change.key for change in page.changes] == ["late", "quick"]


async def test_many_memories_expire_in_several_transactions(
    place: StorePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged one among them stays as it is, and holds up none."""
    monkeypatch.setattr(changing, "MOST_EXPIRED", 4)
    fields = {"type": "core", "content": "x", "expires_at": SOON}
    async with place.open() as store:
        await put(store, "stays")
        await put_many(store, [plan("store", f"k{n}", fields=fields) for n in range(23)])
        place.tamper("UPDATE memories SET content = 'other' WHERE key = 'k3'")

        stats = await store.read_stats(NAMESPACE)

        assert (stats.total, stats.archived) == (2, 22)
        page = await store.read_changes(NAMESPACE, 24, 99)
        told = {(change.action, change.caller) for change in page.changes}
        assert told == {("expired", "expiry")}
        assert await find_reason(store.read_linked(NAMESPACE, "k3", 0, 1)) == "checksum_mismatch"

    if place.engine == "postgres":
        counts = place.fetch("SELECT count(*) FROM memories WHERE archived > 0 GROUP BY xmin::text")
        # Random ids decide which of the six transactions meets the damaged one.
        assert sum(number for (number,) in counts) == 22
        assert len(counts) == 6 and max(counts) == (4,)


READ_ONLY = """
DO $$ BEGIN EXECUTE
    format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database());
END $$
"""


async def test_reads_go_on_where_what_expired_cannot_be_archived(
    place: StorePlace, unprivileged: None
) -> None:
    with as_root():
        let_others_enter(place.folder)
        place.folder.chmod(0o777)
        async with place.open() as store:
            await put(store, "a", expires_at=SOON)
        if isinstance(place, FilePlace):
            for path in (place.path, Path(f"{place.path}-lock")):
                path.chmod(0o444)
        else:
            with place.connect() as connection:
                connection.execute(READ_ONLY)

    async with place.open() as store:
        for _ in range(2):
            row = (await read_one(store, "a")).row
            assert (row.archived, row.expires_at) == (0, SOON)
