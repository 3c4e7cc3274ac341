"""Long work outlasts a store that does not answer for a while, and says how far it came."""

import asyncio
import fcntl
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from abilities.cli import store as commands
from abilities.declarations.refusals import Reason, Refused
from abilities.helpers.store import changes
from abilities.helpers.store.changes import Outcome
from abilities.helpers.store.model import IncomingMemory
from abilities.helpers.store.sqlite import file
from abilities.helpers.store.sqlite.store import SqliteStore
from abilities.helpers.transfer.exporting import ExportOptions, export
from tests.support.importing import import_file
from tests.support.places import FilePlace, find_reason
from tests.support.surfaces import run
from tests.transfer.test_imports import entity, write_lines

MEMORIES = 600


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "PAUSE_SECONDS", 0.001)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_entities(tmp_path / "memory.jsonl", "e")


def write_entities(path: Path, name: str) -> Path:
    path.write_bytes(write_lines(*(entity(f"{name}{n}", "x") for n in range(MEMORIES))))
    return path


class StallingStore(SqliteStore):
    """Refuses some calls, and of others some of the memories."""

    reason: Reason = "busy"
    times = 0

    def stall(self) -> None:
        self.times -= 1
        if self.times >= 0:
            raise Refused(self.reason)

    @override
    async def import_batch(
        self, memories: Sequence[IncomingMemory], *, replace: bool = False, dry_run: bool = False
    ) -> list[Outcome | Exception]:
        self.stall()
        answered = memories[: max(1, len(memories) // 2)]
        outcomes = await super().import_batch(answered, replace=replace, dry_run=dry_run)
        return outcomes + [Refused("busy")] * (len(memories) - len(answered))

    @override
    async def count_memories(self) -> int:
        self.stall()
        return await super().count_memories()


@pytest.mark.parametrize(
    ("reason", "times", "seconds", "outcome"),
    [
        ("busy", 50, 60, "done"),
        ("timeout", 50, 60, "done"),
        ("unavailable", 50, 60, "done"),
        ("busy", 1_000_000, 0.01, "busy"),
        ("storage_full", 1, 60, "storage_full"),
    ],
)
async def test_an_import_outlasts_a_store_that_does_not_answer_if_that_passes(
    reason: Reason,
    times: int,
    seconds: float,
    outcome: str,
    source: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(changes, "PATIENCE_SECONDS", seconds)
    store = StallingStore(source.with_name("m.db"))
    store.reason, store.times = reason, times

    importing = asyncio.create_task(import_file(store, source))

    assert await find_reason(importing) == outcome
    await store.close()
    if outcome == "done":
        assert importing.result() == {"added": MEMORIES}, "each memory is counted once"
    if outcome == "storage_full":
        assert store.times == 0, "it is not tried again"


async def test_an_import_waits_for_the_lock_of_another_process(
    file_place: FilePlace, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "BUSY_SECONDS", 0.01)
    waited = asyncio.Event()
    async with file_place.open() as store:
        await store.prepare()
        await import_file(store, source)
        monkeypatch.setattr(changes._log, "warning", lambda *_: waited.set())
        lock = os.open(f"{file_place.path}-lock", os.O_RDWR)
        fcntl.flock(lock, fcntl.LOCK_EX)

        importing = asyncio.create_task(import_file(store, write_entities(source, "f")))
        await waited.wait()
        os.close(lock)

        assert await importing == {"added": MEMORIES}


async def test_an_export_outlasts_a_read_that_was_late(
    file_place: FilePlace, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with file_place.open() as store:
        await import_file(store, source)
        read_page, late = store.read_page, iter([True, False, True])

        async def read_page_late(*arguments: Any) -> object:
            if next(late, False):
                raise Refused("timeout")
            return await read_page(*arguments)

        monkeypatch.setattr(store, "read_page", read_page_late)
        file = file_place.folder / "out.jsonl"
        result = await export(store, file, ExportOptions(), lambda _: None)

    assert result.memories == MEMORIES


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Refused("storage_full")])
@pytest.mark.parametrize(
    ("name", "command", "said"),
    [
        ("import_memories", ["import", "memory.jsonl"], "after this: 3 added."),
        ("export", ["export", "out.jsonl"], "--resume"),
        ("export", ["export"], "run the same command again"),
        ("backup", ["backup", "copy.db"], "copy.db was not written."),
    ],
)
def test_what_is_stopped_says_how_to_go_on(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    name: str,
    command: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("memory.jsonl").write_bytes(write_lines(entity("e", "x")))
    assert run(None, "import", "memory.jsonl").exit_code == 0

    def stop(*arguments: object) -> None:
        if isinstance(arguments[-1], Counter):
            arguments[-1]["added"] = 3
        raise error

    monkeypatch.setattr(commands, name, stop)
    result = run(None, *command)

    assert result.exit_code == 1
    assert said in " ".join(result.stderr.split())
