"""Servers under load: several on one store, stopped in the middle, hostile neighbours, and nothing that piles up."""

import asyncio
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client

from abilities import Abilities, Settings
from abilities.helpers.tokens import TokenFile
from abilities.helpers.workers import THREADS
from tests.support.measurements import reached
from tests.support.serving import Server, serving
from tests.support.tier import size

CALLS_AT_LEAST = 3
"""Calls that each worker of a load makes, however slow the machine is."""
SOAK_SECONDS = size("ABILITIES_SOAK", quick=1, full=4)
"""How long the mixed load goes on; `make torture` lets it run for a minute."""
MIB = 2**20


def status(server: Server, name: str) -> int:
    """A figure of the process, as Linux has it; memory in bytes."""
    text = Path(f"/proc/{server.process.pid}/status").read_text()
    (line,) = (line for line in text.splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) * (1024 if line.endswith("kB") else 1)


def descriptors(server: Server) -> int:
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


async def stored(client: httpx.AsyncClient, key: str, **fields: Any) -> httpx.Response:
    return await client.post(
        "/api/memories", json={"type": "task", "content": key, "key": key, **fields}
    )


@pytest.mark.thorough
async def test_several_servers_share_one_store(roots: Settings, tmp_path: Path) -> None:
    """What one server acknowledged the others have at once, and changes of one memory through all of them add up."""
    with (
        serving(roots, tmp_path) as one,
        serving(roots, tmp_path) as two,
        serving(roots, tmp_path) as three,
    ):
        clients = [
            httpx.AsyncClient(base_url=server.address, timeout=30) for server in (one, two, three)
        ]

        async def use(worker: int) -> None:
            chosen = random.Random(worker)
            for n in range(8):
                here, there = chosen.sample(clients, 2)
                assert (await stored(here, f"{worker}-{n}")).status_code == 200
                read = await there.get(f"/api/memories/{worker}-{n}")
                assert read.json()["data"]["content"] == f"{worker}-{n}"
                linked = await stored(there, "hub", links=[{"key": f"{worker}-{n}"}])
                assert linked.status_code == 200

        await asyncio.gather(*(use(worker) for worker in range(12)))
        for client in clients:
            assert (await client.get("/api/stats")).json()["total_memories"] == 97
            assert (await client.get("/api/memories/hub")).json()["data"]["links_total"] == 96
            await client.aclose()
        for server in (one, two, three):
            server.stop()


@pytest.mark.parametrize("moment", [0.05, 0.2, 0.4])
async def test_a_server_that_is_stopped_finishes_what_it_began(
    moment: float, roots: Settings, tmp_path: Path
) -> None:
    """Every request gets a whole answer or none at all, and whatever was acknowledged is there."""
    acknowledged: list[str] = []
    outcomes: set[str] = set()

    async def write(client: httpx.AsyncClient, worker: int) -> None:
        try:
            for n in range(10_000):
                answer = await stored(client, f"{worker}-{n}")
                outcomes.add(str(answer.status_code))
                assert answer.json()["memory"]["key"] == f"{worker}-{n}"
                acknowledged.append(f"{worker}-{n}")
        except httpx.TransportError as error:
            assert "body" not in str(error), error  # as httpx says when a part of an answer came

    with serving(roots, tmp_path) as server:
        async with httpx.AsyncClient(base_url=server.address, timeout=30) as client:
            assert (await client.get("/readyz")).status_code == 200
            writers = [asyncio.create_task(write(client, worker)) for worker in range(16)]
            await asyncio.sleep(moment)
            server.process.send_signal(signal.SIGTERM)
            await asyncio.gather(*writers)
        await asyncio.to_thread(server.stop)
    async with Abilities.open(roots) as abilities:
        assert outcomes == {"200"}
        for key in acknowledged:
            assert (await abilities.call("memory_get", {"key": key}))["data"]["content"] == key


@pytest.mark.thorough
async def test_sixty_four_large_calls_at_once_take_little_memory(
    roots: Settings, tmp_path: Path
) -> None:
    """Figure 4's bound: 128 MiB over idle, whatever the size of the files."""
    for n in range(25):
        with (roots.workspace_dir / f"{n}.txt").open("wb") as file:
            file.write(b"text " * 50_000)
            file.truncate(2**30)  # a hole: no file system has room for 25 GiB
    asked = {"paths": [f"{n}.txt" for n in range(25)]}
    with serving(roots, tmp_path) as server:
        async with httpx.AsyncClient(
            base_url=server.address, timeout=120, limits=httpx.Limits(max_connections=64)
        ) as client:

            async def call() -> dict[str, Any]:
                answer = await client.post("/api/abilities/file_read_bulk", json=asked)
                taken.append(time.monotonic() - began)
                assert answer.status_code == 200
                return answer.json()  # type: ignore[no-any-return]

            taken, began = list[float](), time.monotonic()
            expected = await call()
            idle = status(server, "VmRSS")
            taken, began = [], time.monotonic()
            answers = await asyncio.gather(*(call() for _ in range(64)))
            assert all(answer == expected for answer in answers)
            assert expected["summary"]["succeeded"] == 25 and expected["summary"]["truncated"] == 25
            grown = (status(server, "VmHWM") - idle) / MIB
            assert grown <= 128
            done = f"64 calls of 25x1 GiB over HTTP: {grown:.0f} MiB over idle, the last one after"
            reached(4, f"{done} {max(taken) * 1000:.0f} ms")
        server.stop()


