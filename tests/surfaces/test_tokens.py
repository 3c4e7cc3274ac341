"""Tokens: row H2 on every route, separate namespaces, and tokens that change under a server."""

import asyncio
import hmac
import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from click.testing import CliRunner
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from abilities import Abilities, Settings
from abilities.cli.main import main
from abilities.declarations.refusals import Fault
from abilities.explorer.pages import PAGES
from abilities.helpers.tokens import TokenFile
from abilities.server import callers
from abilities.server.app import create_app
from tests.support.catalog import BUILT_IN
from tests.support.surfaces import environment, run_lifespan
from tests.support.tier import size
from tests.support.waiting import GIVE_UP_SECONDS, POLL_SECONDS

WRITES = {
    "store_memory": {"type": "core", "content": "x", "key": "mine"},
    "update_memory": {"id": "00000000-0000-4000-8000-000000000000", "content": "x"},
    "delete_memory": {"id": "00000000-0000-4000-8000-000000000000"},
}
SCOPE = {"error": Fault.from_reason("scope").to_payload()}
UNAUTHORIZED = {"error": Fault.from_reason("unauthorized").to_payload()}


@pytest.fixture
def apart(tmp_path: Path) -> Settings:
    """Settings whose namespaces have folders of their own."""
    for name in ("ada", "bob"):
        (tmp_path / "agents" / name).mkdir(parents=True)
        (tmp_path / "work" / name).mkdir(parents=True)
        (tmp_path / "work" / name / "whose.txt").write_text(name)
    return Settings(
        agent_dir=tmp_path / "agents" / "{namespace}",
        workspace_dir=tmp_path / "work" / "{namespace}",
        store_url=f"sqlite:///{tmp_path}/memory.db",
        tokens_file=tmp_path / "tokens.json",
        namespace="ada",
    )


class InProcessServer:
    """A served application, called in this process with any headers."""

    def __init__(self, app: Any, client: httpx.AsyncClient) -> None:
        self._app = app
        self.client = client

    async def ask(
        self, method: str, path: str, token: str | None, **options: Any
    ) -> httpx.Response:
        headers = {}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"

        return await self.client.request(method, path, headers=headers, **options)

    async def wait_for(self, status: int, token: str | None) -> None:
        """Ask until the answer has a status: the server looks at the tokens twice a second."""
        end = time.monotonic() + GIVE_UP_SECONDS
        while (await self.ask("GET", "/api/stats", token)).status_code != status:
            assert time.monotonic() < end, f"the status never was {status}"
            await asyncio.sleep(POLL_SECONDS)

    @asynccontextmanager
    async def mcp(self, token: str, mode: str) -> AsyncIterator[Client]:
        sender = httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=self._app),
            headers={"Authorization": f"Bearer {token}"},
        )
        async with (
            sender,
            Client(
                streamable_http_client("http://localhost/mcp", http_client=sender), mode=mode
            ) as client,
        ):
            yield client


@asynccontextmanager
async def serve(settings: Settings, address: str = "127.0.0.1") -> AsyncIterator[InProcessServer]:
    async with (
        Abilities.open(settings) as abilities,
        run_lifespan(create_app(abilities, address)) as app,
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app), base_url="http://localhost"
        ) as client,
    ):
        yield InProcessServer(app, client)


def list_routes(document: dict[str, Any]) -> list[tuple[str, str]]:
    """Return every route of an OpenAPI document, and those that it does not describe."""
    described = [
        (method.upper(), path) for path, methods in document["paths"].items() for method in methods
    ]
    return [
        *described,
        ("POST", "/mcp"),
        ("GET", "/mcp"),
        ("GET", "/metrics"),
        ("GET", "/docs"),
        ("GET", "/openapi.json"),
    ]


