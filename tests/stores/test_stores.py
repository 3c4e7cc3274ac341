"""Stores: conformance, and what SQLite keeps when its file or process is treated badly."""

import asyncio
import fcntl
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from abilities.declarations.faults import Refused
from abilities.helpers.stores import conformance
from abilities.helpers.stores.changes import Change
from abilities.helpers.stores.conformance import NAMESPACE, put
from abilities.helpers.stores.model import StoredMemory
from abilities.helpers.stores.protocol import MemoryStore, Query, ServableStore
from abilities.helpers.stores.sqlite import file, schema
from abilities.helpers.stores.sqlite.store import SqliteStore
from tests.memories.test_walk import Graph, make_random_graph, walk
from tests.support.measurements import reached
from tests.support.tier import size
from tests.support.waiting import GIVE_UP_SECONDS

GRAPHS = size("ABILITIES_GRAPHS", quick=10, full=50)
KILLS = size("ABILITIES_KILLS", quick=3, full=20)
WRITING = str(size("ABILITIES_WRITING", quick=1, full=3))
PROCESSES = size("ABILITIES_PROCESSES", quick=3, full=8)
FLIPS = size("ABILITIES_FLIPS", quick=25, full=150)


@asynccontextmanager
async def open_store(path: Path) -> AsyncGenerator[SqliteStore]:
    store = SqliteStore(path)
    try:
        yield store
    finally:
        await store.close()


async def test_sqlite_conforms(tmp_path: Path) -> None:
    numbers = iter(range(100))
    behaviours = await conformance.check(lambda: open_store(tmp_path / f"{next(numbers)}.db"))

    assert len(behaviours) == len(conformance.BEHAVIOURS) >= 10


async def test_conformance_notices_a_store_that_loses_a_change(tmp_path: Path) -> None:
    class ForgetfulStore(SqliteStore):
        async def read(self, namespace: str, keys: Any) -> Any:
            return [Refused("memory_not_found")] * len(keys)

    @asynccontextmanager
    async def open_forgetful() -> AsyncGenerator[ServableStore]:
        store = ForgetfulStore(tmp_path / "f.db")
        yield store
        await store.close()

    with pytest.raises(AssertionError, match="found by its key"):
        await conformance.check(open_forgetful)


async def find_reason(work: Any) -> str:
    """Return why some work is refused, or "done"."""
    try:
        await work
    except Refused as error:
        return error.reason

    return "done"


async def fill_store(path: Path, count: int = 3) -> None:
    async with open_store(path) as store:
        for n in range(count):
            await put(store, f"k{n}", links=[(f"k{n + 1}", 0.5)], tags=["t"])


