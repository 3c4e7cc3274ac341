"""Rows S7 to S12: what a store whose file is treated badly answers, the same on every surface."""

import fcntl
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from abilities import Settings
from abilities.declarations.refusals import Fault, Reason
from abilities.helpers.store.sqlite import file
from tests.stores.behaviours import NAMESPACE, put
from tests.support.permissions import let_others_enter
from tests.support.places import FilePlace, find_reason
from tests.support.stores import store_file
from tests.support.surfaces import SURFACES, python

STORE = ("store_memory", {"type": "core", "content": "new", "key": "new"})
READ = ("memory_get", {"key": "k"})
WALK = ("bulk_read_memory", {"key": "k"})
QUERY: tuple[str, dict[str, Any]] = ("query_memories", {})
NamedCall = tuple[str, dict[str, Any]]


@pytest.fixture
async def one_memory(roots: Settings) -> Settings:
    """Settings of a store that holds one memory.

    They say that no token is needed: otherwise a server asks the store whether there ever was one,
    and refuses all requests if the store cannot tell.
    """
    await python(
        roots,
        "store_memory",
        {"type": "core", "content": "kept", "key": "k", "links": [{"key": "x"}]},
    )
    return roots.model_copy(update={"require_tokens": False})


@pytest.fixture(params=SURFACES)
def ask(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Make a call through one surface, which must answer as Python does."""

    async def call_surface(settings: Settings, call: NamedCall) -> str:
        payload = await SURFACES[request.param](settings, *call)

        assert payload == await python(settings, *call)

        if "error" not in payload:
            return "done"

        fault = Fault.model_validate(payload["error"])

        assert payload == {"error": Fault.from_reason(cast(Reason, fault.reason)).to_payload()}, (
            "one fixed sentence, and nothing of the host"
        )

        return fault.reason

    return call_surface


@pytest.mark.requirement("R3.7.3")
async def test_s7_locked_for_longer_than_the_timeout(
    ask: Any, one_memory: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "BUSY_SECONDS", 0.1)
    lock = os.open(f"{store_file(one_memory)}-lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)

    assert await ask(one_memory, STORE) == "busy"
    assert await ask(one_memory, READ) == "done"

    os.close(lock)

    assert "error" not in await python(one_memory, *STORE)


async def test_s8_a_full_disk(
    ask: Any, one_memory: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_file = file.StoreFile.open

    def open_small(self: file.StoreFile, *, writing: bool) -> sqlite3.Connection:
        connection = open_file(self, writing=writing)
        # SQLite takes this as: no more than there are.
        connection.execute("PRAGMA max_page_count = 1")
        return connection

    monkeypatch.setattr(file.StoreFile, "open", open_small)
    big = ("store_memory", {"type": "core", "content": "x" * 5_000, "key": "big"})

    assert await ask(one_memory, big) == "storage_full"
    assert await ask(one_memory, READ) == "done"
    assert (await python(one_memory, "get_memory_stats", {}))["total_memories"] == 1


async def test_s8_a_folder_that_cannot_be_there(ask: Any, roots: Settings, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    impossible = roots.model_copy(update={"store_url": f"sqlite:///{tmp_path}/file/memory.db"})

    assert await ask(impossible, STORE) == "unavailable"
    assert await ask(impossible, READ) == "unavailable"


@pytest.fixture
def read_only(one_memory: Settings, tmp_path: Path, unprivileged: None) -> Iterator[Settings]:
    """A store that its user may not write to, in a folder that takes SQLite's index of the log."""
    user = os.geteuid()
    if os.getuid() == 0:
        os.seteuid(0)

    let_others_enter(tmp_path)

    for folder in (tmp_path, one_memory.agent_dir, one_memory.workspace_dir):
        folder.chmod(0o777)

    for path in (store_file(one_memory), Path(f"{store_file(one_memory)}-lock")):
        path.chmod(0o444)

    os.seteuid(user)
    yield one_memory


@pytest.mark.requirement("R3.7.4")
async def test_s9_a_file_that_may_only_be_read(ask: Any, read_only: Settings) -> None:
    for call in (STORE, ("store_memory", {"type": "core", "content": "again", "key": "k"})):
        assert await ask(read_only, call) == "read_only"

    for call in (READ, WALK, QUERY):
        assert await ask(read_only, call) == "done"


@pytest.fixture(params=["file", "folder", "folder to read"])
def shut(request: pytest.FixtureRequest, read_only: Settings) -> Iterator[Settings]:
    """A store of which its user may not even read the file, enter the folder, or write to it.

    SQLite makes an index of its log in the folder, without which it reads nothing.
    """
    path = store_file(read_only)
    if request.param != "file":
        path = path.parent

    user, mode = os.geteuid(), path.stat().st_mode
    if os.getuid() == 0:
        os.seteuid(0)
    path.chmod(0o555 if request.param == "folder to read" else 0)
    os.seteuid(user)
    yield read_only

    if os.getuid() == 0:
        os.seteuid(0)
    path.chmod(mode)
    os.seteuid(user)


async def test_s9_a_store_that_may_not_be_read(shut: Settings) -> None:
    async with FilePlace(store_file(shut)).open() as store:
        for call in (put(store, "n"), store.read_linked(NAMESPACE, "k", 0, 1), store.ping()):
            assert await find_reason(call) == "storage_denied"

    assert not Fault.from_reason("storage_denied").retryable


@pytest.mark.requirement("R3.7.5")
@pytest.mark.parametrize("damage", ["empty", "text", "header", "cut", "schema"])
async def test_s10_a_file_that_is_no_store(ask: Any, one_memory: Settings, damage: str) -> None:
    file = store_file(one_memory)
    raw = file.read_bytes()
    spoilt = {
        "empty": b"",
        "text": b"not a database" * 500,
        "header": b"\0" * 100 + raw[100:],
        "cut": raw[:9000],
        "schema": raw.replace(b"CREATE TABLE memories", b"CREATE TABL\xf3 memories"),
    }
    file.write_bytes(spoilt[damage])

    for call in (READ, WALK, QUERY, STORE):
        assert await ask(one_memory, call) == "corrupted"

    assert file.read_bytes() == spoilt[damage]


async def test_s11_a_newer_schema(ask: Any, one_memory: Settings) -> None:
    with closing(sqlite3.connect(store_file(one_memory))) as connection:
        connection.execute("PRAGMA user_version = 99")

    before = store_file(one_memory).read_bytes()
    for call in (READ, WALK, QUERY, STORE):
        assert await ask(one_memory, call) == "schema_too_new"

    assert store_file(one_memory).read_bytes() == before


async def test_s12_a_file_that_was_moved(ask: Any, one_memory: Settings, tmp_path: Path) -> None:
    shutil.move(store_file(one_memory), tmp_path / "elsewhere.db")
    for call in (STORE, READ, WALK, QUERY):
        assert await ask(one_memory, call) == "storage_moved"

    assert not store_file(one_memory).exists()
