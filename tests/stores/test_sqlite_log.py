"""The write-ahead log of an SQLite store: what its removal costs, and how large it stays."""

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from abilities.helpers.store.model import Query
from abilities.helpers.store.sqlite import file
from tests.stores.behaviours import NAMESPACE, put
from tests.stores.test_stores import list_lost
from tests.support.forked import Forked
from tests.support.places import FilePlace, find_damage, find_reason
from tests.support.tier import size
from tests.support.waiting import wait_until

ROUNDS = size("ABILITIES_ROUNDS", quick=1, full=3)

# Stores a memory per line of input, and answers each line with "done" or the reason.
SERVANT = """
import asyncio, sys
from pathlib import Path
from abilities.declarations.refusals import Refused
from tests.stores.behaviours import NAMESPACE, put
from abilities.helpers.store.sqlite import file
from abilities.helpers.store.sqlite.store import SqliteStore
file.IN_USE_SECONDS = float(sys.argv[2])
async def attempt(work):
    try:
        await work
    except Refused as error:
        return error.reason
    return "done"
async def main():
    store = SqliteStore(Path(sys.argv[1]))
    for line in sys.stdin:
        name, key = line.split()
        work = put(store, key) if name == "put" else store.read(NAMESPACE, [key])
        print(await attempt(work), flush=True)
    await store.close()
asyncio.run(main())
"""


class Servant:
    """Another process that uses a store."""

    def __init__(self, path: Path, in_use_seconds: float) -> None:
        self.process = Forked(SERVANT, path, in_use_seconds)

    def ask(self, name: str, key: str) -> str:
        self.process.stdin.write(f"{name} {key}\n".encode())
        return self.process.stdout.readline().decode().strip()

    def end(self, how: str) -> None:
        if how == "kill":
            self.process.kill()
        self.process.communicate()


@contextmanager
def start_servants(
    place: FilePlace, count: int, in_use_seconds: float = 0.5
) -> Iterator[list[Servant]]:
    servants = [Servant(place.path, in_use_seconds) for _ in range(count)]
    try:
        yield servants
    finally:
        for servant in servants:
            servant.end("kill")


def find_log(place: FilePlace, suffix: str) -> Path:
    return Path(f"{place.path}{suffix}")


SUFFIXES = pytest.mark.parametrize("suffix", ["-wal", "-shm"])
ENDS = pytest.mark.parametrize("end", ["close", "kill"])


async def find_missing(place: FilePlace, keys: list[str]) -> list[str]:
    """Return the keys that a store does not hold, after it was checked as a whole."""
    async with place.open() as store:
        assert await find_damage(store) == []
        return await list_lost(store, keys)


@pytest.mark.parametrize("is_replaced", [False, True])
@SUFFIXES
async def test_s17_a_log_that_is_gone_while_open_is_noticed_before_the_next_acknowledgement(
    is_replaced: bool, suffix: str, file_place: FilePlace
) -> None:
    log_file, copy = find_log(file_place, suffix), file_place.folder / "copy"
    async with file_place.open() as store:
        await put(store, "k")
        await store.read(NAMESPACE, ["k"])
        shutil.copy(log_file, copy)
        log_file.unlink()
        if is_replaced:
            copy.rename(log_file)

        assert await find_reason(put(store, "lost")) == "storage_moved"
        assert await find_reason(store.read_linked(NAMESPACE, "k", 0, 1)) == "storage_moved"


async def test_s17_a_log_that_was_put_back_serves_again(file_place: FilePlace) -> None:
    wal = find_log(file_place, "-wal")
    async with file_place.open() as store:
        await put(store, "k")
        away = wal.rename(file_place.folder / "away")

        assert await find_reason(put(store, "lost")) == "storage_moved"

        away.rename(wal)

        assert await find_reason(put(store, "k2")) == "done"

    assert await find_missing(file_place, ["k", "k2"]) == []


async def test_s17_a_log_that_goes_during_the_commit_is_noticed_too(file_place: FilePlace) -> None:
    wal = find_log(file_place, "-wal")
    async with file_place.open() as store:
        await put(store, "k")
        assert store.engine.writer.connection is not None
        store.engine.writer.connection.set_trace_callback(
            lambda statement: wal.unlink(missing_ok=True) if statement == "COMMIT" else None
        )

        assert await find_reason(put(store, "lost")) == "storage_moved"


