"""Pages of queries far from the start, and queries that look at many memories."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from uuid import uuid4

from abilities.declarations.values import JsonObject
from abilities.helpers.search.terms import Language
from abilities.helpers.store import queries
from abilities.helpers.store.changes import Change
from abilities.helpers.store.model import MemoryPage, Query
from abilities.helpers.store.postgres.pool import build_conninfo
from abilities.helpers.store.postgres.server import Server
from abilities.helpers.store.sqlite.store import SqliteStore
from benchmarks.generate import NAMESPACE, prepare_store
from benchmarks.measure import Measured, Timings, Work, run_shuffled
from benchmarks.memories import InlineStore
from benchmarks.postgresql import create_database
from tests.support import postgres

SMALL_NAMESPACE = "small"
SMALL = 2_000
"""The memories of a namespace beside a large one."""

DEPTH = 0.9
"""How far into all memories the deep pages lie."""

SEARCHES = {
    "search and tag": Query(search=("word7",), tags=("t7",)),
    "two characters": Query(search=("d7",)),
}


async def measure_pages(base: Path, rounds: int, size: int) -> list[Measured]:
    """Pages by a cursor against the first one and by an offset, and queries of many matches."""
    path = prepare_store(base, size)
    await fill_small_namespace(path, min(SMALL, size))
    store = InlineStore(path, size)

    offset = int(size * DEPTH)
    by_offset = Query(offset=offset)
    position = store.prepare_query(by_offset)().positions[-1]
    variants: dict[str, Work] = {
        "first": store.prepare_query(Query()),
        "cursor": store.prepare_query(Query(after=position)),
        "offset": store.prepare_query(by_offset),
        "search and tag": store.prepare_query(SEARCHES["search and tag"]),
        "two characters": store.prepare_query(SEARCHES["two characters"], SMALL_NAMESPACE),
    }
    timings = await run_shuffled(variants, rounds)
    store.close()

    beside = f"in a namespace of {min(SMALL, size):,} beside {size:,}"
    place = f"behind {offset:,} of {size:,} memories"
    return [
        *describe_cursor("", timings, place),
        describe_time(timings, "offset", f"for a page {place} by offset", "<= 60 ms"),
        describe_time(timings, "cursor", f"for a page {place} by cursor", "<= 1 ms"),
        describe_time(
            timings, "search and tag", f"for a search and a tag at {size:,} memories", "<= 300 ms"
        ),
        describe_time(
            timings, "two characters", f"for a search of two characters {beside}", "<= 5 ms"
        ),
    ]


def describe_cursor(beginning: str, timings: Timings, place: str) -> list[Measured]:
    """Return what a page by a cursor costs: against the first page, and against an offset."""
    page = f"{beginning}a page {place}"
    return [
        timings.ratio("13b", f"{page} by cursor, against the first", "<= 1.5x", "cursor", "first"),
        timings.ratio("13b", f"{page} by offset, against by cursor", "", "offset", "cursor"),
    ]


def describe_time(timings: Timings, name: str, what: str, wanted: str) -> Measured:
    """Return the median of a variant in milliseconds."""
    return Measured("13b", f"ms {what}", wanted, timings[name] * 1000)


async def fill_small_namespace(path: Path, count: int) -> None:
    """Store memories in a second namespace, unless they are there."""
    store = SqliteStore(path)
    stats = await store.read_stats(SMALL_NAMESPACE)
    if stats.total < count:
        await asyncio.gather(*(store_small(store, number) for number in range(count)))

    await store.close()


async def store_small(store: SqliteStore, number: int) -> None:
    """Store one memory of the small namespace."""
    fields: JsonObject = {"type": "core", "content": f"small {number} word{number % 97}"}
    now = "2026-02-01T00:00:00.000Z"
    change = Change("store", now, key=f"s{number}", new_id=str(uuid4()), fields=fields)
    await store.change(SMALL_NAMESPACE, change)


async def measure_postgresql_pages(base: Path, rounds: int, size: int) -> list[Measured]:
    """PostgreSQL: pages by a cursor against the first one and by an offset."""
    with postgres.started("shared_buffers=1GB", "max_wal_size=8GB", "fsync=on") as node:
        url = await create_database(node.url, base, size)
        server = Server(build_conninfo(url), Language())

        offset = int(size * DEPTH)
        deep = Query(offset=offset)
        page = await prepare_query(server, deep)()
        variants: dict[str, Work] = {
            "first": prepare_query(server, Query()),
            "cursor": prepare_query(server, Query(after=page.positions[-1])),
            "offset": prepare_query(server, deep),
        }
        timings = await run_shuffled(variants, rounds * 3)
        await server.close()

    return describe_cursor("PostgreSQL: ", timings, f"behind {offset:,} of {size:,} memories")


def prepare_query(server: Server, query: Query) -> Callable[[], Awaitable[MemoryPage]]:
    """Return a function that runs a query in a snapshot of its own."""
    run = partial(queries.run_query, namespace=NAMESPACE, query=query)
    return lambda: server.read(NAMESPACE, run)
