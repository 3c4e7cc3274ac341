"""Stores: their behaviours, and what SQLite keeps when its file or process is treated badly."""

import asyncio
import fcntl
import json
import os
import random
import shutil
import signal
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, get_args
from uuid import UUID

import pytest

from abilities.declarations.limits import MAX_ACCESS_COUNT
from abilities.declarations.memory import Direction
from abilities.declarations.refusals import Fault, Refused
from abilities.helpers.store import reads
from abilities.helpers.store.changes import Kind, create_row, merge_change
from abilities.helpers.store.model import IncomingMemory, Query, StoredMemory
from abilities.helpers.store.postgres import pool
from abilities.helpers.store.protocol import MemoryStore, ServableStore, WriteResult
from abilities.helpers.store.reads import AccessBuffer
from abilities.helpers.store.sqlite import file, search
from abilities.helpers.store.sqlite.store import SqliteStore
from abilities.helpers.transfer.export_lines import format_line, parse_fields
from tests.stores import behaviours
from tests.stores.behaviours import NAMESPACE, put
from tests.stores.behaviours.steps import plan
from tests.support.measurements import reached
from tests.support.places import FilePlace, StorePlace, find_damage, find_reason, list_cases
from tests.support.tier import size
from tests.support.waiting import GIVE_UP_SECONDS
from tests.support.walk_oracles import Graph, describe, expect_by_recursion, make_random_graph
from tests.support.writers import link_for_seconds, start, write_for_ever

GRAPHS = size("ABILITIES_GRAPHS", quick=10, full=30)
KILLS = size("ABILITIES_KILLS", quick=3, full=12)
WRITING = size("ABILITIES_WRITING", quick=1, full=3)
PROCESSES = size("ABILITIES_PROCESSES", quick=2, full=8)
CHANGES = size("ABILITIES_CHANGES", quick=50, full=300)
"""Changes at once, one of which is impossible."""
FLIPS = size("ABILITIES_FLIPS", quick=25, full=50)

NOW = "2026-01-01T00:00:00.000Z"


@pytest.mark.parametrize("behaviour", behaviours.BEHAVIOURS, ids=lambda given: given.__name__)
async def test_a_store_behaves(
    behaviour: behaviours.Behaviour[ServableStore], place: StorePlace
) -> None:
    async with place.open() as store:
        await behaviour(store)
        assert await find_damage(store) == []


