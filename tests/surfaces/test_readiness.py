"""A server that is not ready, fails or stops; and changes whose callers go away."""

import asyncio
import fcntl
import json
import os
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
from starlette.responses import Response

from abilities import Abilities, Settings
from abilities.adapters import http as adapter
from abilities.cli.checks import check_store_answers
from abilities.helpers.store import store as store_module
from abilities.helpers.store.postgres import pool
from abilities.helpers.store.postgres.server import OWN_READS
from abilities.helpers.store.postgres.store import PostgresStore
from abilities.helpers.store.sqlite.store import SqliteStore
from abilities.server import connections
from abilities.server.app import create_app
from abilities.server.callers import Callers
from abilities.server.connections import Acceptor
from tests.stores.test_postgres_stalls import READS, WAITING, list_processes, locked_tables
from tests.stores.test_stores import read_until
from tests.support import postgres
from tests.support.places import find_reason
from tests.support.serving import serving, serving_app, serving_locally
from tests.support.stores import store_file
from tests.support.surfaces import python, with_changes
from tests.support.waiting import GIVE_UP_SECONDS, wait_until

MEMORY = {"type": "core", "content": "x", "key": "k"}
SLOW_READS = 2 * pool.MAX_CONNECTIONS


@pytest.fixture
def on_postgres(roots: Settings, server: str) -> Iterator[Settings]:
    with postgres.database(server) as url:
        yield with_changes(roots, store_url=url)


@pytest.fixture
def settings(roots: Settings, store_url: str) -> Settings:
    return with_changes(roots, store_url=store_url)


@asynccontextmanager
async def slow_reads(abilities: Abilities) -> AsyncIterator[list["asyncio.Task[str]"]]:
    """Let more reads run than a store does at a time; in the end, they end."""
    store = abilities._resources.store
    if isinstance(store, SqliteStore):
        enough = threading.Event()
        read_long = read_until(enough)
        reads = [store.engine.run_read("readiness", read_long, 60.0) for _ in range(SLOW_READS)]
        tasks = [asyncio.create_task(find_reason(read)) for read in reads]
        await asyncio.sleep(0)  # they are queued
        yield tasks
        enough.set()

    else:
        assert isinstance(store, PostgresStore)
        async with locked_tables(abilities.settings.store_url):
            reads = [READS["read"](store) for _ in range(SLOW_READS)]
            tasks = [asyncio.create_task(find_reason(read)) for read in reads]
            url = abilities.settings.store_url
            await wait_until(lambda: len(list_processes(url, WAITING)) == OWN_READS)
            yield tasks

    await asyncio.gather(*tasks)


async def test_a_server_is_ready_while_reads_are_slow(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "READ_SECONDS", 60.0)
    lasting = pool._SESSION_SETTINGS.replace("'3s'", "'0'").replace("'5s'", "'0'")
    monkeypatch.setattr(pool, "_SESSION_SETTINGS", lasting)

    async with serving_app(settings) as server:
        await server.abilities.call("store_memory", MEMORY)
        async with slow_reads(server.abilities) as reads:
            answer = await server.ask("GET", "/readyz")

            assert not any(read.done() for read in reads)

    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


async def test_a_server_that_is_not_ready_says_why(on_postgres: Settings, roots: Settings) -> None:
    for settings in (on_postgres, roots):
        await python(settings, "store_memory", MEMORY)
    with sqlite3.connect(store_file(roots)) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with psycopg.connect(on_postgres.store_url) as database:
        database.execute("INSERT INTO abilities.store_version VALUES (99)")

    parts = urlsplit(on_postgres.store_url)
    missing = parts._replace(path="/none").geturl()
    unreachable = parts._replace(netloc="postgres@127.0.0.1:1").geturl()
    for settings, reason, retryable in (
        (roots, "schema_too_new", False),
        (on_postgres, "schema_too_new", False),
        (with_changes(on_postgres, store_url=missing), "storage_missing", False),
        (with_changes(on_postgres, store_url=unreachable), "unavailable", True),
    ):
        async with serving_app(settings) as app:
            answer = await app.ask("GET", "/readyz")

        fault = answer.json()["error"]
        assert (answer.status_code, fault["reason"]) == (503, reason)
        assert fault.get("retryable", False) == retryable


def test_a_server_says_at_its_start_what_to_do_about_its_store(
    on_postgres: Settings, tmp_path: Path
) -> None:
    missing = urlsplit(on_postgres.store_url)._replace(path="/none").geturl()
    settings = with_changes(on_postgres, store_url=missing)

    with serving(settings, tmp_path) as server:
        said = "What to do: create the database"
        asyncio.run(wait_until(lambda: said in server.log.read_text()))
        server.stop()

    (diagnosis,) = asyncio.run(check_store_answers(settings)).diagnoses
    assert diagnosis.state == "fails" and "create the database" in diagnosis.mend


