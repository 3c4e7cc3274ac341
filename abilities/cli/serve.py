"""The commands that serve abilities over HTTP and MCP, and to people in their browser."""

import asyncio
import socket
import threading
import webbrowser
from collections.abc import Sequence
from typing import Any

import click

from abilities.application import Abilities
from abilities.cli.options import load_shared_settings
from abilities.settings import Settings

IDLE_SECONDS = 10
DRAIN_SECONDS = 12
"""How long begun calls may take after the server was told to stop; one takes ten at most."""


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8642,
    show_default=True,
    help="0 takes a free one.",
)
@click.pass_obj
def serve(given: dict[str, Any], host: str, port: int) -> None:
    """Serve the abilities over HTTP (/api) and MCP (/mcp), and the memory explorer (/).

    Without tokens only this machine can connect. With tokens (see 'abilities token') every caller needs one, and
    other addresses than loopback can be served; put a proxy that speaks TLS before them.
    """
    _serve(load_shared_settings(given), host, port, browse=False)


@click.command()
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="The port to listen on [a free one]."
)
@click.option(
    "--browser/--no-browser", default=True, help="Open the page, or only say where it is."
)
@click.pass_obj
def explore(given: dict[str, Any], port: int, browser: bool) -> None:
    """Look at memories, notes and files in the browser.

    Serves what 'abilities serve' does, to this machine alone, until Ctrl-C.
    """
    _serve(load_shared_settings(given), "127.0.0.1", port, browse=browser)


def _serve(settings: Settings, host: str, port: int, *, browse: bool) -> None:
    """Serve until stopped. Raises click.UsageError, click.ClickException."""
    try:
        from abilities.server.app import LOOPBACK, is_beyond_loopback
    except ImportError:
        raise click.UsageError(
            "serving is not installed; run: pip install 'agent-abilities[http,mcp]'"
        ) from None
    tokens = _namespaces(settings)
    if is_beyond_loopback(settings, host) and not tokens:
        raise click.UsageError(
            f"without tokens only {', '.join(LOOPBACK)} can be served, under no further name: "
            "whoever connects would need no password.\n"
            "Make one first: abilities token add --namespace NAME --scope read"
        )
    try:
        listening = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        )
    except OSError as error:
        raise click.ClickException(
            f"cannot listen on {host} port {port}: {error.strerror}"
        ) from None
    with listening:
        asyncio.run(_run(settings, host, listening, browse=browse))


def _namespaces(settings: Settings) -> set[str]:
    """The namespaces that tokens open. Raises click.UsageError."""
    from abilities.helpers.tokens import TokenFile

    try:
        found = {token.namespace for token in TokenFile(settings.tokens_file).tokens()}
        settings.check_namespaces(found)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return found


async def _run(settings: Settings, host: str, listening: socket.socket, *, browse: bool) -> None:
    import uvicorn

    from abilities.server.app import create_app, list_host_names
    from abilities.server.logs import log_to_stderr
    from abilities.server.shutdown import GracefulServer
    from abilities.server.timeouts import TimeoutProtocol

    log_to_stderr()
    async with Abilities.open(settings) as abilities:
        for problem in abilities.problems:
            click.echo(problem, err=True)
        config = uvicorn.Config(
            create_app(abilities, host),
            http=TimeoutProtocol,
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=DRAIN_SECONDS,
        )
        at = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"
        click.echo(
            f"Serving {at}/api and {at}/mcp, and the explorer at {at}/ - press Ctrl-C to stop.",
            err=True,
        )
        if host != "127.0.0.1" or settings.allowed_hosts:
            click.echo(_addressed(list_host_names(settings, host)), err=True)
        if browse:  # the socket listens already, so the page waits for the server
            threading.Thread(target=webbrowser.open, args=(at,), daemon=True).start()
        await GracefulServer(config).serve(sockets=[listening])


def _addressed(names: Sequence[str]) -> str:
    return f"Requests must address it as {', '.join(names)}; 'allowed_hosts' adds names."
