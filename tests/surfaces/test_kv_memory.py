"""``compat = "kv-memory"``: two addresses speak the previous system's dialect, all else is as ever.

The expected bodies are those of its HTTP API at version 2.0.0.
"""

import json
import re
import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client, MCPError

from abilities import Abilities, AbilityError, Refused, Settings
from abilities.adapters.mcp import create_server
from abilities.declarations.kv_memory import KvBulkReadAnswer, KvFailure, KvMemoryAnswer
from abilities.declarations.suggestions import ADDRESSES
from abilities.helpers.memory.helper import MemoryHelper
from tests.support.serving import serving_app
from tests.support.stores import store_file
from tests.support.surfaces import SURFACES, with_changes

PREVIOUS_ARGUMENTS = {"session": "5f2a", "sortLinks": "False"}


@pytest.fixture
def compat(roots: Settings) -> Settings:
    size = roots.max_response_bytes  # by default, answers may be larger then
    return with_changes(roots, compat="kv-memory", max_response_bytes=size)


async def store(settings: Settings, *memories: dict[str, Any]) -> None:
    """Store memories; without a content, it is the key."""
    async with Abilities.open(settings) as abilities:
        for memory in memories:
            filled = {"type": "core", "content": memory["key"], **memory}
            await abilities.call("store_memory", filled)


LINKS = [
    {
        "key": "db",
        "type": "decision",
        "term": "where data lives",
        "weight": 0.8,
        "summary": "Database",
    },
    {"key": "ui", "type": "association", "term": "", "weight": 0.9, "summary": ""},
]


async def store_project(settings: Settings) -> None:
    """Store a memory that links to two: the weaker link leads to the better memory."""
    links = [
        {"key": "db", "link_weight": 0.8, "type": "decision", "term": "where data lives"},
        {"key": "ui", "link_weight": 0.9},
    ]
    await store(
        settings,
        {"key": "db", "content": "PostgreSQL", "summary": "Database", "memory_score": 0.9},
        {"key": "ui", "content": "Preact", "memory_score": 0.7},
        {"key": "project", "summary": "The plan", "content": "Build it.", "links": links},
    )


PROJECT = {"summary": "The plan", "text": "Build it.", "links": LINKS}