async def test_h2_no_or_a_wrong_token_is_refused_on_every_route(apart: Settings) -> None:
    _, token = TokenFile(apart.tokens_file).add("ada", "write")
    _, other = TokenFile(apart.tokens_file).add("ada", "read")
    wrong: list[list[tuple[bytes, bytes]]] = [
        [],
        [(b"Authorization", b"")],
        [(b"Authorization", b"Bearer")],
        [(b"Authorization", b"Bearer ")],
        [(b"Authorization", token.encode())],
        [(b"Authorization", b"Basic " + token.encode())],
        [(b"Authorization", b"Bearer " + token[:-1].encode())],
        [(b"Authorization", b"Bearer " + token.encode() + b"A")],
        [(b"Authorization", b"Bearer " + token.upper().encode())],
        [(b"Authorization", b"Bearer " + token[:13].encode() + other[13:].encode())],
        [(b"Authorization", b"Bearer \xff\xfe" + token.encode())],
        [(b"Authorization", b"Bearer " + token.encode())] * 2,
        [(b"X-Authorization", b"Bearer " + token.encode())],
        [(b"Cookie", b"token=" + token.encode())],
    ]
    async with serve(apart) as server:
        document = (await server.ask("GET", "/openapi.json", token)).json()
        open_paths = {"/healthz", "/readyz", *PAGES}
        guarded = [route for route in list_routes(document) if route[1] not in open_paths]
        assert len(guarded) >= 22

        for method, path in [*guarded, ("GET", "/nothing")]:
            for headers in wrong:
                refused = await server.client.request(
                    method, path, headers=headers, params={"token": token}
                )
                assert (refused.status_code, refused.json()) == (401, UNAUTHORIZED), (path, headers)
                assert refused.headers["www-authenticate"] == "Bearer"
            assert (await server.ask(method, path, token)).status_code != 401, path

        for path in ("/healthz", "/readyz"):
            assert (await server.ask("GET", path, None)).json() == {"status": "ok"}


