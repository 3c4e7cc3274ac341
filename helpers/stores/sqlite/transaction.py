"""A transaction of an SQLite store for the algorithms that all stores share."""

import re
import sqlite3
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import lru_cache
from typing import Any, Concatenate, ParamSpec, TypeVar

from typing_extensions import override

from abilities.helpers.stores.transaction import Columns, Transaction

Parameters = ParamSpec("Parameters")
ResultT = TypeVar("ResultT")


@lru_cache(maxsize=256)
def _translate(text: str) -> str:
    """Return a statement in SQLite's words; octet_length came with 3.43."""
    text = re.sub(r"\boctet_length\((\w+)\)", r"length(CAST(\1 AS BLOB))", text)
    return text.replace("greatest(", "max(").replace("least(", "min(")


class SqliteTransaction(Transaction):
    """The transaction of a connection. Its methods never wait."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @override
    async def fetch(self, text: str, *values: object) -> Sequence[Columns]:
        return self._connection.execute(_translate(text), values).fetchall()

    @override
    async def run(self, text: str, *values: object) -> None:
        self._connection.execute(_translate(text), values)

    @override
    async def run_many(self, text: str, rows: Iterable[Columns]) -> None:
        self._connection.executemany(_translate(text), rows)


def run(
    connection: sqlite3.Connection,
    function: Callable[Concatenate[Transaction, Parameters], Coroutine[Any, Any, ResultT]],
    *args: Parameters.args,
    **kwargs: Parameters.kwargs,
) -> ResultT:
    """Return what a function does in the transaction of a connection, on this thread."""
    work = function(SqliteTransaction(connection), *args, **kwargs)
    try:
        work.send(None)
    except StopIteration as done:
        result: ResultT = done.value
        return result

    raise AssertionError("what never waits is done at once")
