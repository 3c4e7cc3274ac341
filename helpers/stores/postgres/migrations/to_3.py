"""To version 3: marks of memories whose links have stale ranks.

A store of version 2 has none, so the table begins empty. The version moves because older processes
would take stale ranks for right ones.
"""

from abilities.helpers.stores.postgres.migrations.stages import (
    PostgresMigration,
    make_single_block,
)

_BEGIN = """
SET LOCAL search_path = abilities_data, public;
CREATE TABLE stale_ranks (
    namespace text COLLATE "C" NOT NULL,
    side text COLLATE "C" NOT NULL CHECK (side IN ('target', 'source')),
    key text COLLATE "C" NOT NULL,
    since bigint NOT NULL,
    last_rank integer NOT NULL,
    last_weight double precision NOT NULL,
    last_key text COLLATE "C" NOT NULL,
    last_type text COLLATE "C" NOT NULL,
    PRIMARY KEY (namespace, side, key)
);
CREATE INDEX stale_ranks_since ON stale_ranks (namespace, since)
"""

MIGRATION = PostgresMigration(
    begin_script=_BEGIN,
    stages=(make_single_block("the table of stale ranks", "ANALYZE stale_ranks"),),
)
