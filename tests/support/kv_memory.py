"""kv-memory databases for tests: the schemas of its versions, and memories with edge values."""

import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple

Version = Literal["1.2", "1.3", "1.8"]

_MEMORIES = """
CREATE TABLE memories (
    key TEXT PRIMARY KEY, summary TEXT NOT NULL, text TEXT NOT NULL, meta TEXT NOT NULL,
    {links} created_at INTEGER NOT NULL
);
CREATE INDEX idx_memories_created_at ON memories(created_at);
"""
_LINKS = """
CREATE TABLE memory_links (
    id INTEGER PRIMARY KEY AUTOINCREMENT, from_key TEXT NOT NULL, to_key TEXT NOT NULL,
    link_type TEXT DEFAULT 'association', {term} weight REAL DEFAULT 0.5,
    created_at INTEGER NOT NULL, access_count INTEGER DEFAULT 0, last_accessed_at INTEGER,
    UNIQUE(from_key, to_key, link_type),
    FOREIGN KEY (from_key) REFERENCES memories(key) ON DELETE CASCADE,
    FOREIGN KEY (to_key) REFERENCES memories(key) ON DELETE CASCADE
);
CREATE INDEX idx_memory_links_from_key ON memory_links(from_key);
CREATE INDEX idx_memory_links_to_key ON memory_links(to_key);
CREATE INDEX idx_memory_links_link_type ON memory_links(link_type);
"""
_REST = """
CREATE TABLE kv_cache (
    key TEXT PRIMARY KEY, value TEXT NOT NULL, created_at INTEGER NOT NULL, expires_at INTEGER
);
CREATE VIRTUAL TABLE memories_fts USING fts5(
    key, summary, text, content='memories', content_rowid='rowid'
);
CREATE TRIGGER memories_fts_insert AFTER INSERT ON memories BEGIN
    INSERT INTO memories_fts(rowid, key, summary, text)
    VALUES (new.rowid, new.key, new.summary, new.text);
END;
"""
_SCORE = "ALTER TABLE memories ADD COLUMN score INTEGER DEFAULT 50 CHECK (score BETWEEN 0 AND 100)"

MADE = 1_767_225_600_123
"""2026-01-01T00:00:00.123Z in milliseconds."""

READ = MADE + 86_400_000


class KvMemory(NamedTuple):
    """A memory of a test; ``meta`` is added to what kv-memory gives every memory."""

    key: str
    text: str = "text"
    summary: str = ""
    meta: dict[str, Any] = {}  # noqa: RUF012 - read only
    created_at: object = MADE


class KvLink(NamedTuple):
    """A link of a test, as a row of ``memory_links``."""

    source: str
    target: str
    type: str | None = "design"
    term: str = ""
    weight: object = 0.5


def build_meta(key: str, **fields: object) -> dict[str, Any]:
    """Return the meta object of a memory that was read twice; None leaves a field out."""
    meta = {
        "id": key,
        "created_at": MADE,
        "last_accessed_at": READ,
        "last_linked_at": MADE,
        "in_degree": 0,
        "out_degree": 0,
        "access_count": 2,
        "traverse_count": 1,
        "score": 50,
        "status": "active",
        **fields,
    }
    return {name: value for name, value in meta.items() if value is not None}


def create_database(path: Path, version: Version = "1.3") -> sqlite3.Connection:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")

    links, term = "", "term TEXT NOT NULL DEFAULT '',"
    if version == "1.2":
        links, term = "links TEXT NOT NULL DEFAULT '[]',", ""

    connection.executescript(_MEMORIES.format(links=links) + _LINKS.format(term=term) + _REST)
    if version == "1.8":
        connection.execute(_SCORE)
    return connection


def add_memories(connection: sqlite3.Connection, memories: Iterable[KvMemory]) -> None:
    rows = [
        (m.key, m.summary, m.text, json.dumps(build_meta(m.key, **m.meta)), m.created_at)
        for m in memories
    ]
    connection.executemany(
        "INSERT INTO memories (key, summary, text, meta, created_at) VALUES (?, ?, ?, ?, ?)", rows
    )


def add_links(connection: sqlite3.Connection, links: Iterable[KvLink]) -> None:
    connection.executemany(
        "INSERT INTO memory_links"
        " (from_key, to_key, link_type, term, weight, created_at, access_count)"
        " VALUES (?, ?, ?, ?, ?, ?, 3)",
        [(*link, MADE) for link in links],
    )


def write_database(path: Path, memories: Iterable[KvMemory], links: Iterable[KvLink] = ()) -> None:
    connection = create_database(path)
    add_memories(connection, memories)
    add_links(connection, links)
    connection.commit()
    connection.close()
