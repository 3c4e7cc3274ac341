"""How SQLite answers the statements of a store: one memory's rows never take a whole namespace.

Its planner decides by statistics that are there or not, so the plans are looked at with both.
"""

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager, closing
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import pytest

from abilities.helpers.stores import conformance
from abilities.helpers.stores.conformance import put
from abilities.helpers.stores.sqlite import file
from abilities.helpers.stores.sqlite.log import StoreConnection
from abilities.helpers.stores.sqlite.store import SqliteStore
from tests.stores.test_stores import open_store

NAMES_A_ROW = re.compile(r"\b(id|key|source|target) = \?")
"""A condition that few rows of a namespace meet."""

MEMORIES = 300


class RecordingConnection(StoreConnection):
    """A connection that keeps the text of each statement."""

    statements: ClassVar[set[str]] = set()

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        self.statements.add(sql)
        return super().execute(sql, *parameters)

    def executemany(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        self.statements.add(sql)
        return super().executemany(sql, *parameters)


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    monkeypatch.setattr(RecordingConnection, "statements", set())
    monkeypatch.setattr(file, "StoreConnection", RecordingConnection)
    return RecordingConnection.statements


async def run_all_statements(folder: Path) -> None:
    """Let a store do everything that the conformance suite knows."""
    numbers = count()

    def open_new() -> AbstractAsyncContextManager[SqliteStore]:
        return open_store(folder / f"{next(numbers)}.db")

    await conformance.check(open_new)


async def fill_store(path: Path) -> SqliteStore:
    """Return a store with memories that have links, tags and a history."""
    store = SqliteStore(path)
    for number in range(MEMORIES):
        key = f"k{number:03}"
        await put(store, key, tags=["t"], links=[(f"k{number // 2:03}", 0.5)])
        await put(store, key, content="changed")

    return store


def explain(connection: sqlite3.Connection, statement: str) -> Iterator[str]:
    """Yield the steps by which SQLite would answer a statement."""
    try:
        steps = connection.execute(f"EXPLAIN QUERY PLAN {statement}", make_values(statement))
    except sqlite3.OperationalError as error:
        # Some tables and functions are there only while a check runs.
        assert "no such" in str(error), statement
        return

    for *_, step in steps:
        yield step


def make_values(statement: str) -> Sequence[None] | dict[str, None]:
    """Return values for the parameters of a statement; plans do not depend on them."""
    if names := re.findall(r":(\w+)", statement):
        return dict.fromkeys(names)

    if numbers := re.findall(r"\?(\d+)", statement):
        return [None] * max(map(int, numbers))

    return [None] * statement.count("?")


def find_slow_steps(connection: sqlite3.Connection, statements: set[str]) -> dict[str, str]:
    """Return the statements that name a row and would read all of a namespace, with the step."""
    slow: dict[str, str] = {}
    for statement in statements:
        if not NAMES_A_ROW.search(statement) or statement.startswith("CREATE"):
            continue

        for step in explain(connection, statement):
            is_small = re.match(r"SEARCH (versions|counters|recall_segments) ", step)
            if step.endswith("(namespace=?)") and not is_small:
                slow[statement] = step

    return slow


async def test_what_is_asked_of_one_memory_is_looked_up(
    tmp_path: Path, statements: set[str]
) -> None:
    await run_all_statements(tmp_path)
    store = await fill_store(tmp_path / "filled.db")
    await store.close()
    known = {statement for statement in statements if NAMES_A_ROW.search(statement)}

    with closing(store.access.connect(writing=True)) as connection:
        without_statistics = find_slow_steps(connection, known)
        connection.execute("ANALYZE")
        with_statistics = find_slow_steps(connection, known)

        slow = "SELECT version FROM history WHERE namespace = ? AND +id = ?"
        assert find_slow_steps(connection, {slow}), "the test notices a slow plan"

    assert without_statistics == with_statistics == {}
    assert len(known) > 25
