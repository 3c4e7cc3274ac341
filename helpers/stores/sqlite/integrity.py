"""The integrity check of an SQLite store: its pages, its hashes, and all that is derived."""

import sqlite3
from collections.abc import Callable

from abilities.helpers.stores.integrity import (
    INDEX_COLUMNS,
    Counted,
    IntegrityCheck,
    build_finding,
)
from abilities.helpers.stores.model import LinkRecord, Row
from abilities.helpers.stores.protocol import IntegrityFinding
from abilities.helpers.stores.ranking import ARE_STALE, StaleMark
from abilities.helpers.stores.sqlite import schema
from abilities.helpers.stores.sqlite.history_check import check_history
from abilities.helpers.stores.sqlite.recall_check import compare_recall_index
from abilities.helpers.stores.sqlite.search import compare_index

_MEMORY_COLUMNS = ", ".join(f"m.{name}" for name in (*Row._fields, "hash"))
_SHELF_COLUMNS = ", ".join(f"s.{name}" for name in INDEX_COLUMNS)
_LINK_COLUMNS = ", ".join(f"l.{name}" for name in LinkRecord._fields)

_MEMORIES = f"""
SELECT {_MEMORY_COLUMNS}, {_SHELF_COLUMNS}
FROM memories AS m
LEFT JOIN shelf AS s ON s.namespace = m.namespace AND s.id = m.id AND s.memory = m.rowid
"""
_LINKS = f"""
SELECT l.namespace, {_LINK_COLUMNS}, t.archived, t.score, s.archived, s.score, {ARE_STALE}
FROM links AS l
LEFT JOIN memories AS t ON t.namespace = l.namespace AND t.key = l.target
LEFT JOIN memories AS s ON s.namespace = l.namespace AND s.key = l.source
"""
_MARKS = f"SELECT namespace, {', '.join(StaleMark._fields)} FROM stale_ranks"
_MISCOUNTED_LINKS = """
WITH actual AS (
    SELECT namespace, key, (
        SELECT count(*) FROM links WHERE namespace = c.namespace AND source = c.key
    ) AS outgoing, (
        SELECT count(*) FROM links WHERE namespace = c.namespace AND target = c.key
    ) AS incoming FROM link_counts AS c
)
SELECT namespace, key FROM actual JOIN link_counts AS counted USING (namespace, key)
WHERE (actual.outgoing, actual.incoming) <> (counted.outgoing, counted.incoming)
"""
_UNCOUNTED_LINKS = """
SELECT DISTINCT namespace, source FROM links
WHERE NOT EXISTS (SELECT 1 FROM link_counts WHERE namespace = links.namespace AND key = source)
UNION ALL
SELECT DISTINCT namespace, target FROM links
WHERE NOT EXISTS (SELECT 1 FROM link_counts WHERE namespace = links.namespace AND key = target)
"""
_REPEATED_VERSIONS = """
SELECT namespace, version FROM memories WHERE version > 0
GROUP BY namespace, version HAVING count(*) > 1
"""
_TAGS = """
SELECT m.namespace, m.key, m.tags, (
    SELECT json_group_array(t.tag) FROM tags AS t
    WHERE t.namespace = m.namespace AND t.id = m.id AND t.archived = m.archived
) FROM memories AS m
"""
_ACTUAL_TAG_COUNTS = "SELECT namespace, archived, tag, count(*) FROM tags GROUP BY 1, 2, 3"
_STORED_TAG_COUNTS = "SELECT namespace, archived, value, number FROM counters WHERE name = 'tag'"
_MISCOUNTED_TAGS = (
    f"{_ACTUAL_TAG_COUNTS} EXCEPT {_STORED_TAG_COUNTS}",
    f"{_STORED_TAG_COUNTS} EXCEPT {_ACTUAL_TAG_COUNTS}",
)
_COUNTERS = f"""
SELECT {", ".join(Counted._fields)}, number FROM counters
WHERE name <> 'tag' AND number <> 0
"""
_UNFINDABLE = """
SELECT namespace, key FROM memories WHERE rowid NOT IN (SELECT id FROM search_docsize) LIMIT 100
"""


