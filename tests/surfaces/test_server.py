"""`abilities serve`: a real process on loopback, asked by real HTTP and MCP clients, well-behaved and hostile ones."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import uvicorn
from click.testing import CliRunner
from mcp import Client
from starlette.responses import Response

from abilities import Abilities, Settings, render
from abilities.adapters import http as adapter
from abilities.cli.main import main
from abilities.server import bodies, guard, timeouts
from abilities.server.app import create_app
from tests.support.measurements import reached
from tests.support.surfaces import environment, python, read_tool_result

KEYS = [
    "plain",
    "with/slash",
    "with:colon",
    "two words",
    "世界/ä",
    "100%",
    "a?b#c",
    "by-id/x",
    "x/bulk",
]


async def test_http_and_mcp_answer_the_same_bytes_from_one_port(
    served: str, roots: Settings
) -> None:
    (roots.workspace_dir / "a.txt").write_text("served")
    asked = {"paths": ["a.txt", "none"]}
    expected = await python(roots, "file_read_bulk", asked)
    async with httpx.AsyncClient(base_url=served) as client:
        answer = await client.post("/api/abilities/file_read_bulk", json=asked)
        assert answer.json() == expected
        listed = (await client.get("/api/abilities")).json()
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        described = (await client.get("/openapi.json")).json()
        assert (await client.get("/docs")).status_code == 200
    for mode in ("2026-07-28", "legacy"):
        async with Client(f"{served}/mcp", mode=mode) as mcp:
            tools = (await mcp.list_tools()).tools
            assert [tool.name for tool in tools] == [ability["name"] for ability in listed]
            assert read_tool_result(await mcp.call_tool("file_read_bulk", asked)) == expected
    assert {f"/api/abilities/{ability['name']}" for ability in listed} <= described["paths"].keys()


async def test_memories_have_addresses(served: str, roots: Settings) -> None:
    async with httpx.AsyncClient(base_url=served) as client:
        for key in KEYS:
            links = [{"key": other} for other in KEYS if other != key]
            made = await client.post(
                "/api/memories", json={"type": "core", "content": key, "key": key, "links": links}
            )
            assert made.status_code == 200 and made.json()["created"]
        for key in KEYS:
            at = f"/api/memories/{quote(key, safe='')}"
            assert (await client.get(at)).text == render(
                await python(roots, "memory_get", {"key": key})
            )
            bulk = await client.get(f"{at}/bulk", params={"depth": 1, "total": 5, "breadth": 20})
            asked = {"key": key, "depth": 1, "total": 5, "breadth": 20}
            assert bulk.text == render(await python(roots, "bulk_read_memory", asked))
        toon = await client.get("/api/memories/plain/bulk?output_format=toon")
        assert toon.headers["content-type"] == "text/toon; charset=utf-8" and toon.text.startswith(
            "targetMemory:"
        )
        found = (await client.get("/api/memories", params={"search": "two", "limit": 3})).json()
        assert [memory["key"] for memory in found["memories"]] == ["two words"]
        name = found["memories"][0]["id"]
        changed = await client.patch(
            f"/api/memories/by-id/{name}", json={"content": "three", "tags": ["x", "y"]}
        )
        assert changed.json()["updated_fields"] == ["content", "tags"]
        assert (await client.get("/api/memories?tags=x&tags=y")).json()["total"] == 1
        assert (await client.delete(f"/api/memories/by-id/{name}")).json()["action"] == "archived"
        assert (await client.delete(f"/api/memories/by-id/{name}?permanent=true")).json()[
            "action"
        ] == "deleted"
        assert (await client.get("/api/stats")).json()["total_memories"] == len(KEYS) - 1
        assert (await client.get("/api/memories/two%20words")).status_code == 404
        for path, reason in (
            ("/api/memories/with/slash", "unknown_address"),
            ("/api/memories/%FF", "invalid_key"),
            ("/api/memories/plain/bulk?depth=7", "invalid_parameter"),
            ("/api/memories/plain/bulk?depth=1&depth=2", "invalid_parameter"),
            ("/api/memories/plain?no=1", "invalid_parameter"),
            ("/nothing", "unknown_address"),
            ("/api/stats/more", "unknown_address"),
        ):
            refused = await client.get(path)
            assert refused.json()["error"]["reason"] == reason, path
            assert refused.status_code == (400 if reason.startswith("invalid") else 404)
        twice = await client.patch(f"/api/memories/by-id/{name}", json={"id": name, "content": "x"})
        assert (
            twice.json()["error"]
            == (await client.patch("/api/memories/by-id/x", json={"id": 1})).json()["error"]
        )


HOSTS = [
    "evil.example",
    "127.0.0.1.evil.example",
    "localhost.evil.example:80",
    "",
    "127.0.0.1@evil.example",
    "[::2]",
]
ORIGINS = [
    "null",
    "http://evil.example",
    "https://127.0.0.1.evil.example",
    "file://",
    "http://localhost@evil.example",
    "",
]


@pytest.mark.parametrize("path", ["/api/stats", "/mcp", "/healthz", "/docs"])
async def test_h1_foreign_hosts_and_origins_are_refused(path: str, served: str) -> None:
    async with httpx.AsyncClient(base_url=served) as client:
        for host in HOSTS:
            refused = await client.get(path, headers={"Host": host})
            assert refused.status_code in (400, 421), (
                host
            )  # the HTTP parser itself refuses an empty one
        for origin in ORIGINS:
            refused = await client.get(path, headers={"Origin": origin})
            assert (refused.status_code, refused.json()["error"]["reason"]) == (
                403,
                "foreign_origin",
            ), origin
        for origin in ("http://localhost:3000", "http://127.0.0.1", "http://[::1]:5173"):
            assert (await client.get(path, headers={"Origin": origin})).status_code == (
                405 if path == "/mcp" else 200
            )


BODIES: list[tuple[str, bytes, dict[str, str]]] = [
    ("not JSON", b"{", {}),
    ("an array", b"[]", {}),
    ("NaN", b'{"paths": [NaN]}', {}),
    ("infinity", b'{"paths": [-Infinity]}', {}),
    ("two fields of one name", b'{"paths": ["a"], "paths": ["b"]}', {}),
    ("bad UTF-8", b'{"paths": ["\xff"]}', {}),
    ("too deep", b'{"paths": ' + b"[" * 17 + b"]" * 17 + b"}", {}),
    ("very deep", b"[" * 200_000, {}),
    ("plain text", b'{"paths": ["a"]}', {"Content-Type": "text/plain"}),
    ("a form", b"paths=a", {"Content-Type": "application/x-www-form-urlencoded"}),
    ("nothing", b"", {}),
]


@pytest.mark.parametrize(
    ("body", "headers"), [row[1:] for row in BODIES], ids=[row[0] for row in BODIES]
)
async def test_h3_malformed_bodies_are_refused(
    body: bytes, headers: dict[str, str], roots: Settings
) -> None:
    async with Abilities.open(roots) as abilities:
        transport = httpx.ASGITransport(app=create_app(abilities))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            sent = {"Content-Type": "application/json", **headers}
            for method, path in (
                ("POST", "/api/abilities/file_read_bulk"),
                ("POST", "/api/memories"),
            ):
                refused = await client.request(method, path, content=body, headers=sent)
                assert (refused.status_code, refused.json()["error"]["reason"]) == (
                    400,
                    "malformed_request",
                )


async def test_h3_a_large_body_is_refused_before_it_is_taken(served: str) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(300):
            yield b" " * 1024

    async with httpx.AsyncClient(base_url=served) as client:
        kind = {"Content-Type": "application/json"}
        for path in ("/api/abilities/file_read_bulk", "/mcp"):
            for content in (b" " * (bodies.MAX_BODY + 1), chunks()):
                refused = await client.post(path, content=content, headers=kind)
                assert refused.status_code == 413
        fits = await client.post(
            "/api/abilities/get_memory_stats",
            content=b"{}" + b" " * (bodies.MAX_BODY - 2),
            headers=kind,
        )
        assert fits.status_code == 200


async def test_h4_a_slow_body_is_given_up(
    served: str, monkeypatch: pytest.MonkeyPatch, roots: Settings
) -> None:
    monkeypatch.setattr(bodies, "BODY_SECONDS", 0.1)
    said: list[Any] = []

    async def never() -> Any:
        await asyncio.sleep(30)

    async def send(message: Any) -> None:
        said.append(message)

    async with Abilities.open(roots) as abilities:
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/api/memories",
            "headers": [(b"host", b"localhost")],
        }
        await create_app(abilities)(scope, never, send)
    assert said[0]["status"] == 408


@pytest.fixture
async def hurried(
    roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[str, int]]:
    """A server in this process that waits half a second for a request."""
    monkeypatch.setattr(timeouts, "RECEIVE_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listening:
        async with Abilities.open(roots) as abilities:
            config = uvicorn.Config(
                create_app(abilities),
                http=timeouts.TimeoutProtocol,
                log_level="warning",
                lifespan="on",
            )
            server = uvicorn.Server(config)
            running = asyncio.create_task(server.serve(sockets=[listening]))
            yield listening.getsockname()
            server.should_exit = True
            await running


async def test_h4_slow_and_idle_connections_are_closed_and_others_are_served(
    hurried: tuple[str, int],
) -> None:
    async def linger(kind: int) -> float:
        reader, writer = await asyncio.open_connection(*hurried)
        began = asyncio.get_running_loop().time()
        with contextlib.suppress(ConnectionError):
            if kind in (1, 2):
                writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ")
            if kind == 3:
                writer.write(
                    b"POST /api/memories HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"
                )
            while kind == 2 and not reader.at_eof():  # a byte now and then does not help
                writer.write(b"x")
                await (
                    writer.drain()
                )  # a connection that was reset never comes to its end: this is what raises
                await asyncio.sleep(0.05)
            assert b"200 OK" not in await reader.read()
        writer.close()
        return asyncio.get_running_loop().time() - began

    slow = [asyncio.create_task(linger(n % 4)) for n in range(400)]
    await asyncio.sleep(0.2)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{hurried[1]}") as client:
        for _ in range(5):
            assert (await client.get("/healthz")).status_code == 200
            assert (await client.post("/api/abilities/file_list", json={})).status_code == 200
    async with asyncio.timeout(60):
        assert all(waited > 0.2 for waited in await asyncio.gather(*slow))
    reached(9, f"{len(slow)} slow and idle connections closed, others served meanwhile")


async def test_small_answers_are_sent_at_once(
    hurried: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    complete = timeouts.TimeoutProtocol.on_message_complete

    def looked_at(self: timeouts.TimeoutProtocol) -> None:
        seen.append(
            self.transport.get_extra_info("socket").getsockopt(
                socket.IPPROTO_TCP, socket.TCP_NODELAY
            )
        )
        complete(self)

    monkeypatch.setattr(timeouts.TimeoutProtocol, "on_message_complete", looked_at)
    async with httpx.AsyncClient() as client:
        assert (await client.get(f"http://127.0.0.1:{hurried[1]}/healthz")).status_code == 200
    assert len(seen) == 1 and seen[0] != 0


async def test_h4_large_headers_are_refused(hurried: tuple[str, int]) -> None:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{hurried[1]}") as client:
        refused = await client.get("/healthz", headers={"X-Large": "x" * 17_000})
        assert refused.status_code == 431
        assert (await client.get("/healthz", headers={"X-Large": "x" * 15_000})).status_code == 200
    reader, writer = await asyncio.open_connection(*hurried)
    with contextlib.suppress(ConnectionError):
        for _ in range(40):
            writer.write(b"X: " + b"x" * 1_000 + b"\r\n" if _ else b"GET / HTTP/1.1\r\n")
            await writer.drain()
            await asyncio.sleep(0.002)
        assert await reader.read() == b""
    writer.close()


async def test_h6_the_65th_call_is_told_to_come_again(
    roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = asyncio.Event()

    async def slow(*_: Any) -> Any:
        await gate.wait()
        return Response(b"{}")

    monkeypatch.setattr(adapter, "call_ability", slow)
    async with Abilities.open(roots) as abilities:
        transport = httpx.ASGITransport(app=create_app(abilities))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            posts = (
                client.post("/api/abilities/file_list", json={}) for _ in range(guard.MAX_CALLS)
            )
            calls = [asyncio.create_task(post) for post in posts]
            await asyncio.sleep(1)
            refused = await client.get("/api/stats")
            assert (
                await client.get("/healthz")
            ).status_code == 200  # whoever looks after the process is answered
            assert refused.status_code == 429
            assert refused.json()["error"]["reason"] == "overloaded"
            assert refused.headers["retry-after"] == "1"
            gate.set()
            assert {(await call).status_code for call in calls} == {200}
            assert (await client.get("/healthz")).status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.0.1", "::"])
def test_only_loopback_is_served(host: str, roots: Settings) -> None:
    done = CliRunner().invoke(
        main, ["serve", "--host", host, "--port", "0"], env=environment(roots)
    )

    assert done.exit_code == 2
    assert "only 127.0.0.1, ::1, localhost can be served" in done.stderr
