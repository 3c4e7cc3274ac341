"""The history of SQLite stores: under several processes and kills, damaged, trimmed, and purged."""

import asyncio
import os
import random
import signal
import sqlite3
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest

from abilities.declarations.faults import Refused
from abilities.helpers.stores.changes import Change
from abilities.helpers.stores.model import Row, StoredMemory, hash_row
from abilities.helpers.stores.protocol import WriteResult
from abilities.helpers.stores.sqlite import expiry
from abilities.helpers.stores.sqlite.repair import repair
from abilities.helpers.stores.sqlite.store import SqliteStore
from abilities.helpers.stores.timeline import HistoryLimits, MemoryName
from tests.stores.behaviours.steps import NAMESPACE, put
from tests.stores.test_stores import find_reason, open_store
from tests.support.forked import Forked
from tests.support.permissions import let_others_enter
from tests.support.tier import size
from tests.support.waiting import GIVE_UP_SECONDS

PROCESSES = size("ABILITIES_HISTORY_PROCESSES", quick=3, full=8)
CONDITIONAL = size("ABILITIES_CONDITIONAL", quick=150, full=10_000)
"""Conditional updates by all processes together."""
KILLS = size("ABILITIES_HISTORY_KILLS", quick=3, full=30)
NEIGHBORS = size("ABILITIES_PURGE_NEIGHBORS", quick=60, full=2_000)
"""Memories beside the one that is purged."""

DAY = "2026-01-{:02}T00:00:00.000Z"
PAST = "2020-01-01T00:00:00.000Z"
FUTURE = "9999-01-01T00:00:00.000Z"

# Counts up a number in one memory; says after how many conflicts each update was made.
COUNTER = """
import asyncio, sys
from pathlib import Path
from abilities.declarations.faults import Refused
from abilities.helpers.stores.changes import Change
from abilities.helpers.stores.sqlite.store import SqliteStore
async def main():
    store, namespace, number = SqliteStore(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3])
    for _ in range(number):
        conflicts = 0
        while True:
            (memory,) = await store.read(namespace, ["shared"])
            content = str(int(memory.row.content) + 1)
            change = Change("update", sys.argv[4], key="shared", fields={"content": content},
                if_version=memory.row.version)
            try:
                await store.change(namespace, change)
                break
            except Refused as refused:
                assert refused.reason == "version_conflict", refused
                conflicts += 1
        print(conflicts, flush=True)
    await store.close()
asyncio.run(main())
"""

# Stores batches of memories; says the number of each one that was acknowledged.
BATCHES = """
import asyncio, sys
from pathlib import Path
from abilities.helpers.stores.changes import Change
from abilities.helpers.stores.sqlite.store import SqliteStore
async def main():
    store, namespace, size = SqliteStore(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3])
    number = int(sys.argv[4])
    while True:
        changes = []
        for n in range(size):
            name = f"{number}-{n}"
            changes.append(Change("store", sys.argv[5], key=name, new_id=f"id-{name}",
                fields={"type": "core", "content": "x" * (n * 100 + 1)}))
        outcomes = await store.change_many(namespace, changes, atomic=True)
        assert not any(isinstance(outcome, Exception) for outcome in outcomes), outcomes
        print(number, flush=True)
        number += 1
asyncio.run(main())
"""
BATCH = 20

# Stores, renames and deletes memories, until its time is over.
WRITER = """
import asyncio, sys
from pathlib import Path
from abilities.helpers.stores.changes import Change
from abilities.helpers.stores.sqlite.store import SqliteStore
async def main():
    store, namespace, name = SqliteStore(Path(sys.argv[1])), *sys.argv[2:4]
    for n in range(int(sys.argv[4])):
        key = f"{name}-{n % 7}"
        fields = {"type": "core", "content": str(n)}
        await store.change(namespace, Change("store", sys.argv[5], key=key,
            new_id=f"{name}-{n}", fields=fields))
        if n % 5 == 0:
            await store.change(namespace, Change("delete", sys.argv[5], key=key))
    await store.close()
asyncio.run(main())
"""


