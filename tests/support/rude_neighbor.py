"""A rude tenant: it asks as much of a server as it can, in one way, until it is killed.

`python -m tests.support.rude_neighbor ADDRESS TOKEN WAY` runs it, in a process of its own.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import orjson

CALLS = 64
"""How many calls or sockets it has open at a time."""

HUB = "hub"

_PAUSE_SECONDS = 0.05


class RudeNeighbor:
    """What a tenant does to a server at an address, with a token of its own."""

    def __init__(self, address: str, token: str) -> None:
        self._address = address
        self._host, _, port = address.removeprefix("http://").partition(":")
        self._port = int(port)
        self._headers = {"Authorization": f"Bearer {token}"}

    async def read(self) -> None:
        """Read 25 files, and the largest walks, 64 at a time."""
        files = {"paths": [f"{n}.txt" for n in range(25)]}
        walk = {"key": HUB, "depth": 6, "breadth": 20, "total": 50, "direction": "both"}
        calls: list[tuple[str, dict[str, Any]]] = [
            ("file_read_bulk", files),
            ("bulk_read_memory", walk),
        ]
        await self._repeat(calls * (CALLS // 2))

    async def search(self) -> None:
        """Search for what is everywhere and for what is nowhere."""
        calls: list[tuple[str, dict[str, Any]]] = []
        for text in ("common", "nowhere to be found"):
            calls.append(("query_memories", {"search": text, "sort_by": "created_at", "limit": 50}))
        await self._repeat(calls * (CALLS // 2))

    async def update(self) -> None:
        """Change the score of a memory to which everything links."""
        calls: list[tuple[str, dict[str, Any]]] = []
        for n in range(CALLS):
            change = {"key": HUB, "type": "core", "content": "hub", "memory_score": n / CALLS}
            calls.append(("store_memory", change))
        await self._repeat(calls)

    async def send_slowly(self) -> None:
        await self._hold_sockets(260, b"Content-Length: 1000\r\n\r\n{", reads=False)

    async def never_read(self) -> None:
        body = orjson.dumps({"paths": [f"{n}.txt" for n in range(25)]})
        rest = b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
        await self._hold_sockets(CALLS, rest, reads=False, times=50)

    async def _repeat(self, calls: list[tuple[str, dict[str, Any]]]) -> None:
        limits = httpx.Limits(max_connections=CALLS)
        async with httpx.AsyncClient(
            base_url=self._address, headers=self._headers, timeout=60, limits=limits
        ) as client:
            await asyncio.gather(*(self._repeat_call(client, *call) for call in calls))

    async def _repeat_call(
        self, client: httpx.AsyncClient, name: str, arguments: dict[str, Any]
    ) -> None:
        while True:
            try:
                answer = await client.post(f"/api/abilities/{name}", json=arguments)
            except httpx.TransportError:
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            assert answer.status_code in (200, 429, 503), answer.text
            if answer.status_code != 200:
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _hold_sockets(self, number: int, rest: bytes, *, reads: bool, times: int = 1) -> None:
        head = b"POST /api/abilities/file_read_bulk HTTP/1.1\r\nHost: %s\r\n" % self._host.encode()
        head += b"Content-Type: application/json\r\nAuthorization: "
        request = head + self._headers["Authorization"].encode() + b"\r\n" + rest
        await asyncio.gather(*(self._hold_socket(request * times) for _ in range(number)))

    async def _hold_socket(self, request: bytes) -> None:
        while True:
            try:
                reader, writer = await asyncio.open_connection(self._host, self._port, limit=1024)
                reader._transport.pause_reading()  # type: ignore[attr-defined]
                writer.write(request)
                await asyncio.sleep(12)
                writer.transport.abort()
            except OSError:
                await asyncio.sleep(_PAUSE_SECONDS)


WAYS: dict[str, Callable[[RudeNeighbor], Awaitable[None]]] = {
    "reads": RudeNeighbor.read,
    "searches": RudeNeighbor.search,
    "hub updates": RudeNeighbor.update,
    "slow bodies": RudeNeighbor.send_slowly,
    "unread answers": RudeNeighbor.never_read,
}


async def _main(address: str, token: str, way: str) -> None:
    await WAYS[way](RudeNeighbor(address, token))


if __name__ == "__main__":
    # Its own work must not take the processor from those who are measured: it has another machine.
    os.nice(19)
    asyncio.run(_main(*sys.argv[1:]))
