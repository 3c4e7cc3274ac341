"""Movers from kv-memory, the previous system: what they called, and what they are told to call."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from mcp import Client as McpClient
from mcp import MCPError

from abilities import Abilities, AbilityError, Settings
from abilities.adapters.mcp import create_server
from abilities.declarations.suggestions import ADDRESSES
from abilities.server.app import create_app

PAGE = Path(__file__).parents[2] / "docs" / "moving.md"
TOOLS = (
    "session_new",
    "memory_add",
    "memory_get",
    "bulk_read_memory",
    "memory_update",
    "memory_rename",
    "memory_search",
    "memory_fulltext_search",
)


class Row(NamedTuple):
    """A row of a table of the page: what was called, what to call now, and its arguments."""

    former: str
    present: str
    arguments: dict[str, Any] | None


def read_rows(heading: str) -> Iterator[Row]:
    _, table = PAGE.read_text().split(f"| {heading} of kv-memory | call now |\n|---|---|\n")
    for line in table.split("\n\n")[0].splitlines():
        former, present = split_cells(line)
        name = re.match(r"`([^`]+)`", former)
        call = re.match(r"`([^`]+)`(?: `(\{.*\})`)?", present)
        assert name is not None
        if call is None:
            yield Row(name[1], present, None)
        else:
            yield Row(name[1], call[1], json.loads(call[2] or "{}"))


def split_cells(line: str) -> tuple[str, str]:
    former, present = line.strip("| ").split(" | ", 1)
    return former, present.strip()


@pytest.fixture(params=[None, "kv-memory"])
def settings(request: pytest.FixtureRequest, roots: Settings) -> Settings:
    return roots.model_copy(update={"compat": request.param})


def connect(abilities: Abilities) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=create_app(abilities))
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")


async def test_the_page_says_what_to_call_instead_of_every_address(settings: Settings) -> None:
    rows = list(read_rows("address"))
    addresses = {row.former.split()[1].split("?")[0] for row in rows}
    assert addresses == {*ADDRESSES, "/api/memories/KEY/bulk"} and len(rows) == 8

    async with Abilities.open(settings) as abilities, connect(abilities) as client:
        goals = {"type": "core", "key": "project:goals", "content": "Goals."}
        await abilities.call("store_memory", goals)
        for row in rows:
            if row.arguments is None:
                continue
            method, path = row.present.split()
            response = await client.request(
                method, path, json=row.arguments if method == "POST" else None
            )
            assert response.status_code == 200, (row, response.text)


async def test_the_page_says_what_to_call_instead_of_every_tool(settings: Settings) -> None:
    rows = list(read_rows("tool"))
    assert [row.former for row in rows] == sorted(TOOLS, key=[row.former for row in rows].index)

    async with Abilities.open(settings) as abilities:
        for row in rows:
            if row.arguments is not None:
                await abilities.call(row.present, row.arguments)


@pytest.mark.parametrize("tools", ["all", "lean", "memory"])
async def test_an_unknown_tool_is_refused_with_the_one_to_call(
    tools: str, settings: Settings
) -> None:
    settings = settings.model_copy(update={"tools": (tools,)})
    async with Abilities.open(settings) as abilities, McpClient(create_server(abilities)) as client:
        offered = abilities.registry.names
        for name in TOOLS:
            if name in offered or name in ("memory_get", "bulk_read_memory"):
                continue
            with pytest.raises(AbilityError) as refused:
                await abilities.call(name, {})
            meant = refused.value.fault.did_you_mean
            assert meant in offered and meant in refused.value.fault.message, name
            with pytest.raises(MCPError, match=meant):
                await client.call_tool(name, {})


@pytest.mark.parametrize("address", ADDRESSES)
async def test_an_unknown_address_is_refused_with_the_one_to_call(
    address: str, settings: Settings
) -> None:
    async with Abilities.open(settings) as abilities, connect(abilities) as client:
        for method in ("GET", "POST"):
            response = await client.request(method, address)
            error = response.json()["error"]
            assert (response.status_code, error["reason"]) == (404, "unknown_address")
            assert error["did_you_mean"] == ADDRESSES[address]
            assert error["message"].endswith(f"did you mean '{ADDRESSES[address]}'?")


def test_programs_get_larger_answers_unless_somebody_says_otherwise() -> None:
    assert Settings(compat="kv-memory").max_response_bytes == 1_000_000
    assert Settings(compat="kv-memory", max_response_bytes=50_000).max_response_bytes == 50_000
    assert Settings().max_response_bytes == 64_000


async def test_a_memory_without_some_of_its_links_says_how_many_it_has(roots: Settings) -> None:
    links = [{"key": f"k{number}"} for number in range(25)]
    async with Abilities.open(roots.model_copy(update={"compat": "kv-memory"})) as abilities:
        for key, some in (("many", links), ("few", links[:3])):
            await abilities.call(
                "store_memory", {"type": "core", "key": key, "content": key, "links": some}
            )
        async with connect(abilities) as client:
            many = (await client.get("/api/memories/many")).json()["data"]
            few = (await client.get("/api/memories/few")).json()["data"]

    assert len(many["links"]) == 20 and many["linksTotal"] == 25
    assert len(few["links"]) == 3 and "linksTotal" not in few