@pytest.mark.parametrize(
    "behaviour", behaviours.SEARCH_BEHAVIOURS, ids=lambda given: given.__name__
)
async def test_a_search_finds_the_same_whether_an_index_or_a_scan_answers_it(
    behaviour: behaviours.Behaviour[MemoryStore], place: StorePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small file is scanned otherwise; a server may lack what its index needs."""
    monkeypatch.setattr(search, "_SCAN_LIMIT", 0)
    no_index = b"CREATE INDEX words_search ON nowhere (folded)"
    monkeypatch.setattr(pool, "_CREATE_SEARCH_INDEX", no_index)

    async with place.open() as store:
        await behaviour(store)


async def fill_store(place: FilePlace, count: int = 3) -> None:
    async with place.open() as store:
        for n in range(count):
            await put(store, f"k{n}", links=[(f"k{n + 1}", 0.5)], tags=["t"])


async def test_s7_the_transaction_of_another_program_makes_it_busy_not_wrong(
    file_place: FilePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "BUSY_SECONDS", 0.3)
    await fill_store(file_place)
    async with file_place.open() as store:
        with file_place.connect() as other:
            other.execute("BEGIN IMMEDIATE")
            assert await find_reason(put(store, "k10")) == "busy"
            reading = store.read_linked(NAMESPACE, "k1", 0, 1)
            assert await find_reason(reading) == "done", "reads go on"

        assert await find_reason(put(store, "k10")) == "done"


def test_a_full_buffer_counts_on_for_the_memories_that_it_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reads, "MAX_TOUCHES", 1)
    buffer = AccessBuffer()

    for key in ("held", "dropped", "held"):
        buffer.add(NAMESPACE, key, NOW)

    (accesses,) = buffer.take().values()
    assert [(access.key, access.number) for access in accesses] == [("held", 2)]


async def test_no_more_accesses_are_counted_than_an_import_takes(place: StorePlace) -> None:
    async with place.open() as store:
        await put(store, "k")
        (memory,) = await store.read_page(("", ""), 1)
        assert isinstance(memory, StoredMemory)
        imported = memory._replace(access_count=MAX_ACCESS_COUNT - 1)
        assert await store.import_batch([IncomingMemory(imported)], replace=True) == ["unchanged"]
        changed = imported._replace(row=imported.row._replace(content="changed"))
        assert await store.import_batch([IncomingMemory(changed)], replace=True) == ["replaced"]

        for _ in range(3):
            store.count_access(NAMESPACE, "k", NOW)
        await put(store, "new", kind="update", id=imported.row.id)  # it writes the accesses first

        counted = await store.read_linked(NAMESPACE, "new", 0, 1)
        assert counted.access_count == MAX_ACCESS_COUNT
        assert parse_fields(json.loads(format_line(counted))).access_count == MAX_ACCESS_COUNT


async def test_a_text_that_is_not_utf8_fails_alone_each_time(file_place: FilePlace) -> None:
    await fill_store(file_place)
    file_place.tamper("UPDATE memories SET summary = CAST(x'ff' AS TEXT) WHERE key = 'k1'")

    async with file_place.open() as store:
        for _ in range(2):
            page = await store.query(NAMESPACE, Query())
            read = [one.row.key for one in page.memories if isinstance(one, StoredMemory)]
            reason = await find_reason(store.read_linked(NAMESPACE, "k1", 0, 1))

            assert sorted(read) == ["k0", "k2"] and page.total == 3
            assert reason == "checksum_mismatch"


async def test_a_damaged_link_stays_damaged_if_it_follows_a_rename_or_its_rank_changes(
    place: StorePlace,
) -> None:
    async with place.open() as store:
        await put(store, "a", links=[("a", 0.5), ("b", 0.25)])
        await put(store, "b", links=[("a", 0.75)])
    place.tamper("UPDATE links SET weight = 0.9 WHERE source = 'b'")

    async with place.open() as store:
        await store.change(NAMESPACE, plan("update", "a", new_key="c"))
        backlinks = await store.read_backlinks(NAMESPACE, "c", 0, 20)
    damaged = 1
    if place.engine == "sqlite":
        place.tamper("UPDATE links SET type = CAST(x'ff' AS TEXT) WHERE target = 'b'")
        damaged = 2
    async with place.open() as store:
        for key in ("c", "b"):
            await put(store, key, memory_score=0.1)
        findings = await store.check(lambda _: None, full=False)

    assert [(link.source, link.target) for link in backlinks.links] == [("c", "c")]
    assert backlinks.total == 2
    numbers = {finding.name: finding.number for finding in findings if finding.state == "damaged"}
    assert numbers == {"links": damaged}


LINK = {"key": "k0", "type": "association"}
IMPOSSIBLE: list[dict[str, Any]] = [
    {"memory_score": float("nan")},
    {"memory_score": float("inf")},
    {"memory_score": 80},
    {"memory_score": "x"},
    {"type": "other"},
    {"importance": "HIGH"},
    {"category": None},
    {"summary": b"x"},
    {"content": "\ud800"},
    {"tags": [1]},
    {"metadata": [1]},
    {"category": 10**30},
    {"content": "a\0b"},
    *({"links": [{**LINK, "link_weight": w}]} for w in (float("nan"), float("inf"), 2.0, -0.5)),
]
"""Fields and links that a validated request never has."""


async def test_s18_an_impossible_change_fails_alone(place: StorePlace) -> None:
    """Of changes in several namespaces at once."""
    numbers = range(CHANGES)
    wrong = dict(zip(range(2, CHANGES, CHANGES // 18), IMPOSSIBLE, strict=False))
    assert len(wrong) == len(IMPOSSIBLE)
    async with place.open() as store:
        changes: list[Awaitable[WriteResult]] = []
        for n in numbers:
            fields = {"type": "core", "content": f"c{n}", **wrong.get(n, {})}
            links = fields.pop("links", [])
            change = plan("store", f"k{n}", fields=fields, links=links)
            changes.append(store.change(f"n{n % 5}", change))

        results = await asyncio.gather(*changes, return_exceptions=True)

        assert [n for n in numbers if isinstance(results[n], Exception)] == list(wrong)
        assert await find_damage(store) == []
        for n in numbers:
            (memory,) = await store.read(f"n{n % 5}", [f"k{n}"])
            assert isinstance(memory, StoredMemory) == (n not in wrong), memory


DAMAGE = (
    "UPDATE memories SET score = 80.0 WHERE key = 'b'",
    "UPDATE memories SET hash = hash - 1 WHERE key = 'b'",
    "UPDATE memories SET content = 'something else' WHERE key = 'b'",
    "UPDATE memories SET content = '' WHERE key = 'b'",
    "UPDATE memories SET type = 'other', importance = 'HIGH' WHERE key = 'b'",
    "UPDATE memories SET archived = 7 WHERE key = 'b'",
    "UPDATE memories SET tags = '[1' WHERE key = 'b'",
    "UPDATE memories SET metadata = '[1]' WHERE key = 'b'",
    "UPDATE memories SET created_at = 'x', updated_at = 'y' WHERE key = 'b'",
)
MENDING: dict[Kind, dict[str, Any]] = {
    "store": {"content": "new content", "type": "task"},
    "update": {"content": "new content"},
    "archive": {},
    "delete": {},
}


@pytest.mark.parametrize(("place", "damage"), list_cases(DAMAGE, sampled=3), indirect=["place"])
async def test_s16_a_damaged_memory_is_changed_and_deleted(damage: str, place: StorePlace) -> None:
    links = [("a", 0.5), ("delete", 0.5)]
    async with place.open() as store:
        await put(store, "a", links=[(kind, 0.5) for kind in MENDING])
        for kind in MENDING:
            await put(store, kind, content=f"Content of {kind}", tags=["t", kind], links=links)
    place.tamper(*(damage.replace("'b'", f"'{kind}'") for kind in MENDING))

    async with place.open() as store:
        for kind, fields in MENDING.items():
            reading = await find_reason(store.read_linked(NAMESPACE, kind, 0, 5))
            assert reading == "checksum_mismatch"

            await store.change(NAMESPACE, plan(kind, kind, fields=fields))

            (stored,) = await store.read(NAMESPACE, [kind])
            if kind == "delete":
                assert isinstance(stored, Refused)
            else:
                assert isinstance(stored, StoredMemory) and stored.links_total == 2
                assert stored.row.content == fields.get("content", stored.row.content)

        assert await find_damage(store) == []
        # The id of the next memory in the file may be that of the deleted one.
        await put(store, "d", content="unlike")
        for kind in ("store", "update", "delete"):
            found = await store.query(NAMESPACE, Query(search=(f"content of {kind}",)))
            assert found.total == 0


LONG = """
    WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE go_on())
    SELECT count(*) FROM numbers
