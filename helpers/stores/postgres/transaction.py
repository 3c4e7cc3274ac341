"""A transaction in PostgreSQL for the algorithms that all stores share."""

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import lru_cache
from typing import Concatenate, ParamSpec, TypeVar

from typing_extensions import override

from abilities.helpers.stores.postgres.statements import Connection
from abilities.helpers.stores.transaction import Columns, Transaction

Parameters = ParamSpec("Parameters")
ResultT = TypeVar("ResultT")


@lru_cache(maxsize=1_024)
def _translate(text: str) -> bytes:
    """Return a statement in psycopg's form; PostgreSQL chooses indexes itself."""
    return re.sub(r"\s+INDEXED BY \w+", "", text).replace("?", "%s").encode()


class PostgresTransaction(Transaction):
    """The transaction of a connection. In a pipeline, errors may appear in a later statement."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @override
    async def fetch(self, text: str, *values: object) -> Sequence[Columns]:
        cursor = await self._connection.execute(_translate(text), values)
        return await cursor.fetchall()

    @override
    async def run(self, text: str, *values: object) -> None:
        await self._connection.execute(_translate(text), values)

    @override
    async def run_many(self, text: str, rows: Iterable[Columns]) -> None:
        async with self._connection.cursor() as cursor:
            await cursor.executemany(_translate(text), rows)


def bind(
    function: Callable[Concatenate[Transaction, Parameters], Awaitable[ResultT]],
) -> Callable[Concatenate[Connection, Parameters], Awaitable[ResultT]]:
    """Return a function of a transaction as one of a connection."""

    def run(
        connection: Connection, /, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Awaitable[ResultT]:
        return function(PostgresTransaction(connection), *args, **kwargs)

    return run
