"""The goals about stored memories, on generated stores of rising size."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from itertools import count, cycle
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from abilities import Abilities, Settings, render
from abilities.declarations.values import JsonObject
from abilities.helpers.store import queries, reads
from abilities.helpers.store.changes import Change
from abilities.helpers.store.model import MemoryPage, Query
from abilities.helpers.store.protocol import ServableStore
from abilities.helpers.store.reads import walk
from abilities.helpers.store.sqlite.connection import StoreConnection
from abilities.helpers.store.sqlite.file import StoreFile
from abilities.helpers.store.sqlite.store import SqliteStore, connect
from abilities.helpers.store.sqlite.transaction import run
from abilities.helpers.walk import WalkLimits
from benchmarks.generate import HUB, HUB_LINKS, NAMESPACE, prepare_store
from benchmarks.measure import Measured, Timings, Work, run_shuffled
from benchmarks.peers import DEFAULT_BOUND
from tests.stores.behaviours import put

T = TypeVar("T")

DEFAULT_LIMITS = WalkLimits(3, 5, 20)
ROOTS = 200
WRITERS = 64
READERS = 64
READS = 320
PAGES = {
    "unfiltered": Query(),
    "type": Query(type="core"),
    "importance": Query(importance="high"),
    "tag": Query(tags=("t7",)),
}
LABELS = {
    "stats": "statistics",
    "unfiltered": "a page of all",
    "type": "a page of one type",
    "importance": "a page of one importance",
    "tag": "a page of one tag",
}


async def measure_memories(base: Path, rounds: int, sizes: tuple[int, int, int]) -> list[Measured]:
    """Walks, pages and statistics at rising sizes, commits, many callers, a popular score."""
    small, middle, large = sizes
    paths = {size: prepare_store(base, size) for size in sizes}

    timings = await compare_sizes(paths, rounds)
    walk = f"walk {large}"
    hub = f"walk from a hub of {min(HUB_LINKS, large - 1):,} links at {large:,} memories"
    results = [
        timings.ratio(
            "8",
            f"walk at {large:,} memories against {small:,}",
            "<= 2.5x",
            walk,
            f"walk {small}",
        ),
        timings.ratio("9", f"{hub} against a plain one", "<= 2x", f"hub {large}", walk),
    ]
    for size in (small, large):
        what = f"walk against its rows by key, {size:,} memories"
        results.append(timings.ratio("10", what, "<= 4x", f"walk {size}", f"rows {size}"))
    for name in ("stats", *PAGES):
        what = f"{LABELS[name]} at {large:,} memories against {middle:,}"
        results.append(timings.ratio("13", what, "<= 1.5x", f"{name} {large}", f"{name} {middle}"))

    results += await measure_popular_score(paths[large], rounds, large)
    results.append(await measure_writers(base, rounds))
    results.append(await measure_readers(paths[middle], rounds, middle))
    results.append(await measure_characters(base))
    return results


async def compare_sizes(paths: dict[int, Path], rounds: int) -> Timings:
    """Return the timings of all reads on stores of all sizes."""
    stores = {size: InlineStore(path, size) for size, path in paths.items()}
    variants: dict[str, Work] = {}

    for size, store in stores.items():
        variants[f"walk {size}"] = store.walk
        variants[f"hub {size}"] = store.walk_hub
        variants[f"rows {size}"] = store.read_rows
        variants[f"stats {size}"] = store.read_stats
        for name, query in PAGES.items():
            variants[f"{name} {size}"] = store.prepare_query(query)

    timings = await run_shuffled(variants, rounds * 3)

    for store in stores.values():
        store.close()
    return timings


class InlineStore:
    """The reads of a store on this thread, each in one snapshot."""

    def __init__(self, path: Path, size: int) -> None:
        self._connection = connect(StoreFile(path), writing=False)
        self._size = size
        self._keys = cycle(self._collect_keys())
        self._chance = random.Random(3)

    def close(self) -> None:
        self._connection.close()

    def walk(self) -> object:
        return self.walk_from(self._choose_root(self._chance))

    def walk_hub(self) -> object:
        return self.walk_from(HUB)

    def walk_from(self, root: str) -> object:
        return self._read(lambda c: run(c, walk, NAMESPACE, root, DEFAULT_LIMITS))

    def read_rows(self) -> object:
        """Read the memories of a walk by their keys."""
        return self._read(lambda c: run(c, reads.read, NAMESPACE, next(self._keys)))

    def read_stats(self) -> object:
        return self._read(lambda c: run(c, queries.read_stats, NAMESPACE))

    def prepare_query(self, query: Query, namespace: str = NAMESPACE) -> Callable[[], MemoryPage]:
        return lambda: self._read(lambda c: run(c, queries.run_query, namespace, query))

    def _collect_keys(self) -> list[list[str]]:
        """Return the keys that some walks retrieve."""
        chance = random.Random(4)
        keys: list[list[str]] = []

        for _ in range(ROOTS):
            root = self._choose_root(chance)
            walked = run(self._connection, walk, NAMESPACE, root, DEFAULT_LIMITS)
            keys.append([step.key for step in walked.outcome.steps])

        return keys

    def _choose_root(self, chance: random.Random) -> str:
        return f"k{chance.randrange(2, self._size):07}"

    def _read(self, work: Callable[[StoreConnection], T]) -> T:
        self._connection.execute("BEGIN")
        try:
            return work(self._connection)
        finally:
            self._connection.execute("ROLLBACK")


async def measure_characters(base: Path) -> Measured:
    """Count the characters of a walk's reply beyond the contents, per memory."""
    settings = Settings(workspace_dir=base, store_url=f"sqlite:///{base}/characters.db")
    content = "x" * 200
    keys = [f"{n:02}".ljust(40, "k") for n in range(20)]

    async with Abilities.open(settings) as abilities:
        for key in keys:
            memory = {
                "type": "core",
                "key": key,
                "content": content,
                "links": [{"key": other} for other in keys if other != key],
                "category": "fact",
                "tags": ["a", "b"],
            }
            await abilities.call("store_memory", memory)
        payload = await abilities.call("bulk_read_memory", {"key": keys[0], "breadth": 20})

    payload["metadata"]["frontier"] = []
    beyond = len(render(payload)) / len(keys) - len(content)
    what = "characters beyond its content, a memory in a walk in JSON"
    return Measured("20", what, "<= 450", beyond, bound=DEFAULT_BOUND)


