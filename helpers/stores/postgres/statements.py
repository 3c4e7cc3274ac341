"""SQL statements, and the rows that they return.

The text of a statement is built from names of this package only; every value is bound by the
driver.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Generic, TypeVar

from psycopg import AsyncConnection, AsyncCursor
from psycopg.rows import TupleRow

Connection = AsyncConnection[TupleRow]
RecordT = TypeVar("RecordT")

PORTION = 1_000
"""Rows that are dealt with before other calls have their turn; it takes some milliseconds."""

SCHEMA_VERSION = 1
"""The version of the database schema that this package reads and writes."""


class Statement:
    """A statement that returns nothing."""

    def __init__(self, text: str) -> None:
        # As bytes, because psycopg's types take only literals for a str, and ours name their
        # columns with f-strings.
        self.text = text.encode()

    async def execute(self, connection: Connection, *values: object) -> None:
        """Run the statement. In a pipeline, its errors may appear in a later statement."""
        await connection.execute(self.text, values)


class Select(Generic[RecordT]):
    """A statement that returns rows, each as a record that ``make_record`` makes of its columns.

    That is usually `_make` of a NamedTuple whose fields stand in the order of the columns. It is
    faster than psycopg's `class_row`, which builds a dict per row. ``is_binary`` sends the columns
    as bytes instead of text, which is faster for many bytea.
    """

    def __init__(
        self,
        text: str,
        make_record: Callable[[Sequence[Any]], RecordT],
        *,
        is_binary: bool = False,
    ) -> None:
        self.text = text.encode()
        self._make_record = make_record
        self._is_binary = is_binary

    async def fetch(self, connection: Connection, *values: object) -> list[RecordT]:
        """Return all rows."""
        cursor = await self._execute(connection, values)
        records = await cursor.fetchmany(PORTION)

        # They have all arrived, but making records of very many takes a while.
        while len(records) < cursor.rowcount:
            await asyncio.sleep(0)
            records += await cursor.fetchmany(PORTION)

        return records

    async def fetch_only(self, connection: Connection, *values: object) -> RecordT:
        """Return the row of a statement that always returns one."""
        cursor = await self._execute(connection, values)
        (record,) = await cursor.fetchall()
        return record

    async def send(self, connection: Connection, *values: object) -> AsyncCursor[RecordT]:
        """Send the statement; return the cursor, which in a pipeline has the rows only later."""
        cursor = connection.cursor(row_factory=lambda _: self._make_record, binary=self._is_binary)
        return await cursor.execute(self.text, values)

    async def _execute(
        self, connection: Connection, values: Sequence[object]
    ) -> AsyncCursor[RecordT]:
        return await self.send(connection, *values)


async def stream(
    connection: Connection, statement: str | bytes, *values: object
) -> AsyncIterator[TupleRow]:
    """Yield the rows of a statement, fetching them in portions.

    So reading any number of them takes the same memory.
    """
    # A named cursor is one on the server; others would fetch all rows at once.
    async with connection.cursor("abilities_stream") as cursor:
        cursor.itersize = PORTION
        text = statement.encode() if isinstance(statement, str) else statement
        await cursor.execute(text, values or None)
        async for row in cursor:
            yield row


def to_number(columns: Sequence[Any]) -> int:
    """Make a record of a row with one integer column."""
    (number,) = columns
    return int(number)


def to_text(columns: Sequence[Any]) -> str:
    """Make a record of a row with one text column."""
    (text,) = columns
    return str(text)


def to_flag(columns: Sequence[Any]) -> bool:
    """Make a record of a row with one boolean column."""
    (flag,) = columns
    return bool(flag)


LOCK = Statement("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))")
"""Wait for the lock of a name, and hold it until the transaction ends."""

EXPECT_VERSION = Statement(f"SELECT abilities.expect_version({SCHEMA_VERSION})")
"""Begin a transaction that reads. If the store has another version, it fails: schema_too_new."""

BEGIN_READ = Select(f"SELECT abilities.begin_read({SCHEMA_VERSION}, %s, %s)", to_flag)
"""Do as `EXPECT_VERSION`; return whether memories of a namespace expired by a time."""

LOCK_AND_EXPECT_VERSION = Statement(f"""
    SELECT pg_advisory_xact_lock(hashtextextended(%s, 0)),
        abilities.expect_version({SCHEMA_VERSION})
""")
"""Begin a transaction that writes: wait for the lock of a name, then do as `EXPECT_VERSION`."""
