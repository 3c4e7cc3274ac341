"""Versions over HTTP, who made a change on each surface, and the right to purge."""

import json
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from abilities import Abilities, Settings
from abilities.cli.main import main
from abilities.helpers.tokens import TokenFile
from abilities.server.app import create_app
from tests.support.surfaces import SURFACES, environment, python

MEMORY = {"type": "core", "key": "tea", "content": "Green."}

CALLERS = {
    "python": "python",
    "command_line": "cli",
    "langchain": "langchain",
    "langchain_sync": "langchain",
    "mcp_current": "mcp",
    "mcp_earlier": "mcp",
    "mcp_structured": "mcp",
    "http": "http",
    "mcp_http_current": "mcp",
    "mcp_http_earlier": "mcp",
}


@pytest.mark.parametrize("surface", SURFACES)
async def test_the_history_names_the_surface(surface: str, roots: Settings) -> None:
    await SURFACES[surface](roots, "store_memory", MEMORY)

    history = await python(roots, "memory_history", {"key": "tea"})

    assert [entry["by"] for entry in history["entries"]] == [CALLERS[surface]]


async def test_a_version_is_a_tag_over_http(roots: Settings) -> None:
    async with Abilities.open(roots) as abilities:
        transport = httpx.ASGITransport(app=create_app(abilities))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            stored = await client.post("/api/memories", json=MEMORY)
            assert stored.headers["etag"] == '"v1"'
            of_one = f"/api/memories/by-id/{stored.json()['id']}"

            changed = await client.patch(
                of_one, json={"summary": "A drink."}, headers={"If-Match": '"v1"'}
            )
            assert changed.headers["etag"] == '"v2"'
            read = await client.get("/api/memories/tea")
            assert read.headers["etag"] == '"v2"'

            for tag in ('"v1"', 'W/"v2"', '"other"', '"v1", "v2"', ""):
                condition = {"If-Match": tag}
                for late in (
                    await client.patch(of_one, json={"summary": "late"}, headers=condition),
                    await client.delete(of_one, headers=condition),
                ):
                    assert late.status_code == 412, tag
                    assert late.json()["error"]["reason"] == "version_conflict"

            twice = await client.patch(
                of_one, json={"summary": "s", "if_version": 2}, headers={"If-Match": '"v2"'}
            )
            assert twice.json()["error"]["reason"] == "repeated_argument"
            any_version = await client.patch(
                of_one, json={"summary": "s"}, headers={"If-Match": "*"}
            )
            assert any_version.status_code == 200

            batch = {"operations": [{"op": "append", "key": "tea", "content": " Hot."}]}
            made = await client.post("/api/memories:batch", json=batch)
            assert made.json()["summary"]["succeeded"] == 1
            history = await client.get("/api/memories/tea/history", params={"limit": 1})
            assert [entry["version"] for entry in history.json()["entries"]] == [4]
            restored = await client.post(
                "/api/abilities/memory_restore", json={"key": "tea", "version": 1}
            )
            assert restored.json()["memory"]["content"] == "Green."
            assert restored.headers["etag"] == '"v5"'


async def test_the_label_of_a_token_and_its_scope(roots: Settings, tmp_path: Path) -> None:
    settings = roots.model_copy(update={"tokens_file": tmp_path / "tokens.json"})
    file = TokenFile(settings.tokens_file)
    tokens = {
        "write": file.add("default", "write", "laptop of Ada")[1],
        "purge": file.add("default", "purge")[1],
        "read": file.add("default", "read", "reader")[1],
    }

    async with Abilities.open(settings) as abilities:
        transport = httpx.ASGITransport(app=create_app(abilities))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:

            def authorize(scope: str, **more: str) -> dict[str, str]:
                return {"Authorization": f"Bearer {tokens[scope]}", **more}

            stored = await client.post("/api/memories", json=MEMORY, headers=authorize("write"))
            of_one = f"/api/memories/by-id/{stored.json()['id']}"
            page = {"X-Abilities-Surface": "explorer"}
            await client.patch(of_one, json={"summary": "a"}, headers=authorize("purge", **page))
            await client.patch(of_one, json={"summary": "b"}, headers=authorize("purge"))

            history = await client.get("/api/memories/tea/history", headers=authorize("read"))
            by = [entry["by"] for entry in history.json()["entries"]]
            assert by == ["http", "explorer", "laptop of Ada"]

            for scope, status in (("read", 403), ("write", 403), ("purge", 200)):
                purged = await client.delete(
                    of_one, params={"purge": "true"}, headers=authorize(scope)
                )
                assert purged.status_code == status, scope

    assert (await python(settings, "memory_list", {}))["memories"] == []


def test_people_purge_and_compact_on_the_command_line(roots: Settings) -> None:
    variables = environment(roots)

    def run(*command: str, typed: str | None = None) -> tuple[int, str]:
        result = CliRunner().invoke(main, command, env=variables, input=typed)
        return result.exit_code, result.output

    for key in ("tea", "cup"):
        run("call", "store_memory", json.dumps({**MEMORY, "key": key}))

    code, output = run("purge", "tea", typed="n\n")
    assert code == 1 and "for good?" in output
    assert run("purge", "nobody", "--yes")[0] == 1
    assert run("purge", "tea", typed="y\n")[0] == 0
    assert run("purge", "cup", "--yes")[0] == 0
    assert json.loads(run("call", "memory_list", "{}")[1]) == {"memories": []}

    code, output = run("compact")
    assert code == 0 and output.startswith("Forgot ")
