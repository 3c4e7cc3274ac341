"""Rows S7 to S12: what a store whose file is treated badly answers, the same on every surface."""

import fcntl
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from abilities import Settings
from abilities.declarations.faults import Fault, Reason
from abilities.helpers.stores.sqlite import file
from tests.support.stores import store_file
from tests.support.surfaces import SURFACES, python

STORE = ("store_memory", {"type": "core", "content": "new", "key": "new"})
READ = ("memory_get", {"key": "k"})
WALK = ("bulk_read_memory", {"key": "k"})
QUERY: tuple[str, dict[str, Any]] = ("query_memories", {})
Asked = tuple[str, dict[str, Any]]


@pytest.fixture
async def kept(roots: Settings) -> Settings:
    """Settings of a store that holds one memory."""
    await python(
        roots,
        "store_memory",
        {"type": "core", "content": "kept", "key": "k", "links": [{"key": "x"}]},
    )
    return roots


@pytest.fixture(params=SURFACES)
def ask(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Make a call through one surface, which must answer as Python does."""

    async def asking(settings: Settings, asked: Asked) -> str:
        payload = await SURFACES[request.param](settings, *asked)
        assert payload == await python(settings, *asked)
        if "error" not in payload:
            return "done"
        fault = Fault.model_validate(payload["error"])
        assert payload == {"error": Fault.from_reason(cast(Reason, fault.reason)).to_payload()}, (
            "one fixed sentence, and nothing of the host"
        )
        return fault.reason

    return asking


async def test_s7_locked_for_longer_than_the_timeout(
    ask: Any, kept: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "BUSY_SECONDS", 0.1)
    lock = os.open(f"{store_file(kept)}-lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    assert await ask(kept, STORE) == "busy"
    assert await ask(kept, READ) == "done"
    os.close(lock)
    assert "error" not in await python(kept, *STORE)


async def test_s8_a_full_disk(ask: Any, kept: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = file.StoreFile.open

    def small(self: file.StoreFile, *, writing: bool) -> sqlite3.Connection:
        connection = opened(self, writing=writing)
        connection.execute(
            "PRAGMA max_page_count = 1"
        )  # which SQLite takes as: no more than there are
        return connection

    monkeypatch.setattr(file.StoreFile, "open", small)
    big = ("store_memory", {"type": "core", "content": "x" * 5_000, "key": "big"})
    assert await ask(kept, big) == "storage_full"
    assert await ask(kept, READ) == "done"
    assert (await python(kept, "get_memory_stats", {}))["total_memories"] == 1


async def test_s8_a_folder_that_cannot_be_there(ask: Any, roots: Settings, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    nowhere = roots.model_copy(update={"store_url": f"sqlite:///{tmp_path}/file/memory.db"})
    assert await ask(nowhere, STORE) == "unavailable"
    assert await ask(nowhere, READ) == "unavailable"


@pytest.fixture
def read_only(kept: Settings, tmp_path: Path, unprivileged: None) -> Iterator[Settings]:
    """The store as a user finds it who may not write to it; its folder takes SQLite's index of the log."""
    user = os.geteuid()
    if os.getuid() == 0:
        os.seteuid(0)
    for folder in tmp_path.parents[:3]:
        folder.chmod(0o755)
    for folder in (tmp_path, kept.agent_dir, kept.workspace_dir):
        folder.chmod(0o777)
    for path in (store_file(kept), Path(f"{store_file(kept)}-lock")):
        path.chmod(0o444)
    os.seteuid(user)
    yield kept


async def test_s9_a_file_that_may_only_be_read(ask: Any, read_only: Settings) -> None:
    for asked in (STORE, ("store_memory", {"type": "core", "content": "again", "key": "k"})):
        assert await ask(read_only, asked) == "read_only"
    for asked in (READ, WALK, QUERY):
        assert await ask(read_only, asked) == "done"


@pytest.mark.parametrize("damage", ["empty", "text", "cut"])
async def test_s10_a_file_that_is_no_store(ask: Any, kept: Settings, damage: str) -> None:
    raw = store_file(kept).read_bytes()
    store_file(kept).write_bytes(
        {"empty": b"", "text": b"not a database" * 500, "cut": raw[:9000]}[damage]
    )
    before = store_file(kept).read_bytes()
    for asked in (READ, WALK, QUERY, STORE):
        assert await ask(kept, asked) == "corrupted"
    assert store_file(kept).read_bytes() == before


async def test_s11_a_newer_schema(ask: Any, kept: Settings) -> None:
    with sqlite3.connect(store_file(kept)) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = store_file(kept).read_bytes()
    for asked in (READ, WALK, QUERY, STORE):
        assert await ask(kept, asked) == "schema_too_new"
    assert store_file(kept).read_bytes() == before


async def test_s12_a_file_that_was_moved(ask: Any, kept: Settings, tmp_path: Path) -> None:
    shutil.move(store_file(kept), tmp_path / "elsewhere.db")
    for asked in (STORE, READ, WALK, QUERY):
        assert await ask(kept, asked) == "storage_moved"
    assert not store_file(kept).exists()
