"""The MCP bridge: every ability of a registry as a tool, on the official SDK's low-level server.

An ability that names a resource is read at its URIs too, with the same text.
"""

from importlib.metadata import version
from typing import Any
from urllib.parse import unquote

import mcp_types as types
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from abilities.application import Abilities
from abilities.definition import Ability
from abilities.schemas import build_annotations, build_input_schema, build_output_schema

INSTRUCTIONS = (
    "Read many files or memories in one call instead of one call each. Every item has its own outcome; when an "
    "answer carries next_request, send it as the next call's arguments to get the rest."
)


def create_server(abilities: Abilities) -> Server[Any]:
    """An MCP server for an open application, for every protocol revision that the SDK speaks.

    Behind HTTP, each request's scope holds the ``abilities`` of its caller.
    """
    tools = {ability.name: to_tool(ability, abilities) for ability in abilities.registry}
    templates = {
        ability.name: _template(ability) for ability in abilities.registry if ability.resource
    }

    def of(context: ServerRequestContext[Any]) -> Abilities:
        return abilities if context.request is None else context.request.scope["abilities"]

    async def list_tools(
        context: ServerRequestContext[Any], _: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[tools[ability.name] for ability in of(context).offered])

    async def call_tool(
        context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        return await _called(of(context), params)

    async def list_templates(
        _: ServerRequestContext[Any], __: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=list(templates.values()))

    async def list_resources(
        _: ServerRequestContext[Any], __: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[])  # there may be millions; query for them

    async def read_resource(
        context: ServerRequestContext[Any], params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        return await _read(of(context), params.uri)

    return Server(
        "agent-abilities",
        version=version("agent-abilities"),
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
    )


def to_tool(ability: Ability, abilities: Abilities) -> types.Tool:
    """An ability as an MCP tool; its output schema is declared only where structured content is sent."""
    settings = abilities.settings
    return types.Tool(
        name=ability.name,
        title=ability.title,
        description=ability.description,
        input_schema=build_input_schema(ability),
        output_schema=build_output_schema(ability) if settings.structured else None,
        annotations=types.ToolAnnotations.model_validate(build_annotations(ability)),
        _meta={"anthropic/maxResultSizeChars": settings.max_response_bytes},
    )


async def _called(
    abilities: Abilities, params: types.CallToolRequestParams
) -> types.CallToolResult:
    if params.name not in abilities.registry:
        raise MCPError(code=types.INVALID_PARAMS, message="Unknown tool.")
    reply = await abilities.reply(params.name, params.arguments)
    structured = abilities.settings.structured and not reply.failed
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=reply.text)],
        structured_content=reply.payload if structured else None,
        is_error=reply.failed,
    )


def _template(ability: Ability) -> types.ResourceTemplate:
    assert ability.resource
    return types.ResourceTemplate(
        name=ability.name,
        title=ability.title,
        uri_template=ability.resource,
        description=ability.description,
        mime_type="application/json",
    )


async def _read(abilities: Abilities, uri: str) -> types.ReadResourceResult:
    """The answer to a URI. Raises MCPError: INVALID_PARAMS, with the fault as its data."""
    for ability in abilities.registry:
        scheme, _, argument = (ability.resource or "").partition("{")
        if scheme and uri.startswith(scheme):
            reply = await abilities.reply(
                ability.name, {argument.removesuffix("}"): _decoded(uri[len(scheme) :])}
            )
            if reply.failed:
                fault = reply.payload["error"]
                raise MCPError(
                    code=types.INVALID_PARAMS, message=fault["message"], data={"uri": uri, **fault}
                )
            text = types.TextResourceContents(
                uri=uri, mime_type="application/json", text=reply.text
            )
            return types.ReadResourceResult(contents=[text])
    raise MCPError(code=types.INVALID_PARAMS, message="Unknown resource.", data={"uri": uri})


def _decoded(text: str) -> str:
    """A percent-encoded argument; one that is no UTF-8 holds what no argument may."""
    return unquote(text, errors="surrogateescape")
