"""A disabled ability is gone on every surface, as if it had never been there."""

from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from mcp import Client, MCPError

from abilities import Abilities, AbilityError, Settings
from abilities.adapters.langchain import load_tools
from abilities.adapters.mcp import create_server
from abilities.cli.main import main
from abilities.declarations.refusals import Fault
from abilities.server.app import create_app
from tests.support.surfaces import SURFACES, environment

ROUTES = {
    "bulk_read_memory": ("GET", "/api/memories/k/bulk"),
    "memory_get": ("GET", "/api/memories/k"),
    "query_memories": ("GET", "/api/memories"),
    "store_memory": ("POST", "/api/memories"),
    "update_memory": ("PATCH", "/api/memories/by-id/00000000-0000-4000-8000-000000000000"),
    "delete_memory": ("DELETE", "/api/memories/by-id/00000000-0000-4000-8000-000000000000"),
    "get_memory_stats": ("GET", "/api/stats"),
}


def disable(settings: Settings, *names: str) -> Settings:
    return settings.model_copy(update={"disabled": names})


@pytest.mark.parametrize("surface", SURFACES)
async def test_without_the_bulk_ability_memory_get_reads_one_memory_and_no_more(
    surface: str, roots: Settings
) -> None:
    settings = disable(roots, "bulk_read_memory")

    async def call(name: str, **arguments: Any) -> dict[str, Any]:
        return await SURFACES[surface](settings, name, arguments)

    await call("store_memory", type="core", key="k", content="x", links=[{"key": "other"}])

    assert (await call("memory_get", key="k"))["success"]
    assert (await call("memory_get", key="k", bulkRead=False, depth=2))["success"]
    for name in ("bulkRead", "bulk_read"):
        refused = Fault.from_reason("disabled", field="bulkRead").to_payload()
        assert await call("memory_get", key="k", **{name: True}) == {"error": refused}


@pytest.mark.parametrize("name", ROUTES)
async def test_over_http_a_disabled_ability_is_an_unknown_one(name: str, roots: Settings) -> None:
    method, address = ROUTES[name]

    async with Abilities.open(disable(roots, name)) as abilities:
        transport = httpx.ASGITransport(app=create_app(abilities))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            for verb in ("GET", "POST"):
                gone = await client.request(verb, f"/api/abilities/{name}", json={})
                never = await client.request(verb, f"/api/abilities/{name}x", json={})

                assert gone.status_code == never.status_code
                assert gone.json() == never.json()

            answer = await client.request(method, address, json={})
            addresses = (await client.get("/openapi.json")).json()["paths"]

    assert answer.status_code in (404, 405)
    assert answer.json()["error"]["reason"] == "unknown_address"
    template = address.replace("/k", "/{key}").replace(
        "00000000-0000-4000-8000-000000000000", "{id}"
    )
    assert method.lower() not in addresses.get(template, {})
    assert f"/api/abilities/{name}" not in addresses


def test_on_the_command_line_a_disabled_ability_is_an_unknown_one(roots: Settings) -> None:
    variables = environment(disable(roots, "bulk_read_memory"))

    for command in (["describe"], ["call"]):
        gone, never = [
            CliRunner().invoke(main, [*command, name], env=variables)
            for name in ("bulk_read_memory", "never_there")
        ]

        assert gone.exit_code == never.exit_code == 2
        assert gone.stderr == never.stderr.replace("never_there", "bulk_read_memory")


async def test_a_disabled_ability_and_an_unknown_one_are_refused_alike_elsewhere(
    roots: Settings,
) -> None:
    settings = disable(roots, "bulk_read_memory")
    refusals: list[list[str]] = []

    for name in ("bulk_read_memory", "never_there_at_all"):
        said: list[str] = []
        async with Abilities.open(settings) as abilities:
            with pytest.raises(AbilityError) as from_python:
                await abilities.call(name, {"key": "k"})

            async with Client(create_server(abilities)) as client:
                with pytest.raises(MCPError) as from_mcp:
                    await client.call_tool(name, {"key": "k"})

        with pytest.raises(KeyError) as from_langchain:
            load_tools(settings, only=[name])

        said += [str(from_python.value), str(from_mcp.value), str(from_langchain.value)]
        refusals.append([text.replace(name, "NAME") for text in said])

    assert refusals[0] == refusals[1]