async def test_h2_a_read_token_cannot_write_on_any_route(apart: Settings) -> None:
    _, token = TokenFile(apart.tokens_file).add("ada", "read")
    missing = WRITES["delete_memory"]["id"]
    readable = [ability.name for ability in BUILT_IN if ability.read_only]
    async with serve(apart) as server:
        for name, arguments in WRITES.items():
            refused = await server.ask("POST", f"/api/abilities/{name}", token, json=arguments)
            assert (refused.status_code, refused.json()) == (403, SCOPE)
        for method, path in (
            ("POST", "/api/memories"),
            ("PATCH", f"/api/memories/by-id/{missing}"),
            ("DELETE", f"/api/memories/by-id/{missing}"),
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


async def test_h2_a_token_for_metrics_opens_nothing_else(apart: Settings) -> None:
    file = TokenFile(apart.tokens_file)
    write, token = (file.add("ada", scope)[1] for scope in ("write", "metrics"))

    async with serve(apart) as server:
        document = (await server.ask("GET", "/openapi.json", write)).json()
        for method, path in [*list_routes(document), ("GET", "/nothing"), ("GET", "/metrics/")]:
            if path in {"/healthz", "/readyz", "/metrics", *PAGES}:
                continue
            refused = await server.ask(method, path, token)
            assert (refused.status_code, refused.json()) == (403, SCOPE), path

        assert (await server.ask("GET", "/metrics", token)).status_code == 200


async def test_a_token_sees_its_own_namespace_on_every_route(apart: Settings) -> None:
    file = TokenFile(apart.tokens_file)
    tokens = {name: file.add(name, "write")[1] for name in ("ada", "bob")}
    async with serve(apart) as server:
        for name, token in tokens.items():
            memory = {"type": "core", "content": f"of {name}", "key": "same", "tags": [name]}
            stored = await server.ask("POST", "/api/memories", token, json=memory)
            assert stored.json()["created"]

        for name, token in tokens.items():
            for path in ("/api/memories/same", "/api/memories/same/bulk", "/api/memories"):
                text = (await server.ask("GET", path, token)).text
                assert f"of {name}" in text and text.count('"content"') == 1

            stats = (await server.ask("GET", "/api/stats", token)).json()
            assert (stats["total_memories"], stats["top_tags"]) == (1, [{"tag": name, "count": 1}])
            files = await server.ask(
                "POST", "/api/abilities/file_read_bulk", token, json={"paths": ["whose.txt"]}
            )
            assert files.json()["results"][0]["data"]["content"] == name
            for mode in ("2026-07-28", "legacy"):
                async with server.mcp(token, mode) as client:
                    result = await client.call_tool("memory_get", {"key": "same"})
                    (part,) = (await client.read_resource("memory://same")).contents
                    assert f"of {name}" in str(result)
                    assert f"of {name}" in part.text  # type: ignore[union-attr]


async def test_tokens_take_effect_soon_and_a_lost_file_locks_out(
    apart: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callers, "FRESH_SECONDS", 0.05)
    file = TokenFile(apart.tokens_file)
    async with serve(apart) as server:
        assert (await server.ask("GET", "/api/stats", None)).status_code == 200
        kept, token = file.add("ada", "read")
        await server.wait_for(401, None)
        assert (await server.ask("GET", "/api/stats", token)).status_code == 200
        file.revoke(kept.id)
        await server.wait_for(401, token)
        assert (await server.ask("GET", "/api/stats", None)).status_code == 401

        # A new token works at once: one that is not known is looked for in the file.
        _, again = file.add("ada", "read")
        assert (await server.ask("GET", "/api/stats", again)).status_code == 200

        whole = apart.tokens_file.read_bytes()
        for damaged in (b"", b"[{}]", whole[:-9], whole.replace(b'"ada"', b'"../x"'), b"\xff"):
            apart.tokens_file.write_bytes(damaged)
            await server.wait_for(401, again)
            apart.tokens_file.write_bytes(whole)
            assert (await server.ask("GET", "/api/stats", again)).status_code == 200

        apart.tokens_file.unlink()
        await server.wait_for(401, again)
        assert (await server.ask("GET", "/api/stats", None)).status_code == 401


async def test_beyond_loopback_a_token_is_needed_even_when_there_is_none(apart: Settings) -> None:
    async with serve(apart, "0.0.0.0") as server:
        assert (await server.ask("GET", "/api/stats", None)).status_code == 401


async def test_several_namespaces_do_not_share_files_by_accident(
    roots: Settings, tmp_path: Path
) -> None:
    settings = roots.model_copy(update={"tokens_file": tmp_path / "tokens.json"})
    token = TokenFile(settings.tokens_file).add("ada", "read")[1]
    async with serve(settings) as server:
        assert (await server.ask("GET", "/api/stats", token)).status_code == 200
        TokenFile(settings.tokens_file).add("bob", "read")
        await server.wait_for(401, token)
    async with serve(settings.model_copy(update={"shared_files": True})) as server:
        assert (await server.ask("GET", "/api/stats", token)).status_code == 200


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
    command = [sys.executable, "-c", code, str(apart.tokens_file)]
    count = size("ABILITIES_TOKEN_PROCESSES", quick=3, full=6)
    running = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(count)]

    created: list[str] = []
    for process in running:
        output, _ = process.communicate(timeout=120)
        created += output.decode().split()

    file = TokenFile(apart.tokens_file)
    entries = [file.find(token) for token in created]
    assert len(set(created)) == 10 * count
    assert {entry.id for entry in entries if entry} == {entry.id for entry in file.tokens()}


