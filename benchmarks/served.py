"""The goals about servers: HTTP and MCP calls of real processes, bulk against one by one, one process against two."""

import asyncio
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
from mcp import Client

from abilities import Abilities, Settings
from benchmarks.generate import NAMESPACE, generate
from benchmarks.measure import Measured, interleaved
from tests.support.serving import serving

MEMORIES = 10_000
CALLERS = 16
WALKS = 20


async def goals_of_servers(base: Path, rounds: int) -> list[Measured]:
    """Bulk calls against single ones over HTTP and MCP; reads a second with one and with two processes."""
    generate(base / "served.db", MEMORIES)
    workspace = base / "served"
    for name in ("agent", "work"):
        (workspace / name).mkdir(parents=True)
    settings = Settings(
        agent_dir=workspace / "agent",
        workspace_dir=workspace / "work",
        store_url=f"sqlite:///{base}/served.db",
        namespace=NAMESPACE,
        max_response_bytes=1_000_000,
    )
    names = [f"{n}.txt" for n in range(25)]
    for name in names:
        (settings.workspace_dir / name).write_text("text " * 3_200)
    with serving(settings, workspace) as server:
        rows = await _single_and_bulk(server.address, names, rounds)
        rows += await _memories_over_mcp(server.address, settings, rounds)
    return [*rows, *await walks_through_processes(settings, workspace, rounds, MEMORIES)]


async def _single_and_bulk(address: str, names: list[str], rounds: int) -> list[Measured]:
    keys = [f"k{n:07}" for n in range(2, 27)]
    async with httpx.AsyncClient(base_url=address) as client:

        async def files(*chosen: str) -> int:
            answer = await client.post("/api/abilities/file_read_bulk", json={"paths": chosen})
            return int(answer.json()["summary"]["returned_chars"])

        async def one_file_each() -> int:
            return sum([await files(name) for name in names])

        async def memories() -> int:
            targets = [{"type": "stored", "key": key} for key in keys]
            answer = await client.post("/api/abilities/memory_read_bulk", json={"targets": targets})
            return int(answer.json()["summary"]["returned_chars"])

        async def one_memory_each() -> int:
            answers = [await client.get(f"/api/memories/{key}") for key in keys]
            return sum(len(answer.json()["data"]["content"]) for answer in answers)

        assert await files(*names) == await one_file_each() == 25 * 16_000
        assert await memories() == await one_memory_each() > 0
        ways = {
            "files": lambda: files(*names),
            "file": one_file_each,
            "memories": memories,
            "memory": one_memory_each,
        }
        taken = await interleaved(ways, rounds)
    return [
        taken.ratio("7", "25x16 KB over HTTP, one call against 25", ">= 5x", "file", "files"),
        taken.ratio(
            "7", "25 memories over HTTP, one call against 25 GETs", ">= 5x", "memory", "memories"
        ),
    ]


async def _memories_over_mcp(address: str, settings: Settings, rounds: int) -> list[Measured]:
    async with Abilities.open(settings) as abilities:
        walk = await abilities.call("bulk_read_memory", {"key": "k0000005"})
    keys = [walk["targetMemory"]["key"], *(memory["key"] for memory in walk["associatedMemories"])]
    assert len(keys) == 20
    async with Client(f"{address}/mcp") as client:

        async def each() -> None:
            for key in keys:
                assert not (await client.call_tool("memory_get", {"key": key})).is_error

        taken = await interleaved(
            {
                "bulk": lambda: client.call_tool("bulk_read_memory", {"key": keys[0]}),
                "single": each,
            },
            rounds,
        )
    what = "20 memories over MCP, bulk_read_memory against 20 memory_get"
    return [taken.ratio("11", what, ">= 5x", "single", "bulk")]


async def walks_through_processes(
    settings: Settings, folder: Path, rounds: int, memories: int, where: str = ""
) -> list[Measured]:
    """The same number of walks, spread over one process and over two."""
    with ExitStack() as stack:
        ports = [
            httpx.URL(stack.enter_context(serving(settings, folder)).address).port for _ in range(2)
        ]

        async def walks(*chosen: Any) -> None:
            callers = (_caller(chosen[n % len(chosen)], n, memories) for n in range(CALLERS))
            await asyncio.gather(*callers)

        taken = await interleaved(
            {"one": lambda: walks(ports[0]), "two": lambda: walks(*ports)}, max(rounds // 3, 3)
        )
    one, two = (CALLERS * WALKS / taken[name] for name in ("one", "two"))
    what = f"{where}walks a second, two server processes against one ({two:,.0f} and {one:,.0f})"
    return [taken.ratio("16", what, ">= 1.7x", "one", "two")]


async def _caller(port: int, number: int, memories: int) -> None:
    """Ask for walks over one connection, at the least cost to the machine that the servers share with the callers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for turn in range(WALKS):
        key = 2 + (number * 577 + turn * 31) % (memories - 2)
        address = f"/api/memories/k{key:07}/bulk?depth=6&breadth=20&total=50"
        writer.write(f"GET {address} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        length = next(
            line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
        )
        await reader.readexactly(int(length.partition(b":")[2]))
    writer.close()