HOSTILE = [
    *(
        {"Host": host}
        for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80")
    ),
    *(
        {"Host": host}
        for host in (
            "127.0.0.1@evil.example",
            "[::2]",
            "0.0.0.0",
            "2130706433",
            "127.1",
            "evil.example:127",
        )
    ),
    {"Host": "localhost", "X-Forwarded-Host": "evil.example", "Origin": "http://evil.example"},
    *(
        {"Origin": origin}
        for origin in ("null", "http://evil.example", "https://127.0.0.1.evil.example", "file://")
    ),
    *(
        {"Origin": origin}
        for origin in (
            "http://localhost@evil.example",
            "http://[",
            "http://localhost:80:80",
            "chrome-extension://abc",
        )
    ),
    *(
        {"Origin": origin}
        for origin in ("http://0.0.0.0", "http://[::2]:80", "http://[::1", "", "http://localhost/")
    ),
]


@pytest.mark.parametrize("bound", ["127.0.0.1", "0.0.0.0"])
async def test_hostile_headers_are_refused_wherever_the_server_listens(
    bound: str, roots: Settings, tmp_path: Path
) -> None:
    assert len(HOSTILE) >= 20
    token = TokenFile(tmp_path / ".abilities" / "tokens.json").add("default", "read")[1]
    bearer = {"Authorization": f"Bearer {token}"}
    with serving(roots, tmp_path, "--host", bound) as server:
        async with httpx.AsyncClient(base_url=server.address, headers=bearer) as client:
            assert (await client.get("/api/stats")).status_code == 200
            for headers in HOSTILE:
                for path in ("/api/stats", "/mcp", "/healthz"):
                    refused = await client.get(path, headers=headers)
                    assert refused.status_code in (421, 403), headers
                    assert refused.json()["error"]["reason"] in ("foreign_host", "foreign_origin")
        reached(9, f"{len(HOSTILE)} of {len(HOSTILE)} hostile hosts and origins refused on {bound}")
        server.stop()


@pytest.mark.thorough
async def test_nothing_piles_up_under_a_mixed_load(roots: Settings, tmp_path: Path) -> None:
    """Reads, writes, MCP in both eras, hostile and broken requests; then threads, descriptors and memory as before."""
    for n in range(25):
        (roots.workspace_dir / f"{n}.txt").write_text(f"{n} " * 3_000)
    with serving(roots, tmp_path) as server:
        await load(server, 3.0)
        await asyncio.sleep(
            2
        )  # dropped connections are noticed, and the store has opened what it needs
        before = descriptors(server), status(server, "VmRSS")
        calls = await load(server, SOAK_SECONDS)
        end = time.monotonic() + 30
        while descriptors(server) > before[0] and time.monotonic() < end:
            await asyncio.sleep(0.1)
        after = descriptors(server), status(server, "VmRSS")
        assert calls > 50
        assert after[0] <= before[0], (before, after)
        # Threads start when they are first needed: the loop, the store's reader and writer, and those that read files.
        assert status(server, "Threads") <= 3 + THREADS
        # What is kept by design: pages of the store, up to SQLite's bound for each connection, and allocator slack.
        grown = (after[1] - before[1]) / MIB
        assert grown <= 24, (before, after)
        reached(
            4,
            f"{calls:,} mixed requests in {SOAK_SECONDS:g} s: no descriptor left over, {grown:.1f} MiB more",
        )
        server.stop()


async def load(server: Server, seconds: float) -> int:
    """Go on with all kinds of requests at once, and return how many there were."""
    end = time.monotonic() + seconds
    count = 0
    files = {"paths": [f"{n}.txt" for n in range(25)]}
    async with httpx.AsyncClient(base_url=server.address, timeout=60) as client:

        async def read(n: int) -> None:
            assert (await client.post("/api/abilities/file_read_bulk", json=files)).status_code in (
                200,
                429,
            )

        async def write(n: int) -> None:
            links = [{"key": f"m{(n * 7 + k) % 500}"} for k in range(5)]
            assert (await stored(client, f"m{n % 500}", links=links)).status_code in (200, 429)

        async def walk(n: int) -> None:
            assert (await client.get(f"/api/memories/m{n % 500}/bulk")).status_code in (
                200,
                404,
                429,
            )

        async def wrong(n: int) -> None:
            answer = await client.post(
                "/api/abilities/query_memories", content=b"{" * (n % 300_000)
            )
            assert answer.status_code in (400, 413, 429)

        async def broken(n: int) -> None:
            _, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(server.address).port)
            writer.write(
                b"POST /api/memories HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\n{"[
                    : n % 90
                ]
            )
            await writer.drain()
            writer.close()
            await asyncio.sleep(0.02)

        async def mcp(n: int) -> None:
            async with Client(
                f"{server.address}/mcp", mode=("2026-07-28", "legacy")[n % 2]
            ) as session:
                await session.call_tool("get_memory_stats", {})

        async def go_on(kind: Callable[[int], Awaitable[None]], worker: int) -> int:
            n = worker
            while time.monotonic() < end or n < worker + 8 * CALLS_AT_LEAST:
                await kind(n)
                n += 8
            return (n - worker) // 8

        kinds = (read, write, walk, wrong, broken, mcp)
        count = sum(
            await asyncio.gather(*(go_on(kind, worker) for kind in kinds for worker in range(3)))
        )
    return count
