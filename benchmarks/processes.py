"""One server process against two, with callers that take as little of the machine as they can."""

import asyncio
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

import httpx

from abilities import Settings
from benchmarks.generate import generate
from benchmarks.measure import Measured, Work, run_shuffled
from benchmarks.peers import BOUNDS
from benchmarks.served import MEMORIES, build_settings
from tests.support.serving import serving

CALLERS = 16
WALKS = 20
"""Walks of each caller, at most."""


class Engine(NamedTuple):
    """Where memories are stored, and what is wanted of two processes."""

    name: str
    wanted: str


SQLITE = Engine("SQLite", ">= 1.9x")
POSTGRESQL = Engine("PostgreSQL", ">= 1.6x")


async def measure_two_processes(base: Path, rounds: int) -> list[Measured]:
    """The same number of walks, spread over one server process and over two."""
    generate(base / "served.db", MEMORIES)
    results: list[Measured] = []

    for bound in BOUNDS:
        settings = build_settings(base, bound)
        results.append(await compare_processes(settings, base, rounds, MEMORIES, SQLITE))

    return results


async def compare_processes(
    settings: Settings, folder: Path, rounds: int, memories: int, engine: Engine
) -> Measured:
    """Return how many more walks per second two server processes answer than one."""
    walks = min(WALKS, rounds)
    with ExitStack() as stack:
        servers = [stack.enter_context(serving(settings, folder)) for _ in range(2)]
        ports = [httpx.URL(server.address).port or 0 for server in servers]

        variants: dict[str, Work] = {
            "one": partial(walk_through, ports[:1], memories, walks),
            "two": partial(walk_through, ports, memories, walks),
        }
        processes = [server.process.pid for server in servers]
        timings = await run_shuffled(variants, max(rounds // 3, 3), processes=processes)

    one = CALLERS * walks / timings["one"]
    two = CALLERS * walks / timings["two"]
    return timings.ratio(
        "16",
        f"{engine.name}: walks per second, two server processes against one",
        engine.wanted,
        "one",
        "two",
        bound=settings.max_response_bytes,
        note=f"{two:,.0f} and {one:,.0f} per second",
    )


async def walk_through(ports: list[int], memories: int, walks: int) -> None:
    """Request walks from all callers at once, spread over some servers."""
    callers = [
        walk_from(ports[number % len(ports)], number, memories, walks) for number in range(CALLERS)
    ]
    await asyncio.gather(*callers)


async def walk_from(port: int, number: int, memories: int, walks: int) -> None:
    """Request walks over one connection.

    It speaks HTTP by hand, because the servers share the machine with their callers: a real client
    would take more of it than they do.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    for turn in range(walks):
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
