"""Tokens: row H2 on every route, separate namespaces, and tokens that change under a server."""

import asyncio
import hmac
import json
import os
import stat
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from abilities import Settings
from abilities.declarations.refusals import Fault
from abilities.explorer.pages import PAGES
from abilities.helpers.tokens import TokenFile
from abilities.server import callers
from tests.support.catalog import BUILT_IN
from tests.support.forked import Forked
from tests.support.serving import serving_app
from tests.support.surfaces import run
from tests.support.tier import size

MISSING = "00000000-0000-4000-8000-000000000000"
WRITES: dict[str, dict[str, Any]] = {
    "store_memory": {"type": "core", "content": "x", "key": "mine"},
    "update_memory": {"id": MISSING, "content": "x"},
    "delete_memory": {"id": MISSING},
}
SCOPE = {"error": Fault.from_reason("scope").to_payload()}
OAUTH: dict[str, Any] = {"oauth": True, "public_url": "http://localhost"}
with_oauth = pytest.mark.parametrize("changes", [{}, OAUTH], ids=["plain", "oauth"])
"""Marks a test of denials, which hold with and without OAuth."""

UNAUTHORIZED = {"error": Fault.from_reason("unauthorized").to_payload()}


def list_routes(document: dict[str, Any]) -> list[tuple[str, str]]:
    """Return every route of an OpenAPI document, and those that it does not describe."""
    routes = [
        (method.upper(), path) for path, methods in document["paths"].items() for method in methods
    ]
    more = ("/mcp", "/metrics", "/docs", "/openapi.json", "/nothing")
    return [*routes, ("POST", "/mcp"), *(("GET", path) for path in more)]


@with_oauth
async def test_h2_no_or_a_wrong_token_is_refused_on_every_route(
    apart: Settings, changes: dict[str, Any]
) -> None:
    _, token = TokenFile(apart.tokens_file).add("ada", "write")
    _, other = TokenFile(apart.tokens_file).add("ada", "read")
    bearer = f"Bearer {token}"
    mixed = f"Bearer {token[:13]}{other[13:]}"
    values = ["", "Bearer", "Bearer ", token, f"Basic {token}", bearer[:-1], f"{bearer}A", mixed]
    wrong: list[list[tuple[bytes, bytes]]] = [
        [],
        *([(b"Authorization", value.encode())] for value in values),
        [(b"Authorization", b"Bearer " + token.upper().encode())],
        [(b"Authorization", b"Bearer \xff\xfe" + token.encode())],
        [(b"Authorization", bearer.encode())] * 2,
        [(b"X-Authorization", bearer.encode())],
        [(b"Cookie", b"token=" + token.encode())],
    ]
    async with serving_app(apart, **changes) as server:
        document = (await server.ask("GET", "/openapi.json", token)).json()
        open_paths = {"/healthz", "/readyz", *PAGES}
        guarded = [route for route in list_routes(document) if route[1] not in open_paths]
        assert len(guarded) >= 22
        link = "http://localhost/.well-known/oauth-protected-resource/mcp"
        challenge = f'Bearer resource_metadata="{link}"' if changes else "Bearer"

        for method, path in guarded:
            for headers in wrong:
                refused = await server.client.request(
                    method, path, headers=headers, params={"token": token}
                )
                assert (refused.status_code, refused.json()) == (401, UNAUTHORIZED), (path, headers)
                assert refused.headers["www-authenticate"] == challenge
            assert (await server.ask(method, path, token)).status_code != 401, path

        for path in ("/healthz", "/readyz"):
            assert (await server.ask("GET", path)).json() == {"status": "ok"}


@with_oauth
async def test_h2_a_read_token_can_write_nowhere(apart: Settings, changes: dict[str, Any]) -> None:
    _, token = TokenFile(apart.tokens_file).add("ada", "read")
    readable = [ability.name for ability in BUILT_IN if ability.read_only]
    async with serving_app(apart, **changes) as server:
        for name, arguments in WRITES.items():
            refused = await server.call(name, token, **arguments)
            assert (refused.status_code, refused.json()) == (403, SCOPE)
        for method, path in (
            ("POST", "/api/memories"),
            ("PATCH", f"/api/memories/by-id/{MISSING}"),
            ("DELETE", f"/api/memories/by-id/{MISSING}"),
        ):
            body = None if method == "DELETE" else {"content": "x"}
            refused = await server.ask(method, path, token, json=body)
            assert (refused.status_code, refused.json()) == (403, SCOPE)

        listed = (await server.ask("GET", "/api/abilities", token)).json()
        assert [ability["name"] for ability in listed] == readable
        for mode in ("2026-07-28", "legacy"):
            async with server.mcp(token, mode) as client:
                assert [tool.name for tool in (await client.list_tools()).tools] == readable
                for name, arguments in WRITES.items():
                    result = await client.call_tool(name, arguments)
                    assert result.is_error
                    assert json.loads(result.content[0].text) == SCOPE  # type: ignore[union-attr]

        assert (await server.ask("GET", "/api/stats", token)).json()["total_memories"] == 0