@asynccontextmanager
async def connect(settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    async with serving_app(settings) as server:
        yield server.client


async def fetch(settings: Settings, path: str) -> httpx.Response:
    async with connect(settings) as client:
        return await client.get(path)


async def test_one_memory_is_answered_in_the_previous_names(compat: Settings) -> None:
    await store_project(compat)

    async with connect(compat) as client:
        response = await client.get("/api/memories/project")
        with_extras = await client.get("/api/memories/project", params=PREVIOUS_ARGUMENTS)

    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.json() == {"success": True, "data": PROJECT}
    assert with_extras.content == response.content


@pytest.mark.requirement("R1.8.2", "R4.4.5")
async def test_a_bulk_read_is_answered_in_the_previous_names(compat: Settings) -> None:
    await store_project(compat)
    concise = with_changes(compat, detail="concise")
    path = "/api/memories/project"

    async with connect(compat) as client:
        single = await client.get(path)
        response = await client.get(f"{path}/bulk?depth=4&breadth=8&total=30")
        others = [
            await client.get(f"{path}?bulkRead=true&depth=4&breadth=8&total=30"),
            await client.get(f"{path}/bulk?output_format=toon"),
            await client.get(f"{path}/bulk?output_format=text"),
            await client.get(f"{path}/bulk?detail=concise"),
            await fetch(concise, f"{path}/bulk"),
        ]

    entry = {"links": [], "depth": 1}
    associated = [
        {**entry, "key": "db", "summary": "Database", "text": "PostgreSQL", "combinedScore": 72},
        {**entry, "key": "ui", "summary": "", "text": "Preact", "combinedScore": 63},
    ]
    assert response.json() == {
        "success": True,
        "data": {
            "targetMemory": {"key": "project", **PROJECT},
            "associatedMemories": associated,
            "metadata": {"depthReached": 1, "totalRetrieved": 3, "duplicatesSkipped": 0},
        },
    }
    assert {other.content for other in others} == {response.content}, "JSON alone, in one detail"
    assert (await fetch(concise, path)).content == single.content


WORDS = [
    ("none", 404, "memory not found"),
    ("none/bulk", 404, "memory not found"),
    ("%FF/bulk", 400, "key must be"),
    ("%20x", 400, "key must be"),
]


ISSUES = [
    ("project/bulk?depth=7", "depth"),
    ("project/bulk?breadth=0", "breadth"),
    ("project/bulk?total=many", "total"),
    ("project/bulk?depth=1&depth=2", "depth"),
    ("project?sortLinks=5", "sortLinks"),
    ("project?no=1", "no"),
]


async def test_failures_keep_their_wrapper(
    compat: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse_to_read(*_: object) -> None:
        raise Refused("busy")

    await store_project(compat)
    async with connect(compat) as client:

        async def fail(path: str, status: int) -> Any:
            response = await client.get(f"/api/memories/{path}")
            assert response.status_code == status
            assert response.json().keys() == {"success", "message"}
            return KvFailure.model_validate_json(response.content).message

        for path, status, words in WORDS:
            assert (await fail(path, status)).startswith(words), path
        for path, field in ISSUES:
            issues = [(issue.path, issue.code) for issue in await fail(path, 400)]
            assert issues == [([field], "custom")], path

        monkeypatch.setattr(MemoryHelper, "read_summaries", refuse_to_read)
        busy = await client.get("/api/memories/project")
        assert (busy.status_code, busy.headers["retry-after"]) == (503, "1")
        assert busy.json() == {"success": False, "message": "Storage is busy; try again."}

    store_file(compat).write_bytes(b"no database at all")
    # Otherwise the server first asks the store whether there ever was a token.
    settings = with_changes(compat, require_tokens=False)
    broken = await fetch(settings, "/api/memories/project/bulk")
    assert (broken.status_code, broken.json()["success"]) == (500, False)
    assert isinstance(broken.json()["message"], str)


async def test_the_bound_holds_and_nothing_is_lost_in_silence(compat: Settings) -> None:
    limit = 40_000
    keys = [f"k{number:02}" for number in range(49)]
    links = [{"key": key, "term": "t" * 200} for key in keys]
    memory = {"content": "世" * 2_000, "summary": "\x01" * 500}
    own_links = {key: links[number + 1 : number + 21] for number, key in enumerate(keys)}
    memories = [{**memory, "key": key, "links": own_links[key]} for key in keys]
    await store(compat, *memories, {"key": "hub", "links": links})

    async with connect(with_changes(compat, max_response_bytes=limit)) as client:
        response = await client.get("/api/memories/hub/bulk?breadth=20&total=50")
        single = await client.get("/api/memories/k00")

    assert len(response.content) <= limit and len(single.content) <= limit
    associated = response.json()["data"]["associatedMemories"]
    assert len(associated) == 49
    for each in associated:
        is_whole = each["text"] == "世" * 2_000
        assert is_whole == ({"truncation", "error"}.isdisjoint(each))
        if "error" not in each:
            shown, count = len(each["links"]), len(own_links[each["key"]])
            assert each.get("linksTotal") == (count if shown < count else None)
    data = single.json()["data"]
    assert data["text"] == "世" * 2_000
    assert 0 < len(data["links"]) < 20 == data["linksTotal"]


async def test_missing_and_archived_memories_keep_their_links(compat: Settings) -> None:
    links = [{"key": "old"}, {"key": "gone"}]
    many = [{"key": f"k{number}"} for number in range(25)]
    await store(
        compat,
        {"key": "old", "summary": "Was"},
        {"key": "now", "links": links},
        {"key": "many", "links": many},
    )
    async with Abilities.open(compat) as abilities:
        await abilities.call("delete_memory", {"key": "old"})

    archived = await fetch(compat, "/api/memories/old")
    data = (await fetch(compat, "/api/memories/now/bulk")).json()["data"]
    shown = (await fetch(compat, "/api/memories/many")).json()["data"]

    assert archived.json()["data"] == {"summary": "Was", "text": "old", "links": []}
    summaries = {link["key"]: link["summary"] for link in data["targetMemory"]["links"]}
    assert summaries == {"old": "Was", "gone": ""}
    assert data["associatedMemories"] == [] and "linksTotal" not in data["targetMemory"]
    assert (len(shown["links"]), shown["linksTotal"]) == (20, 25)


PREVIOUS = {"memory_get", "bulk_read_memory"}


ELSEWHERE: list[tuple[str, str, Any]] = [
    ("POST", "/api/abilities/memory_get", {"key": "none"}),
    ("POST", "/api/abilities/bulk_read_memory", {"key": "project", "output_format": "toon"}),
    ("POST", "/api/abilities/bulk_read_memory", {"key": "project", "depth": 7}),
    ("POST", "/api/abilities/file_read_bulk", {"paths": ["a.txt", "none"]}),
    ("POST", "/api/abilities/query_memories", {"search": "project", "sort_by": "created_at"}),
    ("POST", "/api/abilities/none", {}),
    ("POST", "/api/memories", {"type": "no"}),
    ("GET", "/api/memories?sort_by=created_at", None),
    ("GET", "/api/memories?limit=0", None),
    ("GET", "/api/memories/with/slash", None),
    ("DELETE", "/api/memories/by-id/x", None),
    ("GET", "/api/stats", None),
    ("PUT", "/api/memories/project", None),
    ("GET", "/nothing", None),
    ("GET", "/healthz", None),
    ("POST", "/api/abilities/memory_get", {"key": "project"}),  # last: it counts an access
]


async def test_a_damaged_memory_has_an_error_and_no_text(compat: Settings) -> None:
    links = [{"key": "bad"}, {"key": "good"}]
    await store(compat, {"key": "bad"}, {"key": "good"}, {"key": "a", "links": links})
    with sqlite3.connect(store_file(compat)) as connection:
        connection.execute("UPDATE memories SET content = 'changed' WHERE key = 'bad'")
    connection.close()

    response = await fetch(compat, "/api/memories/a/bulk")
    alone = await fetch(compat, "/api/memories/bad")

    bad, good = response.json()["data"]["associatedMemories"]
    assert (bad["key"], bad["text"], bad["links"]) == ("bad", "", [])
    assert bad["error"]["code"] == "CORRUPTED_DATA"
    assert good["text"] == "good" and "error" not in good
    assert (alone.status_code, alone.json()["success"]) == (500, False)


@pytest.mark.requirement("R2.5.1")
@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("name", ["memory_get", "bulk_read_memory"])
async def test_the_previous_tools_arguments_pass_with_compat_alone(
    name: str, surface: str, roots: Settings, compat: Settings
) -> None:
    await store_project(roots)
    call = SURFACES[surface]

    plain = await call(roots, name, {"key": "project"})
    passed = await call(compat, name, {"key": "project", **PREVIOUS_ARGUMENTS})
    refused = await call(roots, name, {"key": "project", **PREVIOUS_ARGUMENTS})
    wrong = await call(compat, name, {"key": "project", "sortLinks": 5})

    assert passed == plain
    assert refused["error"]["code"] == "INVALID_INPUT"
    assert (wrong["error"]["code"], wrong["error"]["field"]) == ("INVALID_INPUT", "sortLinks")


async def test_two_tools_declare_the_previous_arguments(roots: Settings, compat: Settings) -> None:
    plain, previous = await list_tools(roots), await list_tools(compat)

    assert {name for name in plain if plain[name] != previous[name]} == PREVIOUS
    for name in PREVIOUS:
        schema, plain_schema = previous[name].pop("inputSchema"), plain[name].pop("inputSchema")
        assert previous[name] == plain[name]

        arguments = schema["properties"]
        assert arguments.pop("session")["type"] == "string"
        assert arguments.pop("sortLinks")["type"] == "boolean"
        assert arguments == plain_schema["properties"]


async def test_all_else_stays_byte_for_byte(
    roots: Settings, compat: Settings, tmp_path: Path
) -> None:
    (roots.workspace_dir / "a.txt").write_text("a")
    await store_project(roots)
    copy = tmp_path / "copy.db"
    shutil.copy(store_file(roots), copy)

    async def ask_all(settings: Settings) -> list[tuple[int, str, bytes]]:
        async with connect(settings) as client:
            responses = [
                await client.request(method, path, json=body) for method, path, body in ELSEWHERE
            ]
        return [(r.status_code, r.headers["content-type"], r.content) for r in responses]

    copied = with_changes(compat, store_url=f"sqlite:///{copy}")
    assert await ask_all(roots) == await ask_all(copied)


async def test_openapi_says_what_is_served(roots: Settings, compat: Settings) -> None:
    await store_project(compat)
    plain = (await fetch(roots, "/openapi.json")).json()["paths"]
    previous = (await fetch(compat, "/openapi.json")).json()["paths"]
    models = {"/api/memories/{key}": KvMemoryAnswer, "/api/memories/{key}/bulk": KvBulkReadAnswer}

    assert plain.keys() == previous.keys()
    changed = {path for path in plain if plain[path] != previous[path]}
    assert changed == {*models, *(f"/api/abilities/{name}" for name in PREVIOUS)}
    for path, model in models.items():
        operation = previous[path]["get"]
        names = {parameter["name"] for parameter in operation["parameters"]}
        assert {"key", "depth", "session", "sortLinks"} <= names

        content = operation["responses"]["200"]["content"]
        assert content.keys() == {"application/json"}
        assert content["application/json"]["schema"]["required"] == ["success", "data"]
        body = await fetch(compat, path.replace("{key}", "project"))
        model.model_validate_json(body.content)  # refuses any other field
        failure = operation["responses"]["default"]["content"]["application/json"]["schema"]
        assert failure["required"] == ["success", "message"]


async def list_tools(settings: Settings) -> dict[str, dict[str, Any]]:
    async with Abilities.open(settings) as abilities, Client(create_server(abilities)) as client:
        tools = (await client.list_tools()).tools

    return {tool.name: tool.model_dump(mode="json", by_alias=True) for tool in tools}


# Those who move here: what they called, and what they are told to call.

PAGE = Path(__file__).parents[2] / "docs" / "moving.md"
TOOLS = {*PREVIOUS, "session_new", "memory_add", "memory_update", "memory_rename"}
TOOLS |= {"memory_search", "memory_fulltext_search"}


def read_rows() -> list[tuple[set[str], str, str]]:
    """Return what was called by the page's table, and what to call now with which arguments."""
    _, table = PAGE.read_text().split("| kv-memory: address, tool | call now |\n|---|---|\n")
    rows: list[tuple[set[str], str, str]] = []
    for line in table.split("\n\n")[0].splitlines():
        former, present = line.strip("| ").split(" | ")
        name, arguments = [*re.findall(r"`([^`]+)`", present), "", ""][:2]
        rows.append((set(re.findall(r"`([^`]+)`", former)), name, arguments))

    return rows


@pytest.fixture(params=[None, "kv-memory"])
def either(request: pytest.FixtureRequest, roots: Settings) -> Settings:
    return with_changes(roots, compat=request.param)


async def test_the_page_says_what_to_call_for_every_address_and_tool(either: Settings) -> None:
    rows = read_rows()
    assert set().union(*(former for former, _, _ in rows)) == {*ADDRESSES, *TOOLS}

    tools = with_changes(either, namespace="tools")
    async with connect(either) as client, Abilities.open(tools) as abilities:
        for _, name, arguments in rows:
            if name:
                await store(either, {"key": "tea"})
                await store(tools, {"key": "tea"})
                response = await client.post(f"/api/abilities/{name}", json=json.loads(arguments))
                assert response.status_code == 200, (name, response.text)
                await abilities.call(name, json.loads(arguments))


@pytest.mark.parametrize("tools", ["all", "lean", "memory"])
async def test_an_unknown_tool_is_refused_with_the_right_one(tools: str, either: Settings) -> None:
    settings = with_changes(either, tools=(tools,))
    async with Abilities.open(settings) as abilities, Client(create_server(abilities)) as client:
        offered = abilities.registry.names
        for name in TOOLS - {*offered, *PREVIOUS}:
            with pytest.raises(AbilityError) as refused:
                await abilities.call(name, {})
            meant = refused.value.fault.did_you_mean
            assert meant in offered and meant in refused.value.fault.message, name
            with pytest.raises(MCPError, match=meant):
                await client.call_tool(name, {})


async def test_an_unknown_address_is_refused_with_the_one_to_call(either: Settings) -> None:
    async with connect(either) as client:
        for address, meant in ADDRESSES.items():
            for method in ("GET", "POST"):
                response = await client.request(method, address)
                error = response.json()["error"]
                assert (response.status_code, error["reason"]) == (404, "unknown_address")
                assert error["did_you_mean"] == meant


def test_programs_get_larger_answers_unless_somebody_says_otherwise() -> None:
    assert Settings(compat="kv-memory").max_response_bytes == 1_000_000
    assert Settings(compat="kv-memory", max_response_bytes=50_000).max_response_bytes == 50_000
    assert Settings().max_response_bytes == 64_000