"""


def read_until(enough: threading.Event) -> Callable[[sqlite3.Connection], object]:
    """Return work for a reading thread that lasts until the event is set."""

    def read_long(connection: sqlite3.Connection) -> object:
        connection.create_function("go_on", 0, lambda: not enough.is_set())
        return connection.execute(LONG).fetchone()

    return read_long


async def test_a_read_ends_in_time_and_others_go_on_meanwhile(
    file_place: FilePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("abilities.helpers.store.sqlite.store.OWN_TURN_SECONDS", 0.2)
    enough = threading.Event()
    read_long = read_until(enough)

    async with file_place.open() as store:
        await put(store, "k")
        long = [
            asyncio.create_task(find_reason(store.engine.run_read(NAMESPACE, read_long, 600.0)))
            for _ in range(2)
        ]
        await asyncio.sleep(0)  # they are queued first

        assert await find_reason(store.read_linked("another", "k", 0, 1)) == "memory_not_found"
        assert await find_reason(store.read_linked(NAMESPACE, "k", 0, 1)) == "done"
        assert await find_reason(put(store, "k2")) == "done"
        assert not any(task.done() for task in long)
        enough.set()
        assert await asyncio.gather(*long) == ["done"] * 2
        enough.clear()
        assert await find_reason(store.engine.run_read(NAMESPACE, read_long, 0.3)) == "timeout"
        assert await find_reason(store.read_linked(NAMESPACE, "k2", 0, 1)) == "done"

    fault = Fault.from_reason("timeout")
    assert fault.code == "STORAGE_ERROR" and fault.retryable


async def test_a_read_from_a_disk_that_hangs_is_answered_too(file_place: FilePlace) -> None:
    answered = threading.Event()
    async with file_place.open() as store:
        await put(store, "k")
        reading = store.engine.run_read(NAMESPACE, lambda _: answered.wait(), 0.3)

        assert await find_reason(reading) == "timeout"

        answered.set()


async def test_a_read_that_takes_longer_than_its_turn_is_answered_all_the_same(
    file_place: FilePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes no new thread and no new descriptor: a process has them since its first read."""
    monkeypatch.setattr("abilities.helpers.store.sqlite.store.TURN_SECONDS", 0.0)
    threads: list[str] = []

    def read_slowly_at_first(connection: sqlite3.Connection) -> object:
        threads.append(threading.current_thread().name)
        if len(threads) == 1:
            read_until(threading.Event())(connection)
        return "slow"

    async with file_place.open() as store:
        await put(store, "k")
        await store.read(NAMESPACE, ["k"])
        threads_before = set(threading.enumerate())
        descriptors_before = len(os.listdir("/proc/self/fd"))

        slow = asyncio.create_task(store.engine.run_read(NAMESPACE, read_slowly_at_first, 600.0))
        await asyncio.sleep(0)  # it is queued first

        assert await find_reason(store.read_linked("another", "k", 0, 1)) == "memory_not_found"
        assert await slow == "slow"
        assert threads == ["abilities-store-reader", "abilities-store-reader-2"]
        assert set(threading.enumerate()) <= threads_before
        assert len(os.listdir("/proc/self/fd")) <= descriptors_before


