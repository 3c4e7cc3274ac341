-- The schema of a memory store in PostgreSQL, version 1. The keys of every table begin with the
-- namespace, so that a distributed PostgreSQL can place rows by it. Texts compare by code point
-- (COLLATE "C"), as everywhere in the package. One more table, version, holds the number of each
-- script that was run on the database; migration.py creates it.

-- The memories themselves, and the source of all other tables except links. Its hash covers every
-- other column and is checked on each read. tags and metadata are JSON; scored is 1 if the score
-- was set, and 0 if it follows from the importance.
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
    hash bigint NOT NULL,
    PRIMARY KEY (namespace, key),
    UNIQUE (namespace, id)
);

-- The links between memories. rank is the weight times the target's score, or -1 if the target is
-- missing or archived. A change of the target updates the ranks of all links to it, so that reading
-- a memory's best links is one range of the index links_best. hash covers source, target, type,
-- weight and rank.
CREATE TABLE links (
    namespace text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    target text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    weight double precision NOT NULL,
    rank double precision NOT NULL,
    hash bigint NOT NULL,
    PRIMARY KEY (namespace, source, target, type)
);
CREATE INDEX links_best ON links (namespace, source, rank DESC, weight DESC, target, type);
CREATE INDEX links_back ON links (namespace, target);

-- The memory index: what memories are filtered and sorted by, one row per memory. It also holds the
-- access counters (accessed_at and access_count), which change when a memory is read and are
-- therefore outside of the memory's hash. Each of its indexes serves one filter or one order.
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
    PRIMARY KEY (namespace, id)
) WITH (fillfactor = 80);
CREATE INDEX shelf_accessed ON shelf (namespace, accessed_at, id) WHERE archived = 0;
CREATE INDEX shelf_accessed_all ON shelf (namespace, accessed_at, id);
CREATE INDEX shelf_type ON shelf (namespace, type, accessed_at, id) WHERE archived = 0;
CREATE INDEX shelf_importance ON shelf (namespace, importance, accessed_at, id) WHERE archived = 0;
CREATE INDEX shelf_importance_order ON shelf (namespace, importance, id) WHERE archived = 0;
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

-- The search index: the case-folded content of each memory. If the server has pg_trgm,
-- migration.py adds an index on folded, which finds substrings; otherwise search reads every row of
-- a namespace.
CREATE TABLE words (
    namespace text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    folded text COLLATE "C" NOT NULL,
    PRIMARY KEY (namespace, id)
);

-- Exact numbers of memories per namespace, so that totals and statistics cost the same at any size.
-- name says what is counted and value which one of it, for example tag and "python"; for size, number
-- is a sum of bytes. The triggers below keep the counters.
CREATE TABLE counters (
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL, -- all, size, type, importance or tag
    archived smallint NOT NULL,
    value text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    PRIMARY KEY (namespace, name, archived, value)
) WITH (fillfactor = 50);
CREATE INDEX counters_top ON counters (namespace, name, archived, number DESC, value);

-- Adds a row of the memory index to the counters when it is inserted, and subtracts it when it is
-- deleted. Counted columns are never updated: a change deletes the row and inserts it again.
CREATE FUNCTION count_shelf() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    r shelf%ROWTYPE := CASE TG_OP WHEN 'INSERT' THEN NEW ELSE OLD END;
    one integer := CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END;
BEGIN
    INSERT INTO counters AS c VALUES
        (r.namespace, 'all', r.archived, '', one),
        (r.namespace, 'importance', r.archived, r.importance::text, one),
        (r.namespace, 'size', r.archived, '', one * r.size),
        (r.namespace, 'type', r.archived, r.type, one)
    ON CONFLICT (namespace, name, archived, value) DO UPDATE SET number = c.number + excluded.number;
    RETURN NULL;
END $$;

-- Keeps the counters of the memory index in the same transaction as the index itself.
CREATE TRIGGER shelf_counted AFTER INSERT OR DELETE ON shelf FOR EACH ROW EXECUTE FUNCTION count_shelf();

-- Does the same for a row of the tag index. A counter that reaches 0 is deleted, because unlike types
-- and importances there can be any number of tags.
CREATE FUNCTION count_tags() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO counters AS c VALUES (NEW.namespace, 'tag', NEW.archived, NEW.tag, 1)
        ON CONFLICT (namespace, name, archived, value) DO UPDATE SET number = c.number + 1;
    ELSE
        UPDATE counters SET number = number - 1
            WHERE namespace = OLD.namespace AND name = 'tag' AND archived = OLD.archived AND value = OLD.tag;
        DELETE FROM counters
            WHERE namespace = OLD.namespace AND name = 'tag' AND archived = OLD.archived AND value = OLD.tag
            AND number = 0;
    END IF;
    RETURN NULL;
END $$;

-- Keeps the counters of tags in the same transaction as the tag index.
CREATE TRIGGER tags_counted AFTER INSERT OR DELETE ON tags FOR EACH ROW EXECUTE FUNCTION count_tags();

-- Guesses which memories a walk comes to, in its order, so that their links can be fetched in one
-- round trip. It takes the namespace, the key where the walk begins, the walk's three limits, and how
-- many links of each memory to look at; it returns keys. The walk itself, which is the same for every
-- store, decides. It asks for what was not guessed: links beyond the page, memories that it comes to
-- again on a shorter path, and what lies behind damaged links.
CREATE FUNCTION reached(place text, root text, deepest integer, breadth integer, total integer, page integer)
RETURNS text[] LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
DECLARE
    found text[] := ARRAY[root];
    depths integer[] := ARRAY[0];
    taken integer[] := ARRAY[0]; -- how many links of each were followed
    stack text[] := '{}'; -- targets that wait, the next one last
    sources integer[] := '{}'; -- for each target in the stack, the position of its source in found
    waiting integer := 0;
    here integer := 1;
    best text[];
BEGIN
    WHILE here < total LOOP
        IF depths[here] < deepest THEN
            best := ARRAY(
                SELECT target FROM links WHERE namespace = place AND source = found[here] AND rank >= 0
                ORDER BY rank DESC, weight DESC, target, type LIMIT page
            );
            FOR n IN REVERSE cardinality(best)..1 LOOP
                waiting := waiting + 1;
                stack[waiting] := best[n];
                sources[waiting] := here;
            END LOOP;
        END IF;
        WHILE waiting > 0 AND (taken[sources[waiting]] >= breadth OR stack[waiting] = ANY (found)) LOOP
            waiting := waiting - 1;
        END LOOP;
        EXIT WHEN waiting = 0;
        here := here + 1;
        found[here] := stack[waiting];
        depths[here] := depths[sources[waiting]] + 1;
        taken[here] := 0;
        taken[sources[waiting]] := taken[sources[waiting]] + 1;
        waiting := waiting - 1;
    END LOOP;
    RETURN found;
END $$;
