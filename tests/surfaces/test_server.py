"""`abilities serve`: addresses, versions and resources of memories; hostile requests and pages."""

import asyncio
import contextlib
import json
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
from mcp import Client, MCPError
from mcp.types import TextResourceContents

from abilities import Abilities, Settings, ability, parse_text, render
from abilities.builtin.memory_reads import memory_get
from abilities.declarations.memory_reads import MemoryGetAnswer, MemoryGetInput
from abilities.declarations.refusals import Fault
from abilities.definition import Context
from abilities.explorer.pages import PAGES
from abilities.helpers.tokens import TokenFile
from abilities.registry import AbilityRegistry
from abilities.server import connections, guard
from abilities.server.app import create_app
from tests.support.measurements import reached
from tests.support.memory_cases import nest
from tests.support.rude import build_request
from tests.support.serving import LocalServer, ServedApp, serving, serving_app
from tests.support.sources import ROOT
from tests.support.surfaces import SURFACES, python, read_tool_result, run, with_changes
from tests.support.tier import size
from tests.surfaces.test_tokens import with_oauth

KEYS = ["plain", "with/slash", "a:b", "two words", "世界/ä", "100%", "a?b#c", "by-id/x", "x/bulk"]
MEMORY = {"type": "core", "content": "x"}


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


async def test_a_memory_is_found_changed_and_deleted_by_its_id(client: httpx.AsyncClient) -> None:
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


WHOLE = {"type": "integer", "minimum": 1, "maximum": 100}
WRONG_ADDRESSES: dict[str, dict[str, Any]] = {
    "/nothing": {"reason": "unknown_address"},
    "/api/stats/more": {"reason": "unknown_address"},
    "/api/memories/with/slash": {"reason": "unknown_address"},
    "/api/memories/%FF": {"reason": "invalid_key"},
    "/api/memories/plain?no=1": {"reason": "unknown_argument", "field": "no"},
    "/api/memories/plain?key=other": {"reason": "repeated_argument", "field": "key"},
    "/api/memories/plain/bulk?depth=7": {
        "reason": "out_of_range",
        "field": "depth",
        "expected": {"minimum": 1, "maximum": 6},
    },
    "/api/memories/plain/bulk?depth=1&depth=2": {"reason": "wrong_type", "field": "depth"},
    "/api/memories?limit=ten": {"reason": "wrong_type", "field": "limit", "expected": WHOLE},
    "/api/memories?q=x": {
        "reason": "unknown_argument",
        "field": "q",
        "expected": {"type": "string", "max_length": 200},
    },
    "/api/memories?sort_order=up": {
        "reason": "not_one_of",
        "field": "sort_order",
        "expected": {"one_of": ["asc", "desc"]},
    },
}


@pytest.mark.requirement("R4.4.5", "R4.6.2")
async def test_a_wrong_address_or_parameter_is_refused_with_the_rules_of_the_ability(
    client: httpx.AsyncClient,
) -> None:
    await client.post("/api/memories", json={**MEMORY, "key": "plain"})

    for path, rule in WRONG_ADDRESSES.items():
        refused = await client.get(path)
        assert refused.status_code == (404 if rule["reason"] == "unknown_address" else 400), path
        assert rule.items() <= refused.json()["error"].items(), path

    several = await client.get("/api/memories?limit=0&offset=x&query=y&query=z")
    fields = [mistake["field"] for mistake in several.json()["error"]["fields"]]
    assert fields == ["limit", "offset", "query"]


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
        roots = with_changes(roots, **{**changes, "public_url": "https://memory.example"})

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


FOREIGN = {"error": Fault.from_reason("foreign_origin").to_payload()}
PATHS = {
    "GET": """
        / /docs /explorer/app.js /healthz /readyz /metrics /openapi.json /api/abilities
        /api/memories/key /api/memories/key/bulk /authorize
    """,
    "POST": "/api/abilities/store_memory /mcp /oauth/approve /token /register",
    "OPTIONS": "/api/memories/key /register",
}
REQUESTS = [(method, path) for method, paths in PATHS.items() for path in paths.split()]
VISIT = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


async def send(
    server: ServedApp, method: str, path: str, site: str, **headers: str
) -> httpx.Response:
    content = b'{"type": "core", "content": "x"}' if method == "POST" else None
    headers = {"Sec-Fetch-Site": site, **headers}
    return await server.ask(method, path, headers=headers, content=content)


