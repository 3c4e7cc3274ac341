"""What a migration consists of: a beginning, and stages that are done in blocks."""

import sqlite3
from collections.abc import Callable
from typing import NamedTuple

from abilities.helpers.stores.migration import Block, Position


class SqliteStage(NamedTuple):
    """A stage of a migration.

    ``words`` say what it treats, for example "memories". ``run_block`` treats some of them, from a
    position on, in a transaction of the caller. ``count_rows`` returns how many there are in all;
    it is None for a stage that is a single block.
    """

    words: str
    run_block: Callable[[sqlite3.Connection, Position], Block]
    count_rows: Callable[[sqlite3.Connection], int] | None = None


class SqliteMigration(NamedTuple):
    """The way from one version to the next.

    ``begin`` runs in the transaction in which the version moves; it changes the schema as far as
    the stages need. The last stage leaves the schema that new stores have.
    """

    begin: Callable[[sqlite3.Connection], None]
    stages: tuple[SqliteStage, ...]
