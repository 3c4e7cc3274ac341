"""The streams by which the explorer's open pages learn of changes, over real connections."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest

from abilities import Abilities, Settings
from abilities.helpers.memory.namespaces import NamespaceReader
from abilities.helpers.tokens import TokenFile
from abilities.server import events as events_module
from abilities.server.events import EVENTS
from tests.support.serving import serving, serving_locally
from tests.support.waiting import GIVE_UP_SECONDS, wait_until

MEMORY = {"type": "core", "content": "x"}


class Page:
    """A page that follows a stream."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.aiter_lines()

    async def read_line(self) -> str:
        """Return the next line that is not empty. Raises StopAsyncIteration at the end."""
        async with asyncio.timeout(GIVE_UP_SECONDS):
            line = await anext(self._lines)
            return line or await self.read_line()

    async def read_number(self) -> int:
        """Return the number of the next event."""
        line = await self.read_line()
        while line.startswith(":"):
            line = await self.read_line()

        return int(line.removeprefix("data: "))

    async def expect_end(self) -> None:
        """Read until the stream ends, whether the server ends the response or the connection."""
        with pytest.raises((StopAsyncIteration, httpx.RemoteProtocolError)):
            while True:
                await self.read_line()


@asynccontextmanager
async def open_page(
    address: str, token: str | None = None, namespace: str = ""
) -> AsyncIterator[Page]:
    headers = {"X-Abilities-Namespace": namespace} if namespace else {}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"

    async with (
        httpx.AsyncClient(base_url=address, headers=headers, timeout=GIVE_UP_SECONDS) as client,
        client.stream("GET", EVENTS) as response,
    ):
        yield Page(response)


async def store(settings: Settings, namespace: str = "default") -> None:
    async with Abilities.open(settings) as abilities:
        await abilities.for_namespace(namespace).call("store_memory", MEMORY)


async def test_every_page_learns_what_another_process_wrote_and_a_shutdown_ends_its_stream(
    roots: Settings, tmp_path: Path
) -> None:
    hurry = "from abilities.server import events; events.LOOK_SECONDS = 0.05"
    with serving(roots, tmp_path, before=hurry) as server:
        async with open_page(server.address) as first, open_page(server.address) as second:
            assert first.response.headers["content-type"].startswith("text/event-stream")
            pages = (first, second)
            assert [await page.read_number() for page in pages] == [0, 0]

            for expected in (1, 2):
                await store(roots)
                assert [await page.read_number() for page in pages] == [expected, expected]

            log = await asyncio.to_thread(server.stop)
            assert "stopped before all calls had ended" not in log
            for page in pages:
                await page.expect_end()


async def test_the_store_is_asked_once_for_all_pages_and_not_without_any(
    roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_latest = NamespaceReader.read_latest
    asking, most = 0, 0

    async def read_slowly(reader: NamespaceReader) -> int:
        nonlocal asking, most
        asking += 1
        most = max(most, asking)
        await asyncio.sleep(0.05)
        asking -= 1
        return await read_latest(reader)

    monkeypatch.setattr(NamespaceReader, "read_latest", read_slowly)
    monkeypatch.setattr(events_module, "LOOK_SECONDS", 0.0)

    async with serving_locally(roots) as server:
        async with AsyncExitStack() as stack:
            pages = [await stack.enter_async_context(open_page(server.address)) for _ in range(5)]
            await store(roots)
            for page in pages:
                while await page.read_number() != 1:
                    pass
            assert is_looking()

        assert most == 1
        await wait_until(lambda: not is_looking())


def is_looking() -> bool:
    return "abilities-events" in [task.get_name() for task in asyncio.all_tasks()]


async def test_a_page_learns_of_the_namespace_that_it_may_read_alone(
    private: Settings, tokens: TokenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_module, "LOOK_SECONDS", 0.01)
    ada = tokens.add("ada", "read", reads=("team",))[1]

    async with serving_locally(private) as server:
        for token, namespace, status in ((None, "", 401), (ada, "other", 403)):
            async with open_page(server.address, token, namespace) as refused:
                assert refused.response.status_code == status

        async with open_page(server.address, ada) as own:
            assert await own.read_number() == 0
            async with open_page(server.address, ada, "team") as team:
                assert await team.read_number() == 0

                await store(private, "team")
                await store(private, "team")
                while await team.read_number() != 2:
                    pass
                await store(private, "ada")
                assert await own.read_number() == 1


async def test_a_stream_ends_when_its_token_is_revoked(
    private: Settings, tokens: TokenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_module, "COMMENT_SECONDS", 0.1)
    added, text = tokens.add("ada", "read")

    async with serving_locally(private) as server, open_page(server.address, text) as page:
        assert await page.read_number() == 0
        assert (await page.read_line()).startswith(":")

        tokens.revoke(added.id)
        await page.expect_end()


async def test_more_streams_than_the_bounds_are_refused_and_other_calls_are_not(
    private: Settings, tokens: TokenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_module, "MAX_STREAMS", 3)
    monkeypatch.setattr(events_module, "MAX_TOKEN_STREAMS", 2)
    ada, bob, eve = (tokens.add(name, "read")[1] for name in ("ada", "bob", "eve"))

    async with serving_locally(private) as server, AsyncExitStack() as stack:

        async def open_status(token: str) -> int:
            page = await stack.enter_async_context(open_page(server.address, token))
            return page.response.status_code

        async with open_page(server.address, ada) as closed:
            assert closed.response.status_code == 200
            assert [await open_status(ada), await open_status(ada)] == [200, 429]
            assert [await open_status(bob), await open_status(eve)] == [200, 429]

        status = 429
        while status == 429:  # until the server has noticed that a page was closed
            status = await open_status(eve)
        assert status == 200

        async with httpx.AsyncClient(base_url=server.address) as client:
            answer = await client.get("/api/stats", headers={"Authorization": f"Bearer {eve}"})
            assert answer.status_code == 200


async def test_a_stream_gives_way_if_there_are_too_many_connections(
    roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("abilities.server.connections.MAX_CONNECTIONS", 2)

    async with (
        serving_locally(roots) as server,
        open_page(server.address) as first,
        open_page(server.address) as second,
        httpx.AsyncClient(base_url=server.address) as client,
    ):
        assert (await client.get("/healthz")).status_code == 200
        await first.expect_end()
        assert await second.read_number() == 0


async def test_open_streams_take_no_place_of_a_call(
    roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("abilities.server.guard.MAX_CALLS", 1)

    async with (
        serving_locally(roots) as server,
        open_page(server.address),
        open_page(server.address),
        httpx.AsyncClient(base_url=server.address) as client,
    ):
        assert (await client.get("/api/stats")).status_code == 200