async def test_an_unforeseen_error_is_logged_with_its_cause(
    file_place: FilePlace, caplog: pytest.LogCaptureFixture
) -> None:
    async with file_place.open() as store:
        await put(store, "k")
        assert store.engine.writer.connection is not None
        # This table hides the store's own.
        store.engine.writer.connection.execute("CREATE TEMP TABLE memories (other)")

        assert await find_reason(put(store, "k2")) == "storage_error"
        assert await find_reason(store.read_linked(NAMESPACE, "k", 0, 1)) == "done"

    assert "SQLITE_ERROR" in caplog.text and "no such index" in caplog.text


@pytest.mark.parametrize("how", ["moved", "deleted", "replaced"])
async def test_s12_a_store_that_is_moved_while_open_acknowledges_nothing(
    how: str, file_place: FilePlace
) -> None:
    other = file_place.folder / "other.db"
    async with file_place.open() as store:
        await put(store, "k")
        await store.read(NAMESPACE, ["k"])
        shutil.copy(file_place.path, other)
        if how == "replaced":
            other.replace(file_place.path)
        else:
            file_place.path.rename(other)
        if how == "deleted":
            other.unlink()

        assert await find_reason(put(store, "lost")) == "storage_moved"
        assert await find_reason(store.read_linked(NAMESPACE, "k", 0, 1)) == "storage_moved"


async def test_s12_a_store_that_came_without_its_lock_file_and_is_gone_is_not_made_anew(
    file_place: FilePlace,
) -> None:
    """Whoever opens it leaves a trace too."""
    await fill_store(file_place)
    Path(f"{file_place.path}-lock").unlink()
    await fill_store(file_place)
    file_place.path.unlink()

    async with file_place.open() as store:
        assert await find_reason(put(store, "k")) == "storage_moved"
        assert await find_reason(store.query(NAMESPACE, Query())) == "storage_moved"

    assert not file_place.path.exists()


