"""Row H8: a server that once had tokens stays locked, whatever became of them."""

import asyncio
import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from abilities import Abilities, Settings
from abilities.declarations.refusals import Fault
from abilities.helpers.store.postgres import pool
from abilities.helpers.tokens import MAX_FILE_BYTES, TokenFile, TokenSet
from abilities.server import callers
from abilities.server.callers import FRESH_SECONDS, TokenWatch
from abilities.server.connections import RefusedRequest
from tests.support import postgres
from tests.support.serving import ServedApp, serving, serving_app
from tests.support.surfaces import mcp_current, run, with_changes
from tests.support.waiting import wait_until

UNAUTHORIZED = {"error": Fault.from_reason("unauthorized").to_payload()}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


@pytest.fixture
def private(roots: Settings, tmp_path: Path) -> Settings:
    return roots.model_copy(update={"tokens_file": tmp_path / "tokens.json"})


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


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_token_that_no_server_ever_saw_is_remembered_by_each_kind_of_store(
    kind: str, private: Settings, request: pytest.FixtureRequest
) -> None:
    async def check(settings: Settings) -> None:
        async with serving_app(settings) as open_server:
            assert (await open_server.ask("GET", "/api/stats")).status_code == 200

        added = await asyncio.to_thread(run, settings, "token", "add", "--scope", "read")
        assert added.exit_code == 0 and "does not remember yet" not in added.stderr
        settings.tokens_file.unlink()

        async with serving_app(settings) as locked_server:
            await expect_locked(locked_server)

    if kind == "sqlite":
        asyncio.run(check(private))
        return

    with postgres.database(request.getfixturevalue("server")) as url:
        asyncio.run(check(with_changes(private, store_url=url)))


async def test_without_any_token_ever_a_server_is_open_and_makes_no_store(
    private: Settings, tmp_path: Path
) -> None:
    async with serving_app(private) as server:
        assert (await server.ask("GET", "/api/abilities")).status_code == 200

    assert not (tmp_path / "memory.db").exists()
    async with serving_app(private, require_tokens=True) as server:
        await expect_locked(server)


async def test_beyond_loopback_a_token_is_needed_whatever_is_set(
    private: Settings,
) -> None:
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


class Looks:
    """Looks at the tokens, at a time that passes only when a test says so."""

    def __init__(self) -> None:
        self.seconds = 1_000.0
        self.results: list[TokenSet] = []

    def read_clock(self) -> float:
        return self.seconds

    def load(self) -> TokenSet:
        self.results.append(TokenSet({}, exists=False))
        return self.results[-1]


async def test_a_look_serves_requests_for_half_a_second() -> None:
    assert FRESH_SECONDS < 1, "a revoked token opens nothing a second later"
    looks = Looks()
    watch = TokenWatch(looks.load, looks.read_clock)

    await asyncio.gather(*(watch.read_recent() for _ in range(100)))
    looks.seconds += FRESH_SECONDS
    await watch.read_recent()
    assert len(looks.results) == 1

    looks.seconds += 0.001
    assert await watch.read_recent() is looks.results[1]

    looks.seconds += 0.001
    assert await watch.read_now() is looks.results[2]


async def test_a_stuck_look_refuses_and_never_stops_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(callers, "READ_SECONDS", 0.1)
    looks, stuck = Looks(), threading.Event()

    def load() -> TokenSet:
        stuck.wait()
        return looks.load()

    watch = TokenWatch(load, looks.read_clock)
    waiting = asyncio.create_task(watch.read_recent())
    await asyncio.sleep(0)  # the loop goes on while the look is stuck
    assert not waiting.done()

    looks.seconds += 1
    for _ in range(10):
        with pytest.raises(RefusedRequest) as refused:
            await watch.read_recent()
        assert (refused.value.status, refused.value.reason) == (503, "timeout")

    with pytest.raises(RefusedRequest):
        await waiting

    stuck.set()
    await wait_until(lambda: len(looks.results) == 1)
    assert await watch.read_recent() is looks.results[1]  # the stuck look's was too old
