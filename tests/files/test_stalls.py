"""A stall stops neither other files nor the process, and files answer again when it ends.

Figures 2 and 16: in the process, with system calls that hang, and on a server, below a mount. The
pool of threads loses no thread.
"""

import asyncio
import textwrap
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from abilities import Abilities, AbilityError, Settings
from abilities.helpers.threads.circuit_breaker import (
    LOST_THREADS,
    PAUSE_SECONDS,
    STUCK_CALLS,
    CircuitBreaker,
    WorkPlace,
)
from abilities.helpers.threads.workers import CALL_SECONDS, THREADS, Batch, Worker, WorkerPool
from abilities.helpers.tokens import TokenFile
from tests.support.measurements import reached
from tests.support.programs import run_code
from tests.support.reading import read, write_files
from tests.support.serving import Server, serving
from tests.support.stalls import (
    NEVER,
    SOON,
    Clock,
    HungFolder,
    SystemCall,
    item_seconds,
    mounted,
    stalling,
)
from tests.support.stalls import clock as clock
from tests.support.tier import size
from tests.support.waiting import GIVE_UP_SECONDS, POLL_SECONDS

DEAD = [f"mnt/{n:02}.txt" for n in range(25)]
HEALTHY = [f"src/{n:02}.txt" for n in range(25)]
PATHS = ["notes.txt", "README.md", "src/main.py", "mnt/data/1.txt", "mnt/data/2.txt"]
NAMESPACES = ("ada", "bob")
ROUNDS = size("ABILITIES_DEAD_ROUNDS", quick=3, full=8)
CALLS = 60  # a server refuses the 65th
BOUND_SECONDS = 5.0
TIMEOUT: dict[str, Any] = {"error": "timeout"}


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
            for _ in range(ROUNDS):
                with item_seconds(monkeypatch, SOON):
                    await asyncio.gather(*(read(abilities, *DEAD) for _ in range(32)))

                with item_seconds(monkeypatch, NEVER):
                    async with asyncio.timeout(GIVE_UP_SECONDS):
                        assert await read(abilities, *HEALTHY) == HEALTHY

                clock.now += PAUSE_SECONDS

            assert stall.most <= LOST_THREADS

    reached(2, f"{32 * ROUNDS} calls of 25 files in a dead folder: {stall.most} threads stuck")


@pytest.mark.parametrize(
    "stalled", ["os.read", pytest.param("os.open", marks=pytest.mark.thorough)]
)
def test_a_process_with_stuck_threads_exits_at_once(stalled: str, tmp_path: Path) -> None:
    script = """
        import asyncio, os, sys, threading, time
        from abilities import Abilities, Settings
        from abilities.helpers.threads import workers
        workers.ITEM_SECONDS = 0.1
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

    # The calls never end, so the process did not wait for them.
    failed, left = run_code(script, tmp_path).stdout.split()

    assert failed == "3"

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
    write_files(tmp_path / "agents", [f"{namespace}/{PATHS[0]}" for namespace in NAMESPACES])

    async with Abilities.open(share(tmp_path)) as abilities:
        yield abilities


def share(folder: Path) -> Settings:
    """Return settings for one workspace, and an agent's directory for each namespace."""
    return Settings(
        agent_dir=folder / "agents" / "{namespace}",
        workspace_dir=folder / "workspace",
        store_url=f"sqlite:///{folder}/memory.db",
        shared_files=True,
    )


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
        for namespace in NAMESPACES:
            view = abilities.for_namespace(namespace)
            reply = await ask(view, "file_read_bulk", {"paths": PATHS})
            listing = await ask(view, "file_list", {})
            if reply["summary"]["failed"] or listing == TIMEOUT or "skipped" in listing:
                return False

            assert [file["path"] for file in listing["files"]] == sorted(PATHS)

    return True


