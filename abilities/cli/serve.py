"""The commands that serve abilities: serve and explore over HTTP, mcp over stdin and stdout."""

import asyncio
import errno
import gc
import socket
import sys
import threading
import webbrowser
from contextlib import suppress
from functools import partial

import click

from abilities.application import Abilities
from abilities.cli.completion import complete_tools
from abilities.cli.errors import UsageErrorInLines, describe_os_error
from abilities.cli.importing import defer_packages, pause_collection
from abilities.cli.session import Session, describe_failure, pass_session
from abilities.cli.terminal import echo
from abilities.cli.token import WAY_OUT, find_lock
from abilities.declarations.refusals import Fault, Refused
from abilities.errors import format_install, is_installed
from abilities.helpers.tokens import TokenFile
from abilities.settings import Settings, split_names

IDLE_SECONDS = 10
"""How long a connection without requests is kept open."""

DRAIN_SECONDS = 9
"""How long a stopping server waits for running calls; those that take longer are told so."""

_MCP_EXAMPLE = """\b
Example of a client's configuration:
  {"mcpServers": {"abilities": {"command": "abilities", "args": ["mcp"]}}}
"""

_SERVE_EXAMPLES = """\b
Examples:
  abilities serve
  abilities token add --scope read && abilities serve --host 0.0.0.0
"""

_EXPLORE_EXAMPLES = """\b
Examples:
  abilities explore
  abilities explore --port 8700 --no-browser
"""

_LISTENING = {
    errno.EADDRINUSE: "another server has it, perhaps this one started twice; "
    "end that, or choose a port: --port 0 takes a free one",
    errno.EACCES: "choose a port above 1023, for example --port 8642",
}
"""What to do about an address that cannot be listened on."""

_offer = click.option(
    "--tools",
    metavar="NAMES",
    shell_complete=complete_tools,
    help="The abilities to offer: all, lean, files, memory, or names with commas between them "
    "(default: those of the settings).",
)


@click.command(epilog=_SERVE_EXAMPLES)
@click.option(
    "--host",
    metavar="ADDRESS",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen on.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8642,
    show_default=True,
    help="The port to listen on; 0 takes a free one.",
)
@_offer
@pass_session
def serve(session: Session, host: str, port: int, tools: str | None) -> None:
    """Serve HTTP (/api), MCP (/mcp) and the memory explorer (/).

    As long as there never was a token, only this machine can connect. Once there was one (see
    'abilities token') every caller needs one, and the server may listen on other addresses than
    loopback; put a proxy that speaks TLS in front of it.
    """
    _serve(_choose_tools(session, tools), host, port, open_browser=False)


@click.command(epilog=_EXPLORE_EXAMPLES)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="The port to listen on (default: a free one).",
)
@click.option(
    "--browser/--no-browser",
    default=True,
    help="Open the page in the browser (the default), or only print its address.",
)
@pass_session
def explore(session: Session, port: int, browser: bool) -> None:
    """Look at memories, notes and files in the browser.

    Serves the same as 'abilities serve', to this machine only, until you press Ctrl-C.
    """
    _serve(session, "127.0.0.1", port, open_browser=browser)


@click.command(epilog=_MCP_EXAMPLE)
@_offer
@pass_session
def mcp(session: Session, tools: str | None) -> None:
    """Serve the abilities to an MCP client over stdin and stdout.

    MCP clients start this command themselves, so configure it as the command of a server.
    """
    asyncio.run(_serve_stdio(_choose_tools(session, tools)))


def _explain_no_mcp() -> str:
    return f"version 2 of the MCP SDK is not installed; run: {format_install('mcp')}"


def _choose_tools(session: Session, tools: str | None) -> Session:
    """Return the session with the tools of an option, if that was given."""
    if tools is None:
        return session

    return session.override({"tools": split_names(tools)})


async def _serve_stdio(session: Session) -> None:
    # An optional dependency.
    if not is_installed("mcp"):
        raise click.UsageError(_explain_no_mcp())

    with pause_collection():
        # By themselves they import the SDK's client and a second server too, and what those need.
        defer_packages("mcp", "mcp.server")
        from abilities.adapters.stdio import serve_stdio

    # Whoever types the command would wait for something to happen, and it waits for them.
    if sys.stdin is not None and sys.stdin.isatty():
        echo(
            "Waiting for an MCP client to write to stdin; clients start this command themselves. "
            "Press Ctrl-C to stop, and see 'abilities mcp --help'.",
            err=True,
        )

    # stdout belongs to the protocol; everything for people goes to stderr.
    async with session.open_application() as abilities:
        _print_problems(abilities.problems)
        _keep_loaded()
        await serve_stdio(abilities)


def _serve(session: Session, host: str, port: int, *, open_browser: bool) -> None:
    """Serve until stopped. Raises click.UsageError, click.ClickException."""
    settings = session.shareable_settings
    _check_reach(settings, host)

    # Listening comes first: a port that is taken is reported before anything is opened.
    with _listen(host, port) as listener:
        asyncio.run(_run_server(session, host, listener, open_browser=open_browser))


