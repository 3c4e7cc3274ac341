"""Figures 2 and 3: a stuck item stops neither the others nor the process; nothing is left over."""

import asyncio
import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from abilities import Abilities, Settings
from abilities.declarations.faults import Refused
from abilities.helpers.batch import Batch, Worker
from abilities.helpers.circuit_breaker import STUCK_CALLS, CircuitBreaker
from abilities.helpers.workers import CALL_SECONDS, THREADS, WorkerPool
from tests.support.measurements import reached
from tests.support.waiting import GIVE_UP_SECONDS, POLL_SECONDS, wait_until

NEVER = 3600.0
"""Seconds that no test takes: a limit that is not reached."""


@contextmanager
def open_nothing(_: Worker) -> Iterator[None]:
    yield


class StuckReads:
    """Reads that hang until they are released."""

    def __init__(self) -> None:
        self._begun: list[int] = []
        self._released = threading.Event()

    def hang(self) -> None:
        self._begun.append(threading.get_ident())
        self._released.wait()

    def have_begun(self, count: int) -> bool:
        return len(self._begun) >= count

    def release(self) -> None:
        self._released.set()

    @property
    def are_released(self) -> bool:
        return self._released.is_set()


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[StuckReads]:
    """Reads of a file that begins with STUCK hang, as on a dead network drive."""
    reads = StuckReads()
    read = os.read

    def read_or_hang(descriptor: int, size: int) -> bytes:
        raw = read(descriptor, size)
        if raw.startswith(b"STUCK"):
            reads.hang()

        return raw

    monkeypatch.setattr("abilities.helpers.files.window.os.read", read_or_hang)
    yield reads
    reads.release()


def write_files(settings: Settings, stuck_files: int) -> list[str]:
    names = [f"{n:02}.txt" for n in range(25)]
    for n, name in enumerate(names):
        (settings.workspace_dir / name).write_text("STUCK" if n < stuck_files else "healthy")

    return names


@pytest.mark.thorough
async def test_twenty_four_stuck_items_leave_the_healthy_one_answered_in_time(
    roots: Settings, stuck: StuckReads
) -> None:
    names = write_files(roots, 24)
    began = time.monotonic()

    async with Abilities.open(roots) as abilities:
        payload = await abilities.call("file_read_bulk", {"paths": names})

    taken = time.monotonic() - began
    *failed, healthy = payload["results"]

    assert not stuck.are_released, "the call did not wait for them"
    assert CALL_SECONDS <= 10, "nor longer than this"
    assert {record["error"]["reason"] for record in failed} == {"timeout"}
    assert all(record["error"]["retryable"] for record in failed)
    assert healthy["data"]["content"] == "healthy"

    reached(
        2,
        f"24 of 25 items stuck: the call ended after {taken:.1f} s, the healthy item was answered",
    )


