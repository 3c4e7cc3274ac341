"""A transaction in PostgreSQL for the algorithms that all stores share."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from functools import lru_cache
from typing import TypeVar

import psycopg
from psycopg import AsyncCursor
from psycopg.rows import TupleRow
from typing_extensions import override

from abilities.helpers.store.model import Row
from abilities.helpers.store.postgres.errors import translate_postgres_error
from abilities.helpers.store.postgres.statements import Connection
from abilities.helpers.store.query import Matches, Numbers, Query, SearchPlan, fold_searchable
from abilities.helpers.store.transaction import (
    PORTION,
    Columns,
    ForEach,
    Reached,
    Statement,
    Transaction,
)

ResultT = TypeVar("ResultT")

_TRANSLATIONS = (
    (r"\s+INDEXED BY \w+", ""),  # PostgreSQL chooses indexes itself
    (r"\bTEXTS\(\?\) AS", "unnest(?::text[]) AS"),
    (r"\bNUMBERS\(\?\) AS", "unnest(?::int8[]) AS"),
    (r"\bROWS\(\?\) AS", "json_to_recordset(?::json) AS"),
    (r"\bFILTER\(([\w.]+)\)", r"\1"),
    (r"\bRAW\(([\w.]+)\)", r"\1"),  # the server refuses texts that are not UTF-8
    (r"\bJSON_LIST\(([\w.]+)\)", r"coalesce(json_agg(\1), '[]')::text"),
)

_SAVE_WORDS = """
INSERT INTO words (namespace, id, folded) VALUES (?, ?, ?)
ON CONFLICT (namespace, id) DO UPDATE SET folded = excluded.folded
"""
_DELETE_WORDS = "DELETE FROM words WHERE namespace = ? AND id = ?"

_ERRORS_OF_ONE_CHANGE = (
    psycopg.DataError,
    psycopg.IntegrityError,
    psycopg.ProgrammingError,
    psycopg.errors.QueryCanceled,
    psycopg.errors.LockNotAvailable,
)
"""What a change's values cause, or a statement of it that takes too long."""


@lru_cache(maxsize=1_024)
def _translate(text: str) -> bytes:
    """Return a statement in psycopg's form."""
    for pattern, words in _TRANSLATIONS:
        text = re.sub(pattern, words, text)

    return text.replace("?", "%s").encode()


@lru_cache(maxsize=256)
def _ask_for_each(text: str) -> str:
    """Return a statement that does another one for each of some keys, which it takes first."""
    return f"""
    SELECT asked.key, found.* FROM TEXTS(?) AS asked (key) CROSS JOIN LATERAL ({text}) AS found
    """


@lru_cache(maxsize=128)
def _ask_for_reached(text: str) -> str:
    """Return a statement that does another one for each key that a walk is guessed to reach."""
    return f"""
    SELECT asked.key, found.* FROM unnest(reached(?, ?, ?, ?, ?, ?)) AS asked (key)
    LEFT JOIN LATERAL ({text}) AS found ON true
    """


class PostgresTransaction(Transaction):
    """The transaction of a connection. In a pipeline, errors may appear in a later statement."""

    is_remote = True

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    @override
    async def fetch(self, text: str, *values: object) -> Sequence[Columns]:
        cursor = await self.connection.execute(_translate(text), values)
        return await cursor.fetchall()

    @override
    async def fetch_each(self, *statements: Statement | ForEach) -> list[Sequence[Columns]]:
        # In a pipeline, all of them are sent before the first answer is waited for.
        cursors: list[AsyncCursor[TupleRow]] = []
        for statement in statements:
            text, values = _flatten(statement)
            cursors.append(await self.connection.execute(_translate(text), values))

        return [await cursor.fetchall() for cursor in cursors]

    @override
    async def fetch_for(self, text: str, keys: Sequence[str], *values: object) -> Sequence[Columns]:
        (rows,) = await self.fetch_each(ForEach(text, keys, values))
        return rows

    @override
    async def plan_search(self, namespace: str, query: Query, numbers: Numbers) -> SearchPlan:
        conditions = ["w.namespace = s.namespace AND w.id = s.id"]
        conditions += ["w.folded LIKE ?"] * len(query.search)
        patterns = tuple(map(_build_like_pattern, query.search))
        source = "words AS w CROSS JOIN shelf AS s"
        matches = Matches(" AND ".join(conditions), patterns, source)
        return SearchPlan(matches, matches)

    @override
    async def run(self, text: str, *values: object) -> None:
        await self.connection.execute(_translate(text), values)

    @override
    async def run_many(self, text: str, rows: Iterable[Columns]) -> None:
        async with self.connection.cursor() as cursor:
            await cursor.executemany(_translate(text), rows)

    @override
    async def attempt(
        self, work: Callable[[Transaction], Awaitable[ResultT]]
    ) -> ResultT | Exception:
        try:
            async with self.connection.transaction():
                return await work(self)
        except _ERRORS_OF_ONE_CHANGE as error:
            return translate_postgres_error(error)
        except psycopg.Error:
            raise
        except Exception as error:
            return error

    @override
    async def save_words(self, before: Row | None, after: Row | None) -> None:
        if before is not None and (after is None or before.id != after.id):
            await self.run(_DELETE_WORDS, before.namespace, before.id)
            before = None
        if after is None:
            return

        folded = fold_searchable(after)
        if before is None or folded != fold_searchable(before):
            await self.run(_SAVE_WORDS, after.namespace, after.id, folded)

    @override
    async def renew_words(self, row: Row) -> None:
        await self.run(_SAVE_WORDS, row.namespace, row.id, fold_searchable(row))

    @override
    async def stream(self, text: str, *values: object) -> AsyncIterator[Columns]:
        # A named cursor is one on the server; others would fetch all rows at once.
        async with self.connection.cursor("abilities_stream") as cursor:
            cursor.itersize = PORTION
            await cursor.execute(_translate(text), values or None)
            async for row in cursor:
                yield row


def _flatten(statement: Statement | ForEach) -> tuple[str, Sequence[object]]:
    """Return one statement for all keys, and its values."""
    if not isinstance(statement, ForEach):
        text, *values = statement
        return text, values

    text, keys, given = statement
    if isinstance(keys, Reached):
        return _ask_for_reached(text), (*keys, *given)

    return _ask_for_each(text), (list(keys), *given)


def _build_like_pattern(search: str) -> str:
    """Return a LIKE pattern for texts that contain another one literally."""
    escaped = re.sub(r"([\\%_])", r"\\\1", search)
    return f"%{escaped}%"
