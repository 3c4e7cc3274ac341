"""The write-ahead log of an SQLite store: what its removal costs, and how large it stays."""

import asyncio
import os
import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from abilities.cli.main import main
from abilities.helpers.store.model import StoredMemory
from abilities.helpers.store.query import Query
from abilities.helpers.store.sqlite import log
from tests.stores.behaviours import NAMESPACE, put
from tests.stores.test_stores import find_reason, open_store
from tests.support.forked import Forked
from tests.support.tier import size
from tests.support.waiting import wait_until

ROUNDS = size("ABILITIES_ROUNDS", quick=1, full=3)

# Stores a memory per line of input, and answers each line with "done" or the reason.
SERVANT = """
import asyncio, sys
from pathlib import Path
from abilities.declarations.refusals import Refused
from tests.stores.behaviours import NAMESPACE, put
from abilities.helpers.store.sqlite import log
from abilities.helpers.store.sqlite.store import SqliteStore
log.IN_USE_SECONDS = 0.5
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

    def __init__(self, path: Path) -> None:
        self.process = Forked(SERVANT, path)

    def ask(self, name: str, key: str) -> str:
        self.process.stdin.write(f"{name} {key}\n".encode())
        return self.process.stdout.readline().decode().strip()

    def end(self, how: str) -> None:
        if how == "kill":
            self.process.send_signal(signal.SIGKILL)
        self.process.communicate()


@contextmanager
def start_servant(path: Path) -> Iterator[Servant]:
    servant = Servant(path)
    try:
        yield servant
    finally:
        servant.end("kill")


def find_log(path: Path, suffix: str) -> Path:
    return path.with_name(f"{path.name}{suffix}")


def remove(path: Path) -> None:
    path.unlink()


def replace(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").replace(path)


HOWS = pytest.mark.parametrize("how", [remove, replace])
SUFFIXES = pytest.mark.parametrize("suffix", ["-wal", "-shm"])
ENDS = pytest.mark.parametrize("end", ["close", "kill"])


async def find_missing(path: Path, keys: list[str]) -> list[str]:
    """Return the keys that a store does not hold, after it was checked as a whole."""
    async with open_store(path) as store:
        memories = await store.read(NAMESPACE, keys)
        findings = await store.check(lambda _: None, full=True)

    assert [finding for finding in findings if finding.state == "damaged"] == []
    return [
        key
        for key, memory in zip(keys, memories, strict=True)
        if not isinstance(memory, StoredMemory)
    ]


@HOWS
@SUFFIXES
async def test_s17_a_log_that_is_gone_while_open_is_noticed_before_the_next_acknowledgement(
    how: Callable[[Path], None], suffix: str, tmp_path: Path
) -> None:
    path = tmp_path / "m.db"
    async with open_store(path) as store:
        await put(store, "k")
        await store.read(NAMESPACE, ["k"])
        how(find_log(path, suffix))

        assert await find_reason(put(store, "lost")) == "storage_moved"
        assert await find_reason(store.read_linked(NAMESPACE, "k", 0, 1)) == "storage_moved"


async def test_s17_a_log_that_was_put_back_serves_again(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    async with open_store(path) as store:
        await put(store, "k")
        away = find_log(path, "-wal").rename(tmp_path / "away")

        assert await find_reason(put(store, "lost")) == "storage_moved"

        away.rename(find_log(path, "-wal"))

        assert await find_reason(put(store, "k2")) == "done"

    assert await find_missing(path, ["k", "k2"]) == []


async def test_s17_a_log_that_goes_during_the_commit_is_noticed_too(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    async with open_store(path) as store:
        await put(store, "k")
        assert store.engine.writer.connection is not None
        wal = find_log(path, "-wal")
        store.engine.writer.connection.set_trace_callback(
            lambda statement: wal.unlink(missing_ok=True) if statement == "COMMIT" else None
        )

        assert await find_reason(put(store, "lost")) == "storage_moved"


@ENDS
@SUFFIXES
@pytest.mark.sampled(2)
async def test_s17_nothing_acknowledged_is_lost_with_the_log(
    suffix: str, end: str, tmp_path: Path
) -> None:
    path = tmp_path / "m.db"
    with start_servant(path) as servant:
        keys = [f"k{n}" for n in range(20)]
        for key in keys:
            assert servant.ask("put", key) == "done"

        find_log(path, suffix).unlink()

        assert servant.ask("put", "lost") == "storage_moved"

        servant.end(end)

    assert await find_missing(path, keys) == []


@ENDS
@SUFFIXES
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.sampled(2)
async def test_s17_a_second_process_after_the_removal_does_not_destroy_the_store(
    first: int, suffix: str, end: str, tmp_path: Path
) -> None:
    path = tmp_path / "m.db"
    with start_servant(path) as early, start_servant(path) as late:
        keys = [f"k{n}" for n in range(20)]
        for key in keys:
            assert early.ask("put", key) == "done"

        find_log(path, suffix).unlink()

        for n in range(3):
            assert late.ask("read", "k1") == "storage_moved"
            assert late.ask("put", f"late{n}") == "storage_moved"
            assert early.ask("put", f"early{n}") == "storage_moved"

        servants = [early, late]
        servants.pop(first).end(end)
        servants.pop().end(end)

    assert await find_missing(path, keys) == []


@SUFFIXES
def test_s17_nothing_that_looks_at_the_store_begins_another_log(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "IN_USE_SECONDS", 0.2)
    path = tmp_path / "m.db"
    for folder in ("agent", "workspace"):
        (tmp_path / folder).mkdir()
        monkeypatch.setenv(f"ABILITIES_{folder.upper()}_DIR", str(tmp_path / folder))
    monkeypatch.setenv("ABILITIES_STORE_URL", f"sqlite:///{path}")

    with start_servant(path) as servant:
        assert servant.ask("put", "k") == "done"

        find_log(path, suffix).unlink()

        doctor = CliRunner().invoke(main, ["doctor"])
        assert "The store was moved or deleted" in doctor.output
        for command in (["check"], ["backup", str(tmp_path / "b.db")], ["export"]):
            assert CliRunner().invoke(main, command).exit_code == 1, command

        assert not find_log(path, suffix).exists()
        assert servant.ask("put", "lost") == "storage_moved"


@SUFFIXES
async def test_s17_processes_that_share_a_log_notice_its_removal_both(
    suffix: str, tmp_path: Path
) -> None:
    path = tmp_path / "m.db"
    with ExitStack() as stack:
        servants = [stack.enter_context(start_servant(path)) for _ in range(2)]
        keys = [f"k{n}" for n in range(20)]
        for n, key in enumerate(keys):
            assert servants[n % 2].ask("put", key) == "done"

        find_log(path, suffix).unlink()

        assert [servant.ask("put", "lost") for servant in servants] == ["storage_moved"] * 2

        for servant in servants:
            servant.end("kill")

    assert await find_missing(path, keys) == []


async def test_s17_an_idle_process_saves_what_a_removed_log_held(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    with start_servant(path) as servant:
        assert servant.ask("put", "k") == "done"

        find_log(path, "-wal").unlink()
        await wait_until(lambda: count_rows(path, tmp_path / "copy.db") == 1)


def count_rows(path: Path, copy: Path) -> int:
    """Count the memories in the database alone, without its log."""
    shutil.copy(path, copy)
    with closing(sqlite3.connect(copy)) as connection, suppress(sqlite3.DatabaseError):
        (number,) = connection.execute("SELECT count(*) FROM memories").fetchone()
        return int(number)

    return 0  # it was just being written


async def test_a_store_without_a_log_that_nobody_has_open_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    for round_ in range(3):
        async with open_store(path) as store:
            await store.check(lambda _: None, full=True)
            assert await find_reason(put(store, f"k{round_}")) == "done"
            await store.query(NAMESPACE, Query())

        assert not find_log(path, "-wal").exists()


async def test_processes_that_open_a_store_at_once_do_not_refuse_each_other(
    tmp_path: Path,
) -> None:
    path = tmp_path / "m.db"
    for round_ in range(ROUNDS):
        with ExitStack() as stack:
            servants = [stack.enter_context(start_servant(path)) for _ in range(4)]
            answers = await asyncio.gather(
                *(asyncio.to_thread(s.ask, "put", f"k{round_}") for s in servants)
            )
            assert answers == ["done"] * 4
            for servant in servants:
                servant.end("close")


async def test_a_log_that_grew_behind_a_long_read_shrinks_once_the_store_rests(
    tmp_path: Path,
) -> None:
    path = tmp_path / "m.db"
    wal = find_log(path, "-wal")
    async with open_store(path) as store:
        await put(store, "k")
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM memories").fetchone()
            for n in range(1_000):
                await put(store, f"k{n % 100}", content=random_text())
                if wal.stat().st_size > 2 * log.KEPT_BYTES:
                    break

            assert wal.stat().st_size > 2 * log.KEPT_BYTES

        await wait_until(lambda: wal.stat().st_size <= log.KEPT_BYTES)

        assert await find_reason(put(store, "after")) == "done"

    assert await find_missing(path, ["k", "k0", "after"]) == []


def random_text() -> str:
    return os.urandom(40_000).hex()
