"""Servers under load: stopped midway, large calls at once, no leaks, and rude neighbors."""

import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from click.testing import CliRunner
from mcp import Client

from abilities import Abilities, Settings
from abilities.cli.main import main
from abilities.helpers.threads.workers import THREADS
from abilities.helpers.tokens import TokenFile
from tests.support import named_threads
from tests.support.measurements import reached
from tests.support.rude import HUB, WAYS, build_request
from tests.support.serving import Server, serving
from tests.support.surfaces import environment, with_changes
from tests.support.tier import size
from tests.support.waiting import wait_until

CALLS_AT_LEAST = 3
"""Calls that each worker of a load makes, however slow the machine is."""
SOAK_SECONDS = size("ABILITIES_SOAK", quick=1, full=4)
"""How long the mixed load goes on; `make torture` lets it run for a minute."""

THREADS_OF_A_SERVER = Counter(
    {
        "MainThread": 1,  # the loop
        "abilities-store-writer": 1,
        "abilities-store-reader": 1,
        "abilities-store-reader-watcher": 1,
        "abilities-store-reader-2": 1,
        "abilities-store-reader-2-watcher": 1,
        "abilities-store-look": 1,  # asks whether there is a store
        "abilities-store-ping": 1,
        "abilities-worker": THREADS,  # they read files
        "asyncio_0": 1,  # the executor of the loop: asks whether there ever were tokens,
        "asyncio_1": 1,  # and once more if the first request comes at the same moment
    }
)
"""The names of all threads that a server with an SQLite store may have, and how many of each."""

MIB = 2**20


def read_status(server: Server, name: str) -> int:
    """Return a figure of the process, as Linux has it; memory in bytes."""
    text = Path(f"/proc/{server.process.pid}/status").read_text()
    (line,) = (line for line in text.splitlines() if line.startswith(f"{name}:"))
    unit = 1024 if line.endswith("kB") else 1
    return int(line.split()[1]) * unit


async def list_threads(server: Server) -> Counter[str]:
    """Return how many threads of each name a server has that runs `named_threads`."""
    names = server.log.with_name(named_threads.NAMES_FILE)
    names.unlink(missing_ok=True)
    server.process.send_signal(signal.SIGUSR1)
    await wait_until(names.exists)

    return Counter(names.read_text().splitlines())


def count_descriptors(server: Server) -> int:
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


async def store_memory(client: httpx.AsyncClient, key: str, **fields: Any) -> httpx.Response:
    memory = {"type": "task", "content": key, "key": key, **fields}
    return await client.post("/api/memories", json=memory)


@pytest.mark.parametrize("writes_before", [20, pytest.param(200, marks=pytest.mark.thorough)])
async def test_a_server_that_is_stopped_finishes_what_it_began(
    writes_before: int, roots: Settings, tmp_path: Path
) -> None:
    """Every request gets a whole answer or none at all, and whatever was acknowledged is there."""
    enough_written = asyncio.Event()
    acknowledged: list[str] = []
    outcomes: set[str] = set()

    async def write(client: httpx.AsyncClient, worker: int) -> None:
        try:
            for n in range(10_000):
                answer = await store_memory(client, f"{worker}-{n}")
                outcomes.add(str(answer.status_code))
                assert answer.json()["memory"]["key"] == f"{worker}-{n}"
                acknowledged.append(f"{worker}-{n}")
                if len(acknowledged) >= writes_before:
                    enough_written.set()
        except httpx.TransportError as error:
            # This is how httpx says that only a part of an answer came.
            assert "body" not in str(error), error

    with serving(roots, tmp_path) as server:
        async with httpx.AsyncClient(base_url=server.address, timeout=30) as client:
            assert (await client.get("/readyz")).status_code == 200
            writers = [asyncio.create_task(write(client, worker)) for worker in range(16)]
            async with asyncio.timeout(60):
                await enough_written.wait()

            server.process.send_signal(signal.SIGTERM)
            await asyncio.gather(*writers)

        await asyncio.to_thread(server.stop)

    assert outcomes == {"200"}
    async with Abilities.open(roots) as abilities:
        for key in acknowledged:
            assert (await abilities.call("memory_get", {"key": key}))["data"]["content"] == key


