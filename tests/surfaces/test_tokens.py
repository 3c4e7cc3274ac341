"""Tokens: row H2 on every route, namespaces of their own, and row H8: what locks a server."""

import asyncio
import hmac
import json
import os
import stat
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from abilities import Abilities, Settings
from abilities.declarations.refusals import Fault
from abilities.explorer.pages import PAGES
from abilities.helpers.store.postgres import pool
from abilities.helpers.tokens import MAX_FILE_BYTES, TokenFile, TokenSet
from abilities.server import callers
from tests.support.catalog import BUILT_IN
from tests.support.forked import Forked
from tests.support.serving import ServedApp, serving, serving_app
from tests.support.surfaces import mcp_current, run, with_changes
from tests.support.tier import size
from tests.support.waiting import wait_until

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
    assert callers.FRESH_SECONDS < 1, "a revoked token opens nothing a second later"
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


async def test_namespaces_do_not_share_files_by_accident(
    private: Settings, tokens: TokenFile
) -> None:
    settings = with_changes(private, shared_files=False)
    add = ["token", "add", "--scope", "read", "--namespace"]

    assert (await asyncio.to_thread(run, settings, *add, "ada")).exit_code == 0
    refused = await asyncio.to_thread(run, settings, *add, "bob")
    assert refused.exit_code == 2 and "shared_files" in refused.stderr

    token = tokens.add("ada", "read")[1]
    async with serving_app(settings) as server:
        assert (await server.ask("GET", "/api/stats", token)).status_code == 200
        tokens.add("bob", "read")
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


async def test_clients_are_told_where_tokens_come_from_if_set(apart: Settings) -> None:
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


CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


async def expect_locked(server: ServedApp, token: str | None = None) -> None:
    """Check that HTTP and MCP refuse a caller, with and without a token that was good once."""
    for sent in {None, token}:
        for method, path in (("GET", "/api/stats"), ("POST", "/mcp"), ("GET", "/metrics")):
            refused = await server.ask(method, path, sent, json=CALL)
            assert (refused.status_code, refused.json()) == (401, UNAUTHORIZED), path

    assert (await server.ask("GET", "/healthz")).status_code == 200


def revoke_all(path: Path) -> None:
    file = TokenFile(path)
    for token in file.tokens():
        assert file.revoke(token.id)


def make_device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def make_dangling_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere.json"))
    path.symlink_to("nowhere.json")


