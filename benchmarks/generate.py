"""Make a store of any size, seeded, the fast way: the same rows that the store writes, in bulk."""

import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import orjson

from abilities.helpers.stores.model import IMPORTANCES, Row, hash_values
from abilities.helpers.stores.sqlite.file import StoreFile
from abilities.helpers.stores.sqlite.search import add_content

LINKS = 5
HUB = "hub"
HUB_LINKS = 10_000
NAMESPACE = "default"
_WORDS = [f"word{n}" for n in range(2_000)]
_TIME = "2026-01-{:02}T{:02}:{:02}:{:02}.{:03}Z"


def generate(path: Path, count: int, seed: int = 1) -> None:
    """Make a store of ``count`` memories: five links each, a hub with 10,000, one that a tenth of all link to."""
    file = StoreFile(path)
    connection = file.open(writing=True)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA cache_size = -400000")
    connection.execute("BEGIN")
    insert = f"INSERT INTO memories VALUES ({', '.join('?' * 16)})"
    rows = list(_rows(count, random.Random(seed)))
    connection.executemany(insert, ((*row, hash_values(row)) for row in rows))
    connection.executemany(
        f"INSERT INTO shelf VALUES ({', '.join('?' * 12)})",
        sorted(_shelf(memory, row) for memory, row in enumerate(rows, 1)),
    )
    tags = [
        (NAMESPACE, tag, 0, row.created_at, row.id)
        for row in rows
        for tag in orjson.loads(row.tags)
    ]
    connection.executemany("INSERT INTO tags VALUES (?, ?, ?, ?, ?)", sorted(tags))
    for memory, row in enumerate(rows, 1):
        add_content(connection, memory, row.content)
    _link(connection, rows, random.Random(seed + 1))
    connection.execute("COMMIT")
    connection.execute("ANALYZE")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    file.close()


def _rows(count: int, chance: random.Random) -> Iterator[Row]:
    for n in range(count):
        key = HUB if n == 0 else f"k{n:07}"
        words = " ".join(chance.choices(_WORDS, k=20))
        created = _TIME.format(1 + n * 28 // count, n // 3600 % 24, n // 60 % 60, n % 60, n % 1000)
        name = f"{chance.getrandbits(32):08x}-{n & 0xFFFF:04x}-4{chance.getrandbits(12):03x}-8000-{n:012x}"
        tags = orjson.dumps(
            sorted({f"t{chance.randrange(50)}", f"t{chance.randrange(50)}"})
        ).decode()
        kind, importance = chance.choice(("core", "learning", "task")), chance.choice(IMPORTANCES)
        score = chance.choice((0.3, 0.6, 0.9))
        texts = (
            kind,
            importance,
            "fact",
            created,
            created,
            tags,
            "",
            "{}",
            f"memory {n} common {words}",
        )
        yield Row(NAMESPACE, key, name, 0, score, 1, *texts)


def _shelf(memory: int, row: Row) -> tuple[object, ...]:
    place, size = IMPORTANCES.index(row.importance), len(row.content)
    named = (row.namespace, row.id, memory, row.type, row.category, place, 0, size)
    return (*named, row.created_at, row.updated_at, row.created_at, 0)


def _link(connection: sqlite3.Connection, rows: list[Row], chance: random.Random) -> None:
    def links() -> Iterator[tuple[object, ...]]:
        for n in range(len(rows)):
            many = min(HUB_LINKS, len(rows) - 1) if n == 0 else LINKS
            targets = {chance.randrange(len(rows)) for _ in range(many)} - {n}
            if n % 10 == 9:
                targets.add(1)  # the memory that a tenth of all link to
            yield from sorted(_ranked(rows, n, targets, chance))

    connection.executemany("INSERT INTO links VALUES (?, ?, -?, -?, ?, ?, ?)", links())


def _ranked(
    rows: list[Row], n: int, targets: set[int], chance: random.Random
) -> Iterator[tuple[object, ...]]:
    """A memory's links as they are kept, their numbers negative, so that the best sort first."""
    for target in sorted(targets):
        weight = 0.5 if n == 0 else chance.randrange(101) / 100
        link = (rows[n].key, rows[target].key, "association", weight, weight * rows[target].score)
        yield (NAMESPACE, link[0], -link[4], -weight, link[1], link[2], hash_values(link))
