"""The integrity check of a store in PostgreSQL: every hash, and all that memories imply."""

from collections.abc import Callable

from abilities.helpers.store.checking import check_rows
from abilities.helpers.store.examining import EngineIndex
from abilities.helpers.store.model import Row
from abilities.helpers.store.postgres.statements import Connection
from abilities.helpers.store.postgres.transaction import PostgresTransaction
from abilities.helpers.store.protocol import IntegrityFinding
from abilities.helpers.store.query import fold_searchable


def _is_findable(row: Row, folded: str | None) -> bool:
    return folded == fold_searchable(row)


INDEX = EngineIndex(
    is_indexed="s.key = m.key",
    is_known="s.namespace = m.namespace AND (s.id = m.id OR s.key = m.key)",
    searched="(SELECT w.folded FROM words AS w WHERE w.namespace = m.namespace AND w.id = m.id)",
    is_findable=_is_findable,
)


async def check_store(
    connection: Connection, progress: Callable[[int], None]
) -> list[IntegrityFinding]:
    """Return the findings about a snapshot, in a fixed order.

    ``progress`` is called with the number of rows that were checked since the last call.
    """
    return await check_rows(PostgresTransaction(connection), INDEX, progress)