def rewrite(change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(change(path.read_bytes()))


def replace_by(make: Callable[[Path], None]) -> Callable[[Path], None]:
    def replace(path: Path) -> None:
        path.unlink()
        make(path)

    return replace


ACCIDENTS: dict[str, Callable[[Path], object]] = {
    "lost": Path.unlink,
    "empty": rewrite(lambda _: b""),
    "cut off": rewrite(lambda text: text[:-9]),
    "of another form": rewrite(lambda _: b"[{}]"),
    "with a wrong namespace": rewrite(lambda text: text.replace(b'"default"', b'"../x"')),
    "binary": rewrite(lambda _: b"\xff"),
    "huge": rewrite(lambda text: text + b" " * MAX_FILE_BYTES),
    "without tokens": revoke_all,
    "a folder": replace_by(Path.mkdir),
    "a FIFO": replace_by(os.mkfifo),
    "a device": make_device,
    "a dangling link": make_dangling_link,
}


@pytest.mark.parametrize("accident", ACCIDENTS)
async def test_h8_tokens_that_are_gone_leave_a_server_locked(
    private: Settings, accident: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callers, "FRESH_SECONDS", 0.02)
    token = TokenFile(private.tokens_file).add("default", "write")[1]
    async with serving_app(private) as server:
        assert (await server.ask("GET", "/api/stats", token)).status_code == 200
        await wait_until_remembered(private)

        ACCIDENTS[accident](private.tokens_file)
        await server.wait_for(401, token)
        await expect_locked(server, token)

    async with serving_app(private) as restarted:
        await expect_locked(restarted, token)

    # stdio needs no token, as before.
    assert (await mcp_current(private, "get_memory_stats", {}))["total_memories"] == 0

    async with serving_app(private, require_tokens=False) as opened:
        assert (await opened.ask("GET", "/api/stats")).status_code == 200


async def wait_until_remembered(settings: Settings) -> None:
    async with Abilities.open(settings) as abilities:
        while not await abilities.has_token_mark():
            await asyncio.sleep(0.01)


async def test_a_token_that_no_server_ever_saw_is_remembered_by_each_kind_of_store(
    private: Settings, store_url: str
) -> None:
    settings = with_changes(private, store_url=store_url)
    async with serving_app(settings) as open_server:
        assert (await open_server.ask("GET", "/api/stats")).status_code == 200

    added = await asyncio.to_thread(run, settings, "token", "add", "--scope", "read")
    assert added.exit_code == 0 and "does not remember yet" not in added.stderr
    settings.tokens_file.unlink()

    async with serving_app(settings) as locked_server:
        await expect_locked(locked_server)


async def test_without_any_token_ever_a_server_is_open_and_makes_no_store(
    private: Settings, tmp_path: Path
) -> None:
    async with serving_app(private) as server:
        assert (await server.ask("GET", "/api/abilities")).status_code == 200

    assert not (tmp_path / "memory.db").exists()
    async with serving_app(private, require_tokens=True) as server:
        await expect_locked(server)


async def test_beyond_loopback_a_token_is_needed_whatever_is_set(private: Settings) -> None:
    opened, named = {"require_tokens": False}, {"allowed_hosts": "example.org"}
    for address, changes in (
        ("0.0.0.0", {}),
        ("0.0.0.0", opened),
        ("127.0.0.1", {**opened, **named}),
    ):
        async with serving_app(private, address, **changes) as server:
            await expect_locked(server)


async def test_a_token_is_still_checked_where_none_is_needed(private: Settings) -> None:
    file = TokenFile(private.tokens_file)
    entry, token = file.add("default", "read")
    async with serving_app(private, require_tokens=False) as server:
        for sent, status in ((None, 200), (token, 200), (token + "x", 401)):
            assert (await server.ask("GET", "/api/stats", sent)).status_code == status

        memory = {"type": "core", "content": "x"}
        assert (await server.ask("POST", "/api/memories", token, json=memory)).status_code == 403
        file.revoke(entry.id)
        await server.wait_for(200, token)  # nobody has one now, so it is no sign of a mistake


async def test_a_store_that_does_not_answer_leaves_the_server_locked_for_now(
    private: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "WAIT_SECONDS", 0.2)
    away = with_changes(private, store_url="postgresql://user@127.0.0.1:1/none?connect_timeout=1")

    async with serving_app(away) as server:
        refused = await server.ask("GET", "/api/abilities")
        assert (refused.status_code, refused.json()["error"]["reason"]) == (503, "unavailable")
        assert refused.json()["error"]["retryable"]
    async with serving_app(away, require_tokens=False) as server:
        assert (await server.ask("GET", "/api/abilities")).status_code == 200

    # The token is made all the same, and works.
    added = await asyncio.to_thread(run, away, "token", "add", "--scope", "read")
    assert added.exit_code == 0 and "does not remember yet" in added.stderr
    async with serving_app(away) as server:
        listed = await server.ask("GET", "/api/abilities", added.stdout.strip())
        assert listed.status_code == 200


def test_a_backup_remembers_and_an_export_does_not_and_the_commands_say_so(
    private: Settings, tmp_path: Path
) -> None:
    assert "there never was a token" in run(private, "token", "list").stderr
    token = run(private, "token", "add", "--scope", "read").stdout
    assert run(private, "backup", str(tmp_path / "copy.db")).exit_code == 0
    assert run(private, "export", str(tmp_path / "all.jsonl")).exit_code == 0
    revoked = run(private, "token", "revoke", token.split("_")[1])
    assert "That was the last token" in revoked.stderr
    assert "refuses every caller" in revoked.stderr and "require_tokens = false" in revoked.stderr
    opened = run(with_changes(private, require_tokens=False), "token", "list")
    assert "answers only this machine" in opened.stderr
    private.tokens_file.unlink()

    restored = with_changes(private, store_url=f"sqlite:///{tmp_path}/restored/memory.db")
    (tmp_path / "restored").mkdir()
    assert run(restored, "restore", str(tmp_path / "copy.db")).exit_code == 0
    assert "refuses every caller" in run(restored, "token", "list").stderr

    imported = with_changes(private, store_url=f"sqlite:///{tmp_path}/imported.db")
    assert run(imported, "import", str(tmp_path / "all.jsonl")).exit_code == 0
    assert "answers only this machine" in run(imported, "token", "list").stderr


async def test_a_store_hears_of_tokens_when_it_answers_again(
    private: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callers, "RETRY_SECONDS", 0.01)
    told: list[bool] = []
    remember = Abilities.set_token_mark

    async def fail_twice(self: Abilities) -> None:
        told.append(True)
        if len(told) < 3:
            raise OSError("the disk is away")
        await remember(self)

    monkeypatch.setattr(Abilities, "set_token_mark", fail_twice)
    token = TokenFile(private.tokens_file).add("default", "read")[1]
    async with serving_app(private) as server:
        assert (await server.ask("GET", "/api/stats", token)).status_code == 200
        await wait_until_remembered(private)

    assert len(told) == 3


def test_a_locked_server_says_so_and_how_to_get_out(private: Settings, tmp_path: Path) -> None:
    assert run(private, "token", "add", "--scope", "read").exit_code == 0
    private.tokens_file.unlink()

    with serving(private, tmp_path) as server:
        assert httpx.get(f"{server.address}/api/stats").status_code == 401
        locked = "Every caller is refused"
        asyncio.run(wait_until(lambda: locked in server.log.read_text()))
        said = server.log.read_text()
        assert "the store remembers that there were tokens" in said
        assert "abilities token add --scope read" in said and "require_tokens = false" in said

        added = run(private, "token", "add", "--scope", "read")
        bearer = {"Authorization": f"Bearer {added.stdout.strip()}"}
        assert httpx.get(f"{server.address}/api/stats", headers=bearer).status_code == 200
        server.stop()

    private.tokens_file.unlink()
    with serving(with_changes(private, require_tokens=False), tmp_path) as server:
        assert httpx.get(f"{server.address}/api/stats").status_code == 200
        assert "refused" not in server.stop()


def test_a_server_with_a_fifo_as_tokens_file_answers(private: Settings, tmp_path: Path) -> None:
    os.mkfifo(private.tokens_file)

    with serving(private, tmp_path) as server:
        for _ in range(3):
            assert httpx.get(f"{server.address}/healthz").status_code == 200
            assert httpx.get(f"{server.address}/api/stats").status_code == 401
        said = server.stop()

    assert "the tokens file is not a regular file" in said
    assert said.count("every token is refused") == 1  # not once per request


def test_a_file_that_this_user_may_not_read_is_a_problem(unprivileged: None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tokens.json")
        TokenFile(path).add("default", "read")
        path.chmod(0)

        tokens = TokenFile(path).load()

    assert tokens.exists and not tokens.by_id and "cannot be read" in tokens.problem


def test_a_link_to_a_tokens_file_is_followed(tmp_path: Path) -> None:
    token = TokenFile(tmp_path / "mounted.json").add("default", "read")[1]
    (tmp_path / "tokens.json").symlink_to("mounted.json")

    assert TokenFile(tmp_path / "tokens.json").find(token)


async def test_a_tokens_file_that_does_not_answer_refuses_and_never_stops_the_loop(
    private: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callers, "FRESH_SECONDS", 0.02)
    monkeypatch.setattr(callers, "READ_SECONDS", 0.1)
    token = TokenFile(private.tokens_file).add("default", "read")[1]
    answering = threading.Event()
    readings: list[TokenFile] = []
    load = TokenFile.load

    def load_late(file: TokenFile) -> TokenSet:
        readings.append(file)
        answering.wait()
        return load(file)

    async with serving_app(private) as server:
        assert (await server.ask("GET", "/api/stats", token)).status_code == 200

        monkeypatch.setattr(TokenFile, "load", load_late)
        await server.wait_for(503, token)
        for _ in range(10):
            refused = await server.ask("GET", "/api/stats", token)
            assert (refused.status_code, refused.json()["error"]["reason"]) == (503, "timeout")
        assert (await server.ask("GET", "/healthz")).status_code == 200
        assert len(readings) == 1, "a disk that is stuck is asked once"

        answering.set()
        await server.wait_for(200, token)