def check_store(
    connection: sqlite3.Connection, progress: Callable[[int], None]
) -> list[IntegrityFinding]:
    """Check a snapshot and return the findings in a fixed order.

    After the version comes the file, because damage to it explains the rest. The rows of a store
    that is not migrated yet are not checked.
    """
    version = _describe_version(connection)
    file = _check_file(connection)
    if version.state != "sound":
        return [version, file]

    try:
        return [version, file, *_check_rows(connection, progress)]
    except (sqlite3.Error, UnicodeDecodeError) as error:
        words = f"The store cannot be read to its end: {error}"
        return [version, file, IntegrityFinding("store", "damaged", 1, words)]


def _describe_version(connection: sqlite3.Connection) -> IntegrityFinding:
    """Report the version, and a note if the store is not migrated yet, or not completely."""
    version = schema.read_version(connection)

    if schema.is_migrating(connection):
        words = f"The migration to version {version} is unfinished; the next opening resumes it."
        return IntegrityFinding("version", "note", 1, words)
    if version < schema.VERSION:
        words = f"The schema version is {version}; the next opening migrates it."
        return IntegrityFinding("version", "note", 1, words)

    words = f"The schema version is {version}, the current one."
    return IntegrityFinding("version", "sound", 0, words)


def _check_file(connection: sqlite3.Connection) -> IntegrityFinding:
    """Let SQLite check the pages of the file."""
    try:
        messages = [text for (text,) in connection.execute("PRAGMA integrity_check(20)")]
    except sqlite3.Error as error:
        messages = [str(error)]

    damage = [message for message in messages if message != "ok"]
    return build_finding(
        "file", damage, "The database file is intact.", "Errors in the database file"
    )


def _check_rows(
    connection: sqlite3.Connection, progress: Callable[[int], None]
) -> list[IntegrityFinding]:
    """Feed every row to an `IntegrityCheck`."""
    check = IntegrityCheck(progress)

    for columns in connection.execute(_MEMORIES):
        check.add_memory(columns)

    (index_rows,) = connection.execute("SELECT count(*) FROM shelf").fetchone()
    check.add_index_rows(index_rows)

    for columns in connection.execute(_LINKS):
        check.add_link(columns)

    for namespace, *columns in connection.execute(_MARKS):
        check.add_mark(namespace, StaleMark._make(columns))

    for namespace, key, tags, indexed in connection.execute(_TAGS):
        check.compare_tags(namespace, key, tags, indexed)

    for statement in _MISCOUNTED_TAGS:
        for namespace, _, tag, _ in connection.execute(statement):
            check.add_miscounted_tag(namespace, tag)

    for statement in (_MISCOUNTED_LINKS, _UNCOUNTED_LINKS):
        for namespace, key in connection.execute(statement):
            check.add_miscounted_links(namespace, key)

    for namespace, version in connection.execute(_REPEATED_VERSIONS):
        check.add_repeated_version(namespace, version)

    for namespace, key in connection.execute(_UNFINDABLE):
        check.add_unfindable(namespace, key)

    for table in (*compare_index(connection), *compare_recall_index(connection)):
        check.add_wrong_index(table)

    counters: dict[Counted, int] = {}
    for *name, number in connection.execute(_COUNTERS):
        counters[Counted._make(name)] = number

    versions = dict(connection.execute("SELECT namespace, number FROM versions").fetchall())
    return [*check.report(counters, versions), check_history(connection)]


def check_search_index(connection: sqlite3.Connection) -> IntegrityFinding:
    """Let SQLite check the inside of the full-text tables.

    SQLite takes this for a write, so that writers wait until it is done.
    """
    damage: list[str] = []
    for table in ("search", "search_short"):
        try:
            connection.execute(f"INSERT INTO {table} ({table}) VALUES ('integrity-check')")
        except sqlite3.Error as error:
            damage.append(f"{table}: {error}")

    return build_finding(
        "index", damage, "The search index is intact.", "Errors in the search index"
    )
