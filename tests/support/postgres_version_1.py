"""Databases of version 1, as the releases before version 2 of the schema wrote them."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import orjson
import psycopg

from abilities.helpers.stores.model import IMPORTANCES, LinkRow, Row, StoredMemory, hash_values

SCHEMA = Path(__file__).with_suffix(".sql")
NAMESPACES = ("a", "b")


def make_memories(count: int) -> list[StoredMemory]:
    """Return memories in two namespaces, by namespace and key, with links of every kind."""
    memories: list[StoredMemory] = []
    for namespace in NAMESPACES:
        keys = sorted(f"k/{number}" for number in range(count))
        for number, key in enumerate(keys):
            memories.append(_make_memory(namespace, key, number, count))

    return memories


def _make_memory(namespace: str, key: str, number: int, count: int) -> StoredMemory:
    tags = ["t", f"t{number % 7}"][: number % 3]
    row = Row(
        namespace=namespace,
        key=key,
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

    # To itself and to missing keys too.
    targets = sorted({f"k/{(number * step) % (count + 5)}" for step in range(1, 6)} | {key})
    links = tuple(
        LinkRow(key, target, f"t{n % 2}", (number + n) % 10 / 10)
        for n, target in enumerate(targets)
    )
    return StoredMemory(
        row,
        links=links,
        links_total=len(links),
        accessed_at=f"2026-01-03T00:00:{number % 50:02}.000Z",
        access_count=number % 4,
    )


def build(url: str, memories: Sequence[StoredMemory]) -> None:
    """Make an empty database a store of version 1."""
    scores = {
        (memory.row.namespace, memory.row.key): memory.row.score
        for memory in memories
        if not memory.row.archived
    }

    with psycopg.connect(url) as connection:
        connection.execute("CREATE SCHEMA abilities")
        connection.execute("SET search_path = abilities, public")
        connection.execute("CREATE TABLE version (number integer PRIMARY KEY)")
        connection.execute("INSERT INTO version VALUES (1)")
        connection.execute(SCHEMA.read_bytes())

        _copy(connection, "memories", (_hash(memory.row[:-2]) for memory in memories))
        _copy(
            connection,
            "links",
            (
                (
                    memory.row.namespace,
                    *_rank(link, scores.get((memory.row.namespace, link.target))),
                )
                for memory in memories
                for link in memory.links
            ),
        )
        _copy(connection, "shelf", map(_index, memories))
        _copy(
            connection,
            "tags",
            (
                (row.namespace, tag, row.archived, memory.accessed_at, row.id)
                for memory in memories
                for row in [memory.row]
                for tag in orjson.loads(row.tags)
            ),
        )
        _copy(
            connection,
            "words",
            ((m.row.namespace, m.row.id, m.row.content.casefold()) for m in memories),
        )


def _hash(values: Sequence[Any]) -> tuple[Any, ...]:
    return (*values, hash_values(values))


def _rank(link: LinkRow, score: float | None) -> tuple[Any, ...]:
    rank = -1.0
    if score is not None:
        rank = link.weight * score

    return _hash((link.source, link.target, link.type, link.weight, rank))


def _index(memory: StoredMemory) -> tuple[Any, ...]:
    row = memory.row
    return (
        row.namespace,
        row.id,
        row.key,
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


def _copy(connection: psycopg.Connection[Any], table: str, rows: Iterable[tuple[Any, ...]]) -> None:
    with connection.cursor().copy(f"COPY {table} FROM STDIN".encode()) as copy:
        for row in rows:
            copy.write_row(row)
