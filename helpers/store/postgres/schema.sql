-- The schema of a new memory store in PostgreSQL, version 2. The keys of every table begin with the
-- namespace, so that a distributed PostgreSQL can place rows by it. Texts compare by code point
-- (COLLATE "C"), as everywhere in the package.

-- Every version looks for its number here; it is entered at the end. The tables are in a separate
-- schema.
CREATE SCHEMA IF NOT EXISTS abilities;
CREATE SCHEMA IF NOT EXISTS abilities_data;
CREATE TABLE abilities.store_version (number integer PRIMARY KEY);

-- Refuses a transaction if the store no longer has the version that the process knows. Each
-- transaction calls it first, and keeps a lock on the number until it ends, so that a migration can
-- only begin between transactions.
CREATE FUNCTION abilities.expect_version(expected integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT max(number) FROM abilities.store_version) IS DISTINCT FROM expected THEN
        RAISE EXCEPTION 'the store has another version' USING ERRCODE = 'AB001';
    END IF;
END $$;

-- Begins a transaction that reads a namespace: calls expect_version, then returns whether any memory
-- there has expired by a time and must be archived first.
CREATE FUNCTION abilities.begin_read(expected integer, place text, now text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM abilities.expect_version(expected);
    RETURN EXISTS (
        SELECT FROM abilities_data.memories AS m WHERE m.namespace = place
        AND m.expires_at <> '' AND m.archived = 0 AND m.expires_at <= now
    );
END $$;

SET LOCAL search_path = abilities_data, public;

-- The memories, from which all other tables except links are derived. The hash covers every other
-- column and is checked on each read. tags and metadata are JSON; scored is 1 if the score was set,
-- and 0 if it follows from the importance. version is the number of the change that made the row.
-- From expires_at on, the memory is to be archived; it is empty if the memory does not expire.
CREATE TABLE memories (
    namespace text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    archived smallint NOT NULL,
    score double precision NOT NULL,
    scored smallint NOT NULL,
    type text COLLATE "C" NOT NULL,
    importance text COLLATE "C" NOT NULL,
    category text COLLATE "C" NOT NULL,
    created_at text COLLATE "C" NOT NULL,
    updated_at text COLLATE "C" NOT NULL,
    tags text COLLATE "C" NOT NULL,
    summary text COLLATE "C" NOT NULL,
    metadata text COLLATE "C" NOT NULL,
    content text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    hash bigint NOT NULL,
    expires_at text COLLATE "C" NOT NULL DEFAULT '',
    about text COLLATE "C" NOT NULL DEFAULT '[]', -- paths and patterns as JSON
    PRIMARY KEY (namespace, key),
    UNIQUE (namespace, id)
);
CREATE INDEX memories_due ON memories (namespace, expires_at, id) WHERE expires_at <> '' AND archived = 0;

-- The last version in each namespace; it only grows. forgotten is the last version that is missing in
-- the history, and history_bytes is the size of the entries in the history.
CREATE TABLE versions (
    namespace text COLLATE "C" PRIMARY KEY,
    number bigint NOT NULL,
    forgotten bigint NOT NULL DEFAULT 0,
    history_bytes bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- The history: the content that each change replaced, see helpers/store/history.py. previous is the
-- earlier version of the memory; hash covers all other columns.
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

-- The memories that were deleted with their history, so that no import brings them back.
CREATE TABLE purged (
    namespace text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    made_at text COLLATE "C" NOT NULL,
    caller text COLLATE "C" NOT NULL,
    PRIMARY KEY (namespace, id)
);
CREATE INDEX purged_version ON purged (namespace, version);

-- The links between memories. rank is the weight times the target's score in millionths, or -1 if
-- the target is missing or archived; back_rank is the same with the source's score. A change of a
-- memory updates rank in all links to it and back_rank in its own, so that reading the best links of
-- a memory, or the best to it, takes one range of an index: links_best or links_back. A memory with
-- very many links is marked in stale_ranks instead. hash covers all other columns except the namespace.
CREATE TABLE links (
    namespace text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    target text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    weight double precision NOT NULL,
    term text COLLATE "C" NOT NULL,
    rank integer NOT NULL,
    back_rank integer NOT NULL,
    hash bigint NOT NULL,
    PRIMARY KEY (namespace, source, target, type)
);
CREATE INDEX links_best ON links (namespace, source, rank DESC, weight DESC, target, type);
CREATE INDEX links_back ON links (namespace, target, back_rank DESC, weight DESC, source, type);

-- Memories with a changed score, and with more links at one side than a change updates. Readers
-- compute the ranks of these links from the score: for the side 'target' the rank of links to the key,
-- for the side 'source' the back_rank of links from it. The last columns say how far the ranks are
-- updated, see StaleMark. since is the namespace's version when the mark was made.
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
CREATE INDEX stale_ranks_since ON stale_ranks (namespace, since);

-- The exact numbers of links from a key and to it, so that totals cost the same for any number of
-- links. A key without links has no row.
CREATE TABLE link_counts (
    namespace text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    outgoing bigint NOT NULL,
    incoming bigint NOT NULL,
    PRIMARY KEY (namespace, key)
) WITH (fillfactor = 80);

-- The memory index: the columns by which memories are filtered and sorted, one row per memory. It
-- also has the access counters (accessed_at and access_count), which change when a memory is read and
-- are therefore not part of the memory's hash. Each of its indexes serves one filter or one order; the
-- schema of SQLite says how much time they save.
CREATE TABLE shelf (
    namespace text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    category text COLLATE "C" NOT NULL,
    importance smallint NOT NULL, -- 0 low, 1 medium, 2 high
    archived smallint NOT NULL,
    size integer NOT NULL, -- bytes of content and summary
    created_at text COLLATE "C" NOT NULL,
    updated_at text COLLATE "C" NOT NULL,
    accessed_at text COLLATE "C" NOT NULL,
    access_count bigint NOT NULL,
    doc bigint NOT NULL, -- the memory's number in the recall index
    PRIMARY KEY (namespace, id)
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX shelf_doc ON shelf (namespace, doc);
CREATE INDEX shelf_accessed ON shelf (namespace, accessed_at, id, archived);
CREATE INDEX shelf_type ON shelf (namespace, type, accessed_at, id) WHERE archived = 0;
CREATE INDEX shelf_importance ON shelf (namespace, importance, accessed_at, id) WHERE archived = 0;
CREATE INDEX shelf_importance_order ON shelf (namespace, importance, id);
CREATE INDEX shelf_category ON shelf (namespace, category, accessed_at, id) WHERE archived = 0;
CREATE INDEX shelf_created ON shelf (namespace, created_at, id);
CREATE INDEX shelf_updated ON shelf (namespace, updated_at, id);
CREATE INDEX shelf_count ON shelf (namespace, access_count, id);

-- The tag index: one row per memory and tag, to filter by tag. archived and accessed_at repeat the
-- memory's, so that a page of a tag's memories is one range of the primary key.
CREATE TABLE tags (
    namespace text COLLATE "C" NOT NULL,
    tag text COLLATE "C" NOT NULL,
    archived smallint NOT NULL,
    accessed_at text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    PRIMARY KEY (namespace, tag, archived, accessed_at, id)
);
CREATE INDEX tags_id ON tags (namespace, id);

-- The index of paths: one row per path, pattern or named file of a memory, see helpers/store/about.py.
-- Under a root, the best have the highest rank; place tells the rows of a memory apart.
CREATE TABLE about (
    namespace text COLLATE "C" NOT NULL,
    root text COLLATE "C" NOT NULL,
    archived integer NOT NULL,
    rank text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    place integer NOT NULL,
    entry text COLLATE "C" NOT NULL,
    PRIMARY KEY (namespace, root, archived, rank, id, place)
);
CREATE INDEX about_id ON about (namespace, id);

-- The search index: the searchable text of each memory, case-folded: its key, summary, content,
-- category and tags. If the server has pg_trgm, schema.py adds an index on folded, which finds
-- substrings; otherwise a search reads every row of a namespace.
CREATE TABLE words (
    namespace text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    folded text COLLATE "C" NOT NULL,
    PRIMARY KEY (namespace, id)
);

-- One row: the language of the stop words and stems in the recall index.
CREATE TABLE recall_language (name text COLLATE "C" NOT NULL);
INSERT INTO recall_language VALUES (current_setting('abilities.recall_language'));

-- The recall index, one row per term and block, with the memories that contain the term. docs has two
-- bytes per memory: its number in the block and the weight of the term, see helpers/search/postings.py.
-- With 2 KB at most, docs is never moved out of the row. part is the block divided by 16. It comes
-- first, so that a merge changes few pages of the index.
CREATE TABLE recall_terms (
    part integer NOT NULL,
    block integer NOT NULL,
    archived smallint NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    term text COLLATE "C" NOT NULL,
    docs bytea NOT NULL,
    PRIMARY KEY (namespace, part, archived, term, block)
);
ALTER TABLE recall_terms ALTER docs SET STORAGE PLAIN;

-- The changes that are not merged into recall_terms yet, in the order of their numbers, see
-- helpers/store/recall_index.py. number counts the terms of a change and all changes before it.
CREATE TABLE recall_recent (
    namespace text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    doc bigint NOT NULL,
    archived smallint NOT NULL,
    terms bytea NOT NULL, -- a line each
    weights bytea NOT NULL, -- of each term two bytes: before and after the change
    PRIMARY KEY (namespace, number)
);
-- The statistics of a table stay when it becomes empty, and would keep purged words.
ALTER TABLE recall_recent ALTER terms SET STATISTICS 0;

-- Exact numbers of memories per namespace, so that totals and statistics cost the same at any size.
-- A counter has a name and a value, for example tag and "python"; for size, number is a sum of bytes.
CREATE TABLE counters (
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL, -- all, size, type, importance or tag
    archived smallint NOT NULL,
    value text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    PRIMARY KEY (namespace, name, archived, value)
) WITH (fillfactor = 50);
CREATE INDEX counters_top ON counters (namespace, name, archived, number DESC, value);

-- Facts that the store remembers forever.
CREATE TABLE marks (name text COLLATE "C" NOT NULL);

-- Guesses which memories a walk along outgoing links retrieves, so that their links can be fetched in
-- one round trip. It takes the namespace, the first key, the walk's three limits, and the number of
-- links of each memory to look at; it returns keys. The walk itself is the same for every store, and
-- has the last word. It fetches whatever was not guessed: links beyond the page, and memories behind
-- damaged links.
CREATE FUNCTION reached(place text, root text, deepest integer, breadth integer, total integer, page integer)
RETURNS text[] LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
DECLARE
    found text[] := ARRAY[root];
    met integer[] := ARRAY[0]; -- the least depth at which each was met
    parents integer[] := ARRAY[0]; -- positions in found
    children integer[] := ARRAY[0]; -- how many children each has
    furthest integer[] := ARRAY[0]; -- the position in targets of the last one that ever was a child of each
    firsts integer[] := '{}'; -- where in targets those of each begin, null before they are read
    lasts integer[] := '{}';
    targets text[] := '{}'; -- what the best links of each lead to, one memory's after another's
    count integer := 0; -- how many there are in targets
    stack integer[] := ARRAY[1]; -- the way to here, as positions in found
    waiting integer[] := ARRAY[NULL::integer]; -- which of its targets each on the way takes next
    depth integer := 0; -- of the last one on the way
    here integer := 1;
    there integer;
    next integer;
    target text;
BEGIN
    LOOP
        IF depth < deepest AND firsts[here] IS NULL THEN
            firsts[here] := count + 1;
            FOREACH target IN ARRAY ARRAY(
                SELECT l.target FROM links AS l
                WHERE l.namespace = place AND l.source = found[here] AND l.rank >= 0
                ORDER BY l.rank DESC, l.weight DESC, l.target, l.type LIMIT page
            ) LOOP
                count := count + 1;
                targets[count] := target;
            END LOOP;
            lasts[here] := count;
        END IF;
        next := coalesce(waiting[depth + 1], firsts[here]);
        IF depth = deepest OR next > lasts[here] OR (children[here] = breadth AND next > furthest[here]) THEN
            EXIT WHEN depth = 0;
            depth := depth - 1;
            here := stack[depth + 1];
            CONTINUE;
        END IF;
        target := targets[next];
        waiting[depth + 1] := next + 1;
        there := array_position(found, target);
        IF there IS NULL OR (met[there] > depth + 1 AND parents[there] <> here) THEN
            CONTINUE WHEN children[here] = breadth;
            IF there IS NULL THEN
                EXIT WHEN cardinality(found) = total;
                there := cardinality(found) + 1;
                found[there] := target;
                children[there] := 0;
                furthest[there] := 0;
            ELSE
                children[parents[there]] := children[parents[there]] - 1;
            END IF;
            parents[there] := here;
            children[here] := children[here] + 1;
            furthest[here] := greatest(furthest[here], next);
        ELSIF met[there] <= depth + 1 THEN
            CONTINUE;
        END IF;
        met[there] := depth + 1;
        depth := depth + 1;
        here := there;
        stack[depth + 1] := here;
        waiting[depth + 1] := NULL;
    END LOOP;
    RETURN found;
END $$;
