"""Whether an SQLite store is whole: every page, every hash, and everything that is derived from the memories."""

import sqlite3
from collections.abc import Callable
from typing import Any

from abilities.helpers.stores.integrity import INDEX_COLUMNS, IntegrityCheck, build_finding
from abilities.helpers.stores.model import Row
from abilities.helpers.stores.protocol import IntegrityFinding

_MEMORIES = f"""
SELECT {", ".join(f"m.{name}" for name in Row._fields)}, m.hash, {", ".join(f"s.{name}" for name in INDEX_COLUMNS)}
FROM memories AS m LEFT JOIN shelf AS s ON s.namespace = m.namespace AND s.id = m.id AND s.memory = m.rowid
"""
_LINKS = """
SELECT l.namespace, l.source, l.target, l.type, l.weight, l.rank, l.hash, m.archived, m.score
FROM links AS l LEFT JOIN memories AS m ON m.namespace = l.namespace AND m.key = l.target
"""
_TAGS = """
SELECT m.namespace, m.key, m.tags, (
    SELECT json_group_array(t.tag) FROM tags AS t
    WHERE t.namespace = m.namespace AND t.id = m.id AND t.archived = m.archived
) FROM memories AS m
"""
_TAGS_COUNTED = "SELECT namespace, archived, tag, count(*) FROM tags GROUP BY 1, 2, 3"
_TAGS_TOLD = "SELECT namespace, archived, value, number FROM counters WHERE name = 'tag'"
_COUNTERS = "SELECT namespace, name, archived, value, number FROM counters WHERE name <> 'tag' AND number <> 0"
_UNFINDABLE = "SELECT namespace, key FROM memories WHERE rowid NOT IN (SELECT id FROM search_docsize) LIMIT 100"


def check(
    connection: sqlite3.Connection, progress: Callable[[int], None]
) -> list[IntegrityFinding]:
    """What was found in a snapshot, in a fixed order; the file first, because damage there explains the rest."""
    file = _file(connection)
    try:
        return [file, *_examined(connection, progress)]
    except (sqlite3.Error, UnicodeDecodeError) as error:
        return [
            file,
            IntegrityFinding(
                "store", "damaged", 1, f"The store cannot be read to its end: {error}"
            ),
        ]


def _file(connection: sqlite3.Connection) -> IntegrityFinding:
    try:
        told = [text for (text,) in connection.execute("PRAGMA integrity_check(20)")]
    except sqlite3.Error as error:
        told = [str(error)]
    wrong = [text for text in told if text != "ok"]
    return build_finding(
        "file", wrong, "The database file is whole.", "places in the database file are damaged"
    )


def _examined(
    connection: sqlite3.Connection, progress: Callable[[int], None]
) -> list[IntegrityFinding]:
    examination = IntegrityCheck(progress)
    for raw in connection.execute(_MEMORIES):
        examination.add_memory(raw)
    examination.add_index_rows(connection.execute("SELECT count(*) FROM shelf").fetchone()[0])
    for raw in connection.execute(_LINKS):
        examination.add_link(raw)
    for tagged in connection.execute(_TAGS):
        examination.compare_tags(*tagged)
    for one, other in ((_TAGS_COUNTED, _TAGS_TOLD), (_TAGS_TOLD, _TAGS_COUNTED)):
        for namespace, _, tag, _ in connection.execute(f"{one} EXCEPT {other}"):
            examination.add_miscounted_tag(namespace, tag)
    for unfindable in connection.execute(_UNFINDABLE):
        examination.add_unfindable(*unfindable)
    told: dict[Any, int] = {tuple(name): number for *name, number in connection.execute(_COUNTERS)}
    return examination.report(told)


def check_words(connection: sqlite3.Connection) -> IntegrityFinding:
    """The full-text tables from within; SQLite takes this for a write, so that writers wait for it."""
    wrong = list[str]()
    for table in ("search", "search_short"):
        try:
            connection.execute(f"INSERT INTO {table} ({table}) VALUES ('integrity-check')")
        except sqlite3.Error as error:
            wrong.append(f"{table}: {error}")
    return build_finding(
        "index", wrong, "The search index is whole.", "tables of the search index are damaged"
    )
