"""Versions over HTTP, who made a change on each surface, and the right to purge."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from abilities import Settings
from abilities.helpers.tokens import TokenFile
from tests.support.serving import serving_app
from tests.support.surfaces import SURFACES, python, run

MEMORY = {"type": "core", "key": "tea", "content": "Green."}

CALLERS = {"command_line": "cli", "langchain_sync": "langchain"}
"""What the history calls a surface, if not by its own name or that of its protocol."""


@pytest.mark.parametrize("surface", SURFACES)
async def test_the_history_names_the_surface(surface: str, roots: Settings) -> None:
    await SURFACES[surface](roots, "store_memory", MEMORY)

    history = await python(roots, "memory_history", {"key": "tea"})

    protocol = "mcp" if surface.startswith("mcp") else surface
    assert [entry["by"] for entry in history["entries"]] == [CALLERS.get(surface, protocol)]


async def test_a_version_is_a_tag_over_http(roots: Settings) -> None:
    async with serving_app(roots) as server:
        client = server.client
        stored = await client.post("/api/memories", json=MEMORY)
        assert stored.headers["etag"] == '"v1"'
        of_one = f"/api/memories/by-id/{stored.json()['id']}"

        async def summarize(tag: str, **more: Any) -> httpx.Response:
            change = {"summary": f"Changed if {tag}.", **more}
            return await client.patch(of_one, json=change, headers={"If-Match": tag})

        assert (await summarize('"v1"')).headers["etag"] == '"v2"'
        assert (await client.get("/api/memories/tea")).headers["etag"] == '"v2"'

        for tag in ('"v1"', 'W/"v2"', '"other"', '"v1", "v2"', ""):
            deleted = await client.delete(of_one, headers={"If-Match": tag})
            for late in (await summarize(tag), deleted):
                assert late.status_code == 412, tag
                assert late.json()["error"]["reason"] == "version_conflict"

        twice = await summarize('"v2"', if_version=2)
        assert twice.json()["error"]["reason"] == "repeated_argument"
        assert (await summarize("*")).status_code == 200

        batch = {"operations": [{"op": "append", "key": "tea", "content": " Hot."}]}
        made = await client.post("/api/memories:batch", json=batch)
        assert made.json()["summary"]["succeeded"] == 1
        history = await client.get("/api/memories/tea/history", params={"limit": 1})
        assert [entry["version"] for entry in history.json()["entries"]] == [4]
        restored = await server.call("memory_restore", key="tea", version=1)
        assert restored.json()["memory"]["content"] == "Green."
        assert restored.headers["etag"] == '"v5"'


async def test_the_label_of_a_token_and_its_scope(roots: Settings, tmp_path: Path) -> None:
    file = TokenFile(tmp_path / "tokens.json")
    write = file.add("default", "write", "laptop of Ada")[1]
    purge = file.add("default", "purge")[1]
    read = file.add("default", "read", "reader")[1]

    async with serving_app(roots, tokens_file=tmp_path / "tokens.json") as server:
        stored = await server.call("store_memory", write, **MEMORY)
        of_one = f"/api/memories/by-id/{stored.json()['id']}"
        page = {"X-Abilities-Surface": "explorer"}
        await server.ask("PATCH", of_one, purge, json={"summary": "a"}, headers=page)
        await server.ask("PATCH", of_one, purge, json={"summary": "b"})

        history = await server.ask("GET", "/api/memories/tea/history", read)
        by = [entry["by"] for entry in history.json()["entries"]]
        assert by == ["http", "explorer", "laptop of Ada"]

        for token, status in ((read, 403), (write, 403), (purge, 200)):
            purged = await server.ask("DELETE", of_one, token, params={"purge": "true"})
            assert purged.status_code == status

    assert (await python(roots, "memory_list", {}))["memories"] == []


def test_people_purge_and_compact_on_the_command_line(roots: Settings) -> None:
    for key in ("tea", "cup"):
        run(roots, "call", "store_memory", json.dumps({**MEMORY, "key": key}))

    kept = run(roots, "purge", "tea", stdin="n\n")
    assert kept.exit_code == 1 and "for good?" in kept.output
    assert run(roots, "purge", "nobody", "--yes").exit_code == 1
    assert run(roots, "purge", "tea", stdin="y\n").exit_code == 0
    assert run(roots, "purge", "cup", "--yes").exit_code == 0
    assert json.loads(run(roots, "call", "memory_list", "{}").stdout) == {"memories": []}

    compacted = run(roots, "compact")
    assert compacted.exit_code == 0 and compacted.output.startswith("Forgot ")
