"""Transactions of an SQLite store, for the algorithms that all stores share."""

import json
import re
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from copy import copy
from functools import lru_cache
from itertools import count
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from typing_extensions import override

from abilities.declarations.values import has_surrogate
from abilities.helpers.store.engine import (
    Columns,
    Numbers,
    SearchPlan,
    Transaction,
    fold_searchable,
)
from abilities.helpers.store.model import Query, Row
from abilities.helpers.store.sqlite.connection import (
    StoreConnection,
    release_statements,
    translate_error,
)
from abilities.helpers.store.sqlite.search import (
    add_text,
    plan_search,
    remove_indexed_text,
    remove_text,
)

Parameters = ParamSpec("Parameters")
ResultT = TypeVar("ResultT")

_TRANSLATIONS = (
    (r"\boctet_length\((\w+)\)", r"length(CAST(\1 AS BLOB))"),  # it came with SQLite 3.43
    (r"\bgreatest\(", "max("),
    (r"\bleast\(", "min("),
    (r"= ANY \(\?\)", "IN (SELECT value FROM json_each(?))"),
    (
        r"\b(?:TEXTS|NUMBERS)\(\?\) AS (\w+) \((\w+)\)",
        r"(SELECT value AS \2 FROM json_each(?)) AS \1",
    ),
    (r"\bRAW\(([\w.]+)\)", r"CAST(\1 AS BLOB)"),
    (r"\bJSON_LIST\(", "json_group_array("),
    (r"\bFILTER\(([\w.]+)\)", r"+\1"),
    (r' COLLATE "C"', ""),  # its own comparison is by code point
)

_ROWS = re.compile(r"\bROWS\(\?\) AS (\w+) \(([^)]*)\)")

_ROWID = "SELECT rowid FROM memories WHERE namespace = ? AND key = ?"

_ERRORS_OF_ONE_CHANGE = (
    sqlite3.DataError,
    sqlite3.IntegrityError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
)
"""The errors caused by a change's own values; any other error ends the whole transaction."""


class _Statement(NamedTuple):
    """A statement in SQLite's dialect, and whether any of its values is a list, sent as JSON."""

    text: str
    takes_list: bool

    def bind(self, values: Sequence[object]) -> Sequence[object]:
        """Return values in SQLite's types."""
        if not self.takes_list:
            return values

        return [json.dumps(each) if isinstance(each, list) else each for each in values]


@lru_cache(maxsize=512)
def _translate(text: str) -> _Statement:

    def select_rows(rows: re.Match[str]) -> str:
        """Return the objects of a JSON list as a table."""
        table, columns = rows.groups()
        names = [column.split()[0] for column in columns.split(",")]
        values = ", ".join(f"json_extract(value, '$.{name}') AS {name}" for name in names)
        return f"(SELECT {values} FROM json_each(?)) AS {table}"

    for pattern, words in _TRANSLATIONS:
        text = re.sub(pattern, words, text)

    text = _ROWS.sub(select_rows, text)
    return _Statement(text, "json_each(?)" in text)


@lru_cache(maxsize=128)
def _ask_for_one(text: str) -> _Statement:
    """Return a statement whose last parameter is the key, wherever it uses ``asked.key``."""
    numbers = count(1)
    translated = _translate(text)
    numbered = re.sub(r"\?", lambda _: f"?{next(numbers)}", translated.text)
    return translated._replace(text=numbered.replace("asked.key", f"?{next(numbers)}"))


