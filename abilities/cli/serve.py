"""The commands that serve abilities: serve and explore over HTTP, mcp over stdin and stdout."""

import asyncio
import errno
import gc
import socket
import sys
import threading
import webbrowser
from contextlib import suppress

import click

from abilities.application import Abilities
from abilities.cli.completion import complete_tools
from abilities.cli.errors import UsageErrorInLines, describe_os_error
from abilities.cli.session import Session, define_command, describe_failure
from abilities.cli.terminal import echo
from abilities.cli.token import WAY_OUT, find_lock, lock_by_mark
from abilities.declarations.refusals import Fault, Refused
from abilities.errors import format_install, is_installed
from abilities.helpers.grants import GrantFile
from abilities.helpers.importing import defer_packages, pause_collection
from abilities.helpers.tokens import TokenFile
from abilities.settings import LOOPBACK, Settings, split_names

IDLE_SECONDS = 10
"""The time that a connection without requests is kept open."""

DRAIN_SECONDS = 9
"""The time that a stopping server waits for running calls, before it ends them with an error."""


_LISTENING = {
    errno.EADDRINUSE: "another server has it, perhaps this one started twice; "
    "end that, or choose a port: --port 0 takes a free one",
    errno.EACCES: "choose a port above 1023, for example --port 8642",
}
"""The remedy if an address cannot be listened on, by the error number."""

_NO_MCP = f"version 2 of the MCP SDK is not installed; run: {format_install('mcp')}"

_take_tools = click.option(
    "--tools",
    metavar="NAMES",
    shell_complete=complete_tools,
    help="The abilities to offer: all, lean, files, memory, or names separated by commas "
    "(default: those of the settings).",
)


@define_command(
    "abilities serve", "abilities token add --scope read && abilities serve --host 0.0.0.0"
)
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
@_take_tools
def serve(session: Session, host: str, port: int, tools: str | None) -> None:
    """Serve HTTP (/api), MCP (/mcp) and the memory explorer (/).

    Without tokens, only this machine can connect. From the first token on (see 'abilities token')
    every caller needs one, and the server may listen on other addresses than loopback; put a proxy
    with TLS in front of it.
    """
    _serve(_choose_tools(session, tools), host, port, open_browser=False)


@define_command("abilities explore", "abilities explore --port 8700 --no-browser")
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
def explore(session: Session, port: int, browser: bool) -> None:
    """Look at memories, notes and files in the browser.

    Serves the same as 'abilities serve', to this machine only, until you press Ctrl-C.
    """
    _serve(session, "127.0.0.1", port, open_browser=browser)


@define_command(
    '{"mcpServers": {"abilities": {"command": "abilities", "args": ["mcp"]}}}',
    heading="Example of a client's configuration:",
)
@_take_tools
def mcp(session: Session, tools: str | None) -> None:
    """Serve the abilities to an MCP client over stdin and stdout.

    MCP clients start this command themselves, so configure it as the command of a server.
    """
    session = _choose_tools(session, tools)
    # An optional dependency.
    if not is_installed("mcp"):
        raise click.UsageError(_NO_MCP)

    with pause_collection():
        # Their __init__ would import the SDK's client and a second server too.
        defer_packages("mcp", "mcp.server")
        from abilities.adapters.stdio import serve_stdio
        from abilities.hooks.answering import answer_hooks

    async def run_server() -> None:
        # A person who types the command would wait for the server, which waits for a client. It is
        # said here, because only now does Ctrl-C end the event loop in order.
        if sys.stdin is not None and sys.stdin.isatty():
            echo(
                "Waiting for an MCP client to write to stdin; clients start this command "
                "themselves. Press Ctrl-C to stop, and see 'abilities mcp --help'.",
                err=True,
            )

        # stdout belongs to the protocol; everything for people goes to stderr.
        async with session.open_application() as abilities:
            _begin_serving(abilities)
            async with answer_hooks(abilities, session.variables):
                await serve_stdio(abilities)

    asyncio.run(run_server())


