"""The goals about PostgreSQL, on a server that is started for them."""

import asyncio
import random
import sqlite3
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg

from abilities import Settings
from abilities.helpers.search.terms import Language
from abilities.helpers.store import reads
from abilities.helpers.store.engine import Transaction
from abilities.helpers.store.model import LinkRecord
from abilities.helpers.store.model import Row as MemoryRow
from abilities.helpers.store.postgres.pool import build_conninfo
from abilities.helpers.store.postgres.server import Server
from abilities.helpers.store.postgres.store import PostgresStore
from abilities.helpers.store.postgres.transaction import PostgresTransaction
from abilities.helpers.store.protocol import WalkResult
from abilities.helpers.store.reads import walk
from abilities.helpers.store.recall_index import rebuild_index
from abilities.helpers.walk import WalkLimits
from benchmarks.generate import NAMESPACE, prepare_store
from benchmarks.measure import Measured, Work, run_shuffled
from benchmarks.memories import WRITERS, compare_commits
from benchmarks.peers import BOUNDS
from benchmarks.processes import POSTGRESQL, compare_processes
from tests.support import postgres

LIMITS = {"default": WalkLimits(3, 5, 20), "maximum": WalkLimits(6, 20, 50)}
GOALS = {"default": "<= 4x", "maximum": "<= 8x"}
ROOTS = 100

_SHELF = (
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
    "versions": "SELECT namespace, number, forgotten FROM versions",
    "links": f"SELECT namespace, {', '.join(LinkRecord._fields)} FROM links",
    "link_counts": "SELECT namespace, key, outgoing, incoming FROM link_counts",
    "shelf": "SELECT m.namespace AS namespace, m.id AS id, m.key AS key,"
    f" {', '.join(f's.{name} AS {name}' for name in _SHELF)}, s.doc AS doc"
    " FROM shelf AS s JOIN memories AS m ON m.rowid = s.memory",
    "tags": "SELECT namespace, tag, archived, accessed_at, id FROM tags",
    "words": "SELECT namespace, id, lower(content) AS folded FROM memories",
    "counters": "SELECT namespace, name, archived, value, number FROM counters",
}
"""The tables of a database, and where their rows come from in a generated store, in their order."""

_Read = Callable[[Transaction], Coroutine[Any, Any, WalkResult]]


async def measure_postgresql(
    base: Path, rounds: int, sizes: tuple[int, int, int]
) -> list[Measured]:
    """PostgreSQL: walks at rising sizes, one server process and two, and shared commits."""
    small, _, large = sizes
    with postgres.started("shared_buffers=1GB", "max_wal_size=8GB", "fsync=on") as node:
        urls = {size: await create_database(node.url, base, size) for size in (small, large)}
        results = await measure_walks(urls, rounds)

        for bound in BOUNDS:
            settings = Settings(
                agent_dir=base / "agent",
                workspace_dir=base / "workspace",
                store_url=urls[large],
                namespace=NAMESPACE,
                max_response_bytes=bound,
            )
            row = await compare_processes(settings, base, rounds, large, POSTGRESQL)
            results.append(row)

        results.append(await measure_writers(urls[small], rounds))
        return results


async def create_database(server: str, base: Path, size: int) -> str:
    """Create a database with the memories of a generated store, and return its URL."""
    url = urlunsplit(urlsplit(server)._replace(path=f"/memories_{size}"))
    statement = f"CREATE DATABASE memories_{size} TEMPLATE template0 ENCODING 'UTF8'"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(statement.encode())

    store = PostgresStore(url)
    await store.count_memories()  # the first call makes the tables
    await store.close()

    file = prepare_store(base, size)
    await asyncio.to_thread(copy_rows, file, url)
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await connection.execute("SET search_path = abilities_data, public")
        await rebuild_index(PostgresTransaction(connection), NAMESPACE)

    return url


def copy_rows(file: Path, url: str) -> None:
    """Copy all rows; without indexes meanwhile, because building them afterwards is faster."""
    with (
        closing(sqlite3.connect(file)) as store,
        psycopg.connect(url, autocommit=True) as connection,
    ):
        connection.execute("SET search_path = abilities_data, public")
        # The counters are copied, so triggers must not count the rows again.
        connection.execute("SET session_replication_role = replica")

        indexes = connection.execute(
            "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'abilities_data'"
            " AND indexname NOT IN (SELECT conname FROM pg_constraint)"
        ).fetchall()
        for name, _ in indexes:
            connection.execute(f"DROP INDEX {name}".encode())

        for table, statement in COPIED.items():
            rows = store.execute(statement)
            columns = ", ".join(column[0] for column in rows.description)
            command = f"COPY {table} ({columns}) FROM STDIN"
            with connection.cursor().copy(command.encode()) as copy:
                for row in rows:
                    copy.write_row(row)

        for _, definition in indexes:
            connection.execute(definition.encode())
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")


