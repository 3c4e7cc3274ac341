"""The plan of every statement of an SQLite store: a name is looked up in an index of names.

SQLite chooses between indexes by its statistics, if somebody ran ANALYZE, and otherwise by rules
that differ from version to version. So each statement is planned without statistics, and with those
of two stores.
"""

import asyncio
import pkgutil
import re
import sqlite3
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, closing, suppress
from importlib import import_module
from itertools import chain, count
from pathlib import Path
from typing import Any

import pytest

from abilities.helpers.search.terms import Language
from abilities.helpers.store import sqlite
from abilities.helpers.store.changes import Change
from abilities.helpers.store.sqlite.connection import StoreConnection
from abilities.helpers.store.sqlite.file import StoreFile, create_store
from abilities.helpers.store.sqlite.repair import repair
from abilities.helpers.store.sqlite.store import SqliteStore, connect
from tests.stores import behaviours
from tests.stores.behaviours.steps import TIME, link_to, plan

NAMES = (
    "id", "key", "source", "target", "memory", "rowid", "doc", "segment", "part", "term", "tag"
)  # fmt: skip
"""Columns whose values name one row of a namespace, or a few."""

MEMORIES = 300
"""Memories in each store whose statistics are used."""

COLUMNS = """
SELECT s.name, c.name FROM sqlite_schema AS s JOIN pragma_table_info(s.name) AS c
WHERE s.type = 'table' AND s.sql LIKE '%PRIMARY KEY%STRICT%'
"""

_STATEMENT = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b")
_STEP = re.compile(r"(SCAN|SEARCH) (\w+)(?: USING .*?(?:INDEX|KEY).*?)?( \(.*\))?( LEFT-JOIN)?")

Statistics = list[tuple[Any, ...]]
"""Rows of the table sqlite_stat1."""


def find_offenses(connection: sqlite3.Connection, statement: str) -> list[str]:
    """Return the steps of a plan that read more rows than the names in the statement ask for.

    A statement without parameters is about the whole store and may scan a table. An automatic index
    is made by a scan.
    """
    offenses: list[str] = []
    columns: dict[str, list[str]] = {}
    for table, column in sqlite3.Connection.execute(connection, COLUMNS):
        columns.setdefault(table, []).append(column)

    for step in explain(connection, statement):
        found = _STEP.fullmatch(step)
        if found is None:
            continue

        way, name, searched, _ = found.groups(default="")
        aliased = re.search(rf"(\w+) AS {name}\b", statement)
        table = aliased[1] if aliased else name
        if table not in columns:
            continue

        prefix = rf"\b{name}\." if aliased else r"(?<![\w.])"
        names = [column for column in NAMES if column in (*columns[table], "rowid")]
        names_some = any(re.search(rf"{prefix}{column} (=|IN) ", statement) for column in names)
        is_by_name = "AUTOMATIC" not in step and any(f"{column}=" in searched for column in names)
        if (names_some and not is_by_name) or (way == "SCAN" and "?" in statement):
            offenses.append(f"{step}: {' '.join(statement.split())}")

    return offenses


def explain(connection: sqlite3.Connection, statement: str) -> list[str]:
    """Return the steps of the plan of a statement, whatever its parameters are."""
    query = f"EXPLAIN QUERY PLAN {statement}"
    execute = sqlite3.Connection.execute  # that of a StoreConnection may be watched
    try:
        steps = execute(connection, query).fetchall()
    except sqlite3.ProgrammingError as error:
        needed = re.search(r"uses (\d+)", str(error))
        assert needed is not None, error
        steps = execute(connection, query, [None] * int(needed[1])).fetchall()

    return [words for *_, words in steps]


