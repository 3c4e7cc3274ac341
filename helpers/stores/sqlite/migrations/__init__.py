"""The migrations of SQLite stores: one module per version, which leads there from the one before.

A new version adds its module here, raises `schema.VERSION`, and changes schema.sql, from which new
stores are made. A module is never changed after its release, and imports nothing that later
versions may change.
"""

from abilities.helpers.stores.sqlite.migrations import to_2, to_3, to_4, to_5, to_6, to_7
from abilities.helpers.stores.sqlite.migrations.stages import SqliteMigration

MIGRATIONS: dict[int, SqliteMigration] = {
    2: to_2.MIGRATION,
    3: to_3.MIGRATION,
    4: to_4.MIGRATION,
    5: to_5.MIGRATION,
    6: to_6.MIGRATION,
    7: to_7.MIGRATION,
}
"""By the version that each leads to."""
