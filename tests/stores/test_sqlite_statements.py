"""Refused work leaves no statement of SQLite open: that would hold a snapshot, and stop all writes.

Python's cyclic garbage collector would close it some day, so that it is off in these tests.
"""

import gc
import sqlite3
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import pytest

from abilities import Abilities, AbilityError, Settings
from abilities.declarations.refusals import Refused
from abilities.helpers.memory import helper
from abilities.helpers.store.history import MemoryName
from tests.stores.behaviours import NAMESPACE, put
from tests.support.places import FilePlace
from tests.support.stores import tamper

UNKNOWN = "00000000-0000-4000-8000-000000000000"

REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "a version of another memory": ("memory_restore", {"key": "k", "version": 6}),
    "a version to come": ("memory_restore", {"key": "k", "version": 99}),
    "a time before": ("memory_get", {"key": "k", "as_of": "2001-01-01T00:00:00Z"}),
    "a whole before": ("memory_get", {"key": "k", "as_of": "2001-01-01T00:00:00Z", "whole": True}),
    "a clock that was wrong": ("memory_get", {"key": "k", "as_of": "2031-01-01T00:00:00Z"}),
    "a conflict": ("memory_restore", {"key": "k", "version": 1, "if_version": 3}),
    "no memory": ("memory_restore", {"key": "nobody", "version": 1}),
    "no history": ("memory_history", {"key": "nobody"}),
    "a key in use": ("update_memory", {"id": UNKNOWN, "key": "o"}),
    "no start of a walk": ("bulk_read_memory", {"key": "nobody"}),
    "no links": ("memory_get", {"key": "nobody", "direction": "in"}),
}


@pytest.fixture(autouse=True)
def without_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
async def app(roots: Settings) -> AsyncIterator[Abilities]:
    async with Abilities.open(roots) as abilities:
        for number in range(4):
            await store(abilities, "k", f"v{number}")
            await store(abilities, "o", f"w{number}")
        yield abilities


async def store(app: Abilities, key: str, content: str = "Tea.") -> None:
    await app.call("store_memory", {"type": "core", "key": key, "content": content})


async def expect_in_step(app: Abilities) -> None:
    """Let another process write; then this one must read that, and write."""
    async with Abilities.open(app.settings) as other:
        await store(other, "from another")

    await store(app, "own")
    for key in ("from another", "own"):
        assert (await app.call("memory_get", {"key": key}))["data"]["content"] == "Tea."


async def call(app: Abilities, name: str, arguments: dict[str, Any]) -> AbilityError | None:
    """Return why a call is refused; whoever keeps that error keeps its traceback."""
    try:
        await app.call(name, arguments)
    except AbilityError as error:
        return error

    return None


@pytest.mark.parametrize("case", REFUSED)
async def test_who_is_refused_holds_up_nobody(
    app: Abilities, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if case == "a clock that was wrong":
        with monkeypatch.context() as patch:
            patch.setattr(helper, "utc_now", lambda: "2036-01-01T00:00:00.000Z")
            await store(app, "k")
        for content in ("Cup.", "Pot.", "Jar."):
            await store(app, "k", content)

    error = await call(app, *REFUSED[case])

    assert error is not None
    await expect_in_step(app)


@pytest.mark.parametrize("place", ["version = 7", "version = 5", "version = 3"])
async def test_a_damaged_history_holds_up_nobody(app: Abilities, place: str) -> None:
    tamper(app.settings, f"UPDATE history SET caller = 'damaged' WHERE {place}")

    errors = [
        await call(app, "memory_restore", {"key": "k", "version": 1}),
        await call(app, "memory_get", {"key": "k", "as_of": "2001-01-01T00:00:00Z"}),
        await call(app, "memory_history", {"key": "k"}),
    ]

    reasons = [error.fault.reason for error in errors if error is not None]
    assert reasons == ["checksum_mismatch", "checksum_mismatch"]
    await expect_in_step(app)


@pytest.mark.parametrize("breaks_the_transaction", [False, True])
async def test_no_statement_outlives_its_transaction(
    file_place: FilePlace, breaks_the_transaction: bool
) -> None:
    """It fails in the middle of a statement, which the traceback keeps."""

    def leave_open(connection: sqlite3.Connection) -> None:
        cursor = connection.execute("SELECT key FROM memories")
        assert cursor.fetchone() is not None
        if breaks_the_transaction:
            connection.execute("SELECT * FROM nothing")
        raise Refused("memory_not_found")

    errors: list[Refused] = []
    async with file_place.open() as first, file_place.open() as second:
        await put(first, "a")
        await put(first, "b")

        for run in (partial(first.engine.run_read, seconds=5.0), first.engine.writer.run):
            with pytest.raises(Refused) as refused:
                await run(NAMESPACE, leave_open)
            errors.append(refused.value)
        await put(second, "c")

        await put(first, "d")
        history = await first.read_history(NAMESPACE, MemoryName(key="c"), None, 1)
        assert history.row is not None and len(errors) == 2
