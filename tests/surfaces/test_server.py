"""`abilities serve` on loopback, called by real HTTP and MCP clients, friendly and hostile."""

import asyncio
import contextlib
import os
import re
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from mcp import Client

from abilities import Abilities, Settings, parse_text, render
from abilities.helpers.tokens import TokenFile
from abilities.server import connections, guard
from abilities.server.app import create_app
from tests.support.measurements import reached
from tests.support.memory_cases import nest
from tests.support.rude import build_request
from tests.support.serving import LocalServer, serving, serving_app, serving_locally
from tests.support.sources import ROOT
from tests.support.surfaces import SURFACES, python, read_tool_result
from tests.support.tier import size
from tests.surfaces.test_tokens import with_oauth

KEYS = ["plain", "with/slash", "a:b", "two words", "世界/ä", "100%", "a?b#c", "by-id/x", "x/bulk"]
MEMORY = {"type": "core", "content": "x"}


@pytest.fixture
async def local(roots: Settings) -> AsyncIterator[LocalServer]:
    async with serving_locally(roots) as server:
        yield server


@pytest.fixture
async def client(local: LocalServer) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=local.address) as client:
        yield client


async def test_http_and_mcp_answer_the_same_bytes_from_one_port(
    client: httpx.AsyncClient, local: LocalServer, roots: Settings
) -> None:
    (roots.workspace_dir / "a.txt").write_text("served")
    arguments = {"paths": ["a.txt", "none"]}
    expected = await python(roots, "file_read_bulk", arguments)

    answer = await client.post("/api/abilities/file_read_bulk", json=arguments)
    assert answer.json() == expected
    listed = [ability["name"] for ability in (await client.get("/api/abilities")).json()]
    described = (await client.get("/openapi.json")).json()
    assert {f"/api/abilities/{name}" for name in listed} <= described["paths"].keys()

    for mode in ("2026-07-28", "legacy"):
        async with Client(f"{local.address}/mcp", mode=mode) as mcp:
            assert [tool.name for tool in (await mcp.list_tools()).tools] == listed
            assert read_tool_result(await mcp.call_tool("file_read_bulk", arguments)) == expected


@pytest.mark.requirement("R1.8.2", "R4.2.1", "R4.2.6", "R4.4.5", "R4.6.2")
async def test_memories_have_addresses(client: httpx.AsyncClient, roots: Settings) -> None:
    for key in KEYS:
        links = [{"key": other} for other in KEYS if other != key]
        memory = {**MEMORY, "key": key, "links": links}
        answer = await client.post("/api/memories", json=memory)
        assert answer.status_code == 200 and answer.json()["created"]

    limits = {"depth": 1, "total": 5, "breadth": 20}
    async with Abilities.open(roots) as abilities:
        for key in KEYS:
            address = f"/api/memories/{quote(key, safe='')}"
            expected = await abilities.call("memory_get", {"key": key})
            assert (await client.get(address)).text == render(expected)

            expected = await abilities.call("bulk_read_memory", {"key": key, **limits})
            assert (await client.get(f"{address}/bulk", params=limits)).text == render(expected)

    toon = await client.get("/api/memories/plain/bulk?output_format=toon")
    assert toon.headers["content-type"] == "text/toon; charset=utf-8"
    assert toon.text.startswith("targetMemory:")

    for address, name in (("plain", "memory_get"), ("plain/bulk", "bulk_read_memory")):
        text = await client.get(f"/api/memories/{address}?output_format=text")
        assert text.headers["content-type"] == "text/plain; charset=utf-8"
        assert parse_text(text.text) == await python(roots, name, {"key": "plain"})


