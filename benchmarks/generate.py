"""Generate a store of any size fast and always alike: the rows that the store writes, in bulk."""

import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import orjson

from abilities.helpers.store.engine import fold_searchable
from abilities.helpers.store.model import IMPORTANCES, TYPES, LinkRecord, LinkRow, Row, hash_row
from abilities.helpers.store.recall_index import change_terms
from abilities.helpers.store.saving import (
    INDEX_COLUMNS,
    Counted,
    build_index_row,
    count_indexed,
    list_tags,
)
from abilities.helpers.store.sqlite.connection import StoreConnection
from abilities.helpers.store.sqlite.file import StoreFile
from abilities.helpers.store.sqlite.search import add_text
from abilities.helpers.store.sqlite.transaction import run

LINKS = 5
"""Links of each memory but the hub."""

HUB = "hub"
HUB_LINKS = 10_000
POPULAR = 1
"""The number of the memory that a tenth of all link to."""

NAMESPACE = "default"

_SHELF = ("namespace", *INDEX_COLUMNS, "accessed_at", "access_count", "doc", "memory")
_COUNT_LINKS = """
INSERT INTO link_counts (namespace, key, outgoing, incoming)
SELECT namespace, key, sum(outgoing), sum(incoming) FROM (
    SELECT namespace, source AS key, 1 AS outgoing, 0 AS incoming FROM links
    UNION ALL SELECT namespace, target, 0, 1 FROM links
) GROUP BY namespace, key
"""
_WORDS = [f"word{n}" for n in range(2_000)]
_SCORES = (0.3, 0.6, 0.9)
_TIME = "2026-01-{:02}T{:02}:{:02}:{:02}.{:03}Z"


def prepare_store(base: Path, count: int) -> Path:
    """Return a store of ``count`` memories in the folder, or in the one that BENCH_STORES names.

    It is generated unless it is there: a million memories take minutes.
    """
    path = Path(os.environ.get("BENCH_STORES") or base) / f"{count}.db"
    if not path.exists():
        generate(path, count)

    return path


def generate(path: Path, count: int, seed: int = 1) -> None:
    """Make a store of ``count`` memories.

    The first one is a hub with 10,000 links, the others have five each, and a tenth of all link to
    the second one.
    """
    file = StoreFile(path)
    connection = file.open(writing=True)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA cache_size = -400000")
    connection.execute("BEGIN")

    rows = list(generate_rows(count, random.Random(seed)))
    insert_memories(connection, rows)
    insert_links(connection, rows, random.Random(seed + 1))

    connection.execute("COMMIT")
    connection.execute("ANALYZE")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    file.close()


def generate_rows(count: int, chance: random.Random) -> Iterator[Row]:
    """Yield memories with twenty words and two tags each."""
    for n in range(count):
        # The order of these calls decides what a seed gives.
        words = " ".join(chance.choices(_WORDS, k=20))
        middle = f"{n & 0xFFFF:04x}-4"
        name = f"{chance.getrandbits(32):08x}-{middle}{chance.getrandbits(12):03x}-8000-{n:012x}"
        tags = sorted({f"t{chance.randrange(50)}", f"t{chance.randrange(50)}"})
        memory_type = chance.choice(TYPES)
        importance = chance.choice(IMPORTANCES)
        score = chance.choice(_SCORES)
        created_at = _TIME.format(
            1 + n * 28 // count, n // 3600 % 24, n // 60 % 60, n % 60, n % 1000
        )

        yield Row(
            namespace=NAMESPACE,
            key=HUB if n == 0 else f"k{n:07}",
            id=name,
            archived=0,
            score=score,
            scored=1,
            type=memory_type,
            importance=importance,
            category="fact",
            created_at=created_at,
            updated_at=created_at,
            tags=orjson.dumps(tags).decode(),
            summary="",
            metadata="{}",
            content=f"memory {n} common {words}",
            version=n + 1,
        )


def insert_memories(connection: StoreConnection, rows: list[Row]) -> None:
    """Insert memories and everything that finds them; sorted, because appending is fast."""
    columns = (*Row._fields, "hash")
    connection.executemany(
        f"INSERT INTO memories ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})",
        ((*row, hash_row(row)) for row in rows),
    )
    connection.execute(
        "INSERT INTO versions (namespace, number) VALUES (?, ?)", (NAMESPACE, len(rows))
    )
    connection.executemany(
        f"INSERT INTO shelf ({', '.join(_SHELF)}) VALUES ({', '.join('?' * len(_SHELF))})",
        sorted(build_shelf_row(memory, row) for memory, row in enumerate(rows, 1)),
    )
    connection.executemany("INSERT INTO tags VALUES (?, ?, ?, ?, ?)", sorted(build_tag_rows(rows)))

    amounts: Counter[Counted] = Counter()
    for memory, row in enumerate(rows, 1):
        amounts.update(count_indexed(NAMESPACE, build_index_row(row)))
        amounts.update(Counted(NAMESPACE, "tag", 0, tag) for tag in list_tags(row))
        add_text(connection, memory, fold_searchable(row))
        run(connection, change_terms, None, row, memory - 1)

    connection.executemany(
        "INSERT INTO counters (namespace, name, archived, value, number) VALUES (?, ?, ?, ?, ?)",
        ((*counted, number) for counted, number in amounts.items()),
    )


def build_shelf_row(memory: int, row: Row) -> tuple[object, ...]:
    """Return what the store keeps of a memory to filter and sort by."""
    return (NAMESPACE, *build_index_row(row), row.created_at, 0, memory - 1, memory)


def build_tag_rows(rows: list[Row]) -> Iterator[tuple[object, ...]]:
    """Yield the rows that find memories by their tags."""
    for row in rows:
        for tag in list_tags(row):
            yield (NAMESPACE, tag, 0, row.created_at, row.id)


def insert_links(connection: StoreConnection, rows: list[Row], chance: random.Random) -> None:
    """Insert the links of all memories."""
    columns = ("namespace", *LinkRecord._fields)
    connection.executemany(
        f"INSERT INTO links ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})",
        ((NAMESPACE, *record) for record in generate_links(rows, chance)),
    )
    connection.execute(_COUNT_LINKS)


def generate_links(rows: list[Row], chance: random.Random) -> Iterator[LinkRecord]:
    """Yield the links of each memory in the order in which the store keeps them."""
    for n in range(len(rows)):
        wanted = min(HUB_LINKS, len(rows) - 1) if n == 0 else LINKS
        targets = {chance.randrange(len(rows)) for _ in range(wanted)} - {n}
        if n % 10 == 9:
            targets.add(POPULAR)

        links = build_links(rows, n, targets, chance)
        yield from sorted(links, key=lambda link: (-link.rank, -link.weight, link.target))


def build_links(
    rows: list[Row], n: int, targets: set[int], chance: random.Random
) -> Iterator[LinkRecord]:
    """Yield a memory's links."""
    source = rows[n]

    for target in sorted(targets):
        weight = 0.5 if n == 0 else chance.randrange(101) / 100
        link = LinkRow(source.key, rows[target].key, "association", weight)
        yield LinkRecord.build(link, rows[target].score, source.score)
