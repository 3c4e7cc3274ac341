"""A TCP proxy that can stop forwarding, as a network or a server that stalls."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit


class Proxy:
    """Forwards connections to an address while it runs; a stalled one keeps what it is sent."""

    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        self._host, self._port = parts.hostname, parts.port
        self._runs = asyncio.Event()
        self._runs.set()
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: list[asyncio.Task[None]] = []

    def stall(self) -> None:
        self._runs.clear()

    def resume(self) -> None:
        self._runs.set()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[int]:
        async with await asyncio.start_server(self._accept, "127.0.0.1", 0) as listener:
            yield listener.sockets[0].getsockname()[1]
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        self._tasks.append(asyncio.create_task(self._forward(reader, writer)))

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._runs.wait()
        far_reader, far_writer = await asyncio.open_connection(self._host, self._port)
        self._writers.append(far_writer)
        await asyncio.gather(self._copy(reader, far_writer), self._copy(far_reader, writer))

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                await self._runs.wait()
                writer.write(data)
                await writer.drain()
        writer.close()


@asynccontextmanager
async def forwarding(url: str) -> AsyncIterator[tuple[Proxy, str]]:
    parts = urlsplit(url)
    proxy = Proxy(url)
    async with proxy.listening() as port:
        user = parts.netloc.rpartition("@")[0]
        yield proxy, parts._replace(netloc=f"{user}@127.0.0.1:{port}").geturl()
