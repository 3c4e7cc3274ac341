"""The goals about PostgreSQL, on a server started for them: walks, processes and writers."""

import asyncio
import random
import sqlite3
from contextlib import closing
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg

from abilities import Settings
from abilities.helpers.stores.model import Row as MemoryRow
from abilities.helpers.stores.postgres import reads, walks
from abilities.helpers.stores.postgres.conninfo import build_conninfo
from abilities.helpers.stores.postgres.server import Server
from abilities.helpers.stores.postgres.statements import Connection, Select
from abilities.helpers.stores.postgres.store import PostgresStore
from abilities.helpers.walk import WalkLimits
from benchmarks.generate import NAMESPACE, generate
from benchmarks.measure import Measured, interleaved
from benchmarks.memories import shared_commits
from benchmarks.served import walks_through_processes
from tests.support import postgres

SMALL = 1_000
LIMITS = {"default": WalkLimits(3, 5, 20), "maximum": WalkLimits(6, 20, 50)}
GOALS = {"default": "<= 4x", "maximum": "<= 8x"}
ROOTS = 100
_SHELVED = (
    "type",
    "category",
    "importance",
    "archived",
    "size",
    "created_at",
    "updated_at",
    "accessed_at",
    "access_count",
)
COPIED = {
    "memories": f"SELECT {', '.join(MemoryRow._fields)}, hash FROM memories",
    "links": "SELECT namespace, source, target, type, weight, rank, hash FROM links",
    "shelf": f"SELECT m.namespace, m.id, m.key, {', '.join(f's.{name}' for name in _SHELVED)}"
    " FROM shelf AS s JOIN memories AS m ON m.rowid = s.memory",
    "tags": "SELECT namespace, tag, archived, accessed_at, id FROM tags",
    "words": "SELECT namespace, id, lower(content) FROM memories",
    "counters": "SELECT namespace, name, archived, value, number FROM counters",
}


async def goals_of_postgresql(base: Path, rounds: int, large: int) -> list[Measured]:
    """Measure walks at rising sizes, reads through one and two servers, and shared commits."""
    with postgres.started("shared_buffers=1GB", "max_wal_size=8GB", "fsync=on") as node:
        urls = {size: await filled(node.url, base, size) for size in (SMALL, large)}
        rows = await _walks(urls, rounds, large)
        for name in ("agent", "work"):
            (base / "postgresql" / name).mkdir(parents=True)
        roots = {
            "agent_dir": base / "postgresql" / "agent",
            "workspace_dir": base / "postgresql" / "work",
        }
        settings = Settings(
            **roots, store_url=urls[large], namespace=NAMESPACE, max_response_bytes=1_000_000
        )
        rows += await walks_through_processes(
            settings, base / "postgresql", rounds, large, "on PostgreSQL, "
        )
        return [*rows, await _writers(urls[SMALL], rounds)]


async def filled(server: str, base: Path, size: int) -> str:
    """The URL of a database with the memories of a generated store."""
    url = urlunsplit(urlsplit(server)._replace(path=f"/memories_{size}"))
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(
            f"CREATE DATABASE memories_{size} TEMPLATE template0 ENCODING 'UTF8'".encode()
        )
    store = PostgresStore(url)
    await store.count_memories()
    await store.close()
    if not (base / f"{size}.db").exists():
        generate(base / f"{size}.db", size)
    await asyncio.to_thread(_copy, base / f"{size}.db", url)
    return url


def _copy(file: Path, url: str) -> None:
    with (
        closing(sqlite3.connect(file)) as store,
        psycopg.connect(url, autocommit=True) as connection,
    ):
        connection.execute("SET search_path = abilities, public")
        connection.execute(
            "SET session_replication_role = replica"
        )  # what triggers count is copied
        indexes = connection.execute(
            "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'abilities'"
            " AND indexname NOT IN (SELECT conname FROM pg_constraint)"
        ).fetchall()
        for name, _ in indexes:
            connection.execute(f"DROP INDEX {name}".encode())
        for table, statement in COPIED.items():
            with connection.cursor().copy(f"COPY {table} FROM STDIN".encode()) as copy:
                for row in store.execute(statement):
                    copy.write_row(row)
        for _, definition in indexes:
            connection.execute(definition.encode())
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")


async def _walks(urls: dict[int, str], rounds: int, large: int) -> list[Measured]:
    ways: dict[str, Any] = {}
    readers = {size: Reader(url, size) for size, url in urls.items()}
    for size, reader in readers.items():
        for name, limits in LIMITS.items():
            await reader.learn(name, limits)
            ways[f"{name} {size}"] = lambda reader=reader, name=name: reader.walk(name)
            ways[f"{name} rows {size}"] = lambda reader=reader, name=name: reader.rows(name)
    taken = await interleaved(ways, rounds * 5, warm=20)
    trips = max([await reader.trips() for reader in readers.values()])
    for reader in readers.values():
        await reader.server.close()
    rows = [Measured("14", "PostgreSQL: most round trips of a walk at depth 3", "<= 5", trips)]
    for size in urls:
        for name, goal in GOALS.items():
            what = f"PostgreSQL: {name} walk against its rows by id, {size:,}"
            rows.append(taken.ratio("14", what, goal, f"{name} {size}", f"{name} rows {size}"))
    what = f"PostgreSQL: walk at {large:,} against {SMALL:,}"
    return [*rows, taken.ratio("14", what, "<= 2x", f"default {large}", f"default {SMALL}")]


class Reader:
    """Walks from some roots of a database, and reads of the same memories by their ids."""

    def __init__(self, url: str, size: int) -> None:
        self.server = Server(build_conninfo(url))
        chance = random.Random(3)
        self._roots = [f"k{chance.randrange(2, size):07}" for _ in range(ROOTS)]
        self._turn: dict[str, Any] = {}
        self._ids: dict[str, Any] = {}

    async def learn(self, name: str, limits: WalkLimits) -> None:
        """Make each walk once, for the ids of its memories."""
        found: list[list[str]] = []
        for root in self._roots:
            result = await self.server.read(_walk(root, limits))
            found.append(
                [memory.row.id for memory in result.memories if not isinstance(memory, Exception)]
            )
        self._ids[name] = cycle(found)
        self._turn[name] = cycle([_walk(root, limits) for root in self._roots])

    async def walk(self, name: str) -> object:
        return await self.server.read(next(self._turn[name]))

    async def rows(self, name: str) -> object:
        ids = next(self._ids[name])
        return await self.server.read(lambda connection: reads.read_ids(connection, NAMESPACE, ids))

    async def trips(self) -> int:
        """The most questions that a default walk asks."""
        most, asked, execute = 0, 0, Select._execute

        async def count(*arguments: Any) -> Any:
            nonlocal asked
            asked += 1
            return await execute(*arguments)

        Select._execute = count
        for _ in range(ROOTS):
            asked = 0
            await self.walk("default")
            most = max(most, asked)
        Select._execute = execute
        return most


def _walk(root: str, limits: WalkLimits) -> Any:
    def walk(connection: Connection) -> Any:
        return walks.walk(connection, NAMESPACE, root, limits)

    return walk


async def _writers(url: str, rounds: int) -> Measured:
    """Writers that share a commit against one after another."""
    taken = await shared_commits(PostgresStore(url), rounds)
    rate = f"{64 / taken['together']:,.0f} a second"
    what = f"PostgreSQL: 64 writers sharing commits ({rate}), one by one"
    return taken.ratio("17", what, ">= 1x", "one", "together")
