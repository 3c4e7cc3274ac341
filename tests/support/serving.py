"""Servers at real ports: `abilities serve` in a process of its own, and others in the test's."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import httpx2
import uvicorn
from mcp import Client, StdioServerParameters
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client

from abilities import Abilities, Settings
from abilities.server.app import create_app
from abilities.server.connections import GracefulServer
from tests.support.forked import COMMAND_LINE, Forked
from tests.support.surfaces import environment, run_lifespan, with_changes
from tests.support.waiting import GIVE_UP_SECONDS, POLL_SECONDS

_FIRST_LINE = re.compile(
    r"Serving (http://(.+):(\d+))/api(?: and \1/mcp)?, and the explorer at \1/"
    r" - press Ctrl-C to stop\.\n"
)

PIPED = f"""
import os
os.dup2(os.open("requests", os.O_RDONLY), 0)
os.dup2(os.open("replies", os.O_WRONLY), 1)
{COMMAND_LINE}
"""
"""The command line with two named pipes of its folder as its stdin and stdout."""


class Server(NamedTuple):
    """A running server: its process, its address, and the file with what it says on stderr."""

    process: "Forked | subprocess.Popen[bytes]"
    address: str
    log: Path

    def stop(self) -> str:
        """End it as a supervisor does, and return all that it said after its first line."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(timeout=30) in (0, -signal.SIGTERM)
        log = self.log.read_text().partition("\n")[2]
        assert "Traceback" not in log
        return log


@contextmanager
def serving(
    settings: Settings,
    folder: Path,
    *options: str,
    before: str = "",
    program: Sequence[str] = (),
) -> Iterator[Server]:
    """Serve at a free port, and kill the server in the end if it still runs.

    ``folder`` is the server's home and holds its log; ``before`` is code that runs first.
    ``program`` is what Python runs, from its start, in place of the command.
    """
    arguments = ["serve", "--port", "0", *options]
    variables = {"PATH": "/usr/bin:/bin", "HOME": str(folder), **environment(settings)}
    log = folder / f"server-{time.monotonic_ns()}.log"
    with ExitStack() as stack:
        process: Forked | subprocess.Popen[bytes]
        if program:
            output = stack.enter_context(log.open("wb"))
            command = [sys.executable, *program, *arguments]
            process = subprocess.Popen(command, env=variables, stderr=output, cwd=folder)
        else:
            log.touch()
            code = f"{before}\n{COMMAND_LINE}"
            process = Forked(code, *arguments, variables=variables, folder=folder, errors=log)

        try:
            yield Server(process, _wait_for_address(process, log), log)
        finally:
            process.kill()
            process.wait()


@contextmanager
def serving_stdio(settings: Settings) -> Iterator[StdioServerParameters]:
    """Serve MCP over stdin and stdout; yield the command that connects a client once.

    The server is forked, and reads and writes two pipes; the command passes on between them.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for pipe in ("requests", "replies"):
            os.mkfifo(folder / pipe)
        variables = {**get_default_environment(), **environment(settings)}
        process = Forked(PIPED, "mcp", variables=variables, folder=folder)
        try:
            yield StdioServerParameters(
                command="sh", args=["-c", "cat replies & cat > requests; wait"], cwd=folder
            )
            assert process.wait(timeout=30) == 0
        finally:
            process.kill()
            process.wait()


class LocalServer(NamedTuple):
    """A server in this process: itself, its address, its socket, and the task that runs it."""

    server: GracefulServer
    address: str
    listener: socket.socket
    running: "asyncio.Task[None]"


@asynccontextmanager
async def serving_locally(settings: Settings) -> AsyncIterator[LocalServer]:
    """Serve at a free port in this process, and stop the server in the end.

    It starts much faster than a process does; the test must not block its event loop.
    """
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        async with Abilities.open(settings) as abilities:
            config = uvicorn.Config(
                create_app(abilities), ws="none", log_config=None, lifespan="on"
            )
            server = GracefulServer(config)
            running = asyncio.create_task(server.serve(sockets=[listener]))

            try:
                address = f"http://127.0.0.1:{listener.getsockname()[1]}"
                yield LocalServer(server, address, listener, running)
            finally:
                server.should_exit = True
                await running


class ServedApp:
    """A served application that is called without a port, with or without a token."""

    def __init__(self, abilities: Abilities, app: Any, client: httpx.AsyncClient) -> None:
        self.abilities = abilities
        self.client = client
        self._app = app

    async def ask(
        self, method: str, path: str, token: str | None = None, **options: Any
    ) -> httpx.Response:
        headers = {**_authorize(token), **options.pop("headers", {})}
        return await self.client.request(method, path, headers=headers, **options)

    async def call(self, name: str, token: str | None = None, **arguments: Any) -> httpx.Response:
        return await self.ask("POST", f"/api/abilities/{name}", token, json=arguments)

    async def wait_for(self, status: int, token: str | None) -> None:
        """Ask until the answer has a status: the server looks at the tokens twice a second."""
        end = time.monotonic() + GIVE_UP_SECONDS
        while (await self.ask("GET", "/api/stats", token)).status_code != status:
            assert time.monotonic() < end, f"the status never was {status}"
            await asyncio.sleep(POLL_SECONDS)

    @asynccontextmanager
    async def mcp(self, token: str | None = None, mode: str = "auto") -> AsyncIterator[Client]:
        transport = httpx2.ASGITransport(app=self._app)
        async with (
            httpx2.AsyncClient(transport=transport, headers=_authorize(token)) as sender,
            Client(
                streamable_http_client("http://localhost/mcp", http_client=sender), mode=mode
            ) as client,
        ):
            yield client


@asynccontextmanager
async def serving_app(
    settings: Settings, address: str = "127.0.0.1", **changes: Any
) -> AsyncIterator[ServedApp]:
    """Serve settings, some of them changed, as a server that listens at an address would."""
    async with (
        Abilities.open(with_changes(settings, **changes)) as abilities,
        run_lifespan(create_app(abilities, address)) as app,
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app), base_url="http://localhost"
        ) as client,
    ):
        yield ServedApp(abilities, app, client)


def _authorize(token: str | None) -> dict[str, str]:
    return {} if token is None else {"Authorization": f"Bearer {token}"}


def _wait_for_address(process: "Forked | subprocess.Popen[bytes]", log: Path) -> str:
    end = time.monotonic() + 60
    text = log.read_text()
    while "\n" not in text:
        assert process.poll() is None and time.monotonic() < end, text
        time.sleep(0.02)
        text = log.read_text()

    first_line = _FIRST_LINE.match(text)
    assert first_line, text

    address, host, port = first_line.groups()
    if host == "0.0.0.0":
        return f"http://127.0.0.1:{port}"
    return str(address)