@pytest.mark.parametrize("comes_back", [True, False])
@pytest.mark.parametrize("name", CASES)
async def test_files_answer_again_once_threads_come_back_or_after_a_pause(
    name: str,
    comes_back: bool,
    abilities: Abilities,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    clock: Clock,
) -> None:
    case, pauses = CASES[name], 0
    with stalling(monkeypatch, case.call, tmp_path / case.path) as stall:
        await stall_calls(abilities, case, monkeypatch)
        away = stall.hanging
        assert away >= 1, "it stalls"

        if comes_back:
            stall.release()
        else:
            stall.end()
        async with asyncio.timeout(GIVE_UP_SECONDS):
            while not await are_answered(abilities, monkeypatch):
                if comes_back:
                    await asyncio.sleep(POLL_SECONDS)  # the breaker's clock stands still
                else:
                    clock.now += PAUSE_SECONDS
                    pauses += 1

        assert comes_back or stall.hanging == away, "the threads are still away"

    assert pauses * PAUSE_SECONDS <= BOUND_SECONDS
    reached(16, f"{name} hung: answered after {pauses} pauses of {PAUSE_SECONDS} s")


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


class Reader:
    """A caller with a read token for one namespace."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def call(self, ability: str, arguments: dict[str, Any]) -> Any:
        return (await self._client.post(f"/api/abilities/{ability}", json=arguments)).json()

    async def count_answered(self, paths: list[str]) -> int:
        """Return of how many files the beginning is read."""
        heads = {"paths": paths, "max_chars_per_file": 100}
        payload = await self.call("file_read_bulk", heads)
        return int(payload["summary"]["succeeded"])

    async def reads_all(self) -> bool:
        """Return whether every file of both folders is read and listed."""
        read = [await self.count_answered(paths) for paths in (DEAD, HEALTHY)]
        listing = await self.call("file_list", {})
        return read == [25, 25] and len(listing.get("files", ())) >= 50


@pytest.fixture
def files(tmp_path: Path) -> Settings:
    write_files(tmp_path / "workspace", dict.fromkeys((*DEAD, *HEALTHY), "healthy\n" * 2_000))
    for namespace in NAMESPACES:
        (tmp_path / "agents" / namespace).mkdir(parents=True)

    return share(tmp_path)


@asynccontextmanager
async def open_readers(server: Server, folder: Path) -> AsyncIterator[list[Reader]]:
    """Let a caller per namespace call the server."""
    tokens = TokenFile(folder / ".abilities" / "tokens.json")
    async with AsyncExitStack() as closing:
        readers: list[Reader] = []
        for namespace in NAMESPACES:
            client = httpx.AsyncClient(
                base_url=server.address,
                headers={"Authorization": f"Bearer {tokens.add(namespace, 'read')[1]}"},
                timeout=GIVE_UP_SECONDS,
                limits=httpx.Limits(max_connections=CALLS),
            )
            readers.append(Reader(await closing.enter_async_context(client)))

        yield readers


async def measure_recovery(readers: list[Reader]) -> float:
    """Return the seconds until every namespace reads every file."""
    began = time.monotonic()
    async with asyncio.timeout(GIVE_UP_SECONDS):
        while not all([await reader.reads_all() for reader in readers]):
            await asyncio.sleep(POLL_SECONDS)

    return time.monotonic() - began


@pytest.mark.thorough
async def test_load_by_a_read_token_leaves_others_answered(files: Settings, tmp_path: Path) -> None:
    with serving(files, tmp_path) as server:
        async with open_readers(server, tmp_path) as readers:
            await asyncio.gather(*(read_on(readers[0], 5.0) for _ in range(CALLS)))
            taken = await measure_recovery(readers)

        server.stop()

    reached(16, f"5 s of load by a read token: all namespaces answered {taken:.2f} s after it")


@pytest.mark.thorough
async def test_a_mount_that_hangs_stalls_no_other_folder(files: Settings, tmp_path: Path) -> None:
    contents = {Path(name).name: b"mounted\n" for name in DEAD}
    try:
        with mounted(tmp_path / "workspace" / "mnt", contents) as hung:
            await try_to_darken(hung, files, tmp_path)
    except PermissionError as error:
        reached(16, f"a mount that hangs (FUSE) was not tried, this user may not mount: {error}")


async def read_on(reader: Reader, seconds: float) -> None:
    """Read and list, again and again."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        await reader.call("file_read_bulk", {"paths": DEAD})
        await reader.call("file_list", {})