@with_oauth
async def test_h2_a_metrics_token_opens_nothing_else(
    apart: Settings, changes: dict[str, Any]
) -> None:
    file = TokenFile(apart.tokens_file)
    write, token = (file.add("ada", scope)[1] for scope in ("write", "metrics"))

    async with serving_app(apart, **changes) as server:
        document = (await server.ask("GET", "/openapi.json", write)).json()
        for method, path in [*list_routes(document), ("GET", "/metrics/")]:
            if path in {"/healthz", "/readyz", "/metrics", *PAGES}:
                continue
            refused = await server.ask(method, path, token)
            assert (refused.status_code, refused.json()) == (403, SCOPE), path

        assert (await server.ask("GET", "/metrics", token)).status_code == 200


@with_oauth
async def test_a_token_sees_its_namespace_everywhere(
    apart: Settings, changes: dict[str, Any]
) -> None:
    file = TokenFile(apart.tokens_file)
    tokens = {name: file.add(name, "write")[1] for name in ("ada", "bob")}
    async with serving_app(apart, **changes) as server:
        for name, token in tokens.items():
            memory = {"type": "core", "content": f"of {name}", "key": "same", "tags": [name]}
            assert (await server.call("store_memory", token, **memory)).json()["created"]

        for name, token in tokens.items():
            for path in ("/api/memories/same", "/api/memories/same/bulk", "/api/memories"):
                text = (await server.ask("GET", path, token)).text
                assert f"of {name}" in text and text.count('"content"') == 1

            stats = (await server.ask("GET", "/api/stats", token)).json()
            assert (stats["total_memories"], stats["top_tags"]) == (1, [{"tag": name, "count": 1}])
            files = await server.call("file_read_bulk", token, paths=["whose.txt"])
            assert files.json()["results"][0]["data"]["content"] == name
            for mode in ("2026-07-28", "legacy"):
                async with server.mcp(token, mode) as client:
                    result = await client.call_tool("memory_get", {"key": "same"})
                    (part,) = (await client.read_resource("memory://same")).contents
                    assert f"of {name}" in str(result)
                    assert f"of {name}" in part.text  # type: ignore[union-attr]

        async def use(name: str, n: int) -> None:
            await server.call("store_memory", tokens[name], type="core", content=name, key=f"k{n}")
            read = await server.ask("GET", f"/api/memories/k{n}", tokens[name])
            assert read.json()["data"]["content"] == name

        await asyncio.gather(*(use(name, n) for n in range(32) for name in tokens))


async def test_tokens_take_effect_soon(apart: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callers, "FRESH_SECONDS", 0.05)
    file = TokenFile(apart.tokens_file)
    async with serving_app(apart) as server:
        assert (await server.ask("GET", "/api/stats")).status_code == 200
        kept, token = file.add("ada", "read")
        await server.wait_for(401, None)
        assert (await server.ask("GET", "/api/stats", token)).status_code == 200
        file.revoke(kept.id)
        await server.wait_for(401, token)
        assert (await server.ask("GET", "/api/stats")).status_code == 401

        # A new token works at once: one that is not known is looked for in the file.
        _, again = file.add("ada", "read")
        assert (await server.ask("GET", "/api/stats", again)).status_code == 200


async def test_namespaces_do_not_share_files_by_accident(roots: Settings, tmp_path: Path) -> None:
    settings = roots.model_copy(update={"tokens_file": tmp_path / "tokens.json"})
    add = ["token", "add", "--scope", "read", "--namespace"]

    assert (await asyncio.to_thread(run, settings, *add, "ada")).exit_code == 0
    refused = await asyncio.to_thread(run, settings, *add, "bob")
    assert refused.exit_code == 2 and "shared_files" in refused.stderr

    file = TokenFile(settings.tokens_file)
    token = file.add("ada", "read")[1]
    async with serving_app(settings) as server:
        assert (await server.ask("GET", "/api/stats", token)).status_code == 200
        file.add("bob", "read")
        await server.wait_for(401, token)
    async with serving_app(settings, shared_files=True) as server:
        assert (await server.ask("GET", "/api/stats", token)).status_code == 200

    stopped = await asyncio.to_thread(run, settings, "serve")
    assert stopped.exit_code == 2 and "shared_files" in stopped.stderr


