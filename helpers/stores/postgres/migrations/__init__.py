"""The migrations of stores in PostgreSQL: one module per version, which leads there from the last.

A new version adds its module here, raises `SCHEMA_VERSION`, and changes schema.sql, from which new
stores are made. A module and its scripts are never changed after their release.
"""

from abilities.helpers.stores.postgres.migrations import to_2, to_3, to_4, to_5
from abilities.helpers.stores.postgres.migrations.stages import PostgresMigration

MIGRATIONS: dict[int, PostgresMigration] = {
    2: to_2.MIGRATION,
    3: to_3.MIGRATION,
    4: to_4.MIGRATION,
    5: to_5.MIGRATION,
}
"""By the version that each leads to."""
