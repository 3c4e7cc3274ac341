"""Long work outlasts a store that does not answer for a while, and says how far it came."""

import asyncio
import fcntl
import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner
from typing_extensions import override

from abilities.cli import backups
from abilities.cli import store as commands
from abilities.cli.main import main
from abilities.declarations.refusals import Reason, Refused
from abilities.helpers.store.changes import Outcome
from abilities.helpers.store.model import IncomingMemory
from abilities.helpers.store.sqlite import file
from abilities.helpers.store.sqlite.store import SqliteStore
from abilities.helpers.transfer import patience
from abilities.helpers.transfer.exporting import ExportOptions, export
from abilities.helpers.transfer.importing import ImportOptions, import_memories, open_source

MEMORIES = 1_200


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "PAUSE_SECONDS", 0.001)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    lines: list[str] = []
    for number in range(MEMORIES):
        entity = {"type": "entity", "name": f"e{number}", "entityType": "t", "observations": ["x"]}
        lines.append(json.dumps(entity))

    path = tmp_path / "memory.jsonl"
    path.write_text("\n".join(lines))
    return path


class StallingStore(SqliteStore):
    """Refuses some calls, and of others some of the memories."""

    def __init__(self, path: Path, reason: Reason, times: int) -> None:
        super().__init__(path)
        self.reason: Reason = reason
        self.times = times

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


async def import_file(store: SqliteStore, path: Path) -> Counter[str]:
    counts: Counter[str] = Counter()
    async with open_source(path, "default", all_into_it=True) as opened:
        await import_memories(
            store, opened, ImportOptions(), lambda _: None, lambda _: None, counts
        )

    return counts


@pytest.mark.parametrize("reason", ["busy", "timeout", "unavailable"])
async def test_an_import_outlasts_a_store_that_does_not_answer(
    tmp_path: Path, source: Path, reason: Reason
) -> None:
    store = StallingStore(tmp_path / "m.db", reason, times=50)

    counts = await import_file(store, source)

    await store.close()
    assert counts == {"added": MEMORIES}, "each memory is counted once"


async def test_patience_ends(tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "PATIENCE_SECONDS", 0.01)
    store = StallingStore(tmp_path / "m.db", "busy", times=1_000_000)

    with pytest.raises(Refused) as refused:
        await import_file(store, source)

    await store.close()
    assert refused.value.reason == "busy"


async def test_what_does_not_pass_ends_at_once(tmp_path: Path, source: Path) -> None:
    store = StallingStore(tmp_path / "m.db", "storage_full", times=1)

    with pytest.raises(Refused) as refused:
        await import_file(store, source)

    await store.close()
    assert (refused.value.reason, store.times) == ("storage_full", 0)


async def test_an_import_waits_for_the_lock_of_another_process(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(tmp_path / "m.db")
    await store.prepare()
    await import_file(store, source)
    monkeypatch.setattr(file, "BUSY_SECONDS", 0.01)
    waited = asyncio.Event()
    monkeypatch.setattr(patience._log, "warning", lambda *_: waited.set())
    descriptor = os.open(tmp_path / "m.db-lock", os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    source.write_text(source.read_text().replace('"name": "e', '"name": "f'))

    task = asyncio.create_task(import_file(store, source))
    await waited.wait()
    fcntl.flock(descriptor, fcntl.LOCK_UN)

    assert (await task)["added"] == MEMORIES
    os.close(descriptor)
    await store.close()


async def test_an_export_outlasts_a_read_that_was_late(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(tmp_path / "m.db")
    await import_file(store, source)
    read_page, late = store.read_page, iter([True, False, True])

    async def read_page_late(after: tuple[str, str], limit: int) -> object:
        if next(late, False):
            raise Refused("timeout")
        return await read_page(after, limit)

    monkeypatch.setattr(store, "read_page", read_page_late)
    result = await export(store, tmp_path / "out.jsonl", ExportOptions(), lambda _: None)

    await store.close()
    assert result.memories == MEMORIES


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Refused("storage_full")])
@pytest.mark.parametrize(
    ("name", "command", "said"),
    [
        ("import_memories", ["import", "memory.jsonl"], "after this: 3 added. What was imported"),
        ("export", ["export", "out.jsonl"], "run the same command with --resume"),
        ("export", ["export"], "The output is not complete; run the same command again"),
        ("backup", ["backup", "copy.db"], "copy.db was not written. Run the same command again"),
    ],
)
def test_what_is_stopped_says_how_to_go_on(
    source: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    name: str,
    command: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(source.parent)
    assert CliRunner().invoke(main, ["import", "memory.jsonl"]).exit_code == 0

    def stop(*arguments: object) -> None:
        if isinstance(arguments[-1], Counter):
            arguments[-1]["added"] = 3
        raise error

    module = backups if name == "backup" else commands
    monkeypatch.setattr(module, name, stop)
    result = CliRunner().invoke(main, command)

    assert result.exit_code == 1
    assert said in " ".join(result.stderr.split())
