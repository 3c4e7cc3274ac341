"""Rude clients at the HTTP door: they keep no good caller waiting, and the server bounded."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from starlette.responses import Response

from abilities import Abilities, Settings
from abilities.adapters import http as adapter
from abilities.helpers.tokens import TokenFile
from abilities.server import connections, guard
from abilities.server.app import create_app
from abilities.server.headers import MAX_REQUEST_LINE
from abilities.server.telemetry import MAX_REPEATS
from tests.support.measurements import reached
from tests.support.rude import build_request, count_answered, exchange, open_sockets
from tests.support.sample_files import make_roots
from tests.support.serving import LocalServer, Server, serving, serving_locally
from tests.support.tier import size

GOOD_CALLS = size("ABILITIES_GOOD_CALLS", quick=10, full=100)
IDLE_SOCKETS = size("ABILITIES_IDLE_SOCKETS", quick=600, full=2_000)
DESCRIPTORS = size("ABILITIES_DESCRIPTORS", quick=512, full=1_024)
MOST_LOGGED = 2**20
LARGE = "/openapi.json"
"""An answer that no small socket buffer holds."""


class Guarded(NamedTuple):
    """A server that needs tokens, and two of them; ``logged`` bytes are of what was before."""

    server: Server
    rude: str
    good: str
    logged: int = 0


@contextmanager
def serve_guarded(folder: Path) -> Iterator[Guarded]:
    tokens = TokenFile(folder / ".abilities" / "tokens.json")
    rude, good = (tokens.add("default", "write")[1] for _ in range(2))
    settings = make_roots(folder)

    with serving(settings, folder, descriptors=DESCRIPTORS) as server:
        yield Guarded(server, rude, good)
        server.stop()


@pytest.fixture(scope="module")
def shared_guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A server that all rude clients come to, one kind after the other."""
    with serve_guarded(tmp_path_factory.mktemp("guarded")) as guarded:
        yield guarded


@pytest.fixture
def guarded(shared_guarded: Guarded) -> Guarded:
    """The server of all rude clients."""
    return shared_guarded._replace(logged=shared_guarded.server.log.stat().st_size)


@pytest.fixture
def new_guarded(tmp_path: Path) -> Iterator[Guarded]:
    """A server that nobody has been rude to, and whose log is empty."""
    with serve_guarded(tmp_path) as guarded:
        yield guarded


async def check_good_calls(guarded: Guarded, attack: str) -> None:
    """Check that good calls are answered meanwhile, and that little is logged."""
    answered = await count_answered(guarded.server.address, GOOD_CALLS, guarded.good)
    logged = guarded.server.log.stat().st_size - guarded.logged

    assert answered >= 0.99 * GOOD_CALLS
    assert logged <= MOST_LOGGED
    reached(14, f"{attack}: {answered} of {GOOD_CALLS} good calls, {logged:,} bytes of log")


@pytest.mark.parametrize("needs_token", [True, False])
async def test_h7_answers_that_nobody_reads_keep_no_good_caller_waiting(
    needs_token: bool, guarded: Guarded
) -> None:
    path, token = (LARGE, guarded.rude) if needs_token else ("/explorer/app.js", None)
    requests = build_request("GET", path, token) * 100

    async with open_sockets(guarded.server.address, 64, requests):
        await check_good_calls(guarded, f"64 that never read {path}")


async def test_h7_without_tokens_connections_that_read_nothing_hold_no_call(served: str) -> None:
    async with open_sockets(served, 64, build_request("GET", LARGE) * 100):
        assert await count_answered(served, GOOD_CALLS) >= 0.99 * GOOD_CALLS


@pytest.mark.parametrize("path", ["/healthz", "/api/memories", "/mcp"])
async def test_h4_slow_bodies_keep_no_good_caller_waiting(path: str, guarded: Guarded) -> None:
    request = build_request("POST", path, guarded.rude, length=1_000) + b"{"

    async with open_sockets(guarded.server.address, 260, request):
        await check_good_calls(guarded, f"260 slow bodies for {path}")


async def test_h4_idle_sockets_beyond_the_descriptors_keep_no_good_caller_out(
    new_guarded: Guarded,
) -> None:
    async with open_sockets(new_guarded.server.address, IDLE_SOCKETS):
        name = f"{IDLE_SOCKETS:,} idle sockets with {DESCRIPTORS:,} descriptors"
        await check_good_calls(new_guarded, name)

    assert "too many connections" in new_guarded.server.log.read_text()