async def test_a_memory_is_found_changed_and_deleted_by_its_id(
    client: httpx.AsyncClient,
) -> None:
    for key in ("plain", "two words"):
        await client.post("/api/memories", json={"type": "core", "content": key, "key": key})

    page = (await client.get("/api/memories", params={"search": "two", "limit": 3})).json()
    assert [memory["key"] for memory in page["memories"]] == ["two words"]

    memory_id = page["memories"][0]["id"]
    address = f"/api/memories/by-id/{memory_id}"
    updated = await client.patch(address, json={"content": "three", "tags": ["x", "y"]})
    assert updated.json()["updated_fields"] == ["content", "tags"]
    assert (await client.get("/api/memories?tags=x&tags=y")).json()["total"] == 1

    assert (await client.delete(address)).json()["action"] == "archived"
    assert (await client.delete(f"{address}?permanent=true")).json()["action"] == "deleted"
    assert (await client.get("/api/stats")).json()["total_memories"] == 1
    assert (await client.get("/api/memories/two%20words")).status_code == 404

    twice = await client.patch(address, json={"id": memory_id, "content": "x"})
    wrong = await client.patch("/api/memories/by-id/x", json={"id": 1})
    assert twice.json()["error"] == wrong.json()["error"]


async def test_a_memory_is_changed_and_deleted_by_its_key(client: httpx.AsyncClient) -> None:
    other = (await client.post("/api/memories", json={**MEMORY, "key": "other"})).json()["id"]
    for key in KEYS:
        stored = (await client.post("/api/memories", json={**MEMORY, "key": key})).json()
        address = f"/api/memories/{quote(key, safe='')}"

        for refused in (  # the address of a key names no other memory
            await client.patch(address, json={"id": other, "content": "three"}),
            await client.delete(address, params={"id": other}),
            await client.get(f"{address}/history", params={"id": other}),
        ):
            assert refused.status_code == 400
            assert refused.json()["error"]["reason"] == "repeated_argument"

        updated = await client.patch(address, json={"content": "three"})
        deleted = await client.delete(f"{address}?permanent=true")

        assert updated.json()["updated_fields"] == ["content"]
        assert deleted.json() == {"success": True, "action": "deleted", "id": stored["id"]}
        assert (await client.delete(address)).status_code == 404
    assert (await client.get("/api/memories/other")).json()["data"]["content"] == "x"


@pytest.mark.requirement("R4.4.5", "R4.6.2")
async def test_a_wrong_address_or_parameter_is_refused(
    client: httpx.AsyncClient,
) -> None:
    await client.post("/api/memories", json={**MEMORY, "key": "plain"})

    for path, reason in (
        ("/api/memories/with/slash", "unknown_address"),
        ("/api/memories/%FF", "invalid_key"),
        ("/api/memories/plain/bulk?depth=7", "out_of_range"),
        ("/api/memories/plain/bulk?depth=1&depth=2", "wrong_type"),
        ("/api/memories/plain?no=1", "unknown_argument"),
        ("/api/memories/plain?key=other", "repeated_argument"),
        ("/nothing", "unknown_address"),
        ("/api/stats/more", "unknown_address"),
    ):
        refused = await client.get(path)
        assert refused.status_code == (404 if reason == "unknown_address" else 400), path
        assert refused.json()["error"]["reason"] == reason, path


HOSTS = """
    evil.example evil.example:127 127.0.0.1.evil.example localhost.evil.example:80
    127.0.0.1@evil.example 127.1 2130706433 0.0.0.0 [::2]
"""
ORIGINS = """
    null file:// http://evil.example https://127.0.0.1.evil.example http://localhost@evil.example
    http://localhost/ http://localhost:80:80 http://0.0.0.0 http://[ http://[::1 http://[::2]:80
    chrome-extension://abc
"""
OAUTH_PATHS = ("/authorize", "/oauth/approve", "/token", "/register", "/revoke")
OWN_ORIGINS = ["http://localhost:3000", "http://127.0.0.1", "http://[::1]:5173"]


async def test_h1_hostile_hosts_and_origins_are_refused(client: httpx.AsyncClient) -> None:
    await check_hosts_and_origins(client, "127.0.0.1")


