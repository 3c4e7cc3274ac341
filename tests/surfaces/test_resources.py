"""Memories as MCP resources, in both eras."""

from urllib.parse import quote

import pytest
from mcp import Client, MCPError
from mcp.types import TextResourceContents

from abilities import Abilities, Settings, ability, render
from abilities.builtin.memory_reads import memory_get
from abilities.declarations.bulk_read_memory import MemoryGetAnswer, MemoryGetInput
from abilities.definition import Context
from tests.support.serving import serving_app
from tests.surfaces.test_server import KEYS


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
async def test_a_memory_is_a_resource_with_the_tools_own_text(mode: str, roots: Settings) -> None:
    async with Abilities.open(roots) as abilities:
        for key in KEYS:
            await abilities.call("store_memory", {"type": "core", "content": key, "key": key})
        expected = {key: render(await abilities.call("memory_get", {"key": key})) for key in KEYS}

    async with serving_app(roots) as server, server.mcp(mode=mode) as client:
        (template,) = (await client.list_resource_templates()).resource_templates
        assert (template.uri_template, template.mime_type) == ("memory://{key}", "application/json")
        assert template.description == memory_get.description
        assert (await client.list_resources()).resources == []

        for key in KEYS:
            uri = f"memory://{quote(key, safe='')}"
            part = await read_text(client, uri)
            assert (part.text, part.uri, part.mime_type) == (expected[key], uri, "application/json")

        # Some clients do not encode the slash.
        part = await read_text(client, "memory://with/slash")
        assert part.text == expected["with/slash"]

        for uri, reason in (
            ("memory://none", "not_found"),
            ("memory://", "invalid_key"),
            ("memory://%FF", "invalid_key"),
        ):
            with pytest.raises(MCPError) as refused:
                await client.read_resource(uri)

            error = refused.value.error
            assert error.code == -32602
            assert (error.data["reason"], error.data["uri"]) == (reason, uri)

        for uri in ("file:///etc/passwd", "memory:none", "test://x"):
            with pytest.raises(MCPError, match="Unknown resource"):
                await client.read_resource(uri)


async def read_text(client: Client, uri: str) -> TextResourceContents:
    (part,) = (await client.read_resource(uri)).contents
    assert isinstance(part, TextResourceContents)
    return part


@pytest.mark.parametrize(
    "resource", ["memory://{other}", "memory://key", "{key}", "memory://{key}/x", "Memory://{key}"]
)
def test_a_resource_names_an_argument_of_an_ability_that_reads(resource: str) -> None:
    async def run(context: Context, arguments: MemoryGetInput) -> MemoryGetAnswer:
        raise NotImplementedError

    with pytest.raises(ValueError, match="a resource is read"):
        ability(name="x", description="X.", read_only=True, resource=resource)(run)
    with pytest.raises(ValueError, match="a resource is read"):
        ability(name="x", description="X.", resource="memory://{key}")(run)

    readable = ability(name="x", description="X.", read_only=True, resource="x://{key}")(run)
    assert readable.resource == "x://{key}"
