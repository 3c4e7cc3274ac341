-- The schema of a memory store, version 2. The keys of every table begin with the namespace.

-- memories: the memories. hash covers every other column and is checked on each read. The small columns come
-- first, so that looking up a score does not step over a long content.
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
    version INTEGER NOT NULL DEFAULT 0, -- one of the numbers that the namespace has given
    expires_at TEXT NOT NULL DEFAULT '', -- empty for a memory that stays; hash covers it only if it is not
    about TEXT NOT NULL DEFAULT '[]', -- paths and patterns as JSON; hash covers them only if there are any
    PRIMARY KEY (namespace, key)
) STRICT;
CREATE UNIQUE INDEX memories_id ON memories (namespace, id);
CREATE INDEX memories_due ON memories (namespace, expires_at, id) WHERE expires_at <> '' AND archived = 0;

-- versions: the last version in each namespace. No version is given twice. The history may lack entries up to the
-- version forgotten, and is complete after it. history_bytes is the size of its entries, see Entry.size.
CREATE TABLE versions (
    namespace TEXT NOT NULL,
    number INTEGER NOT NULL,
    forgotten INTEGER NOT NULL DEFAULT 0,
    history_bytes INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (namespace)
) STRICT, WITHOUT ROWID;

-- history: the content that each change replaced, see Entry in helpers/store/history.py. hash covers every other
-- column. The last index finds a memory by a former key.
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
) STRICT, WITHOUT ROWID;
CREATE INDEX history_id ON history (namespace, id, version);
CREATE INDEX history_key ON history (namespace, key, version) WHERE action IN ('deleted', 'renamed');

