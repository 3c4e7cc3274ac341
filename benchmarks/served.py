"""The goals about servers: bulk calls against single ones, and one process against two."""

import asyncio
from contextlib import ExitStack
from pathlib import Path

import httpx
from mcp import Client

from abilities import Abilities, Settings
from benchmarks.generate import NAMESPACE, generate
from benchmarks.measure import Measured, run_interleaved
from benchmarks.peers import LARGE_BOUND
from tests.support.serving import serving

MEMORIES = 10_000
FILES = 25
CALLERS = 16
WALKS = 20
"""Walks of each caller."""


async def measure_servers(base: Path, rounds: int) -> list[Measured]:
    """Bulk calls against single ones over HTTP and MCP; walks with one and with two processes."""
    generate(base / "served.db", MEMORIES)
    folder = base / "served"
    for name in ("agent", "work"):
        (folder / name).mkdir(parents=True)

    settings = Settings(
        agent_dir=folder / "agent",
        workspace_dir=folder / "work",
        store_url=f"sqlite:///{base}/served.db",
        namespace=NAMESPACE,
        max_response_bytes=LARGE_BOUND,
    )
    names = [f"{n}.txt" for n in range(FILES)]
    for name in names:
        (settings.workspace_dir / name).write_text("text " * 3_200)

    with serving(settings, folder) as server:
        results = await measure_http(server.address, names, rounds)
        results.append(await measure_mcp(server.address, settings, rounds))

    results.append(await measure_processes(settings, folder, rounds, MEMORIES))
    return results


async def measure_http(address: str, names: list[str], rounds: int) -> list[Measured]:
    """Files and memories over HTTP, in one call and in one call each."""
    keys = [f"k{n:07}" for n in range(2, 27)]

    async with httpx.AsyncClient(base_url=address) as client:

        async def read_files(chosen: list[str]) -> int:
            body = {"paths": chosen}
            response = await client.post("/api/abilities/file_read_bulk", json=body)
            return int(response.json()["summary"]["returned_chars"])

        async def read_each_file() -> int:
            return sum([await read_files([name]) for name in names])

        async def read_memories() -> int:
            body = {"targets": [{"type": "stored", "key": key} for key in keys]}
            response = await client.post("/api/abilities/memory_read_bulk", json=body)
            return int(response.json()["summary"]["returned_chars"])

        async def read_each_memory() -> int:
            total = 0
            for key in keys:
                response = await client.get(f"/api/memories/{key}")
                total += len(response.json()["data"]["content"])
            return total

        # Both ways must read the same, or the comparison says nothing.
        assert await read_files(names) == await read_each_file() == FILES * 16_000
        assert await read_memories() == await read_each_memory() > 0

        variants = {
            "files": lambda: read_files(names),
            "file": read_each_file,
            "memories": read_memories,
            "memory": read_each_memory,
        }
        timings = await run_interleaved(variants, rounds)

    files = f"25x16 KB over HTTP, {LARGE_BOUND:,} bytes, one call against 25"
    memories = "25 memories over HTTP, one call against 25 GETs"
    return [
        timings.ratio("7", files, ">= 5x", "file", "files"),
        timings.ratio("7", memories, ">= 5x", "memory", "memories"),
    ]


async def measure_mcp(address: str, settings: Settings, rounds: int) -> Measured:
    """A walk over MCP, in one call and memory by memory."""
    async with Abilities.open(settings) as abilities:
        walk = await abilities.call("bulk_read_memory", {"key": "k0000005"})

    keys = [walk["targetMemory"]["key"], *(memory["key"] for memory in walk["associatedMemories"])]
    assert len(keys) == 20

    async with Client(f"{address}/mcp") as client:

        async def get_each() -> None:
            for key in keys:
                result = await client.call_tool("memory_get", {"key": key})
                assert not result.is_error

        variants = {
            "bulk": lambda: client.call_tool("bulk_read_memory", {"key": keys[0]}),
            "single": get_each,
        }
        timings = await run_interleaved(variants, rounds)

    what = "20 memories over MCP, bulk_read_memory against 20 memory_get"
    return timings.ratio("11", what, ">= 5x", "single", "bulk")


async def measure_processes(
    settings: Settings, folder: Path, rounds: int, memories: int, prefix: str = ""
) -> Measured:
    """The same number of walks, spread over one server process and over two."""
    with ExitStack() as stack:
        servers = [stack.enter_context(serving(settings, folder)) for _ in range(2)]
        ports = [httpx.URL(server.address).port or 0 for server in servers]

        async def walk_through(chosen: list[int]) -> None:
            callers = [
                walk_from(chosen[number % len(chosen)], number, memories)
                for number in range(CALLERS)
            ]
            await asyncio.gather(*callers)

        variants = {"one": lambda: walk_through(ports[:1]), "two": lambda: walk_through(ports)}
        timings = await run_interleaved(variants, max(rounds // 3, 3))

    one = CALLERS * WALKS / timings["one"]
    two = CALLERS * WALKS / timings["two"]
    what = f"{prefix}walks a second, two server processes against one ({two:,.0f} and {one:,.0f})"
    return timings.ratio("16", what, ">= 1.7x", "one", "two")


async def walk_from(port: int, number: int, memories: int) -> None:
    """Request walks over one connection.

    It speaks HTTP by hand, because the servers share the machine with their callers: a real client
    would take more of it than they do.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    for turn in range(WALKS):
        key = 2 + (number * 577 + turn * 31) % (memories - 2)
        path = f"/api/memories/k{key:07}/bulk?depth=6&breadth=20&total=50"
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())

        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        await reader.readexactly(parse_content_length(head))

    writer.close()


def parse_content_length(head: bytes) -> int:
    """Return the length of the body that follows a response's head."""
    for line in head.lower().split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name == b"content-length":
            return int(value)

    raise AssertionError(head)
