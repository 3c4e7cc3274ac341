"""Version 2: versions of memories, terms of links, ranks as integers at both ends, counted links.

A memory or link whose hash is wrong is damaged. It keeps its hash and so stays damaged, and the
migration goes on.
"""

import sqlite3
from collections.abc import Callable
from typing import Any, NamedTuple

from abilities.helpers.stores.migration import Block, Position
from abilities.helpers.stores.model import hash_values, is_fraction
from abilities.helpers.stores.sqlite.migrations.stages import SqliteMigration, SqliteStage

BLOCK_ROWS = 4_000
"""Memories, links or keys in a block; a block takes a fraction of a second."""

_RANK_ONE = 1_000_000

_MEMORY_COLUMNS = (
    "namespace, key, id, archived, score, scored, type, importance, category, created_at,"
    " updated_at, tags, summary, metadata, content"
)

_BEGIN = (
    "ALTER TABLE memories ADD COLUMN version INTEGER NOT NULL DEFAULT 0",
    """
CREATE TABLE versions (
    namespace TEXT NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (namespace)
) STRICT, WITHOUT ROWID
    """,
    "ALTER TABLE links RENAME TO links_1",
    """
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
) STRICT, WITHOUT ROWID
    """,
    "CREATE UNIQUE INDEX links_name ON links (namespace, source, target, type)",
    """
CREATE TABLE link_counts (
    namespace TEXT NOT NULL,
    key TEXT NOT NULL,
    outgoing INTEGER NOT NULL DEFAULT 0,
    incoming INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (namespace, key)
) STRICT, WITHOUT ROWID
    """,
)

_INDEX_INCOMING = (
    "CREATE INDEX links_incoming"
    " ON links (namespace, target, back_rank DESC, weight DESC, source, type)"
)

_FINISH = (
    """
CREATE TRIGGER links_added AFTER INSERT ON links BEGIN
    INSERT INTO link_counts VALUES (new.namespace, new.source, 1, 0)
    ON CONFLICT DO UPDATE SET outgoing = outgoing + 1;
    INSERT INTO link_counts VALUES (new.namespace, new.target, 0, 1)
    ON CONFLICT DO UPDATE SET incoming = incoming + 1;
END
    """,
    """
CREATE TRIGGER links_gone AFTER DELETE ON links BEGIN
    UPDATE link_counts SET outgoing = outgoing - 1
        WHERE namespace = old.namespace AND key = old.source;
    UPDATE link_counts SET incoming = incoming - 1
        WHERE namespace = old.namespace AND key = old.target;
    DELETE FROM link_counts
        WHERE namespace = old.namespace AND key IN (old.source, old.target)
        AND outgoing = 0 AND incoming = 0;
END
    """,
    "DROP TABLE links_1",
)

# Texts are passed as their bytes, because those of a damaged row need not be UTF-8.
# With the plus, SQLite compares both values of a row with its index, else only the first.
_TEXT = "+CAST(? AS TEXT)"
_OLD_LINKS = f"""
SELECT l.namespace, l.source, l.rank, l.weight, l.target, l.type, l.hash, m.archived, m.score
FROM links_1 AS l LEFT JOIN memories AS m ON m.namespace = l.namespace AND m.key = l.source
WHERE (l.namespace, l.source) >= ({_TEXT}, {_TEXT})
ORDER BY l.namespace, l.source, l.rank DESC, l.weight DESC, l.target, l.type
LIMIT ? OFFSET ?
"""
_INSERT_LINK = (
    "INSERT INTO links (namespace, source, rank, weight, target, type, term, back_rank, hash)"
    f" VALUES ({_TEXT}, {_TEXT}, ?, ?, {_TEXT}, {_TEXT}, '', ?, ?)"
)


def _begin(connection: sqlite3.Connection) -> None:
    for statement in _BEGIN:
        connection.execute(statement)


