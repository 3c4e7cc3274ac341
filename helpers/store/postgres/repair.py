"""What the repair of a store in PostgreSQL has of its own: its locks and its words."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from typing_extensions import override

from abilities.helpers.store.mending import mend_namespace
from abilities.helpers.store.model import Row
from abilities.helpers.store.postgres.integrity import INDEX
from abilities.helpers.store.postgres.server import Server
from abilities.helpers.store.postgres.transaction import PostgresTransaction, lock
from abilities.helpers.store.repairing import RepairedStore
from abilities.helpers.store.transaction import Transaction

ResultT = TypeVar("ResultT")

_CLEAN_WORDS = """
DELETE FROM words AS w WHERE w.namespace = ? AND NOT EXISTS (
    SELECT 1 FROM memories AS m WHERE m.namespace = w.namespace AND m.id = w.id
)
"""


class RepairedDatabase(RepairedStore):
    """A database whose repair is undone in a dry run."""

    index = INDEX
    tables = ("words",)

    def __init__(self, server: Server, *, dry_run: bool) -> None:
        self._server = server
        self._dry_run = dry_run

    @override
    async def write(
        self, namespace: str, work: Callable[[Transaction], Awaitable[ResultT]]
    ) -> ResultT:
        async with self._server.long_write(namespace, dry_run=self._dry_run) as connection:
            # A memory of a namespace with an impossible name moves to another one.
            if mend_namespace(namespace) != namespace:
                await lock(connection, f"abilities:{mend_namespace(namespace)}")
            return await work(PostgresTransaction(connection))

    @override
    async def mend_words(
        self, transaction: Transaction, namespace: str, rows: Sequence[Row]
    ) -> None:
        await transaction.run(_CLEAN_WORDS, namespace)
        for row in rows:
            await transaction.renew_words(row)
