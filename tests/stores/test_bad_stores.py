"""Rows S7 to S12: what a store whose file is treated badly answers, the same on every surface."""

import fcntl
import os
import shutil
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from abilities import AbilityError, Settings
from abilities.declarations.refusals import Fault, Reason
from abilities.helpers.store.sqlite import file
from tests.stores.behaviours import NAMESPACE, put
from tests.support.permissions import as_root, let_others_enter
from tests.support.places import FilePlace, find_reason
from tests.support.stores import store_file
from tests.support.surfaces import Through, python

NamedCall = tuple[str, dict[str, Any]]
Ask = Callable[[Settings, NamedCall], Awaitable[str]]

STORE: NamedCall = ("store_memory", {"type": "core", "content": "new", "key": "new"})
READ: NamedCall = ("memory_get", {"key": "k"})
WALK: NamedCall = ("bulk_read_memory", {"key": "k"})
QUERY: NamedCall = ("query_memories", {})


@pytest.fixture
async def one_memory(roots: Settings) -> Settings:
    """Settings of a store that holds one memory.

    They say that no token is needed: otherwise a server asks the store whether there ever was one,
    and refuses all requests if the store cannot tell.
    """
    fields = {"type": "core", "content": "kept", "key": "k", "links": [{"key": "x"}]}
    await python(roots, "store_memory", fields)
    return roots.model_copy(update={"require_tokens": False})


@pytest.fixture
def ask(through: Through) -> Ask:
    """Make a call through one surface, which must answer as Python does."""

    async def call_surface(settings: Settings, call: NamedCall) -> str:
        name, arguments = call
        try:
            await through(settings)(name, **arguments)
        except AbilityError as error:
            fixed = Fault.from_reason(cast(Reason, error.fault.reason))
            assert error.fault == fixed, "one fixed sentence, and nothing of the host"
            return fixed.reason
        return "done"

    return call_surface


@pytest.mark.requirement("R3.7.3")
async def test_s7_locked_for_longer_than_the_timeout(
    ask: Ask, one_memory: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "BUSY_SECONDS", 0.1)
    lock = os.open(f"{store_file(one_memory)}-lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)

    assert await ask(one_memory, STORE) == "busy"
    assert await ask(one_memory, READ) == "done"

    os.close(lock)
    assert "error" not in await python(one_memory, *STORE)


async def test_s8_a_full_disk(
    ask: Ask, one_memory: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_file = file.StoreFile.open

    def open_small(self: file.StoreFile, *, writing: bool) -> sqlite3.Connection:
        connection = open_file(self, writing=writing)
        connection.execute("PRAGMA max_page_count = 1")  # SQLite takes this as: those there are
        return connection

    monkeypatch.setattr(file.StoreFile, "open", open_small)
    big = ("store_memory", {"type": "core", "content": "x" * 5_000, "key": "big"})

    assert await ask(one_memory, big) == "storage_full"
    assert await ask(one_memory, READ) == "done"
    assert (await python(one_memory, "get_memory_stats", {}))["total_memories"] == 1


async def test_s8_a_folder_that_cannot_be_there(ask: Ask, roots: Settings, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    impossible = roots.model_copy(update={"store_url": f"sqlite:///{tmp_path}/file/memory.db"})

    for call in (STORE, READ):
        assert await ask(impossible, call) == "unavailable"


@pytest.fixture
def read_only(one_memory: Settings, tmp_path: Path, unprivileged: None) -> Settings:
    """A store that its user may not write to, in a folder that takes SQLite's index of the log."""
    with as_root():
        let_others_enter(tmp_path)
        for folder in (tmp_path, one_memory.agent_dir, one_memory.workspace_dir):
            folder.chmod(0o777)
        for suffix in ("", "-lock"):
            Path(f"{store_file(one_memory)}{suffix}").chmod(0o444)

    return one_memory


@pytest.mark.requirement("R3.7.4")
async def test_s9_a_file_that_may_only_be_read(ask: Ask, read_only: Settings) -> None:
    for call in (STORE, ("store_memory", {"type": "core", "content": "again", "key": "k"})):
        assert await ask(read_only, call) == "read_only"

    for call in (READ, WALK, QUERY):
        assert await ask(read_only, call) == "done"


@pytest.fixture(params=["file", "folder", "folder to read"])
def shut(request: pytest.FixtureRequest, read_only: Settings) -> Iterator[Settings]:
    """A store of which its user may not even read the file, enter the folder, or write to it.

    SQLite makes an index of its log in the folder, without which it reads nothing.
    """
    path = store_file(read_only) if request.param == "file" else store_file(read_only).parent
    mode = path.stat().st_mode
    with as_root():
        path.chmod(0o555 if request.param == "folder to read" else 0)
    yield read_only

    with as_root():
        path.chmod(mode)


async def test_s9_a_store_that_may_not_be_read(shut: Settings) -> None:
    async with FilePlace(store_file(shut)).open() as store:
        for call in (put(store, "n"), store.read_linked(NAMESPACE, "k", 0, 1), store.ping()):
            assert await find_reason(call) == "storage_denied"

    assert not Fault.from_reason("storage_denied").retryable


async def expect_untouched(ask: Ask, settings: Settings, reason: Reason) -> None:
    """All calls are refused, and change nothing of the file."""
    path = store_file(settings)
    before, names = path.read_bytes(), sorted(os.listdir(path.parent))
    for call in (STORE, READ, WALK, QUERY):
        assert await ask(settings, call) == reason

    assert path.read_bytes() == before and sorted(os.listdir(path.parent)) == names


@pytest.mark.requirement("R3.7.5")
@pytest.mark.parametrize("damage", ["empty", "text", "header", "cut", "schema", "foreign"])
async def test_s10_a_file_that_is_no_store(
    ask: Ask, one_memory: Settings, damage: str, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "foreign.db")) as foreign:
        foreign.execute("CREATE TABLE theirs (x)")
    raw = store_file(one_memory).read_bytes()
    spoilt = {
        "empty": b"",
        "text": b"not a database" * 500,
        "header": b"\0" * 100 + raw[100:],
        "cut": raw[:9000],
        "schema": raw.replace(b"CREATE TABLE memories", b"CREATE TABL\xf3 memories"),
        "foreign": (tmp_path / "foreign.db").read_bytes(),
    }
    store_file(one_memory).write_bytes(spoilt[damage])

    await expect_untouched(ask, one_memory, "corrupted")


async def test_s11_a_newer_schema(ask: Ask, one_memory: Settings) -> None:
    with closing(sqlite3.connect(store_file(one_memory))) as connection:
        connection.execute("PRAGMA user_version = 99")

    await expect_untouched(ask, one_memory, "schema_too_new")


async def test_s12_a_file_that_was_moved(ask: Ask, one_memory: Settings, tmp_path: Path) -> None:
    shutil.move(store_file(one_memory), tmp_path / "elsewhere.db")
    for call in (STORE, READ, WALK, QUERY):
        assert await ask(one_memory, call) == "storage_moved"

    assert not store_file(one_memory).exists()
