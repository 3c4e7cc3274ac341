"""What callers of one server wait for each other: latencies over HTTP, beside slow queries too."""

import asyncio
import statistics
import time
from contextlib import suppress
from pathlib import Path

import httpx

from abilities import Settings
from abilities.declarations.values import JsonObject
from benchmarks.generate import NAMESPACE, generate, prepare_store
from benchmarks.measure import Measured
from benchmarks.peers import DEFAULT_BOUND
from benchmarks.processes import parse_content_length
from benchmarks.served import MEMORIES, build_settings
from tests.support.serving import serving

CLIENTS = 8
CALLS_PER_ROUND = 20

SLOW_QUERY: JsonObject = {"category": "fact", "type": "core", "offset": 900_000}
"""No counter knows how many match, and no index has the order: it looks at every memory."""


async def measure_beside_slow_query(base: Path, rounds: int, size: int) -> list[Measured]:
    """A memory_get over HTTP while the slowest query runs without a pause."""
    settings = Settings(
        agent_dir=base / "agent",
        workspace_dir=base / "workspace",
        store_url=f"sqlite:///{prepare_store(base, size)}",
        namespace=NAMESPACE,
    )

    with serving(settings, base) as server:
        async with httpx.AsyncClient(base_url=server.address, timeout=60) as client:
            slow_seconds: list[float] = []
            running = asyncio.create_task(repeat_query(client, slow_seconds))
            seconds: list[float] = []
            while not slow_seconds or len(seconds) < rounds * 5:
                seconds += await time_gets(client, size, rounds)

            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    query = statistics.median(slow_seconds) * 1000
    note = f"median {statistics.median(seconds) * 1000:.1f} ms, the query {query:,.0f} ms"
    what = f"ms, p95, for a memory_get beside the slowest query at {size:,} memories"
    return [Measured("15b", what, "<= 10 ms", find_quantile(seconds, 95) * 1000, note=note)]


async def repeat_query(client: httpx.AsyncClient, seconds: list[float]) -> None:
    """Run the slow query again and again, and note how long it takes, or when it is given up."""
    while True:
        began = time.perf_counter()
        response = await client.post("/api/abilities/query_memories", json=SLOW_QUERY)
        assert response.status_code in (200, 503), response.text
        seconds.append(time.perf_counter() - began)


async def time_gets(client: httpx.AsyncClient, size: int, count: int) -> list[float]:
    """Return how long single memories take, one after another."""
    seconds: list[float] = []
    for number in range(count):
        key = f"k{2 + number * 31 % (size - 2):07}"
        began = time.perf_counter()
        response = await client.get(f"/api/memories/{key}")
        seconds.append(time.perf_counter() - began)
        assert response.status_code == 200

    return seconds


async def measure_clients(base: Path, rounds: int) -> list[Measured]:
    """The slowest of a hundred calls of eight clients of one server."""
    generate(base / "served.db", MEMORIES)

    with serving(build_settings(base, DEFAULT_BOUND), base) as server:
        port = httpx.URL(server.address).port or 0
        callers = [call_in_turns(port, n, rounds) for n in range(CLIENTS)]
        together = [one for seconds in await asyncio.gather(*callers) for one in seconds]

    note = f"median {statistics.median(together) * 1000:.1f} ms, {len(together):,} calls"
    what = "ms, p99, for a walk over HTTP, 8 clients of one server"
    p99 = find_quantile(together, 99) * 1000
    return [Measured("15c", what, "<= 35 ms", p99, bound=DEFAULT_BOUND, note=note)]


async def call_in_turns(port: int, number: int, rounds: int) -> list[float]:
    """Walk without a pause over one connection, and return how long each walk took.

    It speaks HTTP by hand, because the server shares the machine with its clients.
    """
    seconds: list[float] = []
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    for turn in range(rounds * CALLS_PER_ROUND):
        key = 2 + (number * 577 + turn * 31) % (MEMORIES - 2)
        request = f"GET /api/memories/k{key:07}/bulk HTTP/1.1\r\nHost: localhost\r\n\r\n"
        began = time.perf_counter()
        writer.write(request.encode())

        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        await reader.readexactly(parse_content_length(head))
        seconds.append(time.perf_counter() - began)

    writer.close()
    return seconds


def find_quantile(values: list[float], percent: int) -> float:
    """Return the value that so many percent of all do not exceed."""
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
