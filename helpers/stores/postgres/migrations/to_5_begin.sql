-- Begins the migration to version 5: memories that expire, and the history. No row of a memory is
-- written anew. Of the changes until now the history tells nothing.

LOCK TABLE abilities.version, abilities_data.memories, abilities_data.versions
    IN ACCESS EXCLUSIVE MODE;

SET LOCAL search_path = abilities_data, public;

ALTER TABLE memories ADD COLUMN expires_at text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE versions ADD COLUMN forgotten bigint NOT NULL DEFAULT 0;
ALTER TABLE versions ADD COLUMN history_bytes bigint NOT NULL DEFAULT 0;
UPDATE versions SET forgotten = number;

CREATE TABLE history (
    namespace text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    previous bigint NOT NULL,
    action text COLLATE "C" NOT NULL,
    made_at text COLLATE "C" NOT NULL,
    caller text COLLATE "C" NOT NULL,
    before text COLLATE "C" NOT NULL,
    hash bigint NOT NULL,
    PRIMARY KEY (namespace, version, id)
);
CREATE INDEX history_id ON history (namespace, id, version);
CREATE INDEX history_key ON history (namespace, key, version) WHERE action IN ('deleted', 'renamed');

CREATE TABLE purged (
    namespace text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    made_at text COLLATE "C" NOT NULL,
    caller text COLLATE "C" NOT NULL,
    PRIMARY KEY (namespace, id)
);
CREATE INDEX purged_version ON purged (namespace, version);
