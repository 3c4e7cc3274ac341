"""Every surface as one kind of function, from a call to the payload that its caller receives.

If a call fails as a whole, each surface gives ``{"error": fault}``. The text that a caller reads
must be the payload in the format that the call asks for, or in the default one of the surface.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import click.testing
import httpx
import httpx2
import toon_format
from click.testing import CliRunner
from langchain_core.messages import ToolMessage
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from starlette.types import ASGIApp

from abilities import Abilities, AbilityError, Settings, parse_text, render
from abilities.adapters.http import get_status
from abilities.adapters.langchain import load_tools
from abilities.adapters.mcp import create_server
from abilities.cli.main import main
from abilities.declarations.refusals import Fault
from abilities.helpers.reply.formats import Format
from abilities.server.app import create_app
from abilities.server.guard import MAX_BODY
from tests.support.catalog import BUILT_IN

Payload = dict[str, Any]
Call = Callable[..., Awaitable[Payload]]
Through = Callable[[Settings], Call]
Surface = Callable[[Settings, str, Payload], Awaitable[Payload]]

CURRENT, EARLIER = "2026-07-28", "legacy"
"""Revisions of MCP, as a client names them."""

FORMATS: tuple[Format, ...] = ("json", "text", "toon")


class CannotCarry(Exception):
    """The value cannot cross this surface.

    JSON holds no lone surrogate and no NaN, and HTTP takes no large body.
    """


async def python(settings: Settings, name: str, arguments: Payload) -> Payload:
    async with Abilities.open(settings) as abilities:
        try:
            return await abilities.call(name, arguments)
        except AbilityError as error:
            return {"error": error.fault.to_payload()}


async def command_line(settings: Settings, name: str, arguments: Payload) -> Payload:
    text = refuse_uncarried(arguments)
    result = await asyncio.to_thread(run, settings, "call", name, "-", stdin=text)
    output = result.stdout_bytes.decode()
    payload = read_reply(output, arguments.get("output_format", "json"))
    assert result.exit_code == (1 if "error" in payload else 0), result.output
    return payload


async def mcp_current(settings: Settings, name: str, arguments: Payload) -> Payload:
    return await _call_mcp(settings, name, arguments, mode=CURRENT)


async def mcp_structured(settings: Settings, name: str, arguments: Payload) -> Payload:
    structured = settings.model_copy(update={"structured": True})
    return await _call_mcp(structured, name, arguments, mode=EARLIER)


async def http(settings: Settings, name: str, arguments: Payload) -> Payload:
    text = refuse_uncarried(arguments)
    if len(text.encode()) > MAX_BODY:
        raise CannotCarry

    async with Abilities.open(settings) as abilities:
        transport = httpx.ASGITransport(app=create_app(abilities))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            headers = {"Content-Type": "application/json"}
            response = await client.post(f"/api/abilities/{name}", content=text, headers=headers)

    payload = read_reply(response.text, arguments.get("output_format", "json"))
    status = get_status(payload["error"]) if "error" in payload else 200
    assert response.status_code == status
    assert response.headers["content-type"] == find_media_type(response.text, payload)
    return payload


async def _call_mcp(settings: Settings, name: str, arguments: Payload, *, mode: str) -> Payload:
    refuse_uncarried(arguments)
    async with (
        Abilities.open(settings) as abilities,
        Client(create_server(abilities), mode=mode) as client,
    ):
        return read_tool_result(
            await client.call_tool(name, arguments),
            chosen=find_model_format(settings, name, arguments),
            structured=settings.structured,
        )


async def _call_mcp_http(
    settings: Settings, name: str, arguments: Payload, *, mode: str
) -> Payload:
    if len(refuse_uncarried(arguments).encode()) > MAX_BODY - 1_000:
        raise CannotCarry
    async with (
        Abilities.open(settings) as abilities,
        run_lifespan(create_app(abilities)) as app,
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app)) as sender,
        Client(
            streamable_http_client("http://127.0.0.1/mcp", http_client=sender), mode=mode
        ) as client,
    ):
        return read_tool_result(
            await client.call_tool(name, arguments),
            chosen=find_model_format(settings, name, arguments),
        )


async def _call_langchain(
    settings: Settings, name: str, arguments: Payload, *, is_sync: bool = False
) -> Payload:
    (tool,) = load_tools(settings, only=[name])
    call = {"type": "tool_call", "id": "1", "name": name, "args": arguments}
    message = await (asyncio.to_thread(tool.invoke, call) if is_sync else tool.ainvoke(call))
    return read_tool_message(message, find_model_format(settings, name, arguments))


SURFACES: dict[str, Surface] = {
    "python": python,
    "command_line": command_line,
    "langchain": _call_langchain,
    "langchain_sync": partial(_call_langchain, is_sync=True),
    "mcp_current": mcp_current,
    "mcp_earlier": partial(_call_mcp, mode=EARLIER),
    "mcp_structured": mcp_structured,
    "http": http,
    "mcp_http_current": partial(_call_mcp_http, mode=CURRENT),
    "mcp_http_earlier": partial(_call_mcp_http, mode=EARLIER),
}
WRITES = ("store_memory", "update_memory", "delete_memory", "remember", "memory_restore")


def calls_through(name: str) -> Through:
    """Return calls through one surface, whose arguments are keywords.

    Each reply is compared with Python's, except that a write is not made a second time.
    """

    def bind_settings(settings: Settings) -> Call:
        async def call(ability: str, **arguments: Any) -> Payload:
            payload = await SURFACES[name](settings, ability, arguments)
            if ability not in WRITES or "error" in payload:
                assert payload == await python(settings, ability, arguments)
            if "error" in payload:
                raise AbilityError(Fault.model_validate(payload["error"]))
            return payload

        return call

    return bind_settings


def run(
    settings: Settings | None, *command: str, stdin: str | bytes | None = None, **more: str
) -> click.testing.Result:
    """Run a command in this process, with the settings and more variables in its environment."""
    variables = {**(environment(settings) if settings else {}), **more}
    done = CliRunner().invoke(main, command, stdin, variables, prog_name="abilities")
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def with_changes(settings: Settings, **changes: Any) -> Settings:
    """Return settings with other values, which are checked."""
    return Settings(**{**settings.model_dump(exclude_unset=True), **changes})


def environment(settings: Settings) -> dict[str, str]:
    variables: dict[str, str] = {}
    for name, value in settings.model_dump(
        mode="json", exclude_unset=True, exclude_none=True
    ).items():
        text = ",".join(value) if isinstance(value, list) else str(value)
        variables[f"ABILITIES_{name.upper()}"] = text
    return variables


FORMATTED = {ability.name for ability in BUILT_IN if "output_format" in ability.input.model_fields}
"""The abilities whose answers have several formats."""


def find_model_format(settings: Settings, name: str, arguments: Payload) -> str:
    if name not in FORMATTED:
        return "json"
    asked: str | None = arguments.get("output_format")
    return asked or settings.output_format


def read_reply(text: str, chosen: str) -> Payload:
    """Return the payload of a reply, which must be written in the chosen format.

    A line end at the end of JSON and TOON is the command line's.
    """
    payload = _parse_reply(text)
    assert text.removesuffix("\n") == render_reply(payload, chosen).removesuffix("\n")
    return payload


def render_reply(payload: Payload, chosen: str) -> str:
    if "error" in payload:
        return render(payload)
    if chosen in FORMATS:
        return render(payload, chosen)
    assert chosen == "auto"
    texts = [render(payload, name) for name in FORMATS]
    return min(texts, key=lambda text: len(text.encode()))


def find_media_type(text: str, payload: Payload) -> str:
    if text == render(payload):
        return "application/json"
    subtype = "plain" if text == render(payload, "text") else "toon"
    return f"text/{subtype}; charset=utf-8"


def _parse_reply(text: str) -> Payload:
    try:
        return parse_text(text)
    except ValueError:
        payload: Payload = toon_format.loads(text)
        return payload


def read_tool_result(result: Any, *, chosen: str = "text", structured: bool = False) -> Payload:
    (part,) = result.content
    payload = read_reply(part.text, chosen)
    structured_content = payload if structured and not result.is_error else None
    assert result.is_error == ("error" in payload)
    assert result.structured_content == structured_content
    return payload


@asynccontextmanager
async def run_lifespan(app: ASGIApp) -> AsyncIterator[Any]:
    """Start an application, yield it, and shut it down, as a server does (ASGI lifespan)."""
    to_app: asyncio.Queue[Payload] = asyncio.Queue()
    from_app: asyncio.Queue[Any] = asyncio.Queue()
    scope = {"type": "lifespan", "asgi": {"version": "3.0"}}
    running = asyncio.ensure_future(app(scope, to_app.get, from_app.put))

    await to_app.put({"type": "lifespan.startup"})
    assert (await from_app.get())["type"] == "lifespan.startup.complete"

    yield app

    await to_app.put({"type": "lifespan.shutdown"})
    assert (await from_app.get())["type"] == "lifespan.shutdown.complete"
    await running


def read_tool_message(message: Any, chosen: str = "text") -> Payload:
    assert isinstance(message, ToolMessage)
    payload = read_reply(str(message.content), chosen)
    assert message.status == ("error" if "error" in payload else "success")
    assert message.artifact == (None if "error" in payload else payload)
    return payload


def refuse_uncarried(arguments: Payload) -> str:
    """Return the arguments as JSON. Raises CannotCarry if JSON or UTF-8 cannot hold them."""
    try:
        text = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
        text.encode()
    except ValueError as error:
        raise CannotCarry from error
    return text