def test_only_the_hash_of_a_token_is_kept(apart: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    file = TokenFile(apart.tokens_file)
    kept, token = file.add("ada", "write")
    assert stat.S_IMODE(os.stat(apart.tokens_file).st_mode) == 0o600
    secret = token.removeprefix(f"abl_{kept.id}_")
    assert len(secret) == 43
    assert secret not in apart.tokens_file.read_text()
    compared: list[tuple[int, int]] = []

    def compare(first: str, second: str) -> bool:
        compared.append((len(first), len(second)))
        return first == second

    monkeypatch.setattr(hmac, "compare_digest", compare)
    assert file.find(token) == kept
    for wrong in ("", "x", token[:-1] + "-", "abl_00000000_" + token[13:], token + "\n", "ä" * 56):
        assert file.find(wrong) is None
    assert compared == [(64, 64)] * 7  # the same work for every text


def test_a_new_token_survives_a_power_cut(apart: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []

    def sync(descriptor: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        there = apart.tokens_file.exists()
        synced.append(f"{'folder' if is_folder else 'part'} {'after' if there else 'before'}")

    monkeypatch.setattr(os, "fsync", sync)

    TokenFile(apart.tokens_file).add("ada", "read")

    assert synced == ["part before", "folder after"]


def test_tokens_made_by_many_processes_at_once_are_all_kept(apart: Settings) -> None:
    code = (
        "import sys; from pathlib import Path; from abilities.helpers.tokens import TokenFile\n"
        "print(*[TokenFile(Path(sys.argv[1])).add('ada', 'read')[1] for _ in range(10)])"
    )
    count = size("ABILITIES_TOKEN_PROCESSES", quick=3, full=6)
    running = [Forked(code, apart.tokens_file) for _ in range(count)]
    outputs = [process.communicate(timeout=120)[0].decode() for process in running]
    created = " ".join(outputs).split()

    file = TokenFile(apart.tokens_file)
    entries = [file.find(token) for token in created]
    assert len(set(created)) == 10 * count
    assert {entry.id for entry in entries if entry} == {entry.id for entry in file.tokens()}


def test_the_commands_make_list_and_revoke(apart: Settings) -> None:
    file = TokenFile(apart.tokens_file)

    token = partial(run, apart, "token")

    assert "no tokens" in token("list").stderr
    added = token("add", "--namespace", "bob", "--scope", "read")
    assert added.exit_code == 0 and "may read in namespace bob" in added.stderr
    entry = file.find(added.stdout.strip())
    assert entry and (entry.namespace, entry.scope) == ("bob", "read")
    scraper = token("add", "--scope", "metrics", "--label", "prometheus")
    assert scraper.exit_code == 0 and "metrics of all namespaces" in scraper.stderr

    heading, *lines = token("list").stdout.splitlines()
    assert heading.split() == ["ID", "scope", "made", "namespace", "label", "tools", "reads"]
    assert lines[0].split() == [entry.id, "read", entry.created_at, "bob"]
    created_at = file.tokens()[1].created_at
    assert lines[1].split()[1:] == ["metrics", created_at, "(all)", "prometheus"]
    listed = json.loads(token("list", "--json").stdout)
    assert listed[0] == entry.model_dump(mode="json", exclude={"sha256"})

    late = token("add", "--namespace", "eve", "--scope", "write")
    assert late.stderr.count("does not exist yet") == 2  # neither folder of this namespace is there
    assert token("add", "--scope", "read", "--label", "red \x1b[31m").exit_code == 2
    with pytest.raises(ValueError, match="a namespace is 1 to 128"):
        file.add("no no", "read")

    assert token("revoke", "00000000").exit_code == 1
    for entry_left in file.tokens():
        assert token("revoke", entry_left.id).exit_code == 0
    assert file.tokens() == []

    apart.tokens_file.write_text("{")
    for command in (("list",), ("revoke", entry.id), ("add", "--scope", "read")):
        assert token(*command).exit_code == 2 and token(*command).stdout == ""


async def test_clients_are_told_where_tokens_come_from_if_set(
    apart: Settings,
) -> None:
    token = TokenFile(apart.tokens_file).add("ada", "read")[1]
    path = "/.well-known/oauth-protected-resource/mcp"
    reading = tuple(ability.name for ability in BUILT_IN if ability.read_only)
    async with serving_app(apart, disabled=reading) as server:
        assert (await server.ask("GET", path)).status_code == 404
        assert (await server.ask("GET", "/api/abilities", token)).json() == []
    async with serving_app(apart, authorization_servers=("https://login.example.org",)) as server:
        metadata = (await server.ask("GET", path)).json()
        refused = await server.ask("POST", "/mcp")

    assert metadata["resource"] == "http://localhost/mcp"
    assert metadata["authorization_servers"] == ["https://login.example.org/"]
    assert metadata["scopes_supported"] == ["read", "write", "purge"]
    challenge = f'Bearer resource_metadata="http://localhost{path}"'
    assert refused.headers["www-authenticate"] == challenge