@with_oauth
async def test_h1_hostile_hosts_and_origins_are_refused_beyond_loopback_too(
    roots: Settings, tmp_path: Path, changes: dict[str, Any]
) -> None:
    if changes:
        public = {**changes, "public_url": "https://memory.example"}
        roots = Settings(**{**roots.model_dump(exclude_unset=True), **public})

    token = TokenFile(tmp_path / ".abilities" / "tokens.json").add("default", "read")[1]
    bearer = {"Authorization": f"Bearer {token}"}

    with serving(roots, tmp_path, "--host", "0.0.0.0") as server:
        async with httpx.AsyncClient(base_url=server.address, headers=bearer) as client:
            await check_hosts_and_origins(client, "0.0.0.0")
            for path in OAUTH_PATHS if changes else ():
                for host in HOSTS.split():
                    refused = await client.get(path, headers={"Host": host})
                    assert refused.status_code == 421, (path, host)
                for origin in ORIGINS.split():
                    refused = await client.get(path, headers={"Origin": origin})
                    assert refused.status_code == 403, (path, origin)
        server.stop()


async def check_hosts_and_origins(client: httpx.AsyncClient, bound: str) -> None:
    for path in ("/api/stats", "/mcp", "/healthz", "/docs"):
        few = None if path == "/api/stats" else 2
        for host in ["", *HOSTS.split()][:few]:
            refused = await client.get(path, headers={"Host": host})
            # The HTTP parser itself may refuse an empty host.
            assert refused.status_code in (421, 421 if host else 400), (path, host)

        for origin in ["", *ORIGINS.split()][:few]:
            refused = await client.get(path, headers={"Origin": origin})
            assert refused.status_code == 403, (path, origin)
            assert refused.json()["error"]["reason"] == "foreign_origin"

        for origin in OWN_ORIGINS:
            answer = await client.get(path, headers={"Origin": origin})
            assert answer.status_code == (405 if path == "/mcp" else 200), (path, origin)

    count = len((HOSTS + ORIGINS).split()) + 2
    reached(9, f"{count} of {count} hostile hosts and origins refused on {bound}")


JSON = "application/json"
BODIES = {
    "not JSON": (b"{", JSON),
    "an array": (b"[]", JSON),
    "NaN": (b'{"paths": [NaN]}', JSON),
    "infinity": (b'{"paths": [-Infinity]}', JSON),
    "two fields of one name": (b'{"paths": ["a"], "paths": ["b"]}', JSON),
    "bad UTF-8": (b'{"paths": ["\xff"]}', JSON),
    "too deep": (b'{"paths": ' + b"[" * 17 + b"]" * 17 + b"}", JSON),
    "very deep": (b"[" * 200_000, JSON),
    "plain text": (b'{"paths": ["a"]}', "text/plain"),
    "a form": (b"paths=a", "application/x-www-form-urlencoded"),
    "nothing": (b"", JSON),
}


async def test_h3_malformed_bodies_are_refused(client: httpx.AsyncClient) -> None:
    for kind, (body, media) in BODIES.items():
        for path in ("/api/abilities/file_read_bulk", "/api/memories"):
            refused = await client.post(path, content=body, headers={"Content-Type": media})
            assert refused.status_code == 400, kind
            assert refused.json()["error"]["reason"] == "malformed_request", kind


async def test_h3_a_large_body_is_refused_before_it_is_taken(client: httpx.AsyncClient) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(300):
            yield b" " * 1024

    headers = {"Content-Type": JSON}
    for path in ("/api/abilities/file_read_bulk", "/mcp"):
        for content in (b" " * (guard.MAX_BODY + 1), chunks()):
            refused = await client.post(path, content=content, headers=headers)
            assert refused.status_code == 413

    largest = b"{}" + b" " * (guard.MAX_BODY - 2)
    fits = await client.post("/api/abilities/get_memory_stats", content=largest, headers=headers)
    assert fits.status_code == 200


async def test_h4_a_slow_body_is_given_up(monkeypatch: pytest.MonkeyPatch, roots: Settings) -> None:
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.1)
    sent: list[Any] = []
    headers = [(b"host", b"localhost")]
    scope = {"type": "http", "method": "POST", "path": "/api/memories", "headers": headers}

    async def receive_nothing() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    async with serving_app(roots) as served:
        await create_app(served.abilities)(scope, receive_nothing, send)

    assert sent[0]["status"] == 408


@pytest.fixture
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "RECEIVE_SECONDS", 0.5)