def _check_reach(settings: Settings, host: str) -> None:
    """Check that nobody can connect who should not. Raises click.UsageError."""
    if not is_installed("http"):
        raise click.UsageError(f"serving is not installed; run: {format_install('http')}")

    # An optional dependency.
    from abilities.server.app import LOOPBACK, is_beyond_loopback

    tokens = TokenFile(settings.tokens_file).load()

    try:
        settings.check_namespaces(tokens.namespaces)
    except ValueError as error:
        raise click.UsageError(str(error)) from None

    if is_beyond_loopback(settings, host) and not tokens.by_id:
        raise UsageErrorInLines(
            f"without tokens only {', '.join(LOOPBACK)} can be served, and allowed_hosts must be "
            "empty: anybody who can connect would need no password.",
            "Create a token first: abilities token add --namespace NAME --scope read.",
        )


def _listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises click.ClickException."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET

    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        mend = _LISTENING.get(
            error.errno or 0, "check --host, which names an address of this machine"
        )
        raise click.ClickException(
            f"cannot listen on {host} port {port}: {describe_os_error(error)}; {mend}"
        ) from None


async def _run_server(
    session: Session, host: str, listener: socket.socket, *, open_browser: bool
) -> None:
    # Slow to import, and all other commands do without it.
    import uvicorn

    from abilities.server.app import create_app
    from abilities.server.connections import GracefulServer
    from abilities.server.telemetry import log_to_stderr

    # Before anything opens, so that what goes wrong then is logged in the same form.
    log_to_stderr()

    async with session.open_application() as abilities:
        _print_problems(abilities.problems)
        config = uvicorn.Config(
            create_app(abilities, host),
            ws="none",  # there is nothing to upgrade to
            log_config=None,  # keeps what log_to_stderr has set up
            access_log=False,  # telemetry logs the requests
            server_header=False,  # tells attackers nothing
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=DRAIN_SECONDS,
        )

        address = _format_address(host, listener.getsockname()[1])
        _print_addresses(abilities.settings, host, address)

        if open_browser:
            # The socket listens already, so the page waits for the server. Starting a browser may
            # take seconds, hence the thread.
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

        _keep_loaded()

        # The store may take a while to answer, and requests need not wait for it.
        reporting = asyncio.create_task(_report_state(abilities))
        await GracefulServer(config).serve(sockets=[listener])
        reporting.cancel()


def _keep_loaded() -> None:
    """Take what is loaded out of the garbage collector's sight, because it stays.

    Going through all of it would stop every call for a twentieth of a second now and then. It is
    not collected first, because hardly any of it is garbage, and that takes as long.
    """
    gc.freeze()


async def _report_state(abilities: Abilities) -> None:
    """Say what keeps callers out, if anything does: the store, or a token that nobody has."""
    await _report_store(abilities)
    await _check_lock(abilities)


async def _report_store(abilities: Abilities) -> None:
    """Say what to do about the store if it does not answer."""
    try:
        await abilities.check_ready()
    except Exception as error:  # whatever is wrong with the store, the server runs
        words = describe_failure(Fault.from_exception(error), abilities.settings)
        if words is not None:
            echo(words, err=True)


async def _check_lock(abilities: Abilities) -> None:
    """Let the store remember tokens, or say if nobody can call, because there is none."""
    tokens = TokenFile(abilities.settings.tokens_file).load()

    if tokens.by_id:
        # If the store does not answer now, it is told when the first request comes.
        with suppress(Refused):
            await abilities.set_token_mark()
        return

    lock = await find_lock(abilities.settings, tokens, partial(_has_token_mark, abilities))
    if lock.is_locked:
        echo(f"Every caller is refused: {lock.reason}.", err=True)
        echo(f"To go on, {WAY_OUT}.", err=True)


async def _has_token_mark(abilities: Abilities) -> bool | None:
    try:
        return await abilities.has_token_mark()
    except Refused:
        return None


def _print_addresses(settings: Settings, host: str, address: str) -> None:
    from abilities.server.app import list_host_names

    has_mcp = is_installed("mcp")
    mcp_address = f" and {address}/mcp" if has_mcp else ""

    # Programs that start a server wait for this line, and read the port from it.
    echo(
        f"Serving {address}/api{mcp_address}, and the explorer at {address}/ "
        "- press Ctrl-C to stop.",
        err=True,
    )

    if not has_mcp:
        echo(f"MCP is not served: {_explain_no_mcp()}.", err=True)

    if host != "127.0.0.1" or settings.allowed_hosts:
        names = ", ".join(list_host_names(settings, host))
        echo(
            f"Requests must use one of these host names: {names}. Add others to 'allowed_hosts'.",
            err=True,
        )


def _format_address(host: str, port: int) -> str:
    if ":" in host:
        return f"http://[{host}]:{port}"

    return f"http://{host}:{port}"


def _print_problems(problems: list[str]) -> None:
    for problem in problems:
        echo(problem, err=True)


COMMANDS = (serve, explore, mcp)
