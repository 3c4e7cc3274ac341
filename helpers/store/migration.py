"""Migration of a store to the version of this package: in place, in one transaction.

The transaction is atomic, so even after a power cut a store has either the old version or the new
one. Processes of an older package check the version in each transaction, and are refused after
the migration.
"""

import logging
import time
from collections.abc import Awaitable, Callable

from abilities.helpers.store.about import ADD_ABOUT, list_about
from abilities.helpers.store.engine import Transaction, to_name
from abilities.helpers.store.model import Row, find_damage
from abilities.helpers.store.recall_index import rebuild_index

_log = logging.getLogger("abilities.store")

VERSION = 3
"""The version of the schema that this package reads and writes, on every engine."""

_TEXT = 'text COLLATE "C" NOT NULL'
_ADD_ABOUT = (
    f"ALTER TABLE memories ADD COLUMN about {_TEXT} DEFAULT '[]'",
    f"""
    CREATE TABLE about (
        namespace {_TEXT}, root {_TEXT}, archived integer NOT NULL, rank {_TEXT}, id {_TEXT},
        place integer NOT NULL, entry {_TEXT},
        PRIMARY KEY (namespace, root, archived, rank, id, place)
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX about_id ON about (namespace, id)",
)
_ROWS = f"SELECT {', '.join(Row._fields)}, hash FROM memories"
_NAMESPACES = "SELECT DISTINCT RAW(namespace) FROM shelf"


async def add_about(transaction: Transaction) -> None:
    """Add the paths that memories are about, and index the files that contents name."""
    for statement in _ADD_ABOUT:
        await transaction.run(statement)

    async for *columns, stored_hash in transaction.stream(_ROWS):
        row = Row._make(columns)
        if find_damage(row, stored_hash) is None:
            await transaction.run_many(ADD_ABOUT, list_about(row))


async def index_passages(transaction: Transaction) -> None:
    """Index contents over 3,000 characters by their passages, as version 2 did over 5,000."""
    for (name,) in await transaction.fetch(_NAMESPACES):
        await rebuild_index(transaction, to_name(name))


MIGRATIONS: dict[int, Callable[[Transaction], Awaitable[None]]] = {
    2: add_about,
    3: index_passages,
}
"""For each version, the function that migrates a store of the version before."""


async def migrate(transaction: Transaction, version: int) -> None:
    """Migrate the content of a store from a version; the caller saves the new version number."""
    began_at = time.monotonic()
    for number in range(version + 1, VERSION + 1):
        _log.info("Migrating the memory store to version %d.", number)
        await MIGRATIONS[number](transaction)

    seconds = time.monotonic() - began_at
    _log.info("Migrated the memory store in %.0f s.", seconds)
