"""What a migration consists of: a script that begins it, and stages that are done in blocks."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from abilities.helpers.stores.migration import Block, Position
from abilities.helpers.stores.postgres.statements import Connection


class PostgresStage(NamedTuple):
    """A stage of a migration.

    ``words`` say what it treats, for example "memories". ``run_block`` treats some of them, from a
    position on, in a transaction of the caller. ``count_statement`` counts how many there are in
    all; it is None for a stage that is a single block.
    """

    words: str
    run_block: Callable[[Connection, Position], Awaitable[Block]]
    count_statement: str | None = None


class PostgresMigration(NamedTuple):
    """The way from one version to the next.

    ``begin_script`` runs in the transaction that moves the version; it must be short, because all
    others wait for it, and nothing of the version before may work after it. The last stage leaves
    the schema that new stores have.
    """

    begin_script: str
    stages: tuple[PostgresStage, ...]


def make_single_block(words: str, *statements: str) -> PostgresStage:
    """Return a stage of statements that run in one transaction, such as building an index."""

    async def run_block(connection: Connection, _position: Position) -> Block:
        for statement in statements:
            await connection.execute(statement.encode())

        return Block(0, None)

    return PostgresStage(words, run_block)