class SqliteTransaction(Transaction):
    """The transaction of a connection. Its methods are coroutines that never wait."""

    shelf_columns = (("memory", "m.rowid"),)
    search_tables = ()
    searched = "EXISTS (SELECT 1 FROM search_docsize AS d WHERE d.id = m.rowid)"
    most_sorted = 0

    def __init__(self, connection: StoreConnection) -> None:
        self._connection = connection

    def _execute(self, text: str, values: Sequence[object]) -> sqlite3.Cursor:
        statement = _translate(text)
        return self._connection.execute(statement.text, statement.bind(values))

    @override
    async def fetch(self, text: str, *values: object) -> Sequence[Columns]:
        return self._execute(text, values).fetchall()

    @override
    async def fetch_for(self, text: str, keys: Sequence[str], *values: object) -> Sequence[Columns]:
        statement = _ask_for_one(text)
        given = statement.bind(values)

        rows: list[Columns] = []
        for key in keys:
            found = self._connection.execute(statement.text, (*given, key)).fetchall()
            rows += [(key, *columns) for columns in found]

        return rows

    @override
    async def plan_search(self, namespace: str, query: Query, numbers: Numbers) -> SearchPlan:
        return plan_search(self._connection, namespace, query, numbers)

    @override
    async def run(self, text: str, *values: object) -> None:
        self._execute(text, values)

    @override
    async def run_many(self, text: str, rows: Iterable[Columns]) -> None:
        self._connection.executemany(_translate(text).text, rows)

    @override
    async def attempt(
        self, work: Callable[[Transaction], Awaitable[ResultT]]
    ) -> ResultT | Exception:
        async def wait() -> ResultT:
            return await work(self)

        return run_in_savepoint(self._connection, lambda: complete(wait()))

    @override
    async def save_words(self, before: Row | None, after: Row | None) -> None:
        row = after or before
        former = None if before is None else fold_searchable(before)
        present = None if after is None else fold_searchable(after)
        if row is None or former == present:
            return

        memory = self._find_rowid(row)
        if former is not None:
            remove_text(self._connection, memory, former)
        if present is not None:
            add_text(self._connection, memory, present)

    @override
    async def renew_words(self, row: Row) -> None:
        memory = self._find_rowid(row)
        remove_indexed_text(self._connection, memory)
        add_text(self._connection, memory, fold_searchable(row))

    @override
    def is_findable(self, row: Row, searched: object) -> bool:
        """Return whether the memory has an index entry; `compare_index` compares their contents."""
        return bool(searched)

    def _find_rowid(self, row: Row) -> int:
        ((memory,),) = self._connection.execute(_ROWID, (row.namespace, row.key)).fetchall()
        return int(memory)

    @override
    async def pause(self) -> None:
        """Do nothing, because the thread serves only the store."""

    @override
    async def stream(self, text: str, *values: object) -> AsyncIterator[Columns]:
        for columns in self._execute(text, values):
            yield columns


class RawTransaction(SqliteTransaction):
    """A transaction for repairs, which also accepts texts that damage left without valid UTF-8."""

    @override
    def _execute(self, text: str, values: Sequence[object]) -> sqlite3.Cursor:
        return super()._execute(*bind_raw(text, values))

    @override
    async def run_many(self, text: str, rows: Iterable[Columns]) -> None:
        for row in rows:
            self._execute(text, row)

    @override
    async def renew_words(self, row: Row) -> None:
        """Do nothing, because a repair then rebuilds the search index as a whole."""


def bind_raw(text: str, values: Sequence[object]) -> tuple[str, Sequence[object]]:
    r"""Return a statement and its values, with texts that have lone surrogates as bytes.

    >>> bind_raw("SELECT ?", ["\udcff"])
    ('SELECT CAST(? AS TEXT)', [b'\xff'])
    """
    first, *parts = text.split("?")
    words, bound = [first], list[object]()
    for value, part in zip(values, parts, strict=True):
        if isinstance(value, str) and has_surrogate(value):
            words += ["CAST(? AS TEXT)", part]
            bound.append(value.encode(errors="surrogateescape"))
        else:
            words += ["?", part]
            bound.append(value)

    return "".join(words), bound


def run_in_savepoint(
    connection: StoreConnection, work: Callable[[], ResultT]
) -> ResultT | Exception:
    """Do work in a savepoint; if it fails, undo only this work and return its exception.

    An error of the database itself is raised, so that the whole transaction fails.
    """
    postponed = copy(connection.postponed_texts)
    result: ResultT | Exception
    connection.execute("SAVEPOINT change")
    try:
        result = work()
    except Exception as error:
        is_of_database = isinstance(error, sqlite3.Error | UnicodeDecodeError)
        if is_of_database and not isinstance(error, _ERRORS_OF_ONE_CHANGE):
            raise

        release_statements(error)
        connection.execute("ROLLBACK TO change")
        connection.postponed_texts = postponed
        result = translate_error(error) if is_of_database else error

    connection.execute("RELEASE change")
    return result


def run(
    connection: StoreConnection,
    function: Callable[Concatenate[Transaction, Parameters], Coroutine[Any, Any, ResultT]],
    *args: Parameters.args,
    **kwargs: Parameters.kwargs,
) -> ResultT:
    """Return the result of a function that works in a connection's transaction, on this thread."""
    return complete(function(SqliteTransaction(connection), *args, **kwargs))


def complete(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run a coroutine that never waits, and return its result."""
    try:
        work.send(None)
    except StopIteration as done:
        result: ResultT = done.value
        return result

    raise AssertionError("the work waited for something")