@pytest.mark.requirement("R4.5.4", "R4.6.4")
@pytest.mark.thorough
async def test_sixty_four_large_calls_take_little_memory(roots: Settings, tmp_path: Path) -> None:
    """Figure 4's bound: 128 MiB over idle, whatever the size of the files."""
    paths = [f"{n}.txt" for n in range(25)]
    for path in paths:
        with (roots.workspace_dir / path).open("wb") as file:
            file.write(b"text " * 50_000)
            file.truncate(2**30)  # a hole: no file system has room for 25 GiB
    arguments = {"paths": paths, "max_chars_per_file": 2_000}

    with serving(roots, tmp_path) as server:
        async with httpx.AsyncClient(
            base_url=server.address, timeout=120, limits=httpx.Limits(max_connections=64)
        ) as client:

            async def call() -> dict[str, Any]:
                answer = await client.post("/api/abilities/file_read_bulk", json=arguments)
                assert answer.status_code == 200
                return answer.json()  # type: ignore[no-any-return]

            expected = await call()
            idle = read_status(server, "VmRSS")
            began = time.monotonic()
            answers = await asyncio.gather(*(call() for _ in range(64)))
            milliseconds = (time.monotonic() - began) * 1000

        assert all(answer == expected for answer in answers)
        assert expected["summary"]["succeeded"] == 25 and expected["summary"]["truncated"] == 25
        grown = (read_status(server, "VmHWM") - idle) / MIB
        assert grown <= 128
        said = f"{grown:.0f} MiB over idle, the last one after {milliseconds:.0f} ms"
        reached(4, f"64 calls of 25x1 GiB over HTTP: {said}")
        server.stop()


@pytest.mark.requirement("R4.6.4")
@pytest.mark.thorough
async def test_nothing_piles_up_under_a_mixed_load(roots: Settings, tmp_path: Path) -> None:
    """Threads, descriptors and memory are as before after reads, writes and broken requests."""
    for n in range(25):
        (roots.workspace_dir / f"{n}.txt").write_text(f"{n} " * 3_000)

    with serving(roots, tmp_path, program=[named_threads.__file__]) as server:
        await send_mixed_load(server, 3.0)
        await wait_for_steady_descriptors(server)
        descriptors_before = count_descriptors(server)
        memory_before = read_status(server, "VmRSS")

        calls = await send_mixed_load(server, SOAK_SECONDS)
        end = time.monotonic() + 60
        while count_descriptors(server) > descriptors_before and time.monotonic() < end:
            await asyncio.sleep(0.1)

        assert calls > 50
        assert count_descriptors(server) <= descriptors_before
        threads = await list_threads(server)
        assert threads <= THREADS_OF_A_SERVER, threads - THREADS_OF_A_SERVER
        assert read_status(server, "Threads") == threads.total()  # there is none without a name
        # Kept by design: pages of the store, up to SQLite's bound for each connection, and
        # allocator slack.
        grown = (read_status(server, "VmRSS") - memory_before) / MIB
        assert grown <= 24
        reached(
            4,
            f"{calls:,} mixed requests in {SOAK_SECONDS:g} s:"
            f" no descriptor left over, {grown:.1f} MiB more",
        )
        server.stop()


async def wait_for_steady_descriptors(server: Server) -> None:
    """Wait until dropped connections are noticed and the store has opened what it needs."""
    counts = [count_descriptors(server)]
    end = time.monotonic() + 60

    while len(counts) < 20 or len(set(counts[-20:])) > 1:
        assert time.monotonic() < end, counts
        await asyncio.sleep(0.1)
        counts.append(count_descriptors(server))


async def send_mixed_load(server: Server, seconds: float) -> int:
    end = time.monotonic() + seconds
    files = {"paths": [f"{n}.txt" for n in range(25)]}

    async with httpx.AsyncClient(base_url=server.address, timeout=60) as client:

        async def read(n: int) -> None:
            answer = await client.post("/api/abilities/file_read_bulk", json=files)
            assert answer.status_code in (200, 429)

        async def write(n: int) -> None:
            links = [{"key": f"m{(n * 7 + k) % 500}"} for k in range(5)]
            answer = await store_memory(client, f"m{n % 500}", links=links)
            assert answer.status_code in (200, 429)

        async def walk(n: int) -> None:
            answer = await client.get(f"/api/memories/m{n % 500}/bulk")
            assert answer.status_code in (200, 404, 429)

        async def send_malformed(n: int) -> None:
            body = b"{" * (n % 300_000)
            answer = await client.post("/api/abilities/query_memories", content=body)
            assert answer.status_code in (400, 413, 429)

        async def break_off(n: int) -> None:
            start = build_request("POST", "/api/memories", length=9_999) + b"{"
            _, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(server.address).port)
            writer.write(start[: n % 120])
            await writer.drain()
            writer.close()
            await asyncio.sleep(0.02)

        async def call_mcp(n: int) -> None:
            mode = ("2026-07-28", "legacy")[n % 2]
            async with Client(f"{server.address}/mcp", mode=mode) as session:
                await session.call_tool("get_memory_stats", {})

        async def repeat(send: Callable[[int], Awaitable[None]], worker: int) -> int:
            count = 0
            while time.monotonic() < end or count < CALLS_AT_LEAST:
                await send(worker + 8 * count)
                count += 1

            return count

        kinds = (read, write, walk, send_malformed, break_off, call_mcp)
        workers = [repeat(send, worker) for send in kinds for worker in range(3)]
        return sum(await asyncio.gather(*workers))


HUB_LINKS = size("ABILITIES_HUB_LINKS", quick=300, full=1_000)
"""How many memories of the rude tenant link to its hub; `make torture` has 100,000."""

