"""``compat = "kv-memory"``: two addresses speak the previous system's dialect, all else is as ever.

The expected bodies are those of its HTTP API at version 2.0.0.
"""

import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import orjson
import pytest
from mcp import Client

from abilities import Abilities, Refused, Settings
from abilities.adapters.mcp import create_server
from abilities.declarations.kv_memory import KvBulkReadAnswer, KvFailure, KvMemoryAnswer
from abilities.helpers.memory.helper import MemoryHelper
from abilities.server import kv_memory
from abilities.server.app import create_app
from tests.support.serving import serving_locally
from tests.support.stores import store_file
from tests.support.surfaces import SURFACES

PREVIOUS_ARGUMENTS = {"session": "5f2a", "sortLinks": "False"}


@pytest.fixture
def compat(roots: Settings) -> Settings:
    return roots.model_copy(update={"compat": "kv-memory"})


async def store(settings: Settings, *memories: dict[str, Any]) -> None:
    """Store memories; without a content, it is the key."""
    async with Abilities.open(settings) as abilities:
        for memory in memories:
            await abilities.call(
                "store_memory", {"type": "core", "content": memory["key"], **memory}
            )


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


PROJECT = {
    "summary": "The plan",
    "text": "Build it.",
    "links": [
        {
            "key": "db",
            "type": "decision",
            "term": "where data lives",
            "weight": 0.8,
            "summary": "Database",
        },
        {"key": "ui", "type": "association", "term": "", "weight": 0.9, "summary": ""},
    ],
}


@asynccontextmanager
async def serve(settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    """Serve at a port, and yield a client."""
    async with (
        serving_locally(settings) as server,
        httpx.AsyncClient(base_url=server.address) as client,
    ):
        yield client


@pytest.mark.requirement("R1.8.2", "R4.2.6")
async def test_one_memory_is_answered_in_the_previous_names(
    compat: Settings,
) -> None:
    await store_project(compat)

    async with serve(compat) as client:
        response = await client.get("/api/memories/project")
        with_extras = await client.get("/api/memories/project", params=PREVIOUS_ARGUMENTS)

    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.json() == {"success": True, "data": PROJECT}
    assert with_extras.content == response.content


@pytest.mark.requirement("R1.8.2", "R4.4.5")
async def test_a_bulk_read_is_answered_in_the_previous_names(
    compat: Settings,
) -> None:
    await store_project(compat)

    async with serve(compat) as client:
        response = await client.get("/api/memories/project/bulk?depth=4&breadth=8&total=30")
        by_get = await client.get("/api/memories/project?bulkRead=true&depth=4&breadth=8&total=30")
        toon = await client.get("/api/memories/project/bulk?output_format=toon")
        text = await client.get("/api/memories/project/bulk?output_format=text")

    entry = {"links": [], "depth": 1}
    associated = [
        {**entry, "key": "db", "summary": "Database", "text": "PostgreSQL", "combinedScore": 72},
        {**entry, "key": "ui", "summary": "", "text": "Preact", "combinedScore": 63},
    ]
    assert response.status_code == 200
    assert response.json() == {
        "success": True,
        "data": {
            "targetMemory": {"key": "project", **PROJECT},
            "associatedMemories": associated,
            "metadata": {"depthReached": 1, "totalRetrieved": 3, "duplicatesSkipped": 0},
        },
    }
    assert by_get.content == response.content
    assert toon.content == text.content == response.content, "its HTTP API had JSON alone"


async def test_the_previous_names_do_not_depend_on_the_detail(compat: Settings) -> None:
    await store_project(compat)
    concise = compat.model_copy(update={"detail": "concise"})

    for path in ("/api/memories/project", "/api/memories/project/bulk"):
        expected = (await fetch(compat, path)).content
        assert (await fetch(concise, path)).content == expected
        assert (await fetch(compat, f"{path}?detail=concise")).content == expected


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/api/memories/none", 404, "memory not found"),
        ("/api/memories/none/bulk", 404, "memory not found"),
        ("/api/memories/%FF/bulk", 400, "key must be"),
        ("/api/memories/%20x", 400, "key must be"),
        ("/api/memories/project/bulk?depth=7", 400, ["depth"]),
        ("/api/memories/project/bulk?breadth=0", 400, ["breadth"]),
        ("/api/memories/project/bulk?total=many", 400, ["total"]),
        ("/api/memories/project/bulk?depth=1&depth=2", 400, ["depth"]),
        ("/api/memories/project?sortLinks=5", 400, ["sortLinks"]),
        ("/api/memories/project?no=1", 400, ["no"]),
    ],
)
async def test_a_failure_is_in_the_previous_wrapper(
    path: str, status: int, message: str | list[str], compat: Settings
) -> None:
    await store_project(compat)

    response = await fetch(compat, path)

    assert response.status_code == status
    body = KvFailure.model_validate_json(response.content)
    assert response.json().keys() == {"success", "message"}
    if isinstance(body.message, str):
        assert isinstance(message, str) and body.message.startswith(message)
    else:
        assert [issue.path for issue in body.message] == [message]
        assert [issue.code for issue in body.message] == ["custom"]