async def measure_popular_score(path: Path, rounds: int, large: int) -> list[Measured]:
    """Change the score of the memory that a tenth of all link to, and of one that few link to."""
    store = SqliteStore(path)
    turns = iter(range(10_000))
    variants = {
        "popular": await prepare_score_change(store, "k0000001", turns),
        "plain": await prepare_score_change(store, "k0000007", turns),
    }
    timings = await run_shuffled(variants, max(rounds // 3, 3))
    await settle_ranks(store, path)
    await store.close()

    changed = f"change of the score of a memory that {large // 10:,} links lead to"
    return [
        Measured("12", f"ms for a {changed}", "<= 1000 ms", timings["popular"] * 1000),
        timings.ratio("12", f"{changed}, against a plain one", "<= 25x", "popular", "plain"),
    ]


async def settle_ranks(store: SqliteStore, path: Path) -> None:
    """Make changes until no ranks wait for an update, because a kept store is measured again."""
    connection = connect(StoreFile(path), writing=False)
    numbers = count()

    while connection.execute("SELECT 1 FROM stale_ranks").fetchone():
        await asyncio.gather(*(store_settled(store, next(numbers)) for _ in range(WRITERS)))

    connection.close()


async def store_settled(store: SqliteStore, number: int) -> None:
    """Change one memory, each time in another way."""
    fields: JsonObject = {"type": "core", "content": f"settled {number}"}
    now = "2026-02-01T00:00:00.000Z"
    change = Change("store", now, key="settled", new_id=str(uuid4()), fields=fields)
    await store.change(NAMESPACE, change)


async def prepare_score_change(store: SqliteStore, key: str, turns: Iterator[int]) -> Work:
    """Return a function that changes the score of a memory, each time to another one."""
    memory = await store.read_linked(NAMESPACE, key, 0, 0)

    def change_score() -> Awaitable[object]:
        fields = {"memory_score": next(turns) % 97 / 97}
        change = Change("update", "2026-02-01T00:00:00.000Z", memory.row.id, fields=fields)
        return store.change(NAMESPACE, change)

    return change_score


async def measure_writers(base: Path, rounds: int) -> Measured:
    """Writers that share commits, against one after another."""
    timings = await compare_commits(SqliteStore(base / "writers.db"), rounds)
    what = "64 writers sharing commits against one after another"
    return timings.ratio("17", what, ">= 3x", "one", "together")


async def compare_commits(store: ServableStore, rounds: int) -> Timings:
    """Return the timings of 64 writers, one after another and together; closes the store."""
    numbers = iter(range(10**9))

    async def write_one_by_one() -> None:
        for _ in range(WRITERS):
            await put(store, f"new{next(numbers)}")

    async def write_together() -> None:
        writes = [put(store, f"new{next(numbers)}") for _ in range(WRITERS)]
        await asyncio.gather(*writes)

    variants = {"one": write_one_by_one, "together": write_together}
    timings = await run_shuffled(variants, max(rounds // 3, 3))
    await store.close()
    return timings


async def measure_readers(path: Path, rounds: int, size: int) -> Measured:
    """Walks of 64 callers through the store's thread, against the same number inline."""
    inline = InlineStore(path, size)
    store = SqliteStore(path)
    roots = [f"k{2 + n * 29 % (size - 2):07}" for n in range(READS)]

    def walk_alone() -> None:
        for root in roots:
            inline.walk_from(root)

    async def walk_all(own_roots: list[str]) -> None:
        for root in own_roots:
            await store.walk(NAMESPACE, root, DEFAULT_LIMITS)

    async def walk_together() -> None:
        await asyncio.gather(*(walk_all(roots[n::READERS]) for n in range(READERS)))

    variants = {"alone": walk_alone, "many": walk_together}
    timings = await run_shuffled(variants, max(rounds // 3, 3))
    inline.close()
    await store.close()

    what = "walks per second, 64 callers through their thread against one inline"
    return timings.ratio("15", what, ">= 0.8x", "alone", "many")
