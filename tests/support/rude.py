"""Clients that are rude to a server: many sockets that send what they like, and read nothing.

`python -m tests.support.rude ADDRESS TOKEN WAY` runs a rude tenant, in a process of its own: it
asks as much of a server as it can, in one way, until it is killed.
"""

import asyncio
import os
import resource
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import httpx
import orjson

_RECEIVED_AT_MOST = 4096
"""Bytes that the kernel keeps for a socket that reads nothing."""


def build_request(method: str, path: str, token: str | None = None, length: int = 0) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
    if token is not None:
        lines.append(f"Authorization: Bearer {token}")
    if length:
        lines.append(f"Content-Length: {length}")
    return "\r\n".join([*lines, "", ""]).encode()


@asynccontextmanager
async def open_sockets(address: str, count: int, data: bytes = b"") -> AsyncIterator[None]:
    """Keep sockets open that send as much of ``data`` as the server takes, and read nothing."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    url = httpx.URL(address)
    loop = asyncio.get_running_loop()
    sockets: list[socket.socket] = []

    async def open_one() -> None:
        rude = socket.socket()
        sockets.append(rude)
        rude.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVED_AT_MOST)
        rude.setblocking(False)
        await loop.sock_connect(rude, (url.host, url.port))
        await _send(rude, data)

    try:
        await asyncio.gather(*(open_one() for _ in range(count)))
        yield
    finally:
        for rude in sockets:
            rude.close()


async def _send(rude: socket.socket, data: bytes) -> None:
    """Send data until nothing more is taken for a moment, or the server closes."""
    try:
        async with asyncio.timeout(1):
            await asyncio.get_running_loop().sock_sendall(rude, data)
    except (TimeoutError, ConnectionError):
        return


async def exchange(address: str, data: bytes) -> bytes:
    url = httpx.URL(address)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(data)
    try:
        return await reader.read()
    finally:
        writer.close()


async def count_answered(address: str, count: int, token: str | None = None) -> int:
    """Make good calls, each on a connection of its own; return how many were answered."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    answered = 0

    for _ in range(count):
        try:
            async with httpx.AsyncClient(base_url=address, headers=headers, timeout=60) as client:
                answer = await client.post("/api/abilities/get_memory_stats", json={})
        except httpx.TransportError:
            continue

        answered += answer.status_code == 200
    return answered


CALLS = 64
"""How many calls or sockets it has open at a time."""

HUB = "hub"

_PAUSE_SECONDS = 0.05


FILES = {"paths": [f"{n}.txt" for n in range(25)]}


_Call = tuple[str, dict[str, Any]]


class RudeNeighbor:
    """What a tenant does to a server at an address, with a token of its own."""

    def __init__(self, address: str, token: str) -> None:
        self._address = address
        self._host, _, port = address.removeprefix("http://").partition(":")
        self._port = int(port)
        self._headers = {"Authorization": f"Bearer {token}"}

    async def read(self) -> None:
        """Read 25 files, and the largest walks, 64 at a time."""
        walk = {"key": HUB, "depth": 6, "breadth": 20, "total": 50, "direction": "both"}
        calls: list[_Call] = [("file_read_bulk", FILES), ("bulk_read_memory", walk)]
        await self._repeat(calls * (CALLS // 2))

    async def search(self) -> None:
        asked = {"sort_by": "created_at", "limit": 50}
        texts = ("common", "nowhere to be found")
        calls: list[_Call] = [("query_memories", {"search": text, **asked}) for text in texts]
        await self._repeat(calls * (CALLS // 2))

    async def update(self) -> None:
        """Change the score of a memory to which everything links."""
        hub = {"key": HUB, "type": "core", "content": "hub"}
        scores = [n / CALLS for n in range(CALLS)]
        await self._repeat([("store_memory", {**hub, "memory_score": score}) for score in scores])

    async def send_slowly(self) -> None:
        await self._hold_sockets(260, b"Content-Length: 1000\r\n\r\n{")

    async def never_read(self) -> None:
        body = orjson.dumps(FILES)
        rest = b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
        await self._hold_sockets(CALLS, rest, times=50)

    async def _repeat(self, calls: list[_Call]) -> None:
        limits = httpx.Limits(max_connections=CALLS)
        async with httpx.AsyncClient(
            base_url=self._address, headers=self._headers, timeout=60, limits=limits
        ) as client:
            await asyncio.gather(*(self._repeat_call(client, *call) for call in calls))

    async def _repeat_call(self, client: httpx.AsyncClient, name: str, arguments: Any) -> None:
        while True:
            try:
                answer = await client.post(f"/api/abilities/{name}", json=arguments)
            except httpx.TransportError:
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            assert answer.status_code in (200, 429, 503), answer.text
            if answer.status_code != 200:
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _hold_sockets(self, number: int, rest: bytes, *, times: int = 1) -> None:
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


WAYS: dict[str, Callable[[RudeNeighbor], Coroutine[Any, Any, None]]] = {
    "reads": RudeNeighbor.read,
    "searches": RudeNeighbor.search,
    "hub updates": RudeNeighbor.update,
    "slow bodies": RudeNeighbor.send_slowly,
    "unread answers": RudeNeighbor.never_read,
}


if __name__ == "__main__":
    # Its own work must not take the processor from those who are measured: it has another machine.
    os.nice(19)
    _, _address, _token, _way = sys.argv
    asyncio.run(WAYS[_way](RudeNeighbor(_address, _token)))
