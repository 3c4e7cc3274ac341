-- The tables that every store has, and words, the search of this one. The keys begin with the namespace. What each
-- column means is told in helpers/store/sqlite/schema.sql; which indexes there are is for each engine to choose.

CREATE TABLE memories (
    namespace TEXT NOT NULL,
    key TEXT NOT NULL,
    id TEXT NOT NULL,
    archived INTEGER NOT NULL,
    score REAL NOT NULL,
    scored INTEGER NOT NULL,
    type TEXT NOT NULL,
    importance TEXT NOT NULL,
    category TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    tags TEXT NOT NULL,
    summary TEXT NOT NULL,
    metadata TEXT NOT NULL,
    content TEXT NOT NULL,
    hash INTEGER NOT NULL,
    version INTEGER NOT NULL,
    expires_at TEXT NOT NULL,
    about TEXT NOT NULL,
    PRIMARY KEY (namespace, key),
    UNIQUE (namespace, id)
);
CREATE INDEX memories_due ON memories (namespace, expires_at, id) WHERE expires_at <> '' AND archived = 0;

CREATE TABLE versions (
    namespace TEXT PRIMARY KEY,
    number INTEGER NOT NULL,
    forgotten INTEGER NOT NULL DEFAULT 0,
    history_bytes INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE history (
    namespace TEXT NOT NULL,
    version INTEGER NOT NULL,
    id TEXT NOT NULL,
    key TEXT NOT NULL,
    previous INTEGER NOT NULL,
    action TEXT NOT NULL,
    made_at TEXT NOT NULL,
    caller TEXT NOT NULL,
    before TEXT NOT NULL,
    hash INTEGER NOT NULL,
    PRIMARY KEY (namespace, version, id)
);
CREATE INDEX history_id ON history (namespace, id, version);
CREATE INDEX history_key ON history (namespace, key, version);

CREATE TABLE purged (
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    version INTEGER NOT NULL,
    made_at TEXT NOT NULL,
    caller TEXT NOT NULL,
    PRIMARY KEY (namespace, id)
);

CREATE TABLE links (
    namespace TEXT NOT NULL,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    type TEXT NOT NULL,
    weight REAL NOT NULL,
    term TEXT NOT NULL,
    rank INTEGER NOT NULL,
    back_rank INTEGER NOT NULL,
    hash INTEGER NOT NULL,
    PRIMARY KEY (namespace, source, target, type)
);
CREATE INDEX links_best ON links (namespace, source, rank DESC, weight DESC, target, type);
CREATE INDEX links_back ON links (namespace, target, back_rank DESC, weight DESC, source, type);

CREATE TABLE link_counts (
    namespace TEXT NOT NULL,
    key TEXT NOT NULL,
    outgoing INTEGER NOT NULL,
    incoming INTEGER NOT NULL,
    PRIMARY KEY (namespace, key)
);

CREATE TABLE stale_ranks (
    namespace TEXT NOT NULL,
    side TEXT NOT NULL,
    key TEXT NOT NULL,
    since INTEGER NOT NULL,
    last_rank INTEGER NOT NULL,
    last_weight REAL NOT NULL,
    last_key TEXT NOT NULL,
    last_type TEXT NOT NULL,
    PRIMARY KEY (namespace, side, key)
);

CREATE TABLE shelf (
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    key TEXT NOT NULL,
    type TEXT NOT NULL,
    category TEXT NOT NULL,
    importance INTEGER NOT NULL,
    archived INTEGER NOT NULL,
    size INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    accessed_at TEXT NOT NULL,
    access_count INTEGER NOT NULL,
    doc INTEGER NOT NULL,
    PRIMARY KEY (namespace, id),
    UNIQUE (namespace, doc)
);
CREATE INDEX shelf_accessed ON shelf (namespace, accessed_at, id);

CREATE TABLE tags (
    namespace TEXT NOT NULL,
    tag TEXT NOT NULL,
    archived INTEGER NOT NULL,
    accessed_at TEXT NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY (namespace, tag, archived, accessed_at, id)
);
CREATE INDEX tags_id ON tags (namespace, id);

CREATE TABLE about (
    namespace TEXT NOT NULL,
    root TEXT NOT NULL,
    archived INTEGER NOT NULL,
    rank TEXT NOT NULL,
    id TEXT NOT NULL,
    place INTEGER NOT NULL,
    entry TEXT NOT NULL,
    PRIMARY KEY (namespace, root, archived, rank, id, place)
);
CREATE INDEX about_id ON about (namespace, id);

CREATE TABLE counters (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    archived INTEGER NOT NULL,
    value TEXT NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (namespace, name, archived, value)
);

CREATE TABLE recall_language (name TEXT NOT NULL);

CREATE TABLE recall_recent (
    namespace TEXT NOT NULL,
    number INTEGER NOT NULL,
    doc INTEGER NOT NULL,
    archived INTEGER NOT NULL,
    terms BLOB NOT NULL,
    weights BLOB NOT NULL,
    PRIMARY KEY (namespace, number)
);

CREATE TABLE recall_terms (
    namespace TEXT NOT NULL,
    part INTEGER NOT NULL,
    archived INTEGER NOT NULL,
    term TEXT NOT NULL,
    block INTEGER NOT NULL,
    docs BLOB NOT NULL,
    PRIMARY KEY (namespace, part, archived, term, block)
);

CREATE TABLE marks (name TEXT NOT NULL);

-- The searchable text of each memory, case-folded.
CREATE TABLE words (
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    folded TEXT NOT NULL,
    PRIMARY KEY (namespace, id)
);
