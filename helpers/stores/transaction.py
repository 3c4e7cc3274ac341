"""A transaction as the algorithms of a store see it: the same text of SQL on every engine.

Texts are standard SQL with ``?`` for values that are bound. An engine translates what it writes
otherwise. ``INDEXED BY`` names the index that an engine without statistics is to take.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

_PORTION = 500
"""Names that one statement is given at most."""

Columns = Sequence[Any]


class Transaction(Protocol):
    """A transaction, or a snapshot that is only read. A statement sees those before it."""

    async def fetch(self, text: str, *values: object) -> Sequence[Columns]:
        """Return all rows of a statement."""
        ...

    async def run(self, text: str, *values: object) -> None:
        """Run a statement that returns nothing."""
        ...

    async def run_many(self, text: str, rows: Iterable[Columns]) -> None:
        """Run a statement for each row of values."""
        ...


async def fetch_named(
    transaction: Transaction, text: str, names: Sequence[str], *values: object
) -> list[Columns]:
    """Return the rows of a statement with ``IN ({})`` for any number of names, after the values."""
    rows: list[Columns] = []
    for start in range(0, len(names), _PORTION):
        portion = names[start : start + _PORTION]
        places = ", ".join("?" * len(portion))
        rows += await transaction.fetch(text.format(places), *values, *portion)

    return rows
