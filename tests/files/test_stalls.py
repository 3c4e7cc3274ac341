"""Figure 2: a stuck item stops neither the others nor the process, and costs few threads."""

import asyncio
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from abilities import Abilities, Settings
from abilities.helpers.threads.circuit_breaker import LOST_THREADS, PAUSE_SECONDS, STUCK_CALLS
from abilities.helpers.threads.workers import CALL_SECONDS, THREADS
from tests.support.measurements import reached
from tests.support.reading import read, write_files
from tests.support.stalls import NEVER, SOON, Clock, item_seconds, stalling
from tests.support.stalls import clock as clock
from tests.support.waiting import GIVE_UP_SECONDS

DEAD = [f"mnt/{n:02}.txt" for n in range(25)]
HEALTHY = [f"src/{n:02}.txt" for n in range(24)]


@pytest.fixture
def workspace(roots: Settings) -> Path:
    """A workspace with two folders, one of which will stall."""
    write_files(roots.workspace_dir, [*DEAD, *HEALTHY, "README.md"])
    return roots.workspace_dir


@pytest.mark.thorough
async def test_twenty_four_stuck_items_leave_the_healthy_one_answered_in_time(
    roots: Settings, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Abilities.open(roots) as abilities:
        with stalling(monkeypatch, "read", workspace / "mnt") as stall:
            began = time.monotonic()
            payload = await abilities.call("file_read_bulk", {"paths": [*DEAD[1:], "README.md"]})
            taken = time.monotonic() - began

            assert stall.hanging == 24, "the call did not wait for them"

    *failed, healthy = payload["results"]

    assert CALL_SECONDS <= 10, "nor longer than this"
    assert {record["error"]["reason"] for record in failed} == {"timeout"}
    assert all(record["error"]["retryable"] for record in failed)
    assert healthy["data"]["content"] == "README.md"

    reached(2, f"24 of 25 items stuck: the call ended after {taken:.1f} s, the 25th was answered")


async def test_calls_go_on_after_cancelled_calls_left_threads_stuck(
    roots: Settings, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(roots.agent_dir, {"own.txt": "own"})

    async with Abilities.open(roots) as abilities:
        with stalling(monkeypatch, "read", workspace / "mnt") as stall:
            for threads in (1, *([THREADS] * 5)):
                task = asyncio.create_task(read(abilities, DEAD[0]))
                await asyncio.sleep(0.05)
                await stall.wait_for_threads(threads)
                task.cancel()

            assert await read(abilities, "own.txt") == ["own"]


async def test_calls_that_are_stuck_in_a_folder_leave_its_neighbors_answered(
    roots: Settings, workspace: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    async with Abilities.open(roots) as abilities:
        with stalling(monkeypatch, "open", workspace / "mnt") as stall:
            with item_seconds(monkeypatch, SOON):
                stuck = [read(abilities, DEAD[n]) for n in range(STUCK_CALLS)]

                assert await asyncio.gather(*stuck) == [["timeout"]] * STUCK_CALLS

            # Only a refusal at once can say "timeout" now: no time ever runs out.
            with item_seconds(monkeypatch, NEVER):
                async with asyncio.timeout(GIVE_UP_SECONDS):
                    answers = await read(abilities, *DEAD[:12], *HEALTHY[:12], "README.md")
                    listing = await abilities.call("file_list", {})

            assert answers == ["timeout"] * 12 + [*HEALTHY[:12], "README.md"]
            assert stall.hanging == STUCK_CALLS

    assert listing["skipped_folders"] == ["mnt/"]
    assert [file["path"] for file in listing["files"]] == ["README.md", *HEALTHY]


async def test_a_folder_that_stays_dead_costs_few_threads_however_many_calls_read_there(
    roots: Settings, workspace: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    async with Abilities.open(roots) as abilities:
        with stalling(monkeypatch, "open", workspace / "mnt") as stall:
            for _ in range(8):
                with item_seconds(monkeypatch, SOON):
                    await asyncio.gather(*(read(abilities, *DEAD) for _ in range(32)))

                with item_seconds(monkeypatch, NEVER):
                    async with asyncio.timeout(GIVE_UP_SECONDS):
                        assert await read(abilities, *HEALTHY) == HEALTHY

                clock.now += PAUSE_SECONDS

            assert stall.most <= LOST_THREADS

    reached(2, f"256 calls of 25 files in a dead folder: {stall.most} threads stuck")


@pytest.mark.parametrize(
    "stalled", ["os.read", pytest.param("os.open", marks=pytest.mark.thorough)]
)
def test_a_process_with_stuck_threads_exits_at_once(stalled: str, tmp_path: Path) -> None:
    script = """
        import asyncio, os, sys, threading, time
        from abilities import Abilities, Settings
        def hang(*_, **__):
            threading.Event().wait()
        async def main():
            async with Abilities.open(Settings(workspace_dir=sys.argv[1])) as abilities:
                STALLED = hang
                payload = await abilities.call("file_read_bulk", {"paths": ["a.txt"] * 3})
                print(payload["summary"]["failed"], flush=True)
        asyncio.run(main())
        print(time.time(), flush=True)
        """
    (tmp_path / "a.txt").write_text("x")
    script = textwrap.dedent(script).replace("STALLED", stalled)
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        capture_output=True,
        timeout=GIVE_UP_SECONDS,  # the calls never end, so the process did not wait for them
        check=True,
    )
    failed, left = done.stdout.split()

    assert failed == b"3"

    ended = time.time() - float(left)
    reached(2, f"a process with threads stuck in {stalled} ended after {ended:.2f} s")


@pytest.mark.parametrize(
    ("name", "reason"),
    [("fifo", "not_regular_file"), ("socket", "not_regular_file"), ("link-zero", "symlink_escape")],
)
async def test_a_special_file_never_blocks(
    name: str, reason: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No time runs out: a read that blocked would never be answered.
    with item_seconds(monkeypatch, NEVER):
        async with Abilities.open(settings) as abilities:
            await read(abilities, "ok.txt")
            began = time.monotonic()
            async with asyncio.timeout(GIVE_UP_SECONDS):
                assert await read(abilities, name) == [reason]

            taken = time.monotonic() - began

    reached(2, f"{name}: refused after {taken * 1000:.1f} ms")