async def test_h7_pipelined_requests_are_answered_one_by_one(local: LocalServer) -> None:
    body = b'{"key": "none"}'
    call = build_request("POST", "/api/abilities/memory_get", length=len(body)) + body
    last = build_request("GET", "/healthz").replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")

    answers = await exchange(
        local.address, (build_request("GET", "/api/stats") + call) * 100 + last
    )

    statuses = [answer[:3] for answer in answers.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [b"200", b"404"] * 100 + [b"200"]


async def test_h7_pipelined_requests_wait_in_the_kernel(guarded: Guarded) -> None:
    async with open_sockets(guarded.server.address, 20, build_request("GET", "/healthz") * 20_000):
        await check_good_calls(guarded, "20 that pipeline 20,000 requests")
        status = Path(f"/proc/{guarded.server.process.pid}/status").read_text()

    (most,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    assert int(most.split()[1]) < 256 * 1024  # kB; each parsed request takes four


async def test_h7_a_path_that_takes_no_body_refuses_one_at_once(guarded: Guarded) -> None:
    for path in ("/healthz", "/readyz", "/", "/docs"):
        for header in ("Content-Length: 9", "Transfer-Encoding: chunked"):
            head = build_request("POST", path)[:-2] + header.encode() + b"\r\n\r\n"
            answer = await exchange(guarded.server.address, head)

            assert answer.startswith(b"HTTP/1.1 405 "), path
            assert b"unknown_address" in answer


async def test_h2_a_wrong_token_is_refused_before_its_body_comes(guarded: Guarded) -> None:
    head = build_request("POST", "/api/memories", "abl_wrong", length=100)
    url = httpx.URL(guarded.server.address)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(head)

    assert (await reader.readline()).startswith(b"HTTP/1.1 401 ")
    writer.close()


@pytest.mark.parametrize("is_whole", [True, False])
async def test_h4_a_long_request_line_is_refused(is_whole: bool, guarded: Guarded) -> None:
    line = b"GET /" + b"x" * MAX_REQUEST_LINE
    end = b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

    answer = await exchange(guarded.server.address, line + end * is_whole)

    assert answer.startswith(b"HTTP/1.1 414 ")
    assert b"malformed_request" in answer


async def test_refusals_are_logged_a_few_times_a_second(new_guarded: Guarded) -> None:
    began = time.monotonic()
    requests = (
        build_request("GET", "/api/stats", "wrong"),
        build_request("GET", "/api/stats").replace(b"localhost", b"elsewhere"),
        b"NONSENSE\r\n\r\n",
    )
    for _ in range(100):
        for data in requests:
            async with open_sockets(new_guarded.server.address, 1, data):
                pass

    assert await count_answered(new_guarded.server.address, 1, new_guarded.good) == 1
    seconds = time.monotonic() - began + 2
    lines = new_guarded.server.log.read_text().splitlines()

    # Two kinds of lines, and one with a count for each.
    assert len(lines) <= 2 * (MAX_REPEATS + 1) * seconds + 2


@pytest.fixture
async def local(roots: Settings) -> AsyncIterator[LocalServer]:
    async with serving_locally(roots) as server:
        yield server


async def test_h7_an_answer_that_nobody_reads_is_aborted(
    local: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "UNREAD_SECONDS", 0.2)

    async with open_sockets(local.address, 1, build_request("GET", LARGE) * 100):
        async with asyncio.timeout(60):
            while local.server.server_state.total_requests == 0:
                await asyncio.sleep(0.05)
            while local.server.server_state.connections:
                await asyncio.sleep(0.05)

    assert local.server.server_state.total_requests <= 5  # the kernel holds few answers


async def test_a_server_stops_in_time_whatever_its_calls_do(
    local: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, never = asyncio.Event(), asyncio.Event()

    async def hang(*_: Any) -> Any:
        began.set()
        await never.wait()

    monkeypatch.setattr(adapter, "call_ability", hang)
    monkeypatch.setattr(connections, "STOP_SECONDS", 0.5)
    call = asyncio.create_task(count_answered(local.address, 1))
    await began.wait()
    local.server.should_exit = True

    async with asyncio.timeout(60):
        await local.running

    never.set()
    await call


async def test_h6_callers_share_while_one_of_them_is_refused(
    roots: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = roots.model_copy(update={"tokens_file": tmp_path / "tokens.json"})
    waiting: list[asyncio.Event] = []

    async def wait(*_: Any) -> Any:
        gate = asyncio.Event()
        waiting.append(gate)
        await gate.wait()
        return Response(b"{}")

    monkeypatch.setattr(adapter, "call_ability", wait)
    tokens = TokenFile(settings.tokens_file)
    noisy, quiet = (
        {"Authorization": f"Bearer {tokens.add('default', 'read')[1]}"} for _ in range(2)
    )
    async with Abilities.open(settings) as abilities:
        transport = httpx.ASGITransport(app=create_app(abilities))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:

            def call(headers: dict[str, str]) -> asyncio.Task[httpx.Response]:
                post = client.post("/api/abilities/file_list", json={}, headers=headers)
                return asyncio.create_task(post)

            async def begin(headers: dict[str, str], count: int) -> list[asyncio.Task[Any]]:
                expected = len(waiting) + count
                calls = [call(headers) for _ in range(count)]
                while len(waiting) < expected:
                    await asyncio.sleep(0.01)
                return calls

            calls = await begin(noisy, guard.MAX_CALLS)
            calls += await begin(quiet, 32)  # its share, while the other holds all places
            for headers in (quiet, noisy):
                refused = await call(headers)
                assert refused.status_code == 429
                assert refused.headers["retry-after"] == "1"
                assert refused.json()["error"]["reason"] == "overloaded"

            for gate in waiting[: guard.MAX_CALLS]:
                gate.set()
            while sum(one.done() for one in calls) < guard.MAX_CALLS:
                await asyncio.sleep(0.01)

            calls += await begin(noisy, 32)
            for headers in (quiet, noisy):
                assert (await call(headers)).status_code == 429

            for gate in waiting:
                gate.set()
            assert {(await one).status_code for one in calls} == {200}
