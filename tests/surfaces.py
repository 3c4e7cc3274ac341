"""Every surface as one kind of function: (name, arguments) -> the payload that its caller receives.

A call that failed as a whole gives ``{"error": fault}`` on each of them.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from click.testing import CliRunner
from langchain_core.messages import ToolMessage
from mcp import Client

from abilities import Abilities, AbilityError, Settings, render
from abilities.adapters.langchain import load_tools
from abilities.adapters.mcp import server_of
from abilities.cli import main

Surface = Callable[[Settings, str, dict[str, Any]], Awaitable[dict[str, Any]]]


class CannotCarry(Exception):
    """The value cannot cross this surface: JSON holds no lone surrogate and no NaN."""


async def python(settings: Settings, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    async with Abilities.open(settings) as abilities:
        try:
            return await abilities.call(name, arguments)
        except AbilityError as error:
            return {"error": error.fault.payload()}


async def command_line(settings: Settings, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    text = refuse_uncarried(arguments)
    result = await _in_thread(
        lambda: CliRunner().invoke(main, ["call", name, "-"], input=text, env=environment(settings))
    )
    payload: dict[str, Any] = orjson.loads(result.stdout)
    assert result.exit_code == (1 if "error" in payload else 0), result.output
    assert result.stdout == render(payload) + "\n"
    return payload


async def langchain(settings: Settings, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    (tool,) = load_tools(settings, only=[name])
    message = await tool.ainvoke({"type": "tool_call", "id": "1", "name": name, "args": arguments})
    return _told(message)


async def langchain_sync(settings: Settings, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    (tool,) = load_tools(settings, only=[name])
    return _told(
        await _in_thread(lambda: tool.invoke({"type": "tool_call", "id": "1", "name": name, "args": arguments}))
    )


async def mcp_current(settings: Settings, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return await _mcp(settings, name, arguments, "2026-07-28")


async def mcp_earlier(settings: Settings, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return await _mcp(settings, name, arguments, "legacy")


async def mcp_structured(settings: Settings, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return await _mcp(settings.model_copy(update={"structured": True}), name, arguments, "legacy")


SURFACES: dict[str, Surface] = {
    surface.__name__: surface
    for surface in (python, command_line, langchain, langchain_sync, mcp_current, mcp_earlier, mcp_structured)
}


def environment(settings: Settings) -> dict[str, str]:
    """The settings as the variables of a process."""
    given = settings.model_dump(mode="json", exclude_unset=True)
    joined = {name: ",".join(value) if isinstance(value, list) else str(value) for name, value in given.items()}
    return {f"ABILITIES_{name.upper()}": value for name, value in joined.items()}


def told_by(result: Any, *, structured: bool = False) -> dict[str, Any]:
    """The payload of an MCP tool result, after checking that it says the same in each of its parts."""
    (part,) = result.content
    payload: dict[str, Any] = orjson.loads(part.text)
    assert part.text == render(payload)
    assert result.is_error == ("error" in payload)
    assert result.structured_content == (payload if structured and not result.is_error else None)
    return payload


async def _mcp(settings: Settings, name: str, arguments: dict[str, Any], mode: str) -> dict[str, Any]:
    refuse_uncarried(arguments)
    async with Abilities.open(settings) as abilities, Client(server_of(abilities), mode=mode) as client:
        return told_by(await client.call_tool(name, arguments), structured=settings.structured)


def _told(message: Any) -> dict[str, Any]:
    assert isinstance(message, ToolMessage)
    payload: dict[str, Any] = orjson.loads(str(message.content))
    assert message.content == render(payload)
    assert message.status == ("error" if "error" in payload else "success")
    assert message.artifact == (None if "error" in payload else payload)
    return payload


def refuse_uncarried(arguments: dict[str, Any]) -> str:
    try:
        text = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
        text.encode()
    except ValueError as error:
        raise CannotCarry from error
    return text


async def _in_thread(work: Callable[[], Any]) -> Any:
    import asyncio

    return await asyncio.to_thread(work)
