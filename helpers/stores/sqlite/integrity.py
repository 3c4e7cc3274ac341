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

_MEMORY_COLUMNS = ", ".join(f"m.{name}" for name in (*Row._fields, "hash"))
_SHELF_COLUMNS = ", ".join(f"s.{name}" for name in INDEX_COLUMNS)
_LINK_COLUMNS = ", ".join(f"l.{name}" for name in LinkRecord._fields)

_MEMORIES = f"""
SELECT {_MEMORY_COLUMNS}, {_SHELF_COLUMNS}
FROM memories AS m
LEFT JOIN shelf AS s ON s.namespace = m.namespace AND s.id = m.id AND s.memory = m.rowid
"""
_LINKS = f"""
SELECT l.namespace, {_LINK_COLUMNS}, m.archived, m.score
FROM links AS l
LEFT JOIN memories AS m ON m.namespace = l.namespace AND m.key = l.target
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
SELECT {", ".join(Counted._fields)}, number FROM counters WHERE name <> 'tag' AND number <> 0
"""
_UNFINDABLE = """
SELECT namespace, key FROM memories WHERE rowid NOT IN (SELECT id FROM search_docsize) LIMIT 100
"""


def check_store(
    connection: sqlite3.Connection, progress: Callable[[int], None]
) -> list[IntegrityFinding]:
    """Check a snapshot and return the findings in a fixed order.

    The file comes first, because damage to it explains the rest.
    """
    file = _check_file(connection)
    try:
        return [file, *_check_rows(connection, progress)]
    except (sqlite3.Error, UnicodeDecodeError) as error:
        words = f"The store cannot be read to its end: {error}"
        return [file, IntegrityFinding("store", "damaged", 1, words)]


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

    for namespace, key, tags, indexed in connection.execute(_TAGS):
        check.compare_tags(namespace, key, tags, indexed)

    for statement in _MISCOUNTED_TAGS:
        for namespace, _, tag, _ in connection.execute(statement):
            check.add_miscounted_tag(namespace, tag)

    for namespace, key in connection.execute(_UNFINDABLE):
        check.add_unfindable(namespace, key)

    counters: dict[Counted, int] = {}
    for *name, number in connection.execute(_COUNTERS):
        counters[Counted._make(name)] = number

    return check.report(counters)


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