async def test_a_place_where_calls_are_stuck_is_refused_at_once_until_it_recovers(
    roots: Settings, stuck: StuckReads, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(roots, 1)
    async with Abilities.open(roots) as abilities:
        arguments = {"paths": ["00.txt", "01.txt"]}
        answers = await asyncio.gather(
            *(abilities.call("file_read_bulk", arguments) for _ in range(STUCK_CALLS))
        )

        assert all(answer["results"][1]["success"] for answer in answers), (
            "the breaker counts whole calls"
        )

        # Only a refusal at once can say "timeout" now: no time ever runs out.
        with monkeypatch.context() as patch:
            patch.setattr("abilities.helpers.batch.ITEM_SECONDS", NEVER)
            patch.setattr("abilities.helpers.workers.CALL_SECONDS", NEVER)
            refused = await abilities.call("file_read_bulk", {"paths": ["01.txt"]})

        assert refused["results"][0]["error"]["reason"] == "timeout"

        stuck.release()
        async with asyncio.timeout(GIVE_UP_SECONDS):
            while True:
                again = await abilities.call("file_read_bulk", {"paths": ["01.txt"]})
                if again["results"][0]["success"]:
                    return
                await asyncio.sleep(POLL_SECONDS)


async def test_calls_go_on_after_cancelled_calls_left_threads_stuck(
    roots: Settings, stuck: StuckReads
) -> None:
    write_files(roots, 1)
    (roots.agent_dir / "own.txt").write_text("own")

    async with Abilities.open(roots) as abilities:
        for threads in (1, *([THREADS] * 5)):
            task = asyncio.create_task(abilities.call("file_read_bulk", {"paths": ["00.txt"]}))
            await asyncio.sleep(0.05)
            await wait_until(partial(stuck.have_begun, threads))
            task.cancel()

        payload = await abilities.call("file_read_bulk", {"paths": ["own.txt"]})

    assert payload["results"][0]["success"]


def test_a_process_with_stuck_reads_exits_at_once(tmp_path: Path) -> None:
    script = """
        import asyncio, os, sys, threading, time
        from abilities import Abilities, Settings
        from abilities.helpers.files import window
        window.os.read = lambda *_: threading.Event().wait()
        async def main():
            async with Abilities.open(Settings(workspace_dir=sys.argv[1])) as abilities:
                payload = await abilities.call("file_read_bulk", {"paths": ["a.txt"] * 3})
                print(payload["summary"]["failed"], flush=True)
        asyncio.run(main())
        print(time.time(), flush=True)
    """
    (tmp_path / "a.txt").write_text("x")
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)],
        capture_output=True,
        timeout=GIVE_UP_SECONDS,  # the reads never end, so the process did not wait for them
        check=True,
    )
    failed, left = done.stdout.split()
    ended = time.time() - float(left)

    assert failed == b"3"

    reached(2, f"a process with stuck reads ended after {ended:.2f} s")


