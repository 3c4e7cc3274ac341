-- Counts the links that were copied, and keeps counting.

INSERT INTO link_counts
    SELECT namespace, key, sum(outgoing), sum(incoming) FROM (
        SELECT namespace, source AS key, 1 AS outgoing, 0 AS incoming FROM links
        UNION ALL SELECT namespace, target, 0, 1 FROM links
    ) AS ends GROUP BY namespace, key;

CREATE FUNCTION count_links() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    one integer := CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END;
BEGIN
    INSERT INTO link_counts AS c
        SELECT namespace, key, sum(outgoing), sum(incoming) FROM (
            SELECT namespace, source AS key, one AS outgoing, 0 AS incoming FROM changed
            UNION ALL SELECT namespace, target, 0, one FROM changed
        ) AS ends GROUP BY namespace, key
    ON CONFLICT (namespace, key) DO UPDATE
        SET outgoing = c.outgoing + excluded.outgoing, incoming = c.incoming + excluded.incoming;
    IF TG_OP = 'DELETE' THEN
        DELETE FROM link_counts AS c USING (
            SELECT namespace, source AS key FROM changed UNION SELECT namespace, target FROM changed
        ) AS ends
        WHERE c.namespace = ends.namespace AND c.key = ends.key AND c.outgoing = 0 AND c.incoming = 0;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER links_inserted AFTER INSERT ON links REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION count_links();
CREATE TRIGGER links_deleted AFTER DELETE ON links REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION count_links();