async def test_a_server_whose_store_is_being_opened_is_busy(roots: Settings) -> None:
    async with serving_app(roots) as server:
        store = server.abilities._resources.store
        assert isinstance(store, SqliteStore)
        with store.engine.file._opening:
            answer = await server.ask("GET", "/readyz")
            assert (answer.status_code, answer.json()["error"]["reason"]) == (503, "busy")

        assert (await server.ask("GET", "/readyz")).status_code == 200


@asynccontextmanager
async def blocked_changes(settings: Settings) -> AsyncIterator[None]:
    if settings.store_path is None:
        async with locked_tables(settings.store_url):
            yield
        return

    lock = os.open(f"{store_file(settings)}-lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    yield
    os.close(lock)


async def test_a_change_is_finished_when_its_client_disconnects(
    settings: Settings, tmp_path: Path
) -> None:
    await python(settings, "store_memory", MEMORY)
    body = json.dumps({**MEMORY, "key": "new"}).encode()
    head = f"POST /api/memories HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"

    with serving(settings, tmp_path) as server:
        async with asyncio.timeout(GIVE_UP_SECONDS), blocked_changes(settings):
            port = urlsplit(server.address).port
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
            async with httpx.AsyncClient(base_url=server.address) as client:
                while "abilities_calls_in_flight 1.0" not in (await client.get("/metrics")).text:
                    await asyncio.sleep(0.01)
            await asyncio.sleep(0.3)  # the change begins
            writer.transport.abort()

        async with httpx.AsyncClient(base_url=server.address) as client:
            async with asyncio.timeout(GIVE_UP_SECONDS):
                while (await client.get("/api/memories/new")).status_code != 200:
                    await asyncio.sleep(0.01)

        server.stop()


REQUEST: dict[str, Any] = {
    "type": "http",
    "method": "POST",
    "path": "/api/abilities/file_list",
    "raw_path": b"/api/abilities/file_list",
    "query_string": b"",
    "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
}


async def receive() -> dict[str, Any]:
    return {"type": "http.request", "body": b"{}", "more_body": False}


@pytest.mark.requirement("R3.7.7")
@pytest.mark.parametrize("layer", ["route", "callers", "MCP that was not started"])
async def test_an_unexpected_exception_becomes_a_fault_with_a_reference(
    layer: str,
    abilities: Abilities,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a secret")

    if layer == "route":
        monkeypatch.setattr(adapter, "call_ability", fail)
    elif layer == "callers":
        monkeypatch.setattr(Callers, "identify", fail)
    path = "/mcp" if layer.startswith("MCP") else "/api/abilities/file_list"
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}  # for abilities arguments like any

    transport = httpx.ASGITransport(app=create_app(abilities))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.post(path, json=ping)

    fault = answer.json()["error"]
    assert (answer.status_code, fault["reason"]) == (500, "internal")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store" and answer.headers["x-request-id"]
    assert fault["ref"] in caplog.text and "secret" not in answer.text


async def test_a_call_that_is_cut_off_is_answered_in_json_too(
    abilities: Abilities, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    began = asyncio.Event()
    sent: list[MutableMapping[str, Any]] = []

    async def hang(*_: object) -> Response:
        began.set()
        await asyncio.sleep(60)
        raise AssertionError

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    monkeypatch.setattr(adapter, "call_ability", hang)
    call = asyncio.ensure_future(create_app(abilities)({**REQUEST}, receive, send))
    await began.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    start, body = sent
    fault = json.loads(body["body"])["error"]
    assert (start["status"], fault["reason"]) == (500, "internal")
    assert fault["ref"] in caplog.text


async def test_an_answer_that_breaks_off_is_not_continued_by_another(
    abilities: Abilities, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.body":
            raise OSError("the connection is gone")
        sent.append(message)

    with pytest.raises(OSError, match="gone"):
        await create_app(abilities)({**REQUEST}, receive, send)

    assert [message["type"] for message in sent] == ["http.response.start"]


@pytest.mark.parametrize("requests", [0, 1])
async def test_a_connection_that_is_being_made_while_the_server_stops_is_closed(
    requests: int, roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    make, stop = loop.connect_accepted_socket, Acceptor.stop
    accepted, stopping = asyncio.Event(), asyncio.Event()

    async def make_late(*arguments: Any) -> Any:
        accepted.set()
        await stopping.wait()
        return await make(*arguments)

    async def stop_meanwhile(acceptor: Acceptor) -> None:
        stopping.set()
        await stop(acceptor)

    monkeypatch.setattr(connections, "RECEIVE_SECONDS", 600)
    monkeypatch.setattr(Acceptor, "stop", stop_meanwhile)
    async with serving_locally(roots) as local:
        monkeypatch.setattr(loop, "connect_accepted_socket", make_late)
        reader, writer = await asyncio.open_connection(*local.listener.getsockname())
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * requests)
        await accepted.wait()
        local.server.should_exit = True

        async with asyncio.timeout(60):
            answer = await reader.read()

        assert answer == b"" or answer.endswith(b'{"status":"ok"}')
        writer.close()