async def test_closing_does_not_wait_for_ever_for_a_lock(
    file_place: FilePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "BUSY_SECONDS", 0.2)
    store = SqliteStore(file_place.path)
    await put(store, "k")
    await store.read(NAMESPACE, ["k"])
    lock = os.open(f"{file_place.path}-lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    await asyncio.wait_for(store.close(), GIVE_UP_SECONDS)
    os.close(lock)

    async with file_place.open() as again:
        assert await find_reason(again.read_linked(NAMESPACE, "k", 0, 1)) == "done"


async def test_a_walk_through_the_store_is_the_walk_in_memory(place: StorePlace) -> None:
    """Random graphs, stored and walked, against the same walk over plain lists."""
    async with place.open() as store:
        assert await count_equal_walks(store, range(GRAPHS)) == GRAPHS


async def count_equal_walks(store: ServableStore, seeds: Iterable[int]) -> int:
    """Compare walks over stored graphs with the oracle in all directions; count the graphs."""
    graphs = 0
    for seed in seeds:
        graph, limits = make_random_graph(seed)
        graph.invalid = set()
        await store_graph(store, f"n{seed}", graph)

        for direction in get_args(Direction):
            result = await store.walk(f"n{seed}", "m0", limits, direction)
            expected = expect_by_recursion(graph, "m0", limits, direction)
            keys = [one.row.key for one in result.memories if isinstance(one, StoredMemory)]

            assert describe(result.outcome) == expected, (seed, direction)
            assert keys == expected.order, (seed, direction)

        graphs += 1

    return graphs


async def store_graph(store: ServableStore, namespace: str, graph: Graph) -> None:
    memories: list[IncomingMemory] = []
    for number, (key, edges) in enumerate(graph.edges.items()):
        if key in graph.missing:
            continue

        change = plan(
            "store",
            key,
            new_id=str(UUID(int=number, version=4)),
            fields={"type": "core", "content": key, "memory_score": graph.scores[key]},
            links=[{"key": k, "link_weight": weight, "type": kind} for k, weight, kind in edges],
        )
        merged = merge_change(change, create_row(change, namespace), {})
        row = merged.row._replace(archived=int(key in graph.archived))
        links = tuple(merged.links.values())
        memories.append(IncomingMemory(StoredMemory(row, links, len(links))))

    outcomes = await store.import_batch(memories)
    assert outcomes == ["added"] * len(memories)


async def test_a_cancelled_caller_does_not_stop_a_begun_write(file_place: FilePlace) -> None:
    async with file_place.open() as store:
        await put(store, "first")
        for n in range(50):
            task = asyncio.create_task(put(store, f"k{n}"))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            task.cancel()

        await put(store, "last")
        memories = await store.read(NAMESPACE, [f"k{n}" for n in range(50)])

        assert all(isinstance(memory, StoredMemory) for memory in memories)


@pytest.mark.requirement("R3.8.6")
@pytest.mark.parametrize("count", [1, 3])
async def test_no_acknowledged_write_is_lost_to_kill_9(count: int, file_place: FilePlace) -> None:
    chance, acknowledged = random.Random(count), set[str]()
    await fill_store(file_place, 1)

    for round_ in range(KILLS // 2):
        names = [f"r{round_}w{n}" for n in range(count)]
        processes = [start(write_for_ever, file_place.url, name) for name in names]
        for name, process in zip(names, processes, strict=True):
            for _ in range(21):
                line = process.stdout.readline().decode().strip()
                assert line, "its traceback is among the errors of the tests"
                acknowledged.add(f"{name}-{line}")

        time.sleep(chance.random() * 0.3)  # so that each round is killed at another moment
        for name, process in zip(names, processes, strict=True):
            process.send_signal(signal.SIGKILL)
            output, _ = process.communicate()
            acknowledged |= {f"{name}-{n}" for n in output.decode().split("\n")[:-1]}

    assert len(acknowledged) > 20 * count
    async with file_place.open() as store:
        assert await list_lost(store, acknowledged) == []
        assert (await store.read_stats(NAMESPACE)).total >= len(acknowledged)

    file_place.check_whole()
    rounds = f"{KILLS // 2} rounds of kill -9, writers: {count}"
    reached(5, f"{rounds}; {len(acknowledged):,} acknowledged, 0 lost")


async def list_lost(store: ServableStore, keys: Iterable[str]) -> list[str]:
    """Return which of the keys a store does not hold."""
    lost: list[str] = []
    ordered = sorted(keys)
    # A read has a deadline, and there may be a hundred thousand keys.
    for start_at in range(0, len(ordered), 200):
        batch = ordered[start_at : start_at + 200]
        memories = await store.read(NAMESPACE, batch)
        for key, memory in zip(batch, memories, strict=True):
            if not isinstance(memory, StoredMemory):
                lost.append(key)

    return lost


async def test_several_processes_write_one_memory_without_losing_an_update(
    file_place: FilePlace,
) -> None:
    await fill_store(file_place, 1)
    names = [f"p{n}" for n in range(PROCESSES)]
    processes = [start(link_for_seconds, file_place.url, name, WRITING) for name in names]
    outputs = [json.loads(process.communicate()[0]) for process in processes]

    assert all(process.returncode == 0 for process in processes), "no BUSY is shown"
    counts = [count for count, _ in outputs]
    assert min(counts) > 0
    async with file_place.open() as store:
        assert (await store.read_linked(NAMESPACE, "shared", 0, 1)).links_total == sum(counts)

    p99 = max(slowest for _, slowest in outputs) * 1000
    ratio = max(counts) / min(counts)
    updates = f"{sum(counts):,} updates by {PROCESSES} processes in {WRITING} s"
    reached(6, f"{updates}, none lost, no BUSY; p99 {p99:.0f} ms, {ratio:.1f}x")


async def test_flipped_bits_are_seen_when_they_are_read(file_place: FilePlace) -> None:
    """Figure 7: of the flips in the file that matter, at most 5 % give a wrong answer."""
    keys = [f"k{n}" for n in range(200)]
    async with file_place.open() as store:
        for n, key in enumerate(keys):
            links = [(f"k{(n * 7 + m) % 200}", m / 10) for m in range(1, 4)]
            content = f"memory {n} " + "text " * 20
            await put(store, key, content=content, links=links, tags=[f"t{n % 5}"])
        right = await read_everything(store, keys)

    raw, chance = file_place.path.read_bytes(), random.Random(7)
    outcomes = {"same": 0, "seen": 0, "unseen": 0}
    for n in range(FLIPS):
        spoilt, position = bytearray(raw), chance.randrange(len(raw))
        spoilt[position] ^= 1 << chance.randrange(8)
        copy = file_place.beside(f"flip{n}.db")
        copy.path.write_bytes(spoilt)
        async with copy.open() as store:
            outcome = compare(right, await read_everything(store, keys))
            outcomes[outcome] += 1
            if outcome == "unseen":
                assert await find_damage(store), "none is unseen by a check"

        for path in file_place.folder.glob("flip*"):
            path.unlink()

    assert outcomes["seen"] > 0
    assert outcomes["unseen"] <= max(FLIPS * 0.05, 1), outcomes

    reached(7, f"{FLIPS:,} flips: {outcomes['unseen']} unseen when read, none after a check")


async def read_everything(store: SqliteStore, keys: Iterable[str]) -> dict[str, Any]:
    """Return all that direct reads say, by key; None in the place of what failed."""
    answers: dict[str, Any] = {}
    for key in keys:
        try:
            memory = await store.read_linked(NAMESPACE, key, 0, 20)
            answers[key] = (memory.row, memory.links)
        except Refused:
            answers[key] = None

    return answers


def compare(right: dict[str, Any], answers: dict[str, Any]) -> str:
    """Return whether all answers are the "same", or else whether the damage was "seen".

    A link that was found damaged may be left out.
    """
    for key, answer in answers.items():
        if answer and (answer[0] != right[key][0] or not set(answer[1]) <= set(right[key][1])):
            return "unseen"

    return "same" if all(answers.values()) else "seen"