async def test_h4_slow_and_idle_connections_are_closed_and_others_are_served(
    impatience: None, client: httpx.AsyncClient
) -> None:
    clock = asyncio.get_running_loop()
    address = (client.base_url.host, client.base_url.port)
    open_count = 0

    async def linger(kind: int) -> float:
        nonlocal open_count
        began = clock.time()  # before the server's own clock for the connection
        reader, writer = await asyncio.open_connection(*address)
        open_count += 1

        with contextlib.suppress(ConnectionError):
            if kind in (1, 2):
                writer.write(build_request("GET", "/healthz")[:-2] + b"X: ")
            if kind == 3:
                writer.write(build_request("POST", "/api/memories", length=9) + b"{")
            while kind == 2 and not reader.at_eof():  # a byte now and then does not help
                writer.write(b"x")
                # A connection that was reset never comes to its end: this is what raises.
                await writer.drain()
                await asyncio.sleep(0.05)
            assert b"200 OK" not in await reader.read()

        writer.close()
        return clock.time() - began

    slow = [asyncio.create_task(linger(n % 4)) for n in range(200)]
    while open_count < len(slow):
        await asyncio.sleep(0.01)

    for _ in range(5):
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.post("/api/abilities/file_list", json={})).status_code == 200

    async with asyncio.timeout(60):
        waits = await asyncio.gather(*slow)

    assert all(wait > 0.2 for wait in waits)
    reached(9, f"{len(slow)} slow and idle connections closed, others served meanwhile")


async def test_a_small_answer_is_sent_at_once(
    client: httpx.AsyncClient, local: LocalServer
) -> None:
    assert (await client.get("/healthz")).status_code == 200

    (connection,) = local.server.server_state.connections
    connected = connection.transport.get_extra_info("socket")
    assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


async def test_h4_large_headers_are_refused(impatience: None, client: httpx.AsyncClient) -> None:
    for length, status in ((17_000, 431), (15_000, 200)):
        answer = await client.get("/healthz", headers={"X-Large": "x" * length})
        assert answer.status_code == status

    url = client.base_url
    reader, writer = await asyncio.open_connection(url.host, url.port)
    with contextlib.suppress(ConnectionError):
        writer.write(b"GET / HTTP/1.1\r\n")
        for _ in range(40):
            writer.write(b"X: " + b"x" * 1_000 + b"\r\n")
            await writer.drain()
            await asyncio.sleep(0.002)

        assert await reader.read() == b""

    writer.close()


@pytest.mark.parametrize("surface", SURFACES)
async def test_metadata_of_16_levels_passes_every_surface(surface: str, roots: Settings) -> None:
    stored = await SURFACES[surface](
        roots, "store_memory", {**MEMORY, "key": "k", "metadata": nest(16)}
    )

    assert stored["memory"]["metadata"] == {**nest(16), "memory_score": 0.6}


EXAMPLES = str(size("ABILITIES_API_EXAMPLES", quick=1, full=3))
"""How many requests are generated per operation and phase; `make torture` generates more."""


@pytest.mark.requirement("R1.8.2")
@pytest.mark.thorough
def test_every_check_of_schemathesis_passes(served: str, roots: Settings, tmp_path: Path) -> None:
    (roots.workspace_dir / "a.txt").write_text("a")
    options = f"--checks all --max-examples {EXAMPLES} --seed 1 --generation-database none"
    program = str(Path(sys.executable).with_name("schemathesis"))
    command = [program, "run", f"{served}/openapi.json", "--no-color", *options.split()]
    variables = {"SCHEMATHESIS_HOOKS": "tests.support.openapi_hooks", "PYTHONPATH": str(ROOT)}

    done = subprocess.run(
        command, env={**os.environ, **variables}, cwd=tmp_path, capture_output=True
    )
    report = done.stdout.decode()

    assert done.returncode == 0, report[-8_000:] + done.stderr.decode()
    operations = len(httpx.get(f"{served}/openapi.json").json()["paths"])
    tested = re.search(r"Tested: (\d+)", report)
    assert tested and int(tested[1]) >= operations >= 17
    generated = re.search(r"(\d+) generated", report)
    assert generated and int(generated[1]) > 100
