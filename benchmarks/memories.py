"""The goals about stored memories, on generated stores of rising size."""

import asyncio
import random
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

from abilities import Abilities, Settings, render
from abilities.helpers.stores.changes import Change
from abilities.helpers.stores.conformance import put
from abilities.helpers.stores.protocol import MemoryStore, Query
from abilities.helpers.stores.sqlite.store import SqliteStore, queries, reads
from abilities.helpers.walk import WalkLimits
from benchmarks.generate import HUB, NAMESPACE, generate
from benchmarks.measure import Measured, Taken, interleaved

DEFAULT = WalkLimits(3, 5, 20)
SMALL = 1_000
MIDDLE = 10_000
ROOTS = 200
PAGES = {
    "unfiltered": Query(),
    "type": Query(type="core"),
    "importance": Query(importance="high"),
    "tag": Query(tags=("t7",)),
}


async def goals_of_memories(base: Path, rounds: int, large: int) -> list[Measured]:
    """Walks, pages and statistics at rising sizes; group commit; many callers; a score that many links wait for."""
    sizes = sorted({SMALL, MIDDLE, large})
    for size in sizes:
        generate(base / f"{size}.db", size)
    inline = {size: Inline(base / f"{size}.db", size) for size in sizes}
    ways: dict[str, Callable[[], object]] = {}
    for size, store in inline.items():
        ways |= {f"walk {size}": store.walk, f"hub {size}": store.hub, f"rows {size}": store.rows}
        ways |= {f"stats {size}": store.stats}
        ways |= {f"{name} {size}": store.page(query) for name, query in PAGES.items()}
    taken = await interleaved(ways, rounds * 3)
    for store in inline.values():
        store.connection.close()
    walk, hub, small = f"walk {large}", f"hub {large}", f"walk {SMALL}"
    rows = [
        taken.ratio("8", f"walk at {large:,} memories against {SMALL:,}", "<= 2.5x", walk, small),
        taken.ratio("9", f"walk from a hub of 10,000 links at {large:,}", "<= 2x", hub, walk),
    ]
    for size in (SMALL, large):
        what = f"walk against its rows by key, {size:,}"
        rows.append(taken.ratio("10", what, "<= 4x", f"walk {size}", f"rows {size}"))
    for name in ("stats", *PAGES):
        what = f"{name} at {large:,} against {MIDDLE:,}"
        rows.append(taken.ratio("13", what, "<= 1.5x", f"{name} {large}", f"{name} {MIDDLE}"))
    hot = await _hot_score(base / f"{large}.db", rounds, large)
    return [*rows, *hot, *await _callers(base, rounds), await _characters(base)]


class Inline:
    """A store's reads on this thread, each in a snapshot."""

    def __init__(self, path: Path, size: int) -> None:
        self.connection = SqliteStore(path).connect(writing=False)
        self._size = size
        self._chance = random.Random(4)
        walks = [
            reads.walk(self.connection, NAMESPACE, self._root(), DEFAULT) for _ in range(ROOTS)
        ]
        self._keys = cycle([[step.key for step in found.outcome.steps] for found in walks])
        self._chance = random.Random(3)

    def walk(self) -> object:
        return self._read(lambda c: reads.walk(c, NAMESPACE, self._root(), DEFAULT))

    def hub(self) -> object:
        return self._read(lambda c: reads.walk(c, NAMESPACE, HUB, DEFAULT))

    def rows(self) -> object:
        """The memories of a walk from a root of its own, by their keys."""
        return self._read(lambda c: reads.read(c, NAMESPACE, next(self._keys)))

    def stats(self) -> object:
        return self._read(lambda c: queries.read_stats(c, NAMESPACE))

    def page(self, query: Query) -> Callable[[], object]:
        return lambda: self._read(lambda c: queries.run_query(c, NAMESPACE, query))

    def _root(self) -> str:
        return f"k{self._chance.randrange(2, self._size):07}"

    def _read(self, work: Callable[[Any], object]) -> object:
        self.connection.execute("BEGIN")
        try:
            return work(self.connection)
        finally:
            self.connection.execute("ROLLBACK")


async def _characters(base: Path) -> Measured:
    """Characters of a walk's reply beyond the contents, a memory."""
    settings = Settings(workspace_dir=base, store_url=f"sqlite:///{base}/characters.db")
    keys = [f"{n:02}".ljust(40, "k") for n in range(20)]
    async with Abilities.open(settings) as abilities:
        for key in keys:
            links = [{"key": other} for other in keys if other != key]
            given = {"content": "x" * 200, "links": links, "category": "fact", "tags": ["a", "b"]}
            await abilities.call("store_memory", {"type": "core", "key": key, **given})
        payload = await abilities.call("bulk_read_memory", {"key": keys[0], "breadth": 20})
    payload["metadata"]["frontier"] = []
    beyond = len(render(payload)) / len(keys) - 200
    return Measured("20", "characters beyond its content, a memory in a walk", "<= 450", beyond)


async def _hot_score(path: Path, rounds: int, large: int) -> list[Measured]:
    """Change the score of the memory that a tenth of all link to."""
    store, turn = SqliteStore(path), iter(range(10_000))
    name = (await store.read_linked(NAMESPACE, "k0000001", 0, 0)).row.id

    def change() -> Any:
        fields = {"memory_score": next(turn) % 97 / 97}
        return store.change(
            NAMESPACE, Change("update", "2026-02-01T00:00:00.000Z", name, fields=fields)
        )

    taken = await interleaved({"hot": change}, max(rounds // 10, 3), warm=1)
    await store.close()
    return [
        Measured(
            "12",
            f"ms to change a score that {large // 10:,} links wait for",
            "<= 1000 ms",
            taken["hot"] * 1000,
        )
    ]


async def _callers(base: Path, rounds: int) -> list[Measured]:
    """Writers that share a commit against one after another, and 64 readers against one inline."""
    writes = await shared_commits(SqliteStore(base / "writers.db"), rounds)
    inline, store = Inline(base / f"{MIDDLE}.db", MIDDLE), SqliteStore(base / f"{MIDDLE}.db")

    def alone() -> None:
        for _ in range(320):
            inline.walk()

    async def caller(roots: list[str]) -> None:
        for root in roots:
            await store.walk(NAMESPACE, root, DEFAULT)

    def many() -> Any:
        roots = [f"k{2 + n * 29 % (MIDDLE - 2):07}" for n in range(320)]
        return asyncio.gather(*(caller(roots[n::64]) for n in range(64)))

    reads = await interleaved({"alone": alone, "many": many}, max(rounds // 3, 3))
    inline.connection.close()
    await store.close()
    return [
        writes.ratio(
            "17", "64 writers sharing commits against one after another", ">= 3x", "one", "together"
        ),
        reads.ratio(
            "15", "walks a second of 64 callers against one inline", ">= 0.8x", "alone", "many"
        ),
    ]


async def shared_commits(store: MemoryStore, rounds: int) -> Taken:
    """64 writers, one after another and together; closes the store."""
    numbers = iter(range(10**9))

    async def one_by_one() -> None:
        for _ in range(64):
            await put(store, f"new{next(numbers)}")

    def together() -> Any:
        return asyncio.gather(*(put(store, f"new{next(numbers)}") for _ in range(64)))

    taken = await interleaved({"one": one_by_one, "together": together}, max(rounds // 3, 3))
    await store.close()
    return taken