@pytest.mark.parametrize(
    ("name", "reason"),
    [("fifo", "not_regular_file"), ("socket", "not_regular_file"), ("link-zero", "symlink_escape")],
)
async def test_a_special_file_never_blocks(
    name: str, reason: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No time runs out: a read that blocked would never be answered.
    monkeypatch.setattr("abilities.helpers.batch.ITEM_SECONDS", NEVER)
    monkeypatch.setattr("abilities.helpers.workers.CALL_SECONDS", NEVER)

    async with Abilities.open(settings) as abilities:
        await abilities.call("file_read_bulk", {"paths": ["ok.txt"]})
        began = time.monotonic()
        async with asyncio.timeout(GIVE_UP_SECONDS):
            payload = await abilities.call("file_read_bulk", {"paths": [name]})

        taken = time.monotonic() - began

    assert payload["results"][0]["error"]["reason"] == reason

    reached(2, f"{name}: refused after {taken * 1000:.1f} ms")


def count_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


async def test_a_thousand_cancelled_calls_leave_nothing_behind(roots: Settings) -> None:
    names, others = write_files(roots, 0), set(threading.enumerate())
    async with Abilities.open(roots) as abilities:
        await asyncio.gather(
            *(abilities.call("file_read_bulk", {"paths": names}) for _ in range(16))
        )
        gc.collect()  # what earlier tests left must not be counted as ours
        threads, before = threading.active_count(), count_descriptors()
        for n in range(1000):
            task = asyncio.create_task(abilities.call("file_read_bulk", {"paths": names}))
            await asyncio.sleep(0.0001 * (n % 7))
            task.cancel()

        await wait_until(lambda: count_descriptors() <= before)
        await wait_until(lambda: threading.active_count() <= threads)
        payload = await abilities.call("file_read_bulk", {"paths": names})

        assert payload["summary"]["succeeded"] == 25

    await wait_until(lambda: not list_new_workers(others))  # none outlives the application
    reached(3, "1,000 cancelled calls: no descriptor and no thread left over")


def list_new_workers(others: set[threading.Thread]) -> list[threading.Thread]:
    new_threads = set(threading.enumerate()) - others
    return [thread for thread in new_threads if thread.name == "abilities-worker"]


def test_sixty_four_calls_at_once_stay_within_256_descriptors(roots: Settings) -> None:
    write_files(roots, 0)
    script = """
        import asyncio, resource, sys
        from abilities import Abilities, Settings
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
        async def main():
            settings = Settings(agent_dir=sys.argv[1], workspace_dir=sys.argv[2])
            async with Abilities.open(settings) as abilities:
                arguments = {"paths": [f"{n:02}.txt" for n in range(25)]}
                calls = [abilities.call("file_read_bulk", arguments) for _ in range(64)]
                answers = await asyncio.gather(*calls)
            print(sum(answer["summary"]["succeeded"] for answer in answers))
        asyncio.run(main())
    """

    done = subprocess.run(
        [
            sys.executable,
            "-c",
            textwrap.dedent(script),
            str(roots.agent_dir),
            str(roots.workspace_dir),
        ],
        capture_output=True,
        timeout=GIVE_UP_SECONDS,
        check=True,
    )

    assert done.stdout.split() == [b"1600"], done.stderr

    reached(3, "64 calls at once with 256 descriptors: all 1,600 items answered")


async def test_results_keep_the_order_of_the_items_and_errors_stay_with_theirs() -> None:
    workers = WorkerPool()

    def halve(_: None, item: int) -> int:
        if item % 2:
            raise Refused("not_found")

        return item // 2

    results = await workers.map(open_nothing, halve, range(100))

    assert results[::2] == list(range(50))
    assert all(isinstance(error, Refused) for error in results[1::2])

    workers.close()


async def test_no_items_are_no_work() -> None:
    assert await WorkerPool().map(open_nothing, lambda *_: None, []) == []


@contextmanager
def yield_worker(worker: Worker) -> Iterator[Worker]:
    yield worker


async def test_a_thread_that_comes_back_frees_the_place_where_it_got_stuck(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("abilities.helpers.batch.ITEM_SECONDS", 0.1)
    pool, released = WorkerPool(), threading.Event()

    def hang(worker: Worker, _: int) -> None:
        worker.place = "agent"
        released.wait(10)
        worker.place = "workspace"  # as a reader does if the agent's directory has no such file
        worker.check()

    def try_again(worker: Worker, _: int) -> str:
        worker.place = "agent"
        worker.refuse_stuck()
        return "answered"

    stuck = [pool.map(yield_worker, hang, [1]) for _ in range(STUCK_CALLS)]
    outcomes = await asyncio.gather(*stuck)
    (while_stuck,) = await pool.map(yield_worker, try_again, [1])
    released.set()

    assert [str(outcome) for (outcome,) in outcomes] == ["timeout"] * STUCK_CALLS
    assert str(while_stuck) == "timeout"

    async with asyncio.timeout(GIVE_UP_SECONDS):
        while await pool.map(yield_worker, try_again, [1]) != ["answered"]:
            await asyncio.sleep(POLL_SECONDS)

    pool.close()


async def test_a_session_that_fails_costs_the_pool_no_thread(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pool = WorkerPool()

    @contextmanager
    def fail_at_the_end(_: Worker) -> Iterator[None]:
        yield
        raise OSError("cannot close")

    for _ in range(THREADS + 1):
        results = await pool.map(fail_at_the_end, lambda *_: "answered", [1, 2])

        assert results == ["answered"] * 2

    assert "cannot close" in caplog.text

    pool.close()


def test_an_item_that_has_just_begun_is_not_given_up() -> None:
    begun, released = threading.Event(), threading.Event()

    def work(_: None, item: int) -> int:
        begun.set()
        released.wait(10)
        return item

    batch = Batch(open_nothing, work, [7], CircuitBreaker(), lambda: None)
    worker = Worker(batch, pooled=False)
    thread = threading.Thread(target=batch.run, args=(worker,))
    thread.start()
    begun.wait(10)

    given_up = batch.give_up(worker)
    released.set()
    thread.join()

    assert not given_up
    assert batch.results == [7]
