"""SQL statements, and the rows that they return.

The text of a statement is built from names of this package only; every value is bound by the
driver.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

Connection = AsyncConnection[TupleRow]
RecordT = TypeVar("RecordT")

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
    """A statement that returns rows, each as a record that ``make_record`` makes of its columns."""

    def __init__(self, text: str, make_record: Callable[[Sequence[Any]], RecordT]) -> None:
        self.text = text.encode()
        self._make_record = make_record

    async def fetch(self, connection: Connection, *values: object) -> list[RecordT]:
        """Return all rows."""
        cursor = await connection.execute(self.text, values)
        return [self._make_record(columns) for columns in await cursor.fetchall()]

    async def fetch_only(self, connection: Connection, *values: object) -> RecordT:
        """Return the row of a statement that always returns one."""
        (record,) = await self.fetch(connection, *values)
        return record


def to_number(columns: Sequence[Any]) -> int:
    """Make a record of a row with one integer column."""
    (number,) = columns
    return int(number)


def to_text(columns: Sequence[Any]) -> str:
    """Make a record of a row with one text column."""
    (text,) = columns
    return str(text)


LOCK = Statement("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))")
"""Wait for the lock of a name, and hold it until the transaction ends."""

EXPECT_VERSION = Statement(f"SELECT abilities.expect_version({SCHEMA_VERSION})")
"""Begin a transaction that reads. If the store has another version, it fails: schema_too_new."""

BEGIN_READ = f"SELECT abilities.begin_read({SCHEMA_VERSION}, %s, %s)".encode()
"""Do as `EXPECT_VERSION`; return whether memories of a namespace expired by a time."""

LOCK_AND_EXPECT_VERSION = Statement(f"""
    SELECT pg_advisory_xact_lock(hashtextextended(%s, 0)),
        abilities.expect_version({SCHEMA_VERSION})
""")
"""Begin a transaction that writes: wait for the lock of a name, then do as `EXPECT_VERSION`."""