def _serve(session: Session, host: str, port: int, *, open_browser: bool) -> None:
    """Serve HTTP until stopped. Raises click.UsageError, click.ClickException."""
    settings = session.shareable_settings
    if not is_installed("http"):
        raise click.UsageError(f"serving is not installed; run: {format_install('http')}")

    # Imports an optional dependency.
    from abilities.server.app import check_oauth, is_beyond_loopback

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

    # Listen first, so that a port in use is reported before anything is opened.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        check = "check --host, which names an address of this machine"
        mend = _LISTENING.get(error.errno or 0, check)
        raise click.ClickException(
            f"cannot listen on {host} port {port}: {describe_os_error(error)}; {mend}"
        ) from None

    with listener:
        address = _format_address(host, listener)
        if settings.oauth and settings.public_url is None and host in LOOPBACK:
            session = session.override({"public_url": address})

        try:
            check_oauth(session.settings, host)
            if settings.oauth:
                GrantFile(settings.tokens_file).prune()
        except OSError as error:
            raise click.UsageError(
                f"{error.filename or settings.tokens_file}: {describe_os_error(error)}; "
                "oauth needs tokens_file to be in a folder that this user may write to"
            ) from None
        except ValueError as error:
            raise click.UsageError(str(error)) from None

        asyncio.run(_run_server(session, host, listener, open_browser=open_browser))


async def _run_server(
    session: Session, host: str, listener: socket.socket, *, open_browser: bool
) -> None:
    """Serve on a listening socket until a signal arrives."""
    # Slow to import, and only this command needs them.
    import uvicorn

    from abilities.server.app import create_app
    from abilities.server.connections import GracefulServer
    from abilities.server.telemetry import log_to_stderr

    # First, so that failures of opening are logged in the same form.
    log_to_stderr()

    async with session.open_application() as abilities:
        config = uvicorn.Config(
            create_app(abilities, host),
            ws="none",  # there is nothing to upgrade to
            log_config=None,  # keeps the log of log_to_stderr
            access_log=False,  # telemetry logs the requests
            server_header=False,  # tells attackers nothing
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=DRAIN_SECONDS,
        )

        address = _format_address(host, listener)
        _print_addresses(abilities.settings, host, address)

        if open_browser:
            # The socket listens already, so the page waits for the server. Starting a browser may
            # take seconds, hence the thread.
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

        _begin_serving(abilities)

        # The store may take a while to answer, and requests need not wait for it.
        reporting = asyncio.create_task(_report_state(abilities))
        await GracefulServer(config).serve(sockets=[listener])
        reporting.cancel()


def _format_address(host: str, listener: socket.socket) -> str:
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listener.getsockname()[1]}"


def _print_addresses(settings: Settings, host: str, address: str) -> None:
    """Print the addresses of a server, and the host names that it accepts."""
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
        echo(f"MCP is not served: {_NO_MCP}.", err=True)

    if settings.oauth:
        echo(f"OAuth clients reach it at {settings.public_url}/mcp.", err=True)

    if host != "127.0.0.1" or not {*settings.host_names} <= {*LOOPBACK}:
        names = ", ".join(list_host_names(settings, host))
        echo(
            f"Requests must use one of these host names: {names}. Add others to 'allowed_hosts'.",
            err=True,
        )


async def _report_state(abilities: Abilities) -> None:
    """Print what keeps callers out, if anything does: the store, or a token that nobody has."""
    settings = abilities.settings
    try:
        await abilities.check_ready()
    except Exception as error:  # whatever is wrong with the store, the server runs
        words = describe_failure(Fault.from_exception(error), settings)
        if words is not None:
            echo(words, err=True)

    tokens = TokenFile(settings.tokens_file).load()
    if tokens.by_id:
        # If the store does not answer now, the first request records the tokens.
        with suppress(Refused):
            await abilities.set_token_mark()
        return

    lock = find_lock(settings, tokens)
    if lock is None:
        remembered = None
        with suppress(Refused):
            remembered = await abilities.has_token_mark()
        lock = lock_by_mark(remembered)

    if lock.is_locked:
        echo(f"Every caller is refused: {lock.reason}.", err=True)
        echo(f"To go on, {WAY_OUT}.", err=True)


def _choose_tools(session: Session, tools: str | None) -> Session:
    """Return the session with the tools of an option, if that was given."""
    if tools is None:
        return session

    return session.override({"tools": split_names(tools)})


def _begin_serving(abilities: Abilities) -> None:
    """Print a sentence for each plugin that did not load, and keep what is loaded."""
    for problem in abilities.problems:
        echo(problem, err=True)

    # Searching for garbage would stop every call for a twentieth of a second now and then. Hardly
    # any of what is loaded is garbage, and to collect it first takes as long.
    gc.freeze()