def run_all(processes: Iterable[Forked]) -> list[bytes]:
    """Wait for processes; return what they said."""
    outputs: list[bytes] = []
    for process in processes:
        output, _ = process.communicate(timeout=GIVE_UP_SECONDS * 10)
        assert process.returncode == 0
        outputs.append(output)

    return outputs


def change_store(path: Path, *statements: str) -> None:
    """Change the database behind the store's back; each statement changes one row or more."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            assert connection.execute(statement).rowcount > 0, statement


async def find_damage(store: SqliteStore) -> list[str]:
    findings = await store.check(lambda _: None, full=True)
    return [finding.name for finding in findings if finding.state == "damaged"]


async def read_content(store: SqliteStore, key: str, moment: int | str) -> str:
    memory = await store.read_version(NAMESPACE, MemoryName(key=key), moment)
    return memory.row.content


async def list_versions(store: SqliteStore, key: str) -> list[int]:
    history = await store.read_history(NAMESPACE, MemoryName(key=key), None, 10_000)
    return [entry.version for entry in history.entries]


async def test_no_conditional_update_of_several_processes_is_lost(tmp_path: Path) -> None:
    path, each = tmp_path / "m.db", CONDITIONAL // PROCESSES
    async with open_store(path) as store:
        await put(store, "shared", content="0")

    outputs = run_all(
        [Forked(COUNTER, path, NAMESPACE, each, DAY.format(2)) for _ in range(PROCESSES)]
    )

    conflicts = sum(int(line) for output in outputs for line in output.split())
    assert conflicts > 0, "the processes met each other"
    async with open_store(path) as store:
        (memory,) = await store.read(NAMESPACE, ["shared"])
        assert isinstance(memory, StoredMemory)
        assert memory.row.content == str(each * PROCESSES)
        assert memory.row.version == each * PROCESSES + 1, "a refused update takes no version"

        # Each version has the content that its update wrote: none was written over.
        for version in random.Random(1).sample(range(1, memory.row.version + 1), 50):
            assert await read_content(store, "shared", version) == str(version - 1)


async def test_a_batch_that_is_killed_is_there_or_not_at_all(tmp_path: Path) -> None:
    path, chance, acknowledged = tmp_path / "m.db", random.Random(3), set[int]()
    async with open_store(path) as store:
        await put(store, "first")

    for round_ in range(KILLS):
        process = Forked(BATCHES, path, NAMESPACE, BATCH, round_ * 1_000_000, DAY.format(2))
        acknowledged.add(int(process.stdout.readline()))
        time.sleep(chance.random() * 0.1)  # so that each round is killed at another moment
        process.send_signal(signal.SIGKILL)
        output, _ = process.communicate()
        acknowledged |= {int(line) for line in output.split(b"\n")[:-1]}

    async with open_store(path) as store:
        lines = await store.list_memories(NAMESPACE, "", "", 1_000_000, archived=False)
        found: dict[int, int] = {}
        for line in lines:
            if line.key != "first":
                number = int(line.key.partition("-")[0])
                found[number] = found.get(number, 0) + 1

        assert set(found.values()) == {BATCH}, "all or nothing"
        assert acknowledged <= found.keys()
        assert await find_damage(store) == []
        page = await store.read_changes(NAMESPACE, 0, 1_000_000)
        assert len(page.changes) == len(lines), "each has its entry"


async def test_a_refused_change_of_a_batch_leaves_nothing_behind(tmp_path: Path) -> None:
    async with open_store(tmp_path / "m.db") as store:
        await put(store, "a", content="before")
        changes = [
            Change("update", DAY.format(2), key="a", fields={"content": "after"}),
            Change("update", DAY.format(2), key="a", fields={"content": "x"}, if_version=99),
            Change("delete", DAY.format(2), key="missing"),
        ]

        together = await store.change_many(NAMESPACE, changes, atomic=True)
        assert [find_refusal(outcome) for outcome in together] == [
            "rolled_back",
            "version_conflict",
            "rolled_back",
        ]
        assert await list_versions(store, "a") == [1]

        apart = await store.change_many(NAMESPACE, changes, atomic=False)
        refusals = [find_refusal(outcome) for outcome in apart]
        assert refusals == ["", "version_conflict", "memory_not_found"]
        assert await list_versions(store, "a") == [2, 1], "what is refused takes no version"
        assert await find_damage(store) == []


def find_refusal(outcome: WriteResult | Exception) -> str:
    return outcome.reason if isinstance(outcome, Refused) else ""


async def test_a_damaged_entry_hides_what_was_before_it_and_no_more(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    async with open_store(path) as store:
        for number in range(1, 7):
            await put(store, "a", content=str(number))
        await put(store, "b")

    change_store(path, "UPDATE history SET before = '{\"row\":{}}' WHERE version = 4")

    async with open_store(path) as store:
        history = await store.read_history(NAMESPACE, MemoryName(key="a"), None, 10)
        assert [entry.version for entry in history.entries] == [6, 5]
        assert (history.has_more, history.earliest) == (False, 4)
        assert await read_content(store, "a", 4) == "4"
        reading = store.read_version(NAMESPACE, MemoryName(key="a"), 3)
        assert await find_reason(reading) == "checksum_mismatch"
        restoring = store.change(NAMESPACE, Change("restore", PAST, key="a", to_version=2))
        assert await find_reason(restoring) == "checksum_mismatch"

        assert await find_damage(store) == ["history"]
        assert await find_reason(store.read_changes(NAMESPACE, 0, 10)) == "done"
        await put(store, "a", content="7")
        assert await read_content(store, "a", 6) == "6", "the history goes on"


@pytest.mark.parametrize(
    ("statement", "kept"),
    [
        ("UPDATE history SET caller = 'x' WHERE version = 3", [6, 5, 4]),
        ("UPDATE history SET before = CAST(x'ff' AS TEXT) WHERE version = 2", [6, 5, 4, 3]),
        ("UPDATE history SET action = 'deleted' WHERE version = 6", []),
        ("DELETE FROM history WHERE version = 4", [6, 5]),
        ("DELETE FROM history WHERE version = 6", []),
        ("UPDATE history SET id = 'other' WHERE version = 5", [6]),
    ],
)
async def test_a_repair_keeps_the_entries_that_lead_to_the_present(
    statement: str, kept: Sequence[int], tmp_path: Path
) -> None:
    path = tmp_path / "m.db"
    async with open_store(path) as store:
        for number in range(1, 7):
            await put(store, "a", content=str(number))
        await put(store, "deleted")
        await put(store, "deleted", kind="delete")
    change_store(path, statement)

    report = repair(path, tmp_path / "originals.jsonl", lambda _: None, dry_run=False)

    assert "history" in [finding.name for finding in report.damage]
    removed = (tmp_path / "originals.jsonl").read_text(encoding="utf-8").splitlines()
    async with open_store(path) as store:
        assert await find_damage(store) == []
        assert await list_versions(store, "a") == kept
        if kept:
            assert await read_content(store, "a", min(kept) - 1) == str(min(kept) - 1)
        assert await list_versions(store, "deleted") == [8, 7], "other histories are whole"
        assert len(removed) == 6 - len(kept) - statement.startswith("DELETE")
        assert not (await store.read_changes(NAMESPACE, 0, 99)).is_complete
        await put(store, "a", content="x")


async def test_a_repair_of_a_memory_is_told_by_its_history(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    async with open_store(path) as store:
        await put(store, "a", content="one")
        await put(store, "a", content="two")
        await put(store, "b")
        await put(store, "b", kind="purge")
    change_store(path, "UPDATE memories SET content = 'damaged' WHERE key = 'a'")

    repair(path, tmp_path / "originals.jsonl", lambda _: None, dry_run=False)

    async with open_store(path) as store:
        history = await store.read_history(NAMESPACE, MemoryName(key="a"), None, 10)
        assert [entry.action for entry in history.entries] == ["mended", "changed", "created"]
        assert history.earliest == history.entries[0].version
        reading = store.read_version(NAMESPACE, MemoryName(key="a"), 2)
        assert await find_reason(reading) == "version_not_found", "what was damaged is unknown"
        assert await find_damage(store) == []
        changes = (await store.read_changes(NAMESPACE, 0, 9)).changes
        assert "purged" in [change.action for change in changes]


async def test_a_change_to_a_damaged_memory_is_told_by_its_history(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    async with open_store(path) as store:
        await put(store, "a", content="one")
    change_store(path, "UPDATE memories SET content = 'damaged' WHERE key = 'a'")

    async with open_store(path) as store:
        await put(store, "a", content="two")
        history = await store.read_history(NAMESPACE, MemoryName(key="a"), None, 10)
        assert [entry.action for entry in history.entries] == ["changed", "mended", "created"]
        assert await read_content(store, "a", 2) == "damaged", "what was readable is kept"
        assert await find_damage(store) == []


async def test_nothing_of_a_purged_memory_is_left_in_any_file(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    words = ["Zyqwertine", "Xylokarpose", "Vqpmelung"]
    # Three characters that nobody else has are a term of the search index, as they are.
    long_text = "\u02ac\u02ad\u02ae \U0001d7ce\U0001d7cf " + " ".join(
        f"{words[0]}{n}" for n in range(300)
    )
    texts = [*words, words[2].casefold(), "tagqjx", "keyqjx", "catqjx", "metaqjx", "termqjx"]
    # A pair of characters is a hexadecimal word with an x, which no id of a neighbor holds.
    texts += ["\u02ac\u02ad\u02ae", "x1d7cf", "\u0250\u0251\u0252", "xe0151"]
    store = SqliteStore(path)
    try:
        for number in range(NEIGHBORS):
            content = f"{number} " + "common words of neighbors " * (number % 40)
            await put(store, f"n{number}", content=content, tags=["t"])
            if number == NEIGHBORS // 2:
                await store_secrets(store, words, long_text)
        await put(
            store, "keyqjx", content=f"{words[2]} at last \u0250\u0251\u0252 \U000e0150\U000e0151"
        )
        assert [text for text in texts if not find_files_with(tmp_path, text)] == []
        texts.append(words[0].casefold())  # SQLite may have written over this one before

        await put(store, "keyqjx", kind="purge")

        await expect_gone(store, tmp_path, texts)
        assert await find_damage(store) == []
    finally:
        await store.close()

    assert [text for text in texts if find_files_with(tmp_path, text)] == []


async def store_secrets(store: SqliteStore, words: Sequence[str], long_text: str) -> None:
    """Let a memory have had texts in all fields, in its row, in its history or in both."""
    now = DAY.format(2)
    link = {"key": "n1", "link_weight": 0.5, "type": "association", "term": "termqjx"}
    fields = {"content": long_text, "metadata": {"metaqjx": 1}, "category": "catqjx"}
    await put(store, "first", summary=words[1], tags=["tagqjx"])
    for change in (
        Change("update", now, key="first", new_key="keyqjx", fields=fields, links=[link]),
        Change("update", now, key="keyqjx", fields={"content": "short"}),
        Change("delete", now, key="keyqjx"),
        Change("restore", now, key="keyqjx", to_version=(await last_version(store)) + 1),
        Change("append", now, key="keyqjx", fields={"content": words[2]}),
        Change("update", now, key="keyqjx", fields={"tags": ["t"], "summary": ""}),
        Change("update", now, key="keyqjx", remove_links=[{"key": "n1", "type": None}]),
    ):
        await store.change(NAMESPACE, change)


async def last_version(store: SqliteStore) -> int:
    return (await store.read_changes(NAMESPACE, 0, 1_000_000)).next


def find_files_with(folder: Path, text: str) -> list[str]:
    """Return the files in a folder that hold a text."""
    return [path.name for path in folder.iterdir() if text.encode() in path.read_bytes()]


async def expect_gone(store: SqliteStore, folder: Path, texts: Sequence[str]) -> None:
    assert [text for text in texts if find_files_with(folder, text)] == []
    with closing(sqlite3.connect(folder / "m.db")) as connection:
        for table in ("history", "recall_recent", "shelf", "tags"):
            rows = str(connection.execute(f"SELECT * FROM {table}").fetchall())
            assert not any(text in rows for text in texts)

    assert await find_reason(store.read_linked(NAMESPACE, "keyqjx", 0, 1)) == "memory_not_found"


async def test_a_purge_is_finished_even_if_its_caller_gives_up(tmp_path: Path) -> None:
    async with open_store(tmp_path / "m.db") as store:
        await put(store, "a", content="Zyqwertine")
        await put(store, "b")
        purge = asyncio.create_task(put(store, "a", kind="purge"))
        await asyncio.sleep(0)
        purge.cancel()
        with pytest.raises(asyncio.CancelledError):
            await purge

    assert find_files_with(tmp_path, "Zyqwertine") == []


async def test_what_is_too_old_is_forgotten_along_with_the_writes(tmp_path: Path) -> None:
    """Without being told to, in every 256th version."""
    store = SqliteStore(tmp_path / "m.db", history=HistoryLimits(days=3))
    try:
        for day in range(1, 11):
            await put(store, "a", now=DAY.format(day), content=str(day))
        for number in range(245):
            await put(store, f"n{number}", now=DAY.format(10))
        assert len(await list_versions(store, "a")) == 10

        await put(store, "last", now=DAY.format(10))

        assert await list_versions(store, "a") == [10, 9, 8, 7], "three days before the tenth"
        assert await read_content(store, "a", 6) == "6"
        page = await store.read_changes(NAMESPACE, 5, 10_000)
        assert not page.is_complete
        assert (await store.read_changes(NAMESPACE, 6, 10_000)).is_complete
        assert await find_damage(store) == []
    finally:
        await store.close()


def read_size(path: Path) -> int:
    """Return the bytes that the history of the only namespace has by its own count."""
    with closing(sqlite3.connect(path)) as connection:
        ((size,),) = connection.execute("SELECT history_bytes FROM versions").fetchall()
        return int(size)


async def test_the_history_stays_as_small_as_allowed(tmp_path: Path) -> None:
    path, most = tmp_path / "m.db", 100_000
    store = SqliteStore(path, history=HistoryLimits(max_bytes=most))
    try:
        for number in range(300):
            await put(store, "a", content=f"{number} " + "x" * 2_000)
        # Trimmed at the 256th version; 44 changes followed.
        assert read_size(path) < most + 50 * 2_500

        await store.compact(DAY.format(2))

        assert most - 5_000 < read_size(path) <= most
        versions = await list_versions(store, "a")
        assert versions == [*range(300, 300 - len(versions), -1)], "the oldest ones went"
        history = await store.read_history(NAMESPACE, MemoryName(key="a"), None, 1)
        assert (await read_content(store, "a", history.earliest)).startswith(
            str(history.earliest - 1)
        )
        assert await find_damage(store) == []
    finally:
        await store.close()


async def test_a_store_that_keeps_no_history_gives_versions_all_the_same(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "m.db", history=HistoryLimits(days=0))
    try:
        await put(store, "a")
        written = await put(store, "a", content="x")
        assert written.version == 2
        assert await list_versions(store, "a") == []
        assert not (await store.read_changes(NAMESPACE, 0, 10)).is_complete
        page = await store.read_changes(NAMESPACE, 1, 10)
        assert (page.next, (await store.read_changes(NAMESPACE, page.next, 9)).is_complete) == (
            2,
            True,
        )
        await put(store, "a", kind="delete")
        deleted = store.read_history(NAMESPACE, MemoryName(key="a"), None, 1)
        assert await find_reason(deleted) == "memory_not_found"
        assert await find_damage(store) == []
    finally:
        await store.close()


async def test_who_follows_the_changes_misses_none_of_several_writers(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    async with open_store(path) as store:
        await put(store, "first")
        writers = [
            Forked(WRITER, path, NAMESPACE, f"w{n}", 60, DAY.format(2)) for n in range(PROCESSES)
        ]
        since, copy = 0, dict[str, str]()

        is_writing = True
        while is_writing:
            is_writing = any(writer.poll() is None for writer in writers)
            has_more = True
            while has_more:
                page = await store.read_changes(NAMESPACE, since, 5)
                assert page.is_complete
                for change in page.changes:
                    assert change.version > since
                    copy[change.id] = change.key
                    if change.action == "deleted":
                        del copy[change.id]
                since, has_more = page.next, page.has_more

        run_all(writers)
        lines = await store.list_memories(NAMESPACE, "", "", 1_000, archived=True)
        assert sorted(copy.values()) == [line.key for line in lines]


async def test_many_memories_expire_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged one among them stays as it is, and holds up none."""
    monkeypatch.setattr(expiry, "EXPIRED_AT_ONCE", 4)
    path = tmp_path / "m.db"
    async with open_store(path) as store:
        await put(store, "stays")
        changes: list[Change] = []
        for number in range(23):
            fields = {"type": "core", "content": "x", "expires_at": FUTURE}
            change = Change("store", PAST, key=f"k{number}", new_id=str(uuid4()), fields=fields)
            changes.append(change)
        await store.change_many(NAMESPACE, changes, atomic=True)
    expire_all(path)

    async with open_store(path) as store:
        stats = await store.read_stats(NAMESPACE)
        assert (stats.total, stats.archived) == (2, 22)
        page = await store.read_changes(NAMESPACE, 24, 99)
        assert {(change.action, change.caller) for change in page.changes} == {
            ("expired", "expiry")
        }
        assert await find_reason(store.read_linked(NAMESPACE, "k3", 0, 1)) == "checksum_mismatch"


