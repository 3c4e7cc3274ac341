"""Our server over HTTP: files and memories in one call, against one call each."""

from functools import partial
from pathlib import Path

import httpx
from mcp import Client
from mcp.types import TextContent

from abilities import Settings, parse_text
from abilities.declarations.values import JsonObject
from benchmarks.generate import NAMESPACE, generate
from benchmarks.mcp_files import MAX_CHARS, describe_calls
from benchmarks.measure import Measured, Work, run_shuffled
from benchmarks.peers import BOUNDS, LARGE_BOUND, find_content
from benchmarks.workloads import Workload, copy_sources, write_files
from tests.support.serving import serving

MEMORIES = 1_000


def build_settings(base: Path, bound: int) -> Settings:
    """Return the settings of a server."""
    return Settings(
        agent_dir=base / "agent",
        workspace_dir=base / "workspace",
        store_url=f"sqlite:///{base}/served.db",
        namespace=NAMESPACE,
        max_response_bytes=bound,
    )


async def measure_http_files(base: Path, rounds: int) -> list[Measured]:
    """25 files of 16 KB over HTTP, in one call and in one call each."""
    return await compare_files(base, write_files(base / "workspace", 16), rounds)


async def measure_http_real_files(base: Path, rounds: int) -> list[Measured]:
    """25 real sources over HTTP, in one call and in one call each."""
    return await compare_files(base, copy_sources(base / "workspace"), rounds)


async def compare_files(base: Path, workload: Workload, rounds: int) -> list[Measured]:
    """Read files from a server at each bound."""
    results: list[Measured] = []

    for bound in BOUNDS:
        with serving(build_settings(base, bound), base) as server:
            async with httpx.AsyncClient(base_url=server.address) as client:
                reader = HttpReader(client, workload)
                assert await reader.read_together() == workload.contents
                calls = reader.calls
                assert await reader.read_each() == workload.contents

                variants = {"one": reader.read_together, "each": reader.read_each}
                workload.settle()
                timings = await run_shuffled(variants, rounds, processes=[server.process.pid])

        what = f"{workload.label} over HTTP, one call against 25 calls of our own"
        wanted = ">= 5x" if bound == LARGE_BOUND else ""
        note = describe_calls(calls)
        results.append(timings.ratio("7", what, wanted, "each", "one", bound=bound, note=note))

    return results


class HttpReader:
    """Reads files over one connection; ``calls`` counts the calls of the last read."""

    def __init__(self, client: httpx.AsyncClient, workload: Workload) -> None:
        self._client = client
        self._names = workload.names
        self.calls = 0

    async def read_together(self) -> dict[str, str]:
        """Read all files to the last byte."""
        self.calls = 0
        return await self._read(self._names)

    async def read_each(self) -> dict[str, str]:
        """Read each file to its last byte."""
        contents: dict[str, str] = {}
        for name in self._names:
            contents |= await self._read([name])

        return contents

    async def _read(self, names: list[str]) -> dict[str, str]:
        """Read files, and follow next_request."""
        contents = dict.fromkeys(names, "")
        request: JsonObject | None = {"paths": names, "max_chars_per_file": MAX_CHARS}

        while request:
            response = await self._client.post("/api/abilities/file_read_bulk", json=request)
            self.calls += 1
            reply = response.json()
            for record in reply["results"]:
                if record["success"]:
                    contents[record["data"]["path"]] += record["data"]["content"]
            request = reply.get("next_request")

        return contents


async def measure_http_memories(base: Path, rounds: int) -> list[Measured]:
    """25 memories over HTTP, in one call and in one call each."""
    what = "25 memories over HTTP, one call against 25 GETs of our own"
    keys = [f"k{n:07}" for n in range(2, 27)]
    generate(base / "served.db", MEMORIES)
    results: list[Measured] = []

    for bound in BOUNDS:
        with serving(build_settings(base, bound), base) as server:
            async with httpx.AsyncClient(base_url=server.address) as client:
                variants: dict[str, Work] = {
                    "one": partial(read_memories, client, keys),
                    "each": partial(get_memories, client, keys),
                }
                assert await read_memories(client, keys) == await get_memories(client, keys)
                timings = await run_shuffled(variants, rounds, processes=[server.process.pid])

        row = timings.ratio("7", what, ">= 5x", "each", "one", bound=bound, note="1 call")
        results.append(row)

    return results


async def read_memories(client: httpx.AsyncClient, keys: list[str]) -> list[str]:
    """Return the contents of memories, read in one call."""
    body = {"targets": [{"type": "stored", "key": key} for key in keys]}
    response = await client.post("/api/abilities/memory_read_bulk", json=body)
    reply = response.json()

    assert "next_request" not in reply
    return [record["data"]["content"] for record in reply["results"]]


async def get_memories(client: httpx.AsyncClient, keys: list[str]) -> list[str]:
    """Return the contents of memories, read one by one."""
    contents: list[str] = []
    for key in keys:
        response = await client.get(f"/api/memories/{key}")
        contents.append(response.json()["data"]["content"])

    return contents


async def measure_http_walk(base: Path, rounds: int) -> list[Measured]:
    """20 memories over MCP and HTTP, in one walk and one by one."""
    what = "20 memories over MCP and HTTP, bulk_read_memory against 20 memory_get"
    generate(base / "served.db", MEMORIES)
    results: list[Measured] = []

    for bound in BOUNDS:
        with serving(build_settings(base, bound), base) as server:
            async with Client(f"{server.address}/mcp") as client:
                walked = await walk(client)
                keys = list(walked)
                assert len(keys) == 20
                assert await get_each(client, keys) == walked

                variants: dict[str, Work] = {
                    "one": partial(walk, client),
                    "each": partial(get_each, client, keys),
                }
                timings = await run_shuffled(variants, rounds, processes=[server.process.pid])

        row = timings.ratio("11", what, ">= 5x", "each", "one", bound=bound, note="1 call")
        results.append(row)

    return results


async def walk(client: Client) -> dict[str, str]:
    """Return the contents of a walk's memories by their keys."""
    payload = await call_tool(client, "bulk_read_memory", {"key": "k0000005"})
    memories = [payload["targetMemory"], *payload["associatedMemories"]]
    return {memory["key"]: find_content(memory) for memory in memories}


async def get_each(client: Client, keys: list[str]) -> dict[str, str]:
    """Return the contents of memories by their keys, read one by one."""
    contents: dict[str, str] = {}
    for key in keys:
        memory = await call_tool(client, "memory_get", {"key": key})
        contents[key] = find_content(memory)

    return contents


async def call_tool(client: Client, name: str, arguments: JsonObject) -> JsonObject:
    """Call a tool and return its payload."""
    result = await client.call_tool(name, arguments)
    assert not result.is_error

    text = "".join(part.text for part in result.content if isinstance(part, TextContent))
    return parse_text(text)