async def measure_walks(urls: dict[int, str], rounds: int) -> list[Measured]:
    """Walks against reads of the same memories by their ids, and large against small."""
    readers = {size: Reader(url, size) for size, url in urls.items()}
    variants: dict[str, Work] = {}

    for size, reader in readers.items():
        for name, limits in LIMITS.items():
            variants[f"{name} {size}"] = reader.prepare_walks(limits)
            variants[f"{name} rows {size}"] = await reader.prepare_reads(limits)

    timings = await run_shuffled(variants, rounds * 5, warmup_rounds=20)
    round_trips = max([await reader.count_round_trips() for reader in readers.values()])
    for reader in readers.values():
        await reader.server.close()

    what = "PostgreSQL: most round trips of a walk at depth 3"
    results = [Measured("14", what, "<= 5", round_trips)]

    for size in urls:
        for name, goal in GOALS.items():
            what = f"PostgreSQL: {name} walk against its rows by id, {size:,} memories"
            results.append(timings.ratio("14", what, goal, f"{name} {size}", f"{name} rows {size}"))

    small, large = urls
    what = f"PostgreSQL: walk at {large:,} memories against {small:,}"
    results.append(timings.ratio("14", what, "<= 2x", f"default {large}", f"default {small}"))
    return results


class Reader:
    """Walks from some roots of a database, and reads of the same memories by their ids."""

    def __init__(self, url: str, size: int) -> None:
        self.server = Server(build_conninfo(url), Language())
        chance = random.Random(3)
        self._roots = [f"k{chance.randrange(2, size):07}" for _ in range(ROOTS)]

    def prepare_walks(self, limits: WalkLimits) -> Work:
        """Return a function that walks from the next root."""
        walks = self._cycle_walks(limits)
        return lambda: self.server.read(NAMESPACE, next(walks))

    async def prepare_reads(self, limits: WalkLimits) -> Work:
        """Return a function that reads the memories of the next walk by their ids."""
        ids: list[list[str]] = []
        for root in self._roots:
            result = await self.server.read(NAMESPACE, prepare_walk(root, limits))
            ids.append(
                [memory.row.id for memory in result.memories if not isinstance(memory, Exception)]
            )

        turns = cycle(ids)

        def read() -> Coroutine[Any, Any, object]:
            chosen = next(turns)
            return self.server.read(NAMESPACE, lambda t: reads.read_ids(t, NAMESPACE, chosen))

        return read

    async def count_round_trips(self) -> int:
        """Return the most statements that a default walk executes."""
        walks = self._cycle_walks(LIMITS["default"])
        waiting = (PostgresTransaction.fetch, PostgresTransaction.fetch_each)
        most = 0
        count = 0

        def count_calls(wait: Callable[..., Any]) -> Callable[..., Any]:
            async def count_and_wait(*arguments: Any) -> Any:
                nonlocal count
                count += 1
                return await wait(*arguments)

            return count_and_wait

        for wait in waiting:
            setattr(PostgresTransaction, wait.__name__, count_calls(wait))
        try:
            for _ in range(ROOTS):
                count = 0
                await self.server.read(NAMESPACE, next(walks))
                most = max(most, count)
        finally:
            for wait in waiting:
                setattr(PostgresTransaction, wait.__name__, wait)

        return most

    def _cycle_walks(self, limits: WalkLimits) -> Iterator[_Read]:
        return cycle([prepare_walk(root, limits) for root in self._roots])


def prepare_walk(root: str, limits: WalkLimits) -> _Read:
    """Return a function that walks from a root in a transaction."""

    async def start(transaction: Transaction) -> WalkResult:
        return await walk(transaction, NAMESPACE, root, limits, "out")

    return start


async def measure_writers(url: str, rounds: int) -> Measured:
    """Writers that share commits, against one after another."""
    timings = await compare_commits(PostgresStore(url), rounds)
    what = "PostgreSQL: 64 writers sharing commits against one after another"
    note = f"{WRITERS / timings['together']:,.0f} per second"
    return timings.ratio("17", what, ">= 1x", "one", "together", note=note)
