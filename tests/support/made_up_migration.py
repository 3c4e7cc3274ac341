"""A made-up next version of a store: a column of a canonical table, filled in blocks.

No version but the first was published, so that this is what the migration of stores is tried with.
"""

from collections.abc import Callable

from abilities.helpers.store import migration
from abilities.helpers.store.migration import Block, Migration, Position, Stage
from abilities.helpers.store.transaction import Transaction

BLOCK_ROWS = 20
"""Memories of a block, so that a small store has many."""

_ADD_COLUMN = "ALTER TABLE memories ADD COLUMN size integer NOT NULL DEFAULT 0"
_FILL = """
UPDATE memories SET size = length(content) WHERE (namespace, key) IN (
    SELECT namespace, key FROM memories WHERE (namespace, key) > (?, ?)
    ORDER BY namespace, key LIMIT ?
) RETURNING namespace, key
"""


async def _begin(transaction: Transaction) -> None:
    await transaction.run(_ADD_COLUMN)


async def _fill(transaction: Transaction, position: Position) -> Block:
    rows = await transaction.fetch(_FILL, *(position or ("", "")), BLOCK_ROWS)
    last = max(map(tuple, rows)) if len(rows) == BLOCK_ROWS else None
    return Block(len(rows), last)


async def _add_index(transaction: Transaction, _: Position) -> Block:
    await transaction.run("CREATE INDEX memories_size ON memories (namespace, size)")
    return Block(0, None)


MIGRATION = Migration(
    _begin,
    (
        Stage("memories", _fill, "SELECT count(*) FROM memories"),
        Stage("an index", _add_index),
    ),
)


def announce(change: Callable[[object, str, object], None] = setattr) -> None:
    """Let this process know version 2; ``change`` sets an attribute of a module."""
    change(migration, "VERSION", 2)
    change(migration, "MIGRATIONS", {2: MIGRATION})
