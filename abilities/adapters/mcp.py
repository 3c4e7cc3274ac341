"""The MCP bridge: every ability of a registry as a tool, on the official SDK's low-level server."""

from importlib.metadata import version
from typing import Any

import mcp_types as types
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from abilities.ability import Ability
from abilities.application import Abilities
from abilities.declare import annotations, input_schema, output_schema

INSTRUCTIONS = (
    "Read many files or memories in one call instead of one call each. Every item has its own outcome; when an "
    "answer carries next_request, send it as the next call's arguments to get the rest."
)


def server_of(abilities: Abilities) -> Server[Any]:
    """An MCP server for an open application, for every protocol revision that the SDK speaks."""
    tools = [tool_of(ability, abilities) for ability in abilities.registry]

    async def list_tools(
        _: ServerRequestContext[Any], __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def call_tool(_: ServerRequestContext[Any], params: types.CallToolRequestParams) -> types.CallToolResult:
        return await _called(abilities, params)

    return Server(
        "agent-abilities",
        version=version("agent-abilities"),
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def tool_of(ability: Ability, abilities: Abilities) -> types.Tool:
    """An ability as an MCP tool; its output schema is declared only where structured content is sent."""
    settings = abilities.settings
    return types.Tool(
        name=ability.name,
        title=ability.title,
        description=ability.description,
        input_schema=input_schema(ability),
        output_schema=output_schema(ability) if settings.structured else None,
        annotations=types.ToolAnnotations.model_validate(annotations(ability)),
        _meta={"anthropic/maxResultSizeChars": settings.max_response_bytes},
    )


async def _called(abilities: Abilities, params: types.CallToolRequestParams) -> types.CallToolResult:
    if params.name not in abilities.registry:
        raise MCPError(code=types.INVALID_PARAMS, message="Unknown tool.")
    reply = await abilities.reply(params.name, params.arguments)
    structured = abilities.settings.structured and not reply.failed
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=reply.text)],
        structured_content=reply.payload if structured else None,
        is_error=reply.failed,
    )
