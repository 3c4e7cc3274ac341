"""Figure 16: when a stall ends, files answer again in every namespace, after a trial at last."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from abilities import Abilities, AbilityError, Settings
from abilities.helpers.threads.circuit_breaker import PAUSE_SECONDS, STUCK_CALLS
from tests.support.reading import write_files
from tests.support.stalls import NEVER, SOON, Clock, SystemCall, item_seconds, stalling
from tests.support.stalls import clock as clock
from tests.support.waiting import GIVE_UP_SECONDS, POLL_SECONDS

PATHS = ["notes.txt", "README.md", "src/main.py", "mnt/data/1.txt", "mnt/data/2.txt"]
BOUND_SECONDS = 5.0
TIMEOUT: dict[str, Any] = {"error": "timeout"}


class Case(NamedTuple):
    """What hangs, and the call that gets stuck in it."""

    call: SystemCall
    path: str
    ability: str
    arguments: dict[str, object]


READ = "file_read_bulk"
CASES = {
    "opening the agent directory": Case("open", "agents/ada", READ, {"paths": ["notes.txt"]}),
    "opening the workspace": Case("open", "workspace", READ, {"paths": PATHS[1:3]}),
    "opening a folder": Case("open", "workspace/mnt", READ, {"paths": PATHS[3:]}),
    "opening a file": Case("open", "workspace/README.md", READ, {"paths": PATHS}),
    "reading a folder's files": Case("read", "workspace/mnt", READ, {"paths": PATHS}),
    "reading a file of the root": Case("read", "workspace/README.md", READ, {"paths": PATHS[1:2]}),
    "listing the workspace": Case("scandir", "workspace", "file_list", {}),
    "listing a folder": Case("scandir", "workspace/mnt/data", "file_list", {}),
    "entering a folder": Case("open", "workspace/mnt", "file_list", {"pattern": "mnt/**"}),
    "a walk and a note": Case(
        "open", "agents/ada", "memory_read_bulk", {"targets": [{"type": "long_term"}]}
    ),
}


@pytest.fixture
async def abilities(tmp_path: Path, clock: Clock) -> AsyncIterator[Abilities]:
    write_files(tmp_path / "workspace", PATHS[1:])
    write_files(tmp_path / "agents", [f"{namespace}/{PATHS[0]}" for namespace in ("ada", "bob")])

    settings = Settings(
        agent_dir=tmp_path / "agents" / "{namespace}",
        workspace_dir=tmp_path / "workspace",
        store_url=f"sqlite:///{tmp_path}/memory.db",
        shared_files=True,
    )
    async with Abilities.open(settings) as abilities:
        yield abilities


async def ask(abilities: Abilities, ability: str, arguments: dict[str, object]) -> dict[str, Any]:
    try:
        return await abilities.call(ability, arguments)
    except AbilityError as error:
        assert error.fault.reason == "timeout"
        return TIMEOUT


async def stall_calls(abilities: Abilities, case: Case, patch: pytest.MonkeyPatch) -> None:
    """Make more calls than may get stuck."""
    ada = abilities.for_namespace("ada")
    with item_seconds(patch, SOON):
        calls = [ask(ada, case.ability, case.arguments) for _ in range(2 * STUCK_CALLS)]
        await asyncio.gather(*calls)


async def are_answered(abilities: Abilities, patch: pytest.MonkeyPatch) -> bool:
    """Return whether every namespace reads and lists all of its files."""
    with item_seconds(patch, NEVER):
        for namespace in ("ada", "bob"):
            view = abilities.for_namespace(namespace)
            reply = await ask(view, "file_read_bulk", {"paths": PATHS})
            listing = await ask(view, "file_list", {})
            if reply["summary"]["failed"] or listing == TIMEOUT or "skipped" in listing:
                return False

            assert [file["path"] for file in listing["files"]] == sorted(PATHS)

    return True


@pytest.mark.parametrize("name", CASES)
async def test_files_answer_again_once_threads_come_back(
    name: str, abilities: Abilities, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]
    with stalling(monkeypatch, case.call, tmp_path / case.path) as stall:
        await stall_calls(abilities, case, monkeypatch)
        assert stall.hanging >= 1, "it stalls"

        stall.release()
        async with asyncio.timeout(GIVE_UP_SECONDS):
            while not await are_answered(abilities, monkeypatch):
                await asyncio.sleep(POLL_SECONDS)  # the breaker's clock stands still


@pytest.mark.parametrize("name", CASES)
async def test_files_answer_again_after_a_pause_if_threads_never_come_back(
    name: str, abilities: Abilities, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    case = CASES[name]
    with stalling(monkeypatch, case.call, tmp_path / case.path) as stall:
        await stall_calls(abilities, case, monkeypatch)
        away = stall.hanging
        stall.end()

        assert await count_pauses(abilities, monkeypatch, clock) * PAUSE_SECONDS <= BOUND_SECONDS
        assert stall.hanging == away >= 1, "the threads are still away"


async def count_pauses(abilities: Abilities, patch: pytest.MonkeyPatch, clock: Clock) -> int:
    """Return how many pauses pass until all files are answered."""
    pauses = 0
    async with asyncio.timeout(GIVE_UP_SECONDS):
        while not await are_answered(abilities, patch):
            clock.now += PAUSE_SECONDS
            pauses += 1

    return pauses


async def test_a_namespace_is_answered_while_anothers_directory_stalls(
    abilities: Abilities, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES["opening the agent directory"]
    with stalling(monkeypatch, case.call, tmp_path / case.path) as stall:
        await stall_calls(abilities, case, monkeypatch)
        with item_seconds(monkeypatch, NEVER):
            bob = abilities.for_namespace("bob")
            reply = await ask(bob, "file_read_bulk", {"paths": PATHS})

        assert stall.hanging >= STUCK_CALLS

    assert reply["summary"]["succeeded"] == len(PATHS)


@pytest.mark.thorough
async def test_stall_after_stall_leaves_nothing_refused(
    abilities: Abilities, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """The threads of five stalls never come back, but all files do."""
    case = CASES["opening a folder"]
    with ExitStack() as stack:
        for _ in range(5):
            path = tmp_path / case.path
            stall = stack.enter_context(stalling(monkeypatch, case.call, path))
            await stall_calls(abilities, case, monkeypatch)
            stall.end()

            assert (
                await count_pauses(abilities, monkeypatch, clock) * PAUSE_SECONDS <= BOUND_SECONDS
            )
