-- Begins the migration to version 4: makes the recall index, and puts aside what is copied, because
-- the memory index gets the numbers of memories there, and search looks into more fields. The new
-- tables have no indexes until the data is there.

LOCK TABLE abilities.version, abilities_data.shelf, abilities_data.words IN ACCESS EXCLUSIVE MODE;

CREATE SCHEMA abilities_3;
ALTER TABLE abilities_data.shelf SET SCHEMA abilities_3;
ALTER TABLE abilities_data.words SET SCHEMA abilities_3;

SET LOCAL search_path = abilities_data, public;

CREATE TABLE shelf (
    namespace text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    category text COLLATE "C" NOT NULL,
    importance smallint NOT NULL,
    archived smallint NOT NULL,
    size integer NOT NULL,
    created_at text COLLATE "C" NOT NULL,
    updated_at text COLLATE "C" NOT NULL,
    accessed_at text COLLATE "C" NOT NULL,
    access_count bigint NOT NULL,
    doc bigint NOT NULL
) WITH (fillfactor = 80);

CREATE TABLE words (
    namespace text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    folded text COLLATE "C" NOT NULL
);

CREATE TABLE recall_language (name text COLLATE "C" NOT NULL);
INSERT INTO recall_language VALUES (current_setting('abilities.recall_language'));

CREATE TABLE recall_terms (
    block integer NOT NULL,
    archived smallint NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    term text COLLATE "C" NOT NULL,
    docs bytea NOT NULL,
    PRIMARY KEY (namespace, archived, term, block)
);
ALTER TABLE recall_terms ALTER docs SET STORAGE PLAIN;

CREATE TABLE recall_recent (
    namespace text COLLATE "C" NOT NULL,
    number bigint GENERATED ALWAYS AS IDENTITY,
    doc bigint NOT NULL,
    archived smallint NOT NULL,
    terms text[] COLLATE "C" NOT NULL,
    weights bytea NOT NULL,
    PRIMARY KEY (namespace, number)
);