@pytest.mark.parametrize("key", ["世界/ä", "🙂", "project:architecture", "two words", "x/bulk"])
async def test_keys_and_texts_in_any_script_come_through(key: str, compat: Settings) -> None:
    await store(
        compat,
        {"key": "日本", "summary": "要約 🙂", "content": '"\n\x01'},
        {"key": key, "content": "ä\u2028é", "links": [{"key": "日本", "term": "関係"}]},
    )

    response = await fetch(compat, f"/api/memories/{quote(key, safe='')}/bulk")

    data = response.json()["data"]
    assert data["targetMemory"]["key"] == key
    assert data["targetMemory"]["text"] == "ä\u2028é"
    assert [link["summary"] for link in data["targetMemory"]["links"]] == ["要約 🙂"]
    assert [link["term"] for link in data["targetMemory"]["links"]] == ["関係"]
    assert [memory["text"] for memory in data["associatedMemories"]] == ['"\n\x01']


async def test_missing_and_archived_memories_keep_their_links(compat: Settings) -> None:
    links = [{"key": "old"}, {"key": "gone"}]
    await store(compat, {"key": "old", "summary": "Was"}, {"key": "now", "links": links})
    async with Abilities.open(compat) as abilities:
        stored = await abilities.call("memory_get", {"key": "old"})
        await abilities.call("delete_memory", {"id": stored["data"]["id"]})

    archived = await fetch(compat, "/api/memories/old")
    bulk = await fetch(compat, "/api/memories/now/bulk")

    assert archived.json()["data"] == {"summary": "Was", "text": "old", "links": []}
    data = bulk.json()["data"]
    summaries = {link["key"]: link["summary"] for link in data["targetMemory"]["links"]}
    assert summaries == {"old": "Was", "gone": ""}
    assert data["associatedMemories"] == []


async def test_the_bound_holds_and_nothing_is_lost_in_silence(compat: Settings) -> None:
    limit = 40_000
    keys = [f"k{number:02}" for number in range(49)]
    links = [{"key": key, "term": "t" * 200} for key in keys]
    memory = {"content": "世" * 2_000, "summary": "\x01" * 500}
    memories = [
        {**memory, "key": key, "links": links[number + 1 : number + 21]}
        for number, key in enumerate(keys)
    ]
    await store(compat, *memories, {"key": "hub", "links": links})

    small = compat.model_copy(update={"max_response_bytes": limit})
    response = await fetch(small, "/api/memories/hub/bulk?breadth=20&total=50")
    single = await fetch(small, "/api/memories/k00")

    assert len(response.content) <= limit and len(single.content) <= limit
    associated = response.json()["data"]["associatedMemories"]
    assert len(associated) == 49
    for memory in associated:
        is_whole = memory["text"] == "世" * 2_000
        assert is_whole == ({"truncation", "error"}.isdisjoint(memory))
    assert single.json()["data"]["text"] == "世" * 2_000
    assert 0 < len(single.json()["data"]["links"]) < 20


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


