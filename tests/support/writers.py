"""What processes do to a store of either kind while a test kills, follows or counts them.

Each says what was acknowledged, a line at a time.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable

from abilities.declarations.refusals import Refused
from abilities.helpers.store.model import StoredMemory
from abilities.helpers.store.opening import open_store
from abilities.helpers.store.protocol import ServableStore
from tests.stores.behaviours.steps import NAMESPACE, plan, put
from tests.support.forked import Forked

BATCH = 20
"""Memories of a batch."""

Work = Callable[[ServableStore, str, int], Awaitable[None]]


def start(work: Work, url: str, name: str, number: object = 0) -> Forked:
    code = (
        "import sys\n"
        "from tests.support import writers\n"
        f"writers.run(writers.{work.__name__}, *sys.argv[1:])"
    )
    return Forked(code, url, name, number)


def run(work: Work, url: str, name: str, number: str) -> None:
    async def open_and_work() -> None:
        store = open_store(url)
        await work(store, name, int(number))
        await store.close()

    asyncio.run(open_and_work())


async def write_for_ever(store: ServableStore, name: str, start_at: int) -> None:
    """Store memories, eight at a time; say the number of each.

    A write that waited too long for others is made again: on a slow machine they take that long.
    """

    async def write(n: int) -> None:
        content, links = f"{name} {n} " + "x" * (n % 3000), [(f"{name}-{n - 1}", 0.5)]
        is_stored = False
        while not is_stored:
            try:
                await put(store, f"{name}-{n}", content=content, tags=["t"], links=links)
                is_stored = True
            except Refused as refused:
                if refused.reason != "busy":
                    raise
        print(n, flush=True)

    for n in range(start_at, 10**9, 8):
        await asyncio.gather(*(write(n + m) for m in range(8)))


async def link_for_seconds(store: ServableStore, name: str, seconds: int) -> None:
    """Link one memory to others; say how often, and the seconds that 99 of 100 took at most."""
    end, times = time.monotonic() + seconds, list[float]()
    while time.monotonic() < end:
        began = time.monotonic()
        await put(store, "shared", links=[(f"{name}-{len(times)}", 0.5)])
        times.append(time.monotonic() - began)
    print(json.dumps([len(times), sorted(times)[int(len(times) * 0.99)]]))


async def link_once(store: ServableStore, name: str, number: int) -> None:
    await put(store, "shared", links=[(name, 0.5)])


async def count_up(store: ServableStore, name: str, number: int) -> None:
    """Count up a number in one memory; say after how many conflicts each update was made."""
    for _ in range(number):
        conflicts = 0
        while True:
            (memory,) = await store.read(NAMESPACE, ["shared"])
            assert isinstance(memory, StoredMemory)
            fields = {"content": str(int(memory.row.content) + 1)}
            change = plan("update", "shared", fields=fields, if_version=memory.row.version)
            try:
                await store.change(NAMESPACE, change)
                break
            except Refused as refused:
                assert refused.reason == "version_conflict", refused
                conflicts += 1
        print(conflicts, flush=True)


async def store_batches(store: ServableStore, name: str, number: int) -> None:
    while True:
        changes = []
        for n in range(BATCH):
            fields = {"type": "core", "content": "x" * (n * 100 + 1)}
            changes.append(plan("store", f"{number}-{n}", fields=fields))
        outcomes = await store.change_many(NAMESPACE, changes, atomic=True)
        assert not any(isinstance(outcome, Exception) for outcome in outcomes), outcomes
        print(number, flush=True)
        number += 1


async def store_and_delete(store: ServableStore, name: str, number: int) -> None:
    for n in range(number):
        await store.change(NAMESPACE, plan("store", f"{name}-{n}"))
        if n % 5 == 4:
            await store.change(NAMESPACE, plan("store", f"{name}-{n - 1}", caller="again"))
            await store.change(NAMESPACE, plan("delete", f"{name}-{n - 2}"))