CALLS = size("ABILITIES_NEIGHBOR_CALLS", quick=30, full=120)
"""How many calls of the good tenant are measured."""

GOOD, RUDE = "ada", "bob"


CALLS_OF_A_TENANT: list[tuple[str, dict[str, Any]]] = [
    ("memory_get", {"key": "k1"}),
    ("bulk_read_memory", {"key": "k1"}),
    ("store_memory", {"key": "day", "type": "task", "content": "common work"}),
    ("file_read_bulk", {"paths": [f"{n}.txt" for n in range(5)]}),
    ("query_memories", {"search": "common"}),
    ("memory_read_bulk", {"targets": [{"type": "stored", "key": f"k{n}"} for n in range(5)]}),
]
"""What a tenant calls that works quietly: mostly reads, some writes."""


async def measure(address: str, token: str) -> tuple[float, list[tuple[str, int]]]:
    """Make the good tenant's calls; return the p99 of their milliseconds, and those refused."""
    headers = {"Authorization": f"Bearer {token}"}
    seconds: list[float] = []
    refused: list[tuple[str, int]] = []

    async with httpx.AsyncClient(base_url=address, headers=headers, timeout=60) as client:
        for name, arguments in islice(cycle(CALLS_OF_A_TENANT), CALLS):
            began = time.monotonic()
            answer = await client.post(f"/api/abilities/{name}", json=arguments)
            seconds.append(time.monotonic() - began)
            if answer.status_code != 200:
                refused.append((name, answer.status_code))

    return statistics.quantiles(seconds, n=100)[98] * 1000, refused


@pytest.fixture
def shared(apart: Settings, tmp_path: Path, store_url: str) -> Settings:
    """Settings for many tenants: a folder each, and one store."""
    for namespace in (GOOD, RUDE):
        for n in range(25):
            file = tmp_path / "work" / namespace / f"{n}.txt"
            file.write_text(f"line {n}\n" * 2_000)

    return with_changes(apart, store_url=store_url, namespace=GOOD)


async def fill_store(settings: Settings, folder: Path) -> None:
    """Give both tenants memories, and the rude one a hub to which all the others link."""
    async with Abilities.open(settings) as abilities:
        for n in range(10):
            links = [{"key": f"k{m}"} for m in range(n)]
            memory = {"key": f"k{n}", "type": "core", "content": f"common {n}", "links": links}
            await abilities.call("store_memory", memory)

        rude = abilities.for_namespace(RUDE)
        await rude.call("store_memory", {"key": HUB, "type": "core", "content": "hub"})

    graph: list[dict[str, object]] = []
    for n in range(HUB_LINKS):
        entity = {"type": "entity", "name": f"spoke-{n}", "entityType": "spoke"}
        graph.append({**entity, "observations": ["common " * 50]})
        relation = {"type": "relation", "from": f"spoke-{n}", "to": HUB}
        graph.append({**relation, "relationType": "belongs to"})
    spokes = folder / "spokes.jsonl"
    spokes.write_text("\n".join(map(json.dumps, graph)))
    command = ["import", str(spokes), "--namespace", RUDE]
    done = await asyncio.to_thread(CliRunner().invoke, main, command, env=environment(settings))
    assert done.exit_code == 0, done.output


def settle(store_url: str) -> None:
    """Let a database do at once the cleaning that it would begin by itself while we measure."""
    if store_url.startswith("sqlite"):
        return

    with psycopg.connect(store_url, autocommit=True) as connection:
        connection.execute("VACUUM (ANALYZE)")
        connection.execute("CHECKPOINT")


@contextmanager
def being_rude(server: Server, token: str, way: str) -> Iterator[None]:
    command = [sys.executable, "-m", "tests.support.rude", server.address, token, way]
    with subprocess.Popen(command) as process:
        try:
            yield
            assert process.poll() is None, "the rude neighbor gave up"
        finally:
            process.kill()


@pytest.mark.thorough
async def test_a_tenant_is_served_while_one_does_its_worst(
    shared: Settings, tmp_path: Path
) -> None:
    """Figure 13. Nothing of the good tenant is refused; how long it waits is only measured.

    Its time alone is measured anew for each way, in the state that the way before has left.
    """
    await fill_store(shared, tmp_path)
    good, rude = (TokenFile(shared.tokens_file).add(name, "write")[1] for name in (GOOD, RUDE))

    with serving(shared, tmp_path) as server:
        await measure(server.address, good)

        for way in WAYS:
            settle(shared.store_url)
            alone, refused = await measure(server.address, good)
            assert refused == []

            with being_rude(server, rude, way):
                await asyncio.sleep(2)  # until it is at its worst
                beside, refused = await measure(server.address, good)

            assert refused == [], way
            said = f"p99 beside {way}: {beside:.0f} ms, alone {alone:.0f} ms"
            reached(13, f"{said} ({beside / alone:.1f} times)")

        server.stop()