async def count_beside(readers: list[Reader]) -> int:
    """Return how many files beside the mount are read by calls that read in it too."""
    ada, bob = readers
    mixed = [ada.count_answered([DEAD[n % 25], *HEALTHY[:24]]) for n in range(CALLS)]
    answered = sum(await asyncio.gather(*mixed))
    dead = asyncio.gather(*(ada.count_answered(DEAD) for _ in range(CALLS - 2)))
    beside = [await bob.count_answered(HEALTHY) for _ in range(20)]

    assert sum(await dead) == 0
    assert beside == [25] * 20, "another namespace does not notice"

    return answered


async def try_to_darken(hung: HungFolder, files: Settings, folder: Path) -> None:
    """Read in a mount while it hangs, end that, and end the server while it hangs again."""
    with serving(files, folder) as server:
        async with open_readers(server, folder) as readers:
            assert await readers[0].reads_all()

            hung.stall()
            answered = await count_beside(readers)
            hung.resume()
            taken = await measure_recovery(readers)
            hung.stall()

            assert await readers[0].count_answered(DEAD[:3]) == 0

        began = time.monotonic()
        server.stop()
        stopped = time.monotonic() - began

    assert answered == CALLS * 24

    reached(16, f"a mount that hung (FUSE): all files were answered {taken:.2f} s after it")
    reached(2, f"a server with threads stuck in a mount (FUSE) ended after {stopped:.2f} s")


@contextmanager
def open_nothing(_: Worker) -> Iterator[None]:
    yield


@contextmanager
def yield_worker(worker: Worker) -> Iterator[Worker]:
    yield worker


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    pool = WorkerPool()
    yield pool
    pool.close()


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """What lets hanging threads go on; in the end it is set."""
    event = threading.Event()
    yield event
    event.set()


async def test_a_thread_that_hangs_while_it_closes_its_session_is_replaced(
    pool: WorkerPool, released: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def hang_at_the_end(_: Worker) -> Iterator[None]:
        yield
        released.wait(GIVE_UP_SECONDS)

    with item_seconds(monkeypatch, SOON):
        for _ in range(THREADS):
            await pool.map(hang_at_the_end, lambda *_: "answered", [1])

        results = await pool.map(open_nothing, lambda *_: "answered", [1])

    assert results == ["answered"]
    assert not released.is_set(), "the threads are still away"


async def test_threads_that_could_not_start_cost_the_pool_no_place(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, refusals = threading.Thread.start, iter([True] * THREADS)

    def refuse_at_first(thread: threading.Thread) -> None:
        if next(refusals, False):
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr("threading.Thread.start", refuse_at_first)
        results = await pool.map(open_nothing, lambda *_: "answered", [1])

    assert results == ["answered"]


async def test_a_session_that_fails_costs_the_pool_no_thread(
    pool: WorkerPool, caplog: pytest.LogCaptureFixture
) -> None:
    @contextmanager
    def fail_at_the_end(_: Worker) -> Iterator[None]:
        yield
        raise OSError("cannot close")

    for _ in range(THREADS + 1):
        results = await pool.map(fail_at_the_end, lambda *_: "answered", [1, 2])
        assert results == ["answered"] * 2

    assert "cannot close" in caplog.text


def test_an_item_that_has_just_begun_is_not_given_up(released: threading.Event) -> None:
    begun = threading.Event()

    def work(_: None, item: int) -> int:
        begun.set()
        released.wait(10)
        return item

    batch = Batch(open_nothing, work, [7], CircuitBreaker(), lambda: None)
    worker = Worker(batch)
    thread = threading.Thread(target=batch.run, args=(worker,))
    thread.start()
    begun.wait(10)

    given_up = batch.give_up(worker)
    released.set()
    thread.join()

    assert not given_up
    assert batch.results == [7]


def test_a_place_is_known_to_work_before_a_caller_wakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the caller's next call could be refused there."""
    order: list[str] = []
    breaker = CircuitBreaker()
    monkeypatch.setattr(breaker, "confirm", lambda _: order.append("confirmed"))

    def work(worker: Worker, place: WorkPlace) -> None:
        worker.enter(place)

    place = WorkPlace("/workspace", ("a.txt",))
    batch = Batch(yield_worker, work, [place], breaker, lambda: order.append("woken"))
    batch.run(Worker(batch))

    assert order == ["confirmed", "woken"]