def expire_all(path: Path) -> None:
    """Let the time of all memories that expire be over, and damage one of them."""
    columns = ", ".join(Row._fields)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        rows = connection.execute(f"SELECT {columns} FROM memories WHERE expires_at <> ''")
        for row in map(Row._make, rows.fetchall()):
            expired = row._replace(expires_at=PAST)
            connection.execute(
                "UPDATE memories SET expires_at = ?, hash = ? WHERE id = ?",
                (PAST, hash_row(expired), row.id),
            )
        connection.execute("UPDATE memories SET content = 'other' WHERE key = 'k3'")


async def test_a_store_that_cannot_be_written_is_read_though_memories_expired(
    tmp_path: Path, unprivileged: None
) -> None:
    user, path = os.geteuid(), tmp_path / "m.db"
    if os.getuid() == 0:
        os.seteuid(0)
    let_others_enter(tmp_path)
    tmp_path.chmod(0o777)
    async with open_store(path) as store:
        await put(store, "a", expires_at=FUTURE, now=PAST)
        await put(store, "k3", expires_at=FUTURE, now=PAST)
    expire_all(path)
    path.chmod(0o444)
    Path(f"{path}-lock").chmod(0o444)
    os.seteuid(user)

    async with open_store(path) as store:
        memory = await store.read_linked(NAMESPACE, "a", 0, 1)
        assert memory.row.expires_at == PAST


async def test_what_a_batch_did_to_the_search_index_is_right_whatever_was_refused(
    tmp_path: Path,
) -> None:
    """Texts of a batch are indexed together, unless a change in it depends on them."""
    now, chance = DAY.format(2), random.Random(5)
    async with open_store(tmp_path / "m.db") as store:
        for round_ in range(size("ABILITIES_BATCHES", quick=25, full=250)):
            changes: list[Change] = []
            for number in range(8):
                key = f"k{chance.randrange(6)}"
                fields = {"type": "core", "content": f"content {round_} {number}"}
                condition = chance.choice([None, None, 1])
                change = chance.choice(
                    [
                        Change("store", now, key=key, new_id=str(uuid4()), fields=fields),
                        Change("update", now, key=key, fields=fields, if_version=condition),
                        Change("delete", now, key=key, if_version=condition),
                        Change("update", now, key=key, new_key=f"k{chance.randrange(6)}"),
                    ]
                )
                changes.append(change)

            await store.change_many(NAMESPACE, changes, atomic=chance.random() < 0.3)
            assert await find_damage(store) == []
