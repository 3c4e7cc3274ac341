"""Transactions in PostgreSQL, and its errors as the reasons that callers get."""

import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from functools import lru_cache
from typing import TypeVar

import psycopg
from psycopg import AsyncConnection, AsyncCursor
from psycopg.rows import TupleRow
from psycopg_pool import PoolClosed, PoolTimeout
from typing_extensions import override

from abilities.declarations.refusals import Reason, Refused
from abilities.helpers.store.engine import (
    PORTION,
    Columns,
    ForEach,
    Matches,
    Numbers,
    Reached,
    SearchPlan,
    Statement,
    Transaction,
)
from abilities.helpers.store.model import Query

_log = logging.getLogger("abilities")

SQLSTATES: dict[str, Reason] = {
    "08": "unavailable",
    "25006": "read_only",
    "28": "storage_denied",
    "3D000": "storage_missing",
    "40001": "busy",
    "40P01": "busy",
    "42501": "read_only",
    "53100": "storage_full",
    "53": "resource_exhausted",
    "55P03": "busy",
    "57014": "busy",
    "57P": "unavailable",
    "AB001": "schema_too_new",
    "XX001": "corrupted",
    "XX002": "corrupted",
}
"""The reasons by SQLSTATE or prefix of SQLSTATEs; the longest match counts.

Without a match, the reason is storage_error. AB001 is our own: the function expect_version in
schema.sql raises it. The reasons for 42501 (a missing right) and 57014 (a canceled statement) are
those of changes; for reads, `translate_for_read` replaces them. The others are listed in
https://www.postgresql.org/docs/current/errcodes-appendix.html.
"""
_REFUSED_CONNECTIONS: dict[str, Reason] = {
    "authentication failed": "storage_denied",
    "no password supplied": "storage_denied",
    "no pg_hba.conf entry": "storage_denied",
    "is not permitted to log in": "storage_denied",
    "permission denied for database": "storage_denied",
    'role ".*" does not exist': "storage_denied",
    'database ".*" does not exist': "storage_missing",
    "too many (clients|connections)": "resource_exhausted",
    "connection slots are reserved": "resource_exhausted",
}
"""The reasons for a refused connection, by a pattern of the message, which may be of any host.

libpq gives no SQLSTATE for these errors. If the server's messages are not in English, the reason is
unavailable.
"""
_CONFLICTS = ("40001", "40P01")
"""A serialization failure and a deadlock: the transaction may succeed in another attempt."""


def translate_postgres_error(error: Exception) -> Refused:
    """Return the Refused that a caller gets for an error of the driver or pool; log the error."""
    words = str(error).partition("\n")[0]  # further lines contain advice, or the statement
    _log.warning("the store refused: %s", words)

    if isinstance(error, PoolTimeout | PoolClosed | TimeoutError):
        return Refused("unavailable")

    sqlstate = _get_sqlstate(error)
    if sqlstate is not None:
        for length in (5, 3, 2):
            prefix = sqlstate[:length]
            if prefix in SQLSTATES:
                return Refused(SQLSTATES[prefix])
        return Refused("storage_error")

    # An operational error without an SQLSTATE comes from libpq: there is no connection.
    if isinstance(error, psycopg.OperationalError):
        for pattern, reason in _REFUSED_CONNECTIONS.items():
            if re.search(pattern, str(error)):
                return Refused(reason)
        return Refused("unavailable")

    return Refused("storage_error")


def translate_for_read(refused: Refused) -> Refused:
    """Return the Refused of a read, which needs no right to change anything."""
    if refused.reason == "read_only":
        return Refused("storage_denied")

    took_too_long = isinstance(refused.__cause__, PoolTimeout | psycopg.errors.QueryCanceled)
    if refused.reason == "busy" and took_too_long:
        return Refused("timeout")

    return refused


def is_conflict(refused: Refused) -> bool:
    """Return whether PostgreSQL aborted a transaction because of another one."""
    return _get_sqlstate(refused.__cause__) in _CONFLICTS


def _get_sqlstate(error: BaseException | None) -> str | None:
    return getattr(error, "sqlstate", None)


Connection = AsyncConnection[TupleRow]
ResultT = TypeVar("ResultT")

