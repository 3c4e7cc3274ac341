"""Facts that a store remembers for good."""

from abilities.helpers.stores.protocol import Mark
from abilities.helpers.stores.transaction import Transaction

_WRITE = """
INSERT INTO marks (name) SELECT CAST(? AS text)
WHERE NOT EXISTS (SELECT 1 FROM marks WHERE name = ?)
"""


async def write_mark(transaction: Transaction, mark: Mark) -> None:
    """Set a mark. Setting it again changes nothing."""
    await transaction.run(_WRITE, mark, mark)


async def read_mark(transaction: Transaction, mark: Mark) -> bool:
    """Return whether a mark is set."""
    return bool(await transaction.fetch("SELECT 1 FROM marks WHERE name = ?", mark))