@pytest.fixture
def offenses(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """By the statements that stores execute from now on, what is wrong with their plans."""
    found: dict[str, list[str]] = {}

    for name in ("execute", "executemany"):
        run = getattr(sqlite3.Connection, name)

        def look_and_run(
            self: StoreConnection, statement: str, *values: Any, run: Any = run
        ) -> sqlite3.Cursor:
            if _STATEMENT.match(statement) and statement not in found:
                found[statement] = []
                found[statement] = find_offenses(self, statement)

            cursor: sqlite3.Cursor = run(self, statement, *values)
            return cursor

        monkeypatch.setattr(StoreConnection, name, look_and_run)

    return found


async def fill(path: Path, namespaces: int) -> None:
    """Make a store whose memories, changed twice, are spread over some namespaces."""
    store = SqliteStore(path)
    for number in range(namespaces):
        changes: list[Change] = []
        for key in range(MEMORIES // namespaces):
            fields = {"type": "core", "content": f"{number} {key}", "tags": [f"t{key % 7}"]}
            links = link_to(f"k{key + 1}")
            first, second = (plan("store", f"k{key}", fields=fields, links=links) for _ in "12")
            changes += [first, first, plan("delete", f"k{key}"), second]
        await store.change_many(f"n{number}", changes, atomic=False)

    await store.close()


def analyze(path: Path, namespaces: int) -> Statistics:
    """Return the statistics of a store that was filled."""
    asyncio.run(fill(path, namespaces))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ANALYZE")
        rows = connection.execute("SELECT * FROM sqlite_stat1").fetchall()

    assert {"history_id", "memories_id", "links_name"} <= {index for _, index, _ in rows}
    return rows


def create(path: Path, statistics: Statistics) -> None:
    """Create an empty store that has statistics of another one."""
    create_store(path, Language())
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("ANALYZE")
        connection.executemany("INSERT INTO sqlite_stat1 VALUES (?, ?, ?)", statistics)


def list_constants() -> Iterator[str]:
    """Yield the statements that stand in the modules of the store, but for migrations."""
    for module in pkgutil.iter_modules(sqlite.__path__, f"{sqlite.__name__}."):
        if module.ispkg or module.name.endswith(".migration"):
            continue

        for value in vars(import_module(module.name)).values():
            values = value.values() if isinstance(value, dict) else (value,)
            for text in values:
                for part in text if isinstance(text, tuple) else (text,):
                    if isinstance(part, str) and _STATEMENT.match(part):
                        yield part


def list_triggered(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield the statements of the triggers, which no plan of another statement shows."""
    for (trigger,) in connection.execute("SELECT sql FROM sqlite_schema WHERE type = 'trigger'"):
        body = trigger.partition("BEGIN")[2].rpartition("END")[0]
        for statement in filter(str.strip, body.split(";")):
            yield re.sub(r"\b(new|old)\.\w+", "?", statement)


@pytest.mark.parametrize("namespaces", [0, pytest.param(1, marks=pytest.mark.thorough), MEMORIES])
def test_what_a_statement_names_is_found_by_an_index(
    namespaces: int, tmp_path: Path, offenses: dict[str, list[str]]
) -> None:
    statistics = analyze(tmp_path / "filled.db", namespaces) if namespaces else []
    numbers = count()

    @asynccontextmanager
    async def open_store() -> AsyncGenerator[SqliteStore]:
        path = tmp_path / f"{next(numbers)}.db"
        if statistics:
            create(path, statistics)
        store = SqliteStore(path)
        yield store
        await store.check(lambda _: None, full=True)
        await store.compact(TIME)
        await store.close()

    asyncio.run(behaviours.check(open_store))
    damaged = tmp_path / "0.db"
    with closing(sqlite3.connect(damaged, isolation_level=None)) as connection:
        connection.execute("UPDATE memories SET score = 80")
    assert repair(damaged, None, lambda _: None, dry_run=False).damage

    # Some can only be planned where their temporary tables and functions are, and were there.
    with closing(connect(StoreFile(tmp_path / "1.db"), writing=True)) as connection:
        for statement in [*list_constants(), *list_triggered(connection)]:
            is_beginning = any(longer.startswith(statement) for longer in offenses)
            with suppress(sqlite3.OperationalError):
                if not is_beginning:
                    offenses[statement] = find_offenses(connection, statement)

    assert len(offenses) > 200
    assert list(chain.from_iterable(offenses.values())) == []


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 1 FROM shelf INDEXED BY shelf_count WHERE namespace = ? AND id = ?",
        "DELETE FROM shelf WHERE type = ?",
        "SELECT 1 FROM shelf AS s CROSS JOIN links AS l ON l.term = s.id",
    ],
)
def test_a_plan_that_reads_too_much_is_noticed(statement: str, tmp_path: Path) -> None:
    create_store(tmp_path / "m.db", Language())
    with closing(sqlite3.connect(tmp_path / "m.db")) as connection:
        assert find_offenses(connection, statement)
