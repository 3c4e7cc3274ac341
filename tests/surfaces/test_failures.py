"""A server that fails or stops: every answer is still JSON, and connections end in time."""

import asyncio
import contextlib
import json
import socket
from collections.abc import MutableMapping
from typing import Any

import httpx
import pytest
from starlette.responses import Response

from abilities import Abilities, Settings
from abilities.adapters import http as adapter
from abilities.server.app import create_app
from abilities.server.callers import Callers
from abilities.server.connections import Connections, HttpConnection
from tests.support.serving import serving_locally
from tests.support.waiting import wait_until

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
    layer: str, roots: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a secret")

    if layer == "route":
        monkeypatch.setattr(adapter, "call_ability", fail)
    elif layer == "callers":
        monkeypatch.setattr(Callers, "identify", fail)
    path = "/mcp" if layer.startswith("MCP") else "/api/abilities/file_list"
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}  # for abilities arguments like any

    async with Abilities.open(roots) as abilities:
        transport = httpx.ASGITransport(app=create_app(abilities))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            answer = await client.post(path, json=ping)

    fault = answer.json()["error"]
    assert (answer.status_code, fault["reason"]) == (500, "internal")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store" and answer.headers["x-request-id"]
    assert fault["ref"] in caplog.text and "secret" not in answer.text


async def test_a_call_that_is_cut_off_is_answered_in_json_too(
    roots: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
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
    async with Abilities.open(roots) as abilities:
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
    roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.body":
            raise OSError("the connection is gone")
        sent.append(message)

    async with Abilities.open(roots) as abilities:
        with pytest.raises(OSError, match="gone"):
            await create_app(abilities)({**REQUEST}, receive, send)

    assert [message["type"] for message in sent] == ["http.response.start"]


@pytest.mark.parametrize("requests", [0, 1])
async def test_a_connection_that_arrives_while_the_server_stops_is_closed(
    requests: int, roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example one that was accepted just before, but whose protocol is created only now."""
    gate, began = asyncio.Event(), asyncio.Event()
    call_ability = adapter.call_ability

    async def wait(*arguments: Any) -> Response:
        began.set()
        await gate.wait()
        return await call_ability(*arguments)

    monkeypatch.setattr(adapter, "call_ability", wait)
    async with serving_locally(roots) as local, httpx.AsyncClient(timeout=30) as client:
        call = asyncio.create_task(client.post(f"{local.address}/api/abilities/file_list", json={}))
        await began.wait()
        local.server.should_exit = True
        await wait_until(lambda: local.listener.fileno() < 0)

        ours, accepted = connect()
        reader, writer = await asyncio.open_connection(sock=ours)
        config, state = local.server.config, local.server.server_state
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: HttpConnection(Connections(1), config, state, {}), accepted
        )
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * requests)
        async with asyncio.timeout(60):
            answer = await reader.read()

        assert answer == b"" or answer.endswith(b'{"status":"ok"}')
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        gate.set()
        assert (await call).status_code == 200


def connect() -> tuple[socket.socket, socket.socket]:
    """Return both ends of a TCP connection: the client's, and the one that a server accepts."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ours = socket.create_connection(listening.getsockname())
        return ours, listening.accept()[0]
