-- Begins the migration to version 2: moves the data of version 1 to where its processes, which do
-- not check the version in each transaction, do not find it, and creates the new tables. They have
-- no indexes but their keys until the data is there. All of schema.sql as it was at version 2 is
-- here and in to_2_count.sql.

-- In one statement, so that whoever waits for the locks waits for all. Transactions of version 1
-- that have begun end first; any later statement finds no tables.
LOCK TABLE abilities.version, abilities.memories, abilities.links, abilities.shelf, abilities.tags,
    abilities.words, abilities.counters IN ACCESS EXCLUSIVE MODE;

CREATE SCHEMA abilities_data;
CREATE SCHEMA abilities_1;
ALTER TABLE abilities.memories SET SCHEMA abilities_1;
ALTER TABLE abilities.links SET SCHEMA abilities_1;
ALTER TABLE abilities.shelf SET SCHEMA abilities_data;
ALTER TABLE abilities.tags SET SCHEMA abilities_data;
ALTER TABLE abilities.words SET SCHEMA abilities_data;
ALTER TABLE abilities.counters SET SCHEMA abilities_data;
ALTER FUNCTION abilities.count_shelf() SET SCHEMA abilities_data;
ALTER FUNCTION abilities.count_tags() SET SCHEMA abilities_data;
ALTER FUNCTION abilities_data.count_shelf() SET search_path = abilities_data, public;
ALTER FUNCTION abilities_data.count_tags() SET search_path = abilities_data, public;
DROP FUNCTION abilities.reached(text, text, integer, integer, integer, integer);

CREATE FUNCTION abilities.expect_version(expected integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT max(number) FROM abilities.version) IS DISTINCT FROM expected THEN
        RAISE EXCEPTION 'the store has another version' USING ERRCODE = 'AB001';
    END IF;
END $$;

SET LOCAL search_path = abilities_data, public;

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
    PRIMARY KEY (namespace, key)
);

CREATE TABLE versions (
    namespace text COLLATE "C" PRIMARY KEY,
    number bigint NOT NULL
) WITH (fillfactor = 50);

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

CREATE TABLE link_counts (
    namespace text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    outgoing bigint NOT NULL,
    incoming bigint NOT NULL,
    PRIMARY KEY (namespace, key)
) WITH (fillfactor = 80);

CREATE FUNCTION reached(place text, root text, deepest integer, breadth integer, total integer, page integer)
RETURNS text[] LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
DECLARE
    found text[] := ARRAY[root];
    met integer[] := ARRAY[0]; -- the least depth at which each was met
    firsts integer[] := '{}'; -- where in chosen the choice of each begins, null before it is taken
    lasts integer[] := '{}';
    chosen text[] := '{}'; -- the choices, one after another
    count integer := 0; -- how many there are in chosen
    stack integer[] := ARRAY[1]; -- the way to here, as positions in found
    waiting integer[] := ARRAY[NULL::integer]; -- which of its choice each on the way takes next
    depth integer := 0; -- of the last one on the way
    here integer := 1;
    there integer;
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
                EXIT WHEN count + 1 - firsts[here] = breadth;
                IF target <> found[here] AND NOT target = ANY (chosen[firsts[here]:count]) THEN
                    count := count + 1;
                    chosen[count] := target;
                END IF;
            END LOOP;
            lasts[here] := count;
        END IF;
        waiting[depth + 1] := coalesce(waiting[depth + 1], firsts[here]);
        IF depth = deepest OR waiting[depth + 1] > lasts[here] THEN
            EXIT WHEN depth = 0;
            depth := depth - 1;
            here := stack[depth + 1];
            CONTINUE;
        END IF;
        target := chosen[waiting[depth + 1]];
        waiting[depth + 1] := waiting[depth + 1] + 1;
        there := array_position(found, target);
        IF there IS NULL THEN
            EXIT WHEN cardinality(found) = total;
            there := cardinality(found) + 1;
            found[there] := target;
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