def _count(table: str) -> Callable[[sqlite3.Connection], int]:
    def count_rows(connection: sqlite3.Connection) -> int:
        (number,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        return int(number)

    return count_rows


def _give_versions(connection: sqlite3.Connection, position: Position) -> Block:
    """Give memories a version each, in the order in which they were created."""
    (memory,) = position or (0,)
    last_versions = _LastVersions(connection)
    updates: list[tuple[int, int, int]] = []
    rows = 0

    cursor = connection.execute(
        f"SELECT rowid, hash, namespace, {_MEMORY_COLUMNS} FROM memories"
        " WHERE rowid > ? ORDER BY rowid LIMIT ?",
        (memory, BLOCK_ROWS),
    )
    for memory, stored_hash, namespace, *columns in cursor:
        rows += 1
        if _hash_or_none(columns) == stored_hash:
            version = last_versions.take_next(namespace)
            updates.append((version, hash_values((*columns, version)), memory))

    connection.executemany("UPDATE memories SET version = ?, hash = ? WHERE rowid = ?", updates)
    last_versions.save()

    next_position = (memory,) if rows == BLOCK_ROWS else None
    return Block(rows, next_position)


class _LastVersions:
    """The last version of each namespace, while a block gives further ones."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._numbers: dict[str, int] = {}

    def take_next(self, namespace: str) -> int:
        """Return the next version of a namespace."""
        if namespace not in self._numbers:
            row = self._connection.execute(
                "SELECT number FROM versions WHERE namespace = ?", (namespace,)
            ).fetchone()
            (self._numbers[namespace],) = row or (0,)

        self._numbers[namespace] += 1
        return self._numbers[namespace]

    def save(self) -> None:
        """Write the last versions."""
        self._connection.executemany(
            "INSERT INTO versions VALUES (?, ?) ON CONFLICT DO UPDATE SET number = excluded.number",
            list(self._numbers.items()),
        )


def _move_links(connection: sqlite3.Connection, position: Position) -> Block:
    """Copy links to their new table, with their ranks at both ends.

    The position is a namespace, a source and how many links of that source are done.
    """
    namespace, source, skipped = position or ("", "", 0)
    rows = connection.execute(
        _OLD_LINKS, (_encode(namespace), _encode(source), BLOCK_ROWS, skipped)
    ).fetchall()

    connection.executemany(_INSERT_LINK, map(_convert_link, rows))
    if len(rows) < BLOCK_ROWS:
        return Block(len(rows), None)

    last_namespace, last_source, *_ = rows[-1]
    last_name = (last_namespace, last_source)
    done = sum(row[:2] == last_name for row in rows)
    if last_name == (namespace, source):
        done += int(skipped)

    return Block(len(rows), (last_namespace, last_source, done))


class _Version1Link(NamedTuple):
    """A link of version 1, and the archived state and score of its source."""

    namespace: str
    source: str
    rank: float
    weight: float
    target: str
    type: str
    hash: int
    archived: int | None
    score: float | None

    @property
    def is_sound(self) -> bool:
        """Whether the link is as it was written and its weight is possible."""
        values = (self.source, self.target, self.type, self.weight, self.rank)
        return _hash_or_none(values) == self.hash and is_fraction(self.weight)


def _convert_link(row: tuple[Any, ...]) -> tuple[object, ...]:
    """Return the values of a link as version 2 keeps it."""
    link = _Version1Link._make(row)
    rank = back_rank = -1
    new_hash = link.hash

    if link.is_sound:
        rank = _convert_rank(link)
        back_rank = _compute_back_rank(link)
        new_hash = hash_values(
            (link.source, link.target, link.type, link.weight, "", rank, back_rank)
        )

    return (
        _encode(link.namespace),
        _encode(link.source),
        rank,
        link.weight,
        _encode(link.target),
        _encode(link.type),
        back_rank,
        new_hash,
    )


def _convert_rank(link: _Version1Link) -> int:
    # The hash covers the old rank, weight times score, so the target need not be read.
    if link.rank < 0:
        return -1

    return int(link.rank * _RANK_ONE + 0.5)


def _compute_back_rank(link: _Version1Link) -> int:
    if link.archived != 0 or link.score is None or not is_fraction(link.score):
        return -1

    return int(link.weight * link.score * _RANK_ONE + 0.5)


def _index_incoming(connection: sqlite3.Connection, position: Position) -> Block:
    connection.execute(_INDEX_INCOMING)
    return Block(1, None)


def format_counting(name: str) -> str:
    """Return the statement that counts links by their ``name``, "source" or "target"."""
    return (
        f"SELECT namespace, {name}, count(*) FROM links"
        f" WHERE (namespace, {name}) > ({_TEXT}, {_TEXT})"
        f" GROUP BY namespace, {name} ORDER BY namespace, {name} LIMIT ?"
    )


def _count_links(name: str, counter: str) -> Callable[[sqlite3.Connection, Position], Block]:
    """Return a stage's function that counts the links by their ``name``, "source" or "target"."""
    select = format_counting(name)
    save = (
        f"INSERT INTO link_counts (namespace, key, {counter}) VALUES ({_TEXT}, {_TEXT}, ?)"
        f" ON CONFLICT DO UPDATE SET {counter} = excluded.{counter}"
    )

    def run_block(connection: sqlite3.Connection, position: Position) -> Block:
        namespace, key = position or ("", "")
        values = (_encode(namespace), _encode(key), BLOCK_ROWS)
        groups = connection.execute(select, values).fetchall()
        rows = 0

        for namespace, key, number in groups:
            connection.execute(save, (_encode(namespace), _encode(key), number))
            rows += number

        if len(groups) < BLOCK_ROWS:
            return Block(rows, None)

        return Block(rows, (namespace, key))

    return run_block


def _finish(connection: sqlite3.Connection, position: Position) -> Block:
    for statement in _FINISH:
        connection.execute(statement)

    return Block(1, None)


def _hash_or_none(values: object) -> int | None:
    """Return the hash of values, or None if damage made one that has none."""
    try:
        return hash_values(values)  # type: ignore[arg-type]
    except TypeError:
        return None


def _encode(text: object) -> bytes:
    return str(text).encode(errors="surrogateescape")


MIGRATION = SqliteMigration(
    begin=_begin,
    stages=(
        SqliteStage("memories", _give_versions, _count("memories")),
        SqliteStage("links", _move_links, _count("links_1")),
        SqliteStage("the index of incoming links", _index_incoming),
        SqliteStage("outgoing links counted", _count_links("source", "outgoing"), _count("links")),
        SqliteStage("incoming links counted", _count_links("target", "incoming"), _count("links")),
        SqliteStage("the end", _finish),
    ),
)
