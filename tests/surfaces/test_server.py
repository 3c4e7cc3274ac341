"""`abilities serve` on loopback, called by real HTTP and MCP clients, friendly and hostile."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from click.testing import CliRunner
from mcp import Client
from starlette.responses import Response

from abilities import Abilities, Settings, parse_text, render
from abilities.adapters import http as adapter
from abilities.cli.main import main
from abilities.helpers.tokens import Scope, TokenFile
from abilities.server import connections, guard
from abilities.server.app import create_app
from tests.support.measurements import reached
from tests.support.memory_cases import nest
from tests.support.serving import serving_locally
from tests.support.surfaces import SURFACES, environment, python, read_tool_result

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
    arguments = {"paths": ["a.txt", "none"]}
    expected = await python(roots, "file_read_bulk", arguments)

    async with httpx.AsyncClient(base_url=served) as client:
        answer = await client.post("/api/abilities/file_read_bulk", json=arguments)
        assert answer.json() == expected
        listed = (await client.get("/api/abilities")).json()
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        described = (await client.get("/openapi.json")).json()
        assert (await client.get("/docs")).status_code == 200

    for mode in ("2026-07-28", "legacy"):
        async with Client(f"{served}/mcp", mode=mode) as mcp:
            tools = (await mcp.list_tools()).tools
            assert [tool.name for tool in tools] == [ability["name"] for ability in listed]
            assert read_tool_result(await mcp.call_tool("file_read_bulk", arguments)) == expected

    assert {f"/api/abilities/{ability['name']}" for ability in listed} <= described["paths"].keys()


@pytest.fixture
async def local(roots: Settings) -> AsyncIterator[str]:
    """The address of a server in this process."""
    async with serving_locally(roots) as server:
        yield server.address


@pytest.mark.requirement("R1.8.2", "R4.2.1", "R4.2.6", "R4.4.5", "R4.6.2")
async def test_memories_have_addresses(local: str, roots: Settings) -> None:
    async with httpx.AsyncClient(base_url=local) as client:
        for key in KEYS:
            links = [{"key": other} for other in KEYS if other != key]
            memory = {"type": "core", "content": key, "key": key, "links": links}
            answer = await client.post("/api/memories", json=memory)
            assert answer.status_code == 200 and answer.json()["created"]

        for key in KEYS:
            address = f"/api/memories/{quote(key, safe='')}"
            limits = {"depth": 1, "total": 5, "breadth": 20}
            expected = await python(roots, "memory_get", {"key": key})
            expected_bulk = await python(roots, "bulk_read_memory", {"key": key, **limits})

            assert (await client.get(address)).text == render(expected)
            bulk = await client.get(f"{address}/bulk", params=limits)
            assert bulk.text == render(expected_bulk)

        toon = await client.get("/api/memories/plain/bulk?output_format=toon")
        assert toon.headers["content-type"] == "text/toon; charset=utf-8"
        assert toon.text.startswith("targetMemory:")

        for address, name in (("plain", "memory_get"), ("plain/bulk", "bulk_read_memory")):
            text = await client.get(f"/api/memories/{address}?output_format=text")
            assert text.headers["content-type"] == "text/plain; charset=utf-8"
            assert parse_text(text.text) == await python(roots, name, {"key": "plain"})


async def test_a_memory_is_searched_changed_and_deleted_by_its_id(
    local: str, roots: Settings
) -> None:
    async with httpx.AsyncClient(base_url=local) as client:
        for key in KEYS:
            await python(roots, "store_memory", {"type": "core", "content": key, "key": key})

        page = (await client.get("/api/memories", params={"search": "two", "limit": 3})).json()
        assert [memory["key"] for memory in page["memories"]] == ["two words"]

        memory_id = page["memories"][0]["id"]
        address = f"/api/memories/by-id/{memory_id}"
        updated = await client.patch(address, json={"content": "three", "tags": ["x", "y"]})
        assert updated.json()["updated_fields"] == ["content", "tags"]
        assert (await client.get("/api/memories?tags=x&tags=y")).json()["total"] == 1

        archived = await client.delete(address)
        deleted = await client.delete(f"{address}?permanent=true")
        assert archived.json()["action"] == "archived"
        assert deleted.json()["action"] == "deleted"
        assert (await client.get("/api/stats")).json()["total_memories"] == len(KEYS) - 1
        assert (await client.get("/api/memories/two%20words")).status_code == 404

        twice = await client.patch(address, json={"id": memory_id, "content": "x"})
        wrong = await client.patch("/api/memories/by-id/x", json={"id": 1})
        assert twice.json()["error"] == wrong.json()["error"]


async def test_the_address_of_a_key_names_no_other_memory(local: str, roots: Settings) -> None:
    stored = [
        await python(roots, "store_memory", {"type": "core", "content": "x", "key": key})
        for key in ("one", "two")
    ]
    other = stored[1]["id"]
    address = f"{local}/api/memories/one"

    async with httpx.AsyncClient() as client:
        refused = [
            await client.patch(address, json={"id": other, "content": "three"}),
            await client.delete(address, params={"id": other}),
            await client.get(f"{address}/history", params={"id": other}),
        ]
        both = [(await client.get(f"{local}/api/memories/{key}")).json() for key in ("one", "two")]

    for response in refused:
        assert response.status_code == 400
        assert response.json()["error"]["reason"] == "repeated_argument"
    assert [read["data"]["content"] for read in both] == ["x", "x"]


@pytest.mark.parametrize("key", KEYS)
async def test_a_memory_is_changed_and_deleted_at_the_address_of_its_key(
    key: str, local: str, roots: Settings
) -> None:
    stored = await python(roots, "store_memory", {"type": "core", "content": "x", "key": key})
    address = f"{local}/api/memories/{quote(key, safe='')}"

    async with httpx.AsyncClient() as client:
        updated = await client.patch(address, json={"content": "three"})
        deleted = await client.delete(f"{address}?permanent=true")
        gone = await client.delete(address)

    assert updated.json()["updated_fields"] == ["content"]
    assert deleted.json() == {"success": True, "action": "deleted", "id": stored["id"]}
    assert gone.status_code == 404


@pytest.mark.requirement("R4.4.5", "R4.6.2")
async def test_a_wrong_address_or_parameter_is_refused_with_its_reason(
    local: str, roots: Settings
) -> None:
    await python(roots, "store_memory", {"type": "core", "content": "x", "key": "plain"})

    async with httpx.AsyncClient(base_url=local) as client:
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
            status = 404 if reason == "unknown_address" else 400
            assert refused.json()["error"]["reason"] == reason, path
            assert refused.status_code == status, path


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


async def test_h1_foreign_hosts_and_origins_are_refused(local: str) -> None:
    async with httpx.AsyncClient(base_url=local) as client:
        for path in ("/api/stats", "/mcp", "/healthz", "/docs"):
            await check_foreign_hosts_and_origins(client, path)


async def check_foreign_hosts_and_origins(client: httpx.AsyncClient, path: str) -> None:
    for host in HOSTS:
        refused = await client.get(path, headers={"Host": host})
        # 400, because the HTTP parser itself refuses an empty host.
        assert refused.status_code in (400, 421), (path, host)

    for origin in ORIGINS:
        refused = await client.get(path, headers={"Origin": origin})
        assert refused.status_code == 403, (path, origin)
        assert refused.json()["error"]["reason"] == "foreign_origin", (path, origin)

    expected_status = 405 if path == "/mcp" else 200
    for origin in ("http://localhost:3000", "http://127.0.0.1", "http://[::1]:5173"):
        answer = await client.get(path, headers={"Origin": origin})
        assert answer.status_code == expected_status, (path, origin)


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
            all_headers = {"Content-Type": "application/json", **headers}
            for path in ("/api/abilities/file_read_bulk", "/api/memories"):
                refused = await client.post(path, content=body, headers=all_headers)
                assert refused.status_code == 400
                assert refused.json()["error"]["reason"] == "malformed_request"


async def test_h3_a_large_body_is_refused_before_it_is_taken(local: str) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(300):
            yield b" " * 1024

    async with httpx.AsyncClient(base_url=local) as client:
        headers = {"Content-Type": "application/json"}
        for path in ("/api/abilities/file_read_bulk", "/mcp"):
            for content in (b" " * (guard.MAX_BODY + 1), chunks()):
                refused = await client.post(path, content=content, headers=headers)
                assert refused.status_code == 413

        largest = b"{}" + b" " * (guard.MAX_BODY - 2)
        fits = await client.post(
            "/api/abilities/get_memory_stats", content=largest, headers=headers
        )
        assert fits.status_code == 200


async def test_h4_a_slow_body_is_given_up(monkeypatch: pytest.MonkeyPatch, roots: Settings) -> None:
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.1)
    sent: list[Any] = []

    async def receive_nothing() -> Any:
        await asyncio.sleep(30)

    async def send(message: Any) -> None:
        sent.append(message)

    async with Abilities.open(roots) as abilities:
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/api/memories",
            "headers": [(b"host", b"localhost")],
        }
        await create_app(abilities)(scope, receive_nothing, send)

    assert sent[0]["status"] == 408


@pytest.fixture
async def impatient(
    roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[str, int]]:
    """The address of a server in this process that waits half a second for a request."""
    monkeypatch.setattr(connections, "RECEIVE_SECONDS", 0.5)
    async with serving_locally(roots) as server:
        url = httpx.URL(server.address)
        assert url.port is not None
        yield url.host, url.port


async def test_h4_slow_and_idle_connections_are_closed_and_others_are_served(
    impatient: tuple[str, int],
) -> None:
    clock = asyncio.get_running_loop()
    open_count = 0

    async def linger(kind: int) -> float:
        nonlocal open_count
        began = clock.time()  # before the server's own clock for the connection
        reader, writer = await asyncio.open_connection(*impatient)
        open_count += 1

        with contextlib.suppress(ConnectionError):
            if kind in (1, 2):
                writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ")
            if kind == 3:
                writer.write(
                    b"POST /api/memories HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"
                )
            while kind == 2 and not reader.at_eof():  # a byte now and then does not help
                writer.write(b"x")
                # A connection that was reset never comes to its end: this is what raises.
                await writer.drain()
                await asyncio.sleep(0.05)
            assert b"200 OK" not in await reader.read()

        writer.close()
        return clock.time() - began

    slow = [asyncio.create_task(linger(n % 4)) for n in range(400)]
    while open_count < len(slow):
        await asyncio.sleep(0.01)

    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{impatient[1]}") as client:
        for _ in range(5):
            assert (await client.get("/healthz")).status_code == 200
            assert (await client.post("/api/abilities/file_list", json={})).status_code == 200

    async with asyncio.timeout(60):
        waits = await asyncio.gather(*slow)

    assert all(wait > 0.2 for wait in waits)
    reached(9, f"{len(slow)} slow and idle connections closed, others served meanwhile")


async def test_small_answers_are_sent_at_once(
    impatient: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    no_delay_options: list[int] = []
    complete = connections.TimeoutProtocol.on_message_complete

    def read_option(self: connections.TimeoutProtocol) -> None:
        connection = self.transport.get_extra_info("socket")
        no_delay_options.append(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        complete(self)

    monkeypatch.setattr(connections.TimeoutProtocol, "on_message_complete", read_option)
    async with httpx.AsyncClient() as client:
        assert (await client.get(f"http://127.0.0.1:{impatient[1]}/healthz")).status_code == 200

    assert len(no_delay_options) == 1 and no_delay_options[0] != 0


async def test_h4_large_headers_are_refused(impatient: tuple[str, int]) -> None:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{impatient[1]}") as client:
        refused = await client.get("/healthz", headers={"X-Large": "x" * 17_000})
        assert refused.status_code == 431
        assert (await client.get("/healthz", headers={"X-Large": "x" * 15_000})).status_code == 200

    reader, writer = await asyncio.open_connection(*impatient)
    with contextlib.suppress(ConnectionError):
        writer.write(b"GET / HTTP/1.1\r\n")
        for _ in range(40):
            writer.write(b"X: " + b"x" * 1_000 + b"\r\n")
            await writer.drain()
            await asyncio.sleep(0.002)

        assert await reader.read() == b""

    writer.close()


async def test_h6_the_65th_call_is_told_to_come_again(
    roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, all_began = asyncio.Event(), asyncio.Event()
    began = 0

    async def wait_for_gate(*_: Any) -> Any:
        nonlocal began
        began += 1
        if began == guard.MAX_CALLS:
            all_began.set()

        await gate.wait()
        return Response(b"{}")

    monkeypatch.setattr(adapter, "call_ability", wait_for_gate)
    async with Abilities.open(roots) as abilities:
        transport = httpx.ASGITransport(app=create_app(abilities))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            posts = (
                client.post("/api/abilities/file_list", json={}) for _ in range(guard.MAX_CALLS)
            )
            calls = [asyncio.create_task(post) for post in posts]
            await all_began.wait()

            refused = await client.get("/api/stats")
            healthy = await client.get("/healthz")

            assert healthy.status_code == 200, "whoever looks after the process is answered"
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


@pytest.mark.parametrize("surface", SURFACES)
async def test_metadata_of_16_levels_is_accepted_on_every_surface(
    surface: str, roots: Settings
) -> None:
    memory = {"key": "k", "type": "core", "content": "x", "metadata": nest(16)}

    stored = await SURFACES[surface](roots, "store_memory", memory)

    assert stored["memory"]["metadata"] == {**nest(16), "memory_score": 0.6}


async def test_the_list_of_abilities_is_what_a_token_may_call(
    roots: Settings, tmp_path: Path
) -> None:
    settings = roots.model_copy(update={"tokens_file": tmp_path / "tokens.json"})
    tokens = TokenFile(settings.tokens_file)
    lists: dict[str, list[str]] = {}

    async with Abilities.open(settings) as abilities:
        transport = httpx.ASGITransport(app=create_app(abilities))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            scopes: tuple[Scope, ...] = ("read", "write", "read")
            for scope in scopes:
                headers = {"Authorization": f"Bearer {tokens.add('default', scope)[1]}"}
                answer = await client.get("/api/abilities", headers=headers)
                lists[scope] = [ability["name"] for ability in answer.json()]

        assert lists["write"] == [ability.name for ability in abilities.registry]
        read_only = abilities.registry.only(read_only=True)
        assert lists["read"] == [ability.name for ability in read_only]


async def test_a_token_that_may_call_nothing_is_shown_no_ability(
    roots: Settings, tmp_path: Path
) -> None:
    async with Abilities.open(roots) as abilities:
        reading = tuple(ability.name for ability in abilities.registry if ability.read_only)

    update = {"tokens_file": tmp_path / "tokens.json", "disabled": reading}
    settings = roots.model_copy(update=update)
    _, token = TokenFile(settings.tokens_file).add("default", "read")

    async with Abilities.open(settings) as abilities:
        transport = httpx.ASGITransport(app=create_app(abilities))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            headers = {"Authorization": f"Bearer {token}"}
            answer = await client.get("/api/abilities", headers=headers)

    assert (answer.status_code, answer.json()) == (200, [])
