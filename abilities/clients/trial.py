"""Try what a client will start, as a client does: over stdio, with no other variables."""

import asyncio
import os
import tempfile
from pathlib import Path
from typing import NamedTuple, TextIO, cast

from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from abilities.clients.entry import ServerEntry
from abilities.declarations.refusals import AbilitiesError

_PATH = "/usr/local/bin:/usr/bin:/bin"
"""Where programs are for a client that was not started from a shell."""

_SECONDS = 60
"""How long a command may take, which is long, because a first start may read from a slow disk."""

_CALLS = {"file_list": {"limit": 1}, "get_memory_stats": {}}
"""Calls that change nothing, the better one first."""


class ServerAnswer(NamedTuple):
    """What a server answered: its name with its version, how many tools, and which was called."""

    server: str
    tools: int
    called: str | None


class TrialFailed(AbilitiesError):
    """A command that does not work as a client starts it; the message says why."""


async def try_entry(entry: ServerEntry, folder: Path) -> ServerAnswer:
    """Start a server in a folder, list its tools and call one. Raises TrialFailed."""
    server = StdioServerParameters(
        command=entry.command,
        args=[*entry.arguments],
        env={"PATH": _PATH, **entry.variables},
        cwd=folder,
    )

    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
        try:
            async with asyncio.timeout(_SECONDS):
                return await _ask(server, log)
        except TrialFailed:
            raise
        except TimeoutError:
            raise TrialFailed(f"it did not answer within {_SECONDS} seconds") from None
        except Exception as error:  # whatever the client makes of a server that fails
            raise TrialFailed(_read_last_words(log) or _describe(error)) from None


async def try_hook(command: str, folder: Path) -> None:
    """Run a hook's command by a shell, as Claude Code does. Raises TrialFailed."""
    variables = {"PATH": _PATH, "HOME": os.environ.get("HOME", "")}
    process = await asyncio.create_subprocess_shell(
        command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env=variables,
        cwd=folder,
    )

    try:
        async with asyncio.timeout(_SECONDS):
            _, words = await process.communicate()
    except TimeoutError:
        process.kill()
        raise TrialFailed(f"it did not end within {_SECONDS} seconds") from None

    if process.returncode != 0:
        raise TrialFailed(_take_last_lines(words.decode(errors="replace")))


async def _ask(server: StdioServerParameters, log: TextIO) -> ServerAnswer:
    async with Client(stdio_client(server, log)) as client:
        listing = await client.list_tools()
        names = {tool.name for tool in listing.tools}
        called = await _call_first(client, names)
        info = client.server_info
        words = "a server" if info is None else f"{info.name} {info.version}"
        return ServerAnswer(words, len(names), called)


async def _call_first(client: Client, names: set[str]) -> str | None:
    """Make the first call that the server offers, and return its name."""
    for name, arguments in _CALLS.items():
        if name not in names:
            continue

        result = await client.call_tool(name, arguments)
        if not result.is_error:
            return name

        words = " ".join(part.text for part in result.content if part.type == "text")
        # A server without a workspace is as it should be; it has memories.
        if "no_workspace" not in words:
            raise TrialFailed(f"{name} failed: {words}")

    return None


def _read_last_words(log: TextIO) -> str:
    log.seek(0)
    return _take_last_lines(log.read())


def _take_last_lines(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(lines[-3:])


def _describe(error: BaseException) -> str:
    """Return what the first cause in a group of errors says."""
    while isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        error = group.exceptions[0]

    return str(error) or type(error).__name__
