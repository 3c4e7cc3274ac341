"""Trials of a server or hook, started as a client does: over stdio, with only its own variables."""

import asyncio
import os
import tempfile
from pathlib import Path
from typing import NamedTuple, cast

from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from abilities.clients.entry import ServerEntry
from abilities.declarations.refusals import AbilitiesError

_PATH = "/usr/local/bin:/usr/bin:/bin"
"""The search path of a client that was not started from a shell."""

_SECONDS = 60
"""How long a command may take. It is long because a first start may read from a slow disk."""

_CALLS = {"file_list": {"limit": 1}, "get_memory_stats": {}}
"""Calls that change nothing, in order of preference."""


_EVENT = b'{"session_id": "setup", "source": "startup"}'
"""The fields of an event that a hook is tried with: a session starts."""


class ServerAnswer(NamedTuple):
    """A server's name with its version, the number of its tools, and the tool that was called."""

    server: str
    tools: int
    called: str | None


class TrialFailed(AbilitiesError):
    """A command does not work as a client starts it. The message says why."""


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
            async with asyncio.timeout(_SECONDS), Client(stdio_client(server, log)) as client:
                listing = await client.list_tools()
                names = {tool.name for tool in listing.tools}
                called = await _call_first(client, names)

                info = client.server_info
                words = "a server" if info is None else f"{info.name} {info.version}"
                return ServerAnswer(words, len(names), called)
        except TrialFailed:
            raise
        except TimeoutError:
            raise TrialFailed(f"it did not answer within {_SECONDS} seconds") from None
        except Exception as error:  # the client has various exceptions for a failing server
            log.seek(0)
            words = _take_last_lines(log.read())

            first: BaseException = error
            while isinstance(first, BaseExceptionGroup):
                group = cast("BaseExceptionGroup[BaseException]", first)
                first = group.exceptions[0]

            raise TrialFailed(words or str(first) or type(first).__name__) from None


async def try_hook(command: str, folder: Path) -> None:
    """Run the command of the hook SessionStart in a shell, as clients do. Raises TrialFailed."""
    variables = {"PATH": _PATH, "HOME": os.environ.get("HOME", "")}
    process = await asyncio.create_subprocess_shell(
        command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=variables,
        cwd=folder,
    )

    try:
        async with asyncio.timeout(_SECONDS):
            printed, words = await process.communicate(_EVENT)
    except TimeoutError:
        process.kill()
        raise TrialFailed(f"it did not end within {_SECONDS} seconds") from None

    # A hook that fails is silent, but at the start of a session there is always an answer.
    if process.returncode != 0 or not printed:
        said = _take_last_lines(words.decode(errors="replace"))
        raise TrialFailed(said or "its hook printed nothing")


async def _call_first(client: Client, names: set[str]) -> str | None:
    """Call the first of our tools that the server has, and return its name."""
    for name, arguments in _CALLS.items():
        if name not in names:
            continue

        result = await client.call_tool(name, arguments)
        if not result.is_error:
            return name

        words = " ".join(part.text for part in result.content if part.type == "text")
        # A server may have no workspace; the next call tries its memories.
        if "no_workspace" not in words:
            raise TrialFailed(f"{name} failed: {words}")

    return None


def _take_last_lines(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(lines[-3:])
