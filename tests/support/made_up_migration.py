"""A made-up next version of a store: a column of a canonical table, filled row by row."""

from collections.abc import Callable

from abilities.helpers.store import migration
from abilities.helpers.store.engine import Transaction

PRESENT = migration.VERSION
NEXT = PRESENT + 1

_ADD_COLUMN = "ALTER TABLE memories ADD COLUMN size integer NOT NULL DEFAULT 0"
_NAMES = "SELECT namespace, RAW(key) FROM memories"
_FILL = """
UPDATE memories SET size = length(content) WHERE namespace = ? AND key = CAST(? AS text)
"""


async def add_size(transaction: Transaction) -> None:
    await transaction.run(_ADD_COLUMN)
    await transaction.run_many(_FILL, await transaction.fetch(_NAMES))
    await transaction.run("CREATE INDEX memories_size ON memories (namespace, size)")


def announce(change: Callable[[object, str, object], None] = setattr) -> None:
    """Let this process know the next version; ``change`` sets an attribute of a module."""
    change(migration, "VERSION", NEXT)
    change(migration, "MIGRATIONS", {**migration.MIGRATIONS, NEXT: add_size})
