"""To version 5: memories that expire, and the history.

The new column has a default, so that no row of a memory is written anew. The history of the
memories that are there begins with their next changes.
"""

from importlib.resources import files

from abilities.helpers.stores.postgres.migrations.stages import (
    PostgresMigration,
    make_single_block,
)

_script = files("abilities.helpers.stores.postgres.migrations").joinpath("to_5_begin.sql")

MIGRATION = PostgresMigration(
    _script.read_text(encoding="utf-8"),
    (
        make_single_block(
            "the index of memories that expire",
            """
            CREATE INDEX memories_due ON memories (namespace, expires_at)
            WHERE expires_at <> '' AND archived = 0
            """,
            "ANALYZE versions, history, purged",
        ),
    ),
)