_TRANSLATIONS = (
    (r"\s+INDEXED BY \w+", ""),  # PostgreSQL chooses indexes itself
    (r"\bTEXTS\(\?\) AS", "unnest(?::text[]) AS"),
    (r"\bNUMBERS\(\?\) AS", "unnest(?::int8[]) AS"),
    (r"\bROWS\(\?\) AS", "json_to_recordset(?::json) AS"),
    (r"\bFILTER\(([\w.]+)\)", r"\1"),
    (r"\bSTRICT, WITHOUT ROWID", ""),
    (r"\bRAW\(([\w.]+)\)", r"\1"),  # the server refuses texts that are not UTF-8
    (r"\bJSON_LIST\(([\w.]+)\)", r"coalesce(json_agg(\1), '[]')::text"),
)

_ERRORS_OF_ONE_CHANGE = (
    psycopg.DataError,
    psycopg.IntegrityError,
    psycopg.ProgrammingError,
    psycopg.errors.QueryCanceled,
    psycopg.errors.LockNotAvailable,
)
"""The errors caused by a change's own values, or by a statement of it that takes too long."""

_FOR_EACH = """
SELECT asked.key, found.* FROM TEXTS(?) AS asked (key) CROSS JOIN LATERAL ({}) AS found
"""

# The server plans this once; with a list of keys, it plans anew each time.
_FOR_ONE = """
SELECT asked.key, found.* FROM (SELECT CAST(? AS text) AS key) AS asked
CROSS JOIN LATERAL ({}) AS found
"""

_FOR_REACHED = """
SELECT asked.key, found.* FROM unnest(reached(?, ?, ?, ?, ?, ?)) AS asked (key)
LEFT JOIN LATERAL ({}) AS found ON true
"""


@lru_cache(maxsize=1_024)
def _translate(text: str) -> bytes:
    """Return a statement in psycopg's form."""
    for pattern, words in _TRANSLATIONS:
        text = re.sub(pattern, words, text)

    return text.replace("?", "%s").encode()


class PostgresTransaction(Transaction):
    """The transaction of a connection. In a pipeline, a later statement may raise an error."""

    is_remote = True

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    @override
    async def fetch(self, text: str, *values: object) -> Sequence[Columns]:
        cursor = await self._execute(text, values)
        return await cursor.fetchall()

    @override
    async def fetch_each(self, *statements: Statement | ForEach) -> list[Sequence[Columns]]:
        # In a pipeline, all statements are sent before the first answer is awaited.
        cursors: list[AsyncCursor[TupleRow]] = []
        values: Sequence[object]
        for statement in statements:
            if not isinstance(statement, ForEach):
                text, *values = statement
            elif isinstance(statement.keys, Reached):
                text = _FOR_REACHED.format(statement.text)
                values = (*statement.keys, *statement.values)
            elif len(statement.keys) == 1:
                text = _FOR_ONE.format(statement.text)
                values = (*statement.keys, *statement.values)
            else:
                text = _FOR_EACH.format(statement.text)
                values = (list(statement.keys), *statement.values)

            cursors.append(await self._execute(text, values))

        return [await cursor.fetchall() for cursor in cursors]

    async def _execute(self, text: str, values: Sequence[object]) -> AsyncCursor[TupleRow]:
        # In the text format, the bytes of postings would be twice as long.
        return await self.connection.execute(_translate(text), values, binary=True)

    @override
    async def fetch_for(self, text: str, keys: Sequence[str], *values: object) -> Sequence[Columns]:
        (rows,) = await self.fetch_each(ForEach(text, keys, values))
        return rows

    @override
    async def plan_search(self, namespace: str, query: Query, numbers: Numbers) -> SearchPlan:
        conditions = ["w.namespace = s.namespace AND w.id = s.id"]
        patterns: list[str] = []
        for term in query.search:
            escaped = re.sub(r"([\\%_])", r"\\\1", term)
            conditions.append("w.folded LIKE ?")
            patterns.append(f"%{escaped}%")

        source = "words AS w CROSS JOIN shelf AS s"
        matches = Matches(" AND ".join(conditions), tuple(patterns), source)
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
    async def stream(self, text: str, *values: object) -> AsyncIterator[Columns]:
        # A named cursor is on the server; any other one would fetch all rows at once.
        async with self.connection.cursor("abilities_stream") as cursor:
            cursor.itersize = PORTION
            await cursor.execute(_translate(text), values or None)
            async for row in cursor:
                yield row


async def lock(connection: Connection, name: str) -> None:
    """Wait for the advisory lock of a name, and hold it until the transaction ends."""
    await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (name,))
