"""Clients that are rude to a server: many sockets that send what they like, and read nothing."""

import asyncio
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

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
    """Send bytes on a connection, and return all that comes until the server closes it."""
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