async def test_s7_a_foreign_lock_makes_it_busy_not_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "BUSY_SECONDS", 0.3)
    path = tmp_path / "m.db"
    await fill_store(path)
    lock = os.open(f"{path}-lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)

    store = SqliteStore(path)

    assert await find_reason(put(store, "k9")) == "busy"

    fcntl.flock(lock, fcntl.LOCK_UN)

    assert await find_reason(put(store, "k9")) == "done"

    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        assert await find_reason(put(store, "k10")) == "busy"
        assert await find_reason(store.read_linked(NAMESPACE, "k9", 0, 1)) == "done", "reads go on"

    other.close()

    assert await find_reason(put(store, "k10")) == "done"

    await store.close()
    os.close(lock)


async def test_s8_a_full_disk_refuses_the_write_and_keeps_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    await fill_store(path)
    store = SqliteStore(path)
    await put(store, "k1")

    assert store._writing is not None

    (pages,) = store._writing.execute("PRAGMA page_count").fetchone()
    store._writing.execute(f"PRAGMA max_page_count = {pages}")
    outcomes = [await find_reason(put(store, f"big{n}", content="x" * 5000)) for n in range(30)]

    assert "storage_full" in outcomes
    assert await find_reason(store.read_linked(NAMESPACE, "k1", 0, 1)) == "done"

    kept = [f"big{n}" for n, outcome in enumerate(outcomes) if outcome == "done"]

    assert all(isinstance(memory, StoredMemory) for memory in await store.read(NAMESPACE, kept))

    await store.close()


@pytest.mark.parametrize("damage", ["empty", "text", "header", "cut", "schema", "foreign"])
async def test_s10_a_file_that_is_no_store_is_refused_and_left_untouched(
    damage: str, tmp_path: Path
) -> None:
    path = tmp_path / "m.db"
    if damage == "foreign":
        with sqlite3.connect(path) as other:
            other.execute("CREATE TABLE theirs (x)")
        other.close()
    else:
        await fill_store(path, 50)
        raw = path.read_bytes()
        spoilt = {
            "empty": b"",
            "text": b"not a database" * 500,
            "header": b"\0" * 100 + raw[100:],
            "cut": raw[:9000],
        }
        spoilt["schema"] = raw.replace(b"CREATE TABLE memories", b"CREATE TABL\xf3 memories")
        path.write_bytes(spoilt[damage])

    before = path.read_bytes()
    store = SqliteStore(path)
    reads = {
        await find_reason(store.query(NAMESPACE, Query(limit=50))),
        await find_reason(put(store, "new")),
    }

    assert reads == {"corrupted"}

    await store.close()

    assert path.read_bytes() == before


async def test_s11_a_newer_schema_is_neither_read_nor_written(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    await fill_store(path)

    with sqlite3.connect(path) as other:
        other.execute("PRAGMA user_version = 99")

    other.close()
    before = path.read_bytes()

    store = SqliteStore(path)

    assert await find_reason(store.query(NAMESPACE, Query())) == "schema_too_new"
    assert await find_reason(put(store, "new")) == "schema_too_new"

    await store.close()

    assert path.read_bytes() == before


async def test_an_older_store_is_migrated_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, scripts = tmp_path / "m.db", schema.load_migrations()
    await fill_store(path)

    async with open_store(path) as old:
        await put(old, "k9")
        before = await read_everything(old, 3)
        step = (
            "CREATE TABLE more (namespace TEXT);"
            " INSERT INTO more SELECT DISTINCT namespace FROM memories;"
        )
        monkeypatch.setattr(
            schema, "load_migrations", lambda: (*scripts, step, "SELECT no_such_function();")
        )
        async with open_store(path) as newer:
            assert await find_reason(put(newer, "k")) == "storage_error", (
                "a step that fails is not half done"
            )

        assert read_version(path) == 2, "the steps before it are kept"

        monkeypatch.setattr(
            schema,
            "load_migrations",
            lambda: (*scripts, step, "CREATE TABLE last (namespace TEXT);"),
        )
        stores = [SqliteStore(path) for _ in range(8)]
        await asyncio.gather(*(put(store, f"new{n}") for n, store in enumerate(stores)))

        assert await read_everything(stores[0], 3) == before

        for store in stores:
            await store.close()

        assert read_version(path) == 3

        monkeypatch.setattr(schema, "load_migrations", lambda: scripts)

        assert await find_reason(put(old, "k")) == "schema_too_new", (
            "a process that was left behind writes no more"
        )
        assert await find_reason(old.read_stats(NAMESPACE)) == "schema_too_new"

    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT * FROM more").fetchall() == [(NAMESPACE,)]

    connection.close()


def read_version(path: Path) -> int:
    with sqlite3.connect(path) as connection:
        (number,) = connection.execute("PRAGMA user_version").fetchone()

    connection.close()
    return int(number)


def move(path: Path) -> None:
    path.rename(path.with_name("moved.db"))


def replace(path: Path) -> None:
    shutil.copy(path, path.with_name("copy.db"))
    path.with_name("copy.db").replace(path)


@pytest.mark.parametrize("how", [move, Path.unlink, replace])
async def test_s12_a_store_that_is_moved_while_open_acknowledges_nothing(
    how: Callable[[Path], object], tmp_path: Path
) -> None:
    path = tmp_path / "m.db"
    async with open_store(path) as store:
        await put(store, "k")
        await store.read(NAMESPACE, ["k"])
        how(path)

        assert await find_reason(put(store, "lost")) == "storage_moved"
        assert await find_reason(store.read_linked(NAMESPACE, "k", 0, 1)) == "storage_moved"


@pytest.mark.parametrize("how", [move, Path.unlink])
async def test_s12_a_store_that_is_gone_is_not_made_anew(
    how: Callable[[Path], object], tmp_path: Path
) -> None:
    path = tmp_path / "m.db"
    await fill_store(path)
    how(path)

    store = SqliteStore(path)

    assert await find_reason(put(store, "k")) == "storage_moved"
    assert await find_reason(store.query(NAMESPACE, Query())) == "storage_moved"

    await store.close()

    assert not path.exists()


async def test_s12_a_store_that_came_without_its_lock_file_leaves_a_trace_too(
    tmp_path: Path,
) -> None:
    path = tmp_path / "m.db"
    await fill_store(path)
    Path(f"{path}-lock").unlink()

    async with open_store(path) as store:
        await put(store, "k")

    path.unlink()

    async with open_store(path) as store:
        assert await find_reason(put(store, "k")) == "storage_moved"


async def test_closing_does_not_wait_for_ever_for_a_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "BUSY_SECONDS", 0.2)
    path = tmp_path / "m.db"
    store = SqliteStore(path)
    await put(store, "k")
    await store.read(NAMESPACE, ["k"])
    lock = os.open(f"{path}-lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    await asyncio.wait_for(store.close(), GIVE_UP_SECONDS)
    os.close(lock)

    async with open_store(path) as again:
        assert await find_reason(again.read_linked(NAMESPACE, "k", 0, 1)) == "done"


async def test_a_walk_through_the_store_is_the_walk_in_memory(tmp_path: Path) -> None:
    """Random graphs, stored and walked, against the same walk over plain lists."""
    async with open_store(tmp_path / "m.db") as store:
        assert await count_equal_walks(store, range(GRAPHS)) == GRAPHS


async def count_equal_walks(store: MemoryStore, seeds: Iterable[int]) -> int:
    """Compare walks with those over plain lists, and count them."""
    walks = 0
    for seed in seeds:
        graph, limits = make_random_graph(seed)
        graph.invalid = set()
        await store_graph(store, f"n{seed}", graph)
        expected = walk(graph, "m0", limits)
        result = await store.walk(f"n{seed}", "m0", limits)
        steps, expected_steps = (
            [(step.key, step.depth, step.parent and step.parent.key) for step in outcome.steps]
            for outcome in (result.outcome, expected)
        )

        assert steps == expected_steps, seed
        assert result.outcome.frontier == expected.frontier, seed
        assert (result.outcome.duplicates, result.outcome.missing) == (
            expected.duplicates,
            expected.missing,
        ), seed

        walks += 1

    return walks


async def store_graph(store: MemoryStore, namespace: str, graph: Graph) -> None:
    for n, (key, edges) in enumerate(graph.edges.items()):
        if key in graph.missing:
            continue

        links = [
            {"key": target, "link_weight": weight, "type": kind} for target, weight, kind in edges
        ]
        fields = {"type": "core", "content": key, "memory_score": graph.scores[key]}
        change = Change(
            "store",
            "2026-01-01T00:00:00.000Z",
            None,
            key,
            str(UUID(int=n, version=4)),
            fields,
            links,
        )
        written = await store.change(namespace, change)
        if key in graph.archived and written.stored:
            await store.change(namespace, Change("archive", change.now, written.stored.row.id))


async def test_s9_a_read_only_store_is_read(tmp_path: Path, unprivileged: None) -> None:
    """The folder stays writable: SQLite needs a place for its index of the write-ahead log."""
    user, path = os.geteuid(), tmp_path / "m.db"
    if os.getuid() == 0:
        os.seteuid(0)

    for folder in tmp_path.parents[:3]:
        folder.chmod(0o755)

    tmp_path.chmod(0o777)
    await fill_store(path)
    path.chmod(0o444)
    Path(f"{path}-lock").chmod(0o444)
    os.seteuid(user)

    store = SqliteStore(path)

    assert await find_reason(put(store, "new")) == "read_only"
    assert await find_reason(store.read_linked(NAMESPACE, "k0", 0, 1)) == "done"

    await store.close()


async def test_a_cancelled_caller_does_not_stop_a_begun_write(tmp_path: Path) -> None:
    async with open_store(tmp_path / "m.db") as store:
        await put(store, "first")
        for n in range(50):
            task = asyncio.create_task(put(store, f"k{n}"))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            task.cancel()

        await put(store, "last")
        memories = await store.read(NAMESPACE, [f"k{n}" for n in range(50)])

        assert all(isinstance(memory, StoredMemory) for memory in memories)


WRITER = """
import asyncio, sys
from pathlib import Path
from abilities.helpers.stores.conformance import put
from abilities.helpers.stores.sqlite.store import SqliteStore
async def main():
    store, name = SqliteStore(Path(sys.argv[1])), sys.argv[2]
    async def write(n):
        content, links = f"{name} {n} " + "x" * (n % 3000), [(f"{name}-{n - 1}", 0.5)]
        await put(store, f"{name}-{n}", content=content, tags=["t"], links=links)
        print(n, flush=True)
    n = int(sys.argv[3])
    while True:
        await asyncio.gather(*(write(n + m) for m in range(8)))
        n += 8
asyncio.run(main())
"""


@pytest.mark.parametrize("writers", [1, 3])
async def test_no_acknowledged_write_is_lost_to_kill_9(writers: int, tmp_path: Path) -> None:
    path, chance, acknowledged = tmp_path / "m.db", random.Random(writers), set[str]()
    await fill_store(path, 1)

    for round_ in range(KILLS // 2):
        names = [f"r{round_}w{n}" for n in range(writers)]
        commands = [[sys.executable, "-c", WRITER, str(path), name, "0"] for name in names]
        # Unbuffered, so that the lines that are not read here are still there for communicate().
        processes = [
            subprocess.Popen(command, bufsize=0, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for command in commands
        ]
        for name, process in zip(names, processes, strict=True):
            assert process.stdout
            for _ in range(21):
                line = process.stdout.readline().decode().strip()
                assert line, process.stderr and process.stderr.read()
                acknowledged.add(f"{name}-{line}")

        time.sleep(chance.random() * 0.3)  # so that each round is killed at another moment
        for name, process in zip(names, processes, strict=True):
            process.send_signal(signal.SIGKILL)
            output, _ = process.communicate()
            acknowledged |= {f"{name}-{n}" for n in output.decode().split("\n")[:-1]}

    assert len(acknowledged) > 20 * writers

    rounds = f"{KILLS // 2} rounds of kill -9, writers: {writers}"

    async with open_store(path) as store:
        keys = sorted(acknowledged)
        lost = [
            key
            for key, memory in zip(keys, await store.read(NAMESPACE, keys), strict=True)
            if not isinstance(memory, StoredMemory)
        ]

        assert lost == []
        assert (await store.read_stats(NAMESPACE)).total >= len(acknowledged)

    check_whole(path)
    reached(5, f"{rounds}; {len(acknowledged):,} acknowledged, 0 lost")


def check_whole(path: Path) -> None:
    """Check that no transaction is torn.

    Every memory has its narrow row, its tags and its words, and the counters agree.
    """
    counters = "SELECT ifnull(sum(number), 0) FROM counters WHERE name = 'all'"

    with sqlite3.connect(path) as connection:
        execute = connection.execute
        execute("INSERT INTO search (search) VALUES ('integrity-check')")

        assert execute("PRAGMA integrity_check").fetchone() == ("ok",)

        memories = execute("SELECT rowid, id FROM memories ORDER BY rowid").fetchall()

        assert memories == execute("SELECT memory, id FROM shelf ORDER BY memory").fetchall()

        tags = execute("SELECT count(*) FROM tags").fetchone()

        assert tags == execute("SELECT count(*) FROM shelf").fetchone()

        assert execute(counters).fetchone() == (len(memories),)

    connection.close()


INCREMENT = """
import asyncio, json, sys, time
from pathlib import Path
from abilities.helpers.stores.conformance import put
from abilities.helpers.stores.sqlite.store import SqliteStore
async def main():
    store, name, seconds = SqliteStore(Path(sys.argv[1])), sys.argv[2], float(sys.argv[3])
    end, count, times = time.monotonic() + seconds, 0, []
    while time.monotonic() < end:
        began = time.monotonic()
        await put(store, "shared", links=[(f"{name}-{count}", 0.5)])
        times.append(time.monotonic() - began)
        count += 1
    print(json.dumps([count, sorted(times)[int(len(times) * 0.99)]]))
    await store.close()
asyncio.run(main())
"""


async def test_several_processes_write_one_memory_without_losing_an_update(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    await fill_store(path, 1)
    command = [sys.executable, "-c", INCREMENT, str(path)]
    processes = [
        subprocess.Popen([*command, f"p{n}", WRITING], stdout=subprocess.PIPE)
        for n in range(PROCESSES)
    ]
    outputs = [json.loads(process.communicate()[0]) for process in processes]

    assert all(process.returncode == 0 for process in processes), "no BUSY is shown"

    counts = [count for count, _ in outputs]

    async with open_store(path) as store:
        assert (await store.read_linked(NAMESPACE, "shared", 0, 1)).links_total == sum(counts)

    assert min(counts) > 0

    p99 = max(slowest for _, slowest in outputs) * 1000
    ratio = max(counts) / min(counts)
    updates = f"{sum(counts):,} updates by {PROCESSES} processes in {WRITING} s"
    reached(6, f"{updates}, none lost, no BUSY; p99 {p99:.0f} ms, {ratio:.1f}x")


async def test_flipped_bits_are_seen_when_they_are_read(tmp_path: Path) -> None:
    """Figure 7: of the flips in the file that matter, at most 5 % give a wrong answer."""
    path, copy = tmp_path / "m.db", tmp_path / "copy.db"
    async with open_store(path) as store:
        for n in range(200):
            links = [(f"k{(n * 7 + m) % 200}", m / 10) for m in range(1, 4)]
            await put(
                store,
                f"k{n}",
                content=f"memory {n} " + "text " * 20,
                links=links,
                tags=[f"t{n % 5}"],
            )
        right = await read_everything(store)

    raw, chance = path.read_bytes(), random.Random(7)
    outcomes = {"same": 0, "seen": 0, "unseen": 0}
    for n in range(FLIPS):
        folder = tmp_path / f"flip{n}"
        folder.mkdir()
        copy, spoilt, position = folder / "m.db", bytearray(raw), chance.randrange(len(raw))
        spoilt[position] ^= 1 << chance.randrange(8)
        copy.write_bytes(spoilt)
        async with open_store(copy) as store:
            outcome = compare(right, await read_everything(store))
            outcomes[outcome] += 1
            if outcome == "unseen":
                findings = await store.check(lambda _: None, full=True)
                assert any(finding.state == "damaged" for finding in findings), (
                    "none is unseen by a check"
                )

        shutil.rmtree(folder)

    assert outcomes["seen"] > 0
    assert outcomes["unseen"] <= max(FLIPS * 0.05, 1), outcomes

    reached(7, f"{FLIPS:,} flips: {outcomes['unseen']} unseen when read, none after a check")


async def read_everything(store: SqliteStore, count: int = 200) -> dict[str, Any]:
    """Return all that direct reads say, by key; an exception in the place of what failed."""
    answers: dict[str, Any] = {}
    for n in range(count):
        try:
            memory = await store.read_linked(NAMESPACE, f"k{n}", 0, 20)
            answers[f"k{n}"] = (memory.row, memory.links)
        except Refused as error:
            answers[f"k{n}"] = error

    return answers


def compare(right: dict[str, Any], answers: dict[str, Any]) -> str:
    """Return whether all answers are the "same", or else whether the damage was "seen"."""
    refused = {key for key, answer in answers.items() if isinstance(answer, Refused)}
    answered = answers.keys() - refused

    if not all(is_sound(right[key], answers[key]) for key in answered):
        return "unseen"

    return "seen" if refused else "same"


def is_sound(right: Any, answer: Any) -> bool:
    """Whether it is the same memory; a link that was found damaged may be left out."""
    return right[0] == answer[0] and set(answer[1]) <= set(right[1])
