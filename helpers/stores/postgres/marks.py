"""Marks of a store in PostgreSQL, in a table that is made with its first row."""

from abilities.helpers.stores.postgres.statements import Connection, Select, Statement, to_number
from abilities.helpers.stores.protocol import Mark

# Not in schema.sql: every version of the schema may have the table, so none has to be migrated.
_CREATE = Statement('CREATE TABLE abilities_data.marks (name text COLLATE "C" PRIMARY KEY)')
_INSERT = Statement("INSERT INTO abilities_data.marks VALUES (%s) ON CONFLICT DO NOTHING")
_COUNT_TABLES = Select(
    "SELECT (to_regclass('abilities_data.marks') IS NOT NULL)::integer", to_number
)
_COUNT = Select("SELECT count(*) FROM abilities_data.marks WHERE name = %s", to_number)


async def write_mark(connection: Connection, mark: Mark) -> None:
    """Set a mark, in a transaction that holds the lock of all marks."""
    # CREATE TABLE IF NOT EXISTS would need the right to create even if the table exists.
    if not await _COUNT_TABLES.fetch_only(connection):
        await _CREATE.execute(connection)

    await _INSERT.execute(connection, mark)


async def read_mark(connection: Connection, mark: Mark) -> bool:
    """Return whether the store has a mark."""
    if not await _COUNT_TABLES.fetch_only(connection):
        return False

    return bool(await _COUNT.fetch_only(connection, mark))