@with_oauth
async def test_h9_a_request_from_another_site_reaches_no_ability(
    roots: Settings, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    async def reach(*_: Any, **__: Any) -> None:
        raise AssertionError("an ability was reached")

    monkeypatch.setattr(AbilityRegistry, "reply", reach)

    async with serving_app(roots, **changes) as server:
        for site in ("cross-site", "same-site", "Cross-Site", "", "same-origin, none"):
            for method, path in REQUESTS:
                refused = await send(server, method, path, site)
                assert (refused.status_code, refused.json()) == (403, FOREIGN), (site, path)


async def test_own_pages_programs_and_links_to_the_explorer_are_let_in_and_no_other_visits(
    roots: Settings,
) -> None:
    framed = {**VISIT, "Sec-Fetch-Dest": "iframe"}

    async with serving_app(roots) as server:
        assert (await server.ask("GET", "/api/stats")).status_code == 200
        for method, path, site, headers, status in (
            ("GET", "/api/stats", "same-origin", {}, 200),
            ("GET", "/api/stats", "none", {}, 200),
            ("GET", "/", "cross-site", VISIT, 200),
            ("GET", "/docs", "cross-site", VISIT, 200),
            ("GET", "/api/stats", "cross-site", VISIT, 403),
            ("POST", "/", "cross-site", VISIT, 403),
            ("GET", "/healthz", "cross-site", VISIT, 403),
            ("GET", "/", "cross-site", framed, 403),
        ):
            answer = await send(server, method, path, site, **headers)
            assert answer.status_code == status, (method, path, site, headers)


async def test_no_answer_may_be_loaded_framed_or_kept_by_other_pages(roots: Settings) -> None:
    async with serving_app(roots) as server:
        paths = [*PAGES, "/healthz", "/api/stats", "/api/memories/none", "/metrics", "/nothing"]
        answers = [await server.ask("GET", path) for path in paths]
        answers.append(await server.ask("GET", "/", headers={"Host": "evil.example"}))

    for answer in answers:
        headers = answer.headers
        assert headers.get_list("cross-origin-resource-policy") == ["same-origin"]
        assert headers.get_list("x-frame-options") == ["DENY"]
        assert headers.get_list("x-content-type-options") == ["nosniff"]
        assert headers.get_list("cache-control") == ["no-store"]

        (policy,) = headers.get_list("content-security-policy")
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        assert "access-control-allow-origin" not in headers


TEA = {"type": "core", "key": "tea", "content": "Green."}

CALLERS = {"command_line": "cli", "langchain_sync": "langchain"}
"""What the history calls a surface, if not by its own name or that of its protocol."""


@pytest.mark.parametrize("surface", SURFACES)
async def test_the_history_names_the_surface(surface: str, roots: Settings) -> None:
    await SURFACES[surface](roots, "store_memory", TEA)

    history = await python(roots, "memory_history", {"key": "tea"})

    protocol = "mcp" if surface.startswith("mcp") else surface
    assert [entry["by"] for entry in history["entries"]] == [CALLERS.get(surface, protocol)]


async def test_a_version_is_a_tag_over_http(roots: Settings) -> None:
    async with serving_app(roots) as server:
        client = server.client
        stored = await client.post("/api/memories", json=TEA)
        assert stored.headers["etag"] == '"v1"'
        of_one = f"/api/memories/by-id/{stored.json()['id']}"

        async def summarize(tag: str, **more: Any) -> httpx.Response:
            change = {"summary": f"Changed if {tag}.", **more}
            return await client.patch(of_one, json=change, headers={"If-Match": tag})

        assert (await summarize('"v1"')).headers["etag"] == '"v2"'
        assert (await client.get("/api/memories/tea")).headers["etag"] == '"v2"'

        for tag in ('"v1"', 'W/"v2"', '"other"', '"v1", "v2"', ""):
            deleted = await client.delete(of_one, headers={"If-Match": tag})
            for late in (await summarize(tag), deleted):
                assert late.status_code == 412, tag
                assert late.json()["error"]["reason"] == "version_conflict"

        twice = await summarize('"v2"', if_version=2)
        assert twice.json()["error"]["reason"] == "repeated_argument"
        assert (await summarize("*")).status_code == 200

        batch = {"operations": [{"op": "append", "key": "tea", "content": " Hot."}]}
        made = await client.post("/api/memories:batch", json=batch)
        assert made.json()["summary"]["succeeded"] == 1
        history = await client.get("/api/memories/tea/history", params={"limit": 1})
        assert [entry["version"] for entry in history.json()["entries"]] == [4]
        restored = await server.call("memory_restore", key="tea", version=1)
        assert restored.json()["memory"]["content"] == "Green."
        assert restored.headers["etag"] == '"v5"'


async def test_the_label_of_a_token_and_its_scope(private: Settings, tokens: TokenFile) -> None:
    write = tokens.add("default", "write", "laptop of Ada")[1]
    purge = tokens.add("default", "purge")[1]
    read = tokens.add("default", "read", "reader")[1]

    async with serving_app(private) as server:
        stored = await server.call("store_memory", write, **TEA)
        of_one = f"/api/memories/by-id/{stored.json()['id']}"
        page = {"X-Abilities-Surface": "explorer"}
        await server.ask("PATCH", of_one, purge, json={"summary": "a"}, headers=page)
        await server.ask("PATCH", of_one, purge, json={"summary": "b"})

        history = await server.ask("GET", "/api/memories/tea/history", read)
        by = [entry["by"] for entry in history.json()["entries"]]
        assert by == ["http", "explorer", "laptop of Ada"]

        for token, status in ((read, 403), (write, 403), (purge, 200)):
            purged = await server.ask("DELETE", of_one, token, params={"purge": "true"})
            assert purged.status_code == status

    assert (await python(private, "memory_list", {}))["memories"] == []


def test_people_purge_and_compact_on_the_command_line(roots: Settings) -> None:
    for key in ("tea", "cup"):
        run(roots, "call", "store_memory", json.dumps({**TEA, "key": key}))

    kept = run(roots, "purge", "tea", stdin="n\n")
    assert kept.exit_code == 1 and "for good?" in kept.output
    assert run(roots, "purge", "nobody", "--yes").exit_code == 1
    assert run(roots, "purge", "tea", stdin="y\n").exit_code == 0
    assert run(roots, "purge", "cup", "--yes").exit_code == 0
    assert json.loads(run(roots, "call", "memory_list", "{}").stdout) == {"memories": []}

    compacted = run(roots, "compact")
    assert compacted.exit_code == 0 and compacted.output.startswith("Forgot ")


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
async def test_a_memory_is_a_resource_with_the_tools_own_text(mode: str, roots: Settings) -> None:
    async with Abilities.open(roots) as abilities:
        for key in KEYS:
            await abilities.call("store_memory", {"type": "core", "content": key, "key": key})
        expected = {key: render(await abilities.call("memory_get", {"key": key})) for key in KEYS}

    async with serving_app(roots) as server, server.mcp(mode=mode) as client:
        (template,) = (await client.list_resource_templates()).resource_templates
        assert (template.uri_template, template.mime_type) == ("memory://{key}", "application/json")
        assert template.description == memory_get.description
        assert (await client.list_resources()).resources == []

        for key in KEYS:
            uri = f"memory://{quote(key, safe='')}"
            part = await read_text(client, uri)
            assert (part.text, part.uri, part.mime_type) == (expected[key], uri, "application/json")

        # Some clients do not encode the slash.
        part = await read_text(client, "memory://with/slash")
        assert part.text == expected["with/slash"]

        for uri, reason in (
            ("memory://none", "not_found"),
            ("memory://", "invalid_key"),
            ("memory://%FF", "invalid_key"),
        ):
            with pytest.raises(MCPError) as refused:
                await client.read_resource(uri)

            error = refused.value.error
            assert error.code == -32602
            assert (error.data["reason"], error.data["uri"]) == (reason, uri)

        for uri in ("file:///etc/passwd", "memory:none", "test://x"):
            with pytest.raises(MCPError, match="Unknown resource"):
                await client.read_resource(uri)


async def read_text(client: Client, uri: str) -> TextResourceContents:
    (part,) = (await client.read_resource(uri)).contents
    assert isinstance(part, TextResourceContents)
    return part


@pytest.mark.parametrize(
    "resource", ["memory://{other}", "memory://key", "{key}", "memory://{key}/x", "Memory://{key}"]
)
def test_a_resource_names_an_argument_of_an_ability_that_reads(resource: str) -> None:
    async def run(context: Context, arguments: MemoryGetInput) -> MemoryGetAnswer:
        raise NotImplementedError

    with pytest.raises(ValueError, match="a resource is read"):
        ability(name="x", description="X.", read_only=True, resource=resource)(run)
    with pytest.raises(ValueError, match="a resource is read"):
        ability(name="x", description="X.", resource="memory://{key}")(run)

    readable = ability(name="x", description="X.", read_only=True, resource="x://{key}")(run)
    assert readable.resource == "x://{key}"