async def test_a_store_that_is_busy_for_the_links_alone_fails_the_call(
    compat: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse_to_read(*_: object) -> None:
        raise Refused("busy")

    await store_project(compat)
    monkeypatch.setattr(MemoryHelper, "read_summaries", refuse_to_read)

    response = await fetch(compat, "/api/memories/project")

    assert (response.status_code, response.headers["retry-after"]) == (503, "1")
    assert response.json() == {"success": False, "message": "Storage is busy; try again."}


async def test_links_of_a_walk_fill_the_room_that_is_left(compat: Settings) -> None:
    link = {"key": "b", "link_weight": 0.5}
    memories: list[dict[str, Any]] = [
        {"key": "a", "links": [], "linksTotal": 2},
        {"key": "b", "links": [], "linksTotal": 1},
    ]
    size = len(orjson.dumps(kv_memory.translate_link(link, {}))) + 1

    kv_memory.add_links(memories, [[link, link], [link]], {}, 3 * size - 1)

    assert [len(memory["links"]) for memory in memories] == [2, 0]
    assert [memory.get("linksTotal") for memory in memories] == [None, 1]


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


async def test_only_two_tools_declare_the_previous_arguments(
    roots: Settings, compat: Settings
) -> None:
    plain, previous = await list_tools(roots), await list_tools(compat)

    changed = {name for name in plain if plain[name] != previous[name]}
    assert changed == {"memory_get", "bulk_read_memory"}
    for name in changed:
        schema, plain_schema = previous[name].pop("inputSchema"), plain[name].pop("inputSchema")
        assert previous[name] == plain[name]

        arguments = schema["properties"]
        assert arguments.pop("session")["type"] == "string"
        assert arguments.pop("sortLinks")["type"] == "boolean"
        assert arguments == plain_schema["properties"]


async def test_everything_else_stays_byte_for_byte(
    roots: Settings, compat: Settings, tmp_path: Path
) -> None:
    (roots.workspace_dir / "a.txt").write_text("a")
    await store_project(roots)
    requests = [
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
    copy = tmp_path / "copy.db"
    shutil.copy(store_file(roots), copy)

    async def ask_all(settings: Settings) -> list[tuple[int, str, bytes]]:
        async with Abilities.open(settings) as abilities, open_client(abilities) as client:
            responses = [
                await client.request(method, path, json=body) for method, path, body in requests
            ]
        return [(r.status_code, r.headers["content-type"], r.content) for r in responses]

    copied = compat.model_copy(update={"store_url": f"sqlite:///{copy}"})
    assert await ask_all(roots) == await ask_all(copied)


async def test_openapi_says_what_is_served(roots: Settings, compat: Settings) -> None:
    await store_project(compat)
    plain = (await fetch(roots, "/openapi.json")).json()["paths"]
    previous = (await fetch(compat, "/openapi.json")).json()["paths"]

    changed = {path for path in plain if plain[path] != previous[path]}
    assert plain.keys() == previous.keys()
    assert changed == {
        "/api/memories/{key}",
        "/api/memories/{key}/bulk",
        "/api/abilities/memory_get",  # takes the previous arguments too
        "/api/abilities/bulk_read_memory",
    }

    for path, model in (
        ("/api/memories/{key}", KvMemoryAnswer),
        ("/api/memories/{key}/bulk", KvBulkReadAnswer),
    ):
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


async def test_a_store_that_cannot_answer_says_so(compat: Settings) -> None:
    await store_project(compat)
    store_file(compat).write_bytes(b"no database at all")
    # Otherwise the server first asks the store whether there ever was a token.
    settings = compat.model_copy(update={"require_tokens": False})

    response = await fetch(settings, "/api/memories/project/bulk")

    assert response.status_code == 500
    assert response.json()["success"] is False
    assert isinstance(response.json()["message"], str)


def open_client(abilities: Abilities) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=create_app(abilities))
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")


async def fetch(settings: Settings, path: str) -> httpx.Response:
    async with Abilities.open(settings) as abilities, open_client(abilities) as client:
        return await client.get(path)


async def list_tools(settings: Settings) -> dict[str, dict[str, Any]]:
    async with Abilities.open(settings) as abilities, Client(create_server(abilities)) as client:
        tools = (await client.list_tools()).tools

    return {tool.name: tool.model_dump(mode="json", by_alias=True) for tool in tools}
