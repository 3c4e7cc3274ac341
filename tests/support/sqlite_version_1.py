"""Stores of version 1 in SQLite, as the releases before version 2 of the schema wrote them."""

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import orjson

from abilities.helpers.stores.model import IMPORTANCES, LinkRow, Row, StoredMemory, hash_values
from abilities.helpers.stores.sqlite.schema import APPLICATION_ID
from abilities.helpers.stores.sqlite.search import add_text

SCHEMA = Path(__file__).with_suffix(".sql")
NAMESPACES = ("a", "b")
Values = tuple[object, ...]


def make_memories(count: int) -> list[StoredMemory]:
    """Return memories, in turn of two namespaces, with links of every kind."""
    memories: list[StoredMemory] = []
    for number in range(count):
        namespace = NAMESPACES[number % 2]
        memories.append(_make_memory(namespace, number, count))

    return memories


def _make_memory(namespace: str, number: int, count: int) -> StoredMemory:
    tags = ["t", f"t{number % 7}"][: number % 3]
    row = Row(
        namespace=namespace,
        key=f"k/{number:06}",
        id=f"{namespace}-{number:08}",
        archived=int(number % 11 == 5),
        score=(number * 37 % 101) / 100,
        scored=1,
        type=("core", "learning", "task")[number % 3],
        importance=IMPORTANCES[number % 3],
        category=f"c{number % 5}",
        created_at=f"2026-01-01T00:00:{number % 60:02}.000Z",
        updated_at="2026-01-02T00:00:00.000Z",
        tags=orjson.dumps(tags).decode(),
        summary="s" * (number % 4),
        metadata='{"n":1}',
        content=f"Größe {number} 世界",
    )

    return StoredMemory(
        row,
        links=tuple(sorted(_make_links(row.key, number, count))),
        accessed_at=f"2026-01-03T00:00:{number % 50:02}.000Z",
        access_count=number % 4,
    )


def _make_links(key: str, number: int, count: int) -> Iterator[LinkRow]:
    """Yield links to itself, to other memories, to missing ones, and two of one target."""
    yield LinkRow(key, key, "association", 0.25)
    yield LinkRow(key, "k/000000", "hub", (number * 7 % 101) / 100)
    yield LinkRow(key, "k/000000", "other", 1.0)

    for step in (3, 7, 11):
        # Every second step leads into the other namespace's numbers, and so to a missing key.
        target = f"k/{(number * step + step - 1) % (count + 5):06}"
        yield LinkRow(key, target, f"t{step}", (number + step) % 10 / 10)

    if number == 0:
        for other in range(1, count):
            yield LinkRow(key, f"k/{other:06}", "of a hub", (other * 13 % 101) / 100)


def build(path: Path, memories: Sequence[StoredMemory]) -> None:
    """Make a store of version 1."""
    scores: dict[tuple[str, str], float] = {}
    for memory in memories:
        if not memory.row.archived:
            scores[memory.row.namespace, memory.row.key] = memory.row.score

    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute("PRAGMA user_version = 1")
    connection.executescript(SCHEMA.read_text(encoding="utf-8"))

    connection.execute("BEGIN")
    for number, memory in enumerate(memories, 1):
        _insert(connection, "memories", hash_row(memory.row))
        _insert(connection, "shelf", _index(memory, number))
        for link in memory.links:
            score = scores.get((memory.row.namespace, link.target))
            _insert(connection, "links", (memory.row.namespace, *rank_link(link, score)))
        for tag in orjson.loads(memory.row.tags):
            row = memory.row
            _insert(
                connection, "tags", (row.namespace, tag, row.archived, memory.accessed_at, row.id)
            )
        add_text(connection, number, memory.row.content.casefold())

    connection.execute("COMMIT")
    connection.close()


def hash_row(row: Row) -> Values:
    """Return the columns of a memory in version 1."""
    values = row[:-2]  # without the version and the end
    return (*values, hash_values(values))


def rank_link(link: LinkRow, score: float | None) -> Values:
    """Return the columns of a link in version 1, without its namespace."""
    rank = -1.0
    if score is not None:
        rank = link.weight * score

    link_hash = hash_values((link.source, link.target, link.type, link.weight, rank))
    return (link.source, rank, link.weight, link.target, link.type, link_hash)


def _index(memory: StoredMemory, number: int) -> Values:
    row = memory.row
    return (
        row.namespace,
        row.id,
        number,
        row.type,
        row.category,
        IMPORTANCES.index(row.importance),
        row.archived,
        len(row.content.encode()) + len(row.summary.encode()),
        row.created_at,
        row.updated_at,
        memory.accessed_at,
        memory.access_count,
    )


def _insert(connection: sqlite3.Connection, table: str, values: Values) -> None:
    places = ", ".join("?" * len(values))
    connection.execute(f"INSERT INTO {table} VALUES ({places})", values)