def test_the_commands_make_list_and_revoke(apart: Settings) -> None:
    def run(*arguments: str) -> Any:
        return CliRunner().invoke(main, ["token", *arguments], env=environment(apart))

    assert "no tokens" in run("list").stderr

    added = run("add", "--namespace", "bob", "--scope", "read")
    assert added.exit_code == 0 and "may read in namespace bob" in added.stderr
    assert "does not exist" not in added.stderr

    entry = TokenFile(apart.tokens_file).find(added.stdout.strip())
    assert entry and (entry.namespace, entry.scope) == ("bob", "read")
    heading, line = run("list").stdout.splitlines()
    assert heading.split("  ")[0] == "ID" and heading.endswith("namespace  label  tools")
    assert line.split() == [entry.id, "read", entry.created_at, "bob"]
    assert heading.index("namespace") == line.index("bob")

    scraper = run("add", "--scope", "metrics", "--label", "prometheus")
    assert scraper.exit_code == 0 and "metrics of all namespaces" in scraper.stderr
    assert run("list").stdout.splitlines()[2].split()[1:] == [
        "metrics",
        TokenFile(apart.tokens_file).tokens()[1].created_at,
        "(all)",
        "prometheus",
    ]
    assert run("revoke", scraper.stdout[4:12]).exit_code == 0
    assert run("add", "--scope", "metrics", "--namespace", "bob").exit_code == 2
    assert run("add", "--scope", "read", "--label", "red \x1b[31m").exit_code == 2

    assert json.loads(run("list", "--json").stdout) == [
        entry.model_dump(mode="json", exclude={"sha256"})
    ]

    late = run("add", "--namespace", "eve", "--scope", "write")
    assert late.stderr.count("does not exist yet") == 2  # neither folder of this namespace is there
    assert run("revoke", late.stdout[4:12]).exit_code == 0

    wrong = run("add", "--namespace", "no no", "--scope", "read")
    assert wrong.exit_code == 2 and "a namespace is 1 to 128" in wrong.stderr

    with pytest.raises(ValueError, match="a namespace is 1 to 128"):
        TokenFile(apart.tokens_file).add("no no", "read")

    assert run("add", "--namespace", "ada", "--scope", "all").exit_code == 2
    assert run("revoke", "00000000").exit_code == 1
    assert run("revoke", entry.id).exit_code == 0
    assert TokenFile(apart.tokens_file).tokens() == []

    apart.tokens_file.write_text("{")
    for command in (("list",), ("revoke", entry.id), ("add", "--scope", "read")):
        assert run(*command).exit_code == 2 and run(*command).stdout == ""


def test_the_commands_keep_files_of_namespaces_apart(roots: Settings, tmp_path: Path) -> None:
    variables = {**environment(roots), "ABILITIES_TOKENS_FILE": str(tmp_path / "tokens.json")}
    add = ["token", "add", "--scope", "read", "--namespace"]
    assert CliRunner().invoke(main, [*add, "ada"], env=variables).exit_code == 0
    refused = CliRunner().invoke(main, [*add, "bob"], env=variables)
    assert refused.exit_code == 2 and "shared_files" in refused.stderr
    TokenFile(tmp_path / "tokens.json").add("bob", "read")
    stopped = CliRunner().invoke(main, ["serve"], env=variables)
    assert stopped.exit_code == 2 and "shared_files" in stopped.stderr


async def test_clients_are_told_where_tokens_come_from_if_the_settings_say_so(
    apart: Settings,
) -> None:
    TokenFile(apart.tokens_file).add("ada", "read")
    path = "/.well-known/oauth-protected-resource/mcp"
    async with serve(apart) as server:
        assert (await server.ask("GET", path, None)).status_code == 404
    named = apart.model_copy(update={"authorization_servers": ("https://login.example.org",)})
    async with serve(named) as server:
        metadata = (await server.ask("GET", path, None)).json()
        refused = await server.ask("POST", "/mcp", None)

    assert metadata["resource"] == "http://localhost/mcp"
    assert metadata["authorization_servers"] == ["https://login.example.org/"]
    assert metadata["scopes_supported"] == ["read", "write", "purge"]
    assert (
        refused.headers["www-authenticate"] == f'Bearer resource_metadata="http://localhost{path}"'
    )


async def test_sixty_four_callers_of_two_namespaces_never_see_each_other(apart: Settings) -> None:
    file = TokenFile(apart.tokens_file)
    tokens = {name: file.add(name, "write")[1] for name in ("ada", "bob")}

    async with serve(apart) as server:

        async def use(name: str, n: int) -> None:
            memory = {"type": "core", "content": f"{name} {n}", "key": f"k{n}"}
            stored = await server.ask("POST", "/api/memories", tokens[name], json=memory)
            assert stored.status_code == 200

            read = await server.ask("GET", f"/api/memories/k{n}", tokens[name])
            assert read.json()["data"]["content"] == f"{name} {n}"

        await asyncio.gather(*(use(name, n) for n in range(32) for name in tokens))