@ENDS
@SUFFIXES
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.sampled(3)
async def test_s17_nothing_acknowledged_is_lost_with_the_log_of_several_processes(
    count: int, suffix: str, end: str, file_place: FilePlace
) -> None:
    keys = [f"k{n}" for n in range(20)]
    with start_servants(file_place, count) as servants:
        for n, key in enumerate(keys):
            assert servants[n % count].ask("put", key) == "done"

        find_log(file_place, suffix).unlink()

        for servant in servants:
            assert servant.ask("put", "lost") == "storage_moved"
        for servant in servants:
            servant.end(end)

    assert await find_missing(file_place, keys) == []


@ENDS
@SUFFIXES
@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.sampled(2)
async def test_s17_a_second_process_after_the_removal_does_not_destroy_the_store(
    order: int, suffix: str, end: str, file_place: FilePlace
) -> None:
    keys = [f"k{n}" for n in range(20)]
    with start_servants(file_place, 2, in_use_seconds=0.05) as (early, late):
        for key in keys:
            assert early.ask("put", key) == "done"

        find_log(file_place, suffix).unlink()

        for n in range(3):
            assert late.ask("read", "k1") == "storage_moved"
            assert late.ask("put", f"late{n}") == "storage_moved"
            assert early.ask("put", f"early{n}") == "storage_moved"
        for servant in (early, late)[::order]:
            servant.end(end)

    assert await find_missing(file_place, keys) == []


@SUFFIXES
def test_s17_nothing_that_looks_at_the_store_begins_another_log(
    suffix: str, file_place: FilePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "IN_USE_SECONDS", 0.2)
    with start_servants(file_place, 1) as (servant,):
        assert servant.ask("put", "k") == "done"

        find_log(file_place, suffix).unlink()

        assert "The store was moved or deleted" in file_place.run("doctor").output
        for command in (["check"], ["backup", file_place.folder / "b.db"], ["export"]):
            assert file_place.run(*command).exit_code == 1, command

        assert not find_log(file_place, suffix).exists()
        assert servant.ask("put", "lost") == "storage_moved"


async def test_s17_an_idle_process_saves_what_a_removed_log_held(file_place: FilePlace) -> None:
    copy = file_place.beside("copy.db")

    def is_saved() -> bool:
        """Return whether the database alone, without its log, holds the memory."""
        shutil.copy(file_place.path, copy.path)
        with suppress(sqlite3.DatabaseError):  # it was just being written
            return copy.fetch("SELECT count(*) FROM memories") == [(1,)]
        return False

    with start_servants(file_place, 1) as (servant,):
        assert servant.ask("put", "k") == "done"

        find_log(file_place, "-wal").unlink()
        await wait_until(is_saved)


async def test_a_store_without_a_log_that_nobody_has_open_is_opened(file_place: FilePlace) -> None:
    for round_ in range(3):
        async with file_place.open() as store:
            await store.check(lambda _: None, full=True)
            assert await find_reason(put(store, f"k{round_}")) == "done"
            await store.query(NAMESPACE, Query())

        assert not find_log(file_place, "-wal").exists()


async def test_processes_that_open_a_store_at_once_do_not_refuse_each_other(
    file_place: FilePlace,
) -> None:
    for round_ in range(ROUNDS):
        with start_servants(file_place, 4) as servants:
            answers = await asyncio.gather(
                *(asyncio.to_thread(servant.ask, "put", f"k{round_}") for servant in servants)
            )
            assert answers == ["done"] * 4
            for servant in servants:
                servant.end("close")


async def test_a_log_that_grew_behind_a_long_read_shrinks_once_the_store_rests(
    file_place: FilePlace,
) -> None:
    wal = find_log(file_place, "-wal")
    async with file_place.open() as store:
        await put(store, "k")
        with file_place.connect() as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM memories").fetchone()
            for n in range(1_000):
                await put(store, f"k{n % 100}", content=os.urandom(40_000).hex())
                if wal.stat().st_size > 2 * file.KEPT_BYTES:
                    break

            assert wal.stat().st_size > 2 * file.KEPT_BYTES

        await wait_until(lambda: wal.stat().st_size <= file.KEPT_BYTES)

        assert await find_reason(put(store, "after")) == "done"

    assert await find_missing(file_place, ["k", "k0", "after"]) == []