-- purged: the memories that were deleted with their history, and the version at that time. No import restores them.
CREATE TABLE purged (
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    version INTEGER NOT NULL,
    made_at TEXT NOT NULL,
    caller TEXT NOT NULL,
    PRIMARY KEY (namespace, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX purged_version ON purged (namespace, version);

-- links: the links of the memories, sorted by rank, so that the best links of a memory are one range, and the best
-- links that lead to it are one range of links_incoming. rank follows the score of the target, and
-- back_rank that of the source, see LinkRecord; whatever changes one of these memories updates them, or marks them
-- in stale_ranks. hash covers every other column but the namespace. links_incoming holds all columns, so that
-- reading the links that lead to a memory takes no look-up per link.
CREATE TABLE links (
    namespace TEXT NOT NULL,
    source TEXT NOT NULL,
    rank INTEGER NOT NULL,
    weight REAL NOT NULL,
    target TEXT NOT NULL,
    type TEXT NOT NULL,
    term TEXT NOT NULL,
    back_rank INTEGER NOT NULL,
    hash INTEGER NOT NULL,
    PRIMARY KEY (namespace, source, rank DESC, weight DESC, target, type)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX links_name ON links (namespace, source, target, type);
CREATE INDEX links_incoming ON links (namespace, target, back_rank DESC, weight DESC, source, type, term, hash);

-- link_counts: how many links each key has and how many lead to it, so that these totals cost the same at any
-- number. A key without links has no row.
CREATE TABLE link_counts (
    namespace TEXT NOT NULL,
    key TEXT NOT NULL,
    outgoing INTEGER NOT NULL DEFAULT 0,
    incoming INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (namespace, key)
) STRICT, WITHOUT ROWID;
-- stale_ranks: memories with a changed score, and with more links at one side than a change updates. Readers compute
-- the ranks of these links from the score: for the side 'target' the rank of links to the key, for the side 'source'
-- the back_rank of links from it. The last columns say how far the ranks are updated, see StaleMark. since is the
-- namespace's version when the mark was made.
CREATE TABLE stale_ranks (
    namespace TEXT NOT NULL,
    side TEXT NOT NULL CHECK (side IN ('target', 'source')),
    key TEXT NOT NULL,
    since INTEGER NOT NULL,
    last_rank INTEGER NOT NULL,
    last_weight REAL NOT NULL,
    last_key TEXT NOT NULL,
    last_type TEXT NOT NULL,
    PRIMARY KEY (namespace, side, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX stale_ranks_since ON stale_ranks (namespace, since);

-- shelf: the memory index. It has the columns by which memories are filtered and sorted, in narrow rows beside the
-- memories, and their access counters, which change when they are read and which no hash covers. Its indexes end
-- with archived, even if they contain only unarchived memories: SQLite compares it again, and would look up each row.
-- Without the index for an order, a page in that order takes 20 to 70 times as long with 100,000 memories, and 130 to
-- 400 times with 1,000,000. Without the index for a filter, a page of rare values takes 40 ms instead of 0.01 with
-- 100,000 memories.
CREATE TABLE shelf (
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    key TEXT NOT NULL,
    memory INTEGER NOT NULL, -- the rowid of the memory
    type TEXT NOT NULL,
    category TEXT NOT NULL,
    importance INTEGER NOT NULL, -- 0 low, 1 medium, 2 high
    archived INTEGER NOT NULL,
    size INTEGER NOT NULL, -- bytes of content and summary
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    accessed_at TEXT NOT NULL,
    access_count INTEGER NOT NULL,
    doc INTEGER NOT NULL, -- the memory's number in the recall index
    PRIMARY KEY (namespace, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX shelf_doc ON shelf (namespace, doc);
CREATE INDEX shelf_memory ON shelf (memory, archived, type, importance, category);
CREATE INDEX shelf_accessed ON shelf (namespace, accessed_at, id, archived);
CREATE INDEX shelf_type ON shelf (namespace, type, accessed_at, id, archived) WHERE archived = 0;
CREATE INDEX shelf_importance ON shelf (namespace, importance, accessed_at, id, archived) WHERE archived = 0;
CREATE INDEX shelf_importance_order ON shelf (namespace, importance, id, archived);
CREATE INDEX shelf_category ON shelf (namespace, category, accessed_at, id, archived) WHERE archived = 0;
CREATE INDEX shelf_created ON shelf (namespace, created_at, id, archived);
CREATE INDEX shelf_updated ON shelf (namespace, updated_at, id, archived);
CREATE INDEX shelf_count ON shelf (namespace, access_count, id, archived);

-- tags: the tag index, one row per memory and tag, sorted by last access within a tag.
CREATE TABLE tags (
    namespace TEXT NOT NULL,
    tag TEXT NOT NULL,
    archived INTEGER NOT NULL,
    accessed_at TEXT NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY (namespace, tag, archived, accessed_at, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX tags_id ON tags (namespace, id);

-- about: the index of paths, one row per path, pattern or named file of a memory, see helpers/store/about.py. Under a
-- root, the best have the highest rank.
CREATE TABLE about (
    namespace TEXT NOT NULL,
    root TEXT NOT NULL,
    archived INTEGER NOT NULL,
    rank TEXT NOT NULL,
    id TEXT NOT NULL,
    place INTEGER NOT NULL, -- tells the rows of a memory apart
    entry TEXT NOT NULL,
    PRIMARY KEY (namespace, root, archived, rank, id, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX about_id ON about (namespace, id);

-- counters: exact numbers of memories by namespace and value, so that totals and statistics cost the same at
-- any size. An unused tag has no row.
CREATE TABLE counters (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL, -- all, size, type, importance or tag
    archived INTEGER NOT NULL,
    value TEXT NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (namespace, name, archived, value)
) STRICT, WITHOUT ROWID;
CREATE INDEX counters_top ON counters (namespace, name, archived, number DESC, value);

-- search: the search index, by the rowid of the memory: every three neighboring characters of its searchable text,
-- which is the case-folded key, summary, content, category and tags. The texts are not stored a second time.
CREATE VIRTUAL TABLE search USING fts5 (folded, content = '', tokenize = 'trigram case_sensitive 1');

-- search_short: the same for searches of one or two characters: every character, and every two neighbors.
CREATE VIRTUAL TABLE search_short USING fts5 (grams, content = '', columnsize = 0, detail = none, tokenize = 'ascii');

-- recall_language: one row, the language of the stop words and stems in the recall index.
CREATE TABLE recall_language (name TEXT NOT NULL) STRICT;

-- recall_recent: the changes that are not merged into recall_terms yet, in the order of their numbers, see
-- helpers/store/recall_index.py. number counts the terms of a change and all changes before it.
CREATE TABLE recall_recent (
    namespace TEXT NOT NULL,
    number INTEGER NOT NULL,
    doc INTEGER NOT NULL,
    archived INTEGER NOT NULL,
    terms BLOB NOT NULL, -- a line each
    weights BLOB NOT NULL, -- of each term two bytes: before and after the change
    PRIMARY KEY (namespace, number)
) STRICT, WITHOUT ROWID;

-- recall_terms: the recall index, one row per term and block. docs has two bytes per memory: its number in the
-- block and the weight of the term, see helpers/search/postings.py. Archived memories have separate rows. part is
-- the block divided by 16. It comes first, so that a merge writes few pages, and the blocks of a term in a part are
-- read from one page.
CREATE TABLE recall_terms (
    namespace TEXT NOT NULL,
    part INTEGER NOT NULL,
    archived INTEGER NOT NULL,
    term TEXT NOT NULL,
    block INTEGER NOT NULL,
    docs BLOB NOT NULL,
    PRIMARY KEY (namespace, part, archived, term, block)
) STRICT, WITHOUT ROWID;

-- marks: facts that the store remembers forever.
CREATE TABLE marks (name TEXT NOT NULL) STRICT;
